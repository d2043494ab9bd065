"""A batch byte by byte, as the write-ahead log has it. Numbers are big-endian.

A record is a number of parts, each of one kind, in the order in which a transaction makes the changes:

     0      1         5
    +------+---------+----------------------
    | u8   | u32     | entries, one after the other
    | kind | entries |
    +------+---------+----------------------

    1  damaged      u8 length, database; u16 length, key; u32 length, value as it was found
    2  definition   u8 length, database; u16 length, key; u8 0: delete it, 1: u32 length, value
    3  put          u32 queue id, u64 handle, u64 delivery time in ms, u64 message id, u64 size in memory, u8 flags:
                      1  a last-value key: u8 length, key
                      2  the message is stored already: u32 queue id, u64 handle
                      4  the message: u32 length, message; see `core.messages.record`
                    in this order. A message that several references share is in the first of them
    4  attempts     u32 queue id, u64 handle, u32 delivery count, u64 due time in ms, u32 length, amendment
    5  removal      u32 queue id, u64 handle, u64 delivery time in ms, u64 message id, u64 size, u8 flags:
                      1  a last-value key: u8 length, key
                      2  failed attempts may be stored
    6  drop         u64 references, u64 bytes, u32 length, content of a drop; see `schema`
    7  address      u32 id of an address whose duplicate ids are deleted
    8  move         u32 queue id, u8 rank, u64 sequence before the first reference; u32 queue id, u8 rank, u64 first
                    sequence there; u64 references, u64 bytes
    9  inheritance     the same, of references that stay where they are; see `inherited`
    10 run of puts  u32 queue id, u64 handle and u64 message id of the first, u32 size in memory of each beyond its
                    octets, u32 length, what a message has between id and annotations; then u32 length of annotations
                    and data of each; then annotations and data of each. Handles and ids are consecutive
    11 run of removals  u32 queue id, u64 handle of the first; then u32 size of each. Handles are consecutive

A run is of references that share no message, have no last-value key and do not wait for a delivery time; those put have
no large body, those removed no failed attempts.

Values have no checksum of their own here, because the log has one for the record; a definition has, because its value
is made on the loop.
"""

from struct import Struct, error, pack, unpack
from typing import Final

from artemis_py.core.messages.message import Message
from artemis_py.core.messages.record import body_id, encode_message, middle_of
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.errors import DamagedValue
from artemis_py.store import schema
from artemis_py.store.batch import Batch, Removal
from artemis_py.store.moves import Span
from artemis_py.store.schema import Drop
from artemis_py.store.writer import Writer

DAMAGED: Final = 1
DEFINITION: Final = 2
PUT: Final = 3
ATTEMPTS: Final = 4
REMOVAL: Final = 5
DROP: Final = 6
ADDRESS: Final = 7
MOVE: Final = 8
INHERITANCE: Final = 9
PUT_RUN: Final = 10
REMOVAL_RUN: Final = 11

# A shorter run takes no less than its messages one by one.
LEAST_RUN: Final = 3

# Values from this size on are written from where they are: a part more costs less than copying it.
LONG_BYTES: Final = 1024

_KEYED: Final = 1
_MOVED: Final = 2
_WITH_MESSAGE: Final = 4
_ATTEMPTED: Final = 2

_PART: Final = Struct(">BI")
_CHANGE: Final = Struct(">IQQQQB")
_PLACE: Final = Struct(">IQ")
_TRIED: Final = Struct(">IQIQI")
_DROPPED: Final = Struct(">QQI")
_SPAN: Final = Struct(">IBQIBQQQ")
_PUT_RUN: Final = Struct(">IQQII")
_SHORT: Final = Struct(">B")
_MIDDLE: Final = Struct(">H")
_LONG: Final = Struct(">I")


