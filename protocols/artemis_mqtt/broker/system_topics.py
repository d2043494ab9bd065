"""`$SYS` topics: the numbers that monitoring tools for MQTT expect, under mosquitto's names.

The numbers are published as retained messages when a client subscribes to them, and cost nothing otherwise. The broker
itself publishes them: none is stored, and no client may publish there. Permissions on `$SYS.#` decide which clients may
read them; clients without a name may only if the acceptor says so.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from artemis_mqtt.broker.format import RETAIN, RETAINED_COPY
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain

if TYPE_CHECKING:
    from artemis_mqtt.broker.manager import MqttProtocolManager

PREFIX: Final = "$SYS"


def is_system_topic(topic: str) -> bool:
    """Tell whether a topic or filter proper is below `$SYS`."""
    return topic.partition("/")[0] == PREFIX


# mosquitto's `sys_interval`.
INTERVAL_MS: Final = 10_000


class SystemTopics:
    """Publishes the numbers of one broker."""

    def __init__(self, manager: "MqttProtocolManager") -> None:
        self._manager: Final = manager
        self._office: Final[Domain] = manager.postoffice
        self._version: Final = version("artemis_py")
        self._is_planned = False
        self._retained: Final = manager.host.retained
        self._started_ms = manager.postoffice.dispatcher.now_ms

    def wanted(self, queue: Queue) -> None:
        """Serve a subscription to `$SYS`: it gets the numbers now, and as long as it lasts."""
        self._publish([queue], RETAIN | RETAINED_COPY)
        self._plan()

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._office.dispatcher.timers.at(self._office.dispatcher.now_ms + INTERVAL_MS, self._due)

    def _due(self) -> None:
        self._is_planned = False
        delimiter = self._office.options.wildcards.delimiter
        queues = [
            queue
            for queue in self._office.queues.values()
            if queue.address.name.startswith(PREFIX + delimiter) and queue.routing_type is RoutingType.MULTICAST
        ]
        if queues:
            self._publish(queues, RETAIN)
            self._plan()

    def _publish(self, queues: list[Queue], flags: int) -> None:
        names = self._manager.names
        wildcards = self._office.options.wildcards
        for topic, value in self._numbers().items():
            address = names.address(f"{PREFIX}/broker/{topic}")
            for queue in queues:
                if wildcards.matches(queue.address.name, address):
                    message = Message(self._manager.format, address, value.encode(), bytes((flags,)))
                    self._manager.host.deposit(message, queue)

    def _numbers(self) -> dict[str, str]:
        office = self._office
        sessions = self._manager.sessions
        connected = sessions.connected_count
        messages = sum(queue.message_count for queue in office.queues.values())
        return {
            "version": f"artemis_py {self._version}",
            "uptime": f"{(office.dispatcher.now_ms - self._started_ms) // 1000} seconds",
            "clients/connected": str(connected),
            "clients/disconnected": str(len(sessions) - connected),
            "clients/total": str(len(sessions)),
            "subscriptions/count": str(sessions.subscription_count),
            "retained messages/count": str(self._retained.count),
            "store/messages/count": str(messages),
            "store/messages/bytes": str(office.account.size_bytes),
            "messages/received": str(sum(address.routed + address.unrouted for address in office.addresses.values())),
            "messages/sent": str(sum(queue.messages_acknowledged for queue in office.queues.values())),
        }
