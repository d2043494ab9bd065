"""The broker: builds the parts, starts and stops them in order. Read this first.

    security ── who may come in ──┐
    config ── what there is ──────┼─► post office ◄── protocol managers ◄── acceptors ◄── sockets
    store ── what survives ───────┘        ▲
                                    management, reaper

Nothing is decided here. Each part gets what it needs passed in, so two brokers in one process share nothing.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from artemis_py.config.acceptor_url import check_parameters
from artemis_py.config.broker_config import BrokerConfig
from artemis_py.config.embedded import embedded_config
from artemis_py.config.letters import unserved
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import MatchHierarchy
from artemis_py.core.queues.queue import queues_of
from artemis_py.core.routing.post_office import PostOffice
from artemis_py.core.runtime.access import AccessControl, OpenAccess
from artemis_py.core.runtime.entropy import Entropy
from artemis_py.core.services.reaper import Reaper
from artemis_py.core.settings.options import AddressSettings, QueueConfig, SettingsRepository
from artemis_py.core.settings.queue_config import CHANGEABLE
from artemis_py.deployment.folders import journal_folder, large_messages_folder, paging_folder
from artemis_py.deployment.protocols import installed_protocols
from artemis_py.errors import ConfigError, Problem, StoreError
from artemis_py.logs import PERIOD_S, count_left_out, named_logger
from artemis_py.management.endpoint import ManagementEndpoint
from artemis_py.management.event_log import EventLog
from artemis_py.management.facts import AcceptorFacts, BrokerFacts, installed_version
from artemis_py.protocol import Authenticator, ManagerFactory, ProtocolManager
from artemis_py.security.authenticator import AcceptorAuthenticator, OpenAuthenticator
from artemis_py.security.logins import LoginService
from artemis_py.security.permissions import AccessRules
from artemis_py.security.revocation import apply_change, subject_now
from artemis_py.security.users import UserFiles
from artemis_py.store.disk import DEFAULT_FREE_BYTES, DiskLimit, DiskMonitor
from artemis_py.store.lmdb import LmdbStore
from artemis_py.store.memory import MemoryStore
from artemis_py.store.node import node_id
from artemis_py.store.recovery import recover
from artemis_py.store.scratch import ScratchStore
from artemis_py.transport.acceptor import Acceptor, managers_of
from artemis_py.transport.acceptor_context import AcceptorContext
from artemis_py.transport.config import AcceptorConfig
from artemis_py.transport.connections import ConnectionLimits, Connections
from artemis_py.transport.tls import server_context
from artemis_py.transport.turn import Turn
from artemis_py.transport.websocket import with_websocket
from artemis_py.transport.worker import Worker

LOGGER: Final = named_logger(__name__)

# How long clients have to read the goodbye and close their side. An embedded broker must not hold up its program.
GOODBYE_S: Final = 0.5

# How often the files of users and roles are looked at (two calls of stat); as Artemis looks at its files.
USERS_REFRESH_S: Final = 5.0

# A file that has just changed may still be written: it is taken when it stayed the same for so long.
USERS_SETTLE_S: Final = 1.0

ANY_HOST: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""What a client on this machine connects to where the broker listens on every interface."""


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
        self._exits: list[Callable[[], object]] = []
        self._acceptors: list[Acceptor] = []
        self.connections = Connections(ConnectionLimits.of_this_process())
        self._hurry = asyncio.Event()
        self.node_id = ""
        """Identifies this broker, through restarts if it has a store; known once it has started."""
        settings = self.config.settings
        hierarchy: MatchHierarchy[AddressSettings] = MatchHierarchy(settings.wildcards, settings.literal_match_markers)
        repository = SettingsRepository(hierarchy, settings)
        for match, address_settings in self.config.address_settings.items():
            repository.add(match, address_settings)
        self._store = self._configured_store()
        self._disk: DiskMonitor | None = None
        storage = MemoryStore() if self._store is None else self._store
        self._scratch = ScratchStore(paging_folder(self.config))
        self.postoffice = PostOffice(
            repository, storage, settings, self._access(), EventLog(), self._scratch, Entropy(seed)
        )
        self.postoffice.creations.limit = self.config.login.max_auto_created_per_user

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen. Raises ConfigError with all that is wrong, StoreError; then nothing is left running."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        self._exits.append(self._scratch.close)
        for problem in self.config.warnings:
            LOGGER.warning("%s", problem)
        loop = asyncio.get_running_loop()
        turn = Turn(self.postoffice, loop)
        self._exits.append(turn.stop)
        self._count_log_lines(loop)
        turn.enter()
        self._exits.append(self.postoffice.discards.tell)
        factories = installed_protocols() if self._factories is None else self._factories
        managers = [factory(self.postoffice) for factory in factories]
        problems = [problem for acceptor in self.config.acceptors for problem in check_parameters(acceptor, managers)]
        if problems:
            raise ConfigError(problems)
        worker = Worker(loop, turn.enter)
        self._exits.append(worker.stop)
        authenticator = self._authenticators(loop, worker, turn)
        override_ms = self.config.connection_ttl_override_ms
        self._acceptors = [
            Acceptor(
                AcceptorContext(
                    config=config,
                    managers=with_websocket(managers_of(config, managers), self.postoffice.meter),
                    authenticator=authenticator(config),
                    turn=turn,
                    connections=self.connections,
                    tls=server_context(config),
                    idle_timeout_override_ms=None if override_ms < 0 else override_ms,
                )
            )
            for config in self.config.acceptors
        ]
        if self._store is not None:
            self._recover(self._store, managers, loop, turn)
            self._watch_disk(self._store.folder, loop, turn)
            self.postoffice.staging.restore()
        self._deploy()
        self._warn_of_lost_letters()
        self._manage()
        for manager in managers:
            manager.start()
        reaper = Reaper(self.postoffice)
        reaper.start()
        self._exits.append(reaper.stop)
        turn.plan()
        for acceptor in self._acceptors:
            self._exits.append(acceptor.stop)
            await acceptor.start()
        LOGGER.info("broker started: name=%s", self.config.settings.name)

    async def stop(self, reason: str = "the broker stops", goodbye_s: float = GOODBYE_S) -> None:
        """Close the sockets, say goodbye to the clients, return what they held to the queues. Safe to repeat."""
        for acceptor in self._acceptors:
            acceptor.stop()
        if self.config.graceful_shutdown_enabled and self._exits:
            await self._wait_for_clients()
        await self.connections.shutdown(reason, goodbye_s)
        is_running = bool(self._exits)
        while self._exits:
            self._exits.pop()()
        if is_running:
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

    async def _wait_for_clients(self) -> None:
        """Until the last client left, the time is over, or somebody is in a hurry."""
        timeout_ms = self.config.graceful_shutdown_timeout_ms
        waiting = [asyncio.ensure_future(self.connections.wait_empty()), asyncio.ensure_future(self._hurry.wait())]
        await asyncio.wait(
            waiting, timeout=None if timeout_ms < 0 else timeout_ms / 1000, return_when=asyncio.FIRST_COMPLETED
        )
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    # -- what clients need -----------------------------------------------------------------------------------

    def url(self, scheme: str) -> str:
        """Where clients of a protocol connect to: `url("amqp")` is `amqp://127.0.0.1:port`, or `amqps://` with TLS.

        Raises LookupError if no acceptor speaks the protocol.
        """
        for acceptor in self._acceptors:
            if scheme.upper() in acceptor.protocols:
                host = ANY_HOST.get(acceptor.config.host, acceptor.config.host)
                secure = "" if acceptor.config.tls is None else "s"
                return f"{scheme}{secure}://{f'[{host}]' if ':' in host else host}:{acceptor.port}"
        raise LookupError(f"no acceptor of this broker speaks {scheme}")

    def acceptor_facts(self) -> list[AcceptorFacts]:
        """The listening sockets, with the ports they got."""
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

    def _access(self) -> AccessControl:
        if not self.config.security_enabled:
            return OpenAccess()
        return AccessRules(self.config.security_settings, self.config.settings)

    def _authenticators(
        self, loop: asyncio.AbstractEventLoop, worker: Worker, turn: Turn
    ) -> Callable[[AcceptorConfig], Authenticator]:
        """What makes the authenticator of each acceptor. Raises ConfigError if the users' files cannot be used."""
        if not self.config.security_enabled:
            open_to_all = OpenAuthenticator()
            return lambda acceptor: open_to_all
        login = self.config.login
        files = UserFiles(login.folder / login.users_file, login.folder / login.roles_file)
        logins = LoginService(files.load(), worker.submit, loop.call_later, loop.time)
        self.postoffice.subject_now = lambda subject: subject_now(logins.users, subject)

        def refresh() -> None:
            is_settled = files.is_settled()
            users = files.reload() if is_settled else None
            if users is not None:
                turn.enter()
                old = logins.users
                logins.replace_users(users)
                revoked = apply_change(self.postoffice, old, users)
                # These were checked against the old ones, or are about to be.
                self.connections.end_logins("the users were changed: log in again")
                turn.plan()
                LOGGER.info(
                    "users reloaded: file=%s sessions_ended=%d sessions_changed=%d",
                    login.users_file,
                    revoked.ended,
                    revoked.changed,
                )
            timer[0] = loop.call_later(USERS_REFRESH_S if is_settled else USERS_SETTLE_S, refresh)

        timer = [loop.call_later(USERS_REFRESH_S, refresh)]
        self._exits.append(lambda: timer[0].cancel())
        return lambda acceptor: AcceptorAuthenticator(
            logins,
            acceptor.sasl_mechanisms,
            login.anonymous_access,
            frozenset(login.anonymous_roles),
        )

    def _configured_store(self) -> LmdbStore | None:
        if not self.config.persistence_enabled:
            return None
        config = self.config
        waits = config.journal_sync_transactional or config.journal_sync_non_transactional
        return LmdbStore(
            journal_folder(config), large_messages_folder=large_messages_folder(config), answers_wait=waits
        )

    def _recover(
        self, store: LmdbStore, managers: Sequence[ProtocolManager], loop: asyncio.AbstractEventLoop, turn: Turn
    ) -> None:
        """Bring back what survived, then store what happens. Raises StoreError."""
        if not self.config.create_journal_dir and not store.folder.is_dir():
            raise StoreError(f"{store.folder} is not there, and create-journal-dir is false")
        if not store.answers_wait:
            LOGGER.warning("journal-sync options are off: a crash loses what was confirmed just before it")
        formats = {PLAIN_FORMAT.name: PLAIN_FORMAT} | {each.name: each for one in managers for each in one.formats}
        # Called in reverse order: the worker ends, with the commit it is in, before the store is closed.
        self._exits.append(lambda: store.close(list(self.postoffice.queues.values())))
        found = recover(store, self.postoffice, formats)
        LOGGER.info(
            "store opened: folder=%s addresses=%d queues=%d messages=%d damaged=%d",
            store.folder,
            found.addresses,
            found.queues,
            found.references,
            found.damaged,
        )
        worker = Worker(loop, turn.enter)
        self._exits.append(worker.stop)

        def stored(batch: int) -> None:
            if self.postoffice.stored(batch):
                turn.plan()

        def failed(reason: str) -> None:
            self.postoffice.storage_failed(reason)
            turn.plan()

        store.start(loop, worker, failed, stored)
        useless = self.postoffice.retained.load(formats)
        if useless:
            LOGGER.error("retained messages that cannot be read were forgotten: count=%d", useless)

    def _count_log_lines(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the log say, once a period, how many lines were left out."""

        def count() -> None:
            count_left_out()
            timer[0] = loop.call_later(PERIOD_S, count)

        def stop() -> None:
            timer[0].cancel()
            count_left_out(all_of_them=True)

        timer = [loop.call_later(PERIOD_S, count)]
        self._exits.append(stop)

    def _watch_disk(self, folder: Path, loop: asyncio.AbstractEventLoop, turn: Turn) -> None:
        """Before anybody connects, and from then on."""
        config = self.config
        free_bytes = config.min_disk_free_bytes
        if free_bytes is None:
            free_bytes = DEFAULT_FREE_BYTES if config.max_disk_usage < 0 else -1
        limit = DiskLimit(max_usage_percent=config.max_disk_usage, min_free_bytes=free_bytes)
        monitor = self._disk = DiskMonitor(folder, limit, self.postoffice.disk_changed)

        def scan() -> None:
            turn.enter()
            monitor.scan()
            timer[0] = loop.call_later(config.disk_scan_period_ms / 1000, scan)

        timer: list[asyncio.TimerHandle] = []
        monitor.scan()
        timer.append(loop.call_later(config.disk_scan_period_ms / 1000, scan))
        self._exits.append(lambda: timer[0].cancel())

    def _deploy(self) -> None:
        """Create the addresses and queues of the configuration, or change those that survived to be like it."""
        office = self.postoffice
        for address in self.config.addresses:
            existing = office.addresses.get(address.name)
            if existing is None:
                office.create_address(address.name, address.routing_types)
            else:
                bound = {queue.routing_type for queue in queues_of(existing)}
                office.update_address(address.name, address.routing_types | bound)
            for queue in address.queues:
                self._deploy_queue(queue)

    def _deploy_queue(self, config: QueueConfig) -> None:
        """A queue that survived keeps its messages; what cannot be changed of it stays, and is said."""
        office = self.postoffice
        existing = office.queues.get(config.name)
        if existing is None:
            office.create_queue(config)
            return
        if existing.address.name != config.address or existing.durable != config.durable:
            LOGGER.warning(
                "stored queue differs from broker.xml and stays as it is: name=%s address=%s durable=%s",
                config.name,
                existing.address.name,
                existing.durable,
            )
            return
        changes = {name: getattr(config, name) for name in CHANGEABLE}
        office.update_queue(config.name, changes)

    def _warn_of_lost_letters(self) -> None:
        """Warn of dead-letter and expiry addresses without a queue. Queues of earlier runs count, so it starts."""
        for each in unserved(self.config, self._has_queue):
            LOGGER.warning(
                "%s has no queue, messages are discarded: match=%s address=%s; %s",
                each.setting,
                each.match,
                each.target,
                each.remedy,
            )

    def _has_queue(self, address: str, queue: str | None) -> bool:
        office = self.postoffice
        if queue is not None:
            return office.find_queue(f"{address}::{queue}") is not None
        existing = office.addresses.get(address)
        return bool(existing is not None and existing.bindings) or office.has_wildcard_queue(address)

    def _manage(self) -> None:
        self.node_id = node_id(self.postoffice.storage, self.postoffice.entropy)
        facts = BrokerFacts(
            version=installed_version(),
            node_id=self.node_id,
            started_ms=self.postoffice.now_ms,
            acceptors=self.acceptor_facts,
            disk_usage=lambda: -1.0 if self._disk is None else self._disk.used_part,
        )
        endpoint = ManagementEndpoint(self.postoffice, facts)
        self.postoffice.register_endpoint(self.config.settings.management_address, endpoint)