def encode_batch(batch: Batch) -> list[bytes]:
    """Return the record of a batch, in some parts: a long value is not copied, because there may be many of them."""
    parts: list[bytes] = []
    pieces: list[bytes] = []
    if batch.damaged:
        pieces.append(_PART.pack(DAMAGED, len(batch.damaged)))
        for database, key, found in batch.damaged:
            pieces.append(_named(database, key) + _LONG.pack(len(found)))
            pieces.append(found)
    if batch.definitions:
        pieces.append(_PART.pack(DEFINITION, len(batch.definitions)))
        for (database, key), value in batch.definitions.items():
            if value is None:
                pieces.append(_named(database, key) + b"\x00")
            else:
                head = b"".join((_named(database, key), b"\x01", _LONG.pack(len(value))))
                if len(value) < LONG_BYTES:
                    pieces.append(head + value)
                else:
                    pieces.append(head)
                    parts.append(b"".join(pieces))
                    pieces = []
                    parts.append(value)
    if batch.puts.count:
        _encode_puts(batch, pieces)
    if batch.updates:
        pieces.append(_PART.pack(ATTEMPTS, len(batch.updates)))
        for reference, (handle, delivery_count, due_ms, amendment) in batch.updates.items():
            pieces.append(_TRIED.pack(reference.queue.id, handle, delivery_count, due_ms, len(amendment)))
            pieces.append(amendment)
    if batch.gone:
        _encode_gone(batch.gone, pieces)
    if batch.removals:
        _encode_removals(batch.removals, pieces)
    for move in batch.moves:
        span = move.span
        source = (span.source_id, span.source_rank, span.after)
        target = (span.target_id, span.target_rank, span.first)
        pieces.append(_PART.pack(INHERITANCE if move.inherits else MOVE, 1))
        pieces.append(_SPAN.pack(*source, *target, span.count, span.size_bytes))
    if batch.drops:
        pieces.append(_PART.pack(DROP, len(batch.drops)))
        for drop in batch.drops:
            content = schema.drop_value(b"", drop)
            pieces.append(_DROPPED.pack(drop.count, drop.size_bytes, len(content)) + content)
    if batch.dropped_addresses:
        pieces.append(_PART.pack(ADDRESS, len(batch.dropped_addresses)))
        pieces.extend([schema.U32.pack(id) for id in batch.dropped_addresses])
    parts.append(b"".join(pieces))
    return parts


def _named(database: bytes, key: bytes) -> bytes:
    return b"".join((_SHORT.pack(len(database)), database, _MIDDLE.pack(len(key)), key))


class _PutRun:
    """References that are put, as long as each continues the ones before it."""

    def __init__(self) -> None:
        self._references: list[Reference] = []
        self._queue: Queue | None = None
        self._middle: bytes = b""
        """What stands between id and annotations of each message."""
        self._next_handle: int = 0
        self._next_id: int = 0
        self._overhead: int = 0
        """What the size of each message in memory is more than its octets."""
        self._sizes: list[int] = []
        self._contents: list[bytes] = []

    def take(self, reference: Reference, handle: int, message: Message, middle: bytes) -> bool:
        """Add a reference; False: it begins another run."""
        annotations = message.annotations
        data = message.data
        size = len(annotations) + len(data)
        if (
            reference.queue is not self._queue
            or handle != self._next_handle
            or message.id != self._next_id
            or (middle is not self._middle and middle != self._middle)
            or message.size - size != self._overhead
        ):
            return False
        self._next_handle = handle + 1
        self._next_id = message.id + 1
        self._references.append(reference)
        self._sizes.append(size)
        if annotations:
            self._contents.append(annotations)
        self._contents.append(data)
        return True

    def begin(self, reference: Reference, handle: int, message: Message, middle: bytes) -> None:
        """Begin with this reference; the former run was written."""
        self._references = []
        self._sizes = []
        self._contents = []
        self._queue = reference.queue
        self._middle = middle
        self._next_handle = handle
        self._next_id = message.id
        self._overhead = message.size - len(message.annotations) - len(message.data)
        self.take(reference, handle, message, middle)

    def write(self, pieces: list[bytes], singles: list[bytes]) -> None:
        """Write the run, or its references one by one to `singles` if there are few."""
        count = len(self._sizes)
        first = self._next_handle - count
        if count >= LEAST_RUN and self._queue is not None:
            head = _PUT_RUN.pack(self._queue.id, first, self._next_id - count, self._overhead, len(self._middle))
            pieces.append(_PART.pack(PUT_RUN, count))
            pieces.append(head)
            pieces.append(self._middle)
            pieces.append(pack(f">{count}I", *self._sizes))
            pieces.extend(self._contents)
        else:
            for index, reference in enumerate(self._references):
                singles.append(_put(reference, first + index, reference.message, _WITH_MESSAGE, b""))
        self._sizes = []
        self._references = []


