"""A broker as the programs see it: where it is, its clients, and its management over AMQP."""

import json
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from proton import Message

from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.server import MqttServer
from tests.interop.proton.client import TIMEOUT_S, Client, Received, Receiver, Refused

POLL_S: Final = 0.02


class Site:
    """One broker, Apache Artemis or this one. `url` changes when it is restarted."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._shared: Client | None = None

    @property
    def client(self) -> Client:
        """A connection for everything but consumers whose end matters."""
        if self._shared is None:
            self._shared = Client(self.url)
        return self._shared

    def connect(self, container_id: str | None = None) -> Client:
        """Open a connection of its own; use it as a context manager."""
        return Client(self.url, container_id)

    def paho(self, client_id: str, **options: Any) -> Paho:
        """Connect an MQTT client; use it as a context manager."""
        return Paho(_Port(int(self.url.rpartition(":")[2])), client_id, **options)

    def disconnect(self) -> None:
        """Close the shared connection."""
        if self._shared is not None:
            self._shared.close()
            self._shared = None

    def forget(self) -> None:
        """Make another shared connection next time: the broker of this one is gone."""
        self._shared = None

    def send(self, address: str, *messages: Message | str, capabilities: Iterable[str] = ()) -> None:
        """Send and wait for the outcomes; text is the body of a durable message."""
        whole = [text(message) if isinstance(message, str) else message for message in messages]
        self.client.send(address, *whole, capabilities=tuple(capabilities))

    def waiting(self, queue: str) -> list[Any]:
        """Bodies that a browser of a queue is shown."""
        browser = self.client.receiver(queue, copy=True)
        received = browser.drain()
        browser.close()
        return [one.body for one in received]

    def after_each(self, queue: str, messages: Iterable[Message | str]) -> list[list[Any]]:
        """Send messages to a queue; what waits in it after each."""
        seen = []
        for message in messages:
            self.send(queue, message)
            seen.append(self.waiting(queue))
        return seen

    def manage(self, resource: str, operation: str, *parameters: Any) -> Any:
        """Perform an operation of management. Raises Refused."""
        return self._ask({"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}, json.dumps(parameters))

    def attribute(self, resource: str, name: str) -> Any:
        """Return an attribute of management. Raises Refused."""
        return self._ask({"_AMQ_ResourceName": resource, "_AMQ_Attribute": name}, "[]")

    def count(self, queue: str) -> int:
        """Messages of a queue: waiting, delivered and scheduled."""
        number: int = self.attribute(f"queue.{queue}", "MessageCount")
        return number

    def update(self, queue: str, **attributes: object) -> None:
        """Change attributes of a queue; `_` in a name is `-`. Raises Refused."""
        request = {name.replace("_", "-"): value for name, value in attributes.items()}
        # Artemis takes whatever is not named for unset, and refuses to change the routing type.
        given = {"name": queue, "routing-type": "ANYCAST", **request}
        self.manage("broker", "updateQueue", json.dumps(given))

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Ask until it holds: for what a broker does by itself after a time."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"waited for {what}"
            time.sleep(POLL_S)

    def _ask(self, properties: dict[str, str], body: str) -> Any:
        replies = self.client.receiver(None, dynamic=True)
        request = Message(body=body, reply_to=replies.address, properties=properties)
        self.client.send("activemq.management", request)
        reply = replies.receive()
        reply.accept()
        replies.close()
        message = reply.message
        # Without a result Artemis leaves the body out.
        (result,) = json.loads(message.body or "[null]")
        if not message.properties["_AMQ_OperationSucceeded"]:
            raise Refused("management", str(result))
        return result


class _Port(MqttServer):
    """A server of which only the port is known."""

    def __init__(self, port: int) -> None:
        self.port = self.websocket_port = port


def text(body: str, /, **fields: Any) -> Message:
    """Make a durable message."""
    return Message(body=body, durable=True, **fields)


def keyed(body: str, key: object, **fields: Any) -> Message:
    """Make a durable message with a key for last-value queues."""
    return text(body, properties={"_AMQ_LVQ_NAME": key}, **fields)


def grouped(body: str, group: str, **fields: Any) -> Message:
    """Make a durable message of a group."""
    return text(body, group_id=group, **fields)


def bodies(received: Iterable[Received]) -> list[Any]:
    """Return the bodies of deliveries; they stay unsettled."""
    return [one.body for one in received]


def arrived(receiver: Receiver) -> list[Any]:
    """Bodies of all that the broker has for a consumer within the credit that it has already; they stay unsettled."""
    return bodies(receiver.drain(0))


def accepted(receiver: Receiver) -> list[Any]:
    """Bodies of all that the broker has for a consumer within the credit that it has already, accepted."""
    received = receiver.drain(0)
    for one in received:
        one.accept()
    return bodies(received)
