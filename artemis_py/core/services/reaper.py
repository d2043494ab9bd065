"""Periodic clean-up: delete unused addresses and queues, expire messages, roll back forgotten transactions.

The reaper deletes only what two consecutive passes found unused (artemis-model §2.4), so that nothing vanishes while a
consumer reconnects.
"""

from collections.abc import Callable
from typing import Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.queues.queue import Queue
from artemis_py.core.runtime.background import SLICE_MESSAGES, Steps
from artemis_py.core.runtime.timers import NEVER
from artemis_py.core.sessions.sessions import Sessions

# Rate of the search on disk for expired messages: 2 ms of work every 50 ms, a million messages in 100 s.
SWEEP_PERIOD_MS: Final = 50
SWEEP_MESSAGES: Final = 500

# A deletion takes as long as checking this many queues that stay; a slice of a pass takes some 2 ms.
DELETION_COST: Final = 25


class Reaper:
    """Plans its own passes on the timers of the domain's dispatcher, from `start` to `stop`."""

    def __init__(self, sessions: Sessions) -> None:
        self._domain = sessions.domain
        self._sessions = sessions
        self._is_running = False
        self._to_sweep: dict[Queue, None] = {}
        """Queues that are to be searched on disk, the next one first."""
        self._is_sweeping = False
        self._is_searching = False
        self._is_reaping = False

    def start(self) -> None:
        """Do the start-up pass, then plan the periodic ones."""
        self._is_running = True
        self.reap_at_start()
        options = self._domain.options
        self._repeat(options.address_queue_scan_period_ms, self.reap)
        self._repeat(options.message_expiry_scan_period_ms, self.expire_messages)
        self._repeat(options.transaction_scan_period_ms, self.end_transactions)

    def stop(self) -> None:
        """Plan nothing more."""
        self._is_running = False

    def _repeat(self, period_ms: int, action: Callable[[], None]) -> None:
        if period_ms <= 0:
            return

        def run() -> None:
            if self._is_running:
                action()
                self._domain.dispatcher.after(period_ms, run)

        self._domain.dispatcher.after(period_ms, run)

    def expire_messages(self) -> None:
        """Expire due messages in every queue but those of expiry addresses; messages on disk only are checked later.

        It is done in slices; a search does not begin before the one before it has ended.
        """
        if not self._is_searching:
            self._is_searching = True
            self._domain.dispatcher.slices.start(self._search(), self._end_search)

    def _search(self) -> Steps:
        left = SLICE_MESSAGES
        for queue in list(self._domain.queues.values()):
            if queue.is_deleted or queue.address.settings.expiry_address == queue.address.name:
                continue
            left -= 1 + queue.expiry.expire_due()
            if queue.expiry.may_be_on_disk:
                self._to_sweep[queue] = None
            if left <= 0:
                yield None
                left = SLICE_MESSAGES
        return None

    def _end_search(self, outcome: object) -> None:
        self._is_searching = False
        if self._to_sweep and not self._is_sweeping:
            self._is_sweeping = True
            self._plan_sweep()

    def _plan_sweep(self) -> None:
        self._domain.dispatcher.after(SWEEP_PERIOD_MS, self._sweep)

    def _sweep(self) -> None:
        """Expire some messages on disk of one queue; the next call takes the next queue."""
        queue = next(iter(self._to_sweep))
        del self._to_sweep[queue]
        if not queue.is_deleted and not queue.expiry.sweep(SWEEP_MESSAGES):
            self._to_sweep[queue] = None
        self._is_sweeping = bool(self._to_sweep) and self._is_running
        if self._is_sweeping:
            self._plan_sweep()

    def end_transactions(self) -> None:
        """Roll back transactions that are older than `transaction-timeout`."""
        oldest_ms = self._domain.dispatcher.steady_ms - self._domain.options.transaction_timeout_ms
        for session in list(self._sessions.opened.values()):
            for transaction in list(session.transactions.values()):
                if transaction.started_steady_ms <= oldest_ms:
                    session.rollback(transaction)

    def reap_at_start(self) -> None:
        """Delete empty auto-delete queues, and auto-created addresses without queues, at once if there is no delay.

        The time of their last use is not known after a restart, so a delay begins with the start.
        """
        steady_ms = self._domain.dispatcher.steady_ms
        for queue in list(self._domain.queues.values()):
            if queue.message_count == 0 and self._may_delete(queue):
                if queue.settings.auto_delete_delay_ms > 0:
                    queue.consumer_removed_steady_ms = steady_ms
                else:
                    self._domain.delete_queue(queue.name, reason="empty at start")
        for address in list(self._domain.addresses.values()):
            if self._may_go(address) and address.is_unbound:
                if address.settings.auto_delete_addresses_delay > 0:
                    address.binding_removed_steady_ms = steady_ms
                else:
                    self._domain.delete_address(address.name, reason="without queues at start")

    def reap(self) -> None:
        """Begin a periodic pass, unless the one before has not ended.

        It is done in slices; each checks some queues or addresses as they are then, and deletes unused ones at once.
        """
        if not self._is_reaping:
            self._is_reaping = True
            self._domain.dispatcher.slices.start(self._pass(), self._end_pass)

    def _end_pass(self, outcome: object) -> None:
        self._is_reaping = False

    def _pass(self) -> Steps:
        left = SLICE_MESSAGES
        for queue in list(self._domain.queues.values()):
            left -= 1
            if queue.is_deleted or not self._is_unused_queue(queue):
                queue.swept = False
            elif queue.swept:
                self._domain.delete_queue(queue.name, reason="auto-delete: unused")
                left -= DELETION_COST
            else:
                queue.swept = True
            if left <= 0:
                yield None
                left = SLICE_MESSAGES
        for address in list(self._domain.addresses.values()):
            left -= 1
            if address.is_deleted or not self._is_unused_address(address):
                address.swept = False
            elif address.swept:
                self._domain.delete_address(address.name, reason="auto-delete: unused")
                left -= DELETION_COST
            else:
                address.swept = True
            if left <= 0:
                yield None
                left = SLICE_MESSAGES
        return None

    def _is_unused_queue(self, queue: Queue) -> bool:
        if not self._may_delete(queue):
            return False
        skip_usage_check = queue.address.settings.auto_delete_queues_skip_usage_check
        if not skip_usage_check and not queue.was_used:
            return False
        limit = queue.settings.auto_delete_message_count
        if limit >= 0 and queue.message_count > limit:
            return False
        since_ms = queue.consumer_removed_steady_ms
        if since_ms == NEVER:
            if not skip_usage_check:
                return True
            since_ms = queue.created_steady_ms
        return self._domain.dispatcher.steady_ms - since_ms >= queue.settings.auto_delete_delay_ms

    def _may_delete(self, queue: Queue) -> bool:
        if (
            queue.internal
            or not queue.settings.auto_delete
            or queue.consumers
            or queue.holders
            or queue.subscriber_count > 0
        ):
            return False
        if queue.paused or queue.address.paused or queue.address.producers > 0:
            return False
        return not self._is_needed(queue.address)

    def _is_unused_address(self, address: Address) -> bool:
        if not self._may_go(address) or not address.is_unbound:
            return False
        settings = address.settings
        sent = address.routed + address.unrouted
        if sent != address.seen_messages:
            # An address that gets messages is in use, even if only queues of wildcard addresses take them, or none.
            address.seen_messages = sent
            address.used_steady_ms = self._domain.dispatcher.steady_ms
            return False
        since_ms = address.binding_removed_steady_ms
        if since_ms == NEVER:
            if not settings.auto_delete_addresses_skip_usage_check:
                return False
            since_ms = address.created_steady_ms
        unused_ms = self._domain.dispatcher.steady_ms - max(since_ms, address.used_steady_ms)
        if unused_ms < settings.auto_delete_addresses_delay:
            return False
        # Deleting the address would also forget its duplicate ids, and a message could be accepted twice.
        return len(self._domain.duplicates.of(address)) == 0

    def _may_go(self, address: Address) -> bool:
        return (
            address.auto_created
            and not address.temporary
            and not address.internal
            and not address.paused
            and address.producers == 0
            and address.settings.auto_delete_addresses
            and not self._is_needed(address)
        )

    def _is_needed(self, address: Address) -> bool:
        return any(is_in_use(address.name) for is_in_use in self._domain.in_use)
