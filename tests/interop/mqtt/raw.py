"""A client on a bare socket: it may do what no client library would, and sees every packet."""

import socket
from collections.abc import Sequence
from itertools import count
from types import TracebackType
from typing import ClassVar, Final

from tests.interop.mqtt import packets
from tests.interop.mqtt.packets import Packet, Properties, Property, Will
from tests.interop.mqtt.server import HOST, MqttServer

TIMEOUT_S: Final = 60.0
"""Far above what an answer takes; a loaded machine must not fail the suite."""

_COUNTER: Final = count(1)

NO_LOCAL: Final = 4
RETAIN_AS_PUBLISHED: Final = 8
RETAIN_IF_NEW: Final = 0x10
RETAIN_NEVER: Final = 0x20


class Closed(Exception):
    """The server closed the connection."""


class Raw:
    """One connection. Messages that arrive while an answer is awaited wait in `inbox`."""

    all: ClassVar[list["Raw"]] = []
    """Every connection of the running test, which may fail before it closes them."""

    def __init__(self, server: MqttServer, version: int = 5) -> None:
        self.version: Final = version
        self.inbox: list[Packet] = []
        self.connack: Packet = Packet(kind=0)
        self._socket: Final = socket.create_connection((HOST, server.port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self._packet_id = 0
        Raw.all.append(self)

    def __enter__(self) -> "Raw":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()

    # Octets and packets

    def send(self, data: bytes) -> None:
        """Anything at all."""
        self._socket.sendall(data)

    def read(self) -> Packet:
        """The next packet. Raises Closed at the end of the stream."""
        first = self._take(1)[0]
        length = shift = 0
        header = 1
        while True:
            octet = self._take(1)[0]
            header += 1
            length |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                break
        return packets.read(self.version, first, self._take(length), header + length)

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            try:
                more = self._socket.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                raise Closed
            self._received += more
        data, self._received = self._received[:size], self._received[size:]
        return data

    def expect(self, kind: int) -> Packet:
        """The next packet that is no PUBLISH, which must be of this type."""
        while True:
            packet = self.read()
            if packet.kind == kind:
                return packet
            assert packet.kind == packets.PUBLISH, f"expected a packet of type {kind}: {packet}"
            self.inbox.append(packet)

    def wait_closed(self) -> Packet | None:
        """Read until the server closes; the DISCONNECT it sent before, if any."""
        last: Packet | None = None
        while True:
            try:
                packet = self.read()
            except Closed:
                return last
            assert last is None, f"{packet} after a DISCONNECT"
            if packet.kind == packets.DISCONNECT:
                last = packet

    def wait_closed_or(self, kind: int) -> Packet | None:
        """The packet of this type, or None if the server closes instead."""
        while True:
            try:
                packet = self.read()
            except Closed:
                return None
            if packet.kind == kind:
                return packet

    def read_to_end(self) -> bytes:
        """All octets until the server closes."""
        data = b""
        while True:
            try:
                data += self._take(1)
            except Closed:
                return data

    # Exchanges

    def connect(
        self,
        client_id: str = "",
        clean: bool = True,
        keep_alive: int = 0,
        given: Properties = (),
        will: Will | None = None,
        user: str | None = None,
        password: str | None = None,
    ) -> Packet:
        """Send CONNECT; the CONNACK, whatever it says."""
        self.send(packets.connect(self.version, client_id, clean, keep_alive, given, will, user, password))
        self.connack = self.read()
        assert self.connack.kind == packets.CONNACK
        return self.connack

    def next_id(self) -> int:
        """A packet identifier that was not used before."""
        self._packet_id += 1
        return self._packet_id

    def subscribe(self, *filters: str, options: int = 0, given: Properties = ()) -> tuple[int, ...]:
        """Subscribe to all with the same options octet (the QoS in its low bits); the codes of the SUBACK."""
        number = self.next_id()
        self.send(packets.subscribe(self.version, number, [(topic, options) for topic in filters], given))
        suback = self.expect(packets.SUBACK)
        assert suback.packet_id == number
        return suback.codes

    def unsubscribe(self, *filters: str) -> tuple[int, ...]:
        """The codes of the UNSUBACK; none in version 3."""
        number = self.next_id()
        self.send(packets.unsubscribe(self.version, number, filters))
        unsuback = self.expect(packets.UNSUBACK)
        assert unsuback.packet_id == number
        return unsuback.codes

    def publish(
        self, topic: str, payload: bytes | str = b"", qos: int = 0, retain: bool = False, given: Properties = ()
    ) -> int:
        """Send a message and all its handshake; the reason code of PUBACK or PUBREC."""
        number = self.next_id() if qos else 0
        if isinstance(payload, str):
            payload = payload.encode()
        self.send(packets.publish(self.version, topic, payload, qos, number, retain, given=given))
        code = 0
        if qos:
            answer = self.expect(packets.PUBACK if qos == 1 else packets.PUBREC)
            assert answer.packet_id == number
            code = answer.code
        if qos == 2 and code < 0x80:
            self.send(packets.answer(packets.PUBREL, number))
            assert self.expect(packets.PUBCOMP).packet_id == number
        return code

    def receive(self, acknowledge: bool = True) -> Packet:
        """The next message, acknowledged as its QoS asks for."""
        if self.inbox:
            message = self.inbox.pop(0)
        else:
            message = self.read()
            assert message.kind == packets.PUBLISH, f"expected a message: {message}"
        if acknowledge and message.qos == 1:
            self.send(packets.answer(packets.PUBACK, message.packet_id))
        if acknowledge and message.qos == 2:
            self.send(packets.answer(packets.PUBREC, message.packet_id))
            assert self.expect(packets.PUBREL).packet_id == message.packet_id
            self.send(packets.answer(packets.PUBCOMP, message.packet_id))
        return message

    def receive_all(self, count: int) -> list[bytes]:
        """The payloads of exactly this many messages: more than that is an error."""
        payloads = [self.receive().payload for _ in range(count)]
        assert self.waiting() == []
        return payloads

    def waiting(self) -> list[bytes]:
        """Payloads of what was sent here before the server answered a PINGREQ."""
        self.ping()
        return [message.payload for message in self.inbox]

    def ping(self) -> None:
        """One exchange."""
        self.send(packets.packet(packets.PINGREQ, 0))
        self.expect(packets.PINGRESP)

    def disconnect(self, reason: int = 0, given: Properties = ()) -> None:
        """Say goodbye and wait for the server to close."""
        body = [bytes([reason]), packets.properties(given)] if reason or given else []
        self.send(packets.packet(packets.DISCONNECT, 0, *body))
        self.wait_closed()
        self.drop()

    def drop(self) -> None:
        """Close the socket without a word."""
        self._socket.close()

    # What CONNACK said

    def limit(self, number: Property, default: int) -> int:
        """A number in the CONNACK."""
        value = self.connack.get(number)
        assert value is None or isinstance(value, int)
        return default if value is None else value


def opened(
    server: MqttServer,
    client_id: str = "",
    *,
    version: int = 5,
    clean: bool = True,
    keep_alive: int = 0,
    given: Properties = (),
    will: Will | None = None,
    user: str | None = None,
    password: str | None = None,
) -> Raw:
    """A connection that the server accepted; version 3.1 knows no empty client id."""
    client = Raw(server, version)
    if version == 3 and not client_id:
        client_id = f"anonymous-{next(_COUNTER)}"
    connack = client.connect(client_id, clean, keep_alive, given, will, user, password)
    assert connack.code == 0, connack
    return client


def kept(server: MqttServer, client_id: str, *, version: int = 5, expiry_s: int = 3600, given: Properties = ()) -> Raw:
    """A connection whose session outlives it; it continues one that is there."""
    expiry: Sequence[tuple[Property, int]] = [(Property.SESSION_EXPIRY, expiry_s)] if version == 5 else []
    return opened(server, client_id, version=version, clean=False, given=[*expiry, *given])
