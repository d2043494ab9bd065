"""The keys and values on disk, byte by byte. Numbers are big-endian, so that keys sort as their numbers do.

One LMDB environment (folder `journal-directory`: `data.mdb`, `lock.mdb`, and `broker.lock` of our own) holds these
named databases:

    meta         b"format"            u32     FORMAT_VERSION, or HOSTS_FORMAT; LOGGED more while the log may be needed
                 b"log"               16 octets that identify the store to its log, u64 number of the last batch of
                                      the log that is in this file; see `store.log`
                 b"next-message-id"   number  ids below it may be taken
                 b"next-queue-id"     number  ids below it may be taken
                 b"next-scheduled"    number  running numbers below it may be taken
                 b"kept-bodies"       number  large bodies below it stay, even if nothing refers to them (`salvage`)
                 b"far"               nothing; there if batches of the log were lost, until a start has had all numbers
                                      continue far above (`log_start`)
                 b"import"            text    JSON: how far an unfinished `data import` has come; no broker starts
                 b"import-map"        text    JSON: what its names and numbers became
                 b"imported:" digest  u64     lines of a finished import; SHA-256 of its file in hexadecimal
    addresses    u32 address id       text    JSON: what `definitions.address_record` gives
    queues       u32 queue id         text    JSON: what `definitions.queue_record` gives
    marks        u32 queue id         number  sequences below it may be taken
    references   place                one reference of a queue, mostly with its message
    counts       u32 queue id, u8 rank        how many references of this rank there are, and their size in memory
    drops        u64 number           references that are still to be deleted: a purge, or the end of a queue
    messages     u64 message id       a message that several references share
    shares       u64 message id       count   how many references share it
    bodies       u64 body id          count   how many stored messages have this large body
    last-values  u32 queue id, key            which message of a last-value queue has this key
    attempts     place                failed deliveries of a reference, and what consumers changed; absent: none
    duplicates   u32 address id, u64 number   the id under which an address took a message
    records      space, NUL, key              what a protocol or the core keeps there; `space` is a text without NUL.
                 The store's own: "skipped", by queue name (beyond 256 octets: 0xff, its SHA-256), u64 from
                 and u64 to of each range of sequences that the queue may never have used, because a crash left
                 them reserved; "inherited", by u32 queue id: a range that belongs to another queue (`inherited`)
    damaged      database name, NUL, key      values whose checksum was wrong, as they were found

A place is the key of a reference. Sorted, the places of a queue are the order in which it delivers:

     0         4         5                                        12
    +---------+---------+----------------------------------------+
    | u32     | u8      | u56                                    |
    | queue   | rank    | sequence                               |
    +---------+---------+----------------------------------------+
    rank: 0 to 9 is 9 minus the priority (an internal queue has priority 4 only).

A reference that waits for the delivery time of its message has rank 10, and no sequence yet:

     0         4         5                                        12                     20
    +---------+---------+----------------------------------------+----------------------+
    | u32     | u8      | u56                                    | u64                  |
    | queue   | 10      | delivery time in ms                    | running number       |
    +---------+---------+----------------------------------------+----------------------+

Rank and sequence as one number (for rank 10: rank and running number) are `Reference.handle`; in memory bit 60 of it
(`SHARED`) says that the message is not in the reference's own value. The references of one rank are ordered by their
position: the sequence, or for rank 10 the delivery time times 2**64 plus the number.

Every value above begins with a checksum, except `format`, those of an import and those in `damaged`:

     0         4
    +---------+-----------
    | u32     | content     CRC-32 of database key and content
    +---------+-----------

    number:                  u64
    count:                   u32; 2**31 and more: it was damaged and is unknown, so what it counts stays
    content of references:   u8 1, then a message          the message is not shared; see `core.messages.record`
                             u8 2, then u64 message id     the message is in `messages`
                             u8 3, then u8 length, a last-value key of that length, and one of the two above
    content of counts:       u64 count, u64 bytes (`Message.size`)
    content of drops:        u32 queue id, u8 rank (255: all of a deleted queue), u128 positions above this one,
                             u128 up to this one, u64 running numbers up to this one (rank 10), then u64 each
                             sequence that stays
    content of attempts:     u32 delivery count, u64 due time in ms since 1970 (0: at once), then nothing, or what
                             consumers changed: u32 length of annotations, annotations, extra, which take the place of
                             those of the message
    content of messages:     a message
    content of last-values:  4 octets "last", u64 rank and sequence of the reference, u64 its size (`Message.size`).
                             The reference has the same key in its value. An entry without its reference means nothing
    content of duplicates:   the id, as `core.routing.duplicates` makes it

Format 2 had numbers and counts without a checksum. The first start converts the numbers; a count is converted when it
is next written, and is recognized by its four octets until then. Formats 2 and 3 had no last-values; the first start
changes the number of the format.

What belongs to a virtual host other than the default one says so: addresses and queues have a field `host` in their
JSON, records a space that begins with `@`, the host's id and a colon. The hosts themselves are records of the space
"virtual-hosts", by u32 id; the key "last" has the last id that was given. The first host changes the format to 5.
"""

