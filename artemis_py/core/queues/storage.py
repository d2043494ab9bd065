"""The contract of a store.

The core calls the methods below while it works through a batch; none of them blocks. Everything put before
`when_durable` is on disk when its callback runs; a protocol answers its producers only from that callback.

A store commits between iterations of the loop, never within one: everything that one call of the core puts and
removes (a message for several queues, a move to a dead-letter address, a transaction) survives a crash as a whole
or not at all. That is why there is no begin and end here.

A store that failed (full disk, I/O error) accepts and confirms nothing any more. These methods do not raise then: the
core refuses durable messages before they get here (`Domain.storage_failed`).

Batches have ascending numbers. The store tells the core which of them are durable (`Dispatcher.stored`): references
of a later batch (`Reference.batch`) are not delivered yet.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from artemis_py.errors import LimitExceeded

if TYPE_CHECKING:
    from artemis_py.core.addresses.address import Address
    from artemis_py.core.messages.large_body import LargeBody
    from artemis_py.core.queues.arrival import Arrival
    from artemis_py.core.queues.page import Page, PageRequest, Place
    from artemis_py.core.queues.queue import Queue
    from artemis_py.core.queues.reference import Reference

RESERVED_SEQUENCES: Final = 65536
"""Number of sequences that a queue reserves ahead of use; more are reserved when half are used up. Half is more than a
queue takes in during one commit, so a sequence is never used before its reservation is durable."""

MAX_RECORD_KEY_BYTES: Final = 400
"""Limit for the key of a record, including its space. LMDB accepts keys of up to 511 octets and refuses longer ones
when they are written, which would end the whole store."""

HOST_PREFIX: Final = "@"
"""First character of the spaces of virtual hosts; no other space begins with it."""

UNLIMITED: Final = 1 << 60
"""A sequence number that no queue reaches."""


def check_record_key(space: str, key: bytes) -> None:
    """Raise LimitExceeded if a store could not write a record with this key."""
    size = len(space.encode()) + 1 + len(key)
    if size > MAX_RECORD_KEY_BYTES:
        raise LimitExceeded(f"a record of '{space}' has a key of {size} octets; {MAX_RECORD_KEY_BYTES} are allowed")


class RecordStorage(Protocol):
    """Records of protocols and of the core, in spaces of their own."""

    @property
    def is_durable(self) -> bool:
        """Whether anything survives a restart."""

    def save_record(self, space: str, key: bytes, value: bytes | None) -> None:
        """See `Storage`."""

    def load_records(self, space: str) -> list[tuple[bytes, bytes]]:
        """See `Storage`."""

    def when_durable(self, callback: Callable[[], None], failed: Callable[[str], None] | None = None) -> None:
        """See `Storage`."""


def space_of(host: int, space: str) -> str:
    """Return the space in which records of a virtual host are kept; those of the default host (0) are kept as named."""
    return space if host == 0 else f"{HOST_PREFIX}{host}:{space}"


def host_and_space(space: str) -> tuple[int, str]:
    """Return the virtual host and the name of a space that `space_of` made."""
    if not space.startswith(HOST_PREFIX):
        return 0, space
    number, _, name = space[1:].partition(":")
    return (int(number), name) if number.isascii() and number.isdigit() else (0, space)


class HostRecords:
    """The records of one virtual host, apart from those of others; fulfils `RecordStorage`."""

    def __init__(self, storage: "Storage", host: int) -> None:
        self._storage: Storage = storage
        self._host: int = host

    @property
    def is_durable(self) -> bool:
        """Whether anything survives a restart."""
        return self._storage.is_durable

    def save_record(self, space: str, key: bytes, value: bytes | None) -> None:
        """Save a record in the host's space of this name."""
        self._storage.save_record(space_of(self._host, space), key, value)

    def load_records(self, space: str) -> list[tuple[bytes, bytes]]:
        """Return the records in the host's space of this name."""
        return self._storage.load_records(space_of(self._host, space))

    def when_durable(self, callback: Callable[[], None], failed: Callable[[str], None] | None = None) -> None:
        """Run `callback` once everything put so far is durable; see `Storage`."""
        self._storage.when_durable(callback, failed)


class Pages(Protocol):
    """A place for messages of queues that are not in memory."""

    def read(self, queue: "Queue", request: "PageRequest") -> "Page | None":
        """Read a page of a queue's references; see `page`. A store that commits shows what it committed.

        None if it cannot be read.
        """

    def find_last(self, queue: "Queue", key: bytes) -> "Place | None":
        """Return the place of the newest message of a queue with this key (`Reference.key`), without reading it.

        A store that commits shows what it committed. None if there is none, or if it cannot be read.
        """

    def remove_at(self, queue: "Queue", place: "Place", key: bytes) -> None:
        """Forget the message at a place that `find_last` returned for this key."""


class Scratch(Pages, Protocol):
    """Room on disk for messages that must not survive a restart; it is never synced."""

    @property
    def is_usable(self) -> bool:
        """Whether it takes more messages; false once the disk has failed."""

    def spill(self, reference: "Reference", rank: int) -> None:
        """Write a message, which the caller then forgets. `read` finds it at once."""

    def remove(self, reference: "Reference", rank: int) -> None:
        """Forget a message that was read."""

    def find_last(self, queue: "Queue", key: bytes) -> "Place | None":
        """Return the place of the newest message of a queue with this key (`Reference.key`), without reading it."""

    def remove_at(self, queue: "Queue", place: "Place", key: bytes) -> None:
        """Forget the message at a place that `find_last` returned for this key."""

    def drop(self, queue: "Queue", rank: int, upto: int) -> None:
        """Forget a queue's messages of one rank up to position `upto`; none of them can be read from now on."""

    def sweep(self) -> bool:
        """Free a slice of the room that dropped messages occupy; True if there is more."""


