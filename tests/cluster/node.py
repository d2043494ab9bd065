"""A simulated broker: the real core, mesh and store, with a loop and a disk that the simulation turns."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from artemis_py.cluster.arrivals import Arrivals
from artemis_py.cluster.entry import introduction
from artemis_py.cluster.mesh import Mesh
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.names.syntax import MatchHierarchy
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.carrier import PeerRefused
from artemis_py.core.runtime.entropy import Entropy
from artemis_py.core.runtime.events import Event
from artemis_py.core.services.services import Services
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.cluster_config import ClusterConfig
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.store.node import node_id
from artemis_py.store.recovery import recover, restore_retained
from tests.cluster.bodies import SimStore, lose_unsynced
from tests.cluster.network import End
from tests.cluster.watching import watch
from tests.core_harness import START_MS, make_queue
from tests.log_switch import LOG

if TYPE_CHECKING:
    from tests.cluster.simulation import Simulation

MAP_BYTES = 1 << 20
REST_MS = 2_000
"""Time after which a node looks again whether it has to dial one that was connected: `max-retry-interval`."""

FOLDED_MS = 5_000
"""Time after which all that was stored is in the file of the store and not only in its log (`max_age_s`)."""

FORMATS: dict[str, MessageFormat] = {PLAIN_FORMAT.name: PLAIN_FORMAT}


class PlannedCall:
    """A call that a node's loop will make."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def make(self) -> None:
        if self._callback is not None:
            self._callback()