from struct import Struct
from typing import Final
from zlib import crc32

from artemis_py.core.messages.message import Message
from artemis_py.core.messages.record import encode_message
from artemis_py.core.queues.page import SCHEDULED_RANK
from artemis_py.errors import DamagedValue

FORMAT_VERSION: Final = 4
HOSTS_FORMAT: Final = 5
"""Format of a store that has or had virtual hosts: the same, but earlier releases would mix up what belongs to whom."""
LOGGED: Final = 2
"""Added to the format while the log may have batches that are not in the file: releases without a log must not open
it. A clean stop subtracts it."""
INHERITING: Final = 4
"""Added to the format while queues have inherited ranges, which earlier releases would take for lost queues."""
KEYLESS_FORMAT: Final = 3
"""Format without last-values; it is read, and the first start makes the database for them."""
UNSEALED_FORMAT: Final = 2
"""Format whose numbers have no checksum; it is read, and converted by the first start."""

META: Final = b"meta"
ADDRESSES: Final = b"addresses"
QUEUES: Final = b"queues"
MARKS: Final = b"marks"
REFERENCES: Final = b"references"
COUNTS: Final = b"counts"
DROPS: Final = b"drops"
MESSAGES: Final = b"messages"
SHARES: Final = b"shares"
BODIES: Final = b"bodies"
LAST_VALUES: Final = b"last-values"
ATTEMPTS: Final = b"attempts"
DUPLICATES: Final = b"duplicates"
RECORDS: Final = b"records"
DAMAGED: Final = b"damaged"
DATABASES: Final = (
    META,
    ADDRESSES,
    QUEUES,
    MARKS,
    REFERENCES,
    COUNTS,
    DROPS,
    MESSAGES,
    SHARES,
    BODIES,
    LAST_VALUES,
    ATTEMPTS,
    DUPLICATES,
    RECORDS,
    DAMAGED,
)

FORMAT_KEY: Final = b"format"
NEXT_MESSAGE_ID: Final = b"next-message-id"
NEXT_QUEUE_ID: Final = b"next-queue-id"
NEXT_SCHEDULED: Final = b"next-scheduled"
KEPT_BODIES: Final = b"kept-bodies"
LOG: Final = b"log"
CONTINUE_FAR: Final = b"far"
NUMBERS: Final = (NEXT_MESSAGE_ID, NEXT_QUEUE_ID, NEXT_SCHEDULED, KEPT_BODIES)
NODE_RECORDS: Final = "broker"
"""Space of the records that identify the broker."""
IMPORT: Final = b"import"
IMPORT_MAP: Final = b"import-map"
IMPORTED: Final = b"imported:"

ALL_RANKS: Final = 255
SHARED: Final = 1 << 60
LARGE: Final = 1 << 61
"""Flag in a removal: the message has a large body."""
UNREAD: Final = 1 << 62
"""Flag in a removal: what the reference shares is known only from its value."""
_HANDLE_MASK: Final = SHARED - 1
_RANK_SHIFT: Final = 56
_SEQUENCE_MASK: Final = (1 << _RANK_SHIFT) - 1
_LAST_U64: Final = (1 << 64) - 1
_NONE: Final[frozenset[int]] = frozenset()