class Storage(Pages, Protocol):
    """Durable memory for messages and for the queues that refer to them."""

    @property
    def is_durable(self) -> bool:
        """Whether anything survives a restart."""

    @property
    def definitions(self) -> int:
        """Number of times an address or queue was saved or forgotten; a caller compares it to know what must wait."""

    @property
    def batch(self) -> int:
        """Number of the batch that is being gathered. Each commit writes one batch, in order."""

    @property
    def committed(self) -> int:
        """Number of the last batch that was committed: `read` shows at least this batch."""

    def put(self, reference: "Reference") -> None:
        """Save that a durable queue refers to a durable message, and give the reference its `handle`.

        If the message has to be durable before it is delivered, the reference gets its `batch` too.

        Called when the reference has its place: its sequence, or 0 while it waits for the message's delivery time. The
        message is written once, however many queues refer to it. If the reference is COLD, its queue is told when it
        is committed (`Queue.committed`), and finds it with `read` from then on.
        """

    def put_stored(self, reference: "Reference", source: "Reference") -> None:
        """Save as `put` does, for a message that the store has already, under `source` in another queue.

        The caller removes `source` before the loop goes on. The store need not encode or transfer the message again.
        """

    def move(self, source: "Queue", rank: int, after: int, arrival: "Arrival") -> None:
        """Move references of one rank of `source` to the queue of an arrival: as many as it counts, behind `after`.

        They are all that `source` has between these sequences, which are consecutive, and none of them is shared, has
        a large body, a last-value key or failed attempts. The caller forgets them. The queue is told when it finds
        them with `read` (`Queue.arrived`).
        """

    def inherit(self, source: "Queue", rank: int, arrival: "Arrival") -> None:
        """Let the queue of an arrival have all references of `source`, which stay where they are.

        As `move` does, for sequences from 1; but it costs the same for any number. The end of `source` leaves them.
        """

    def create_large(self, durable: bool) -> "LargeBody":
        """Create a body for a message that is too large for memory, held by the caller. Raises StoreError.

        If `durable`, it becomes durable with the first reference put to a message that has it.
        """

    def is_written(self, reference: "Reference") -> bool:
        """Tell whether a reference that was put is committed."""

    def remove(self, reference: "Reference") -> None:
        """Forget a reference that has a handle; the message is deleted with its last reference."""

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
        """Forget all references of one rank behind position `after`, up to `upto`: `count` of them.

        References whose sequence is in `kept` stay. Deletion may take several commits, but after the first no restart
        brings the references back; until it is complete nothing of the range may be read. (Scheduled references are
        not read any more.)
        """

    def update(self, reference: "Reference", due_ms: int) -> None:
        """Save a reference's failed attempts, and the time before which it may not be delivered again (0: at once)."""

    def save_address(self, address: "Address") -> None:
        """Save an address as it is now."""

    def forget_address(self, address: "Address") -> None:
        """Forget an address that was deleted."""

    def save_queue(self, queue: "Queue") -> None:
        """Save a durable queue as it is now."""

    def forget_queue(self, queue: "Queue") -> None:
        """Forget a queue that was deleted, with all its references."""

    def save_duplicate(self, address: "Address", number: int, id: bytes) -> None:
        """Save the id under which an address took a message; each id of an address has its own number."""

    def forget_duplicate(self, address: "Address", number: int) -> None:
        """Forget an id that gave way to newer ones; the ids of a deleted address are forgotten with it."""

    def load_duplicates(self, address: "Address") -> list[tuple[int, bytes]]:
        """Return the numbers and ids that an earlier run saved for this address, in the order of the numbers.

        Called once, before the first is saved.
        """

    def save_record(self, space: str, key: bytes, value: bytes | None) -> None:
        """Save a value that belongs to a protocol or the core, or forget it (None), together with the current batch.

        `space` separates the records of one owner from others. The owner decides what values mean and how they change
        between releases. Raises LimitExceeded for a key that is too long (`check_record_key`).
        """

    def load_records(self, space: str) -> list[tuple[bytes, bytes]]:
        """Return the keys and values that an earlier run saved in this space, in the order of the keys.

        Must be called before the first is saved.
        """

    def forget_spaces(self, host: int, after: bytes, limit: int) -> bytes | None:
        """Forget at most `limit` records in the spaces of a virtual host, in the order of their keys.

        Only what an earlier batch saved is found. Returns the key to continue `after` in the next call, which is b"" in
        the first one; None if there is no more.
        """

    def mark_hosts(self) -> None:
        """Note, with the current batch, that the store has virtual hosts: earlier releases must not open it."""

    def reserve(self, queue: "Queue") -> int:
        """Reserve sequence numbers that are about to be used, so that they are not used again after a restart.

        Returns the number at which to call this again.
        """

    def hurry(self, reference: "Reference") -> None:
        """Commit this reference without delay, because a consumer waits for it to be durable (`Dispatcher.stored`)."""

    def hasten(self) -> None:
        """Commit everything put so far without waiting for more, if it is much: it will not be consumed before."""

    def when_durable(self, callback: Callable[[], None], failed: Callable[[str], None] | None = None) -> None:
        """Run `callback` once everything put so far is durable, at once if it is already. Callbacks keep their order.

        If that never happens, `failed` is run with the reason instead: what was put may or may not be durable.
        """
