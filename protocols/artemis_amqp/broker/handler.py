"""One AMQP connection, between the transport, the engine and the broker.

The engine (`engine.connection`, `session`, links) knows which frame is allowed when; `login`, `links` and the kinds of
link ends know what it means to the broker. Producing, consuming and transactions have modules of their own.
"""

from typing import TYPE_CHECKING, Final

from artemis_amqp.broker.addressing import split_source
from artemis_amqp.broker.coordinator import Transactions
from artemis_amqp.broker.edge import Edge
from artemis_amqp.broker.link_end import Parting
from artemis_amqp.broker.links import Links
from artemis_amqp.broker.login import Login
from artemis_amqp.broker.referral import redirect
from artemis_amqp.carrier import names
from artemis_amqp.carrier.accepted import AcceptedPeer
from artemis_amqp.engine import errors
from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.link import Link
from artemis_amqp.engine.performatives import AmqpError, Attach, Begin, Close, Detach, End, Open
from artemis_amqp.engine.session import AmqpSession
from artemis_amqp.engine.states import AMQP_HEADER, SASL_HEADER
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.background import Steps
from artemis_py.core.runtime.carrier import CONNECTION_LOST, PeerLimits, PeerListener
from artemis_py.core.runtime.meter import LINK_UNITS
from artemis_py.core.runtime.referrals import Alternative
from artemis_py.core.sessions.session import Session
from artemis_py.errors import NoSuchHost
from artemis_py.peers import address_of
from artemis_py.protocol import ConnectionContext, Host
from artemis_py.wire.answers import Answers
from artemis_py.wire.partial_input import PartialInput
from artemis_py.wire.prefixes import Prefixes

if TYPE_CHECKING:
    from artemis_amqp.broker.manager import AmqpProtocolManager, Parameters


VERSIONS: Final = {b"\x00\x00\x09\x01": "0-9-1, as of RabbitMQ", b"\x01\x01\x00\x0a": "0-10"}
"""Versions that have little in common with 1.0, by what follows `AMQP` in their headers."""


