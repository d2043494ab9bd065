"""A core that speaks OpenWire, and its clients: no sockets, and a turn or a commit happens when the test says so."""

from pathlib import Path
from typing import Any

from attrs import evolve

from artemis_openwire.broker.handler import ClientHandler
from artemis_openwire.broker.manager import OpenWireProtocolManager
from artemis_openwire.engine.codec import read_frame, write_frame
from artemis_openwire.engine.commands import (
    ActiveMQTextMessage,
    BaseCommand,
    ConnectionInfo,
    ConsumerInfo,
    ExceptionResponse,
    MessageAck,
    MessageDispatch,
    ProducerInfo,
    RemoveInfo,
    Response,
    SessionInfo,
    TransactionInfo,
)
from artemis_openwire.engine.structures import (
    ActiveMQDestination,
    ActiveMQQueue,
    ActiveMQTopic,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    TransactionId,
)
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.names.syntax import MatchHierarchy
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.storage import Storage
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import AccessControl
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.protocol import Authenticator, ConnectionContext, Host
from artemis_py.security.authenticator import OpenAuthenticator
from artemis_py.store.lmdb import LmdbStore
from artemis_py.store.memory import MemoryStore
from artemis_py.store.recovery import recover
from tests.core_harness import START_MS, make_hosts, make_services, step_through
from tests.log_switch import LOG
from tests.openwire_harness import frames, wire_format
from tests.unit.store.world import SMALL_MAP_BYTES, Handmade

STANDARD = 2


