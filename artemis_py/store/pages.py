"""Reads a page of the messages that one queue has on disk: in order, with their failed attempts.

It knows the database but no batches: it sees what was committed.
"""

from collections.abc import Mapping
from typing import Any, Final

from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.messages.record import Bodies, amend, decode_message
from artemis_py.core.queues.page import SCHEDULED_RANK, Page, PageRequest
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import PRIORITIES, Reference
from artemis_py.errors import DamagedValue
from artemis_py.store import schema
from artemis_py.store.inherited import Inherited, Part, parts_of

_U64: Final = (1 << 64) - 1


class PageReader:
    """Reader of pages in one transaction."""

    def __init__(
        self,
        databases: dict[bytes, Any],
        transaction: Any,
        formats: Mapping[str, MessageFormat],
        bodies: Bodies,
        inherited: Inherited,
    ) -> None:
        self._databases: dict[bytes, Any] = databases
        self._transaction: Any = transaction
        self._formats: Mapping[str, MessageFormat] = formats
        self._bodies: Bodies = bodies
        self._inherited: Inherited = inherited
        self.damaged: Final[list[tuple[bytes, bytes, bytes, str]]] = []
        """Database, key, value and reason of each damaged value that was passed over."""
        self.read_bytes: int = 0
        """Size of all values that were read."""

    def read(self, queue: Queue, request: PageRequest, above: int) -> Page:
        """Read a page; see `Pages.read`. Raises lmdb.Error.

        Scheduled references up to number `above` are passed over, too.
        """
        rank = request.rank
        page = Page()
        page.end = request.upto
        spans = self._inherited.of_rank(queue.id, rank)
        if not spans:
            self._read_part(queue, request, above, Part(queue.id, rank, request.after, request.upto, 0), page)
            return page
        for part in parts_of(spans, queue.id, rank, request.after, request.upto):
            if not self._read_part(queue, request, above, part, page):
                break
        return page

    def _read_part(self, queue: Queue, request: PageRequest, above: int, part: Part, page: Page) -> bool:
        """Add the references of a range of keys to a page; False if the page is full.

        Long because it runs once per message.
        """
        rank, upto, skipped, distance = part.rank, part.upto, request.skipped, part.distance
        prefix = schema.rank_key(part.queue_id, rank)
        cursor = self._transaction.cursor(db=self._databases[schema.REFERENCES])
        found: bool = cursor.set_range(schema.position_key(part.queue_id, rank, part.after + 1))
        references = page.references
        begin = len(references)
        last = part.after
        is_full = False
        while found:
            key: bytes = bytes(cursor.key())
            if not key.startswith(prefix):
                break
            position = schema.read_position(key)
            if position > upto:
                break
            if len(references) >= request.max_messages or (
                self.read_bytes >= request.max_bytes and len(references) > 0
            ):
                page.end = last + distance
                is_full = True
                break
            last = position
            if position + distance not in skipped and (rank != SCHEDULED_RANK or (position & _U64) > above):
                value: bytes = bytes(cursor.value())
                self.read_bytes += len(value)
                reference = self._reference(queue, request.rank, distance, key, value)
                if reference is not None:
                    references.append(reference)
                else:
                    page.lost.append(position + distance)
            found = cursor.next()
        if rank != SCHEDULED_RANK and len(references) > begin:
            self._attempts(page, begin, part)
        return not is_full

    def _reference(self, queue: Queue, queue_rank: int, distance: int, key: bytes, value: bytes) -> Reference | None:
        handle = schema.read_place(key)[1]
        if distance or key[4] != queue_rank:
            handle = schema.handle_of(PRIORITIES - 1 - queue_rank, schema.number_in(handle) + distance)
        try:
            last_key, content = schema.split_key(schema.unseal(key, value))
            shared_id = schema.shared_id(content)
            if shared_id is None:
                message = decode_message(content[1:], self._formats, self._bodies)
            else:
                message = self._shared(shared_id)
                message.is_shared = True
                handle |= schema.SHARED
        except DamagedValue as error:
            self.damaged.append((schema.REFERENCES, key, value, str(error)))
            return None
        reference = Reference(message, queue, handle)
        reference.key = last_key
        if not schema.is_scheduled(handle):
            reference.sequence = schema.number_in(handle)
        return reference

    def _shared(self, id: int) -> Message:
        """Return a message that several references share. Raises DamagedValue if it is missing or damaged."""
        key = schema.U64.pack(id)
        found = self._transaction.get(key, db=self._databases[schema.MESSAGES])
        if found is None:
            raise DamagedValue(f"its message {id} is missing")
        value = bytes(found)
        self.read_bytes += len(value)
        try:
            return decode_message(schema.unseal(key, value), self._formats, self._bodies)
        except DamagedValue as error:
            self.damaged.append((schema.MESSAGES, key, value, str(error)))
            raise

    def _attempts(self, page: Page, begin: int, part: Part) -> None:
        """Add the failed attempts of the references behind `begin`; most have none, which costs one look-up."""
        by_sequence: dict[int, Reference] = {}
        first = page.references[begin].sequence
        last = page.references[len(page.references) - 1].sequence
        prefix = schema.rank_key(part.queue_id, part.rank)
        cursor = self._transaction.cursor(db=self._databases[schema.ATTEMPTS])
        found: bool = cursor.set_range(schema.position_key(part.queue_id, part.rank, first - part.distance))
        while found:
            key: bytes = bytes(cursor.key())
            if not key.startswith(prefix) or schema.read_position(key) + part.distance > last:
                break
            if not by_sequence:
                for reference in page.references:
                    by_sequence[reference.sequence] = reference
            failed = by_sequence.get(schema.read_position(key) + part.distance)
            if failed is not None:
                value = bytes(cursor.value())
                try:
                    failed.delivery_count, due_ms, amendment = schema.read_attempts(key, value)
                    if amendment:
                        failed.message = amend(failed.message, amendment)
                    if due_ms:
                        page.due[failed.sequence] = due_ms
                except DamagedValue as error:
                    self.damaged.append((schema.ATTEMPTS, key, value, str(error)))
            found = cursor.next()
