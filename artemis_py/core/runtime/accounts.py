"""Memory accounts: bytes and messages in use, their limits, and the producers that wait for room.

A message counts in the account of the address that it was sent to and in that of the broker. Tables that clients make
grow count in a separate account.
"""

from collections.abc import Callable

# PAGE and BLOCK honour the credit producers already hold, so the broker-wide limit can be overshot. At this multiple
# of it messages are refused whatever the policy: memory stays bounded even against a thousand links with full credit.
GLOBAL_REJECT_FACTOR = 2

# Under PAGE durable messages are in memory until a commit has written them, even while the limit is reached. An
# overdraft of the limit divided by this is enough for what gathers during a commit; beyond it producers wait.
OVERDRAFT_SHARE = 8

# Addresses, queues, consumers, links and sessions that clients make are counted apart from messages, because messages
# can go to disk and these cannot. Their limit is that of messages (`global-max-size`), but at least this.
LEAST_TABLES_BYTES = 64 << 20

# Bytes for each of them, rounded up from 804 to 986, 2,368 to 3,536 and 1,200 to 2,418 bytes (tracemalloc, compiled and
# pure). A queue that has messages of some priority on disk keeps 1,700 more for each priority. Names count on top,
# times NAME_FACTOR for what they are keys and parts of.
ADDRESS_BYTES = 1024
QUEUE_BYTES = 4096
CONSUMER_BYTES = 2560
TAIL_BYTES = 2048
GROUP_BYTES = 320
LISTED_BYTES = 160
NAME_FACTOR = 4

# An exchange with its account, and a binding with its places in the tables of both ends and of the router, rounded up
# from 1,658 and from 395 to 1,389 bytes (tracemalloc, pure). Each word of a pattern may be a node of a trie, of 387
# bytes. An argument counts as this many characters beside those of its name and its value.
EXCHANGE_BYTES = 3072
BINDING_BYTES = 1536
WORD_BYTES = 512
ARGUMENT_BYTES = 64

# A key of a last-value queue whose message is in memory: 64 octets at most, the note of it and its place in a table.
KEY_BYTES = 256

# Compiled code compares numbers below 2 ** 62 at once; for larger ones it makes an object each time.
_NO_LIMIT = 1 << 60


def tables_limit(global_max_bytes: int) -> int:
    """Return how many bytes clients' addresses, queues, consumers, links and sessions may take; -1: no limit."""
    return -1 if global_max_bytes < 0 else max(global_max_bytes, LEAST_TABLES_BYTES)


class MemoryAccount:
    """Bytes and messages in use, and their limits; -1 means no limit. Producers that must wait register here."""

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
        """Size at which it is full: the limit, or a number that is never reached."""
        self.full_messages: int = _NO_LIMIT
        self.tight_bytes: int = _NO_LIMIT
        """Size at which queues keep in memory only what they need at once."""
        self.overdrawn_bytes: int = _NO_LIMIT
        """Size at which producers wait even if their messages can go to disk."""
        self.can_spill: bool = False
        """Whether messages that are not durable can go to disk."""
        self.is_full: bool = False
        """Whether it is over a limit, closed, or short of disk: each message must be checked before it is accepted."""
        self.is_closed: bool = False
        self.disk_is_full: bool = False
        """Whether the disk limit is reached; no producer is then told that there is room. Broker account only."""
        self.disk_is_exhausted: bool = False
        """Whether the disk limit is far exceeded: messages are refused, whatever the policy."""
        self._waiting: dict[Callable[[], None], None] = {}
        self._overdrawn_waiting: dict[Callable[[], None], None] = {}
        self.set_limits(max_bytes, max_messages)

    def set_limits(self, max_bytes: int, max_messages: int) -> None:
        """Apply new limits, and tell waiting producers if there is room now."""
        self.max_bytes = max_bytes
        self.max_messages = max_messages
        self.full_bytes = max_bytes if max_bytes >= 0 else _NO_LIMIT
        self.full_messages = max_messages if max_messages >= 0 else _NO_LIMIT
        self.tight_bytes = max_bytes // 2 if max_bytes >= 0 else _NO_LIMIT
        self.overdrawn_bytes = max_bytes + max_bytes // OVERDRAFT_SHARE if max_bytes >= 0 else _NO_LIMIT
        self.update()

    def update(self) -> None:
        """Update whether the account is full, and tell waiting producers if it is not."""
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
        """Count memory that is not a message, such as a table or a buffer."""
        self.size_bytes += size_bytes
        if self.size_bytes >= self.full_bytes:
            self.is_full = True

    def vacate(self, size_bytes: int) -> None:
        """Give back what `occupy` counted."""
        self.size_bytes -= size_bytes
        if self.is_full:
            self.update()

    def close(self, is_closed: bool = True) -> None:
        """Have each message checked before it is accepted, or (False) no longer."""
        self.is_closed = is_closed
        self.update()

    def when_room(self, callback: Callable[[], None]) -> None:
        """Run `callback` once, when the account is no longer full."""
        self._waiting[callback] = None

    def when_not_overdrawn(self, callback: Callable[[], None]) -> None:
        """Run `callback` once, when the account is below `overdrawn_bytes` again."""
        self._overdrawn_waiting[callback] = None

    def forget(self, callback: Callable[[], None]) -> None:
        """Do not run `callback`: its producer is gone."""
        self._waiting.pop(callback, None)
        self._overdrawn_waiting.pop(callback, None)
