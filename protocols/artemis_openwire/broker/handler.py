"""One OpenWire connection inside the broker, from the socket to the end.

The engine knows what may come when; `login` decides who comes in, and `exchange` gives commands a meaning while the
client is logged in.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from artemis_openwire.broker.consumers import NOT_KNOWN
from artemis_openwire.broker.exchange import Exchange
from artemis_openwire.broker.login import Login
from artemis_openwire.broker.referral import ALONE, FIRST_VERSION, brokers_control, redirecting_control
from artemis_openwire.engine import errors
from artemis_openwire.engine.ack_fields import AckFields
from artemis_openwire.engine.commands import BaseCommand, ConnectionControl, ConnectionInfo, RemoveInfo
from artemis_openwire.engine.connection import OpenWireConnection
from artemis_openwire.engine.handler import OpenWireHandler
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.negotiation import Agreement
from artemis_openwire.engine.structure import Throwable
from artemis_openwire.engine.structures import ConnectionId
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.referrals import Alternative
from artemis_py.errors import NoSuchHost, Refusal
from artemis_py.logs import LogBrake
from artemis_py.peers import address_of
from artemis_py.protocol import ConnectionContext, Host
from artemis_py.wire.answers import Answers
from artemis_py.wire.partial_input import PartialInput

if TYPE_CHECKING:
    from artemis_openwire.broker.manager import OpenWireProtocolManager
    from artemis_openwire.broker.parameters import Parameters


class ClientHandler(OpenWireHandler):
    """One OpenWire connection, as the transport and the engine know it."""

    def __init__(
        self, manager: "OpenWireProtocolManager", context: ConnectionContext, parameters: "Parameters"
    ) -> None:
        self.manager: OpenWireProtocolManager = manager
        self.context: ConnectionContext = context
        self.parameters: Parameters = parameters
        self.host: Host = manager.host
        self.brake: LogBrake = manager.brake
        self.source: str = address_of(context.peer)
        """Peer address; the log counts the lines of one peer together."""
        self.client_id: str = ""
        self.connection_id: str = ""
        self.services = manager.host.domains.default
        """Services of the domain that the client connected to."""
        self.no_host: NoSuchHost | None = None
        """What the client is told when it logs in, because it named a virtual host that does not exist."""
        self.engine: OpenWireConnection = OpenWireConnection(
            self, manager.info, parameters.limits(context), manager.host.meter
        )
        self.answers: Answers = Answers(
            manager.host.storage,
            self.engine.outbox,
            self.is_over,
            self._store_failed,
            manager.host.dispatcher.announcements,
        )
        self.exchange: Exchange | None = None
        """What the client has open, from its login to its end."""
        self.is_leaving: bool = False
        """Whether what the client had open is being closed; until that is over, its names are taken."""
        self._when_left: list[Callable[[], None]] = []
        self._is_lost: bool = False
        self._input: PartialInput = PartialInput(manager.host.memory)

    # -- the transport's side --------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the connection is closed and nothing more will be sent."""
        return self.engine.closed

    @property
    def logged_in(self) -> bool:
        """Whether the client has logged in. Having negotiated is not enough: anybody can do that."""
        return self.exchange is not None

    def receive_data(self, data: bytes, now: float) -> None:
        """Process octets, and ask the store once for all answers to them."""
        self.engine.receive_data(data, now)
        self._finish_call()

    @property
    def has_input(self) -> bool:
        """Whether commands wait for a later iteration of the loop."""
        return self.engine.has_input

    def work(self, now: float) -> None:
        """Process commands that waited."""
        self.engine.work(now)
        self._finish_call()

    def _finish_call(self) -> None:
        """Ask the store, and end the connection if the rest of a message would be too much for the memory."""
        engine = self.engine
        if not self._input.update(engine.kept_bytes) and not (engine.closed or engine.has_input or engine.is_halted):
            self.end(Throwable(errors.RESOURCES, "the broker has no memory for the rest of this message"))
        self.ask_store()

    def data_to_send(self) -> bytes:
        """Return the output and forget it."""
        self.ask_store()
        return self.engine.data_to_send()

    def next_deadline(self) -> float | None:
        """Return when a sign of life is due, or when the client will have been silent for too long."""
        return self.engine.next_deadline()

    def handle_deadline(self, now: float) -> None:
        """Send a sign of life, or end the connection of a silent client."""
        self.engine.handle_deadline(now)

    def pause(self) -> None:
        """Deliver nothing: the client does not read."""
        self.engine.pause()

    def resume(self) -> None:
        """Deliver again."""
        self.engine.resume()

    def shutdown(self, reason: str) -> None:
        """End the conversation for the broker or an administrator; a failover client connects again."""
        if not self.engine.closed:
            others = self._others() if self.host.referrals.is_leaving else []
            self._leave(failed=False)
            if others:
                self.engine.redirect(redirecting_control(others))
            else:
                self.engine.shutdown()

    def connection_lost(self) -> None:
        """Return everything to the core: the socket is gone."""
        self._is_lost = True
        self.engine.release_bodies()
        self._input.update(0)
        self._leave(failed=True)

    def wake(self) -> None:
        """Tell the transport of output outside of its calls."""
        self.context.wake()

    # -- answers that wait for the store -----------------------------------------------------------------------

    def is_over(self) -> bool:
        """Tell whether no answer can reach the client any more."""
        return self._is_lost or self.engine.closed

    def ask_store(self) -> None:
        """Ask for all answers that wait."""
        self.answers.ask_store()

    def _store_failed(self, text: str) -> None:
        """End the connection: some of what it asked for will never be answered."""
        self.end(Throwable(errors.IO, text))
        self.wake()

    # -- the engine's side -------------------------------------------------------------------------------------

    def on_negotiated(self, agreement: Agreement) -> None:
        """Enter the domain of the host that the client connected to, or that of its acceptor."""
        try:
            self.manager = self.manager.siblings.find(agreement.host or None, self.context.virtual_host)
        except NoSuchHost as refusal:
            self.no_host = refusal
            return
        self.host = self.manager.host
        self.services = self.host.services

    def on_connection_info(self, info: ConnectionInfo) -> None:
        """Begin the login."""
        Login(self, info).begin()

    def admitted(self, subject: Subject, info: ConnectionInfo) -> None:
        """Open a session of the core for a client that may come in. Raises Refusal if its virtual host says no."""
        assert info.connection_id is not None
        assert info.connection_id.value is not None
        assert info.client_id is not None
        certificate = self.context.certificate_subject
        core = self.services.sessions.open(
            subject, info.client_id, self.context.peer, "OPENWIRE", certificate=certificate
        )
        self.client_id = info.client_id
        self.connection_id = info.connection_id.value
        core.client = self
        self.exchange = Exchange(self, core, info)
        self.manager.clients.add(self)
        self.manager.advisories.connected(info)
        template = "connection opened: peer=%s user=%s client=%s version=%d"
        self.brake.info(self.source, template, self.context.peer, subject.name, self.client_id, self.engine.version)
        self.engine.accept(self._brokers() if info.manageable else None)

    def on_command(self, command: BaseCommand, answer_id: int) -> None:
        """Act on a command that comes rarely."""
        exchange = self.exchange
        if exchange is None:
            return
        if isinstance(command, RemoveInfo) and isinstance(command.object_id, ConnectionId):
            exchange.give_back(command.last_delivered_sequence_id)
            self._leave(failed=command.last_delivered_sequence_id == NOT_KNOWN)
            self.answers.when_durable(lambda: self.engine.respond(answer_id))
        else:
            exchange.on_command(command, answer_id)

    def on_step(self, key: bytes, step: int, answer_id: int) -> None:
        """Take a step of a local transaction."""
        if self.exchange is not None:
            self.exchange.on_step(key, step, answer_id)

    def on_message(self, message: MessageFields) -> None:
        """Route a message."""
        if self.exchange is not None:
            self.exchange.producers.on_message(message)

    def create_large(self, durable: bool) -> LargeBody:
        """Return a body for the content of a large message that begins to arrive. Raises StoreError."""
        return self.host.storage.create_large(durable)

    def on_large_message(self, message: MessageFields, body: LargeBody | None, refusal: Refusal | None) -> None:
        """Route a message whose content is not in memory, or refuse it."""
        if self.exchange is not None:
            self.exchange.producers.on_large_message(message, body, refusal)

    def on_ack(self, ack: AckFields) -> None:
        """Settle deliveries."""
        if self.exchange is not None:
            self.exchange.acknowledging.on_ack(ack)

    def on_writable(self) -> None:
        """Continue with deliveries."""
        if self.exchange is not None:
            self.exchange.consumers.find_room()

    def on_shutdown(self) -> None:
        """Clean up after a client that said goodbye."""
        self._leave(failed=True)

    def on_failed(self, text: str) -> None:
        """Log that the client broke the protocol or fell silent, and clean up."""
        template = "connection failed: peer=%s client=%s reason=%s"
        self.brake.warning(self.source, template, self.context.peer, self.client_id, text)
        self._leave(failed=True)

    # -- other brokers -----------------------------------------------------------------------------------------

    def follows(self, info: ConnectionInfo) -> bool:
        """Tell whether the client goes where it is sent: the failover transport does, from version 6 on."""
        return info.fault_tolerant and self.engine.version >= FIRST_VERSION

    def _others(self, with_itself: bool = False) -> list[Alternative]:
        """Return the brokers that the client may go to; none if it would not."""
        exchange = self.exchange
        if exchange is None or not self.follows(exchange.info):
            return []
        is_encrypted = self.context.is_encrypted
        return self.host.referrals.for_client("OPENWIRE", is_encrypted, self.client_id, with_itself)

    def _brokers(self) -> ConnectionControl:
        """Return what the client is told of other brokers that it may connect to."""
        parameters = self.parameters
        if not parameters.updates_clients:
            return ALONE
        return brokers_control(self._others(parameters.rebalances_clients), parameters.rebalances_clients)

    def brokers_changed(self, has_more: bool) -> None:
        """Tell the client which brokers there are now, if it wants to know."""
        exchange, parameters = self.exchange, self.parameters
        if exchange is None or not exchange.info.manageable or not (has_more or parameters.updates_on_remove):
            return
        control = self._brokers()
        if control is not ALONE:
            self.engine.send(control)
            self.wake()

    def refer(self, only_followers: bool) -> None:
        """Send the client to another broker; see `Client`. One that would not go stays, whatever is asked for."""
        others = self._others()
        if others and not self.engine.closed:
            self._leave(failed=False)
            self.engine.redirect(redirecting_control(others))
            self.wake()

    # -- rights ------------------------------------------------------------------------------------------------

    def belongs_to(self, subject: Subject) -> bool:
        """Tell whether the client logged in as this user."""
        exchange = self.exchange
        return exchange is not None and exchange.core.subject.user == subject.user

    def user_removed(self, reason: str) -> None:
        """End the connection of a client whose user is gone."""
        if not self.engine.closed:
            self.end(Throwable(errors.SECURITY, reason))
            self.wake()

    def closed_by_operator(self, reason: str) -> None:
        """End the connection for an administrator; the client may connect again."""
        if not self.engine.closed:
            self.end(Throwable(errors.IO, reason))
            self.wake()

    def rights_changed(self) -> None:
        """Apply the new rights: consumers that they do not allow are closed."""
        if self.exchange is not None and not self.engine.closed:
            self.exchange.rights_changed()
            self.wake()

    # -- the end -----------------------------------------------------------------------------------------------

    def when_left(self, call: Callable[[], None]) -> None:
        """Call back when nothing is left of a client that is leaving."""
        self._when_left.append(call)

    def replace(self, reason: str, done: Callable[[], None]) -> None:
        """Give way to another connection of the same client, which waits until nothing is left of this one."""
        self._when_left.append(done)
        self.brake.info(self.source, "connection replaced: client=%s reason=%s", self.client_id, reason)
        self._leave(failed=True)
        self.engine.end(Throwable(errors.IO, reason))
        self.wake()

    def end(self, reason: Throwable) -> None:
        """End this connection from our side."""
        self._leave(failed=False)
        self.engine.end(reason)

    def _leave(self, failed: bool) -> None:
        """Return everything to the core; a second call does nothing."""
        exchange = self.exchange
        if exchange is None:
            return
        self.exchange = None
        self.is_leaving = True
        exchange.close(failed, self._left)
        template = "connection closed: peer=%s user=%s client=%s"
        self.brake.info(self.source, template, self.context.peer, exchange.core.subject.name, self.client_id)

    def _left(self) -> None:
        self.is_leaving = False
        self.manager.clients.remove(self)
        waiting, self._when_left = self._when_left, []
        for call in waiting:
            call()