class Site:
    """One run of a broker; with a folder what is committed survives it."""

    def __init__(
        self,
        folder: Path | None = None,
        access: AccessControl | None = None,
        settings: AddressSettings | None = None,
        now_ms: int = START_MS,
    ) -> None:
        options = BrokerSettings()
        hierarchy: MatchHierarchy[AddressSettings] = MatchHierarchy(options.wildcards)
        repository = SettingsRepository(hierarchy, options)
        if settings is not None:
            repository.add("#", settings)
        self.hands = Handmade()
        self._store = None if folder is None else LmdbStore(folder, SMALL_MAP_BYTES, log=LOG)
        storage: Storage = MemoryStore() if self._store is None else self._store
        self.domain = Domain(repository, Dispatcher(storage, None, options), options, access)
        self.domain.dispatcher.now_ms = now_ms
        services = make_services(self.domain)
        self.hosts = make_hosts(services)
        self.host = Host(self.hosts.domains, self.hosts)
        self.manager = OpenWireProtocolManager(self.host)
        if self._store is not None:
            formats = {PLAIN_FORMAT.name: PLAIN_FORMAT} | {one.name: one for one in self.manager.formats}
            recover(self._store, self.domain, formats, self.hosts)
            assert self.domain.exchanges.restore() == []
            services.branches.restore()
            services.jobs.restore()
            self._store.start(
                self.hands, self.hands, self.domain.dispatcher.storage_failed, self.domain.dispatcher.stored
            )
        self.manager.start()

    def crash(self) -> None:
        """What was not committed is gone."""
        if self._store is not None:
            environment, self._store._environment = self._store._environment, None
            if environment is not None:
                environment.close()
                if self._store._folding is not None:
                    self._store._folding.log.close()

    def turn(self) -> None:
        """Deliver what can be delivered, without any commit."""
        while self.domain.dispatcher.run():
            pass

    def commit(self) -> None:
        """Let everything that was put become durable."""
        while self.hands.planned or self.hands.jobs:
            self.hands.turn()
            while self.hands.jobs:
                self.hands.work()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and happen what was planned for it."""
        step_through(self.domain.dispatcher, int(seconds * 1000))


class Client:
    """One connection, with one session and one producer that names no destination."""

    def __init__(
        self,
        site: Site,
        name: str = "c1",
        version: int = 12,
        authenticator: Authenticator | None = None,
        virtual_host: str = "",
        **parameters: str,
    ) -> None:
        self.site = site
        self.version = version
        self.name = name
        self.is_read = True
        """Whether the transport would read from this client."""
        self._last_command = 0
        self._sent = 0
        context = ConnectionContext(
            connection_id=site.domain.new_id(),
            peer="peer",
            is_loopback=True,
            authenticator=authenticator or OpenAuthenticator(),
            parameters=site.manager.read_parameters("acceptor", parameters),
            virtual_host=virtual_host,
            wake=lambda: None,
            read=self._read,
        )
        self.handler: ClientHandler = site.manager.connect(context)
        self.producer = ProducerId(connection_id=name, session_id=1, value=1)
        self.unread: list[Any] = []

    def _read(self, goes_on: bool) -> None:
        self.is_read = goes_on

    # -- octets ------------------------------------------------------------------------------------------------

    def tell(self, command: BaseCommand, answered: bool = False) -> int:
        """Send a command; return its number."""
        self._last_command += 1
        numbered = evolve(command, command_id=self._last_command, response_required=answered)
        self.handler.receive_data(write_frame(numbered, self.version), 0.0)
        return self._last_command

    def received(self) -> list[Any]:
        """What the broker wrote until everything is durable and delivered."""
        found, self.unread = self.unread, []
        while True:
            before = len(found)
            found += self.received_before_commit()
            self.site.commit()
            if len(found) == before and not self.site.hands.planned:
                more = self.received_before_commit()
                if not more:
                    return found
                found += more

    def received_before_commit(self) -> list[Any]:
        """What it wrote without anything having become durable."""
        found = b""
        while True:
            self.site.turn()
            while self.handler.has_input:
                self.handler.work(0.0)
            data = self.handler.data_to_send()
            if not data:
                return [read_frame(body, self.version) for body in frames(found)]
            found += data

    def ask(self, command: BaseCommand) -> Any:
        """Send a command that wants an answer; return that. What else came is kept for `received`."""
        number = self.tell(command, answered=True)
        found = self.received()
        answers = [one for one in found if isinstance(one, Response) and one.correlation_id == number]
        self.unread = [one for one in found if one not in answers]
        assert len(answers) == 1, f"{len(answers)} answers among {found}"
        return answers[0]

    def refused(self, command: BaseCommand) -> str:
        """Send a command that must fail; return the class of the error without its package."""
        answer = self.ask(command)
        assert isinstance(answer, ExceptionResponse), answer
        assert answer.exception is not None
        return str(answer.exception.class_name).rpartition(".")[2]

    def done(self, command: BaseCommand) -> None:
        """Send a command that must succeed."""
        answer = self.ask(command)
        assert not isinstance(answer, ExceptionResponse), answer

    # -- what clients do -----------------------------------------------------------------------------------------

    def negotiate(self) -> None:
        """Exchange WireFormatInfo."""
        self.handler.receive_data(write_frame(wire_format(self.version), 1), 0.0)
        self.received()

    def info(self, **fields: Any) -> ConnectionInfo:
        """The command that logs in."""
        given: dict[str, Any] = {"connection_id": ConnectionId(value=self.name), "client_id": f"client {self.name}"}
        return ConnectionInfo(**(given | fields))

    def log_in(self, **fields: Any) -> "Client":
        """Everything up to an open session and producer."""
        self.negotiate()
        self.done(self.info(**fields))
        self.done(SessionInfo(session_id=SessionId(connection_id=self.name, value=1)))
        self.done(ProducerInfo(producer_id=self.producer))
        return self

    def consumer(self, value: int = 1, session: int = 1) -> ConsumerId:
        """The name of a consumer."""
        return ConsumerId(connection_id=self.name, session_id=session, value=value)

    def consume(self, destination: ActiveMQDestination, value: int = 1, prefetch: int = 10, **fields: Any) -> Any:
        """Open a consumer; returns the answer."""
        id = self.consumer(value)
        return self.ask(ConsumerInfo(consumer_id=id, destination=destination, prefetch_size=prefetch, **fields))

    def text(self, destination: ActiveMQDestination | None, text: str = "m", **fields: Any) -> ActiveMQTextMessage:
        """A message that was not sent before."""
        self._sent += 1
        content = text.encode()
        given: dict[str, Any] = {
            "producer_id": self.producer,
            "destination": destination,
            "message_id": MessageId(producer_id=self.producer, producer_sequence_id=self._sent),
            "content": len(content).to_bytes(4, "big") + content,
            "persistent": True,
            "priority": 4,
        }
        return ActiveMQTextMessage(**(given | fields))

    def send(self, destination: ActiveMQDestination, *texts: str, **fields: Any) -> None:
        """Send messages, each answered."""
        for text in texts:
            self.done(self.text(destination, text, **fields))

    def dispatches(self) -> list[MessageDispatch]:
        """What was delivered since."""
        found = self.received()
        self.unread = [one for one in found if not isinstance(one, MessageDispatch)]
        return [one for one in found if isinstance(one, MessageDispatch)]

    def texts(self) -> list[str]:
        """Texts of what was delivered since."""
        return [text_of(one) for one in self.dispatches()]

    def ack(
        self,
        first: MessageDispatch | None,
        last: MessageDispatch,
        kind: int = STANDARD,
        count: int = 1,
        transaction: TransactionId | None = None,
        **fields: Any,
    ) -> None:
        """Acknowledge from one delivery to another; the broker must agree."""
        self.done(
            MessageAck(
                destination=last.destination,
                consumer_id=last.consumer_id,
                ack_type=kind,
                first_message_id=None if first is None else id_of(first),
                last_message_id=id_of(last),
                message_count=count,
                transaction_id=transaction,
                **fields,
            )
        )

    def transaction(self, value: int = 1) -> LocalTransactionId:
        """The name of a transaction."""
        return LocalTransactionId(value=value, connection_id=ConnectionId(value=self.name))

    def step(self, kind: int, value: int = 1) -> TransactionInfo:
        """A step of a transaction: 0 begins, 2 commits, 4 rolls back."""
        connection = ConnectionId(value=self.name)
        return TransactionInfo(connection_id=connection, transaction_id=self.transaction(value), type=kind)

    def remove(self, consumer: ConsumerId, last: int = -1) -> None:
        """Close a consumer."""
        self.done(RemoveInfo(object_id=consumer, last_delivered_sequence_id=last))

    def lose(self) -> None:
        """The socket breaks."""
        self.handler.connection_lost()
        self.site.turn()


def connected(site: Site, name: str = "c1", version: int = 12, **parameters: str) -> Client:
    """A client that is logged in."""
    return Client(site, name, version, None, **parameters).log_in()


def queue(name: str) -> ActiveMQQueue:
    """A queue."""
    return ActiveMQQueue(physical_name=name)


def topic(name: str) -> ActiveMQTopic:
    """A topic."""
    return ActiveMQTopic(physical_name=name)


def id_of(dispatch: MessageDispatch) -> MessageId:
    """The id of a delivered message."""
    assert dispatch.message is not None
    assert dispatch.message.message_id is not None
    return dispatch.message.message_id


def number_of(dispatch: MessageDispatch) -> int:
    """The broker's number of a delivery."""
    return id_of(dispatch).broker_sequence_id


def text_of(dispatch: MessageDispatch) -> str:
    """The text of a delivered message; empty for the news that there is none."""
    if dispatch.message is None:
        return ""
    return (dispatch.message.content or bytes(4))[4:].decode()
