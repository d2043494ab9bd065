"""An address, and the memory its messages hold.

An address never stores messages; its queues do. It owns what is counted per address: routing statistics, the
resolved settings, and the account that `max-size-bytes` and `address-full-policy` are about.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from artemis_py.core.message import Message, RoutingType
from artemis_py.core.settings import DiskFullPolicy, FullPolicy, ResolvedSettings

if TYPE_CHECKING:
    from artemis_py.core.duplicates import DuplicateCache
    from artemis_py.core.queue import Queue
    from artemis_py.core.routing import Routes

# PAGE and BLOCK honour the credit producers already hold, so the broker-wide limit can be overshot. At this multiple
# of it messages are refused whatever the policy: memory stays bounded even against a thousand links with full credit.
GLOBAL_REJECT_FACTOR = 2

_NO_LIMIT = 1 << 62


class MemoryAccount:
    """Bytes and messages held, against limits; -1 means no limit. Producers that must wait register here."""

    __slots__ = (
        "_is_closed",
        "_waiting",
        "disk_is_exhausted",
        "disk_is_full",
        "full_bytes",
        "full_messages",
        "is_full",
        "max_bytes",
        "max_messages",
        "message_count",
        "size_bytes",
    )

    def __init__(self, max_bytes: int = -1, max_messages: int = -1) -> None:
        self.size_bytes: int = 0
        self.message_count: int = 0
        self.max_bytes: int = max_bytes
        self.max_messages: int = max_messages
        self.full_bytes: int = _NO_LIMIT
        """From this size on it is full: the limit, or a number that is never reached."""
        self.full_messages: int = _NO_LIMIT
        self.is_full: bool = False
        """Over a limit, closed, or short of disk: each message needs a closer look before it is taken."""
        self.disk_is_full: bool = False
        """Of the account of the whole broker: the limit of the disk is reached, nobody is told that there is room."""
        self.disk_is_exhausted: bool = False
        """Far beyond the limit: messages are refused, whatever the policy."""
        self._is_closed: bool = False
        self._waiting: list[Callable[[], None]] = []
        self.set_limits(max_bytes, max_messages)

    def set_limits(self, max_bytes: int, max_messages: int) -> None:
        """Apply new limits; who waits is told if there is room now."""
        self.max_bytes = max_bytes
        self.max_messages = max_messages
        self.full_bytes = max_bytes if max_bytes >= 0 else _NO_LIMIT
        self.full_messages = max_messages if max_messages >= 0 else _NO_LIMIT
        self.update()

    def update(self) -> None:
        """Decide anew whether the account is full, and tell who waits if it is not."""
        over_limit = self.is_over_limit
        self.is_full = over_limit or self._is_closed or self.disk_is_full
        if not over_limit and not self.disk_is_full and self._waiting:
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                callback()

    @property
    def is_over_limit(self) -> bool:
        """Whether a limit is reached."""
        return self.size_bytes >= self.full_bytes or self.message_count >= self.full_messages

    def close(self) -> None:
        """From now on each message gets a closer look."""
        self._is_closed = True
        self.update()

    def when_room(self, callback: Callable[[], None]) -> None:
        """Run `callback` once, when the account is not full any more."""
        self._waiting.append(callback)


class Address:
    """A named end-point that producers send to (reference §1.1)."""

    def __init__(
        self,
        name: str,
        routing_types: frozenset[RoutingType],
        settings: ResolvedSettings,
        broker_account: MemoryAccount,
        auto_created: bool = False,
        temporary: bool = False,
        internal: bool = False,
    ) -> None:
        self.name: str = name
        self.routing_types: frozenset[RoutingType] = routing_types
        self.auto_created: bool = auto_created
        self.temporary: bool = temporary
        self.internal: bool = internal
        self.paused: bool = False
        self.is_deleted: bool = False
        self.queues: list[Queue] = []
        """Queues bound to exactly this address, in the order they were created."""
        self.routes: Routes | None = None
        """Where messages go, wildcard bindings included; the post office fills it in, None means out of date."""
        self.settings: ResolvedSettings = settings
        self.changes_messages: bool = settings.changes_messages
        """Whether routing has to look at the settings at all."""
        self.account: MemoryAccount = MemoryAccount(settings.max_size_bytes, settings.max_size_messages)
        self.broker_account: MemoryAccount = broker_account
        self.duplicates: DuplicateCache | None = None
        """Ids of messages it took; None until a producer gives one."""
        self.routed: int = 0
        """Messages that reached at least one queue."""
        self.unrouted: int = 0
        """Messages that no queue wanted."""
        self.unrouted_reported: bool = False
        self.full_reported: bool = False
        self.created_ms: int = 0
        self.binding_removed_ms: int = 0
        """When the last queue went; 0 if none ever did."""
        self.swept: bool = False
        """The reaper found it unused in its last pass."""

    @property
    def size_bytes(self) -> int:
        """Memory held by messages sent to this address."""
        return self.account.size_bytes

    @property
    def message_count(self) -> int:
        """Messages held that were sent to this address, each counted once."""
        return self.account.message_count

    def apply_settings(self, settings: ResolvedSettings) -> None:
        """Take over changed address settings."""
        self.settings = settings
        self.changes_messages = settings.changes_messages
        self.account.set_limits(settings.max_size_bytes, settings.max_size_messages)

    @property
    def must_wait(self) -> bool:
        """Whether producers get no more credit: it or the disk is full, and the policy for that is to hold them back.

        PAGE holds them back as well for as long as the storage cannot take pages.
        """
        if self.broker_account.disk_is_full and not self.internal:
            return self.settings.disk_full_policy is DiskFullPolicy.BLOCK
        if self.settings.address_full_policy not in (FullPolicy.BLOCK, FullPolicy.PAGE):
            return False
        return self.account.is_full or (self.broker_account.is_over_limit and not self.internal)

    def when_room(self, callback: Callable[[], None]) -> None:
        """Run `callback` once when `must_wait` may have become false."""
        account = self.account if self.account.is_full else self.broker_account
        account.when_room(callback)

    def charge(self, message: Message) -> None:
        """Count a message that the first queue takes; called once per message."""
        account = self.account
        account.size_bytes += message.size
        account.message_count += 1
        if account.size_bytes >= account.full_bytes or account.message_count >= account.full_messages:
            account.is_full = True
        account = self.broker_account
        account.size_bytes += message.size
        account.message_count += 1
        if account.size_bytes >= account.full_bytes or account.message_count >= account.full_messages:
            account.is_full = True

    def discharge(self, message: Message) -> None:
        """Give back what `charge` counted; called when the last queue let go."""
        account = self.account
        account.size_bytes -= message.size
        account.message_count -= 1
        if account.is_full:
            account.update()
        account = self.broker_account
        account.size_bytes -= message.size
        account.message_count -= 1
        if account.is_full:
            account.update()
