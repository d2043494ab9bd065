"""Just enough of the MQTT wire format to write packets, right and wrong ones, and to read a server's.

Written from the specification alone and shares nothing with the broker's codec.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

from attrs import frozen

CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
UNSUBSCRIBE: Final = 10
UNSUBACK: Final = 11
PINGREQ: Final = 12
PINGRESP: Final = 13
DISCONNECT: Final = 14
AUTH: Final = 15


class Property(IntEnum):
    """Identifiers of MQTT 5.0 §2.2.2.2."""

    PAYLOAD_FORMAT = 1
    MESSAGE_EXPIRY = 2
    CONTENT_TYPE = 3
    RESPONSE_TOPIC = 8
    CORRELATION_DATA = 9
    SUBSCRIPTION_ID = 11
    SESSION_EXPIRY = 17
    ASSIGNED_CLIENT_ID = 18
    SERVER_KEEP_ALIVE = 19
    AUTHENTICATION_METHOD = 21
    AUTHENTICATION_DATA = 22
    REQUEST_PROBLEM = 23
    WILL_DELAY = 24
    REQUEST_RESPONSE = 25
    RESPONSE_INFORMATION = 26
    SERVER_REFERENCE = 28
    REASON_STRING = 31
    RECEIVE_MAXIMUM = 33
    TOPIC_ALIAS_MAXIMUM = 34
    TOPIC_ALIAS = 35
    MAXIMUM_QOS = 36
    RETAIN_AVAILABLE = 37
    USER = 38
    MAXIMUM_PACKET_SIZE = 39
    WILDCARD_AVAILABLE = 40
    SUBSCRIPTION_ID_AVAILABLE = 41
    SHARED_AVAILABLE = 42


_BYTES: Final = frozenset({1, 23, 25, 36, 37, 40, 41, 42})
_SHORTS: Final = frozenset({19, 33, 34, 35})
_LONGS: Final = frozenset({2, 17, 24, 39})
_BINARIES: Final = frozenset({9, 22})

Value = int | str | bytes | tuple[str, str]
Properties = Sequence[tuple[Property, Value]]


def variable(number: int) -> bytes:
    """A variable byte integer."""
    out = bytearray()
    while True:
        number, low = divmod(number, 128)
        out.append(low | (0x80 if number else 0))
        if not number:
            return bytes(out)


def binary(data: bytes | str) -> bytes:
    """Two octets of length, then the data."""
    if isinstance(data, str):
        data = data.encode()
    return len(data).to_bytes(2, "big") + data


def properties(values: Iterable[tuple[int, Value]]) -> bytes:
    """A property list with its length."""
    out = bytearray()
    for number, value in values:
        out += variable(number)
        match value:
            case (name, text):
                out += binary(name) + binary(text)
            case int():
                if number == Property.SUBSCRIPTION_ID:
                    out += variable(value)
                else:
                    out += value.to_bytes(1 if number in _BYTES else 2 if number in _SHORTS else 4, "big")
            case str() | bytes():
                out += binary(value)
    return variable(len(out)) + bytes(out)


def packet(kind: int, flags: int, *parts: bytes) -> bytes:
    """A control packet."""
    body = b"".join(parts)
    return bytes([kind << 4 | flags]) + variable(len(body)) + body


@frozen(kw_only=True)
class Will:
    """The fields of a will."""

    topic: str
    payload: bytes = b"gone"
    qos: int = 0
    retain: bool = False
    properties: Properties = ()


def connect(
    version: int,
    client_id: str,
    clean: bool = True,
    keep_alive: int = 0,
    given: Properties = (),
    will: Will | None = None,
    user: str | None = None,
    password: str | None = None,
) -> bytes:
    """A CONNECT of version 3 (3.1), 4 (3.1.1) or 5."""
    flags = clean << 1
    payload = binary(client_id)
    if will is not None:
        flags |= 4 | will.qos << 3 | will.retain << 5
        payload += (properties(will.properties) if version == 5 else b"") + binary(will.topic) + binary(will.payload)
    if user is not None:
        flags |= 0x80
        payload += binary(user)
    if password is not None:
        flags |= 0x40
        payload += binary(password)
    name = binary("MQIsdp" if version == 3 else "MQTT")
    head = name + bytes([version, flags]) + keep_alive.to_bytes(2, "big")
    return packet(CONNECT, 0, head, properties(given) if version == 5 else b"", payload)


def publish(
    version: int,
    topic: str,
    payload: bytes,
    qos: int = 0,
    packet_id: int = 0,
    retain: bool = False,
    dup: bool = False,
    given: Properties = (),
) -> bytes:
    """A PUBLISH."""
    identifier = packet_id.to_bytes(2, "big") if qos else b""
    listed = properties(given) if version == 5 else b""
    return packet(PUBLISH, dup << 3 | qos << 1 | retain, binary(topic), identifier, listed, payload)


def subscribe(version: int, packet_id: int, filters: Iterable[tuple[str, int]], given: Properties = ()) -> bytes:
    """A SUBSCRIBE; with each filter its options octet."""
    listed = properties(given) if version == 5 else b""
    return packet(
        SUBSCRIBE,
        2,
        packet_id.to_bytes(2, "big"),
        listed,
        *(binary(topic) + bytes([options]) for topic, options in filters),
    )


def unsubscribe(version: int, packet_id: int, filters: Iterable[str]) -> bytes:
    """An UNSUBSCRIBE."""
    listed = properties(()) if version == 5 else b""
    return packet(UNSUBSCRIBE, 2, packet_id.to_bytes(2, "big"), listed, *map(binary, filters))


def answer(kind: int, packet_id: int, reason: int = 0) -> bytes:
    """A PUBACK, PUBREC, PUBREL or PUBCOMP; success has no reason code, which every version reads."""
    return packet(kind, 2 if kind == PUBREL else 0, packet_id.to_bytes(2, "big"), bytes([reason] if reason else []))


@frozen(kw_only=True)
class Packet:
    """What a server sent; fields that its kind does not have are empty."""

    kind: int
    flags: int = 0
    packet_id: int = 0
    codes: tuple[int, ...] = ()
    """Reason or return codes; one for most packets."""
    session_present: bool = False
    topic: str = ""
    payload: bytes = b""
    properties: tuple[tuple[Property, Value], ...] = ()
    size: int = 0
    """Octets of the whole packet."""

    @property
    def code(self) -> int:
        """The only reason code; left out means success."""
        return self.codes[0] if self.codes else 0

    @property
    def qos(self) -> int:
        return self.flags >> 1 & 3

    @property
    def retain(self) -> bool:
        return bool(self.flags & 1)

    @property
    def dup(self) -> bool:
        return bool(self.flags & 8)

    def get(self, number: Property) -> Value | None:
        """The first value of a property."""
        return next((value for key, value in self.properties if key == number), None)

    def all(self, number: Property) -> list[Value]:
        """Every value of a property."""
        return [value for key, value in self.properties if key == number]


class Reader:
    """The fields of one packet's body, in order."""

    def __init__(self, data: bytes) -> None:
        self._data: Final = data
        self._offset = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._offset

    def take(self, size: int) -> bytes:
        assert size <= self.left, "a packet of the server ends in the middle of a field"
        self._offset += size
        return self._data[self._offset - size : self._offset]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def variable(self) -> int:
        result = shift = 0
        while True:
            octet = self.number(1)
            result |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                return result

    def text(self) -> str:
        return self.take(self.number(2)).decode()

    def properties(self) -> tuple[tuple[Property, Value], ...]:
        """A property list; none is sent where the packet ends early."""
        if not self.left:
            return ()
        inner = Reader(self.take(self.variable()))
        found: list[tuple[Property, Value]] = []
        while inner.left:
            number = Property(inner.variable())
            found.append((number, inner._value(number)))
        return tuple(found)

    def _value(self, number: Property) -> Value:
        if number == Property.SUBSCRIPTION_ID:
            return self.variable()
        if number in _BYTES | _SHORTS | _LONGS:
            return self.number(1 if number in _BYTES else 2 if number in _SHORTS else 4)
        if number in _BINARIES:
            return self.take(self.number(2))
        if number == Property.USER:
            return (self.text(), self.text())
        return self.text()