class AmqpHandler(Edge):
    """One AMQP connection; the transport and the engine call it."""

    def __init__(self, manager: "AmqpProtocolManager", context: ConnectionContext, parameters: "Parameters") -> None:
        engine = AmqpConnection(
            self,
            parameters.limits(context),
            is_client=False,
            container_id=manager.host.options.name,
            meter=manager.host.meter,
        )
        answers = Answers(
            manager.host.storage,
            engine.outbox,
            lambda: self.is_over,
            self._store_failed,
            manager.host.dispatcher.announcements,
        )
        super().__init__(manager, engine, answers, PartialInput(manager.host.memory))
        self.context: Final = context
        self.parameters: Final = parameters
        self.prefixes: Final[Prefixes] = parameters.prefixes
        self.host: Host = manager.host
        self.brake: Final = manager.brake
        self.source: Final = address_of(context.peer)
        """Peer address; the log counts the lines of one peer together."""
        self.stores: Final[bool] = manager.host.storage.is_durable
        self.container_id: str = ""
        self.login: Final = Login(self)
        self.links: Links = Links(self)
        self.transactions: Final = Transactions(self)
        self.services = manager.host.domains.default
        """Services of the domain that the client opened; the default one before."""
        self._session: Session | None = None
        self._sasl_hostname: str | None = None
        """Host that the client named in its login; it counts if the client opens its connection without one."""
        self._is_leaving = False
        """Whether the core's session is being closed or has been closed."""

    @property
    def core_session(self) -> Session:
        """The core's session of this connection; it exists once the connection is open."""
        session = self._session
        assert session is not None
        return session

    # -- the transport's side --------------------------------------------------------------------------------

    @property
    def logged_in(self) -> bool:
        """Whether the client has logged in and opened its connection."""
        return self._session is not None or self.mesh_peer is not None

    def refuse_rest(self) -> None:
        """Close the connection: memory has no room for the rest of a message."""
        self._close_core(failed=True)
        self.engine.close(
            AmqpError(errors.RESOURCE_LIMIT_EXCEEDED, "the broker has no memory for the rest of this message")
        )
        if self.mesh_peer is not None:
            self.mesh_peer.lose("no memory for the rest of a message")

    def pause(self) -> None:
        """Stop sending deliveries: the client does not read."""
        self.engine.pause()

    def resume(self) -> None:
        """Continue to send deliveries: the client reads again."""
        self.engine.resume()
        if self.mesh_peer is not None:
            self.mesh_peer.tell_news()

    def shutdown(self, reason: str) -> None:
        """Close with an error; the close detaches the consumers, and their deliveries return to the queues."""
        if self.mesh_peer is not None:
            self.mesh_peer.close(reason)
        elif not self.engine.closed:
            others = self.alternatives() if self.host.referrals.is_leaving else []
            self._close_core(failed=False)
            self.engine.close(redirect(others) if others else AmqpError(errors.CONNECTION_FORCED, reason))

    def connection_lost(self) -> None:
        """Clean up after the socket is gone."""
        self._is_lost = True
        self.partial_input.update(0)
        if self.mesh_peer is not None:
            self.mesh_peer.lose(CONNECTION_LOST)
        self._close_core(failed=True)
        self.manager.forget(self)

    def split_source(self, address: str) -> tuple[str, RoutingType | None, int]:
        """Return what the address of a source means on this acceptor: see `addressing.split_source`."""
        return split_source(address, self.prefixes, self.parameters.has_rabbit_addresses)

    def wake(self) -> None:
        """Tell the transport about output that was written outside of one of its calls."""
        self.context.wake()

    # -- endings -----------------------------------------------------------------------------------------------

    def end(self, error: AmqpError) -> None:
        """Close this connection from our side."""
        self._close_core(failed=False)
        self.engine.close(error)
        self.wake()

    def user_removed(self, reason: str) -> None:
        """Close the connection of a client that may no longer be connected."""
        if not self.engine.closed:
            self.end(AmqpError(errors.UNAUTHORIZED_ACCESS, reason))

    def closed_by_operator(self, reason: str) -> None:
        """Close the connection for an administrator; clients may connect again."""
        if not self.engine.closed:
            self.end(AmqpError(errors.CONNECTION_FORCED, reason))

    def refer(self, only_followers: bool) -> None:
        """Send the client to another broker; see `Client`."""
        others = self.alternatives()
        if others and not self.engine.closed and (self.login.follows or not only_followers):
            self.end(redirect(others))

    def alternatives(self) -> list[Alternative]:
        """Return the other brokers that the client may go to."""
        return self.host.referrals.for_client("AMQP", self.context.is_encrypted, self.container_id)

    def rights_changed(self) -> None:
        """Detach the links that the client's new rights do not allow."""
        session = self._session
        if session is not None and not self.engine.closed:
            self.login.subject = session.subject
            self.links.check_rights()

    def _store_failed(self, text: str) -> None:
        """Close with an error: an answer will never come, and it is unknown whether a restart recovers its effect."""
        self.end(AmqpError(errors.INTERNAL_ERROR, text))

    def _close_core(self, failed: bool) -> None:
        """Return everything to the core; a second call does nothing."""
        session = self._session
        if session is None or self._is_leaving:
            return
        self._is_leaving = True
        session.block()
        self.host.background.start(self._leave(session, failed))

    def _leave(self, session: Session, failed: bool) -> Steps:
        yield from self.links.connection_ended(failed)
        self._session = None
        session.close(failed)
        self.manager.lifetimes.connection_closed(session)
        template = "connection closed: peer=%s user=%s container=%s"
        self.brake.info(self.source, template, self.context.peer, session.subject.name, self.container_id)
        return None

    # -- called by the engine ----------------------------------------------------------------------------------

    def on_sasl_header(self) -> None:
        """Offer the SASL mechanisms."""
        self.login.offer()

    def on_sasl_init(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        """Begin the exchange of the mechanism that the client chose."""
        self._sasl_hostname = hostname
        self.login.begin(mechanism, initial_response)

    def on_sasl_response(self, data: bytes) -> None:
        """Pass the client's answer to a challenge on."""
        self.login.respond(data)

    def on_open(self, opening: Open) -> None:
        """Decide about the client's open."""
        self.container_id = opening.container_id
        if names.asks(opening):
            # The mesh is that of the whole broker, whatever a virtual host may be called.
            self.login.open(opening)
            return
        hostname = self._sasl_hostname if opening.hostname is None else opening.hostname
        try:
            self._enter(self.manager.siblings.find(hostname, self.context.virtual_host))
        except NoSuchHost as refusal:
            self.login.refuse(errors.to_amqp(refusal))
            return
        self.login.open(opening)

    def _enter(self, manager: "AmqpProtocolManager") -> None:
        """Use the domain of a manager; nothing was done in another one yet."""
        self.manager = manager
        self.host = manager.host
        self.services = self.host.services
        self.links = Links(self)

    def admitted(self, subject: Subject, is_operator: bool) -> None:
        """Give an admitted client a session of the core. Raises Refusal if its virtual host does not take it."""
        context = self.context
        self._session = self.services.sessions.open(
            subject,
            self.container_id,
            context.peer,
            "AMQP",
            is_operator=is_operator,
            certificate=context.certificate_subject,
        )
        self._session.client = self
        self.manager.remember(self)

    def carry(self, listener: PeerListener, limits: PeerLimits) -> AcceptedPeer:
        """Take the other side for a broker of a mesh: from now on the connection belongs to the mesh."""
        peer = AcceptedPeer(self.engine, self.context.peer, self.context.wake, self._log_error)
        self.mesh_peer = peer
        peer.begin(listener, limits)
        self.engine.handler = peer
        self.engine.limit_silence(limits.idle_timeout_ms / 1000)
        return peer

    def on_begin(self, session: AmqpSession, begin: Begin) -> None:
        """Do nothing: the engine answers."""

    def on_attach(self, link: Link, attach: Attach) -> None:
        """Attach the link that the client asks for, or refuse it with the reason."""
        self.manager.lifetimes.run()
        self.host.meter.work += LINK_UNITS
        offset, definitions = len(self.engine.outbox.chunks), self.host.storage.definitions
        self.links.attach(link, attach)
        self._hold_answer(offset, definitions)

    def on_detach(self, link: Link, detach: Detach) -> None:
        """Clean up after a link that the client detaches or closes; the engine answers."""
        self.host.meter.work += LINK_UNITS
        offset, definitions = len(self.engine.outbox.chunks), self.host.storage.definitions
        if detach.closed:
            parting = Parting.CLOSED
        else:
            parting = Parting.DETACHED if detach.error is None else Parting.ENDED
        self.links.part(link, parting)
        self.manager.lifetimes.run()
        self._hold_answer(offset, definitions)

    def _hold_answer(self, offset: int, definitions: int) -> None:
        """Send the output from `offset` on only when the queues that were created or deleted for it are durable (P10).

        It also waits for other nodes of a mesh that must know of them. Later output of the connection waits behind it,
        so the order stays the same.
        """
        if self.host.storage.definitions != definitions or self.host.dispatcher.announcements.fresh is not None:
            self.answers.hold_output_from(offset)

    def on_end(self, session: AmqpSession, end: End) -> None:
        """Part the links of a session that has ended."""
        self.links.session_ended(session)

    def on_close(self, close: Close | None) -> None:
        """Return everything to the core: the client closes."""
        header = self.engine.login.refused_header
        if header not in (b"", AMQP_HEADER, SASL_HEADER):
            version = VERSIONS.get(header[4:], "another version")
            template = "connection speaks another version of AMQP: peer=%s header=%s (%s); this broker speaks 1.0"
            self.brake.warning(self.source, template, self.context.peer, header.hex(), version)
        self._close_core(failed=False)

    def on_error(self, error: AmqpError) -> None:
        """Log that the client broke the protocol, and clean up; the engine has told the client."""
        self._log_error(error)
        self._close_core(failed=True)

    def _log_error(self, error: AmqpError) -> None:
        template = "protocol error: peer=%s condition=%s reason=%s"
        self.brake.warning(self.source, template, self.context.peer, error.condition, error.description)

    def on_writable(self) -> None:
        """Let links that waited for room in the output continue."""
        self.links.find_room()
