"""A message byte by byte, as it is stored. Numbers are big-endian.

     0        8         16             24         25             26       28        32         36       40
    +--------+---------+--------------+----------+--------------+--------+---------+----------+--------+-------------+
    | u64    | u64     | u64          | u8       | i8           | u16    | u32     | u32      | u32    | u32         |
    | id     | expires | delivery     | priority | routing type | format | address | producer | extra  | annotations |
    |        | ms      | time ms      |          | -1: none     | length | length  | length   | length | length      |
    +--------+---------+--------------+----------+--------------+--------+---------+----------+--------+-------------+
     44
    +--------+---------+----------+-------+-------------+----------+
    | format | address | producer | extra | annotations | data     |
    | UTF-8  | UTF-8   | UTF-8    | JSON  | octets      | the rest |
    +--------+---------+----------+-------+-------------+----------+

Extra is empty, or an object of the broker's own properties. A message in the store is durable. Priority plus 128 says
that the message is large, plus 64 that it may belong to a message group. The data of a large one begins with

     0         8        16         20
    +---------+--------+----------+-----------
    | u64     | u64    | u32      | octets      the body is outside, under this id; the octets stand before it
    | body id | size   | checksum |
    +---------+--------+----------+-----------

A message that may not be durable (retained, or in a scratch file) follows an octet: u8 1: it is durable; 0: it is not.
What consumers changed in a message stands beside it: u32 length of annotations, annotations, extra.
"""

import json
from collections.abc import Mapping
from struct import Struct
from typing import Final, Protocol

from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.messages.message import MESSAGE_OVERHEAD_BYTES, Message, MessageFormat
from artemis_py.core.messages.view import MessageView
from artemis_py.errors import DamagedValue, ProtocolError, StoreError

_HEAD: Final = Struct(">QQQBbHIIII")
_ID: Final = Struct(">Q")
_BODY: Final = Struct(">QQI")
_LENGTH: Final = Struct(">I")
_PRIORITY_OFFSET: Final = 24
_LARGE_FLAG: Final = 128
_GROUP_FLAG: Final = 64
_DURABLE: Final = b"\x01"
_NOT_DURABLE: Final = b"\x00"


class MissingFormat:
    """Stand-in for a message format whose protocol is not installed; its messages wait for a start that has it."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        """Name of the format, as stored."""
        return self._name

    def view(self, message: Message) -> MessageView:
        """Raise ProtocolError."""
        raise ProtocolError(f"the protocol that reads '{self._name}' messages is not installed")

    def lookup(self, message: Message, name: str) -> object:
        """Return None: nothing can be found in the message."""
        return None


class Bodies(Protocol):
    """The files of large messages."""

    def restore(self, id: int, size: int, checksum: int) -> LargeBody:
        """Return the body of this id, with no holders yet. Raises StoreError if its file is not as it was."""


class _Middle:
    """What stands between the id and the annotations of a small message.

    Messages that come one after the other mostly differ in none of it. That is kept for those without extra, and for
    those whose extra is one text: the key of an exchange, or the brokers of a mesh that have handed a message over.
    """

    def __init__(self, message: Message) -> None:
        self._format: MessageFormat = message.format
        self._address: str = message.address
        self._producer: str = message.producer
        self._expires_ms: int = message.expires_ms
        self._delivery_time_ms: int = message.delivery_time_ms
        self._priority: int = message.priority
        self._routing_type: int = message.routing_type
        self._has_group: bool = message.has_group
        self._annotations_bytes: int = len(message.annotations)
        extra = message.extra
        self._extra: dict[str, object] | None = None if extra is None else dict(extra)
        self.octets: bytes = _middle(message, message.priority, _extra_octets(message))

    def fits(self, message: Message) -> bool:
        """Tell whether another such message has the same."""
        return (
            message.format is self._format
            and message.expires_ms == self._expires_ms
            and message.delivery_time_ms == self._delivery_time_ms
            and message.priority == self._priority
            and message.routing_type == self._routing_type
            and message.has_group == self._has_group
            and len(message.annotations) == self._annotations_bytes
            and message.extra == self._extra
            and message.address == self._address
            and message.producer == self._producer
        )


_LAST: Final[list[_Middle]] = []
"""That of the last message without extra that had none that fits; one object, so that threads are not in each other's
way."""
_LAST_WITH_EXTRA: Final[list[_Middle]] = []
"""The same for messages with one text as extra."""


def _middle(message: Message, priority: int, extra: bytes) -> bytes:
    """Return what stands between the id and the annotations."""
    if message.has_group:
        priority |= _GROUP_FLAG
    format_name = message.format.name.encode()
    address = message.address.encode()
    producer = message.producer.encode()
    head = _HEAD.pack(
        0,
        message.expires_ms,
        message.delivery_time_ms,
        priority,
        message.routing_type,
        len(format_name),
        len(address),
        len(producer),
        len(extra),
        len(message.annotations),
    )
    return b"".join((head[_ID.size :], format_name, address, producer, extra))


class _Known:
    """What a small message without extra was decoded from, but its id, annotations and data, and what that means.

    What comes from one producer, or is read from one queue, mostly differs in none of it.
    """

    def __init__(self, octets: bytes, formats: Mapping[str, MessageFormat], message: Message) -> None:
        self.octets: bytes = octets
        self.formats: Mapping[str, MessageFormat] = formats
        self.annotations_offset: int = _ID.size + len(octets)
        self.data_offset: int = self.annotations_offset + len(message.annotations)
        self._has_annotations: bool = len(message.annotations) > 0
        self._format: MessageFormat = message.format
        self._address: str = message.address
        self._producer: str = message.producer
        self._expires_ms: int = message.expires_ms
        self._delivery_time_ms: int = message.delivery_time_ms
        self._priority: int = message.priority
        self._routing_type: int = message.routing_type
        self._has_group: bool = message.has_group

    def decode(self, content: bytes, offset: int, end: int, durable: bool) -> Message:
        """Return another message that has the same octets there, without its id."""
        message = Message(
            self._format,
            self._address,
            content[offset + self.data_offset : end],
            content[offset + self.annotations_offset : offset + self.data_offset] if self._has_annotations else b"",
            durable,
            self._priority,
            self._expires_ms,
            self._delivery_time_ms,
            self._routing_type,
            self._producer,
        )
        message.has_group = self._has_group
        return message


_LAST_KNOWN: Final[list[_Known]] = []
"""The last one; one object, so that threads are not in each other's way."""


