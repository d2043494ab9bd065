"""A piece of what a queue has on disk, as a store reads it; and how positions on disk are counted.

A rank is what a store sorts by first: 0 to 9 is 9 minus the priority, and SCHEDULED_RANK are the messages that wait
for their delivery time. Within a rank a position is the sequence; of a scheduled message it is the delivery time and
the running number in its handle, which keeps those of the same millisecond in the order they came.
"""

from typing import Final

from artemis_py.core.queues.reference import Reference

SCHEDULED_RANK: Final = 10

_NUMBER_MASK: Final = (1 << 56) - 1

END: Final = (1 << 56) - 1
"""A sequence behind all others."""

SCHEDULE_END: Final = (1 << 120) - 1
"""A position behind all others of the scheduled."""


def position_of(reference: Reference) -> int:
    """The position of a reference within its rank."""
    if reference.sequence:
        return reference.sequence
    return reference.message.delivery_time_ms << 64 | (reference.handle & _NUMBER_MASK)


def number_of(reference: Reference) -> int:
    """The store's running number of a scheduled reference."""
    return reference.handle & _NUMBER_MASK


class PageRequest:
    """A request for references of one rank behind position `after`, up to `upto`, in order."""

    __slots__ = ("after", "max_bytes", "max_messages", "rank", "skipped", "upto")

    def __init__(self, rank: int, after: int, upto: int, max_messages: int, max_bytes: int, skipped: set[int]) -> None:
        self.rank: int = rank
        self.after: int = after
        self.upto: int = upto
        self.max_messages: int = max_messages
        self.max_bytes: int = max_bytes
        """About so many; one message at least."""
        self.skipped: set[int] = skipped
        """Positions that are passed over."""

    def up_to(self, position: int) -> "PageRequest":
        """The same up to a lower position."""
        return PageRequest(self.rank, self.after, position, self.max_messages, self.max_bytes, self.skipped)


class Page:
    """Some references in order, freshly made; their messages are not held yet."""

    __slots__ = ("due", "end", "lost", "references")

    def __init__(self) -> None:
        self.references: list[Reference] = []
        self.due: dict[int, int] = {}
        """By sequence: when a failed delivery may be repeated, in milliseconds since 1970."""
        self.end: int = 0
        """There is nothing else up to this position. A page that was cut ends at its last reference."""
        self.lost: list[int] = []
        """Positions whose value was damaged: that message is lost."""
