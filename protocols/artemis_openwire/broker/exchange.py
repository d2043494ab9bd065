"""What one client has open while it is logged in: sessions, producers, consumers, transactions, temporary destinations.

Commands that come rarely are taken apart here; each kind of thing has a module of its own.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from artemis_openwire.broker.acknowledging import Acknowledging
from artemis_openwire.broker.branches import ClientBranches
from artemis_openwire.broker.consumers import Consumers
from artemis_openwire.broker.producers import Producers
from artemis_openwire.broker.refusals import illegal_state, told
from artemis_openwire.broker.temporary import Destinations
from artemis_openwire.broker.transactions import Transactions
from artemis_openwire.engine.commands import (
    BaseCommand,
    ConnectionInfo,
    ConsumerControl,
    ConsumerInfo,
    DestinationInfo,
    MessagePull,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    SessionInfo,
    TransactionInfo,
)
from artemis_openwire.engine.fields import NO_ANSWER
from artemis_openwire.engine.structure import Structure
from artemis_openwire.engine.structures import ConsumerId, ProducerId, SessionId
from artemis_py.core.runtime.meter import LINK_UNITS
from artemis_py.core.sessions.session import Session
from artemis_py.errors import LimitExceeded, Refusal

if TYPE_CHECKING:
    from artemis_openwire.broker.handler import ClientHandler

# Sessions of one connection. Each takes some 100 octets; applications have one for each thread.
MAX_SESSIONS: Final = 16_384

IMPLICIT_SESSION: Final = -1
"""The session of a connection itself, which is never declared: that of its consumer of advisories."""


class Exchange:
    """One client that has logged in."""

    def __init__(self, handler: "ClientHandler", core: Session, info: ConnectionInfo) -> None:
        self.handler: Final = handler
        self.core: Final = core
        self.info: Final = info
        self.sessions: Final[set[int]] = {IMPLICIT_SESSION}
        self.transactions: Final = Transactions(self)
        self.branches: Final = ClientBranches(self)
        self.producers: Final = Producers(self)
        self.consumers: Final = Consumers(self)
        self.acknowledging: Final = Acknowledging(self)
        self.destinations: Final = Destinations(self)

    def on_command(self, command: BaseCommand, answer_id: int) -> None:
        """Act on a command, and answer it when what it changed is durable."""
        handler = self.handler
        handler.host.meter.work += LINK_UNITS
        try:
            is_answered = self._act(command, answer_id)
        except Refusal as refusal:
            self.refuse(answer_id, refusal)
            return
        if not is_answered and answer_id != NO_ANSWER:
            self.answer_later(answer_id)

    def on_step(self, key: bytes, step: int, answer_id: int) -> None:
        """Take a step of a local transaction, and answer it when what it changed is durable."""
        self.handler.host.meter.work += LINK_UNITS
        try:
            self.transactions.step(key, step)
        except Refusal as refusal:
            self.refuse(answer_id, refusal)
            return
        if answer_id != NO_ANSWER:
            self.answer_later(answer_id)

    def answer_later(self, answer_id: int) -> None:
        """Report success when everything that was changed so far is durable."""
        engine = self.handler.engine
        self.handler.answers.when_durable(lambda: engine.respond(answer_id))

    def refuse(self, answer_id: int, refusal: Refusal) -> None:
        """Tell the client why something was refused."""
        handler = self.handler
        template = "command refused: peer=%s client=%s reason=%s"
        handler.brake.info(handler.source, template, handler.context.peer, handler.client_id, refusal)
        handler.engine.fail(answer_id, told(refusal))

    def _act(self, command: BaseCommand, answer_id: int) -> bool:
        """Act on a command; True if it answers by itself. Raises Refusal."""
        match command:
            case SessionInfo():
                self._open_session(command)
            case ProducerInfo():
                self.producers.open(command)
            case ConsumerInfo():
                return self.consumers.open(command, answer_id)
            case TransactionInfo():
                return self.transactions.on_info(command, answer_id)
            case RemoveInfo():
                self._remove(command.object_id, command.last_delivered_sequence_id)
            case ConsumerControl():
                self.consumers.control(command)
            case MessagePull():
                self.consumers.pull(command)
            case DestinationInfo():
                self.destinations.on_info(command)
            case RemoveSubscriptionInfo():
                self.destinations.unsubscribe(command)
            case _:
                # ConnectionControl says that the client reconnects by itself, which ConnectionInfo says as well.
                pass
        return False

    # -- sessions ------------------------------------------------------------------------------------------------

    def _open_session(self, info: SessionInfo) -> None:
        if info.session_id is None or info.session_id.connection_id != self.handler.connection_id:
            raise illegal_state("a session of another connection")
        if len(self.sessions) > MAX_SESSIONS:
            raise LimitExceeded(f"{MAX_SESSIONS} sessions are open on this connection")
        self.sessions.add(info.session_id.value)

    def check_session(self, id: ConsumerId | ProducerId) -> None:
        """Raise CommandRefused unless the session of a consumer or producer is open."""
        if id.connection_id != self.handler.connection_id:
            raise illegal_state(f"connection '{id.connection_id}' is not this one")
        if id.session_id not in self.sessions:
            raise illegal_state(f"session {id.session_id} is not open on this connection")

    def _remove(self, id: Structure | None, last_delivered: int) -> None:
        """End what has this name; to remove what is gone is no error."""
        match id:
            case ConsumerId():
                self.consumers.close(id, last_delivered)
            case ProducerId():
                self.producers.close(id)
            case SessionId():
                self.sessions.discard(id.value)
                self.consumers.close_session(id.value, last_delivered)
                self.producers.close_session(id.value)
            case _:
                raise illegal_state("neither a connection, session, consumer nor producer can be removed by this name")

    # -- rights and the end ----------------------------------------------------------------------------------------

    def rights_changed(self) -> None:
        """Forget producers that were checked with the old rights, and close consumers that are not allowed any more."""
        self.producers.forget_rights()
        self.consumers.check_rights()

    def give_back(self, last_delivered: int) -> None:
        """Return the deliveries of a client that takes its leave: those that it has seen count as attempts."""
        self.consumers.close_all(last_delivered)

    def close(self, failed: bool, done: Callable[[], None]) -> None:
        """End everything; `done` is called when nothing of it is left, which may take some time."""
        self.producers.stop()
        self.transactions.close()
        self.branches.close()
        self.consumers.stop()
        self.destinations.close()
        self.handler.manager.advisories.disconnected(self.info)
        self.core.close(failed, done)
