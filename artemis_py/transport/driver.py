"""The bridge between one asyncio transport and one sans-IO connection. Knows no protocol.

It feeds what is read, writes once per turn, keeps the one login deadline, turns the transport's backpressure into
`pause` and `resume`, and makes sure that the connection hears `connection_lost` once, however it ended.
"""

import asyncio
import socket
import ssl
from math import inf
from typing import Final, cast

from mypy_extensions import mypyc_attr

from artemis_py.core.runtime.events import ConnectionClosed, ConnectionOpened, ConnectionRefused, RefusalCause
from artemis_py.peers import address_of
from artemis_py.protocol import ProtocolConnection
from artemis_py.transport.acceptor_context import AcceptorContext
from artemis_py.transport.detection import UnknownProtocol, recognise
from artemis_py.transport.driver_state import State
from artemis_py.transport.guessing import describe_head, tls_reason
from artemis_py.transport.sockets import peer_text, unacknowledged_bytes
from artemis_py.transport.strangers import Standing

# Time for the last bytes to reach a peer that reads, and for its own end of stream to come back: a few round trips of a
# slow link. A peer that does not read loses those bytes.
LINGER_S: Final = 3.0

# Reading and delivering resume when this part of the output limit is still waiting: low enough to make pausing rare,
# high enough that a fast peer never runs dry.
RESUME_DIVISOR: Final = 4


