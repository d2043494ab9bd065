"""The contract of a store.

The core calls the methods below while it works through a batch; none of them waits. What was put before
`when_durable` is on disk when its callback runs; a protocol answers its producers only from there.

A store commits between turns of the loop and never in the middle of one: whatever one call of the core puts and
removes (a message for several queues, a move to a dead-letter address, a transaction) survives a crash as a whole
or not at all. That is why there is no begin and end here.

A store that failed (full disk, I/O error) takes nothing any more and confirms nothing any more. It raises nothing
from these methods: the core refuses what asks to be durable before it comes here (`Domain.storage_failed`).

Batches have ascending numbers. The store tells the core which of them are durable (`Dispatcher.stored`): references
that have a later one (`Reference.batch`) are not delivered yet.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from artemis_py.errors import LimitExceeded

if TYPE_CHECKING:
    from artemis_py.core.addresses.address import Address
    from artemis_py.core.messages.large_body import LargeBody
    from artemis_py.core.queues.page import Page, PageRequest
    from artemis_py.core.queues.queue import Queue
    from artemis_py.core.queues.reference import Reference

RESERVED_SEQUENCES: Final = 65536
"""How far ahead of use a queue's sequence numbers are reserved; one more is reserved when half are used up. Half is
more than a queue takes in during one commit, so a number is never used before its reservation is durable."""

MAX_RECORD_KEY_BYTES: Final = 400
"""Limit for the key of a record, with its space. LMDB takes 511 octets for a key and refuses longer ones when they are
written, which would end the whole store."""

UNLIMITED: Final = 1 << 60
"""A sequence number that no queue reaches."""


def check_record_key(space: str, key: bytes) -> None:
    """Raises LimitExceeded if a store could not write a record of this key."""
    size = len(space.encode()) + 1 + len(key)
    if size > MAX_RECORD_KEY_BYTES:
        raise LimitExceeded(f"a record of '{space}' has a key of {size} octets; {MAX_RECORD_KEY_BYTES} are allowed")


class Pages(Protocol):
    """A place for messages that a queue has, but not in memory."""

    def read(self, queue: "Queue", request: "PageRequest") -> "Page | None":
        """Read what is there of it; see `page`. A store that commits shows what it committed. None: it cannot."""


class Scratch(Pages, Protocol):
    """Room on disk for messages that no restart shall bring back: neither synced nor kept."""

    @property
    def is_usable(self) -> bool:
        """Whether it takes more; false once the disk failed."""

    def spill(self, reference: "Reference", rank: int) -> None:
        """Take a message; the caller forgets it. `read` finds it at once."""

    def remove(self, reference: "Reference", rank: int) -> None:
        """Forget one that was read."""

    def drop(self, queue: "Queue", rank: int, upto: int) -> None:
        """Forget what a queue has there of one rank, up to this position; nothing of it is read from now on."""

    def sweep(self) -> bool:
        """Give back a slice of the room that what was dropped takes; True if there is more."""


class Storage(Pages, Protocol):
    """Durable memory for messages and for the queues that refer to them."""

    @property
    def is_durable(self) -> bool:
        """Whether anything survives a restart."""

    @property
    def definitions(self) -> int:
        """Times that an address or queue was remembered or forgotten; one that compares it knows what must wait."""

    @property
    def batch(self) -> int:
        """Number of the batch that gathers now. Each commit writes one, in order."""

    @property
    def committed(self) -> int:
        """Number of the last batch that was committed: what `read` shows has at least that in it."""

    def put(self, reference: "Reference") -> None:
        """Remember that a durable queue refers to a durable message, and give the reference its `handle`.

        If the message has to be stored before it is delivered, it gets its `batch` too.

        Called when the reference has its place: its sequence, or none (0) while it waits for the message's delivery
        time. The message is stored once, however many queues refer to it. If the reference is COLD, its queue is told
        when it was committed (`Queue.committed`), and finds it with `read` from then on.
        """

    def create_large(self, durable: bool) -> "LargeBody":
        """A body to be filled with what is too large for memory; the caller holds it. Raises StoreError.

        If `durable`, it is durable with the first reference to a message of it that is put.
        """

    def is_written(self, reference: "Reference") -> bool:
        """Whether a reference that was put is committed."""

    def remove(self, reference: "Reference") -> None:
        """Forget a reference that has a handle; the message goes with its last one."""

    def drop(
        self,
        queue: "Queue",
        rank: int,
        after: int,
        upto: int,
        kept: frozenset[int],
        count: int,
        size_bytes: int,
    ) -> None:
        """Forget `count` references of one rank behind position `after`, up to `upto`, all that were put there.

        Those whose sequence is in `kept` stay. Deleting them may take several commits, but from the first of them on no
        restart brings them back; until then nothing may be read of the range. (Scheduled ones are not read any more.)
        """

    def update(self, reference: "Reference", due_ms: int) -> None:
        """Remember its failed attempts, and the time before which it may not go out again (0: at once)."""

    def save_address(self, address: "Address") -> None:
        """Remember an address as it is now."""

    def forget_address(self, address: "Address") -> None:
        """The address was deleted."""

    def save_queue(self, queue: "Queue") -> None:
        """Remember a durable queue as it is now."""

    def forget_queue(self, queue: "Queue") -> None:
        """The queue was deleted, with all its references."""

    def save_duplicate(self, address: "Address", number: int, id: bytes) -> None:
        """Remember the id under which an address took a message; each of an address has its own number."""

    def forget_duplicate(self, address: "Address", number: int) -> None:
        """This id gave way to newer ones; those of a deleted address are forgotten with it."""

    def load_duplicates(self, address: "Address") -> list[tuple[int, bytes]]:
        """Numbers and ids that an earlier run remembered for this address, in the order of the numbers.

        Asked once, before the first is saved.
        """

    def save_record(self, space: str, key: bytes, value: bytes | None) -> None:
        """Remember a value of a protocol's or the core's own, or forget it (None), with the turn's messages.

        `space` keeps the records of one owner apart. What values mean, and how they change from release to release, is
        the owner's business. Raises LimitExceeded for a key that is too long (`check_record_key`).
        """

    def load_records(self, space: str) -> list[tuple[bytes, bytes]]:
        """Keys and values that an earlier run remembered in this space, in the order of the keys.

        To be asked before the first is saved.
        """

    def reserve(self, queue: "Queue") -> int:
        """Make sure that sequence numbers about to be used are not used again after a restart.

        Returns the number at which to ask again.
        """

    def hurry(self, reference: "Reference") -> None:
        """Commit this reference without delay: a consumer waits for it to be durable (`Dispatcher.stored`)."""

    def when_durable(self, callback: Callable[[], None], failed: Callable[[str], None] | None = None) -> None:
        """Run `callback` once everything put so far is durable, at once if it is. Callbacks keep their order.

        If that never happens, `failed` is run with the reason instead: what was put may be durable or not.
        """
