"""Sections that are written in front of a bare message on delivery: header and annotations (AMQP 1.0 §3.2)."""

from struct import Struct
from typing import Final

from artemis_amqp.engine.codec import encode_value, read_value, skip_value, write_compound, write_value
from artemis_amqp.engine.extensions import DELIVERY_TIME, INGRESS_TIME, ROUTING_TYPE, SEQUENCE_NUMBER
from artemis_amqp.engine.types import Byte, Symbol, UByte, UInt
from artemis_amqp.messages.sections import (
    APPLICATION_PROPERTIES,
    NOT_KEPT,
    PROPERTIES,
    count_of,
    items_at,
    section_at,
)
from artemis_py.core.messages.message import DEFAULT_PRIORITY, ROUTING_KEY, VALIDATED_USER
from artemis_py.wire.integers import OCTETS

AMENDED: Final = "m."
"""Prefix of broker properties for annotations that an AMQP consumer added to a message of another protocol; with the
annotation's name it is the name that selectors use."""

_U32: Final = Struct(">I")
_I64: Final = Struct(">q")


def _encode_header(durable: bool, priority: int, ttl_ms: int, first_acquirer: bool, delivery_count: int) -> bytes:
    fields: list[object] = [
        True if durable else None,
        None if priority == DEFAULT_PRIORITY else UByte(priority),
        UInt(min(ttl_ms, 0xFFFFFFFF)) if ttl_ms >= 0 else None,
        True if first_acquirer else None,
        UInt(delivery_count) if delivery_count > 0 else None,
    ]
    while fields and fields[-1] is None:
        fields.pop()
    return b"\x00\x53\x70" + encode_value(fields)


