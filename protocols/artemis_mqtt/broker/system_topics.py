"""`$SYS` topics: the numbers that monitoring tools for MQTT expect, under mosquitto's names.

The numbers are published as retained messages when a client subscribes to them, and cost nothing otherwise. The broker
itself publishes them: none is stored, and no client may publish there. Permissions on `$SYS.#` decide which clients may
read them; clients without a name may only if the acceptor says so.
"""

from typing import TYPE_CHECKING, Final

from artemis_mqtt.broker.format import RETAIN, RETAINED_COPY
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.release import installed_version

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
        self._host: Final = manager.host
        self._version: Final = installed_version()
        self._is_planned = False
        self._started_steady_ms = manager.host.dispatcher.steady_ms

    def wanted(self, queue: Queue) -> None:
        """Serve a subscription to `$SYS`: it gets the numbers now, and as long as it lasts."""
        self._publish([queue], RETAIN | RETAINED_COPY)
        self._plan()

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._host.after(INTERVAL_MS, self._due)

    def _due(self) -> None:
        self._is_planned = False
        delimiter = self._host.options.wildcards.delimiter
        queues = [
            queue
            for queue in self._host.sessions.queues()
            if queue.address.name.startswith(PREFIX + delimiter) and queue.routing_type is RoutingType.MULTICAST
        ]
        if queues:
            self._publish(queues, RETAIN)
            self._plan()

    def _publish(self, queues: list[Queue], flags: int) -> None:
        names = self._manager.names
        wildcards = self._host.options.wildcards
        for topic, value in self._numbers().items():
            address = names.address(f"{PREFIX}/broker/{topic}")
            for queue in queues:
                if wildcards.matches(queue.address.name, address):
                    message = Message(self._manager.format, address, value.encode(), bytes((flags,)))
                    self._host.deposit(message, queue)

    def _numbers(self) -> dict[str, str]:
        host = self._host
        totals = host.sessions.totals()
        sessions = self._manager.sessions
        connected = sessions.connected_count
        return {
            "version": f"artemis_py {self._version}",
            "uptime": f"{(host.dispatcher.steady_ms - self._started_steady_ms) // 1000} seconds",
            "clients/connected": str(connected),
            "clients/disconnected": str(len(sessions) - connected),
            "clients/total": str(len(sessions)),
            "subscriptions/count": str(sessions.subscription_count),
            "retained messages/count": str(host.retained.count),
            "store/messages/count": str(totals.messages),
            "store/messages/bytes": str(host.memory.size_bytes),
            "messages/received": str(totals.messages_in),
            "messages/sent": str(totals.messages_out),
        }
