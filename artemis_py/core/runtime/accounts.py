"""Memory accounts: what is held, against limits, and who waits for room.

Messages count in the account of the address they were sent to and in that of the broker; tables that clients make grow
count in one of their own.
"""

from collections.abc import Callable

# PAGE and BLOCK honour the credit producers already hold, so the broker-wide limit can be overshot. At this multiple
# of it messages are refused whatever the policy: memory stays bounded even against a thousand links with full credit.
GLOBAL_REJECT_FACTOR = 2

# Under PAGE durable messages are in memory until a commit has written them, also while the limit is reached: this part
# of it on top is enough for what gathers during a commit. From there on producers wait.
OVERDRAFT_SHARE = 8

# Addresses, queues, consumers, links and sessions that clients make are counted apart from messages: messages can go to
# disk and these cannot. They have as much as messages have (`global-max-size`), and what a small broker needs at least.
LEAST_TABLES_BYTES = 64 << 20

# What they cost, rounded up from 804 to 986, 2,368 to 3,536 and 1,200 to 2,418 bytes (tracemalloc, compiled and pure).
# A queue that has messages of some priority on disk keeps 1,700 more for each priority. Names count on top, with what
# they are keys and parts of.
ADDRESS_BYTES = 1024
QUEUE_BYTES = 4096
CONSUMER_BYTES = 2560
TAIL_BYTES = 2048
NAME_FACTOR = 4

_NO_LIMIT = 1 << 62


def tables_limit(global_max_bytes: int) -> int:
    """How much clients' addresses, queues, consumers, links and sessions may take in all; -1: no limit."""
    return -1 if global_max_bytes < 0 else max(global_max_bytes, LEAST_TABLES_BYTES)


class MemoryAccount:
    """Bytes and messages held, against limits; -1 means no limit. Producers that must wait register here."""

    __slots__ = (
        "_overdrawn_waiting",
        "_waiting",
        "can_spill",
        "disk_is_exhausted",
        "disk_is_full",
        "full_bytes",
        "full_messages",
        "is_closed",
        "is_full",
        "max_bytes",
        "max_messages",
        "message_count",
        "overdrawn_bytes",
        "size_bytes",
        "tight_bytes",
    )

    def __init__(self, max_bytes: int = -1, max_messages: int = -1) -> None:
        self.size_bytes: int = 0
        self.message_count: int = 0
        self.max_bytes: int = max_bytes
        self.max_messages: int = max_messages
        self.full_bytes: int = _NO_LIMIT
        """From this size on it is full: the limit, or a number that is never reached."""
        self.full_messages: int = _NO_LIMIT
        self.tight_bytes: int = _NO_LIMIT
        """From this size on queues keep only what they need at once in memory."""
        self.overdrawn_bytes: int = _NO_LIMIT
        """From this size on producers wait even if what they send can go to disk."""
        self.can_spill: bool = False
        """Messages that are not durable can go to disk."""
        self.is_full: bool = False
        """Over a limit, closed, or short of disk: each message needs a closer look before it is taken."""
        self.is_closed: bool = False
        self.disk_is_full: bool = False
        """Of the account of the whole broker: the limit of the disk is reached, nobody is told that there is room."""
        self.disk_is_exhausted: bool = False
        """Far beyond the limit: messages are refused, whatever the policy."""
        self._waiting: dict[Callable[[], None], None] = {}
        self._overdrawn_waiting: dict[Callable[[], None], None] = {}
        self.set_limits(max_bytes, max_messages)

    def set_limits(self, max_bytes: int, max_messages: int) -> None:
        """Apply new limits; who waits is told if there is room now."""
        self.max_bytes = max_bytes
        self.max_messages = max_messages
        self.full_bytes = max_bytes if max_bytes >= 0 else _NO_LIMIT
        self.full_messages = max_messages if max_messages >= 0 else _NO_LIMIT
        self.tight_bytes = max_bytes // 2 if max_bytes >= 0 else _NO_LIMIT
        self.overdrawn_bytes = max_bytes + max_bytes // OVERDRAFT_SHARE if max_bytes >= 0 else _NO_LIMIT
        self.update()

    def update(self) -> None:
        """Decide anew whether the account is full, and tell who waits if it is not."""
        over_limit = self.is_over_limit
        self.is_full = over_limit or self.is_closed or self.disk_is_full
        if not over_limit and not self.disk_is_full and self._waiting:
            waiting, self._waiting = self._waiting, {}
            for callback in waiting:
                callback()
        if self._overdrawn_waiting and self.size_bytes < self.overdrawn_bytes:
            waiting, self._overdrawn_waiting = self._overdrawn_waiting, {}
            for callback in waiting:
                callback()

    @property
    def is_over_limit(self) -> bool:
        """Whether a limit is reached."""
        return self.size_bytes >= self.full_bytes or self.message_count >= self.full_messages

    @property
    def is_tight(self) -> bool:
        """Whether half of the limit is used up."""
        return self.size_bytes >= self.tight_bytes

    def occupy(self, size_bytes: int) -> None:
        """Count what is no message: a table, a buffer."""
        self.size_bytes += size_bytes
        if self.size_bytes >= self.full_bytes:
            self.is_full = True

    def vacate(self, size_bytes: int) -> None:
        """Give back what `occupy` counted."""
        self.size_bytes -= size_bytes
        if self.is_full:
            self.update()

    def close(self, is_closed: bool = True) -> None:
        """From now on each message gets a closer look, or does not any more."""
        self.is_closed = is_closed
        self.update()

    def when_room(self, callback: Callable[[], None]) -> None:
        """Run `callback` once, when the account is not full any more."""
        self._waiting[callback] = None

    def when_not_overdrawn(self, callback: Callable[[], None]) -> None:
        """Run `callback` once, when the account is below `overdrawn_bytes` again."""
        self._overdrawn_waiting[callback] = None

    def forget(self, callback: Callable[[], None]) -> None:
        """Do not run it: whoever waited is gone."""
        self._waiting.pop(callback, None)
        self._overdrawn_waiting.pop(callback, None)
