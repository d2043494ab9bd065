"""The states of an AMQP 1.0 connection: which frame is allowed when, and the octets of both directions.

    START --SASL header--> SASL --outcome 0--> HEADER --AMQP header--> OPENING --open, open--> OPENED
      '------------------- AMQP header (no SASL) ----------------------'            |
    we close with an error: DISCARDING until the peer's close;  close, close: CLOSED

Wire order only: no socket, no broker. Bytes and time go in, calls on the `ConnectionHandler` and bytes come out.
Transfer, disposition and flow, which are nearly all of the traffic, are read straight from their octets in their
usual forms; everything else, and every unusual form, goes through the tables of `performatives`.
"""

from collections.abc import Iterator
from typing import Final

from attrs import evolve

from artemis_amqp.engine import errors
from artemis_amqp.engine.channels import Channels
from artemis_amqp.engine.handlers import ConnectionHandler
from artemis_amqp.engine.hot_frames import ACCEPTED_CODE, take_frame
from artemis_amqp.engine.limits import (
    LOGIN_BUFFER_BYTES,
    LOGIN_FRAME_SIZE,
    MIN_IDLE_TIME_OUT_MS,
    MIN_MAX_FRAME_SIZE,
    ConnectionLimits,
)
from artemis_amqp.engine.login import LoginPhase
from artemis_amqp.engine.performatives import (
    Accepted,
    AmqpError,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
    frame,
    read_performative,
)
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.session import AmqpSession
from artemis_amqp.engine.states import AMQP_FRAME, HEADER_SIZE, SASL_FRAME, State
from artemis_amqp.engine.types import Symbol
from artemis_py.core.runtime.meter import Meter
from artemis_py.errors import ArtemisError
from artemis_py.wire.inbox import Inbox
from artemis_py.wire.integers import read_u16, read_u32
from artemis_py.wire.outbox import Outbox

_HEARTBEAT: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"
_OPENED: Final = State.OPENED
"""Compared for each frame: looking up a global is faster than looking up the member of an enumeration."""


