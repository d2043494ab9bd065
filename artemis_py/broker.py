"""The broker: builds the parts, starts and stops them in order. Read this first.

    security ── who may connect ──┐
    config ── what exists ────────┼─► domain ◄── protocol managers ◄── acceptors ◄── sockets
    store ── what survives ───────┘     ▲
                                 management, reaper

This module decides nothing. Each part gets what it needs passed in, so two brokers in one process share nothing. The
order is that of the parts in `_assemble`; `deployment.lifecycle` starts and stops them in that order.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final

from attrs import evolve

from artemis_py.config.acceptors import check_acceptors
from artemis_py.config.broker_config import BrokerConfig
from artemis_py.config.embedded import embedded_config
from artemis_py.config.resolving import empty_repository
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.entropy import Entropy
from artemis_py.core.runtime.events import Events
from artemis_py.core.runtime.outer_events import DiskChanged
from artemis_py.core.runtime.referrals import Router
from artemis_py.core.services.domains import Domains
from artemis_py.core.services.services import Services
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.core.settings.exchange_config import NO_EXCHANGES
from artemis_py.deployment.apply import Deployment
from artemis_py.deployment.broker_connections import BrokerConnections, Surroundings
from artemis_py.deployment.events import ConfigurationApplied, ConfigurationRejected
from artemis_py.deployment.lifecycle import Lifecycle, Part, State
from artemis_py.deployment.logins import AuthenticatorOf, Logins, make_logins, open_to_all
from artemis_py.deployment.meshes import BrokerMesh, mesh_of
from artemis_py.deployment.notifications import BrokerNotifications
from artemis_py.deployment.plan import EMPTY, Plan, plan
from artemis_py.deployment.protocols import installed_protocols
from artemis_py.deployment.referrals import ClientReferrals
from artemis_py.deployment.reload import Reloaded, log_warnings
from artemis_py.deployment.routers import BrokerRouters
from artemis_py.deployment.storage import paging_folder, parts_of_store, store_of, warnings_of_store
from artemis_py.deployment.virtual_hosts import HostDeployments
from artemis_py.deployment.web import BrokerWeb
from artemis_py.errors import ConfigError, Problem
from artemis_py.logs import PERIOD_S, count_left_out, named_logger
from artemis_py.management.endpoint import ManagementEndpoint
from artemis_py.management.event_log import EventLog
from artemis_py.management.facts import AcceptorFacts, BrokerFacts, facts_of
from artemis_py.protocol import Host, ManagerFactory, ProtocolManager
from artemis_py.release import installed_version
from artemis_py.security.permissions import AccessRules
from artemis_py.security.tokens import Tokens
from artemis_py.store.disk import DiskLimit, DiskMonitor
from artemis_py.store.memory import MemoryStore
from artemis_py.store.node import node_id
from artemis_py.store.scratch import ScratchStore
from artemis_py.transformers.installed import installed_transformers
from artemis_py.transport.acceptor import Acceptor, managers_of, url_of
from artemis_py.transport.acceptor_context import AcceptorContext
from artemis_py.transport.config import AcceptorConfig
from artemis_py.transport.connections import ConnectionLimits, Connections
from artemis_py.transport.repeated import Repeated
from artemis_py.transport.tls import server_context
from artemis_py.transport.turn import Turn
from artemis_py.transport.websocket import with_websocket
from artemis_py.transport.worker import Worker

LOGGER: Final = named_logger(__name__)

# How long clients have to read the goodbye and close their side. An embedded broker must not delay its program.
GOODBYE_S: Final = 0.5


class Broker:
    """One broker in a running event loop: `async with Broker() as broker`. It starts once and stops once."""

    # Long because it documents each public attribute where it is set.
    def __init__(
        self,
        config: BrokerConfig | None = None,
        protocols: Sequence[ManagerFactory] | None = None,
        seed: int | None = None,
        ahead_s: float = 0.0,
    ) -> None:
        """Create a stopped broker. Defaults: `embedded_config` and the installed protocols.

        With a `seed`, random identifiers and delays are the same in each run. Use it only in tests: clients could guess
        the names of each other's temporary queues. `ahead_s`: seconds by which its clocks are ahead of the real
        time, see `advance`. Raises ConfigError for a match that is not legal.
        """
        config = embedded_config() if config is None else config
        self.config: Final = config
        """Configuration that the broker was built from; `deployment.config` is the one it follows now."""
        self._factories: Final = protocols
        self.connections: Final = Connections(ConnectionLimits.of_this_process())
        self._store: Final = store_of(config)
        storage = MemoryStore() if self._store is None else self._store
        self._scratch: Final = ScratchStore(paging_folder(config))
        rules = AccessRules({}, config.settings) if config.security_enabled else None
        events = Events()
        EventLog().listen(events)
        dispatcher = Dispatcher(storage, self._scratch, config.settings)
        self.domain: Final = Domain(empty_repository(config), dispatcher, config.settings, rules, events, Entropy(seed))
        self.domain.transformers = installed_transformers()
        self.services: Final = Services(Sessions(self.domain))
        domains = Domains(self.services)
        self.virtual_hosts: Final = HostDeployments(config, domains)
        """The virtual hosts, and what applies changes to them."""
        self.host: Final = Host(domains, self.virtual_hosts.hosts)
        """Access to the core that protocol managers are created with."""
        self._disk: DiskMonitor | None = None
        if self._store is not None:
            self._disk = DiskMonitor(self._store.folder, DiskLimit(), self._disk_changed)
        self.deployment: Final = Deployment(self.services.sessions, rules, self._disk)
        """Changes the broker as a configuration says."""
        self.life: Final = Lifecycle()
        """State of the broker, and its parts in their order."""
        self.node_id = ""
        """Identifier of this broker, the same after a restart if it has a store; empty until it has started."""
        self.store_worker: Worker | None = None
        """Thread that writes to the disk, while the broker runs; None without a store."""
        self._ahead_s = ahead_s
        self._turn: Turn | None = None
        self._logins: Logins | None = None
        self._acceptors: list[Acceptor] = []
        self.mesh: BrokerMesh | None = None
        """The mesh that this broker belongs to; None if it belongs to none, or has not been started."""
        self.clients: ClientReferrals | None = None
        """What clients are told of the other brokers of the mesh, and how they are sent to them."""
        self.broker_connections: BrokerConnections | None = None
        """The connections to brokers that are no members of the mesh; None before the start."""
        self.tokens: Final = Tokens(self.domain.records, lambda: dispatcher.now_ms)
        """Tokens with which programs ask over HTTP."""
        self.web: BrokerWeb | None = None
        """What answers HTTP; None without `<web>`, or before the start."""
        self._hurry: Final = asyncio.Event()
        self._farewell = "the broker stops", GOODBYE_S
        # Recovery needs the settings, so they are applied first; what is declared is applied after recovery.
        later = evolve(
            config, addresses=(), broker_connections=(), diverts=(), exchanges=NO_EXCHANGES, virtual_hosts=()
        )
        self._apply(plan(EMPTY, later))
        self.deployment.hosts = self.virtual_hosts

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover and listen. Raises ConfigError with all problems, or StoreError; nothing is left running then."""
        self._assemble(asyncio.get_running_loop())
        await self.life.advance(State.ACTIVE)
        LOGGER.info("broker started: name=%s", self.config.settings.name)

    async def stop(self, reason: str = "the broker stops", goodbye_s: float = GOODBYE_S) -> None:
        """Close the sockets, say goodbye to clients and return their deliveries to the queues. Safe to repeat."""
        self._farewell = reason, goodbye_s
        if await self.life.stop():
            LOGGER.info("broker stopped: name=%s", self.config.settings.name)

    def change(self, plan: Plan) -> list[Problem]:
        """Apply a plan to the running broker; return what was refused (`docs/deployment.md`)."""
        with self.in_turn():
            return self.deployment.apply(plan)

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Work on the core from outside, on the loop of the broker: it knows the time, and acts on what has changed."""
        assert self._turn is not None, "a broker is changed after it has started"
        self._turn.enter()
        yield
        self._turn.plan()

    def advance(self, seconds: float) -> None:
        """Move the clocks of a running broker forward, for tests: the time of day, and the one that spans count on.

        What became due is done in the next turns. Keep-alives and time-outs of connections follow the real time.
        """
        assert self._turn is not None, "the clocks of a broker run after it has started"
        self._turn.advance(seconds)
        self._turn.plan()

    def reload(self, config: BrokerConfig) -> Reloaded:
        """Follow another configuration as far as a running broker can, and read users and certificates again."""
        wanted = plan(self.deployment.running(config), config)
        problems = self.change(wanted)
        if self._logins is not None:
            self._logins.watch.look_now()
        certified: list[Acceptor | BrokerConnections | BrokerMesh | BrokerWeb] = [*self._acceptors]
        certified += [part for part in (self.mesh, self.broker_connections, self.web) if part is not None]
        for part in certified:
            try:
                part.renew_certificates()
            except ConfigError as error:
                problems += error.problems
        reloaded = Reloaded(wanted, problems)
        texts = tuple([str(each) for each in problems])
        self.domain.events.emit(ConfigurationApplied(reloaded.made, reloaded.waiting, texts))
        return reloaded

    def reload_refused(self, problems: Sequence[Problem]) -> None:
        """Tell listeners that a configuration was not read, because of mistakes in it."""
        with self.in_turn():
            self.domain.events.emit(ConfigurationRejected(tuple([str(each) for each in problems])))

    def hurry(self) -> None:
        """Stop waiting for clients to leave by themselves (`graceful-shutdown-enabled`)."""
        self._hurry.set()

    async def __aenter__(self) -> "Broker":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    # -- what clients need -----------------------------------------------------------------------------------

    def url(self, scheme: str) -> str:
        """Return the URL for clients of a protocol: `url("amqp")` is `amqp://127.0.0.1:port`, with TLS `amqps://`.

        Raises LookupError if no acceptor speaks the protocol.
        """
        return url_of(self._acceptors, scheme)

    def acceptor_facts(self) -> list[AcceptorFacts]:
        """Return the facts of the listening sockets, with their actual ports."""
        return facts_of(self._acceptors)

    # -- assembly --------------------------------------------------------------------------------------------

    def _assemble(self, loop: asyncio.AbstractEventLoop) -> None:
        """Build the parts that need the loop, and list all of them in their order. Raises ConfigError.

        Nothing runs when this returns or raises. It is long so that the whole order stands in one place.
        """
        domain, services, config = self.domain, self.services, self.config
        turn = self._turn = Turn(domain.dispatcher, loop, ahead_s=self._ahead_s)
        turn.enter()
        factories = installed_protocols() if self._factories is None else self._factories
        managers = [factory(self.host) for factory in factories]
        checked = check_acceptors(config.acceptors, managers)
        log_warnings([*config.warnings, *checked.warnings, *warnings_of_store(config)])
        if checked.problems:
            raise ConfigError(list(checked.problems))
        authenticator: AuthenticatorOf = open_to_all
        logins: tuple[Part, ...] = ()
        if config.security_enabled:
            self._logins = make_logins(
                config.login, services.sessions, self.virtual_hosts.hosts, self.connections, loop, turn
            )
            self._logins.watch.when_changed.append(self.tokens.users_changed)
            authenticator, logins = self._logins.authenticator, self._logins.parts
        routers = BrokerRouters(config, self.host, turn)
        self._acceptors = [
            Acceptor(self._context(each, managers, authenticator, turn, routers.of(each))) for each in checked.acceptors
        ]
        web: list[Part] = []
        if config.web is not None:
            self.web = BrokerWeb(
                config.web,
                self.host.domains,
                self.virtual_hosts.hosts,
                authenticator(config.web.acceptor),
                self._logins,
                self.tokens,
                turn,
                self.life,
            )
            web = [Part("web", State.STANDBY, self.web.start, self.web.stop)]
        store: list[Part] = []
        if self._store is not None and self._disk is not None:
            may_create = config.create_journal_dir
            worker = self.store_worker = Worker(loop, turn.enter)
            store = parts_of_store(
                self._store,
                self._disk,
                services,
                self.virtual_hosts.hosts,
                managers,
                may_create,
                loop,
                turn,
                worker,
                Worker(loop, turn.enter),
            )
        mesh: list[Part] = []
        self.mesh = self.host.mesh = mesh_of(config, services.sessions, managers, turn, self.connections)
        if self.mesh is not None:
            broker_mesh = self.mesh
            self.clients = broker_mesh.referrals = ClientReferrals(self.host, lambda: broker_mesh.mesh)
            self.clients.when_changed.append(routers.mesh_changed)
            mesh = [
                Part("mesh", State.ACTIVE, self.mesh.start, self.mesh.stop),
                Part("clients of the mesh", State.ACTIVE, self.clients.start, self.clients.stop),
            ]
        surroundings = Surroundings(domain=domain, managers=managers, turn=turn, connections=self.connections)
        bridges = self.broker_connections = self.deployment.connections = BrokerConnections(surroundings)
        lines = Repeated(loop, turn.enter, count_left_out)
        notifications = BrokerNotifications(self.virtual_hosts.hosts, turn.plan)
        self.life.add(
            Part("scratch", State.STANDBY, stop=self._scratch.close),
            Part("turn", State.STANDBY, stop=turn.stop),
            Part("last lines of the log", State.STANDBY, stop=lambda: count_left_out(all_of_them=True)),
            Part("lines left out of the log", State.STANDBY, lambda: lines.start(PERIOD_S), lines.stop),
            Part("discards", State.STANDBY, stop=self.virtual_hosts.tell_discards),
            Part("dead letters", State.STANDBY, stop=self.virtual_hosts.tell_dead_letters),
            *logins,
            *web,
            *store,
            Part("addresses", State.RECOVERING, self._deploy),
            Part("management", State.RECOVERING, self._manage, self._stop_managing),
            Part("notifications", State.RECOVERING, lambda: notifications.start(self.node_id), notifications.stop),
            *[Part(manager.name, State.ACTIVE, manager.start) for manager in managers],
            Part("reaper", State.ACTIVE, services.reaper.start, services.reaper.stop),
            Part("virtual hosts", State.ACTIVE, self.virtual_hosts.hosts.begin, self.virtual_hosts.hosts.end),
            Part("connection routers", State.ACTIVE, routers.start, routers.stop),
            Part("clients", State.ACTIVE, turn.plan, self._say_goodbye),
            *[Part(each.config.name, State.ACTIVE, each.start, each.stop) for each in self._acceptors],
            *mesh,
            Part("broker connections", State.ACTIVE, bridges.start, bridges.stop),
        )

    def _context(
        self,
        acceptor: AcceptorConfig,
        managers: Sequence[ProtocolManager],
        authenticator: AuthenticatorOf,
        turn: Turn,
        router: Router | None,
    ) -> AcceptorContext:
        override_ms = self.config.connection_ttl_override_ms
        return AcceptorContext(
            config=acceptor,
            managers=with_websocket(managers_of(acceptor, managers), self.domain.meter),
            authenticator=authenticator(acceptor),
            turn=turn,
            connections=self.connections,
            events=self.domain.events,
            tls=server_context(acceptor),
            router=router,
            idle_timeout_override_ms=None if override_ms < 0 else override_ms,
        )

    def _deploy(self) -> None:
        self._apply(plan(self.deployment.running(self.config), self.config))
        for deployment in (self.deployment, *self.virtual_hosts.deployments()):
            deployment.warn_of_lost_letters()
            deployment.warn_of_circles()

    def _apply(self, plan: Plan) -> None:
        problems = self.deployment.apply(plan)
        if problems:
            raise ConfigError(problems)

    def _manage(self) -> None:
        self.node_id = node_id(self.domain.storage, self.domain.entropy)
        assert self.broker_connections is not None
        self.broker_connections.node_id = self.node_id
        connections = self.broker_connections
        self.tokens.restore(None if self._logins is None else self._logins.service.users)
        facts = BrokerFacts(
            version=installed_version(),
            node_id=self.node_id,
            started_steady_ms=self.domain.dispatcher.steady_ms,
            acceptors=self.acceptor_facts,
            disk_usage=lambda: -1.0 if self._disk is None else self._disk.used_part,
            mesh=self.mesh,
            broker_connections=lambda: connections.facts,
            bridged=connections.passed,
            tokens=self.tokens,
        )
        # These have queues of the default host only, or belong to all hosts; they are no business of the others.
        of_hosts = evolve(facts, mesh=None, broker_connections=tuple, tokens=None)
        hosts, address = self.virtual_hosts.hosts, self.config.settings.management_address
        for services in hosts.restored():
            is_default = services is self.services
            endpoint = (
                ManagementEndpoint(services, facts, hosts) if is_default else ManagementEndpoint(services, of_hosts)
            )
            services.sessions.register_endpoint(address, endpoint)
        hosts.when_added.append(
            lambda host: host.services.sessions.register_endpoint(address, ManagementEndpoint(host.services, of_hosts))
        )
        if self.mesh is not None:
            self.mesh.restore(self.node_id)
            self.mesh.mesh.retained.load(self.services.retained)
        if self.web is not None:
            self.web.begin(facts)

    def _disk_changed(self, is_full: bool, is_exhausted: bool) -> None:
        self.domain.dispatcher.disk_changed(is_full, is_exhausted)
        used_part = -1.0 if self._disk is None else self._disk.used_part
        self.domain.events.emit(DiskChanged(is_full, used_part))

    def _stop_managing(self) -> None:
        if self.web is not None:
            self.web.end()

    async def _say_goodbye(self) -> None:
        """End the connections, after the acceptors have stopped."""
        config = self.deployment.config
        if config.graceful_shutdown_enabled:
            timeout_ms = config.graceful_shutdown_timeout_ms
            await self.connections.wait_empty(self._hurry, None if timeout_ms < 0 else timeout_ms / 1000)
        await self.connections.shutdown(*self._farewell)