def _encode_puts(batch: Batch, pieces: list[bytes]) -> None:
    singles: list[bytes] = []
    shared: set[int] = set()
    sources = batch.sources
    run = _PutRun()
    puts = batch.puts
    for reference in puts.all():
        handle = puts.handle(reference)
        message = reference.message
        key = reference.key
        if schema.is_plain(handle) and key is None and message.original is None and not sources:
            middle = middle_of(message)
            if middle is not None:
                if not run.take(reference, handle, message, middle):
                    run.write(pieces, singles)
                    run.begin(reference, handle, message, middle)
                continue
        if message.original is not None:
            message = message.original
        flags: int = _WITH_MESSAGE
        before = b""
        if key is not None:
            flags |= _KEYED
            before = _SHORT.pack(len(key)) + key
        if handle & schema.SHARED:
            if message.id in shared:
                flags &= ~_WITH_MESSAGE
            else:
                shared.add(message.id)
        elif sources and key is None and reference in sources:
            source = sources[reference]
            flags = _MOVED
            before = _PLACE.pack(source[0], source[1])
        singles.append(_put(reference, handle, message, flags, before))
    run.write(pieces, singles)
    if singles:
        pieces.append(_PART.pack(PUT, len(singles)))
        pieces.extend(singles)


def _put(reference: Reference, handle: int, message: Message, flags: int, before: bytes) -> bytes:
    """Return the put of one reference."""
    head = _CHANGE.pack(reference.queue.id, handle, message.delivery_time_ms, message.id, message.size, flags)
    if not flags & _WITH_MESSAGE:
        return head + before
    encoded = encode_message(message)
    return b"".join((head, before, _LONG.pack(len(encoded)), encoded))


def _encode_gone(gone: list[Reference], pieces: list[bytes]) -> None:
    queue = gone[0].queue
    first = following = gone[0].handle
    sizes: list[int] = []
    singles: list[bytes] = []
    for reference in gone:
        handle = reference.handle
        if handle != following or reference.queue is not queue:
            _end_gone(queue.id, first, sizes, pieces, singles)
            sizes = []
            queue = reference.queue
            first = handle
        sizes.append(reference.message.size)
        following = handle + 1
    _end_gone(queue.id, first, sizes, pieces, singles)
    if singles:
        pieces.append(_PART.pack(REMOVAL, len(singles)))
        pieces.extend(singles)


def _end_gone(queue_id: int, first: int, sizes: list[int], pieces: list[bytes], singles: list[bytes]) -> None:
    count = len(sizes)
    if count >= LEAST_RUN:
        pieces.append(_PART.pack(REMOVAL_RUN, count))
        pieces.append(_PLACE.pack(queue_id, first))
        pieces.append(pack(f">{count}I", *sizes))
    else:
        for index, size in enumerate(sizes):
            singles.append(_CHANGE.pack(queue_id, first + index, 0, 0, size, 0))


def _encode_removals(removals: list[Removal], pieces: list[bytes]) -> None:
    pieces.append(_PART.pack(REMOVAL, len(removals)))
    for queue_id, handle, delivery_time_ms, message_id, size, has_attempts, last_key, _ in removals:
        flags: int = _ATTEMPTED if has_attempts else 0
        if last_key is None:
            pieces.append(_CHANGE.pack(queue_id, handle, delivery_time_ms, message_id, size, flags))
        else:
            head = _CHANGE.pack(queue_id, handle, delivery_time_ms, message_id, size, flags | _KEYED)
            pieces.append(b"".join((head, _SHORT.pack(len(last_key)), last_key)))


