"""What the core asks of a store.

The core calls the methods below while it works through a batch; none of them waits. What was put before
`when_durable` is on disk when its callback runs; a protocol answers its producers only from there.

A store commits between turns of the loop and never in the middle of one: whatever one call of the core puts and
removes (a message for several queues, a move to a dead-letter address, a transaction) survives a crash as a whole
or not at all. That is why there is no begin and end here.

A store that failed (full disk, I/O error) takes nothing any more and confirms nothing any more. It raises nothing
from these methods: the core refuses what asks to be durable before it comes here (`PostOffice.storage_failed`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from artemis_py.core.destination import Address
    from artemis_py.core.queue import Queue, Reference

RESERVED_SEQUENCES: Final = 65536
"""How far ahead of use a queue's sequence numbers are reserved; one more is reserved when half are used up. Half is
more than a queue takes in during one commit, so a number is never used before its reservation is durable."""

UNLIMITED: Final = 1 << 60
"""A sequence number that no queue reaches."""


class Storage(Protocol):
    """Durable memory for messages and for the queues that refer to them."""

    @property
    def is_durable(self) -> bool:
        """Whether anything survives a restart."""

    def put(self, reference: "Reference") -> None:
        """Remember that a durable queue refers to a durable message, and give the reference its `handle`.

        Called when the reference has its place: its sequence, or none (0) while it waits for the message's delivery
        time. The message is stored once, however many queues refer to it.
        """

    def remove(self, reference: "Reference") -> None:
        """Forget a reference that has a handle; the message goes with its last one."""

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

        `space` keeps the records of one owner apart; with it a key has at most 400 bytes. What values mean, and how
        they change from release to release, is the owner's business.
        """

    def load_records(self, space: str) -> list[tuple[bytes, bytes]]:
        """Keys and values that an earlier run remembered in this space, in the order of the keys.

        To be asked before the first is saved.
        """

    def reserve(self, queue: "Queue") -> int:
        """Make sure that sequence numbers about to be used are not used again after a restart.

        Returns the number at which to ask again.
        """

    def when_durable(self, callback: Callable[[], None], failed: Callable[[str], None] | None = None) -> None:
        """Run `callback` once everything put so far is durable, at once if it is. Callbacks keep their order.

        If that never happens, `failed` is run with the reason instead: what was put may be durable or not.
        """