def read(version: int, first: int, body: bytes, size: int) -> Packet:
    """The packet with this first octet and body."""
    kind, flags = first >> 4, first & 15
    fields = Reader(body)
    has_properties = version == 5
    match kind:
        case 2:
            acknowledge = fields.number(1)
            code = fields.number(1)
            listed = fields.properties() if has_properties else ()
            result = Packet(kind=kind, session_present=acknowledge == 1, codes=(code,), properties=listed, size=size)
        case 3:
            topic = fields.text()
            packet_id = fields.number(2) if flags & 6 else 0
            listed = fields.properties() if has_properties else ()
            payload = fields.take(fields.left)
            return Packet(
                kind=kind,
                flags=flags,
                topic=topic,
                packet_id=packet_id,
                properties=listed,
                payload=payload,
                size=size,
            )
        case 4 | 5 | 6 | 7:
            packet_id = fields.number(2)
            code = fields.number(1) if fields.left else 0
            listed = fields.properties() if has_properties else ()
            result = Packet(kind=kind, packet_id=packet_id, codes=(code,), properties=listed, size=size)
        case 9 | 11:
            packet_id = fields.number(2)
            listed = fields.properties() if has_properties else ()
            codes = tuple(fields.take(fields.left))
            result = Packet(kind=kind, packet_id=packet_id, codes=codes, properties=listed, size=size)
        case 13:
            result = Packet(kind=kind, size=size)
        case 14 | 15:
            code = fields.number(1) if fields.left else 0
            result = Packet(kind=kind, codes=(code,), properties=fields.properties(), size=size)
        case _:
            raise AssertionError(f"a server must not send a packet of type {kind}")
    assert flags == (2 if kind == PUBREL else 0), f"reserved flags of packet type {kind}: {flags:#x}"
    assert fields.left == 0, f"{fields.left} octets too many in a packet of type {kind}"
    return result
