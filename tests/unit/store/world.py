"""A domain on a store in a folder, with a loop and a thread that the test turns by hand."""

from collections.abc import Callable
from pathlib import Path

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT, plain_message
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import MatchHierarchy
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.storage import Scratch
from artemis_py.core.routing.domain import Domain
from artemis_py.core.services.epochs import INHERITED_MESSAGES
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.store import schema
from artemis_py.store.environment import Environment
from artemis_py.store.lmdb import LmdbStore
from artemis_py.store.log_start import LogSettings
from artemis_py.store.recovery import Recovered, recover
from tests.core_harness import START_MS, browse_all, make_hosts, make_queue, make_services, settle_down
from tests.log_switch import LOG

SMALL_MAP_BYTES = 1 << 20


class Handmade:
    """The loop and the worker: what is planned happens in `turn`, what is submitted in `work`."""

    def __init__(self) -> None:
        self.planned: list[Callable[[], object]] = []
        self.jobs: list[tuple[Callable[[], str | None], Callable[[str | None], None]]] = []

    def call_soon(self, callback: Callable[[], object], /) -> None:
        self.planned.append(callback)

    def call_later(self, delay: float, callback: Callable[[], object], /) -> "Planned":
        self.planned.append(callback)
        return Planned(self.planned, callback)

    @property
    def is_busy(self) -> bool:
        return bool(self.jobs)

    def submit(self, job: Callable[[], str | None], done: Callable[[str | None], None]) -> None:
        self.jobs.append((job, done))

    def turn(self) -> None:
        """One iteration of the loop."""
        planned, self.planned = self.planned, []
        for callback in planned:
            callback()

    def work(self, failure: str | None = None) -> None:
        """Finish the commit that is under way; with `failure` its result is that, and nothing is written."""
        job, done = self.jobs.pop(0)
        done(job() if failure is None else failure)


class Planned:
    """A call that `Handmade` will make."""

    def __init__(self, planned: list[Callable[[], object]], callback: Callable[[], object]) -> None:
        self._planned = planned
        self._callback = callback

    def cancel(self) -> None:
        if self._callback in self._planned:
            self._planned.remove(self._callback)