def _extra_octets(message: Message) -> bytes:
    return b"" if message.extra is None else json.dumps(message.extra, separators=(",", ":")).encode()


def _is_one_text(extra: dict[str, object]) -> bool:
    """Tell whether a text is all there is: equal texts have equal octets, and numbers that are equal may not."""
    if len(extra) == 1:
        for value in extra.values():
            return isinstance(value, str)
    return False


def middle_of(message: Message) -> bytes | None:
    """Return what stands between the id and the annotations; None for a large message, or one with several extras."""
    extra = message.extra
    if message.large is not None or not (extra is None or _is_one_text(extra)):
        return None
    kept = _LAST if extra is None else _LAST_WITH_EXTRA
    last = kept[0] if len(kept) > 0 else None
    if last is None or not last.fits(message):
        last = _Middle(message)
        kept[:] = [last]
    return last.octets


def encode_message(message: Message, before: bytes = b"") -> bytes:
    """Return a message as it is stored, behind other octets."""
    known = middle_of(message)
    if known is not None:
        return b"".join((before, _ID.pack(message.id), known, message.annotations, message.data))
    large = message.large
    priority = message.priority
    data = message.data
    if large is not None:
        priority |= _LARGE_FLAG
        data = _BODY.pack(large.id, large.size, large.checksum) + data
    middle = _middle(message, priority, _extra_octets(message))
    return b"".join((before, _ID.pack(message.id), middle, message.annotations, data))


def decode_like_last(
    content: bytes, offset: int, end: int, formats: Mapping[str, MessageFormat], durable: bool
) -> Message | None:
    """Return the message between two offsets, without its id, if it differs from the last one in its content only."""
    known = _LAST_KNOWN[0] if len(_LAST_KNOWN) > 0 else None
    # No `startswith`: compiled, that is a call by name.
    if (
        known is None
        or content[offset + _ID.size : offset + known.annotations_offset] != known.octets
        or formats is not known.formats
        or end - offset < known.data_offset
    ):
        return None
    return known.decode(content, offset, end, durable)