class Node:
    """One broker; after a crash it starts again on the same folder."""

    dials_blindly = False
    """Whether it sometimes dials a node that it is connected with."""

    def __init__(
        self, simulation: "Simulation", name: str, folder: Path, config: ClusterConfig, settings: AddressSettings
    ) -> None:
        self.simulation = simulation
        self.name = name
        self.folder = folder
        self.config = config
        self.settings = settings
        self.generation = 0
        self.is_running = False
        self.is_stopped = False
        """Whether the process is stopped (SIGSTOP): nothing happens in it."""
        self.disk_fails = False
        """Whether every commit fails from now on."""
        self.neighbours: list[Node] = []
        """Nodes that it dials."""
        self.refusals: list[str] = []
        self.events: list[Event] = []
        self._dialling: set[str] = set()
        self._resting: set[str] = set()
        """Nodes that it looks at again after a while, because they were connected."""
        self._held: list[Callable[[], None]] = []
        self._is_planned = False
        self._deadline: float | None = None
        self._commits = 0
        self._turns = 0
        self.jobs: list[Callable[[], str | None]] = []
        # The steady clock begins anywhere, so what takes one clock for the other goes wrong.
        self._steady_offset_ms = simulation.keyed.between(1, 1 << 30, "steady clock", name)
        self.clock_offset_ms = simulation.keyed.between(-2_000, 2_000, "clock", name)
        self.start()

    # -- life --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.generation += 1
        self.is_running = True
        self.is_stopped = False
        self._is_planned = False
        self._deadline = None
        self._dialling.clear()
        self._resting.clear()
        self.jobs = []
        self.store = SimStore(self.folder, MAP_BYTES, log=LOG)
        options = BrokerSettings()
        hierarchy: MatchHierarchy[AddressSettings] = MatchHierarchy(options.wildcards)
        repository = SettingsRepository(hierarchy, options)
        repository.add("#", self.settings)
        seed = self.simulation.keyed.between(0, 1 << 40, "entropy", self.name, self.generation)
        self.domain = Domain(repository, Dispatcher(self.store, None, options), options, entropy=Entropy(seed))
        self.stamp()
        self.domain.events.subscribe(self.events.append)
        self.services = Services(Sessions(self.domain))
        recover(self.store, self.domain, FORMATS)
        self.store.start(self, self, self._failed, self.domain.dispatcher.stored)
        restore_retained(self.services.retained, FORMATS)
        id = node_id(self.store, self.domain.entropy)
        self.mesh = self.simulation.make_mesh(self.domain, self.config, id, self.name)
        if self.simulation.on_arrival is not None and type(self.mesh.arrivals) is Arrivals:
            watch(self, self.mesh, self.simulation.on_arrival)
        self.missing = self.mesh.restore()
        self.mesh.retained.load(self.services.retained)
        self.mesh.start(lambda: None)
        self.session = Session(self.domain, Subject("tester"), "client", "test")
        self.plan_turn()
        for other in self.neighbours:
            self.dial_soon(other)

    def crash(self, lands: bool) -> None:
        """Everything that is not committed is gone; with `lands`, the commit under way is there all the same."""
        if lands and self.jobs:
            self.jobs[0]()
        self.is_running = False
        self.generation += 1
        self._close_files()
        lose_unsynced(self)
        for link in list(self.simulation.live_links):
            if self in (link.ends[0].node, link.ends[1].node):
                link.cut()
                self.simulation.live_links.discard(link)

    def _failed(self, reason: str) -> None:
        self.domain.storage_failed(reason)

    def close(self) -> None:
        self._close_files()

    def _close_files(self) -> None:
        """Close the files of the store, and write nothing."""
        environment, self.store._environment = self.store._environment, None
        if environment is not None:
            environment.close()
        if self.store._folding is not None:
            self.store._folding.log.close()

    # -- the loop ----------------------------------------------------------------------------------------------

    def clock(self) -> int:
        """The wall clock, which a test may set."""
        return int(self.simulation.now) + self.clock_offset_ms

    def steady_clock(self) -> int:
        """The loop's clock, which nobody sets."""
        return int(self.simulation.now) - START_MS + self._steady_offset_ms

    def stamp(self) -> None:
        """What a turn does first."""
        self.domain.dispatcher.now_ms = self.clock()
        self.domain.dispatcher.steady_ms = self.steady_clock()

    def set_clock(self, by_ms: int) -> None:
        """Set the wall clock forward or back."""
        self.clock_offset_ms += by_ms
        self._deadline = None
        self.plan_turn()

    def run(self, generation: int, callback: Callable[[], object]) -> None:
        """One callback on the loop of this process, if it still lives."""
        if generation != self.generation or not self.is_running:
            return
        if self.is_stopped:
            self._held.append(lambda: self.run(generation, callback))
            return
        self.stamp()
        callback()
        self.plan_turn()

    def resume(self) -> None:
        """SIGCONT."""
        self.is_stopped = False
        held, self._held = self._held, []
        for callback in held:
            callback()

    def plan_turn(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            generation = self.generation
            self._turns += 1
            # Now and then other callbacks of the loop come before the turn, such as the one that cuts a batch.
            after = self.simulation.keyed.choice([0.0, 0.0, 0.001, 0.5], "turn", self.name, generation, self._turns)
            self.simulation.at(self.simulation.now + after, lambda: self._in_turn(generation))

    def _in_turn(self, generation: int) -> None:
        if generation != self.generation or not self.is_running:
            return
        if self.is_stopped:
            self._held.append(lambda: self._in_turn(generation))
            return
        self._is_planned = False
        dispatcher = self.domain.dispatcher
        self.stamp()
        if dispatcher.is_due():
            dispatcher.handle_deadlines()
        if dispatcher.run():
            self.plan_turn()
        self.simulation.check(self)
        self._plan_deadline()

    def _plan_deadline(self) -> None:
        dispatcher = self.domain.dispatcher
        planned: list[int] = []
        if (next_ms := dispatcher.next_deadline_ms()) is not None:
            planned.append(next_ms - self.clock_offset_ms)
        if (steady_ms := dispatcher.next_steady_ms()) is not None:
            planned.append(steady_ms - self._steady_offset_ms + START_MS)
        if not planned:
            return
        at = max(float(min(planned)), self.simulation.now + 1)
        if self._deadline is None or at < self._deadline or self._deadline <= self.simulation.now:
            self._deadline = at
            generation = self.generation
            self.simulation.at(at, lambda: self.run(generation, lambda: None))

    # -- what the store needs ----------------------------------------------------------------------------------

    def call_soon(self, callback: Callable[[], object], /) -> None:
        generation = self.generation
        self.simulation.at(self.simulation.now, lambda: self.run(generation, callback))

    def call_later(self, delay: float, callback: Callable[[], object], /) -> "PlannedCall":
        generation = self.generation
        call = PlannedCall(callback)
        self.simulation.at(self.simulation.now + delay * 1000, lambda: self.run(generation, call.make))
        return call

    @property
    def is_busy(self) -> bool:
        return bool(self.jobs)

    def submit(self, job: Callable[[], str | None], done: Callable[[str | None], None]) -> None:
        self._commits += 1
        generation = self.generation
        keyed = self.simulation.keyed
        key = (self.name, generation, self._commits)
        # Some disks are slow for as long as the process runs, and all are now and then.
        is_slow = keyed.chance(0.4, "slow disk", self.name, generation) or keyed.chance(0.05, "slow", *key)
        if is_slow and self.simulation.has_slow_disks:
            took: float = keyed.between(20, 700, "disk", *key)
        else:
            took = 0.1 + 4 * keyed.number("disk", *key)
        self.jobs.append(job)

        def finish() -> None:
            if self.is_stopped and generation == self.generation:
                self._held.append(finish)
            elif generation == self.generation and self.is_running:
                self.jobs.remove(job)
                result = "planned failure" if self.disk_fails else job()
                self.run(generation, lambda: done(result))

        self.simulation.at(self.simulation.now + took, finish)

    # -- connections -------------------------------------------------------------------------------------------

    def dial_soon(self, other: "Node") -> None:
        """Dial another node, unless there is a connection then."""
        if other.name in self._dialling:
            return
        self._dialling.add(other.name)
        generation = self.generation
        self.simulation.dials += 1
        wait = self.simulation.keyed.choice([1, 5, 25, 300, 600], "dial", self.name, self.simulation.dials)
        self.simulation.at(self.simulation.now + wait, lambda: self.run(generation, lambda: self._dial(other)))

    def _dial(self, other: "Node") -> None:
        self._dialling.discard(other.name)
        if other.mesh.node_id in self.mesh.peers and not self._is_blind():
            self._rest(other)
            return
        if not other.is_running or other.is_stopped or self.simulation.is_cut_off(self, other):
            self.dial_soon(other)
            return
        self.dial(other)

    def _is_blind(self) -> bool:
        """Whether this time it does not know that it dials a node that it is connected with."""
        return (
            self.dials_blindly and self.simulation.keyed.between(0, 2, "blind", self.name, self.simulation.dials) == 0
        )

    def dial(self, other: "Node") -> None:
        """Dial another node, as a broker does that does not know who is there."""
        try:
            hello, listener = self.mesh.connect()
        except PeerRefused:
            self.dial_soon(other)
            return
        link = self.simulation.connect(self, other)
        end: End = link.ends[0]
        end.listener = listener
        end.say_hello(introduction(hello, listener).as_map())

    def _rest(self, other: "Node") -> None:
        """Look again later, as a broker does: a connection that the other node has dialled may end."""
        if other.name not in self._resting:
            self._resting.add(other.name)
            generation = self.generation
            self.simulation.at(self.simulation.now + REST_MS, lambda: self.run(generation, lambda: self._look(other)))

    def _look(self, other: "Node") -> None:
        self._resting.discard(other.name)
        if other.name not in self._dialling:
            self._dial(other)

    def dial_ended(self, other: "Node") -> None:
        self.dial_soon(other)

    # -- for tests ---------------------------------------------------------------------------------------------

    def queue(self, name: str, **options: object) -> Queue:
        """The queue of this name, made if it is not there."""
        found = self.domain.queues.get(name)
        return make_queue(self.domain, name, auto_created=True, **options) if found is None else found  # type: ignore[arg-type]


def make_mesh(domain: Domain, config: ClusterConfig, id: str, name: str) -> Mesh:
    """The mesh as it is, without a planted fault."""
    return Mesh(domain, config, id, name, FORMATS)
