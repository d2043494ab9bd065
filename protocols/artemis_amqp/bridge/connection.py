"""Our side of a connection to another broker, of any make, and the links on it.

    login, open  -->  a link for each bridge:  attach  -->  answered: messages pass
                                                 ^  '--> refused, detached: tried again after `retry_ms`
                                                 '-----------'

What is sent on a link is decided in `sending`, what is received in `receiving`.
"""

from typing import Final

from artemis_amqp.bridge.receiving import IncomingEnd
from artemis_amqp.bridge.sending import OutgoingEnd
from artemis_amqp.carrier.names import REFUSED
from artemis_amqp.client.mechanisms import StrongestLogin
from artemis_amqp.engine import errors
from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.limits import LINK_BYTES, ConnectionLimits
from artemis_amqp.engine.link import Link
from artemis_amqp.engine.performatives import AmqpError, Attach, Begin, Close, Detach, End, Open
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.session import AmqpSession
from artemis_amqp.engine.states import State
from artemis_py.core.runtime.background import Steps
from artemis_py.core.runtime.bridging import Bridge, BridgeState, BridgeTerms
from artemis_py.core.runtime.carrier import CONNECTION_LOST
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.sessions.session import Session
from artemis_py.errors import Refusal
from artemis_py.protocol import Host, OutgoingContext
from artemis_py.wire.answers import Answers
from artemis_py.wire.partial_input import PartialInput

LINKS_PER_SESSION: Final = 200
"""Links of one session: RabbitMQ 4 allows 256, this broker 1,024."""
MOST_SESSIONS: Final = 60
"""Sessions of one connection: RabbitMQ 4 allows 64, this broker 255."""
LINKS_PER_SLICE: Final = 50
"""Links that are attached in one iteration of the loop when the connection opens."""