def decode_message(
    content: bytes, formats: Mapping[str, MessageFormat], bodies: Bodies | None, durable: bool = True
) -> Message:
    """Return the message that was stored, without looking into its body.

    Raises DamagedValue, also if its large body cannot be used. Long because it names each of the record's fields.
    """
    known = _LAST_KNOWN[0] if len(_LAST_KNOWN) > 0 else None
    if (
        known is not None
        and content.startswith(known.octets, _ID.size)
        and formats is known.formats
        and len(content) >= known.data_offset
    ):
        message = known.decode(content, 0, len(content), durable)
        message.id = _ID.unpack_from(content)[0]
        return message
    if len(content) < _HEAD.size:
        raise DamagedValue("it is too short for a message")
    (
        id,
        expires_ms,
        delivery_time_ms,
        priority,
        routing_type,
        format_length,
        address_length,
        producer_length,
        extra_length,
        annotations_length,
    ) = _HEAD.unpack_from(content)
    address_offset = _HEAD.size + format_length
    producer_offset = address_offset + address_length
    extra_offset = producer_offset + producer_length
    annotations_offset = extra_offset + extra_length
    data_offset = annotations_offset + annotations_length
    large: LargeBody | None = None
    has_group = priority & _GROUP_FLAG != 0
    priority &= ~_GROUP_FLAG
    if priority & _LARGE_FLAG:
        priority &= ~_LARGE_FLAG
        if bodies is None or data_offset + _BODY.size > len(content):
            raise DamagedValue("it is not a whole large message")
        id_size_checksum: tuple[int, int, int] = _BODY.unpack_from(content, data_offset)
        try:
            large = bodies.restore(id_size_checksum[0], id_size_checksum[1], id_size_checksum[2])
        except StoreError as error:
            raise DamagedValue(f"its large body cannot be used: {error}") from error
        body_offset = data_offset + _BODY.size
    else:
        body_offset = data_offset
    if body_offset > len(content):
        raise DamagedValue("it is too short for its message")
    format_name = content[_HEAD.size : address_offset].decode()
    message = Message(
        formats.get(format_name) or MissingFormat(format_name),
        content[address_offset:producer_offset].decode(),
        content[body_offset:],
        content[annotations_offset:data_offset],
        durable,
        priority,
        expires_ms,
        delivery_time_ms,
        routing_type,
        content[producer_offset:extra_offset].decode(),
    )
    message.id = id
    message.large = large
    message.has_group = has_group
    if extra_length:
        message.extra = json.loads(content[extra_offset:annotations_offset])
    elif large is None:
        _LAST_KNOWN[:] = [_Known(content[_ID.size : annotations_offset], formats, message)]
    return message


def encode_with_durability(message: Message) -> bytes:
    """Return a message that may not be durable as it is stored."""
    return encode_message(message, _DURABLE if message.durable else _NOT_DURABLE)


def decode_with_durability(value: bytes, formats: Mapping[str, MessageFormat]) -> Message:
    """Return the message that `encode_with_durability` wrote. Raises DamagedValue, also if it has a large body."""
    return decode_message(value[1:], formats, None, value[:1] == _DURABLE)


def body_id(content: bytes, offset: int = 0) -> int | None:
    """Return the id of the large body of the message that begins at `offset`; None if it has none."""
    if len(content) < offset + _HEAD.size or not content[offset + _PRIORITY_OFFSET] & _LARGE_FLAG:
        return None
    head = _HEAD.unpack_from(content, offset)
    data_offset = offset + _HEAD.size + sum(head[5:])
    if len(content) < data_offset + _BODY.size:
        return None
    return int(_BODY.unpack_from(content, data_offset)[0])


def message_size(content: bytes, offset: int = 0) -> int | None:
    """Return the size in memory of the message that begins at `offset`; None if it is too short for one."""
    if len(content) < offset + _HEAD.size:
        return None
    head: tuple[int, ...] = _HEAD.unpack_from(content, offset)
    data_offset = offset + _HEAD.size + sum(head[5:])
    if content[offset + _PRIORITY_OFFSET] & _LARGE_FLAG:
        data_offset += _BODY.size
    if len(content) < data_offset:
        return None
    return len(content) - data_offset + head[9] + MESSAGE_OVERHEAD_BYTES


def encode_amendment(message: Message) -> bytes:
    """Return the changes that consumers of one queue made to a message, stored beside the shared original."""
    return _LENGTH.pack(len(message.annotations)) + message.annotations + _extra_octets(message)


def amend(message: Message, amendment: bytes) -> Message:
    """Return the message with the changes that consumers made. Raises DamagedValue."""
    start = _LENGTH.size
    if len(amendment) < start:
        raise DamagedValue("it is not an amendment")
    length: int = _LENGTH.unpack_from(amendment)[0]
    stop = start + length
    if stop > len(amendment):
        raise DamagedValue("it is too short for its annotations")
    try:
        extra = json.loads(amendment[stop:]) if stop < len(amendment) else None
    except ValueError as error:
        raise DamagedValue("its properties are not JSON") from error
    return message.amended(amendment[start:stop], extra)
