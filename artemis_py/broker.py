"""The broker: builds the parts, starts and stops them in order. Read this first.

    security ── who may come in ──┐
    config ── what there is ──────┼─► post office ◄── protocol managers ◄── acceptors ◄── sockets
    store ── what survives ───────┘        ▲
                                    management, reaper

Nothing is decided here. Each part gets what it needs passed in, so two brokers in one process share nothing.
"""

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final

from attrs import evolve

from artemis_py.config.acceptor_url import check_parameters
from artemis_py.config.broker_config import BrokerConfig
from artemis_py.config.embedded import embedded_config
from artemis_py.config.resolving import empty_repository
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.queues.dispatcher import Hub
from artemis_py.core.routing.post_office import PostOffice
from artemis_py.core.runtime.entropy import Entropy
from artemis_py.core.runtime.events import Events
from artemis_py.core.services.services import Services
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.deployment.apply import Deployment
from artemis_py.deployment.folders import journal_folder, large_messages_folder, paging_folder
from artemis_py.deployment.lifecycle import Lifecycle, Part, State
from artemis_py.deployment.plan import EMPTY, Plan, plan
from artemis_py.deployment.protocols import installed_protocols
from artemis_py.errors import ConfigError
from artemis_py.logs import PERIOD_S, count_left_out, named_logger
from artemis_py.management.endpoint import ManagementEndpoint
from artemis_py.management.event_log import EventLog
from artemis_py.management.facts import AcceptorFacts, BrokerFacts, installed_version
from artemis_py.protocol import Authenticator, Host, ManagerFactory, ProtocolManager
from artemis_py.security.authenticator import AcceptorAuthenticator, OpenAuthenticator
from artemis_py.security.logins import LoginService
from artemis_py.security.permissions import AccessRules
from artemis_py.security.revocation import subject_now
from artemis_py.security.users import UserFiles
from artemis_py.security.watch import REFRESH_S, UsersWatch
from artemis_py.store.disk import DiskLimit, DiskMonitor
from artemis_py.store.lmdb import LmdbStore
from artemis_py.store.memory import MemoryStore
from artemis_py.store.node import node_id
from artemis_py.store.recovery import restore, restore_retained
from artemis_py.store.scratch import ScratchStore
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

# How long clients have to read the goodbye and close their side. An embedded broker must not hold up its program.
GOODBYE_S: Final = 0.5