class BrokerEnd:
    """One connection to another broker, as the transport, the engine and the owner of the bridges see it."""

    def __init__(self, context: OutgoingContext, terms: BridgeTerms, host: Host) -> None:
        limits = ConnectionLimits(
            channel_max=MOST_SESSIONS - 1,
            idle_timeout_s=terms.idle_timeout_ms / 1000,
            output_limit_bytes=context.output_limit_bytes,
        )
        self.host: Final = host
        self.terms: Final = terms
        self.engine: Final = AmqpConnection(self, limits, is_client=True, meter=host.meter)
        self.answers: Final = Answers(
            host.storage, self.engine.outbox, lambda: self._is_over, self._fail, host.dispatcher.announcements
        )
        self._context: Final = context
        self._partial_input: Final = PartialInput(host.memory)
        self._ends: Final[dict[Link, OutgoingEnd | IncomingEnd]] = {}
        self._links: Final[dict[Bridge, Link]] = {}
        """Links that are attached, or about to be, by their bridges."""
        self._counts: Final[dict[AmqpSession, int]] = {}
        """Number of links of each session that lives."""
        self._retries: Final[dict[Bridge, Timer]] = {}
        self._core: Session | None = None
        self._is_open_sent = False
        self._is_over = False
        """Whether the owner was told of the end."""
        login = StrongestLogin(
            terms.login.user,
            terms.login.password,
            has_certificate=context.has_certificate,
            may_send_password=context.is_encrypted or context.is_loopback,
            allowed=context.mechanisms,
            may_be_anonymous=True,
        )
        self.engine.login.start_with(login, context.host)

    # -- the transport's side ------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the connection is over; the close of the other side is not awaited."""
        return self.engine.closed or self._is_over

    @property
    def logged_in(self) -> bool:
        """Whether both sides have opened, and the other one is not about to close."""
        return self._core is not None

    @property
    def has_input(self) -> bool:
        """Whether input waits for a later iteration of the loop."""
        return self.engine.has_input

    def receive_data(self, data: bytes, now: float) -> None:
        """Process received octets."""
        self.engine.receive_data(data, now)
        self._finish_call()

    def work(self, now: float) -> None:
        """Process input that was kept."""
        self.engine.work(now)
        self._finish_call()

    def data_to_send(self) -> bytes:
        """Take all output."""
        return self.engine.data_to_send()

    def next_deadline(self) -> float | None:
        """Return when a heartbeat is due, or the other side has been silent for too long."""
        return self.engine.next_deadline()

    def handle_deadline(self, now: float) -> None:
        """Send a heartbeat, or end the connection."""
        self.engine.handle_deadline(now)

    def pause(self) -> None:
        """Send no messages: the other side reads too slowly."""
        self.engine.pause()

    def resume(self) -> None:
        """Send messages again."""
        self.engine.resume()

    def shutdown(self, reason: str) -> None:
        """Close, because this broker stops or wants the connection no longer."""
        self.close(reason)

    def connection_lost(self) -> None:
        """Tell the owner, unless it knows: the socket is gone."""
        self._lose(CONNECTION_LOST)

    def _finish_call(self) -> None:
        engine = self.engine
        if not self._partial_input.update(engine.kept_bytes) and not (self.closed or engine.has_input):
            self._fail("the broker has no memory for the rest of a message")
        self.answers.ask_store()

    # -- the owner's side ----------------------------------------------------------------------------------------

    def attach(self, bridge: Bridge) -> None:
        """Attach a link for a bridge; see `BridgeConnection`."""
        core = self._core
        if core is None or self._is_over or bridge in self._links:
            return
        retry = self._retries.pop(bridge, None)
        if retry is not None:
            retry.cancel()
        session = self._session_with_room()
        if session is None:
            text = f"the connection has {len(self._links)} bridges, more are not possible; use another connection"
            self._refused(bridge, text)
            return
        try:
            self.host.check_tables(f"a bridge of queue '{bridge.queue}'")
        except Refusal as refusal:
            self._refused(bridge, str(refusal))
            return
        bridge.state = BridgeState.OPENING
        end = OutgoingEnd(self, bridge, core) if bridge.is_sender else IncomingEnd(self, bridge, core)
        # The same name after a break: a broker that has not noticed the break ends the old link then.
        name = f"{self.terms.name}:{bridge.kind}:{bridge.queue}:{self.terms.node_id}"
        link = session.attach(
            name,
            end.source(),
            end.target(),
            bridge.is_sender,
            snd_settle_mode=0,
            max_message_size=0 if bridge.is_sender else self.engine.limits.max_message_size,
        )
        self.host.tables.occupy(LINK_BYTES)
        self._counts[session] += 1
        self._ends[link] = end
        self._links[bridge] = link
        self.wake()

    def detach(self, bridge: Bridge, reason: str) -> None:
        """Detach the link of a bridge that is wanted no longer; see `BridgeConnection`."""
        retry = self._retries.pop(bridge, None)
        if retry is not None:
            retry.cancel()
        link = self._links.get(bridge)
        if link is not None:
            self._part(link)
            link.detach(AmqpError(errors.DETACH_FORCED, reason))
            self.wake()
        bridge.state = BridgeState.AWAY

    def close(self, reason: str) -> None:
        """End the connection; see `BridgeConnection`."""
        if not self.closed:
            self.engine.close(AmqpError(errors.CONNECTION_FORCED, reason))
            self.wake()
        self._lose(reason)

    # -- for the ends of links -----------------------------------------------------------------------------------

    def give_up(self, bridge: Bridge, error: Exception) -> None:
        """Detach a link that this broker cannot serve now, and try again later."""
        link = self._links.get(bridge)
        if link is not None:
            self._part(link)
            link.detach(errors.to_amqp(error))
            self.wake()
            self._refused(bridge, str(error))

    @property
    def arriving_count(self) -> int:
        """Number of large messages of which part has arrived."""
        return sum(isinstance(end, IncomingEnd) and end.is_receiving for end in self._ends.values())

    def wake(self) -> None:
        """Have output sent; our open as soon as the headers allow it (called by the engine, too)."""
        self._context.wake()
        if self.engine.state == State.OPENING and not self._is_open_sent:
            self._is_open_sent = True
            container_id = f"{self.host.options.name}:{self.terms.name}"
            self.engine.send_open(self.engine.our_open(container_id, hostname=self._context.host))

    # -- the session's side --------------------------------------------------------------------------------------

    def user_removed(self, reason: str) -> None:
        """Do nothing: the session has no user."""

    def closed_by_operator(self, reason: str) -> None:
        """Close the connection for an administrator; it is dialled again."""
        self.close(reason)

    def refer(self, only_followers: bool) -> None:
        """Do nothing: the connection is no client's."""

    def rights_changed(self) -> None:
        """Do nothing: the session needs no rights."""

    # -- called by the engine ------------------------------------------------------------------------------------

    def on_open(self, opening: Open) -> None:
        """Attach the links, unless the other side is about to close."""
        if REFUSED in (opening.properties or {}):
            return  # its close has the reason
        core = self._core = self.host.sessions.open_for_broker(self.terms.name, self._context.peer, "AMQP")
        core.client = self
        self.terms.listener.opened(self)
        self.host.background.start(self._attach_all())

    def _attach_all(self) -> Steps:
        for number, bridge in enumerate(list(self.terms.bridges()), start=1):
            if self._is_over:
                return None
            self.attach(bridge)
            if number % LINKS_PER_SLICE == 0:
                yield None
        return None

    def on_begin(self, session: AmqpSession, begin: Begin) -> None:
        """Do nothing: there is nothing to decide."""

    def on_attach(self, link: Link, attach: Attach) -> None:
        """Let messages pass on a link that the other side agrees to; refuse links that it wants itself."""
        end = self._ends.get(link)
        if end is None:
            link.refuse(AmqpError(errors.NOT_ALLOWED, "the links of this connection are attached by its other side"))
            return
        if (attach.target if end.bridge.is_sender else attach.source) is None:
            return  # a detach with the reason follows
        try:
            if isinstance(end, OutgoingEnd):
                assert isinstance(link, SenderLink)
                end.open(link, attach)
            else:
                assert isinstance(link, ReceiverLink)
                end.open(link)
        except Refusal as refusal:
            self.give_up(end.bridge, refusal)
            return
        end.bridge.state = BridgeState.OPEN
        self.terms.listener.bridge_opened(end.bridge)

    def on_detach(self, link: Link, detach: Detach) -> None:
        """Try again later: the other side refuses or ends a link, or broke its rules."""
        end = self._ends.get(link)
        if end is not None:
            self._part(link)
            self._refused(end.bridge, _reason(detach.error, "the other broker detached the link"))

    def on_end(self, session: AmqpSession, end: End) -> None:
        """Try again later with the links of a session that is over."""
        reason = _reason(end.error, "the other broker ended the session")
        self._counts.pop(session, None)
        for link in [each for each in self._ends if each.session is session]:
            bridge = self._ends[link].bridge
            self._part(link)
            self._refused(bridge, reason)

    def on_close(self, close: Close | None) -> None:
        """End: the other side closes."""
        reason = "closed before it was open" if close is None else _reason(close.error, "closed by the other broker")
        self._lose(reason)

    def on_error(self, error: AmqpError) -> None:
        """End: the other side broke the protocol, was silent, or refuses the login; the engine has told it."""
        self._lose(error.description or error.condition)

    def on_writable(self) -> None:
        """Send what waited for room in the output."""
        for session in list(self.engine.channels.own.values()):
            session.tell_senders()

    def on_sasl_header(self) -> None:
        """Do nothing: called on servers only."""

    def on_sasl_init(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        """Do nothing: called on servers only."""

    def on_sasl_response(self, data: bytes) -> None:
        """Do nothing: called on servers only."""

    # -- steps ---------------------------------------------------------------------------------------------------

    def _session_with_room(self) -> AmqpSession | None:
        """Return a session for one more link; None if there is none, and no more may begin."""
        channels = self.engine.channels
        for session, count in self._counts.items():
            if count < min(LINKS_PER_SESSION, session.peer_handle_max + 1):
                return session
        if len(channels.own) >= min(MOST_SESSIONS, channels.peer_channel_max + 1):
            return None
        session = channels.begin()
        self._counts[session] = 0
        return session

    def _part(self, link: Link) -> None:
        """Forget a link; messages that are not answered stay where they came from."""
        end = self._ends.pop(link, None)
        if end is not None:
            self._links.pop(end.bridge, None)
            self.host.tables.vacate(LINK_BYTES)
            if link.session in self._counts:
                self._counts[link.session] -= 1
            end.stop()
            end.bridge.pending = 0

    def _refused(self, bridge: Bridge, reason: str) -> None:
        """Note that a bridge was refused, and plan the next attempt."""
        bridge.state = BridgeState.REFUSED
        bridge.reason = reason
        if not self._is_over:
            self._retries[bridge] = self.host.after(self.terms.retry_ms, lambda: self.attach(bridge))
            self.terms.listener.bridge_refused(bridge)

    def _fail(self, reason: str) -> None:
        """Close, because this broker cannot go on with the connection."""
        if not self.closed:
            self.engine.close(AmqpError(errors.INTERNAL_ERROR, reason))
            self.wake()
        self._lose(reason)

    def _lose(self, reason: str) -> None:
        """Give everything back to the core, and tell the owner once that the connection is over."""
        if self._is_over:
            return
        self._is_over = True
        self._partial_input.update(0)
        for retry in self._retries.values():
            retry.cancel()
        self._retries.clear()
        core = self._core
        if core is not None:
            # Before the links part: a queue must not offer to one what it gets back from another.
            core.block()
        for link in list(self._ends):
            bridge = self._ends[link].bridge
            self._part(link)
            bridge.state = BridgeState.AWAY
        if core is not None:
            core.close()
        self.terms.listener.lost(reason)


def _reason(error: AmqpError | None, otherwise: str) -> str:
    """Return what the other side says; `otherwise` if that is nothing."""
    if error is None:
        return otherwise
    return f"{error.condition}: {error.description}" if error.description else str(error.condition)
