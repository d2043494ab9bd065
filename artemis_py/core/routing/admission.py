"""Admission: whether an address takes a message, and how its settings change a message before it is routed.

An address may be full or at its page limit, or the disk may be full; the policies of the address say whether a message
is then dropped, refused, or taken while producers are blocked (artemis-model §3.15).
"""

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.runtime.accounts import GLOBAL_REJECT_FACTOR, MemoryAccount
from artemis_py.core.runtime.events import AddressHasRoom, AddressIsFull, Events
from artemis_py.core.settings.address_settings import DiskFullPolicy, FullPolicy, PageFullPolicy, ResolvedSettings
from artemis_py.errors import AddressFull, StoreError

# How long an address that was full must have room before `AddressHasRoom` is emitted.
LASTING_ROOM_MS = 10_000


class Admission:
    """Decides for the addresses of one domain."""

    def __init__(self, dispatcher: Dispatcher, events: Events) -> None:
        self._dispatcher: Dispatcher = dispatcher
        self._account: MemoryAccount = dispatcher.account
        self._events: Events = events
        self.dropped: int = 0
        """Messages that were dropped because there was no room for them, and that is the policy."""
        self.refused: int = 0
        """Messages that were refused because there was no room for them."""

    def drops(self, message: Message, address: Address) -> bool:
        """Tell whether a message is dropped; called when the account of the address or the broker is full.

        Raises AddressFull, and StoreError for a durable message after the storage failed.
        """
        failure = self._dispatcher.storage_failure
        if failure is not None and message.durable:
            raise StoreError(f"nothing can be stored any more: {failure}")
        try:
            is_dropped = self._is_dropped(address)
        except AddressFull:
            self.refused += 1
            raise
        self.dropped += is_dropped
        return is_dropped

    def fate(self, address: Address) -> str | None:
        """Return what becomes of a message that arrives now, in words; None if it is taken. Nothing is reported."""
        if not address.account.is_full and not self._account.is_full:
            return None
        try:
            is_dropped = self._is_dropped(address, False)
        except AddressFull as refusal:
            return f"refused: {refusal}"
        return f"discarded: address '{address.name}' is full" if is_dropped else None

    def _is_dropped(self, address: Address, reports: bool = True) -> bool:
        """Decide about a message for a full address: True to drop it, False to take it. Raises AddressFull."""
        if self._account.disk_is_full and self._is_dropped_for_disk(address):
            return True
        if address.is_page_full:
            return self._is_page_dropped(address, reports)
        if not address.account.is_full and not self._account.is_over_limit:
            return False
        policy = address.settings.address_full_policy
        account = address.account if address.account.is_full else self._account
        if reports and not address.full_reported:
            address.full_reported = True
            self._events.emit(AddressIsFull(address.name, policy.value, account.size_bytes))
            account.when_room(lambda: self._has_room(address, account))
        if policy is FullPolicy.DROP:
            return True
        threshold = address.settings.max_size_bytes_reject_threshold
        hard_limit = GLOBAL_REJECT_FACTOR * self._account.max_bytes
        if (
            policy is FullPolicy.FAIL
            or 0 <= threshold <= address.account.size_bytes
            or 0 <= hard_limit <= self._account.size_bytes
        ):
            raise AddressFull(f"address '{address.name}' is full")
        # PAGE: messages that are not durable go to disk. BLOCK: credit already granted is honoured, no more is granted.
        return False

    def _is_page_dropped(self, address: Address, reports: bool) -> bool:
        """Decide about a message for an address at its page limit: True to drop it. Raises AddressFull."""
        policy = address.settings.page_full_policy
        if reports and not address.page_full_reported:
            address.page_full_reported = True
            self._events.emit(AddressIsFull(address.name, f"PAGE, then {policy.value}", address.paged_bytes))
        if policy is PageFullPolicy.FAIL:
            raise AddressFull(f"address '{address.name}' has reached its page limit")
        return True

    def _is_dropped_for_disk(self, address: Address) -> bool:
        """Decide the same while the disk is nearly full: credit already granted counts until little room is left."""
        policy = address.settings.disk_full_policy
        if policy is DiskFullPolicy.DROP:
            return True
        if policy is DiskFullPolicy.FAIL or self._account.disk_is_exhausted:
            raise AddressFull(f"address '{address.name}' takes no messages: the broker's disk is nearly full")
        return False

    def _has_room(self, address: Address, account: MemoryAccount) -> None:
        """Report that an address has room if that lasts: one that stays at its limit has room again and again."""
        self._dispatcher.after(LASTING_ROOM_MS, lambda: self._still_has_room(address, account))

    def _still_has_room(self, address: Address, account: MemoryAccount) -> None:
        if account.is_over_limit:
            account.when_room(lambda: self._has_room(address, account))
            return
        address.full_reported = False
        self._events.emit(AddressHasRoom(address.name))

    def change(self, message: Message, settings: ResolvedSettings) -> None:
        """Change a message as the settings of its address say (`ResolvedSettings.changes_messages`)."""
        if settings.enable_ingress_timestamp:
            message.set_extra("_AMQ_INGRESS_TIMESTAMP", self._dispatcher.now_ms)
        self._apply_expiry(message, settings)

    def _apply_expiry(self, message: Message, settings: ResolvedSettings) -> None:
        """Apply no-expiry, then expiry-delay to messages without expiry, then the bounds (artemis-model §3.9)."""
        now_ms = self._dispatcher.now_ms
        if settings.no_expiry:
            message.expires_ms = 0
        elif settings.expiry_delay >= 0:
            if message.expires_ms == 0:
                message.expires_ms = now_ms + settings.expiry_delay
        else:
            shortest, longest = settings.min_expiry_delay, settings.max_expiry_delay
            if message.expires_ms == 0:
                if longest >= 0:
                    message.expires_ms = now_ms + longest
                elif shortest >= 0:
                    message.expires_ms = now_ms + shortest
            elif longest >= 0 and message.expires_ms > now_ms + longest:
                message.expires_ms = now_ms + longest
            elif shortest >= 0 and message.expires_ms < now_ms + shortest:
                message.expires_ms = now_ms + shortest