@mypyc_attr(allow_interpreted_subclasses=True)
class Driver(asyncio.Protocol):
    """One accepted socket."""

    __slots__ = (
        "_acceptor",
        "_connection",
        "_deadline",
        "_farewell",
        "_has_spoken",
        "_head",
        "_is_ended_by_peer",
        "_is_halted",
        "_is_in_line",
        "_is_leaving",
        "_is_stranger",
        "_is_write_paused",
        "_state",
        "_transport",
        "acceptor_name",
        "id",
        "is_marked",
        "peer",
        "peer_address",
        "planned_at",
        "protocol_name",
    )

    def __init__(self, acceptor: AcceptorContext) -> None:
        self._acceptor = acceptor
        self._transport: asyncio.Transport | None = None
        self._connection: ProtocolConnection | None = None
        self._state = State.NEW
        self._deadline = inf
        """When the login, later the lingering, must be over, in the loop's time; infinity if neither is in progress."""
        self._head = b""
        self._is_stranger = True
        self._is_leaving = False
        """Whether the broker has said goodbye: later input is ignored, and the peer's goodbye is not awaited."""
        self._farewell = "closed"
        """Reason that listeners are told when the conversation has ended: the broker's, if it said goodbye."""
        self._has_spoken = False
        """Whether the peer has sent something since the last call of `is_said`."""
        self._is_write_paused = False
        self._is_halted = False
        """Whether the connection wants nothing more from its peer for now."""
        self._is_in_line = False
        """Whether received input waits for the next turn; the socket is not read until that input is processed."""
        self._is_ended_by_peer = False
        """Whether the peer has ended its stream while some of its input is still unprocessed."""
        self.acceptor_name = acceptor.config.name
        self.peer = ""
        """Address of the peer, for people to read."""
        self.peer_address = ""
        """Address that this connection is counted under while it is not logged in."""
        self.id = 0
        self.protocol_name = ""
        """Name of the protocol; empty until it is recognised."""
        self.is_marked = False
        self.planned_at = inf

    # -- called by asyncio -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, or refuse it if there is no room."""
        acceptor = self._acceptor
        now = acceptor.turn.enter()
        self._transport = cast(asyncio.Transport, transport)
        self.peer = peer_text(transport)
        self.peer_address = address_of(self.peer)
        config = acceptor.config
        refusal = acceptor.connections.admit(self, config.connections_allowed, config.strangers_per_address)
        if refusal is not None:
            self._tell_refusal(RefusalCause.NO_ROOM, refusal)
            self._state = State.LOST
            self._transport.abort()
            return
        self.id = acceptor.connections.new_id()
        if not acceptor.config.tcp_no_delay and (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        # The deadline runs from accept to login, TLS handshake included; received bytes do not restart it.
        self._deadline = now + acceptor.config.handshake_timeout_s
        acceptor.turn.plan_deadline(self, self._deadline)
        if acceptor.tls is not None:
            self._state = State.ENCRYPTING
        else:
            self._begin()

    def handshake_progressed(self) -> None:
        """Note that the peer sent a valid part of the TLS handshake (called by `TlsLayer`)."""
        self._acceptor.connections.move(self, Standing.LOGGING_IN)

    def handshake_done(self) -> None:
        """Begin the conversation: the TLS handshake is complete (called by `TlsLayer`)."""
        if self._state is State.ENCRYPTING:
            self._begin()

    def tls_failed(self, error: ssl.SSLError) -> None:
        """End the connection: the peer speaks no TLS, or not as the acceptor requires (called by `TlsLayer`)."""
        now = self._acceptor.turn.enter()
        self._tell_refusal(RefusalCause.TLS_FAILED, tls_reason(error))
        self._say_goodbye(now)  # the alert is on its way

    def data_received(self, data: bytes) -> None:
        """Feed the connection; its answers are written in this turn."""
        turn = self._acceptor.turn
        now = turn.enter()
        connection = self._connection
        if connection is None:
            if self._state is not State.DETECTING:
                self._has_spoken = True
                return
            data = self._head = self._head + data
            connection = self._detect()
            if connection is None:
                return
        turn.reads.note(self._transport, len(data))
        turn.begin_share()
        try:
            connection.receive_data(data, now)
            has_input = connection.has_input
        except Exception:
            self._fail("receive_data")
            return
        turn.mark(self)
        if has_input:
            self._line_up()

    def eof_received(self) -> bool | None:
        """Answer what is still unanswered and close: the peer has ended its stream."""
        if self._is_in_line:
            self._is_ended_by_peer = True
            return True  # the transport stays open until the input is processed
        now = self._acceptor.turn.enter()
        if self._connection is not None:
            self.flush(now)
        if self._state is not State.LOST:
            self._release("closed by peer")
            self._linger(now)
        return False  # the transport sends what it has buffered and closes by itself

    def pause_writing(self) -> None:
        """Stop delivering to the peer and reading from it: it reads too slowly."""
        self._is_write_paused = True
        if self._connection is not None and self._transport is not None:
            self._transport.pause_reading()
            try:
                self._connection.pause()
            except Exception:
                self._fail("pause")

    def resume_writing(self) -> None:
        """Deliver and read again: the peer has caught up."""
        self._is_write_paused = False
        if self._connection is not None and self._transport is not None:
            self._acceptor.turn.enter()
            self._read_on()
            try:
                self._connection.resume()
            except Exception:
                self._fail("resume")
                return
            self._acceptor.turn.mark(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Process what had arrived before the socket was lost, then end the connection."""
        if self._state is State.LOST:
            return
        self._acceptor.turn.enter()
        self._acceptor.turn.forget(self)
        self._transport = None
        if self._connection is not None and self._has_input():
            self._state = State.DRAINING
            self._is_write_paused = False
            self._line_up()
        else:
            self._leave("connection lost" if exc is None else str(exc))

    def _leave(self, reason: str) -> None:
        """End the connection: the socket is gone and no input is left."""
        self._state = State.LOST
        self._release(reason)
        self._acceptor.connections.remove(self)

    # -- called by the turn ----------------------------------------------------------------------------------

    def flush(self, now: float) -> None:
        """Write all collected output at once, then ask the connection for its state and next deadline."""
        self.is_marked = False
        connection = self._connection
        transport = self._transport
        if connection is None or transport is None:
            return
        try:
            is_closed = connection.closed or self._is_leaving
            # A slow peer gets no more output, except for the connection's last bytes, which are few.
            if not self._is_write_paused or is_closed:
                data = connection.data_to_send()
                if data:
                    transport.write(data)
                    if self._connection is None:  # the write paused it, and pausing failed
                        return
                    is_closed = connection.closed or self._is_leaving
                    if len(data) >= self._acceptor.output_limit_bytes:
                        self._acceptor.turn.plan()  # deliveries that waited for room in the output may continue
            if self._is_stranger and connection.logged_in:
                self._is_stranger = False
                self._deadline = inf
                self._acceptor.connections.log_in(self)
            deadline = connection.next_deadline()
        except Exception:
            self._fail("data_to_send")
            return
        if is_closed:
            self._release(self._farewell)
            self._say_goodbye(now)
        else:
            self._plan(deadline)
            if self._has_input():
                self._line_up()  # a login that ended lets the input be processed

    def work(self, now: float) -> None:
        """Process received input, within the share that the turn gives."""
        self._is_in_line = False
        connection = self._connection
        if connection is None:
            if self._is_ended_by_peer and self._transport is not None:
                self._transport.close()
            return
        if self._is_write_paused:
            return  # `resume_writing` lines up again
        try:
            connection.work(now)
            has_input = connection.has_input
        except Exception:
            self._fail("work")
            return
        if has_input:
            self._line_up()
        elif self._state is State.DRAINING:
            self._leave("connection lost")
            return
        elif self._is_ended_by_peer:
            self._end_after_peer(now)
            return
        else:
            self._read_on()
        self._acceptor.turn.mark(self)

    def _line_up(self) -> None:
        """Stop reading until the received input is processed, one share in each turn."""
        if not self._is_in_line:
            self._is_in_line = True
            if self._transport is not None:
                self._transport.pause_reading()
            self._acceptor.turn.line_up(self)

    def _read_on(self) -> None:
        """Read again, unless there is a reason not to."""
        if self._transport is None or self._is_in_line or self._is_write_paused or self._is_halted:
            return
        if self._has_input():
            self._line_up()
        elif not self._is_ended_by_peer:
            self._transport.resume_reading()

    def _has_input(self) -> bool:
        try:
            return self._connection is not None and self._connection.has_input
        except Exception:
            self._fail("has_input")
            return False

    def _end_after_peer(self, now: float) -> None:
        """End this side: all that the peer sent before its end is processed."""
        self.flush(now)
        if self._transport is not None:
            self._release("closed by peer")
            self._linger(now)
            self._transport.close()

    def handle_deadline(self, now: float) -> None:
        """Abort a login or a lingering that took too long, or run the connection's own heartbeat."""
        if now >= self._deadline:
            self._acceptor.turn.enter()
            if self._state is not State.LINGERING:
                self._tell_refusal(RefusalCause.LOGIN_TIMEOUT, str(int(self._acceptor.config.handshake_timeout_s)))
            self.abort(RefusalCause.LOGIN_TIMEOUT.value)  # of one that is lingering, the end was told before
            return
        connection = self._connection
        if connection is None:
            self._plan(None)
            return
        try:
            deadline = connection.next_deadline()
            if deadline is not None and deadline <= now:
                connection.handle_deadline(now)
        except Exception:
            self._fail("handle_deadline")
            return
        self._acceptor.turn.mark(self)  # the flush asks for the next deadline

    # -- called by the broker --------------------------------------------------------------------------------

    def shutdown(self, reason: str) -> None:
        """End the conversation as its protocol prescribes; abort a connection that has not begun one."""
        if self._connection is None:
            if self._state is not State.LINGERING:
                self.abort()
            return
        self._acceptor.turn.enter()
        try:
            self._connection.shutdown(reason)
        except Exception:
            self._fail("shutdown")
            return
        self._is_leaving = True
        self._farewell = reason
        if self._state is State.DRAINING:
            self._leave(reason)
        else:
            self._acceptor.turn.mark(self)

    def is_said(self) -> bool:
        """Tell whether the peer's system has acknowledged all output and nothing has arrived since the last call."""
        has_spoken, self._has_spoken = self._has_spoken, False
        transport = self._transport
        if has_spoken or self._state is not State.LINGERING or transport is None:
            return False
        return transport.get_write_buffer_size() == 0 and unacknowledged_bytes(transport) == 0

    def abort(self, reason: str = "aborted") -> None:
        """Close at once; unsent output is lost."""
        if self._state is State.DRAINING:
            self._leave(reason)
            return
        self._release(reason)
        if self._transport is not None:
            self._state = State.LINGERING
            self._transport.abort()

    def displace(self, reason: str) -> None:
        """Abort this connection, which is not logged in, to make room for a new one (called by `Connections`)."""
        self._acceptor.turn.enter()
        self._tell_refusal(RefusalCause.DISPLACED, reason)
        self.abort(RefusalCause.DISPLACED.value)

    def wake(self) -> None:
        """Plan a flush: the connection has output or a new deadline (`ConnectionContext.wake`)."""
        self._acceptor.turn.mark(self)

    def read(self, goes_on: bool) -> None:
        """Stop or resume reading, as the connection asks (`ConnectionContext.read`)."""
        self._is_halted = not goes_on
        if self._transport is None or self._connection is None:
            return
        if goes_on:
            self._read_on()
        else:
            self._transport.pause_reading()

    # -- steps -----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begin to detect the protocol: from here on the peer sends its bytes."""
        assert self._transport is not None
        limit = self._acceptor.output_limit_bytes
        self._transport.set_write_buffer_limits(high=limit, low=limit // RESUME_DIVISOR)
        self._state = State.DETECTING

    def _detect(self) -> ProtocolConnection | None:
        """Recognise the protocol by its first bytes and open a conversation in it; None if it is not recognised."""
        acceptor, transport = self._acceptor, self._transport
        try:
            manager = recognise(acceptor.managers, self._head)
        except UnknownProtocol:
            self._tell_refusal(RefusalCause.UNKNOWN_PROTOCOL, describe_head(self._head))
            self._turn_away()
            return None
        if manager is None or transport is None:
            return None
        self._head = b""
        self._state = State.OPEN
        acceptor.connections.move(self, Standing.LOGGING_IN)
        self.protocol_name = manager.name
        try:
            context = acceptor.connection_context(self, transport, manager.name, self._login_changed)
            self._connection = manager.connect(context)
        except Exception:
            self._fail("connect")
            return None
        acceptor.events.emit(ConnectionOpened(self.id, manager.name, self.acceptor_name, self.peer))
        return self._connection

    def _login_changed(self, standing: Standing) -> None:
        """Note that a check of credentials began or ended."""
        if self._is_stranger:
            self._acceptor.connections.move(self, standing)

    def _plan(self, deadline: float | None) -> None:
        """Plan a call at the connection's deadline or at the driver's, whichever comes first."""
        when = self._deadline if deadline is None else min(deadline, self._deadline)
        if when < self.planned_at:
            self._acceptor.turn.plan_deadline(self, when)

    def _turn_away(self) -> None:
        """Tell the peer what is spoken here, if a protocol has a greeting for that (AMQP 1.0 §2.2), and close."""
        greeting = next((manager.greeting for manager in self._acceptor.managers if manager.greeting), b"")
        if not greeting or self._transport is None:
            self.abort()
            return
        self._head = b""
        self._transport.write(greeting)
        self._say_goodbye(self._acceptor.turn.enter())

    def _release(self, reason: str) -> None:
        """End the conversation now, not when the peer closes its side: what it held returns to the queues."""
        connection = self._connection
        if connection is None:
            return
        self._connection = None
        closed = ConnectionClosed(self.id, self.protocol_name, self.acceptor_name, self.peer, reason)
        self._acceptor.events.emit(closed)
        try:
            connection.connection_lost()
        except Exception:
            self._log_failure("connection_lost")
        self._acceptor.turn.plan()  # what it returned may now be delivered to others

    def _tell_refusal(self, cause: RefusalCause, detail: str) -> None:
        """Tell the listeners why this connection is turned away."""
        refused = ConnectionRefused(self.id, self.protocol_name, self.acceptor_name, self.peer, cause, detail)
        self._acceptor.events.emit(refused)

    def _fail(self, where: str) -> None:
        """Log an exception that a connection must never raise, and end this connection only."""
        self._log_failure(where)
        self.abort(f"failed in {where}")

    def _log_failure(self, where: str) -> None:
        template = "connection failed in %s: id=%d peer=%s"
        self._acceptor.brake.exception(self.peer_address, template, where, self.id, self.peer)

    def _say_goodbye(self, now: float) -> None:
        """Send what is left, then wait briefly for the peer to close."""
        # Closing with unread input makes the kernel send a reset, which can overtake our last bytes. So only our
        # direction is closed, and the rest is read and discarded.
        transport = self._transport
        assert transport is not None
        self._linger(now)
        if transport.can_write_eof():
            transport.resume_reading()
            try:
                transport.write_eof()
            except OSError:
                # The peer closed its socket at the same moment.
                transport.abort()
        else:
            transport.close()

    def _linger(self, now: float) -> None:
        self._state = State.LINGERING
        if self._is_stranger:
            # All output is written, so it is displaced before connections that still want to log in.
            self._acceptor.connections.move(self, Standing.SILENT)
        self._deadline = now + LINGER_S
        self._plan(None)
