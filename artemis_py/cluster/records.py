"""Control records: what one broker tells another about itself (mesh §5.4). Numbers are big-endian.

A batch is a sequence of records, all that one iteration of the loop has to tell:

     0        1                  4
    +--------+------------------+--------------------+
    | u8     | u24              | fields, in order   |
    | number | length of fields |                    |
    +--------+------------------+--------------------+

    int     u64
    str     u32 length, UTF-8
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
from typing import Any, ClassVar, Final

from attrs import fields, frozen

from artemis_py.errors import ProtocolError

VERSION: Final = 1
"""Version of records and envelopes that this broker speaks; it understands all from `MIN_VERSION` on."""
MIN_VERSION: Final = 1

MANDATORY: Final = 128
"""Records from this number on may not be passed over."""


_NONE: Final = 65_535
_HEAD: Final = Struct(">I")
_U16: Final = Struct(">H")
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")
_MARK: Final = Struct(">QQ")
_WANT: Final = Struct(">BB")

Texts = tuple[str, ...] | None
Marks = tuple[tuple[int, int], ...]
Wants = tuple[tuple[str, int, int], ...]


@frozen
class Record:
    """Base class of all records. The fields of a subclass are its fields on the wire."""

    number: ClassVar[int] = 0


@frozen
class SnapshotBegin(Record):
    """Everything that the sender exports to the receiver follows."""

    number: ClassVar[int] = 1


@frozen
class SnapshotEnd(Record):
    """Everything was told; what was not told again does not exist any more."""

    number: ClassVar[int] = 2
    count: int
    digest: int


@frozen
class Digest(Record):
    """Number and combined hash of the records that the receiver must have of the sender now."""

    number: ClassVar[int] = 3
    count: int
    digest: int


@frozen
class Seen(Record):
    """Number of control batches that the sender has processed on this connection."""

    number: ClassVar[int] = 4
    count: int


@frozen
class Resync(Record):
    """The digest differs from what the sender has: it asks for a snapshot."""

    number: ClassVar[int] = 5


@frozen
class Member(Record):
    """A node that belongs to the mesh."""

    number: ClassVar[int] = 10
    node_id: str
    name: str
    urls: Texts


@frozen
class Load(Record):
    """How busy the sender is: its number of clients."""

    number: ClassVar[int] = 11
    clients: int


@frozen
class Leaving(Record):
    """How far the sender is with leaving the mesh: a number of `departures.Parting`."""

    number: ClassVar[int] = 13
    state: int


@frozen
class Forgotten(Record):
    """A node that is no member any more, by the word of an operator, with the number of starts it was known by."""

    number: ClassVar[int] = 14
    node_id: str
    incarnation: int
    since_ms: int


@frozen
class Sees(Record):
    """Nodes that the sender is connected with, the receiver among them."""

    number: ClassVar[int] = 15
    node_ids: Texts


@frozen
class Instance(Record):
    """The queue of one name at the sender; `id` names it on this connection."""

    number: ClassVar[int] = 20
    id: int
    address: str
    queue: str
    placement: int
    filter: str


@frozen
class SharedInstance(Instance):
    """The queue of a subscription that clients of several nodes may share."""

    number: ClassVar[int] = 26
    is_durable: int
    root: int
    """How many nodes away from the receiver clients subscribed to it, or an administrator made it; 1: at the sender, 0:
    nowhere that the sender knows of, and it only collects for others."""


@frozen
class Interest(Record):
    """What subscriptions of one address, or of a pattern of addresses, want of what is published at other nodes."""

    number: ClassVar[int] = 23
    id: int
    node: str
    """Id of the node that has the subscriptions: the sender, or one behind it."""
    distance: int
    """How many nodes away from the receiver that node is; 1: it is the sender."""
    pattern: str
    wants: Texts
    """Selectors of the subscriptions; None: some have none, or there are too many."""
    durable: Texts
    """Selectors of the durable ones; None as above, empty: there are no durable ones."""


@frozen
class Demand(Record):
    """What the consumers of an instance could take."""

    number: ClassVar[int] = 21
    id: int
    wants: Wants = ()
    """For each selector: its text (empty: any message), how many nodes away the nearest such consumer is (1: it is the
    sender's own), and how many consumers there are at that distance, of which at most 64 are told."""

    @property
    def consumers(self) -> int:
        """Number of consumers; 0: there is no demand."""
        return sum([consumers for _, _, consumers in self.wants])

    @property
    def distance(self) -> int:
        """How many nodes away the nearest consumer is."""
        return min([distance for _, distance, _ in self.wants], default=0)


@frozen
class Gone(Record):
    """An instance was deleted."""

    number: ClassVar[int] = 22
    id: int


@frozen
class Ready(Record):
    """The sender has messages for the demand of the receiver, and no grant left."""

    number: ClassVar[int] = 24
    id: int
    is_ready: int


@frozen
class Grant(Record):
    """The receiver may have handed over so many messages for an instance since this connection began."""

    number: ClassVar[int] = 25
    id: int
    total: int


@frozen
class Offer(Record):
    """The sender is being drained, and the receiver may have everything of this queue of the sender (1), or not (0)."""

    number: ClassVar[int] = 27
    address: str
    queue: str
    is_offered: int


@frozen
class Ended(Record):
    """A shared subscription was ended by a client of the sender, or of another node; `ended_ms` is when."""

    number: ClassVar[int] = 50
    queue: str
    ended_ms: int


@frozen
class ToldMarks(Record):
    """The sender has durably taken messages of each of these channels up to the number; nothing else comes first."""

    number: ClassVar[int] = 80
    marks: Marks


@frozen
class Closed(Record):
    """The sender will never use these channels again, and needs no marks of them."""

    number: ClassVar[int] = 81
    marks: Marks


@frozen
class Channel(Record):
    """Messages follow on this channel; the first has this number."""

    number: ClassVar[int] = 82
    id: int
    next: int


@frozen
class CopyChannel(Record):
    """The same for copies."""

    number: ClassVar[int] = 83
    id: int
    next: int


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
    Instance,
    SharedInstance,
    Interest,
    Demand,
    Gone,
    Ready,
    Grant,
    Offer,
    Ended,
    ToldMarks,
    Closed,
    Channel,
    CopyChannel,
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