# Without ttl and earlier attempts a header is one of these 40: priority, then first-acquirer, then durable.
_HEADERS: Final = [_encode_header(index >= 20, index % 10, -1, index // 10 % 2 == 1, 0) for index in range(40)]


def header_bytes(durable: bool, priority: int, ttl_ms: int, first_acquirer: bool, delivery_count: int) -> bytes:
    """Return the header section of a delivery. `priority` is 0 to 9; `ttl_ms` the remaining time, -1 for ever.

    `delivery_count` is the number of earlier attempts: 0 on the first delivery.
    """
    if ttl_ms < 0 and delivery_count == 0:
        return _HEADERS[priority + (10 if first_acquirer else 0) + (20 if durable else 0)]
    return _encode_header(durable, priority, ttl_ms, first_acquirer, delivery_count)


_ANNOTATIONS_DESCRIPTOR: Final = b"\x00\x53\x72"
_SEQUENCE_KEY: Final = encode_value(SEQUENCE_NUMBER) + b"\x81"
_SEQUENCE_SIZE: Final = len(_SEQUENCE_KEY) + 8
_ONLY_SEQUENCE: Final = _ANNOTATIONS_DESCRIPTOR + bytes((0xC1, 1 + _SEQUENCE_SIZE, 2)) + _SEQUENCE_KEY

KEPT_KEYS: Final = 1024
"""Routing keys, and users, whose annotations are kept encoded: nearly all messages with one have nothing else."""
KEPT_KEY_CHARS: Final = 128
_AROUND_SEQUENCE: Final[dict[str, tuple[bytes, bytes]]] = {}
_AROUND_OF_USER: Final[dict[str, tuple[bytes, bytes]]] = {}

KEPT_NAMES: Final = 64
_UNSEEN: Final[dict[str, bool]] = {}
"""Names of the broker that AMQP clients do not see: each message from another broker of a mesh has one."""

# Names of the broker that do not follow the rule _AMQ_FOO_BAR -> x-opt-FOO-BAR.
_ANNOTATION_NAMES: Final[dict[str, str]] = {
    "_AMQ_INGRESS_TIMESTAMP": INGRESS_TIME,
    "_AMQ_ROUTING_TYPE": ROUTING_TYPE,
    "_AMQ_SCHED_DELIVERY": DELIVERY_TIME,
}
# Artemis' clients expect these as a byte.
_BYTE_ANNOTATIONS: Final = ("_AMQ_ROUTING_TYPE", "_AMQ_ORIG_ROUTING_TYPE")


def annotation_name(name: str) -> str | None:
    """Return the annotation name of the broker's property `name`; None if AMQP clients do not see it."""
    known = _ANNOTATION_NAMES.get(name)
    if known is not None:
        return known
    if name.startswith("_AMQ_"):
        return "x-opt-" + name[5:].replace("_", "-")
    if name.startswith("x-opt-"):
        return name
    if name.startswith(AMENDED):
        return name[len(AMENDED) :]
    return None


def annotations_bytes(annotations_raw: bytes, sequence: int, extra: dict[str, object] | None) -> bytes:
    """Return the message annotations section of a delivery: those that arrived, the sequence number, the broker's own.

    `extra` has the broker's names; one without an annotation name is left out, the others replace those that arrived.
    """
    if not annotations_raw:
        if not extra:
            return _ONLY_SEQUENCE + _I64.pack(sequence)
        if len(extra) == 1:
            routing_key = extra.get(ROUTING_KEY)
            if isinstance(routing_key, str):
                around = _AROUND_SEQUENCE.get(routing_key)
                if around is None:
                    around = _around_sequence(ROUTING_KEY, routing_key, _AROUND_SEQUENCE)
                return around[0] + _I64.pack(sequence) + around[1]
            user = extra.get(VALIDATED_USER)
            if isinstance(user, str):
                around = _AROUND_OF_USER.get(user)
                if around is None:
                    around = _around_sequence(VALIDATED_USER, user, _AROUND_OF_USER)
                return around[0] + _I64.pack(sequence) + around[1]
            if not _has_seen(extra):
                return _ONLY_SEQUENCE + _I64.pack(sequence)
    return _write_annotations(annotations_raw, sequence, extra)


class PlainHeads:
    """Header and annotations of the deliveries of one link that have neither a ttl nor other annotations.

    All but the last octet of the sequence number is kept from one to the next: writing numbers takes longest.
    """

    __slots__ = ("_block", "_front", "_header")

    def __init__(self) -> None:
        self._header: int = -1
        """Index in `_HEADERS` of the header that is kept; -1: none is."""
        self._block: int = 0
        """Sequence number without its last octet."""
        self._front: bytes = b""

    def head(self, durable: bool, priority: int, first_acquirer: bool, sequence: int) -> bytes:
        """Return what `header_bytes` and `annotations_bytes` return for a first attempt."""
        header = priority + (10 if first_acquirer else 0) + (20 if durable else 0)
        block = sequence >> 8
        if header != self._header or block != self._block:
            self._header = header
            self._block = block
            self._front = _HEADERS[header] + _ONLY_SEQUENCE + _I64.pack(sequence)[:-1]
        return self._front + OCTETS[sequence & 0xFF]


def _has_seen(extra: dict[str, object]) -> bool:
    """Tell whether AMQP clients see any of these properties."""
    for name in extra:
        if name not in _UNSEEN:
            if annotation_name(name) is not None:
                return True
            if len(_UNSEEN) < KEPT_NAMES:
                _UNSEEN[name] = True
    return False


def _around_sequence(name: str, text: str, kept: dict[str, tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    """Return what stands before and after the sequence number, if a message has only this property of the broker's."""
    section = _write_annotations(b"", 0, {name: text})
    begin = section.index(_SEQUENCE_KEY) + len(_SEQUENCE_KEY)
    around = section[:begin], section[begin + _I64.size :]
    if len(text) <= KEPT_KEY_CHARS:
        if len(kept) == KEPT_KEYS:
            kept.clear()
        kept[text] = around
    return around


def _write_annotations(annotations_raw: bytes, sequence: int, extra: dict[str, object] | None) -> bytes:
    added = _extra_annotations(extra) if extra else {}
    count = 2
    content = bytearray(_SEQUENCE_KEY)
    content += _I64.pack(sequence)
    if annotations_raw:
        raw = _without(annotations_raw, added) if added else annotations_raw
        count += count_of(raw)
        content += raw[4:]
    for key, value in added.items():
        write_value(content, Symbol(key))
        write_value(content, value)
        count += 2
    out = bytearray(_ANNOTATIONS_DESCRIPTOR)
    write_compound(out, 0xC1, count, content)
    return bytes(out)


def forwarded_annotations(annotations_raw: bytes, extra: dict[str, object] | None) -> bytes:
    """Return the message annotations section of a message that this broker sends to another one; empty if it has none.

    As `annotations_bytes`, without a sequence number: the other broker gives it one of its own.
    """
    added = _extra_annotations(extra) if extra else {}
    raw = merge_annotations(annotations_raw, added) if added else annotations_raw
    if not raw:
        return b""
    out = bytearray(_ANNOTATIONS_DESCRIPTOR)
    write_compound(out, 0xC1, count_of(raw), bytearray(raw[4:]))
    return bytes(out)


def _extra_annotations(extra: dict[str, object]) -> dict[str, object]:
    result: dict[str, object] = {}
    for name, value in extra.items():
        key = annotation_name(name)
        if key is not None and key != SEQUENCE_NUMBER and key.isascii():
            if name in _BYTE_ANNOTATIONS and isinstance(value, int):
                result[key] = Byte(int(value))
            else:
                result[key] = value
    return result


def merge_annotations(annotations_raw: bytes, added: dict[str, object]) -> bytes:
    """Return kept annotations with others added, or in place of those of the same name."""
    raw = _without(annotations_raw, added) if annotations_raw else b""
    content = bytearray(raw[4:])
    count = count_of(raw) if raw else 0
    for key, value in added.items():
        if key not in NOT_KEPT:
            write_value(content, Symbol(key))
            write_value(content, value)
            count += 2
    return _U32.pack(count) + bytes(content) if count else b""


def marked(bare: bytes, name: str) -> tuple[bytes, bytes]:
    """Return a bare message with the application property `name`, true; see `with_property`. Raises MalformedValue."""
    return with_property(bare, name, True)


def with_property(bare: bytes, name: str, value: object) -> tuple[bytes, bytes]:
    """Return a bare message with an application property in two parts: the sections in front of the body, written for
    this delivery, and the rest as it came. Raises MalformedValue.
    """
    end = len(bare)
    offset = 0
    front = bytearray()
    content = bytearray()
    count = 0
    while offset < end:
        code, body = section_at(bare, offset, end)
        if code > APPLICATION_PROPERTIES:
            break
        stop = skip_value(bare, body, end, 1)
        if code == PROPERTIES:
            front += bare[offset:stop]
        else:
            items, body, stop = items_at(0xC1, bare, body, end)
            # In the form of kept annotations.
            kept = _without(_U32.pack(items) + bare[body:stop], {name: value})
            count = count_of(kept)
            content += kept[4:]
        offset = stop
    write_value(content, name)
    write_value(content, value)
    front += b"\x00\x53\x74"
    write_compound(front, 0xC1, count + 2, content)
    return bytes(front), bare[offset:]


def _without(annotations_raw: bytes, names: dict[str, object]) -> bytes:
    """Return kept annotations without those in `names`."""
    count = count_of(annotations_raw)
    end = len(annotations_raw)
    offset = 4
    kept = bytearray()
    left = 0
    for _ in range(count >> 1):
        key, value_offset = read_value(annotations_raw, offset, end, 2)
        stop = skip_value(annotations_raw, value_offset, end, 2)
        if not isinstance(key, str) or str(key) not in names:
            kept += annotations_raw[offset:stop]
            left += 2
        offset = stop
    return _U32.pack(left) + bytes(kept)