class AmqpConnection:
    """One end of a connection."""

    def __init__(
        self,
        handler: ConnectionHandler,
        limits: ConnectionLimits,
        is_client: bool,
        container_id: str = "",
        meter: Meter | None = None,
    ) -> None:
        """Create the start state; `meter` says when to stop reading in this iteration of the loop, None: never."""
        self.handler: ConnectionHandler = handler
        self.meter: Meter = Meter() if meter is None else meter
        self.limits: ConnectionLimits = limits
        self.is_client: bool = is_client
        self.container_id: str = container_id
        """Our container id, for an open that has to be sent before the handler knows the connection."""
        self.state: State = State.START
        self.outbox: Outbox = Outbox(limits.output_limit_bytes, self._wake)
        self.inbox: Inbox = Inbox(self.meter, HEADER_SIZE)
        self.login: LoginPhase = LoginPhase(self)
        self.channels: Channels = Channels(self, limits.channel_max)
        self.peer_max_frame_size: int = MIN_MAX_FRAME_SIZE
        self._dirty: list[AmqpSession] = []
        self._is_taken = False
        """Whether the output is being taken right now."""
        self._max_frame_size: int = LOGIN_FRAME_SIZE
        self._open_sent: bool = False
        self._open_received: bool = False
        self._close_sent: bool = False
        self.waits_for_handler: bool = False
        """Whether a login or an open is being decided; input that arrives in the meantime is kept."""
        self.incomplete_bytes: int = 0
        """Bytes in memory of deliveries of which more frames are to come."""
        self.posting: dict[ReceiverLink, object] = {}
        """Links on which part of a delivery with a state (a transactional one, say) has arrived, with that state."""
        self._now: float = 0.0
        self._heard_at: float = 0.0
        self._heartbeat_s: float = 0.0
        self._next_heartbeat: float = 0.0
        self._wrote: bool = False
        self._idle_timeout_s: float = limits.idle_timeout_s

    # -- for the transport -------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the connection is over: nothing more is sent or read."""
        return self.state == State.CLOSED

    @property
    def is_open(self) -> bool:
        """Whether both sides opened and neither closed."""
        return self.state == State.OPENED

    @property
    def kept_bytes(self) -> int:
        """Bytes in memory of incomplete frames and deliveries."""
        return self.inbox.size + self.incomplete_bytes

    @property
    def has_input(self) -> bool:
        """Whether input is kept only because the share of a loop iteration was used up; `work` continues with it."""
        return self.inbox.is_cut_short and not self.waits_for_handler

    def receive_data(self, data: bytes, now: float) -> None:
        """Process octets from the peer, in pieces of any size. Never raises for anything a peer can send.

        Input beyond the share of this iteration of the loop (`Meter.end`) is kept for `work`.
        """
        self._now = now
        self._heard_at = now
        if self.state == State.CLOSED:
            return
        data = self.inbox.add(data, self.waits_for_handler)
        if data:
            self._work(data)
        else:
            self._check_login_input()

    def work(self, now: float) -> None:
        """Continue with the input that was kept. We did not read, so the peer does not count as silent."""
        self._now = now
        self._heard_at = now
        if self.has_input:
            self.go_on()

    def work_through(self, steps: Iterator[None]) -> None:
        """Run long work that the current frame asks for, step by step, before anything else is read."""
        self.inbox.steps = steps

    def _check_login_input(self) -> None:
        """Fail if a client that is not logged in yet sent more than a login needs."""
        if self.waits_for_handler and self.inbox.size > LOGIN_BUFFER_BYTES:
            self.fail(errors.RESOURCE_LIMIT_EXCEEDED, f"more than {LOGIN_BUFFER_BYTES} bytes before the login ended")

    def _work(self, data: bytes) -> None:
        offset = 0
        try:
            offset = self._read(data)
        except ArtemisError as error:
            reason = errors.to_amqp(error)
            self.fail(reason.condition, str(error))
            return
        if offset < len(data) and self.state != State.CLOSED:
            self.inbox.keep(data[offset:] if offset else data)
            self._check_login_input()

    def go_on(self) -> None:
        """Process input that arrived while the handler decided, or that was kept for a later iteration of the loop."""
        self.waits_for_handler = False
        if self.inbox.has_rest and self.state != State.CLOSED:
            self._work(self.inbox.take())

    def data_to_send(self) -> bytes:
        """Return all output and forget it. Links that had to wait for room may then send again."""
        if self._dirty:
            self._is_taken = True
            self._flush_sessions()
            self._is_taken = False
        outbox = self.outbox
        was_full = outbox.was_full or outbox.size >= outbox.limit >> 1
        data = outbox.take()
        if not data:
            return b""
        self._wrote = True
        if was_full and not outbox.is_paused:
            self._resume_output()
        return data

    def _resume_output(self) -> None:
        for session in list(self.channels.own.values()):
            session.outgoing.pump()
        self.handler.on_writable()

    def pause(self) -> None:
        """Send no more deliveries until `resume`."""
        self.outbox.pause()

    def resume(self) -> None:
        """Send deliveries again."""
        if self.outbox.resume():
            self._resume_output()

    def next_deadline(self) -> float | None:
        """Return when the next heartbeat is due or the peer has been silent for too long; None: never."""
        deadline: float | None = None
        if self._open_received and self._idle_timeout_s > 0 and self.state != State.CLOSED:
            deadline = self._heard_at + self._idle_timeout_s
        if self._heartbeat_s > 0 and self.state == State.OPENED:
            if deadline is None or self._next_heartbeat < deadline:
                deadline = self._next_heartbeat
        return deadline

    def handle_deadline(self, now: float) -> None:
        """Send a heartbeat, or close the connection to a silent peer (AMQP 1.0 §2.4.5)."""
        self._now = now
        if self.state == State.CLOSED:
            return
        if self._open_received and self._idle_timeout_s > 0 and now >= self._heard_at + self._idle_timeout_s:
            self.fail(errors.RESOURCE_LIMIT_EXCEEDED, f"nothing was heard for {self._idle_timeout_s:g} s")
            self.state = State.CLOSED
            return
        if self._heartbeat_s > 0 and now >= self._next_heartbeat:
            self._next_heartbeat = now + self._heartbeat_s
            if not self._wrote and self.state == State.OPENED:
                # Before output that waits for the store, too: a slow disk must not make the peer time out.
                self.outbox.write_before_gates(_HEARTBEAT)
            self._wrote = False

    # -- writing -----------------------------------------------------------------------------------------------

    def write_frame(self, channel: int, performative: object) -> None:
        """Append a frame to the output. A detach, end or close with an error is shortened to fit max-frame-size."""
        data = frame(channel, performative)
        if len(data) > self.peer_max_frame_size and isinstance(performative, (Detach, End, Close)):
            error = performative.error
            if error is not None:
                data = frame(channel, evolve(performative, error=errors.shortened(error)))
        self.outbox.write(data)

    def _wake(self) -> None:
        """Have the output taken. What the sessions add while that is done must not cause another, empty turn."""
        if not self._is_taken:
            self.handler.wake()

    def mark_dirty(self, session: AmqpSession) -> None:
        """Register a session that has frames to write at the end of the batch."""
        if not self._dirty and not self.outbox.chunks:
            self.handler.wake()
        self._dirty.append(session)

    # -- login, open, close --------------------------------------------------------------------------------------

    def limit_silence(self, timeout_s: float) -> None:
        """Set the idle time-out, in place of that of the limits; to be called before our open is made."""
        self._idle_timeout_s = timeout_s

    def send_open(self, opening: Open) -> None:
        """Send our open."""
        if self.outbox.is_closed:
            return
        self._open_sent = True
        self.outbox.write(frame(0, opening))
        if self._open_received:
            self.state = State.OPENED
            self.go_on()

    def our_open(
        self,
        container_id: str,
        offered_capabilities: tuple[Symbol, ...] = (),
        properties: dict[Symbol, object] | None = None,
        desired_capabilities: tuple[Symbol, ...] = (),
        hostname: str | None = None,
    ) -> Open:
        """Return an open that announces our limits, and half of the idle time-out (AMQP 1.0 §2.4.5)."""
        idle_ms = int(self._idle_timeout_s * 500)
        return Open(
            container_id=container_id,
            hostname=hostname,
            max_frame_size=self.limits.max_frame_size,
            channel_max=self.limits.channel_max,
            idle_time_out=idle_ms or None,
            offered_capabilities=offered_capabilities,
            desired_capabilities=desired_capabilities,
            properties=properties,
        )

    def close(self, error: AmqpError | None = None) -> None:
        """Close from our side. Frames that still arrive are ignored until the peer's close."""
        if self._close_sent or self.state == State.CLOSED:
            return
        # Frames behind a dropped attach would name a handle that the peer never saw, and it would report only that.
        if not self.outbox.drop_gated():
            self._flush_sessions()
        if not self._open_sent:
            if self.state < State.OPENING and not self._open_received:
                # Nothing can be said before the headers are exchanged.
                self.end()
                return
            self._open_sent = True
            self.outbox.write(frame(0, self.our_open(self.container_id)))
        self._close_sent = True
        self.write_frame(0, Close(error=error))
        self.outbox.close()
        self.waits_for_handler = False
        self.inbox.drop()
        self.state = State.DISCARDING
        for session in self.channels.own.values():
            session.silence()

    def _flush_sessions(self) -> None:
        dirty, self._dirty = self._dirty, []
        for session in dirty:
            session.flush()

    def end(self) -> None:
        """Send and read nothing more."""
        self.state = State.CLOSED
        self.outbox.close()
        self.inbox.drop()

    def fail(self, condition: str, text: str) -> None:
        """Close with an error because the peer broke the rules, and do not wait for its close."""
        if self.state == State.CLOSED:
            return
        error = AmqpError(condition, text)
        self.handler.on_error(error)
        if self.state == State.SASL and not self.is_client:
            self.login.tell_failure()
        self.close(error)
        self.end()

    # -- reading -----------------------------------------------------------------------------------------------

    def _read(self, data: bytes) -> int:
        """Process complete headers and frames; return the offset of the rest. Raises MalformedFrame.

        Long because each frame passes through this loop: what tells frames apart is in local variables.
        """
        offset = 0
        end = len(data)
        meter = self.meter
        inbox = self.inbox
        sessions = self.channels.by_peer
        # Frames of one channel come after each other: its session is looked up once for all of them.
        session: AmqpSession | None = None
        session_channel = -1
        if inbox.steps is not None and not inbox.step():
            return 0
        while not self.waits_for_handler:
            state = self.state
            is_open = state is _OPENED
            if not is_open and state == State.CLOSED:
                break
            left = end - offset
            if left < HEADER_SIZE:
                inbox.needed = HEADER_SIZE
                break
            if meter.work >= meter.end:
                inbox.is_cut_short = True
                break
            meter.work += 1
            if not is_open and (state == State.START or state == State.HEADER):
                self.login.receive_header(data[offset : offset + HEADER_SIZE])
                offset += HEADER_SIZE
                continue
            size = read_u32(data, offset)
            data_offset = data[offset + 4]
            frame_type = data[offset + 5]
            channel = read_u16(data, offset + 6)
            if size > self._max_frame_size or size < 8 or data_offset < 2 or data_offset * 4 > size:
                self._bad_frame(size, data_offset)
                break
            if size > left:
                inbox.needed = size
                break
            body = offset + data_offset * 4
            stop = offset + size
            offset = stop
            if frame_type == AMQP_FRAME:
                if channel != session_channel:
                    session = sessions.get(channel)
                    session_channel = channel
                if not is_open or session is None or not take_frame(session, data, body, stop):
                    self._receive_frame(channel, data, body, stop)
                    session_channel = -1
                if inbox.steps is not None and not inbox.step():
                    break
            elif frame_type == SASL_FRAME and self.state == State.SASL:
                self.login.receive_frame(data, body, stop)
            else:
                self.fail(errors.FRAMING_ERROR, f"a frame of type {frame_type}")
        return offset

    def _bad_frame(self, size: int, data_offset: int) -> None:
        if size > self._max_frame_size:
            text = f"a frame of {size} bytes, at most {self._max_frame_size} are allowed here"
        else:
            text = f"a frame of {size} bytes with data-offset {data_offset}"
        self.fail(errors.FRAMING_ERROR, text)

    def _receive_frame(self, channel: int, data: bytes, body: int, stop: int) -> None:
        """Process any AMQP frame, read by the tables of `performatives`."""
        if self.state == State.SASL:
            self.fail(errors.FRAMING_ERROR, "an AMQP frame during SASL")
            return
        if body == stop:
            return
        performative, offset = read_performative(data, body, stop)
        if type(performative) is not Transfer and offset != stop:
            self.fail(errors.FRAMING_ERROR, f"octets after a {type(performative).__name__.lower()}")
            return
        if self.state == State.DISCARDING:
            if type(performative) is Close:
                self.end()
            return
        if type(performative) is Open:
            self._receive_open(performative, channel)
            return
        if not self._open_received:
            self.fail(errors.ILLEGAL_STATE, f"{type(performative).__name__.lower()} before open")
            return
        if type(performative) is Close:
            self.handler.on_close(performative)
            if not self._close_sent:
                self.close()
            self.end()
            return
        if type(performative) is Begin:
            self.channels.receive_begin(performative, channel)
            return
        session = self.channels.by_peer.get(channel)
        if session is None:
            self.fail(errors.FRAMING_ERROR, f"a frame on channel {channel}, which has no session")
            return
        if type(performative) is End:
            session.receive_end(performative)
        elif not session.is_ended:
            self._receive_in_session(session, performative, data[offset:stop])

    def _receive_in_session(self, session: AmqpSession, performative: object, payload: bytes) -> None:
        if type(performative) is Transfer:
            self._receive_transfer(session, performative, payload)
        elif type(performative) is Disposition:
            last = performative.first if performative.last is None else performative.last
            state = performative.state
            session.dispositions.receive(
                performative.role,
                performative.first,
                last,
                performative.settled,
                ACCEPTED_CODE if type(state) is Accepted else state,
            )
        elif type(performative) is Flow:
            session.receive_flow(performative)
        elif type(performative) is Attach:
            session.receive_attach(performative)
        elif type(performative) is Detach:
            session.receive_detach(performative)
        else:
            self.fail(errors.NOT_ALLOWED, f"{type(performative).__name__} after the login")

    def _receive_transfer(self, session: AmqpSession, performative: Transfer, payload: bytes) -> None:
        """Process a transfer in one of the forms that `take_frame` leaves to the tables."""
        settled = performative.settled
        if performative.rcv_settle_mode is not None and settled is not True:
            session.receive_settle_mode(performative.handle, performative.rcv_settle_mode)
            if session.is_ended:
                return
        transfer = session.transfer
        transfer.handle = performative.handle
        transfer.delivery_id = -1 if performative.delivery_id is None else performative.delivery_id
        transfer.tag = performative.delivery_tag
        transfer.message_format = -1 if performative.message_format is None else performative.message_format
        transfer.settled = -1 if settled is None else int(settled)
        transfer.more = performative.more
        transfer.state = performative.state
        transfer.resume = performative.resume
        transfer.aborted = performative.aborted
        transfer.carry(payload, 0, len(payload))
        session.receive_transfer()
        transfer.let_go()

    def _receive_open(self, opening: Open, channel: int) -> None:
        if self._open_received:
            self.fail(errors.ILLEGAL_STATE, "a second open")
            return
        if channel != 0:
            self.fail(errors.FRAMING_ERROR, f"an open on channel {channel}")
            return
        if opening.max_frame_size < MIN_MAX_FRAME_SIZE:
            self.fail(errors.FRAMING_ERROR, f"max-frame-size {opening.max_frame_size} is below {MIN_MAX_FRAME_SIZE}")
            return
        idle_ms = opening.idle_time_out or 0
        if 0 < idle_ms < MIN_IDLE_TIME_OUT_MS:
            self.fail(errors.NOT_ALLOWED, f"idle-time-out {idle_ms} ms is below {MIN_IDLE_TIME_OUT_MS}")
            return
        self._open_received = True
        self.peer_max_frame_size = min(opening.max_frame_size, self.limits.max_frame_size)
        self._max_frame_size = self.limits.max_frame_size
        self.channels.peer_channel_max = opening.channel_max
        if idle_ms:
            # With four checks per time-out, we are never silent for longer than half of it.
            self._heartbeat_s = idle_ms / 4000
            self._next_heartbeat = self._now + self._heartbeat_s
        if self._open_sent:
            self.state = State.OPENED
        else:
            self.waits_for_handler = True
        self.handler.on_open(opening)
