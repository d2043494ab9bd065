"""The changes that gather between two commits: the latest state of each reference, and the callers to tell.

A batch is filled on the loop and written by the worker, never both at once. Fields of a reference that may change later
(its handle, its counts) are copied into the batch; messages do not change.
"""

from collections.abc import Callable
from typing import Final

from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.messages.record import encode_amendment
from artemis_py.core.queues.reference import COLD, Reference
from artemis_py.store.large import FileBody
from artemis_py.store.moves import Move
from artemis_py.store.puts import Puts
from artemis_py.store.schema import LARGE, SHARED, UNREAD, Drop, is_plain, is_scheduled

Answer = tuple[Callable[[], None], Callable[[str], None] | None]
Removal = tuple[int, int, int, int, int, bool, bytes | None, Reference | None]
"""Queue id, handle, delivery time, message id, size, whether failed attempts may be stored, last-value key; and the
reference, if it was in memory, until its batch is merged into another."""


class Batch:
    """Puts, removals and changes of whole iterations of the loop."""

    __slots__ = (
        "bodies",
        "damaged",
        "defined_bytes",
        "definitions",
        "dropped_addresses",
        "drops",
        "freed",
        "gone",
        "has_more",
        "is_written",
        "last_put",
        "moves",
        "number",
        "put_bytes",
        "puts",
        "removals",
        "scattered",
        "sources",
        "updates",
        "waiting",
    )

    def __init__(self, number: int = 1) -> None:
        self.number: Final[int] = number
        """Number of this batch, from 1 in each run; batches become durable in this order."""
        self.puts: Final[Puts] = Puts()
        """The references to store."""
        self.sources: Final[dict[Reference, tuple[int, int]]] = {}
        """Queue id and handle under which an earlier batch stored the message of a reference in `puts`."""
        self.updates: Final[dict[Reference, tuple[int, int, int, bytes]]] = {}
        """Handle, delivery count, due time in ms, and what consumers changed in the message."""
        self.gone: Final[list[Reference]] = []
        """References to remove of which their message is all that goes with them; nothing of them changes any more."""
        self.removals: Final[list[Removal]] = []
        """All others, and those of batches that were merged."""
        self.drops: Final[list[Drop]] = []
        self.moves: Final[list[Move]] = []
        """Ranges that change their queue, after the puts and before the drops."""
        self.damaged: Final[list[tuple[bytes, bytes, bytes]]] = []
        """Database, key and value of each value that was found damaged."""
        self.definitions: Final[dict[tuple[bytes, bytes], bytes | None]] = {}
        """Values by database and key; None deletes the key."""
        self.bodies: Final[dict[int, FileBody]] = {}
        """Large bodies of the messages that the batch puts or removes, by id."""
        self.freed: list[int] = []
        """Ids of large bodies that no stored message refers to any more; filled in by the worker."""
        self.dropped_addresses: Final[list[int]] = []
        self.waiting: Final[list[Answer]] = []
        """Callbacks to run when the batch is durable, each with the one to run if that fails."""
        self.defined_bytes: int = 0
        """Bytes of the values in `definitions`."""
        self.last_put: Reference | None = None
        self.put_bytes: int = 0
        """Bytes in memory of the messages in `puts`; a shared one counts for each reference."""
        self.scattered: int = 0
        """Puts by delivery time, and puts and removals with a last-value key: each is likely to change a page of its
        own, because they come in no order."""
        self.has_more: bool = False
        """Whether drops are unfinished, so that another commit has to continue them; set by the worker."""
        self.is_written: bool = False
        """Whether the batch is committed; set by the worker."""

    @property
    def has_work(self) -> bool:
        """Whether there is anything to write."""
        return bool(
            self.puts.count > 0
            or self.gone
            or self.removals
            or self.updates
            or self.definitions
            or self.drops
            or self.moves
            or self.damaged
            or self.bodies
        )

    @property
    def changes(self) -> int:
        """Number of things that have gathered, to see whether there are more of them."""
        removals = len(self.gone) + len(self.removals)
        return self.puts.count + removals + len(self.updates) + len(self.definitions) + len(self.waiting)

    def put(self, reference: Reference, handle: int) -> int:
        """Gather a reference to store; return its handle, marked if it shares its message with the reference before it.

        All references to a message come one after the other; if ever they do not, each gets a copy of its own, unless
        the message says that it is shared.
        """
        large = reference.message.large
        if large is not None:
            self._note(large).is_stored = True
        last = self.last_put
        if reference.message.is_shared:
            handle |= SHARED
        elif last is not None and last.message is reference.message and self.puts.has(last):
            handle |= SHARED
            self.puts.share(last)
        self.puts.add(reference, handle)
        self.put_bytes += reference.message.size
        if reference.key is not None or is_scheduled(handle):
            self.scattered += 1
        self.last_put = reference
        return handle

    def note_source(self, reference: Reference, source: Reference) -> None:
        """Note where the message of a reference that was just put is stored already, if it can be taken from there."""
        if (
            source.handle
            and not reference.handle & SHARED
            and reference.message.large is None
            and not self.puts.has(source)
        ):
            self.sources[reference] = (source.queue.id, source.handle)

    def remove(self, reference: Reference) -> None:
        """Gather the removal of a reference. If this batch put it, it was never stored, and will not be."""
        # No `pop`: compiled, that is a call by name, and this is done for each message.
        puts = self.puts
        updates = self.updates
        was_updated = len(updates) > 0 and reference in updates
        if was_updated:
            del updates[reference]
        if puts.has(reference):
            puts.remove(reference)
            if self.sources:
                self.sources.pop(reference, None)
            self.put_bytes -= reference.message.size
            if reference.key is not None or is_scheduled(reference.handle):
                self.scattered -= 1
            return
        message = reference.message
        handle = reference.handle
        has_attempts = was_updated or reference.delivery_count > 0 or message.original is not None
        if message.large is None and reference.key is None and not has_attempts and is_plain(handle):
            self.gone.append(reference)
            return
        if message.large is not None:
            self._note(message.large)
            handle |= LARGE
        if reference.key is not None:
            self.scattered += 1
        self.removals.append(
            (
                reference.queue.id,
                handle,
                message.delivery_time_ms,
                message.id,
                message.size,
                has_attempts,
                reference.key,
                reference,
            )
        )

    def define(self, database: bytes, key: bytes, value: bytes | None) -> None:
        """Gather the value of a key; None deletes it."""
        name = (database, key)
        definitions = self.definitions
        if name in definitions:
            former = definitions[name]
            if former is not None:
                self.defined_bytes -= len(former)
        definitions[name] = value
        if value is not None:
            self.defined_bytes += len(value)

    def remove_unread(self, queue_id: int, handle: int, size_bytes: int, key: bytes) -> None:
        """Gather the removal of a reference that is on disk only, and was not read."""
        self.scattered += 1
        self.removals.append((queue_id, handle | UNREAD, 0, 0, size_bytes, True, key, None))

    def _note(self, large: LargeBody) -> FileBody:
        """Have the commit check whether any stored message still refers to this body; return the body."""
        assert isinstance(large, FileBody)
        self.bodies[large.id] = large
        return large

    def update(self, reference: Reference, due_ms: int) -> None:
        """Gather failed attempts, and what a consumer changed."""
        message = reference.message
        amendment = b"" if message.original is None else encode_amendment(message)
        self.updates[reference] = (reference.handle, reference.delivery_count, due_ms, amendment)

    def merge(self, later: "Batch") -> None:
        """Add what the next batch changes. What this one puts and the next one removes need not be written at all.

        Removals come first: a reference that is removed from one place may be put at another by the same batch.
        """
        self.scattered += later.scattered
        self._merge_gone(later.gone)
        for removal in later.removals:
            self._merge_removal(removal)
        self.puts.take_over(later.puts)
        self.put_bytes += later.put_bytes
        self.last_put = later.last_put or self.last_put
        self.sources.update(later.sources)
        self.updates.update(later.updates)
        for (database, key), value in later.definitions.items():
            self.define(database, key, value)
        self.bodies.update(later.bodies)
        self.drops.extend(later.drops)
        # Nobody removes what was moved before this batch is written: it cannot be read until then.
        self.moves.extend(later.moves)
        self.damaged.extend(later.damaged)
        self.dropped_addresses.extend(later.dropped_addresses)

    def _merge_gone(self, gone: list[Reference]) -> None:
        """Forget references that this batch puts, and remove the others; see `_merge_removal`."""
        puts, updates = self.puts, self.updates
        for reference in gone:
            if len(updates) > 0 and reference in updates:
                self._merge_removal(_removal_of(reference, reference))
            elif puts.has(reference):
                puts.remove(reference)
                if self.sources:
                    self.sources.pop(reference, None)
                self.put_bytes -= reference.message.size
            else:
                # Without the reference, as there.
                self.removals.append(_removal_of(reference, None))

    def all_removals(self) -> list[Removal]:
        """Return all references to remove."""
        return [*[_removal_of(reference, None) for reference in self.gone], *self.removals]

    def _merge_removal(self, removal: Removal) -> None:
        reference = removal[7]
        if reference is None:
            self.removals.append(removal)
            return
        updates = self.updates
        was_updated = len(updates) > 0 and reference in updates
        if was_updated:
            del updates[reference]
        if self.puts.has(reference):
            put = self.puts.handle(reference)
            self.puts.remove(reference)
            if self.sources:
                self.sources.pop(reference, None)
            self.put_bytes -= removal[4]
            if removal[6] is not None:
                # Both are over: the put that was counted here, and the removal that the later batch has counted.
                self.scattered -= 2
            elif is_scheduled(put):
                self.scattered -= 1
            return
        # Without the reference, which would keep the message in memory until the batch is written.
        self.removals.append((*removal[:5], removal[5] or was_updated, removal[6], None))

    def release(self) -> None:
        """Tell the queues that the batch is committed: they need not keep in memory what they have on disk only."""
        for reference in self.puts.all():
            if reference.state == COLD:
                reference.queue.committed(reference)
        for move in self.moves:
            move.arrival.queue.arrived(move.arrival)

    def fail(self, reason: str) -> None:
        """Tell the core that what it expected does not arrive."""
        for move in self.moves:
            move.arrival.fail(reason)


def _removal_of(reference: Reference, kept: Reference | None) -> Removal:
    """Return the removal of one of `Batch.gone`; `kept` is its last part."""
    message = reference.message
    return (
        reference.queue.id,
        reference.handle,
        message.delivery_time_ms,
        message.id,
        message.size,
        False,
        None,
        kept,
    )