class World:
    """One broker's life on a folder; `with` closes the folder as a crash would, without a last word."""

    inherited_messages = INHERITED_MESSAGES
    """Messages from which on a queue inherits a stage."""

    def __init__(
        self,
        folder: Path,
        settings: dict[str, AddressSettings] | None = None,
        options: BrokerSettings | None = None,
        answers_wait: bool = True,
        scratch: Scratch | None = None,
        formats: dict[str, MessageFormat] | None = None,
        log: LogSettings | None = LOG,
    ) -> None:
        self.hands = Handmade()
        self.store = LmdbStore(folder, SMALL_MAP_BYTES, answers_wait=answers_wait, log=log)
        options = BrokerSettings() if options is None else options
        hierarchy: MatchHierarchy[AddressSettings] = MatchHierarchy(options.wildcards)
        repository = SettingsRepository(hierarchy, options)
        for match, values in (settings or {}).items():
            repository.add(match, values)
        self.domain = Domain(repository, Dispatcher(self.store, scratch, options), options)
        self.domain.dispatcher.now_ms = START_MS
        self.services = make_services(self.domain)
        self.services.staging.epochs.inherited_messages = self.inherited_messages
        self.failures: list[str] = []
        self.hosts = make_hosts(self.services)
        known = {PLAIN_FORMAT.name: PLAIN_FORMAT, **(formats or {})}
        self.found: Recovered = recover(self.store, self.domain, known, self.hosts)
        self.store.start(self.hands, self.hands, self._failed, self.domain.dispatcher.stored)

    def _failed(self, reason: str) -> None:
        self.failures.append(reason)
        self.domain.dispatcher.storage_failed(reason)

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.crash()

    def crash(self) -> None:
        """What was not committed is gone."""
        environment, self.store._environment = self.store._environment, None
        if environment is not None:
            environment.close()
            if self.store._folding is not None:
                self.store._folding.log.close()

    def stop(self) -> None:
        """End in good order."""
        while self.hands.jobs:
            self.hands.work()
        everybody = [*self.hosts.restored(), *[host.services for host in self.hosts.leaving()]]
        self.store.close([queue for each in everybody for queue in each.sessions.domain.queues.values()])

    def settle(self) -> None:
        """Let everything become durable, and then be delivered."""
        settle_down(self.domain)
        while self.hands.planned or self.hands.jobs:
            self.hands.turn()
            while self.hands.jobs:
                self.hands.work()
            settle_down(self.domain)

    def begin_commit(self) -> None:
        """Let a commit begin that waits for an idle loop."""
        while self.hands.planned and not self.hands.jobs:
            self.hands.turn()

    def commit(self) -> None:
        """Finish the commit that is under way, and fold the log if there is one."""
        self.begin_commit()
        self.hands.work()
        self.store._fold()
        while self.hands.jobs:
            self.hands.work()

    @property
    def environment(self) -> Environment:
        """The open environment."""
        assert self.store._environment is not None
        return self.store._environment

    def count(self, database: bytes) -> int:
        """How many values a database holds on disk."""
        with self.environment.begin() as transaction:
            return int(transaction.stat(self.environment.database(database))["entries"])

    def audit(self) -> None:
        """What is counted on disk must be there: references of each queue and rank, and those that share a message."""
        counted: dict[bytes, int] = {}
        shared: dict[bytes, int] = {}
        with self.environment.begin() as transaction:
            assert transaction.stat(self.environment.database(schema.DROPS))["entries"] == 0
            for key, value in transaction.cursor(db=self.environment.database(schema.REFERENCES)):
                counted[bytes(key[:5])] = counted.get(bytes(key[:5]), 0) + 1
                id = schema.shared_id(schema.split_key(schema.unseal(bytes(key), bytes(value)))[1])
                if id is not None:
                    shared[schema.U64.pack(id)] = shared.get(schema.U64.pack(id), 0) + 1
            counts = {
                bytes(key): schema.read_counts(bytes(key), bytes(value))[0]
                for key, value in transaction.cursor(db=self.environment.database(schema.COUNTS))
            }
            shares = {
                bytes(key): schema.read_count(bytes(key), bytes(value))
                for key, value in transaction.cursor(db=self.environment.database(schema.SHARES))
            }
            messages = [bytes(key) for key, _ in transaction.cursor(db=self.environment.database(schema.MESSAGES))]
        assert counts == counted
        assert shares == shared
        assert messages == sorted(shared)

    def queue(self, name: str = "q", **options: object) -> Queue:
        """The queue of this name, made if it is not there."""
        existing = self.domain.queues.get(name)
        return make_queue(self.domain, name, **options) if existing is None else existing  # type: ignore[arg-type]

    def send(self, address: str, *bodies: str, **options: object) -> None:
        """Durable messages through an address; `options` are attributes of Message."""
        for body in bodies:
            message = plain_message(address, MessageView(body=body))
            message.durable = True
            for name, value in options.items():
                setattr(message, name, value)
            self.domain.route(message, self.domain.addresses[address])


def bodies(queue: Queue) -> list[object]:
    """What waits in a queue, in the order it would be delivered."""
    return [reference.message.view.body for reference in browse_all(queue)]


def send_plain(domain: Domain, address: str, *bodies: str) -> None:
    """Messages that are not durable and in a format that every store can read."""
    for body in bodies:
        domain.route(plain_message(address, MessageView(body=body)), domain.addresses[address])


def plain_bodies(references: list[Reference]) -> list[object]:
    """What they say."""
    return [reference.message.view.body for reference in references]


def multicast(world: World, address: str, *names: str) -> list[Queue]:
    """Queues that each get a copy."""
    return [make_queue(world.domain, name, RoutingType.MULTICAST, address=address) for name in names]