class Replay:
    """Makes the changes of one record in a transaction, as the batch itself would have made them."""

    def __init__(self, record: bytes, writer: Writer) -> None:
        self._record: Final[bytes] = record
        self._writer: Final[Writer] = writer
        self._offset: int = 0
        self._drops: list[Drop] = []
        self._addresses: list[int] = []
        self.lost: int = 0
        """Messages that were to be taken from a place where they are not; only a damaged store has such."""

    def run(self) -> None:
        """Make the changes. Raises DamagedValue if the record is none."""
        try:
            while self._offset < len(self._record):
                kind, count = _PART.unpack_from(self._record, self._offset)
                self._offset += _PART.size
                self._part(kind, count)
        except (error, ValueError, IndexError) as failure:
            raise DamagedValue(f"it is not the record of a batch: {failure}") from failure
        self._writer.finish(self._drops, self._addresses)

    def _part(self, kind: int, count: int) -> None:
        if kind == PUT:
            for _ in range(count):
                self._put()
            self._writer.write_shares()
        elif kind == REMOVAL:
            self._writer.remove([self._removal() for _ in range(count)])
        elif kind == PUT_RUN:
            self._put_run(count)
        elif kind == REMOVAL_RUN:
            self._writer.remove(self._removal_run(count))
        elif kind == DEFINITION:
            self._writer.define(dict([self._definition() for _ in range(count)]))
        elif kind == ATTEMPTS:
            for _ in range(count):
                self._attempts()
        elif kind == DAMAGED:
            for _ in range(count):
                database, key = self._name()
                self._writer.set_aside(database, key, self._take(_LONG.unpack(self._take(_LONG.size))[0]))
        elif kind == MOVE:
            for _ in range(count):
                self._writer.move(Span(*_SPAN.unpack(self._take(_SPAN.size))))
        elif kind == INHERITANCE:
            for _ in range(count):
                self._writer.inherit(Span(*_SPAN.unpack(self._take(_SPAN.size))))
        elif kind == DROP:
            for _ in range(count):
                self._drop()
        elif kind == ADDRESS:
            self._addresses = [schema.U32.unpack(self._take(schema.U32.size))[0] for _ in range(count)]
        else:
            raise DamagedValue(f"it has a part of unknown kind {kind}: a newer release wrote it")

    def _take(self, length: int) -> bytes:
        start = self._offset
        stop: int = start + length
        if stop > len(self._record):
            raise DamagedValue("it ends too early")
        self._offset = stop
        return self._record[start:stop]

    def _key(self) -> bytes:
        return self._take(self._take(1)[0])

    def _name(self) -> tuple[bytes, bytes]:
        database = self._key()
        return database, self._take(_MIDDLE.unpack(self._take(_MIDDLE.size))[0])

    def _definition(self) -> tuple[tuple[bytes, bytes], bytes | None]:
        name = self._name()
        if self._take(1) == b"\x00":
            return name, None
        return name, self._take(_LONG.unpack(self._take(_LONG.size))[0])

    def _put(self) -> None:
        queue_id, handle, delivery_time_ms, id, size, flags = _CHANGE.unpack(self._take(_CHANGE.size))
        key = schema.place_key(queue_id, handle, delivery_time_ms)
        last_key = self._key() if flags & _KEYED else None
        content: bytes | None = None
        if flags & _MOVED:
            content = self._writer.content_at(*_PLACE.unpack(self._take(_PLACE.size)))
            if content is None:
                self.lost += 1
                return
            self._writer.put_reference(queue_id, handle, key, schema.seal(key, content), size, None)
            return
        encoded = self._take(_LONG.unpack(self._take(_LONG.size))[0]) if flags & _WITH_MESSAGE else b""
        if handle & schema.SHARED:
            if not self._writer.share(id):
                self._writer.put_shared(id, body_id(encoded), encoded)
            value = schema.sharing(key, id, last_key)
        else:
            body = body_id(encoded)
            if body is not None:
                self._writer.count_body(body, key, self._writer.references)
            value = schema.alone_encoded(key, encoded, last_key)
        self._writer.put_reference(queue_id, handle, key, value, size, last_key)

    def _put_run(self, count: int) -> None:
        queue_id, handle, id, overhead, length = _PUT_RUN.unpack(self._take(_PUT_RUN.size))
        middle = self._take(length)
        for size in unpack(f">{count}I", self._take(count * _LONG.size)):
            encoded = b"".join((schema.U64.pack(id), middle, self._take(size)))
            key = schema.place_key(queue_id, handle, 0)
            value = schema.alone_encoded(key, encoded, None)
            self._writer.put_reference(queue_id, handle, key, value, size + overhead, None)
            handle += 1
            id += 1

    def _removal_run(self, count: int) -> list[Removal]:
        queue_id, handle = _PLACE.unpack(self._take(_PLACE.size))
        sizes = unpack(f">{count}I", self._take(count * _LONG.size))
        return [(queue_id, handle + index, 0, 0, size, False, None, None) for index, size in enumerate(sizes)]

    def _attempts(self) -> None:
        queue_id, handle, delivery_count, due_ms, length = _TRIED.unpack(self._take(_TRIED.size))
        self._writer.put_attempts(queue_id, handle, delivery_count, due_ms, self._take(length))

    def _removal(self) -> Removal:
        queue_id, handle, delivery_time_ms, id, size, flags = _CHANGE.unpack(self._take(_CHANGE.size))
        last_key = self._key() if flags & _KEYED else None
        return queue_id, handle, delivery_time_ms, id, size, flags & _ATTEMPTED != 0, last_key, None

    def _drop(self) -> None:
        count, size_bytes, length = _DROPPED.unpack(self._take(_DROPPED.size))
        drop = schema.read_drop(b"", self._take(length))
        drop.count = count
        drop.size_bytes = size_bytes
        self._drops.append(drop)
