"""Sums over what the domains of a broker have: queues, addresses, sessions; and over what they once had.

A counter is the sum of what the queues of a moment have counted and of what those deleted before that moment had. Both
are taken in one turn of the loop. The queues are then visited in slices, deleted or not: a queue still has its counts
after its deletion. So nothing is counted twice or missed, and a counter never falls.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from artemis_py.core.addresses.address import Address
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.discards import DeathCause, DiscardCause
from artemis_py.core.routing.domain import Domain
from artemis_py.core.sessions.session import Session
from artemis_py.management.metrics import catalogue
from artemis_py.management.metrics.exposition import Family


# One class with many numbers, because each queue is visited once and for all of them.
class Sums:
    """Sums over any number of domains. Whoever makes it adds domains, then their queues, addresses and sessions."""

    def __init__(self) -> None:
        self.queues_created = 0
        self.queues_deleted = 0
        self.addresses_created = 0
        self.addresses_deleted = 0
        self.added = 0
        self.acknowledged = 0
        self.expired = 0
        self.killed = 0
        self.replaced = 0
        self.routed = 0
        self.unrouted = 0
        self.dropped = 0
        self.refused = 0
        # A series that begins above zero would lose its first increase.
        self.discarded = _zeros(*[cause.value for cause in DiscardCause])
        self.dead_lettered = _zeros(*[cause.value for cause in DeathCause])
        self.waiting = 0
        self.delivering = 0
        self.scheduled = 0
        self.idle = 0
        self.full = 0
        self.queues = _zeros("internal", "temporary", "auto", "configured", "client")
        self.addresses = _zeros("internal", "temporary", "auto", "created")
        self.sessions: Counter[str] = Counter()
        self.consumers: Counter[str] = Counter()

    # -- counters ------------------------------------------------------------------------------------------------

    def add_domain(self, domain: Domain) -> None:
        """Add what a domain counts itself, without what its queues and addresses count."""
        departed = domain.departed
        self.queues_created += departed.queues + len(domain.queues)
        self.queues_deleted += departed.queues
        self.addresses_created += departed.addresses + len(domain.addresses)
        self.addresses_deleted += departed.addresses
        self.added += departed.added
        self.acknowledged += departed.acknowledged
        self.expired += departed.expired
        self.killed += departed.killed
        self.replaced += departed.replaced
        self.routed += departed.routed
        self.unrouted += departed.unrouted
        self.dropped += domain.admission.dropped
        self.refused += domain.admission.refused
        self.discarded.update({cause.value: count for cause, count in domain.discards.by_cause.items()})
        self.dead_lettered.update({cause.value: count for cause, count in domain.dead_letters.by_cause.items()})

    def count_queues(self, queues: Iterable[Queue]) -> None:
        """Add what queues have counted, whether they still exist or not."""
        for queue in queues:
            self.added += queue.messages_added
            self.acknowledged += queue.messages_acknowledged
            self.expired += queue.messages_expired
            self.killed += queue.messages_killed
            self.replaced += queue.messages_replaced

    def count_addresses(self, addresses: Iterable[Address]) -> None:
        """Add what addresses have counted, whether they still exist or not."""
        for address in addresses:
            self.routed += address.routed
            self.unrouted += address.unrouted

    def add_gone(self, domain: Domain) -> None:
        """Add all counters of a domain that is deleted; there is nothing in it any more."""
        leaving = domain.departed.leaving()
        self.add_domain(domain)
        self.count_queues([*domain.queues.values(), *leaving])
        self.count_addresses([*domain.addresses.values(), *accounts_of_exchanges(domain)])

    def add_counters(self, other: "Sums") -> None:
        """Add the counters of other sums, and none of their gauges."""
        for name in _COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.discarded.update(other.discarded)
        self.dead_lettered.update(other.dead_lettered)

    # -- gauges --------------------------------------------------------------------------------------------------

    def look_at_queues(self, queues: Iterable[Queue]) -> None:
        """Add what is in queues now."""
        for queue in queues:
            if queue.is_deleted:
                continue
            waiting = queue.waiting_count
            self.waiting += waiting
            self.delivering += queue.delivering_count
            self.scheduled += queue.scheduled_count
            self.queues[_kind_of(queue)] += 1
            if waiting and not queue.consumers and not queue.internal:
                settings, name = queue.address.settings, queue.address.name
                self.idle += name not in (settings.dead_letter_address, settings.expiry_address)

    def look_at_addresses(self, addresses: Iterable[Address]) -> None:
        """Add what addresses are now."""
        for address in addresses:
            if address.is_deleted or address.is_exchange:
                continue
            self.full += address.account.is_over_limit or address.is_page_full
            if address.internal:
                self.addresses["internal"] += 1
            elif address.temporary:
                self.addresses["temporary"] += 1
            else:
                self.addresses["auto" if address.auto_created else "created"] += 1

    def look_at_sessions(self, sessions: Iterable[Session]) -> None:
        """Add what sessions have now; those that have ended since have no consumers."""
        for session in sessions:
            self.sessions[session.protocol] += 1
            self.consumers[session.protocol] += len(session.consumers)

    # -- result --------------------------------------------------------------------------------------------------

    def families(self) -> list[Family]:
        """Return the sums as metrics."""
        return [
            catalogue.SESSIONS.by(by_label(self.sessions)),
            catalogue.CONSUMERS.by(by_label(self.consumers)),
            catalogue.ROUTED.of(self.routed),
            catalogue.UNROUTED.of(self.unrouted),
            catalogue.ADDED.of(self.added),
            catalogue.ACKNOWLEDGED.of(self.acknowledged),
            catalogue.EXPIRED.of(self.expired),
            catalogue.KILLED.of(self.killed),
            catalogue.REPLACED.of(self.replaced),
            catalogue.DEAD_LETTERED.by(by_label(self.dead_lettered)),
            catalogue.DISCARDED.by(by_label(self.discarded)),
            catalogue.DROPPED.of(self.dropped),
            catalogue.REFUSED.of(self.refused),
            catalogue.MESSAGES.by(
                [(("waiting",), self.waiting), (("delivering",), self.delivering), (("scheduled",), self.scheduled)]
            ),
            catalogue.QUEUES.by(by_label(self.queues)),
            catalogue.ADDRESSES.by(by_label(self.addresses)),
            catalogue.QUEUES_CREATED.of(self.queues_created),
            catalogue.QUEUES_DELETED.of(self.queues_deleted),
            catalogue.ADDRESSES_CREATED.of(self.addresses_created),
            catalogue.ADDRESSES_DELETED.of(self.addresses_deleted),
            catalogue.IDLE.of(self.idle),
            catalogue.FULL.of(self.full),
        ]


_COUNTERS = (
    "queues_created",
    "queues_deleted",
    "addresses_created",
    "addresses_deleted",
    "added",
    "acknowledged",
    "expired",
    "killed",
    "replaced",
    "routed",
    "unrouted",
    "dropped",
    "refused",
)


def _zeros(*labels: str) -> Counter[str]:
    return Counter(dict.fromkeys(labels, 0))


def accounts_of_exchanges(domain: Domain) -> list[Address]:
    """Return the accounts of the exchanges of a domain, which count messages as addresses do."""
    return [exchange.address for exchange in domain.exchanges]


def by_label(counts: Counter[str]) -> Sequence[tuple[tuple[str, ...], float]]:
    """Return counts by the value of their only label, for `Family.by`."""
    return [((label,), count) for label, count in counts.items()]


def _kind_of(queue: Queue) -> str:
    if queue.internal:
        return "internal"
    if queue.temporary:
        return "temporary"
    if queue.auto_created:
        return "auto"
    return "configured" if queue.configuration_managed else "client"