U32: Final = Struct(">I")
U64: Final = Struct(">Q")
_PLACE: Final = Struct(">IQ")
_SCHEDULED_PLACE: Final = Struct(">IQQ")
_RANK: Final = Struct(">IB")
RANK_KEY_BYTES: Final = 5
_COUNTS: Final = Struct(">QQ")
_DROP: Final = Struct(">IBQQQQQ")
_DUPLICATE: Final = Struct(">IQ")
_ATTEMPTS: Final = Struct(">IQ")

KEY_LENGTHS: Final = {
    ADDRESSES: (U32.size,),
    QUEUES: (U32.size,),
    MARKS: (U32.size,),
    REFERENCES: (_PLACE.size, _SCHEDULED_PLACE.size),
    COUNTS: (RANK_KEY_BYTES,),
    DROPS: (U64.size,),
    MESSAGES: (U64.size,),
    SHARES: (U64.size,),
    BODIES: (U64.size,),
    ATTEMPTS: (_PLACE.size, _SCHEDULED_PLACE.size),
    DUPLICATES: (_DUPLICATE.size,),
}
"""Lengths that keys can have, for databases where they are known."""


UNKNOWN_COUNT: Final = 1 << 31

ALONE: Final = b"\x01"
SHARING: Final = b"\x02"
"""First octets of a reference's content: it contains its message, or only the id of a shared one."""
KEYED: Final = b"\x03"
"""First octet of a reference's content if a last-value key comes before the rest."""
CONTENT_OFFSET: Final[int] = U32.size


def handle_of(priority: int, sequence: int) -> int:
    """Return the handle of a reference that has its place in the queue."""
    return (9 - priority) << _RANK_SHIFT | sequence


def scheduled_handle(number: int) -> int:
    """Return the handle of a reference that waits for its delivery time."""
    return SCHEDULED_RANK << _RANK_SHIFT | number


def rank_in(handle: int) -> int:
    """Return the rank of a reference."""
    return (handle & _HANDLE_MASK) >> _RANK_SHIFT


def number_in(handle: int) -> int:
    """Return the last part of a handle: a sequence, or the running number of a scheduled reference."""
    return handle & _SEQUENCE_MASK


def is_scheduled(handle: int) -> bool:
    """Tell whether the reference waits for its delivery time."""
    return (handle & _HANDLE_MASK) >> _RANK_SHIFT == SCHEDULED_RANK


def is_plain(handle: int) -> bool:
    """Tell whether a reference has its place in its queue, and shares its message with no other one."""
    return handle >> _RANK_SHIFT < SCHEDULED_RANK


def plain_handle(handle: int) -> int:
    """Return a handle without flags."""
    return handle & _HANDLE_MASK


def place_key(queue_id: int, handle: int, delivery_time_ms: int) -> bytes:
    """Return the key of a reference; the delivery time is used only if it is scheduled."""
    place = handle & _HANDLE_MASK
    if place >> _RANK_SHIFT == SCHEDULED_RANK:
        due = SCHEDULED_RANK << _RANK_SHIFT | delivery_time_ms
        return _SCHEDULED_PLACE.pack(queue_id, due, place & _SEQUENCE_MASK)
    return _PLACE.pack(queue_id, place)


def position_key(queue_id: int, rank: int, position: int) -> bytes:
    """Return the key that a reference at this position has or would have."""
    if rank == SCHEDULED_RANK:
        return _SCHEDULED_PLACE.pack(queue_id, rank << _RANK_SHIFT | position >> 64, position & _LAST_U64)
    return _PLACE.pack(queue_id, rank << _RANK_SHIFT | position)


def read_place(key: bytes) -> tuple[int, int]:
    """Return queue id and handle of a key."""
    if len(key) == _PLACE.size:
        queue_id, handle = _PLACE.unpack(key)
        return queue_id, handle
    queue_id, _, number = _SCHEDULED_PLACE.unpack(key)
    return queue_id, scheduled_handle(number)


def read_position(key: bytes) -> int:
    """Return the position of a reference within its rank."""
    if len(key) == _PLACE.size:
        place: int = _PLACE.unpack(key)[1]
        return place & _SEQUENCE_MASK
    _, due, number = _SCHEDULED_PLACE.unpack(key)
    return int(due & _SEQUENCE_MASK) << 64 | int(number)


