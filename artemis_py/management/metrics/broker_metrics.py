"""Collects all metrics of a broker, in slices, so that any number of queues never holds up its event loop.

Most figures are kept by the parts of the broker. This module asks for them; it counts events, and how late the event
loop is. Nothing here is done for a message.
"""

import platform
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, TypeVar

from artemis_py.core.addresses.address import Address
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.services.services import Services
from artemis_py.core.services.virtual_hosts import VirtualHost, VirtualHosts
from artemis_py.core.sessions.session import Session
from artemis_py.management.facts import BrokerFacts, MeshFacts
from artemis_py.management.metrics import catalogue
from artemis_py.management.metrics.event_counts import EventCounts
from artemis_py.management.metrics.exposition import Family
from artemis_py.management.metrics.histogram import Histogram
from artemis_py.management.metrics.process import ProcessFigures
from artemis_py.management.metrics.sums import Sums, accounts_of_exchanges, by_label
from artemis_py.release import is_compiled
from artemis_py.transport.turn import Cancellable, Scheduler

T = TypeVar("T")

# About 2 ms on a machine of today, as other long work of the core (`runtime/background`).
PER_STEP: Final = 1_000
"""Queues, addresses or sessions that a step of a scrape looks at."""

LAG_PERIOD_S: Final = 1.0
LAG_BOUNDS_S: Final = (0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

MEMBER_STATES: Final = {
    "up": "up",
    "suspect": "suspect",
    "away": "away",
    "draining": "leaving",
    "empty": "leaving",
    "left": "leaving",
}
"""States of the brokers of a mesh as metrics have them; all others are on the way to `up`."""


class BrokerMetrics:
    """The metrics of one broker, from `start` to `stop`."""

    def __init__(
        self,
        hosts: VirtualHosts,
        facts: BrokerFacts,
        logins: Callable[[], tuple[int, int]] | None = None,
        process: ProcessFigures | None = None,
    ) -> None:
        """Create it; it listens from `start` on, which comes before any acceptor lets connections in.

        `hosts` lead to the default domain too: all domains count together. `logins` returns how many logins succeeded
        and how many failed; None if nobody has to log in.
        """
        self._hosts: Final = hosts
        self._facts: Final = facts
        self._logins: Final = logins
        self._process: Final = ProcessFigures() if process is None else process
        self._domain: Final[Domain] = hosts.domains.default.sessions.domain
        self._events: Final = EventCounts(facts.acceptors)
        self._lag: Final = Histogram(LAG_BOUNDS_S)
        self._gone: Final = Sums()
        """What virtual hosts had counted that are deleted."""
        self._loop: Scheduler | None = None
        self._timer: Cancellable | None = None
        self._due_s = 0.0
        """Time at which the loop is to run what measures how late it is."""
        dispatcher = self._domain.dispatcher
        self._started_ms: Final = dispatcher.now_ms - (dispatcher.steady_ms - facts.started_steady_ms)

    # -- life ------------------------------------------------------------------------------------------------

    def start(self, loop: Scheduler) -> None:
        """Begin to count events, and to measure how late `loop` is."""
        self._loop = loop
        for services in self._all():
            self._events.listen(services.sessions.domain.events)
        self._hosts.when_added.append(self._added)
        self._hosts.when_gone.append(self._ended)
        self._plan(loop)

    def stop(self) -> None:
        """Stop counting. It does not start again."""
        for services in self._all():
            services.sessions.domain.events.unsubscribe(self._events.count)
        self._hosts.when_added.remove(self._added)
        self._hosts.when_gone.remove(self._ended)
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _added(self, host: VirtualHost) -> None:
        self._events.listen(host.services.sessions.domain.events)

    def _ended(self, host: VirtualHost) -> None:
        domain = host.services.sessions.domain
        domain.events.unsubscribe(self._events.count)
        self._gone.add_gone(domain)

    def _plan(self, loop: Scheduler) -> None:
        self._due_s = loop.time() + LAG_PERIOD_S
        self._timer = loop.call_at(self._due_s, self._measure)

    def _measure(self) -> None:
        if self._loop is not None:
            # The loop may be early by the resolution of its clock.
            self._lag.add(max(0.0, self._loop.time() - self._due_s))
            self._plan(self._loop)

    def _all(self) -> list[Services]:
        """Return the services of all domains, also of those that are being deleted."""
        return [*self._hosts.restored(), *[host.services for host in self._hosts.leaving()]]

    # -- scrape ----------------------------------------------------------------------------------------------

    def scrape(self) -> Generator[None, None, list[Family]]:
        """Return all metrics, after some steps of a few milliseconds; the caller lets the loop run between them.

        The first step lists what there is, which takes 10 ms with 100,000 queues. Scrapes may overlap.
        """
        sums = Sums()
        sums.add_counters(self._gone)
        # What is deleted between two steps still has its counts, and is visited like the others (`sums`).
        queues: list[Queue] = []
        addresses: list[Address] = []
        sessions: list[Session] = []
        for services in self._all():
            domain = services.sessions.domain
            queues += domain.queues.values()
            # Before the sums are read, because it moves into them what is over.
            queues += domain.departed.leaving()
            sums.add_domain(domain)
            addresses += domain.addresses.values()
            addresses += accounts_of_exchanges(domain)
            sessions += services.sessions.opened.values()
        for some in _parts(queues):
            yield
            sums.count_queues(some)
            sums.look_at_queues(some)
        for these in _parts(addresses):
            yield
            sums.count_addresses(these)
            sums.look_at_addresses(these)
        for those in _parts(sessions):
            yield
            sums.look_at_sessions(those)
        return [
            *self._broker(),
            *self._events.families(),
            *sums.families(),
            *self._resources(),
            *self._mesh(self._facts.mesh),
            *_connections(self._facts),
            *self._process.families(),
        ]

    def _broker(self) -> list[Family]:
        facts = self._facts
        build = (facts.version, platform.python_version(), "true" if is_compiled() else "false")
        states = Counter(host.state.value.lower() for host in [*self._hosts.all(), *self._hosts.leaving()])
        found = [
            catalogue.BROKER.by([((self._domain.options.name, facts.node_id), 1)]),
            catalogue.BUILD.by([(build, 1)]),
            catalogue.START_TIME.of(self._started_ms / 1000),
            catalogue.VIRTUAL_HOSTS.by(by_label(states)),
        ]
        if self._logins is not None:
            succeeded, failed = self._logins()
            found.append(catalogue.LOGINS.by([(("success",), succeeded), (("failure",), failed)]))
        return found

    def _resources(self) -> list[Family]:
        """Return memory, disk, store and loop."""
        dispatcher = self._domain.dispatcher
        accounts = [("messages", dispatcher.account), ("tables", dispatcher.tables)]
        found = [
            catalogue.MEMORY.by([((part,), account.size_bytes) for part, account in accounts]),
            catalogue.MEMORY_LIMIT.by(
                [((part,), account.max_bytes) for part, account in accounts if account.max_bytes >= 0]
            ),
            catalogue.DISK_FULL.of(int(dispatcher.account.disk_is_full)),
            catalogue.STORE_FAILED.of(int(dispatcher.storage_failure is not None)),
            self._lag.samples_of(catalogue.LOOP_LAG),
        ]
        disk_usage = self._facts.disk_usage()
        if disk_usage >= 0:
            found.append(catalogue.DISK_USAGE.of(disk_usage))
        if dispatcher.storage.is_durable:
            found.append(catalogue.STORE_BATCHES.of(dispatcher.storage.batch - 1))
        return found

    def _mesh(self, mesh: MeshFacts | None) -> list[Family]:
        if mesh is None:
            return []
        members, own = mesh.members(), mesh.status()
        states = Counter(dict.fromkeys(("up", "suspect", "connecting", "leaving", "away"), 0))
        states.update(MEMBER_STATES.get(member.state, "connecting") for member in members)
        return [
            catalogue.MEMBERS.by(by_label(states)),
            catalogue.MESH_CLAIMED.of(sum(member.claimed for member in members)),
            catalogue.MESH_WAITING.of(sum(member.waiting for member in members)),
            catalogue.MESH_STRANDED.of(mesh.stranded()),
            catalogue.HANDED_OVER.of(own.handed_over),
            catalogue.TAKEN.of(own.taken),
        ]


def _connections(facts: BrokerFacts) -> list[Family]:
    """Return the connections to other brokers; what bridges that are gone have passed on counts as well."""
    connections, passed = facts.broker_connections(), [(("out",), facts.bridged(True)), (("in",), facts.bridged(False))]
    if not connections and not any(count for _, count in passed):
        return []
    states = Counter(dict.fromkeys(("connected", "away", "stopped"), 0))
    states.update(
        "connected" if each.is_connected else "away" if each.is_started else "stopped" for each in connections
    )
    return [catalogue.CONNECTIONS_OUT.by(by_label(states)), catalogue.BRIDGED.by(passed)]


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Return what each step looks at."""
    for start in range(0, len(items), PER_STEP):
        yield items[start : start + PER_STEP]
