"""An address, and the memory its messages hold.

An address never stores messages; its queues do. It owns what is counted per address: routing statistics, the
resolved settings, and the account that `max-size-bytes` and `address-full-policy` are about.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from artemis_py.core.messages.message import REFERENCE_BYTES, Message, RoutingType
from artemis_py.core.settings.options import DiskFullPolicy, FullPolicy, ResolvedSettings

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue
    from artemis_py.core.routing.duplicates import DuplicateCache
    from artemis_py.core.routing.routes import Routes

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


class Address:
    """A named end-point that producers send to (reference §1.1)."""

    # CPython shares the keys of up to 30 attributes; with more, each address had a table of its own of 1.3 KB.
    __slots__ = (
        "account",
        "auto_created",
        "binding_removed_ms",
        "broker_account",
        "changes_messages",
        "created_ms",
        "creator",
        "duplicates",
        "emptied",
        "full_reported",
        "has_page_limit",
        "internal",
        "is_deleted",
        "is_staging",
        "name",
        "owner",
        "page_full_reported",
        "paged_bytes",
        "paged_count",
        "paused",
        "producers",
        "queues",
        "routed",
        "routes",
        "routing_types",
        "seen_messages",
        "settings",
        "swept",
        "temporary",
        "unrouted",
        "unrouted_reported",
        "used_ms",
    )

    def __init__(
        self,
        name: str,
        routing_types: frozenset[RoutingType],
        settings: ResolvedSettings,
        broker_account: MemoryAccount,
        auto_created: bool = False,
        temporary: bool = False,
        internal: bool = False,
        creator: str | None = None,
    ) -> None:
        self.name: str = name
        self.routing_types: frozenset[RoutingType] = routing_types
        self.auto_created: bool = auto_created
        self.temporary: bool = temporary
        self.internal: bool = internal
        self.creator: str | None = creator
        """The user whose client had it created on demand (`creations`)."""
        self.is_staging: bool = False
        """Its queues are stages: nobody consumes from them, so the broker's limit is all that counts for them."""
        self.owner: object = None
        """The session a temporary address belongs to: nobody else may consume from it."""
        self.emptied: Callable[[str], None] | None = None
        """Called with the name when the last message is gone that was sent here, in the middle of what takes it."""
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
        self.paged_bytes: int = 0
        """What its queues have on disk and not in memory, each on its own."""
        self.paged_count: int = 0
        self.has_page_limit: bool = _has_page_limit(settings)
        self.duplicates: DuplicateCache | None = None
        """Ids of messages it took; None until a producer gives one."""
        self.routed: int = 0
        """Messages that reached at least one queue."""
        self.unrouted: int = 0
        """Messages that no queue wanted."""
        self.unrouted_reported: bool = False
        self.full_reported: bool = False
        self.page_full_reported: bool = False
        self.created_ms: int = 0
        self.binding_removed_ms: int = 0
        """When the last queue went; 0 if none ever did."""
        self.producers: int = 0
        """Clients that stay attached to send here (`Producer.hold`)."""
        self.seen_messages: int = 0
        """How many had been sent here when the reaper last looked, and when it saw that number change."""
        self.used_ms: int = 0
        self.swept: bool = False
        """The reaper found it unused in its last pass."""

    @property
    def size_bytes(self) -> int:
        """Messages sent to this address: memory, and what its queues have on disk only."""
        return self.account.size_bytes + (self.paged_bytes if self.pages else 0)

    @property
    def message_count(self) -> int:
        """Messages sent to this address: in memory each once, on disk once for each queue."""
        return self.account.message_count + (self.paged_count if self.pages else 0)

    @property
    def pages(self) -> bool:
        """Whether its limits are about memory only, and messages above them go to disk."""
        return self.settings.address_full_policy is FullPolicy.PAGE

    @property
    def must_spill(self) -> bool:
        """Whether a message that is not durable goes to disk."""
        if self.is_staging:
            return self.broker_account.can_spill and self.broker_account.is_tight
        return (
            self.pages
            and self.broker_account.can_spill
            and (self.account.is_over_limit or self.broker_account.is_over_limit)
            and not self.internal
        )

    def page_out(self, count: int, size_bytes: int) -> None:
        """Messages are on disk only. With policies that are about all messages they count as before."""
        self.paged_count += count
        self.paged_bytes += size_bytes
        if not self.pages:
            self._account_for(count, size_bytes)
        elif self.has_page_limit:
            self._watch()

    def page_in(self, count: int, size_bytes: int) -> None:
        """Undo `page_out`."""
        self.paged_count -= count
        self.paged_bytes -= size_bytes
        if not self.pages:
            self._account_for(-count, -size_bytes)
        elif self.has_page_limit:
            self._watch()
        if self.emptied is not None and self.paged_count == 0 and self.account.message_count == 0:
            self.emptied(self.name)

    @property
    def is_page_full(self) -> bool:
        """Whether a page limit is reached."""
        settings = self.settings
        return self.has_page_limit and (
            0 <= settings.page_limit_bytes <= self.paged_bytes or 0 <= settings.page_limit_messages <= self.paged_count
        )

    def _watch(self) -> None:
        """While a page limit is reached, each message gets a closer look before it is taken."""
        is_full = self.is_page_full
        if is_full != self.account.is_closed:
            self.account.close(is_full)
            self.page_full_reported = False

    def _account_for(self, count: int, size_bytes: int) -> None:
        self.account.message_count += count
        self.account.size_bytes += size_bytes
        self.account.update()

    def apply_settings(self, settings: ResolvedSettings) -> None:
        """Take over changed address settings."""
        paged = self.pages
        self.settings = settings
        self.changes_messages = settings.changes_messages
        if paged != self.pages:
            sign = 1 if paged else -1
            self._account_for(sign * self.paged_count, sign * self.paged_bytes)
        self.has_page_limit = _has_page_limit(settings)
        self._watch()
        self.account.set_limits(settings.max_size_bytes, settings.max_size_messages)

    @property
    def must_wait(self) -> bool:
        """Whether producers get no more credit: it or the disk is full, and the policy for that is to hold them back.

        PAGE holds them back as well if nothing can go to disk, and while too much is in memory on its way there.
        """
        if self.broker_account.disk_is_full and not self.internal:
            return self.settings.disk_full_policy is DiskFullPolicy.BLOCK
        policy = self.settings.address_full_policy
        if policy is FullPolicy.PAGE and self.broker_account.can_spill:
            return self.broker_account.size_bytes >= self.broker_account.overdrawn_bytes and not self.internal
        if policy is not FullPolicy.BLOCK and policy is not FullPolicy.PAGE:
            return False
        return self.account.is_full or (self.broker_account.is_over_limit and not self.internal)

    def when_room(self, callback: Callable[[], None]) -> None:
        """Run `callback` once when `must_wait` may have become false."""
        if self.pages and self.broker_account.can_spill:
            self.broker_account.when_not_overdrawn(callback)
            return
        account = self.account if self.account.is_full else self.broker_account
        account.when_room(callback)

    def forget(self, callback: Callable[[], None]) -> None:
        """Undo `when_room`."""
        self.account.forget(callback)
        self.broker_account.forget(callback)

    def charge(self, message: Message) -> None:
        """Count a message that the first queue takes; called once per message, and with it comes one reference."""
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

    def charge_reference(self) -> None:
        """Count one more queue that holds a message which was charged."""
        account = self.account
        account.size_bytes += REFERENCE_BYTES
        if account.size_bytes >= account.full_bytes:
            account.is_full = True
        account = self.broker_account
        account.size_bytes += REFERENCE_BYTES
        if account.size_bytes >= account.full_bytes:
            account.is_full = True

    def discharge_reference(self) -> None:
        """Give back what `charge_reference` counted: one queue let go, and others still hold the message."""
        account = self.account
        account.size_bytes -= REFERENCE_BYTES
        if account.is_full:
            account.update()
        account = self.broker_account
        account.size_bytes -= REFERENCE_BYTES
        if account.is_full:
            account.update()

    def take_over(self, message: Message) -> None:
        """Count a message that somebody holds here, and no longer where it was sent through before."""
        origin = message.origin
        further = message.references - 1
        if further >= 0 and origin is not self:
            self.charge(message)
            if origin is not None:
                origin.discharge(message)
            for _ in range(further):
                self.charge_reference()
                if origin is not None:
                    origin.discharge_reference()
        message.origin = self

    def discharge(self, message: Message) -> None:
        """Give back what `charge` counted; called when the last queue let go."""
        account = self.account
        account.size_bytes -= message.size
        account.message_count -= 1
        if account.message_count == 0 and self.emptied is not None:
            self.emptied(self.name)
        if account.is_full:
            account.update()
        account = self.broker_account
        account.size_bytes -= message.size
        account.message_count -= 1
        if account.is_full:
            account.update()


def _has_page_limit(settings: ResolvedSettings) -> bool:
    return settings.address_full_policy is FullPolicy.PAGE and (
        settings.page_limit_bytes >= 0 or settings.page_limit_messages >= 0
    )
