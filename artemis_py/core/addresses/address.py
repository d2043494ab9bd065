"""An address, and the account of its messages.

An address never keeps messages; its queues do. It owns what exists once per address: routing statistics, the resolved
settings, and the account to which `max-size-bytes` and `address-full-policy` apply.
"""

from collections.abc import Callable

from artemis_py.core.addresses.binding import Binding
from artemis_py.core.addresses.router import Router, RouterMaker
from artemis_py.core.messages.account import MessageAccount
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.accounts import MemoryAccount
from artemis_py.core.runtime.timers import NEVER
from artemis_py.core.settings.address_settings import DiskFullPolicy, FullPolicy, ResolvedSettings


class Address(MessageAccount):
    """A named end-point that producers send to (artemis-model §1.1)."""

    # CPython shares the keys of up to 30 attributes; with more, each address had its own table of 1.3 KB.
    __slots__ = (
        "_blocks",
        "accessories",
        "auto_created",
        "binding_removed_steady_ms",
        "bindings",
        "changes_messages",
        "created_steady_ms",
        "creator",
        "full_reported",
        "has_page_limit",
        "host",
        "internal",
        "is_deleted",
        "is_exchange",
        "make_router",
        "neighbours",
        "owner",
        "page_full_reported",
        "paged_bytes",
        "paged_count",
        "pages",
        "paused",
        "producers",
        "routed",
        "router",
        "routing_types",
        "seen_messages",
        "sets_aside",
        "settings",
        "swept",
        "temporary",
        "unrouted",
        "unrouted_reported",
        "used_steady_ms",
    )

    # Long because it declares and documents every attribute.
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
        neighbours: "dict[str, Address] | None" = None,
        host: int = 0,
    ) -> None:
        super().__init__(name, MemoryAccount(settings.max_size_bytes, settings.max_size_messages), broker_account)
        self.routing_types: frozenset[RoutingType] = routing_types
        self.auto_created: bool = auto_created
        self.temporary: bool = temporary
        self.internal: bool = internal
        self.creator: str | None = creator
        """The user for whose client it was created on demand (`creations`)."""
        self.neighbours: dict[str, Address] = {} if neighbours is None else neighbours
        """All addresses of its domain, by name."""
        self.host: int = host
        """Id of its virtual host, for the store; 0: the default host."""
        self.sets_aside: bool = False
        """Whether its queues keep messages for other addresses, to be routed there later. All of them count here, and
        because they have no consumers, only the broker's limit decides whether they go to disk."""
        self.is_exchange: bool = False
        """Whether it is the account of an exchange, and not among the addresses of its domain."""
        self.owner: object = None
        """The session that a temporary address belongs to; no other session may consume from it."""
        self.paused: bool = False
        self.is_deleted: bool = False
        self.bindings: list[Binding] = []
        """Bindings to exactly this address, in the order of their creation."""
        self.accessories: tuple[Binding, ...] = ()
        """Bindings to exactly this address that belong to it (`Binding.is_accessory`)."""
        self.router: Router | None = None
        """Router that chooses the bindings for a message, including wildcard bindings; made when first needed."""
        self.make_router: RouterMaker | None = None
        """Makes its routers; None: the usual ones for anycast and multicast bindings (`Routers.replace`)."""
        self.settings: ResolvedSettings = settings
        self.pages: bool = settings.address_full_policy is FullPolicy.PAGE
        """Whether its limits are about memory only, and messages above them go to disk."""
        self._blocks: bool = settings.address_full_policy is FullPolicy.BLOCK
        """Whether producers wait while it is full; noted because to look an enum up takes long for each message."""
        self.changes_messages: bool = settings.changes_messages
        """Whether routing has to apply settings to messages."""
        self.paged_bytes: int = 0
        """Bytes that its queues have on disk and not in memory, added up over the queues."""
        self.paged_count: int = 0
        self.has_page_limit: bool = _has_page_limit(settings)
        self.routed: int = 0
        """Messages that reached at least one queue."""
        self.unrouted: int = 0
        """Messages that no queue wanted."""
        self.unrouted_reported: bool = False
        self.full_reported: bool = False
        self.page_full_reported: bool = False
        self.created_steady_ms: int = 0
        """Time of the creation, like all times here as `Dispatcher.steady_ms` counts: delays follow no wall clock."""
        self.binding_removed_steady_ms: int = NEVER
        """Time at which the last queue was removed."""
        self.producers: int = 0
        """Number of producers that stay attached to this address (`Producer.hold`)."""
        self.seen_messages: int = 0
        """Messages that had been sent here when the reaper last looked."""
        self.used_steady_ms: int = NEVER
        """Time at which the reaper last saw `seen_messages` change."""
        self.swept: bool = False
        """Whether the reaper found it unused in its last pass."""

    @property
    def size_bytes(self) -> int:
        """Bytes of messages sent to this address: in memory, and on disk only."""
        return self.account.size_bytes + (self.paged_bytes if self.pages else 0)

    @property
    def message_count(self) -> int:
        """Messages sent to this address; one in memory counts once, one on disk only counts once for each queue."""
        return self.account.message_count + (self.paged_count if self.pages else 0)

    @property
    def is_unbound(self) -> bool:
        """Whether nothing is bound to it, except for accessories without messages."""
        for each in self.accessories:
            if each.has_messages:
                return False
        return not self.bindings

    @property
    def must_spill(self) -> bool:
        """Whether a message that is not durable goes to disk."""
        if self.sets_aside:
            return self.broker_account.can_spill and self.broker_account.is_tight
        return (
            self.pages
            and self.broker_account.can_spill
            and (self.account.is_over_limit or self.broker_account.is_over_limit)
            and not self.internal
        )

    def page_out(self, count: int, size_bytes: int) -> None:
        """Count messages that are now on disk only. If the policy is not PAGE they still count against the limits."""
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
        """Close the account while a page limit is reached, so that each message is checked before it is accepted."""
        is_full = self.is_page_full
        if is_full != self.account.is_closed:
            self.account.close(is_full)
            self.page_full_reported = False

    def _account_for(self, count: int, size_bytes: int) -> None:
        self.account.message_count += count
        self.account.size_bytes += size_bytes
        self.account.update()

    def apply_settings(self, settings: ResolvedSettings) -> None:
        """Apply changed address settings."""
        paged = self.pages
        self.settings = settings
        self.pages = settings.address_full_policy is FullPolicy.PAGE
        self._blocks = settings.address_full_policy is FullPolicy.BLOCK
        self.changes_messages = settings.changes_messages
        if paged != self.pages:
            sign = 1 if paged else -1
            self._account_for(sign * self.paged_count, sign * self.paged_bytes)
        self.has_page_limit = _has_page_limit(settings)
        self._watch()
        self.account.set_limits(settings.max_size_bytes, settings.max_size_messages)

    @property
    def must_wait(self) -> bool:
        """Whether producers get no more credit: the address or the disk is full and the policy for that is BLOCK.

        With PAGE they also wait if nothing can go to disk, and while too much in memory is on its way there.
        """
        if self.broker_account.disk_is_full and not self.internal:
            return self.settings.disk_full_policy is DiskFullPolicy.BLOCK
        if self.pages and self.broker_account.can_spill:
            return self.broker_account.size_bytes >= self.broker_account.overdrawn_bytes and not self.internal
        if not self._blocks and not self.pages:
            return False
        return self.account.is_full or (self.broker_account.is_over_limit and not self.internal)

    @property
    def wait_reason(self) -> str:
        """Why producers wait (`must_wait`), in words."""
        if self.broker_account.disk_is_full and not self.internal:
            return "the disk of the broker is nearly full"
        if self.account.is_full and not (self.pages and self.broker_account.can_spill):
            account, what = self.account, f"address '{self.name}'"
        else:
            account, what = self.broker_account, "the broker's memory"
        if account.size_bytes >= account.full_bytes:
            return f"{what} is full: {account.size_bytes} of {account.max_bytes} bytes"
        return f"{what} is full: {account.message_count} of {account.max_messages} messages"

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


def _has_page_limit(settings: ResolvedSettings) -> bool:
    return settings.address_full_policy is FullPolicy.PAGE and (
        settings.page_limit_bytes >= 0 or settings.page_limit_messages >= 0
    )
