"""Applies one batch to one transaction of LMDB; called by the worker.

The counts of each queue and rank are kept in the same transaction as the references that they count. Deleting a range
of references is spread over several commits: the first notes the range and subtracts it from the counts, and each
deletes a slice of it.
"""

from typing import Any, Final

from artemis_py.core.messages.record import body_id, encode_message, message_size
from artemis_py.core.queues.page import SCHEDULED_RANK
from artemis_py.errors import DamagedValue
from artemis_py.logs import named_logger
from artemis_py.store import last_values, schema
from artemis_py.store.batch import Batch, Removal
from artemis_py.store.inherited import Inherited, Part, parts_of, record_of
from artemis_py.store.moves import Span, carry_out
from artemis_py.store.schema import Drop

LOGGER: Final = named_logger(__name__)

# Most references that one commit deletes, so that the batches that wait for it wait no more than some 50 ms.
DROP_SLICE: Final = 20_000

# Offset of the message in the value of a shared message.
SHARED_OFFSET: Final = 4
# Bytes of the file that one change touches, approximately, if references are put and removed in order: some 16 are in
# a page.
TOUCHED_BYTES: Final = 256
# The same for changes that are in no order: those of last-values.
PAGE_BYTES: Final = 4096


class Writer:
    """One batch and the transaction that it is written in."""

    def __init__(
        self, databases: dict[bytes, Any], transaction: Any, drop_slice: int, inherited: Inherited | None = None
    ) -> None:
        """Prepare; ranges are added to `inherited` at once, and those in `ended` may be removed after the commit."""
        self._drop_slice: int = drop_slice
        self._inherited: Inherited = Inherited() if inherited is None else inherited
        self.ended: set[int] = set()
        """Ids of inherited ranges whose last reference was deleted."""
        self._transaction: Any = transaction
        self._databases: dict[bytes, Any] = databases
        self.references: Final[Any] = databases[schema.REFERENCES]
        self._attempts: Any = databases[schema.ATTEMPTS]
        self._messages: Any = databases[schema.MESSAGES]
        self._shares: Any = databases[schema.SHARES]
        self._shares_put: dict[int, int] = {}
        """Counts of the shared messages that this batch puts, by id."""
        self._bodies: Any = databases[schema.BODIES]
        self._last_values: Any = databases[schema.LAST_VALUES]
        self._named: dict[bytes, int] = {}
        """Handles in the last-values entries that this batch puts, by the keys of the entries."""
        self._touched: set[int] = set()
        """Ids of large bodies whose count may have become zero."""
        self.touched_bytes: int = 0
        """Bytes of the file that were read or written, approximately."""
        self._counts: dict[int, int] = {}
        """Changes of counts, by queue id and rank in one number."""
        self._bytes: dict[int, int] = {}

    def write(self, batch: Batch) -> None:
        """Write the whole batch, and delete as many dropped references as one commit may.

        Puts come first, because a removal may be of a reference that an earlier batch put; dropped references were
        stored before.
        """
        for database, key, value in batch.damaged:
            # First, because they were read before the batch changed anything.
            self.set_aside(database, key, value)
        self.define(batch.definitions)
        self._put(batch)
        for reference, (handle, delivery_count, due_ms, amendment) in batch.updates.items():
            self.put_attempts(reference.queue.id, handle, delivery_count, due_ms, amendment)
        self.remove(batch.all_removals())
        for move in batch.moves:
            if move.inherits:
                self.inherit(move.span)
            else:
                move.arrival.missing = self.move(move.span)
        self.finish(batch.drops, batch.dropped_addresses)
        batch.has_more = self.drop_some()
        self._touched.update(batch.bodies)
        batch.freed = [
            id for id in self._touched if self._transaction.get(schema.U64.pack(id), db=self._bodies) is None
        ]

    def finish(self, drops: list[Drop], dropped_addresses: list[int]) -> None:
        """Note what is to be deleted, and write the counts: the last changes of a batch."""
        for drop in drops:
            self._note(drop)
        self._write_counts()
        for address_id in dropped_addresses:
            self._drop_duplicates(address_id)

    def define(self, definitions: dict[tuple[bytes, bytes], bytes | None]) -> None:
        """Put and delete values as they are."""
        for (database, key), value in definitions.items():
            if value is None:
                self._transaction.delete(key, db=self._databases[database])
            else:
                self._transaction.put(key, value, db=self._databases[database])

    def _put(self, batch: Batch) -> None:
        sources = batch.sources
        puts = batch.puts
        for reference in puts.all():
            handle = puts.handle(reference)
            message = reference.message
            if message.original is not None:
                # Other references share the original; the changes of this one are stored with the attempts.
                message = message.original
            queue_id = reference.queue.id
            key = schema.place_key(queue_id, handle, message.delivery_time_ms)
            last_key = reference.key
            if handle & schema.SHARED:
                id = message.id
                if not self.share(id):
                    body = None if message.large is None else message.large.id
                    self.put_shared(id, body, encode_message(message))
                value = schema.sharing(key, id, last_key)
            elif sources and reference in sources and last_key is None:
                queue_and_handle = sources[reference]
                content = self.content_at(queue_and_handle[0], queue_and_handle[1])
                value = schema.alone(key, message) if content is None else schema.seal(key, content)
            else:
                if message.large is not None:
                    self.count_body(message.large.id, key, self.references)
                value = schema.alone(key, message, last_key)
            self.put_reference(queue_id, handle, key, value, message.size, last_key)
        self.write_shares()

    def put_reference(
        self, queue_id: int, handle: int, key: bytes, value: bytes, size: int, last_key: bytes | None
    ) -> None:
        """Put a reference whose message has `size` bytes in memory, and count it."""
        self._transaction.put(key, value, db=self.references)
        if last_key is not None:
            entry_key = last_values.entry_key(queue_id, last_key)
            self._named[entry_key] = schema.plain_handle(handle)
            self._transaction.put(entry_key, last_values.entry_value(entry_key, handle, size), db=self._last_values)
            self.touched_bytes += PAGE_BYTES
        self._count(queue_id, schema.rank_in(handle), 1, size)

    def share(self, id: int) -> bool:
        """Count one more reference to a shared message; return False if this batch has not put the message yet."""
        was_put = id in self._shares_put
        if not was_put:
            key = schema.U64.pack(id)
            # Scheduled references that are now due get new places here, and lose the old ones in `_remove`.
            shared = self._transaction.get(key, db=self._shares)
            self._shares_put[id] = 0 if shared is None else schema.count_or_unknown(key, bytes(shared))
        self._shares_put[id] += 1
        return was_put

    def put_shared(self, id: int, body: int | None, encoded: bytes) -> None:
        """Put a message that references share; `body` is the id of its large body."""
        key = schema.U64.pack(id)
        if body is not None:
            self.count_body(body, key, self._messages)
        self._transaction.put(key, schema.seal(key, encoded), db=self._messages)

    def write_shares(self) -> None:
        """Write how many references share the messages that were put."""
        for id, count in self._shares_put.items():
            key = schema.U64.pack(id)
            self._transaction.put(key, schema.count_value(key, count), db=self._shares)

    def content_at(self, queue_id: int, handle: int) -> bytes | None:
        """Return the content of a reference that contains its message; None if there is none that can be read."""
        key = schema.place_key(*self._inherited.place_of(queue_id, handle), 0)
        value = self._transaction.get(key, db=self.references)
        if value is None:
            return None
        try:
            content = schema.unseal(key, bytes(value))
        except DamagedValue:
            return None
        return content if content[:1] == schema.ALONE else None

    def put_attempts(self, queue_id: int, handle: int, delivery_count: int, due_ms: int, amendment: bytes) -> None:
        """Put the failed attempts of a reference, and what consumers changed."""
        key = schema.place_key(*self._inherited.place_of(queue_id, handle), 0)
        self._transaction.put(key, schema.attempts(key, delivery_count, due_ms, amendment), db=self._attempts)

    def remove(self, removals: list[Removal]) -> None:
        """Delete references, and what only they refer to."""
        delete = self._transaction.delete
        is_read = schema.LARGE | schema.UNREAD
        targets = self._inherited.targets
        for queue_id, handle, delivery_time_ms, message_id, size, has_attempts, last_key, _ in removals:
            if targets and queue_id in targets:
                queue_id, handle = self._inherited.place_of(queue_id, handle)
            key = schema.place_key(queue_id, handle, delivery_time_ms)
            value = self._transaction.get(key, db=self.references) if handle & is_read else None
            if delete(key, db=self.references):
                self._count(queue_id, schema.rank_in(handle), -1, -size)
                if handle & schema.SHARED:
                    self._release(message_id)
                elif value is not None:
                    self._release_content(bytes(value))
            if has_attempts:
                delete(key, db=self._attempts)
            if last_key is not None:
                self._forget_last(queue_id, last_key, handle)

    def _release_content(self, value: bytes) -> None:
        """Release what a deleted reference shares: its message or its large body."""
        offset = schema.content_offset(value)
        if value[offset : offset + 1] == schema.SHARING:
            self._release(schema.U64.unpack_from(value, offset + 1)[0])
        else:
            self._release_body(value, offset + 1)

    def _forget_last(self, queue_id: int, last_key: bytes, handle: int) -> None:
        """Delete the entry of a last-value key if it names this reference, and not a newer one."""
        key = last_values.entry_key(queue_id, last_key)
        if key in self._named and self._named[key] != schema.plain_handle(handle):
            # This batch has put a newer one, which saves a look-up.
            return
        value = self._transaction.get(key, db=self._last_values)
        self.touched_bytes += PAGE_BYTES
        if value is not None and last_values.names(bytes(value), handle):
            self._transaction.delete(key, db=self._last_values)

    def _release(self, message_id: int) -> None:
        """Subtract one from the references of a shared message, and delete the message with its last reference."""
        key = schema.U64.pack(message_id)
        value = self._transaction.get(key, db=self._shares)
        count: int = 0 if value is None else schema.count_or_unknown(key, bytes(value)) - 1
        if count > 0:
            self._transaction.put(key, schema.count_value(key, count), db=self._shares)
        else:
            message = self._transaction.get(key, db=self._messages)
            if message is not None:
                self._release_body(bytes(message), SHARED_OFFSET)
            self._transaction.delete(key, db=self._shares)
            self._transaction.delete(key, db=self._messages)

    def count_body(self, id: int, key: bytes, database: Any) -> None:
        """Count a message with a large body that is about to be stored; once, even if this batch is written twice."""
        if self._transaction.get(key, db=database) is None:
            body_key = schema.U64.pack(id)
            value = self._transaction.get(body_key, db=self._bodies)
            count: int = 0 if value is None else schema.count_or_unknown(body_key, bytes(value))
            self._transaction.put(body_key, schema.count_value(body_key, count + 1), db=self._bodies)

    def _release_body(self, value: bytes, offset: int) -> None:
        """Subtract one from the messages of the large body, if any, of the deleted message at `offset` of a value."""
        id = body_id(value, offset)
        if id is None:
            return
        self._touched.add(id)
        key = schema.U64.pack(id)
        counted = self._transaction.get(key, db=self._bodies)
        count: int = 0 if counted is None else schema.count_or_unknown(key, bytes(counted)) - 1
        if count > 0:
            self._transaction.put(key, schema.count_value(key, count), db=self._bodies)
        else:
            self._transaction.delete(key, db=self._bodies)

    def move(self, span: Span) -> int:
        """Move a range and count it where it is now; return how many of it are damaged, and set aside."""
        moved = carry_out(self._transaction, self.references, span)
        self._count(span.source_id, span.source_rank, -moved.gone, -span.size_bytes)
        self._count(span.target_id, span.target_rank, moved.count, span.size_bytes)
        self.touched_bytes += 2 * moved.size_bytes
        for key, value in moved.damaged:
            LOGGER.error("damaged message not moved, set aside: queue=%d key=%s", span.source_id, key.hex())
            self.set_aside(schema.REFERENCES, key, value)
        return len(moved.damaged)

    def inherit(self, span: Span) -> None:
        """Let a queue have a range where it is."""
        self._inherited.add(span)
        key, value = record_of(span)
        self._transaction.put(key, value, db=self._databases[schema.RECORDS])

    def _end_if_empty(self, queue_id: int) -> None:
        """Note that an inherited range is over, if nothing of it is left, not even what is still to be dropped."""
        span = self._inherited.by_source.get(queue_id)
        if span is None:
            return
        prefix = schema.U32.pack(queue_id)
        cursor = self._transaction.cursor(db=self.references)
        if not (cursor.set_range(prefix) and bytes(cursor.key()).startswith(prefix)):
            self.ended.add(queue_id)
            self._transaction.delete(record_of(span)[0], db=self._databases[schema.RECORDS])

    def set_aside(self, database: bytes, key: bytes, value: bytes) -> None:
        """Move a value that was found damaged."""
        self._transaction.put(database + b"\x00" + key, value, db=self._databases[schema.DAMAGED])
        if self._transaction.delete(key, db=self._databases[database]) and database == schema.REFERENCES:
            queue_id, handle = schema.read_place(key)
            self._count(queue_id, schema.rank_in(handle), -1, 0)
            self._transaction.delete(key, db=self._attempts)
            try:
                last_key, content = schema.split_key(schema.unseal(key, value))
                if last_key is not None:
                    self._forget_last(queue_id, last_key, handle)
                shared_id = schema.shared_id(content)
            except DamagedValue:
                return
            if shared_id is not None:
                self._release(shared_id)

    # -- counts ------------------------------------------------------------------------------------------------

    def _count(self, queue_id: int, rank: int, count: int, size_bytes: int) -> None:
        self.touched_bytes += TOUCHED_BYTES
        both = queue_id << 8 | rank
        self._counts[both] = self._counts.get(both, 0) + count
        self._bytes[both] = self._bytes.get(both, 0) + size_bytes

    def _write_counts(self) -> None:
        database = self._databases[schema.COUNTS]
        for both, change in self._counts.items():
            key = schema.rank_key(both >> 8, both & 255)
            value = self._transaction.get(key, db=database)
            count = 0
            size_bytes = 0
            if value is not None:
                count, size_bytes = schema.read_counts(key, bytes(value))
            count += change
            if count > 0:
                size_bytes = max(0, size_bytes + self._bytes[both])
                self._transaction.put(key, schema.counts(key, count, size_bytes), db=database)
            elif value is not None:
                self._transaction.delete(key, db=database)
            if count <= 0:
                self._end_if_empty(both >> 8)

    # -- drops -------------------------------------------------------------------------------------------------

    def _note(self, drop: Drop) -> None:
        """Note references to be deleted: from now on they are not counted, and no restart may find them."""
        inherited = self._inherited
        if drop.rank != schema.ALL_RANKS:
            spans = inherited.of_rank(drop.queue_id, drop.rank)
            if spans:
                self._note_parts(drop, parts_of(spans, drop.queue_id, drop.rank, drop.after, drop.upto))
                return
        elif drop.queue_id in inherited.by_source:
            # What was in this stage belongs to another queue now.
            return
        else:
            for span in inherited.of_queue(drop.queue_id):
                self._note_part(Drop(span.source_id, schema.ALL_RANKS))
        self._note_part(drop)

    def _note_parts(self, drop: Drop, parts: list[Part]) -> None:
        """Note the parts of a drop: those in inherited ranges, whose references are counted, and the rest."""
        rest = Drop(drop.queue_id, drop.rank, drop.after, drop.upto, drop.highest_number, drop.kept)
        rest.count, rest.size_bytes = drop.count, drop.size_bytes
        for part in parts:
            if part.queue_id == drop.queue_id:
                continue
            kept = [position - part.distance for position in drop.kept]
            here = frozenset([position for position in kept if part.after < position <= part.upto])
            noted = Drop(part.queue_id, part.rank, part.after, part.upto, drop.highest_number, here)
            if len(parts) == 1:
                noted.count, noted.size_bytes = drop.count, drop.size_bytes
            else:
                self._tally(noted)
            rest.count -= noted.count
            rest.size_bytes -= noted.size_bytes
            self._note_part(noted)
        # Inherited ranges have none of their keys under the id of the queue itself.
        self._note_part(rest)

    def _tally(self, drop: Drop) -> None:
        """Count what a drop is going to delete."""
        prefix = schema.rank_key(drop.queue_id, drop.rank)
        cursor = self._transaction.cursor(db=self.references)
        found: bool = cursor.set_range(schema.position_key(drop.queue_id, drop.rank, drop.after + 1))
        while found:
            key = bytes(cursor.key())
            if not key.startswith(prefix):
                break
            position = schema.read_position(key)
            if position > drop.upto:
                break
            if position not in drop.kept:
                drop.count += 1
                drop.size_bytes += message_size(bytes(cursor.value()), schema.CONTENT_OFFSET + 1) or 0
            found = cursor.next()

    def _note_part(self, drop: Drop) -> None:
        """Note references to be deleted under their own queue id."""
        database = self._databases[schema.DROPS]
        cursor = self._transaction.cursor(db=database)
        number = schema.U64.unpack(cursor.key())[0] + 1 if cursor.last() else 1
        key = schema.U64.pack(number)
        self._transaction.put(key, schema.drop_value(key, drop), db=database)
        if drop.rank != schema.ALL_RANKS:
            self._count(drop.queue_id, drop.rank, -drop.count, -drop.size_bytes)
            return
        counts = self._transaction.cursor(db=self._databases[schema.COUNTS])
        prefix = schema.U32.pack(drop.queue_id)
        found = counts.set_range(prefix)
        while found and bytes(counts.key()).startswith(prefix):
            found = counts.delete()
        for rank in range(schema.ALL_RANKS):
            self._counts.pop(drop.queue_id << 8 | rank, None)

    def drop_some(self) -> bool:
        """Delete a slice of the noted references; return whether there are more."""
        database = self._databases[schema.DROPS]
        cursor = self._transaction.cursor(db=database)
        left = self._drop_slice
        while cursor.first():
            key = bytes(cursor.key())
            try:
                drop = schema.read_drop(key, bytes(cursor.value()))
            except DamagedValue:
                self.set_aside(schema.DROPS, key, bytes(cursor.value()))
                continue
            for references in (self._attempts, self.references):
                left = self._drop_from(references, drop, left)
                if left <= 0:
                    return True
            if drop.rank == schema.ALL_RANKS:
                # What is left are entries without a reference.
                left = self._drop_from(self._last_values, drop, left)
                if left <= 0:
                    return True
            self._transaction.delete(key, db=database)
            self._end_if_empty(drop.queue_id)
        return False

    def _drop_from(self, database: Any, drop: Drop, left: int) -> int:
        """Delete references of a drop from one database; return how many more this commit may delete."""
        everything = drop.rank == schema.ALL_RANKS
        if everything:
            prefix = schema.U32.pack(drop.queue_id)
            start = prefix
        else:
            prefix = schema.rank_key(drop.queue_id, drop.rank)
            start = schema.position_key(drop.queue_id, drop.rank, drop.after)
        cursor = self._transaction.cursor(db=database)
        found: bool = cursor.set_range(start)
        while found and left > 0:
            key = bytes(cursor.key())
            if not key.startswith(prefix):
                break
            if not everything:
                position = schema.read_position(key)
                if position > drop.upto:
                    break
                if position <= drop.after or not goes(drop, key, position):
                    found = cursor.next()
                    continue
            value = bytes(cursor.value())
            found = cursor.delete()
            left -= 1
            if database is self.references:
                self._release_content(value)
                last_key = schema.last_key_in(value)
                if last_key is not None:
                    queue_id, handle = schema.read_place(key)
                    self._forget_last(queue_id, last_key, handle)
        return left

    def _drop_duplicates(self, address_id: int) -> None:
        """Delete the duplicate ids of a deleted address."""
        prefix = schema.U32.pack(address_id)
        cursor = self._transaction.cursor(db=self._databases[schema.DUPLICATES])
        found: bool = cursor.set_range(prefix)
        while found and bytes(cursor.key()).startswith(prefix):
            found = cursor.delete()


def goes(drop: Drop, key: bytes, position: int) -> bool:
    """Tell whether a reference between the ends of a drop is part of it."""
    if drop.rank == SCHEDULED_RANK:
        return schema.number_in(schema.read_place(key)[1]) <= drop.highest_number
    return position not in drop.kept
