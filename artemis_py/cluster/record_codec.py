"""Control records as octets (mesh §5.4). Numbers are big-endian.

A batch is a sequence of records, all that one iteration of the loop has to tell:

     0        1                  4
    +--------+------------------+--------------------+
    | u8     | u24              | fields, in order   |
    | number | length of fields |                    |
    +--------+------------------+--------------------+

    int     u64
    str     u32 length, UTF-8
    bytes   u32 length, octets
    Texts   u16 count (65535: None), then each as str
    Marks   u32 count, then each u64 channel, u64 number
    Wants   u16 count, then each u8 distance, u8 consumers, str

All values are absolute, so a record that comes twice or late does no harm. A later version may add fields at the end,
which an earlier one passes over. Unknown records are passed over as well, unless their number is 128 or more: these
must be understood.
"""

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct, error
from typing import Any, Final

from attrs import fields

from artemis_py.cluster.records import (
    AskedRetained,
    AskedTemporary,
    BulkChannel,
    BulkRefused,
    BulkTaken,
    Channel,
    ChosenName,
    Closed,
    CopyChannel,
    Demand,
    Digest,
    Ended,
    Forgotten,
    Gone,
    Grant,
    Instance,
    Interest,
    Leaving,
    Load,
    Marks,
    Member,
    Offer,
    Ready,
    Record,
    Resync,
    RetainedDigest,
    RetainedPiece,
    RetainedStamps,
    RetainedWanted,
    Seen,
    Sees,
    SharedInstance,
    Sight,
    SnapshotBegin,
    SnapshotEnd,
    ToldMarks,
    ToldRetained,
    ToldTemporary,
    Wants,
)
from artemis_py.errors import ProtocolError

MANDATORY: Final = 128
"""Records from this number on may not be passed over."""

_NONE: Final = 65_535
_HEAD: Final = Struct(">I")
_U16: Final = Struct(">H")
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")
_MARK: Final = Struct(">QQ")
_WANT: Final = Struct(">BB")

_KINDS: Final[tuple[type[Record], ...]] = (
    SnapshotBegin,
    SnapshotEnd,
    Digest,
    Seen,
    Resync,
    Member,
    Load,
    Leaving,
    Forgotten,
    Sees,
    Sight,
    Instance,
    SharedInstance,
    Interest,
    Demand,
    Gone,
    Ready,
    Grant,
    Offer,
    AskedTemporary,
    ToldTemporary,
    RetainedDigest,
    RetainedStamps,
    RetainedWanted,
    RetainedPiece,
    AskedRetained,
    ToldRetained,
    ChosenName,
    Ended,
    ToldMarks,
    Closed,
    Channel,
    CopyChannel,
    BulkChannel,
    BulkTaken,
    BulkRefused,
)
_BY_NUMBER: Final = {kind.number: kind for kind in _KINDS}
_FIELDS: Final = {kind: tuple([(each.name, each.type) for each in fields(kind)]) for kind in _KINDS}


def encode(records: Sequence[Record]) -> bytes:
    """Return a batch."""
    return b"".join([encode_one(record) for record in records])


def encode_one(record: Record) -> bytes:
    """Return one record."""
    parts: list[bytes] = []
    for name, kind in _FIELDS[type(record)]:
        _write(parts, kind, getattr(record, name))
    body = b"".join(parts)
    return _HEAD.pack(record.number << 24 | len(body)) + body


def decode(batch: bytes) -> list[Record]:
    """Return the records of a batch. Raises ProtocolError."""
    found: list[Record] = []
    offset = 0
    while offset < len(batch):
        if offset + _HEAD.size > len(batch):
            raise ProtocolError("a record is cut off")
        head: int = _HEAD.unpack_from(batch, offset)[0]
        start = offset + _HEAD.size
        offset = start + (head & 0xFFFFFF)
        if offset > len(batch):
            raise ProtocolError("a record is cut off")
        kind = _BY_NUMBER.get(head >> 24)
        if kind is not None:
            found.append(_decode_one(kind, batch[start:offset]))
        elif head >> 24 >= MANDATORY:
            raise ProtocolError(f"record {head >> 24} is not known here: upgrade this broker first")
    return found


def hash_of(encoded: bytes) -> int:
    """Return a 64-bit hash of a record, for digests."""
    return int.from_bytes(blake2b(encoded, digest_size=8).digest(), "big")


def _decode_one(kind: type[Record], body: bytes) -> Record:
    values: list[object] = []
    offset = 0
    try:
        for _, field_kind in _FIELDS[kind]:
            value, offset = _read(field_kind, body, offset)
            values.append(value)
    except (error, UnicodeDecodeError) as cause:
        raise ProtocolError(f"a record '{kind.__name__}' is malformed") from cause
    return kind(*values)


def _write(parts: list[bytes], kind: Any, value: Any) -> None:
    if kind is int:
        parts.append(_U64.pack(value))
    elif kind is str:
        _write_text(parts, value)
    elif kind is bytes:
        parts.append(_U32.pack(len(value)))
        parts.append(value)
    elif kind == Marks:
        parts.append(_U32.pack(len(value)))
        parts.extend([_MARK.pack(channel, mark) for channel, mark in value])
    elif kind == Wants:
        parts.append(_U16.pack(len(value)))
        for text, distance, consumers in value:
            parts.append(_WANT.pack(distance, consumers))
            _write_text(parts, text)
    elif value is None:
        parts.append(_U16.pack(_NONE))
    else:
        parts.append(_U16.pack(len(value)))
        for text in value:
            _write_text(parts, text)


def _write_text(parts: list[bytes], text: str) -> None:
    encoded = text.encode()
    parts.append(_U32.pack(len(encoded)))
    parts.append(encoded)


def _read(kind: Any, body: bytes, offset: int) -> tuple[object, int]:
    if kind is int:
        return _U64.unpack_from(body, offset)[0], offset + 8
    if kind is str:
        return _read_text(body, offset)
    if kind is bytes:
        stop = offset + 4 + int(_U32.unpack_from(body, offset)[0])
        if stop > len(body):
            raise error("octets are cut off")
        return body[offset + 4 : stop], stop
    if kind == Marks:
        count: int = _U32.unpack_from(body, offset)[0]
        offset += 4
        if count * _MARK.size > len(body) - offset:
            raise error("more marks than octets")
        stop = offset + count * _MARK.size
        return tuple([_MARK.unpack_from(body, at) for at in range(offset, stop, _MARK.size)]), stop
    if kind == Wants:
        return _read_wants(body, offset)
    texts: list[str] = []
    count = _U16.unpack_from(body, offset)[0]
    offset += 2
    if count == _NONE:
        return None, offset
    for _ in range(count):
        text, offset = _read_text(body, offset)
        texts.append(text)
    return tuple(texts), offset


def _read_wants(body: bytes, offset: int) -> tuple[Wants, int]:
    wants: list[tuple[str, int, int]] = []
    count: int = _U16.unpack_from(body, offset)[0]
    offset += 2
    for _ in range(count):
        distance, consumers = _WANT.unpack_from(body, offset)
        text, offset = _read_text(body, offset + 2)
        wants.append((text, distance, consumers))
    return tuple(wants), offset


def _read_text(body: bytes, offset: int) -> tuple[str, int]:
    length: int = _U32.unpack_from(body, offset)[0]
    stop = offset + 4 + length
    if stop > len(body):
        raise error("a text is cut off")
    return body[offset + 4 : stop].decode(), stop
