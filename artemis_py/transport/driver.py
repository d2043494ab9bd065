"""The bridge between one asyncio transport and one sans-IO connection. Knows no protocol.

It feeds what is read, writes once per turn, keeps the one login deadline, turns the transport's backpressure into
`pause` and `resume`, and makes sure that the connection hears `connection_lost` once, however it ended.
"""

import asyncio
import socket
import ssl
from math import inf
from typing import Final, cast

from artemis_py.logs import named_logger
from artemis_py.peers import address_of
from artemis_py.protocol import ProtocolConnection
from artemis_py.transport.acceptor_context import AcceptorContext
from artemis_py.transport.detection import UnknownProtocol, recognise
from artemis_py.transport.driver_state import State
from artemis_py.transport.sockets import peer_text, unacknowledged_bytes
from artemis_py.transport.strangers import Standing

LOGGER: Final = named_logger(__name__)

# Time for the last words to reach a peer that reads, and for its own end to come back: some round trips of a slow
# link. A peer that does not read loses them.
LINGER_S: Final = 3.0

# Reading and delivering go on when this part of the output limit is still waiting: low enough to make pausing rare,
# high enough that a fast peer never runs dry.
RESUME_DIVISOR: Final = 4


class Driver(asyncio.Protocol):
    """One accepted socket."""

    __slots__ = (
        "_acceptor",
        "_connection",
        "_deadline",
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
        """End of the login, later of the lingering, in the loop's time; infinity if neither is running."""
        self._head = b""
        self._is_stranger = True
        self._is_leaving = False
        """The broker said goodbye: nothing that still comes counts, so the peer's own goodbye is not waited for."""
        self._has_spoken = False
        """The peer sent something since `is_said`."""
        self._is_write_paused = False
        self._is_halted = False
        """The connection wants nothing more from its peer for now."""
        self._is_in_line = False
        """It has received more than was done, is not read from, and goes on in the next turn."""
        self._is_ended_by_peer = False
        """The peer has said all it had to say, and not all of that was done."""
        self.acceptor_name = acceptor.config.name
        self.peer = ""
        """The other side's address, for people."""
        self.peer_address = ""
        """What this connection is counted under while it is not logged in."""
        self.id = 0
        self.protocol_name = ""
        """Empty until the protocol was recognised."""
        self.is_marked = False
        self.planned_at = inf

    # -- called by asyncio -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection in, or turn it away if there is no room."""
        acceptor = self._acceptor
        now = acceptor.turn.enter()
        self._transport = cast(asyncio.Transport, transport)
        self.peer = peer_text(transport)
        self.peer_address = address_of(self.peer)
        config = acceptor.config
        refusal = acceptor.connections.admit(self, config.connections_allowed, config.strangers_per_address)
        if refusal is not None:
            acceptor.brake.warning(self.peer_address, "connection refused: peer=%s reason=%s", self.peer, refusal)
            self._state = State.LOST
            self._transport.abort()
            return
        self.id = acceptor.connections.new_id()
        # asyncio switches Nagle's algorithm off; only the wish to have it needs a call.
        if not acceptor.config.tcp_no_delay and (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        # From accept to logged in, the TLS handshake included; bytes do not restart it.
        self._deadline = now + acceptor.config.handshake_timeout_s
        acceptor.turn.plan_deadline(self, self._deadline)
        if acceptor.tls is not None:
            self._state = State.ENCRYPTING
        else:
            self._begin()

    def handshake_progressed(self) -> None:
        """The peer sent something that TLS understands (called by `TlsLayer`)."""
        self._acceptor.connections.move(self, Standing.LOGGING_IN)

    def handshake_done(self) -> None:
        """Bytes are encrypted from here on (called by `TlsLayer`)."""
        if self._state is State.ENCRYPTING:
            self._begin()

    def tls_failed(self, error: ssl.SSLError) -> None:
        """No TLS, or not what the acceptor asks for (called by `TlsLayer`)."""
        now = self._acceptor.turn.enter()
        self._acceptor.brake.warning(self.peer_address, "TLS failed: peer=%s reason=%s", self.peer, error)
        self._say_goodbye(now)  # the alert is on its way

    def data_received(self, data: bytes) -> None:
        """Feed the connection; what it answers is written in this turn."""
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
        """The peer said all it had to say: answer what is still to be answered, and close."""
        if self._is_in_line:
            self._is_ended_by_peer = True
            return True  # the transport stays open until all of that is done
        now = self._acceptor.turn.enter()
        if self._connection is not None:
            self.flush(now)
        if self._state is not State.LOST:
            self._release("closed by peer")
            self._linger(now)
        return False  # the transport sends what it holds and closes by itself

    def pause_writing(self) -> None:
        """The peer reads too slowly: stop delivering to it and stop reading from it."""
        self._is_write_paused = True
        if self._connection is not None and self._transport is not None:
            self._transport.pause_reading()
            try:
                self._connection.pause()
            except Exception:
                self._fail("pause")

    def resume_writing(self) -> None:
        """The peer caught up."""
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
        """The socket is gone. What had arrived before counts."""
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
        """The socket is gone, and nothing is left to be done for it."""
        self._state = State.LOST
        self._release(reason)
        self._acceptor.connections.remove(self)

    # -- called by the turn ----------------------------------------------------------------------------------

    def flush(self, now: float) -> None:
        """Write what the connection collected, all at once, and see what it wants next."""
        self.is_marked = False
        connection = self._connection
        transport = self._transport
        if connection is None or transport is None:
            return
        try:
            is_closed = connection.closed or self._is_leaving
            # What a slow peer has not taken yet is not added to; last words are, and they are few.
            if not self._is_write_paused or is_closed:
                data = connection.data_to_send()
                if data:
                    transport.write(data)
                    if self._connection is None:  # the write paused it, and pausing failed
                        return
                    is_closed = connection.closed or self._is_leaving
                    if len(data) >= self._acceptor.output_limit_bytes:
                        self._acceptor.turn.plan()  # what waited for room in the output may go on
            if self._is_stranger and connection.logged_in:
                self._is_stranger = False
                self._deadline = inf
                self._acceptor.connections.log_in(self)
            deadline = connection.next_deadline()
        except Exception:
            self._fail("data_to_send")
            return
        if is_closed:
            self._release("closed")
            self._say_goodbye(now)
        else:
            self._plan(deadline)
            if self._has_input():
                self._line_up()  # a login that ended has let it go on

    def work(self, now: float) -> None:
        """Go on with what was received, in the share that the turn gives."""
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
        """Let nothing more in until what came is done, a share in each turn."""
        if not self._is_in_line:
            self._is_in_line = True
            if self._transport is not None:
                self._transport.pause_reading()
            self._acceptor.turn.line_up(self)

    def _read_on(self) -> None:
        """Read again, unless there is something that hinders it."""
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
        """What the peer sent before its end is done: now this side ends."""
        self.flush(now)
        if self._transport is not None:
            self._release("closed by peer")
            self._linger(now)
            self._transport.close()

    def handle_deadline(self, now: float) -> None:
        """Login over time, lingering over time, or the connection's own heartbeat."""
        if now >= self._deadline:
            self._acceptor.turn.enter()
            if self._state is not State.LINGERING:
                seconds = self._acceptor.config.handshake_timeout_s
                template = "login took too long: peer=%s seconds=%d"
                self._acceptor.brake.warning(self.peer_address, template, self.peer, seconds)
            self.abort()
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
        """End the conversation in its protocol's words; whoever has not begun one is cut off."""
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
        if self._state is State.DRAINING:
            self._leave(reason)
        else:
            self._acceptor.turn.mark(self)

    def is_said(self) -> bool:
        """Whether the peer's system has acknowledged all we said, and nothing came from there since the last call."""
        has_spoken, self._has_spoken = self._has_spoken, False
        transport = self._transport
        if has_spoken or self._state is not State.LINGERING or transport is None:
            return False
        return transport.get_write_buffer_size() == 0 and unacknowledged_bytes(transport) == 0

    def abort(self) -> None:
        """Close at once; what was not sent yet is lost."""
        if self._state is State.DRAINING:
            self._leave("aborted")
            return
        self._release("aborted")
        if self._transport is not None:
            self._state = State.LINGERING
            self._transport.abort()

    def displace(self, reason: str) -> None:
        """Make place for a new connection (called by `Connections`): this one is not logged in."""
        self._acceptor.turn.enter()
        self._acceptor.brake.warning(self.peer_address, "stranger displaced: peer=%s reason=%s", self.peer, reason)
        self.abort()

    def wake(self) -> None:
        """The connection has output, or another deadline (`ConnectionContext.wake`)."""
        self._acceptor.turn.mark(self)

    def read(self, goes_on: bool) -> None:
        """The connection wants nothing more from its peer, or wants it again (`ConnectionContext.read`)."""
        self._is_halted = not goes_on
        if self._transport is None or self._connection is None:
            return
        if goes_on:
            self._read_on()
        else:
            self._transport.pause_reading()

    # -- steps -----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Bytes of the peer's protocol come from here on."""
        assert self._transport is not None
        limit = self._acceptor.output_limit_bytes
        self._transport.set_write_buffer_limits(high=limit, low=limit // RESUME_DIVISOR)
        self._state = State.DETECTING

    def _detect(self) -> ProtocolConnection | None:
        """Find the protocol by what was received so far, and open a conversation in it."""
        acceptor, transport = self._acceptor, self._transport
        try:
            manager = recognise(acceptor.managers, self._head)
        except UnknownProtocol:
            # The first bytes may be part of a secret sent to the wrong port, so no more than a protocol's name of them.
            template = "connection speaks no protocol of this acceptor: peer=%s first_bytes=%s"
            acceptor.brake.warning(self.peer_address, template, self.peer, self._head[:4].hex())
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
        LOGGER.debug("connection opened: id=%d peer=%s protocol=%s", self.id, self.peer, manager.name)
        return self._connection

    def _login_changed(self, standing: Standing) -> None:
        """The check of credentials began or ended."""
        if self._is_stranger:
            self._acceptor.connections.move(self, standing)

    def _plan(self, deadline: float | None) -> None:
        """Be called at the connection's own deadline or at ours, whichever comes first."""
        when = self._deadline if deadline is None else min(deadline, self._deadline)
        if when < self.planned_at:
            self._acceptor.turn.plan_deadline(self, when)

    def _turn_away(self) -> None:
        """Tell what is spoken here, if a protocol has words for that (AMQP 1.0 §2.2), and close."""
        greeting = next((manager.greeting for manager in self._acceptor.managers if manager.greeting), b"")
        if not greeting or self._transport is None:
            self.abort()
            return
        self._head = b""
        self._transport.write(greeting)
        self._say_goodbye(self._acceptor.turn.enter())

    def _release(self, reason: str) -> None:
        """Let go of the connection: it gives back what it holds, now and not when the peer has closed its side."""
        connection = self._connection
        if connection is None:
            return
        self._connection = None
        LOGGER.debug("connection closed: id=%d peer=%s reason=%s", self.id, self.peer, reason)
        try:
            connection.connection_lost()
        except Exception:
            self._log_failure("connection_lost")
        self._acceptor.turn.plan()  # what it gave back may go to others now

    def _fail(self, where: str) -> None:
        """An exception that a connection must never let out: log it, end this connection, spare the others."""
        self._log_failure(where)
        self.abort()

    def _log_failure(self, where: str) -> None:
        template = "connection failed in %s: id=%d peer=%s"
        self._acceptor.brake.exception(self.peer_address, template, where, self.id, self.peer)

    def _say_goodbye(self, now: float) -> None:
        """Send what is left, then wait a little for the peer to close.

        Closing with unread bytes in the receive buffer makes the kernel send a reset, which can overtake our last
        words: so only our direction is closed, and the rest is read and thrown away.
        """
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
            # Everything was said: nothing is lost if it goes before those that still want to log in.
            self._acceptor.connections.move(self, Standing.SILENT)
        self._deadline = now + LINGER_S
        self._plan(None)
