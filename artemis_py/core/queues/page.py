"""A page: some of a queue's references on disk, as a store reads them; and what positions on disk are.

A rank is what a store sorts by first: ranks 0 to 9 are 9 minus the priority, and SCHEDULED_RANK is for messages that
wait for their delivery time. Within a rank the position is the sequence. The position of a scheduled message is its
delivery time and the running number in its handle, which keeps messages of the same millisecond in order of arrival.
"""

from typing import Final

from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.accounts import MemoryAccount

SCHEDULED_RANK: Final = 10

_NUMBER_MASK: Final = (1 << 56) - 1

END: Final = (1 << 56) - 1
"""A sequence behind all others."""

SCHEDULE_END: Final = (1 << 120) - 1
"""A position behind all other positions of scheduled messages."""

# The most that is read from disk at a time: about 2 ms, so that the sockets do not wait.
PAGE_MESSAGES: Final = 500
PAGE_BYTES: Final = 1 << 20

# The same while memory is tight: enough to avoid a read for each message.
TIGHT_PAGE_MESSAGES: Final = 50
TIGHT_PAGE_BYTES: Final = 1 << 16

# The same while memory is full: pages read for consumers that do not take them add up over thousands of queues.
FULL_PAGE_MESSAGES: Final = 8
FULL_PAGE_BYTES: Final = 1 << 13


def page_messages(account: MemoryAccount, window: int) -> int:
    """Return how many messages to bring into memory at a time, for a queue that keeps this many there."""
    max_messages = min(PAGE_MESSAGES, max(1, window))
    if account.size_bytes >= account.overdrawn_bytes:
        return 1
    if account.size_bytes >= account.full_bytes:
        return min(FULL_PAGE_MESSAGES, max_messages)
    return min(TIGHT_PAGE_MESSAGES, max_messages) if account.is_tight else max_messages


def page_bytes(account: MemoryAccount, window: int) -> int:
    """Return the same in bytes."""
    max_bytes = min(PAGE_BYTES, max(1, window))
    if account.size_bytes >= account.overdrawn_bytes:
        return 1
    if account.size_bytes >= account.full_bytes:
        return min(FULL_PAGE_BYTES, max_bytes)
    return min(TIGHT_PAGE_BYTES, max_bytes) if account.is_tight else max_bytes


def position_of(reference: Reference) -> int:
    """Return the position of a reference within its rank."""
    if reference.sequence:
        return reference.sequence
    return reference.message.delivery_time_ms << 64 | (reference.handle & _NUMBER_MASK)


def number_of(reference: Reference) -> int:
    """Return the store's running number of a scheduled reference."""
    return reference.handle & _NUMBER_MASK


class Place:
    """Where a message of a queue is on disk."""

    __slots__ = ("rank", "sequence", "size_bytes")

    def __init__(self, rank: int, sequence: int, size_bytes: int) -> None:
        self.rank: int = rank
        self.sequence: int = sequence
        self.size_bytes: int = size_bytes
        """Size of the message in memory (`Message.size`)."""


class PageRequest:
    """A request for references of one rank behind position `after`, up to `upto`, in order."""

    __slots__ = ("after", "max_bytes", "max_messages", "rank", "skipped", "upto")

    def __init__(self, rank: int, after: int, upto: int, max_messages: int, max_bytes: int, skipped: set[int]) -> None:
        self.rank: int = rank
        self.after: int = after
        self.upto: int = upto
        self.max_messages: int = max_messages
        self.max_bytes: int = max_bytes
        """Approximate limit; a page has at least one message."""
        self.skipped: set[int] = skipped
        """Positions to leave out."""

    def up_to(self, position: int) -> "PageRequest":
        """Return the same request up to a lower position."""
        return PageRequest(self.rank, self.after, position, self.max_messages, self.max_bytes, self.skipped)


class Page:
    """Some references in order, newly created; their messages are not counted in any account yet."""

    __slots__ = ("due", "end", "lost", "references")

    def __init__(self) -> None:
        self.references: list[Reference] = []
        self.due: dict[int, int] = {}
        """Times before which failed deliveries may not be repeated, in milliseconds since 1970, by sequence."""
        self.end: int = 0
        """The position up to which the page is complete. A page that was cut off ends at its last reference."""
        self.lost: list[int] = []
        """Positions whose value was damaged: these messages are lost."""