def rank_key(queue_id: int, rank: int) -> bytes:
    """Return the key of a count, which is also the prefix of the keys of its references."""
    return _RANK.pack(queue_id, rank)


def read_rank(key: bytes) -> tuple[int, int]:
    """Return queue id and rank of a count."""
    queue_id, rank = _RANK.unpack(key)
    return queue_id, rank


def alone(key: bytes, message: Message, last_key: bytes | None = None) -> bytes:
    """Return the value of a reference that contains its message, and its last-value key if it has one."""
    return alone_encoded(key, encode_message(message), last_key)


def alone_encoded(key: bytes, encoded: bytes, last_key: bytes | None) -> bytes:
    """Return the value of a reference that contains an encoded message, and its last-value key if it has one."""
    content = ALONE + encoded
    return seal(key, content if last_key is None else _key_part(last_key) + content)


def sharing(key: bytes, message_id: int, last_key: bytes | None = None) -> bytes:
    """Return the value of a reference whose message is stored separately."""
    content = SHARING + U64.pack(message_id)
    return seal(key, content if last_key is None else _key_part(last_key) + content)


def _key_part(last_key: bytes) -> bytes:
    return KEYED + bytes((len(last_key),)) + last_key


def split_key(content: bytes) -> tuple[bytes | None, bytes]:
    """Return the last-value key of a reference, None if it has none, and the rest of its content."""
    if content[:1] != KEYED:
        return None, content
    end = 2 + (content[1] if len(content) > 1 else 0)
    return content[2:end], content[end:]


def content_offset(value: bytes) -> int:
    """Return where the content of a reference begins in its value, behind a last-value key."""
    if value[CONTENT_OFFSET : CONTENT_OFFSET + 1] != KEYED or len(value) < CONTENT_OFFSET + 2:
        return CONTENT_OFFSET
    return CONTENT_OFFSET + 2 + value[CONTENT_OFFSET + 1]


def last_key_in(value: bytes) -> bytes | None:
    """Return the last-value key in the value of a reference, whose checksum is not examined; None if it has none."""
    offset = content_offset(value)
    return None if offset == CONTENT_OFFSET else value[CONTENT_OFFSET + 2 : offset]


def shared_id(content: bytes) -> int | None:
    """Return the id of a reference's shared message; None if it contains its message. Raises DamagedValue.

    `content` is without a last-value key (`split_key`).
    """
    kind = content[:1]
    if kind == SHARING and len(content) == 9:
        return int(U64.unpack_from(content, 1)[0])
    if kind != ALONE:
        raise DamagedValue("it is not a reference")
    return None


def counts(key: bytes, count: int, size_bytes: int) -> bytes:
    """Return the value that says how many references there are, and their size."""
    return seal(key, _COUNTS.pack(count, size_bytes))


def read_counts(key: bytes, value: bytes) -> tuple[int, int]:
    """Return count and bytes. Raises DamagedValue."""
    content = unseal(key, value)
    if len(content) != _COUNTS.size:
        raise DamagedValue("it is not a count")
    count, size_bytes = _COUNTS.unpack(content)
    return count, size_bytes


class Drop:
    """References to delete: of one queue and rank between two positions, or all of a queue."""

    __slots__ = ("after", "count", "highest_number", "kept", "queue_id", "rank", "size_bytes", "upto")

    def __init__(
        self,
        queue_id: int,
        rank: int,
        after: int = 0,
        upto: int = 0,
        highest_number: int = 0,
        kept: frozenset[int] = _NONE,
    ) -> None:
        self.queue_id: int = queue_id
        self.rank: int = rank
        """Rank of the references; ALL_RANKS: everything that belongs to the queue."""
        self.after: int = after
        self.upto: int = upto
        self.highest_number: int = highest_number
        """Highest running number to delete; scheduled references that came later stay, wherever they are."""
        self.kept: frozenset[int] = kept
        """Sequences of references that stay, because consumers have them."""
        self.count: int = 0
        """References to delete, for the counts; not stored."""
        self.size_bytes: int = 0


