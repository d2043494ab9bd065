"""Eclipse Paho's client, callbacks turned into calls that wait: one line of a test, one step."""

from collections.abc import Callable
from queue import Empty, Queue
from types import TracebackType
from typing import Any, Final

from paho.mqtt.client import Client, MQTTMessage, MQTTProtocolVersion
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.interop.mqtt.server import HOST, MqttServer

TIMEOUT_S: Final = 60.0


class Refused(Exception):
    """The server refused the connection; `code` as Paho names it for both versions."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code: Final = code


def close_sockets(client: Client) -> None:
    """Close what is left of a client whose thread has ended.

    The thread may have ended before the broker closed the connection. And the pair of sockets that wakes it is closed
    by the client's finalizer, which Python may call after those of the sockets: each is a warning then.
    """
    client._reset_sockets()


class Paho:
    """A connected client. `version` is 3 (3.1), 4 (3.1.1) or 5."""

    def __init__(
        self,
        server: MqttServer,
        client_id: str = "",
        *,
        version: int = 5,
        transport: str = "tcp",
        clean: bool = True,
        expiry_s: int = 0,
        keep_alive: int = 60,
        user: str | None = None,
        password: str | None = None,
        setup: Callable[[Client], None] = lambda client: None,
    ) -> None:
        self.version: Final = version
        self.inbox: Final[Queue[MQTTMessage]] = Queue()
        self._answers: Final[Queue[tuple[str, Any]]] = Queue()
        self.client: Final = Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            clean_session=clean if version < 5 else None,
            protocol=MQTTProtocolVersion(version),
            transport=transport,
            reconnect_on_failure=False,
        )
        if transport == "websockets":
            self.client.ws_set_options(path="/mqtt")
        if user is not None:
            self.client.username_pw_set(user, password)
        self.client.on_connect = self._on_connect
        self.client.on_message = self._on_message
        self.client.on_subscribe = self._on_answer("subscribed")
        self.client.on_unsubscribe = self._on_answer("unsubscribed")
        self.client.on_disconnect = self._on_disconnect
        setup(self.client)
        properties = None
        if version == 5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = expiry_s
        port = server.websocket_port if transport == "websockets" else server.port
        if version == 5:
            self.client.connect(HOST, port, keep_alive, clean_start=clean, properties=properties)
        else:
            self.client.connect(HOST, port, keep_alive)
        self.client.loop_start()
        flags, code, self.connack_properties = self._answer("connected")
        self.session_present: Final[bool] = flags.session_present
        if code.is_failure:
            self.close()
            raise Refused(code.value, str(code))

    def __enter__(self) -> "Paho":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def subscribe(self, topic: str, qos: int = 0, **options: Any) -> int:
        """The granted QoS or the reason code."""
        if self.version == 5:
            self.client.subscribe(topic, options=SubscribeOptions(qos, **options))
        else:
            self.client.subscribe(topic, qos)
        codes = self._answer("subscribed")
        code: int = codes[0].value
        return code

    def unsubscribe(self, topic: str) -> None:
        """Return when the server has answered."""
        self.client.unsubscribe(topic)
        self._answer("unsubscribed")

    def publish(self, topic: str, payload: str | bytes, qos: int = 0, retain: bool = False, **properties: Any) -> None:
        """Return when the message is sent and, with QoS, acknowledged."""
        given = None
        if properties:
            given = Properties(PacketTypes.PUBLISH)
            for name, value in properties.items():
                setattr(given, name, value)
        self.client.publish(topic, payload, qos, retain, given).wait_for_publish(TIMEOUT_S)

    def receive(self) -> MQTTMessage:
        """The next message. Paho acknowledges it."""
        return self.inbox.get(timeout=TIMEOUT_S)

    def receive_all(self, count: int) -> list[bytes]:
        """The payloads of the next messages."""
        return [self.receive().payload for _ in range(count)]

    def nothing_came(self) -> bool:
        """Nothing is here; the caller has awaited something later."""
        try:
            self.inbox.get_nowait()
        except Empty:
            return True
        return False

    def wait_disconnected(self) -> int:
        """The reason why the server closed, as Paho names it."""
        code: int = self._answer("disconnected").value
        return code

    def close(self) -> None:
        """Say goodbye, and wait for the thread."""
        self.client.disconnect()
        self.client.loop_stop()
        close_sockets(self.client)

    def break_off(self) -> None:
        """End without a DISCONNECT."""
        socket = self.client.socket()
        assert socket is not None
        socket.close()
        self.client.loop_stop()
        close_sockets(self.client)

    def _answer(self, what: str) -> Any:
        kind, value = self._answers.get(timeout=TIMEOUT_S)
        assert kind == what, f"expected {what}: {kind} {value}"
        return value

    def _on_connect(self, client: Client, data: Any, flags: Any, code: Any, properties: Any) -> None:
        self._answers.put(("connected", (flags, code, properties)))

    def _on_message(self, client: Client, data: Any, message: MQTTMessage) -> None:
        self.inbox.put(message)

    def _on_answer(self, what: str) -> Callable[..., None]:
        def put(client: Client, data: Any, number: int, codes: Any, properties: Any) -> None:
            self._answers.put((what, codes))

        return put

    def _on_disconnect(self, client: Client, data: Any, flags: Any, code: Any, properties: Any) -> None:
        self._answers.put(("disconnected", code))
