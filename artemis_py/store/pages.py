"""Reads a page of the messages that one queue has on disk: in order, with their failed attempts.

It knows the database but no batches: it sees what was committed.
"""

from collections.abc import Mapping
from typing import Any, Final

from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.messages.record import Bodies, amend, decode_message
from artemis_py.core.queues.page import SCHEDULED_RANK, Page, PageRequest
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.errors import DamagedValue
from artemis_py.store import schema

_U64: Final = (1 << 64) - 1


class PageReader:
    """Reader of pages in one transaction."""

    def __init__(
        self, databases: dict[bytes, Any], transaction: Any, formats: Mapping[str, MessageFormat], bodies: Bodies
    ) -> None:
        self._databases: dict[bytes, Any] = databases
        self._transaction: Any = transaction
        self._formats: Mapping[str, MessageFormat] = formats
        self._bodies: Bodies = bodies
        self.damaged: Final[list[tuple[bytes, bytes, bytes, str]]] = []
        """Database, key, value and reason of each damaged value that was passed over."""
        self.read_bytes: int = 0
        """Size of all values that were read."""

    def read(self, queue: Queue, request: PageRequest, above: int) -> Page:
        """Read a page; see `Pages.read`. Raises lmdb.Error.

        Scheduled references up to number `above` are passed over, too.
        """
        rank, upto, skipped = request.rank, request.upto, request.skipped
        page = Page()
        page.end = upto
        prefix = schema.rank_key(queue.id, rank)
        cursor = self._transaction.cursor(db=self._databases[schema.REFERENCES])
        found: bool = cursor.set_range(schema.position_key(queue.id, rank, request.after + 1))
        references = page.references
        last = request.after
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
                page.end = last
                break
            last = position
            if position not in skipped and (rank != SCHEDULED_RANK or (position & _U64) > above):
                value: bytes = bytes(cursor.value())
                self.read_bytes += len(value)
                reference = self._reference(queue, key, value)
                if reference is not None:
                    references.append(reference)
                else:
                    page.lost.append(position)
            found = cursor.next()
        if rank != SCHEDULED_RANK:
            self._attempts(page, prefix)
        return page

    def _reference(self, queue: Queue, key: bytes, value: bytes) -> Reference | None:
        handle = schema.read_place(key)[1]
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

    def _attempts(self, page: Page, prefix: bytes) -> None:
        """Add the failed attempts of the page's references; most pages have none, which costs one look-up."""
        if not page.references:
            return
        by_sequence: dict[int, Reference] = {}
        first = page.references[0]
        last = page.references[len(page.references) - 1].sequence
        cursor = self._transaction.cursor(db=self._databases[schema.ATTEMPTS])
        found: bool = cursor.set_range(schema.place_key(first.queue.id, first.handle, 0))
        while found:
            key: bytes = bytes(cursor.key())
            if not key.startswith(prefix) or schema.read_position(key) > last:
                break
            if not by_sequence:
                for reference in page.references:
                    by_sequence[reference.sequence] = reference
            failed = by_sequence.get(schema.read_position(key))
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