def drop_value(key: bytes, drop: Drop) -> bytes:
    """Return the value that says what is still to be deleted."""
    head = _DROP.pack(
        drop.queue_id,
        drop.rank,
        drop.after >> 64,
        drop.after & _LAST_U64,
        drop.upto >> 64,
        drop.upto & _LAST_U64,
        drop.highest_number,
    )
    return seal(key, head + b"".join([U64.pack(number) for number in sorted(drop.kept)]))


def read_drop(key: bytes, value: bytes) -> Drop:
    """Return what is still to be deleted. Raises DamagedValue."""
    content = unseal(key, value)
    if len(content) < _DROP.size or (len(content) - _DROP.size) % U64.size:
        raise DamagedValue("it is not a drop")
    queue_id, rank, after_high, after_low, upto_high, upto_low, highest_number = _DROP.unpack_from(content)
    kept = frozenset([number for (number,) in U64.iter_unpack(content[_DROP.size :])])
    return Drop(queue_id, rank, after_high << 64 | after_low, upto_high << 64 | upto_low, highest_number, kept)


def duplicate_key(address_id: int, number: int) -> bytes:
    """Return the key of a duplicate id."""
    return _DUPLICATE.pack(address_id, number)


def duplicate_number(key: bytes) -> int:
    """Return the number in the key of a duplicate id."""
    return int(_DUPLICATE.unpack(key)[1])


def record_key(space: str, key: bytes) -> bytes:
    """Return the key of a record."""
    return space.encode() + b"\x00" + key


def read_record_key(key: bytes) -> tuple[str, bytes]:
    """Return space and key of a record. Raises DamagedValue."""
    space, separator, rest = key.partition(b"\x00")
    if not separator:
        raise DamagedValue("its key has no space")
    return space.decode("utf-8", "replace"), rest


def seal(key: bytes, content: bytes) -> bytes:
    """Return a value: its checksum, then the content."""
    return U32.pack(crc32(content, crc32(key))) + content


def unseal(key: bytes, value: bytes) -> bytes:
    """Return the content of a value. Raises DamagedValue."""
    content = value[4:]
    if len(value) < 4 or U32.unpack_from(value)[0] != crc32(content, crc32(key)):
        raise DamagedValue("its checksum is wrong")
    return content


def number_value(key: bytes, number: int) -> bytes:
    """Return the value of a number that only goes up."""
    return seal(key, U64.pack(number))


def read_number(key: bytes, value: bytes) -> int:
    """Return the number of a value. Raises DamagedValue."""
    content = unseal(key, value)
    if len(content) != U64.size:
        raise DamagedValue("it is not a number")
    return int(U64.unpack(content)[0])


def count_value(key: bytes, count: int) -> bytes:
    """Return the value of a count."""
    content = U32.pack(count)
    return U32.pack(crc32(key + content)) + content


def read_count(key: bytes, value: bytes) -> int:
    """Return the count of a value. Raises DamagedValue."""
    if len(value) == U32.size:
        return int(U32.unpack(value)[0])
    if len(value) != 2 * U32.size or U32.unpack_from(value)[0] != crc32(key + value[U32.size :]):
        raise DamagedValue("its checksum is wrong")
    return int(U32.unpack_from(value, U32.size)[0])


def count_or_unknown(key: bytes, value: bytes) -> int:
    """Return the count of a value; a damaged one is so high that it never becomes zero, so what it counts stays."""
    try:
        return read_count(key, value)
    except DamagedValue:
        return UNKNOWN_COUNT


def attempts(key: bytes, delivery_count: int, due_ms: int, amendment: bytes = b"") -> bytes:
    """Return the value with failed deliveries, and what consumers changed."""
    return seal(key, _ATTEMPTS.pack(delivery_count, due_ms) + amendment)


def read_attempts(key: bytes, value: bytes) -> tuple[int, int, bytes]:
    """Return delivery count, due time in ms, and the amendment, empty if there is none. Raises DamagedValue."""
    content = unseal(key, value)
    size = len(content)
    if size < _ATTEMPTS.size or 0 < size - _ATTEMPTS.size < U32.size:
        raise DamagedValue("it is not a delivery count")
    count, due_ms = _ATTEMPTS.unpack_from(content)
    return count, due_ms, content[_ATTEMPTS.size :]
