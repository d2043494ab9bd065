"""What the core puts and removes, message by message, on its way into a batch.

The part of a store that runs for each message, apart from the rest so that it can be compiled: `group_commit` has
threads and a loop, and says when a batch is committed.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.reference import Reference
from artemis_py.store import schema
from artemis_py.store.batch import Batch
from artemis_py.store.reserved_numbers import ReservedNumbers


@mypyc_attr(allow_interpreted_subclasses=True)
class Gathering:
    """The batch that gathers now, and how messages get into it."""

    def __init__(self) -> None:
        self.reserved: Final[ReservedNumbers] = ReservedNumbers()
        self.failure: str | None = None
        """Reason why nothing is stored any more; None while the store works."""
        self._gathering: Batch = Batch(1)
        self._is_planned: bool = False
        """Whether a commit is going to start, without another call of `_plan` or `_urge`."""
        self._tells_empty: bool = False
        """Whether `_empty` is called when the batch has no message left."""

    def put(self, reference: Reference) -> None:
        """Gather a reference; see `Storage`."""
        if self.failure is not None:
            return
        message = reference.message
        reserved = self.reserved
        sequence = reference.sequence
        if sequence:
            priority = 4 if reference.queue.internal else message.priority
            handle = schema.handle_of(priority, sequence)
        else:
            handle = schema.scheduled_handle(reserved.next_scheduled)
            reserved.next_scheduled += 1
        batch = self._gathering
        reference.handle = batch.put(reference, handle)
        if message.stored_first:
            reference.batch = batch.number
        if message.id > reserved.highest_message_id:
            reserved.highest_message_id = message.id
        if not self._is_planned:
            self._plan()

    def remove(self, reference: Reference) -> None:
        """Gather a removal; see `Storage`."""
        if self.failure is None:
            batch = self._gathering
            batch.remove(reference)
            if not self._is_planned:
                self._plan()
            elif self._tells_empty and batch.puts.count == 0 and len(batch.waiting) > 0 and len(batch.gone) == 0:
                self._empty()

    def _plan(self) -> None:
        """Have a commit start, without hurry."""
        raise NotImplementedError

    def _empty(self) -> None:
        """Have the callers answered who wait for this batch: each message in it was consumed, and needs no record."""
        raise NotImplementedError