class Broker:
    """One broker in a running event loop: `async with Broker() as broker`. It starts once and stops once."""

    def __init__(
        self,
        config: BrokerConfig | None = None,
        protocols: Sequence[ManagerFactory] | None = None,
        seed: int | None = None,
    ) -> None:
        """No configuration: `embedded_config`. No protocols: the installed ones. Nothing happens before `start`.

        With a `seed` the identifiers and delays that chance decides are the same in each run: for tests, since clients
        could guess the names of each other's temporary queues.
        """
        self.config = embedded_config() if config is None else config
        self._factories = protocols
        self.life = Lifecycle()
        """How far the broker is, and what runs."""
        self._acceptors: list[Acceptor] = []
        self.connections = Connections(ConnectionLimits.of_this_process())
        self._hurry = asyncio.Event()
        self._farewell = "the broker stops", GOODBYE_S
        self.node_id = ""
        """Identifies this broker, through restarts if it has a store; known once it has started."""
        config = self.config
        self._store = self._configured_store()
        self._scratch = ScratchStore(paging_folder(config))
        storage = MemoryStore() if self._store is None else self._store
        rules = AccessRules({}, config.settings) if config.security_enabled else None
        events = Events()
        EventLog().listen(events)
        hub = Hub(storage, self._scratch, config.settings)
        self.postoffice = PostOffice(empty_repository(config), hub, config.settings, rules, events, Entropy(seed))
        self.services = Services(Sessions(self.postoffice))
        self.host = Host(self.services)
        """What the managers of protocols are made with."""
        self._disk: DiskMonitor | None = None
        if self._store is not None:
            self._disk = DiskMonitor(self._store.folder, DiskLimit(), hub.disk_changed)
        self.deployment = Deployment(self.services.sessions, rules, self._disk)
        # What is recovered finds its settings there; addresses wait for what is recovered.
        self._apply(plan(EMPTY, evolve(config, addresses=())))

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen. Raises ConfigError with all that is wrong, StoreError; then nothing is left running."""
        for problem in self.config.warnings:
            LOGGER.warning("%s", problem)
        self._assemble(asyncio.get_running_loop())
        await self.life.advance(State.ACTIVE)
        LOGGER.info("broker started: name=%s", self.config.settings.name)

    async def stop(self, reason: str = "the broker stops", goodbye_s: float = GOODBYE_S) -> None:
        """Close the sockets, say goodbye to the clients, return what they held to the queues. Safe to repeat."""
        self._farewell = reason, goodbye_s
        if await self.life.stop():
            LOGGER.info("broker stopped: name=%s", self.config.settings.name)

    def hurry(self) -> None:
        """Wait no longer for clients to leave by themselves (`graceful-shutdown-enabled`)."""
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
        """Return where clients of a protocol connect to: `url("amqp")` is `amqp://127.0.0.1:port`, with TLS `amqps://`.

        Raises LookupError if no acceptor speaks the protocol.
        """
        return url_of(self._acceptors, scheme)

    def acceptor_facts(self) -> list[AcceptorFacts]:
        """List the listening sockets, with the ports they got."""
        return [
            AcceptorFacts(
                name=acceptor.config.name,
                host=acceptor.config.host,
                port=acceptor.port,
                protocols=tuple(acceptor.protocols),
            )
            for acceptor in self._acceptors
            if acceptor.is_listening
        ]

    # -- assembly --------------------------------------------------------------------------------------------

    def _assemble(self, loop: asyncio.AbstractEventLoop) -> None:
        """Build the parts that need the loop, and list all in the order in which they start. Raises ConfigError.

        Nothing runs when this returns or raises. The list is the whole order: it stands in one place for that.
        """
        office, config = self.postoffice, self.config
        turn = Turn(office, loop)
        turn.enter()
        factories = installed_protocols() if self._factories is None else self._factories
        managers = [factory(self.host) for factory in factories]
        problems = [problem for acceptor in config.acceptors for problem in check_parameters(acceptor, managers)]
        if problems:
            raise ConfigError(problems)
        lines = Repeated(loop, turn.enter, count_left_out)
        self.life.add(
            Part("scratch", State.STANDBY, stop=self._scratch.close),
            Part("turn", State.STANDBY, stop=turn.stop),
            Part("last lines", State.STANDBY, stop=lambda: count_left_out(all_of_them=True)),
            Part("lines left out", State.STANDBY, lambda: lines.start(PERIOD_S), lines.stop),
            Part("discards", State.STANDBY, stop=office.discards.tell),
        )
        authenticator = self._logins(loop, turn)
        self._acceptors = [
            Acceptor(self._context(acceptor, managers, authenticator(acceptor), turn)) for acceptor in config.acceptors
        ]
        if self._store is not None and self._disk is not None:
            self._keep(self._store, self._disk, managers, loop, turn)
        self.life.add(
            Part("addresses", State.RECOVERING, self._deploy),
            Part("management", State.RECOVERING, self._manage),
            *[Part(manager.name, State.ACTIVE, manager.start) for manager in managers],
            Part("reaper", State.ACTIVE, self.services.reaper.start, self.services.reaper.stop),
            Part("clients", State.ACTIVE, turn.plan, self._say_goodbye),
            *[Part(each.config.name, State.ACTIVE, each.start, each.stop) for each in self._acceptors],
        )

    def _logins(self, loop: asyncio.AbstractEventLoop, turn: Turn) -> Callable[[AcceptorConfig], Authenticator]:
        """What makes the authenticator of each acceptor. Raises ConfigError if the users' files cannot be used."""
        if not self.config.security_enabled:
            open_to_all = OpenAuthenticator()
            return lambda acceptor: open_to_all
        login = self.config.login
        files = UserFiles(login.folder / login.users_file, login.folder / login.roles_file)
        worker = Worker(loop, turn.enter)
        logins = LoginService(files.load(), worker.submit, loop.call_later, loop.time)
        self.postoffice.subject_now = lambda subject: subject_now(logins.users, subject)
        watch = UsersWatch(files, logins, self.services.sessions, self.connections.end_logins, turn.plan)
        looks = Repeated(loop, turn.enter, watch.look)
        self.life.add(
            Part("login worker", State.STANDBY, stop=worker.stop),
            Part("users", State.STANDBY, lambda: looks.start(REFRESH_S), looks.stop),
        )
        roles = frozenset(login.anonymous_roles)
        return lambda acceptor: AcceptorAuthenticator(logins, acceptor.sasl_mechanisms, login.anonymous_access, roles)

    def _context(
        self, acceptor: AcceptorConfig, managers: Sequence[ProtocolManager], authenticator: Authenticator, turn: Turn
    ) -> AcceptorContext:
        override_ms = self.config.connection_ttl_override_ms
        return AcceptorContext(
            config=acceptor,
            managers=with_websocket(managers_of(acceptor, managers), self.postoffice.meter),
            authenticator=authenticator,
            turn=turn,
            connections=self.connections,
            tls=server_context(acceptor),
            idle_timeout_override_ms=None if override_ms < 0 else override_ms,
        )

    def _keep(
        self,
        store: LmdbStore,
        disk: DiskMonitor,
        managers: Sequence[ProtocolManager],
        loop: asyncio.AbstractEventLoop,
        turn: Turn,
    ) -> None:
        """Bring back what survived, then store what happens."""
        office, config = self.postoffice, self.config
        formats = {PLAIN_FORMAT.name: PLAIN_FORMAT} | {each.name: each for one in managers for each in one.formats}
        worker = Worker(loop, turn.enter)
        looks = Repeated(loop, turn.enter, disk.scan)
        self.life.add(
            Part(
                "store",
                State.RECOVERING,
                lambda: restore(store, office, formats, config.create_journal_dir),
                lambda: store.close(list(office.queues.values())),
            ),
            # It ends with the commit it is in, before the store is closed.
            Part(
                "store worker",
                State.RECOVERING,
                lambda: store.start(loop, worker, turn.storage_failed, turn.stored),
                worker.stop,
            ),
            Part("retained messages", State.RECOVERING, lambda: restore_retained(self.services.retained, formats)),
            Part("disk", State.RECOVERING, lambda: looks.start(disk.scan()), looks.stop),
            Part("stages", State.RECOVERING, self.services.staging.restore),
        )

    async def _say_goodbye(self) -> None:
        """End the connections; the acceptors have stopped."""
        config = self.deployment.config
        if config.graceful_shutdown_enabled:
            timeout_ms = config.graceful_shutdown_timeout_ms
            await self.connections.wait_empty(self._hurry, None if timeout_ms < 0 else timeout_ms / 1000)
        await self.connections.shutdown(*self._farewell)

    def _configured_store(self) -> LmdbStore | None:
        if not self.config.persistence_enabled:
            return None
        config = self.config
        waits = config.journal_sync_transactional or config.journal_sync_non_transactional
        return LmdbStore(
            journal_folder(config), large_messages_folder=large_messages_folder(config), answers_wait=waits
        )

    def _deploy(self) -> None:
        """Have the addresses and queues of the configuration, beside those that survived. Raises ConfigError."""
        self._apply(plan(self.deployment.running(self.config), self.config))
        self.deployment.warn_of_lost_letters()

    def _apply(self, plan: Plan) -> None:
        problems = self.deployment.apply(plan)
        if problems:
            raise ConfigError(problems)

    def _manage(self) -> None:
        self.node_id = node_id(self.postoffice.storage, self.postoffice.entropy)
        facts = BrokerFacts(
            version=installed_version(),
            node_id=self.node_id,
            started_ms=self.postoffice.now_ms,
            acceptors=self.acceptor_facts,
            disk_usage=lambda: -1.0 if self._disk is None else self._disk.used_part,
        )
        endpoint = ManagementEndpoint(self.services, facts)
        self.services.sessions.register_endpoint(self.config.settings.management_address, endpoint)
