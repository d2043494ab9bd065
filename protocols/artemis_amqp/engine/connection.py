"""Which frame may come when on an AMQP 1.0 connection, and the octets of both directions.

    START --SASL header--> SASL --outcome 0--> HEADER --AMQP header--> OPENING --open, open--> OPENED
      '------------------- AMQP header (no SASL) ----------------------'            |
    we close for an error: DISCARDING until the peer's close;  close, close: CLOSED

Wire order only: no socket, no broker. Bytes and time go in, calls on the `ConnectionHandler` and bytes come out.
Transfer, disposition and flow, which are nearly all of the traffic, are read straight from their octets in their
usual forms; everything else, and every unusual form, goes through the tables of `performatives`.
"""

from collections.abc import Iterator
from enum import IntEnum
from heapq import heappop, heappush
from struct import Struct
from typing import Final, Protocol

from attrs import evolve

from artemis_amqp.engine import errors
from artemis_amqp.engine.hot_frames import ACCEPTED_CODE, take_disposition, take_transfer
from artemis_amqp.engine.limits import (
    LOGIN_BUFFER_BYTES,
    LOGIN_FRAME_SIZE,
    MIN_IDLE_TIME_OUT_MS,
    MIN_MAX_FRAME_SIZE,
    ConnectionLimits,
)
from artemis_amqp.engine.link import Link
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
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Transfer,
    frame,
    read_performative,
)
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.session import AmqpSession
from artemis_amqp.engine.types import Symbol
from artemis_py.core.runtime.meter import Meter
from artemis_py.errors import ArtemisError

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
_HEADER_SIZE: Final = 8
_HEARTBEAT: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"

_FRAME: Final = Struct(">IBBH")
_U32: Final = Struct(">I")
_AMQP_FRAME: Final = 0
_SASL_FRAME: Final = 1
_SASL_SYS: Final = 2
"""Outcome of a login that failed for no fault of the credentials."""


class State(IntEnum):
    """Where the connection is; see the top of the module."""

    START = 0
    SASL = 1
    HEADER = 2
    OPENING = 3
    OPENED = 4
    DISCARDING = 5
    CLOSED = 6


_OPENED: Final = State.OPENED
"""Looked up for each frame: a global is found sooner than the member of an enumeration."""


class ConnectionHandler(Protocol):
    """What the conversation means. Called in wire order, from within `receive_data`."""

    def wake(self) -> None:
        """There is output now, where there was none."""

    def on_sasl_header(self) -> None:
        """Server: the client wants to authenticate; answer with `send_sasl_mechanisms`."""

    def on_sasl_init(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        """Server: answer, now or later, with `send_sasl_challenge` or `send_sasl_outcome`."""

    def on_sasl_response(self, data: bytes) -> None:
        """Server: likewise."""

    def on_open(self, opening: Open) -> None:
        """The peer opened. A server answers, now or later, with `send_open`."""

    def on_begin(self, session: AmqpSession, begin: Begin) -> None:
        """The peer began a session, or answered ours; the engine has answered."""

    def on_attach(self, link: Link, attach: Attach) -> None:
        """The peer attached (answer with `accept` or `refuse`), or answered our attach."""

    def on_detach(self, link: Link, detach: Detach) -> None:
        """The peer detached, or broke the link's rules; the engine answers."""

    def on_end(self, session: AmqpSession, end: End) -> None:
        """The session is over, on whoever's account; its links are still there to look at."""

    def on_close(self, close: Close | None) -> None:
        """The peer closed; None: the conversation ended before it was opened."""

    def on_error(self, error: AmqpError) -> None:
        """The peer broke the protocol; the engine has said so and closed."""

    def on_writable(self) -> None:
        """Output went out: who waited for room may send again."""


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
        """`meter` says when to stop reading for this turn; without one nothing does."""
        self.handler: ConnectionHandler = handler
        self.meter: Meter = Meter() if meter is None else meter
        self.limits: ConnectionLimits = limits
        self.is_client: bool = is_client
        self.container_id: str = container_id
        """Ours, for an open that has to be sent before the handler knows of the connection."""
        self.state: State = State.START
        self.out: list[bytes | memoryview] = []
        self.output_size: int = 0
        self._held: list[int] = []
        """Where in `out` something waits for `let_go`, and all that follows with it; ascending."""
        self.output_limit: int = limits.output_limit_bytes
        self.is_paused: bool = False
        self.peer_max_frame_size: int = MIN_MAX_FRAME_SIZE
        self.sessions: dict[int, AmqpSession] = {}
        """By the peer's channel."""
        self._own_sessions: dict[int, AmqpSession] = {}
        self._freed: list[int] = []
        """Channels of ours below `len(_own_sessions) + len(_freed)` that are not in use; a heap."""
        self._dirty: list[AmqpSession] = []
        self._max_frame_size: int = LOGIN_FRAME_SIZE
        self._channel_max: int = limits.channel_max
        self._peer_channel_max: int = 0
        self._open_sent: bool = False
        self._open_received: bool = False
        self._close_sent: bool = False
        self._is_silent: bool = False
        """Our last word is written."""
        self._waits_for_handler: bool = False
        """A login or an open is being decided; what arrives meanwhile is kept."""
        self._awaits_init: bool = True
        self._awaits_response: bool = False
        """Which SASL frame is due from a client, if any."""
        self.incomplete_bytes: int = 0
        """Held by deliveries of which more frames are to come."""
        self.requires_sasl: bool = False
        """Nobody comes in without a login: a header that asks for it is answered with that of SASL (§2.2)."""
        self.posting: dict[ReceiverLink, object] = {}
        """Links on which a delivery with a state, as one of a transaction has, arrived in part; with that state."""
        self._chunks: list[bytes] = []
        self._chunk_size: int = 0
        self._needed: int = _HEADER_SIZE
        """Bytes without which there is nothing to do."""
        self._is_cut_short: bool = False
        """There is input to be worked through, and no share of this turn left for it."""
        self._steps: Iterator[None] | None = None
        """What is left to do for the frame that was read last."""
        self._is_authenticated: bool = False
        self._credentials: tuple[str, bytes | None, str | None] | None = None
        self._now: float = 0.0
        self._heard_at: float = 0.0
        self._heartbeat_s: float = 0.0
        self._next_heartbeat: float = 0.0
        self._wrote: bool = False
        self._was_full: bool = False
        self._idle_timeout_s: float = limits.idle_timeout_s

    # -- for the transport -------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether nothing more will be said."""
        return self.state == State.CLOSED

    @property
    def is_open(self) -> bool:
        """Whether both sides opened and none closed."""
        return self.state == State.OPENED

    @property
    def kept_bytes(self) -> int:
        """What was received of frames and deliveries whose end is still to come."""
        return self._chunk_size + self.incomplete_bytes

    @property
    def has_input(self) -> bool:
        """Whether something was received that only waits for a share of a turn: for `work`."""
        return self._is_cut_short and not self._waits_for_handler

    def receive_data(self, data: bytes, now: float) -> None:
        """Work through what the peer sent, in pieces of any size. Never raises for anything a peer can send.

        What the share of this turn (`Meter.end`) is too small for is kept for `work`.
        """
        self._now = now
        self._heard_at = now
        if self.state == State.CLOSED:
            return
        if self._chunks:
            size = self._chunk_size + len(data)
            if size < self._needed or self._waits_for_handler or self._is_cut_short:
                self._keep(data)
                return
            self._chunks.append(data)
            data = b"".join(self._chunks)
            self._chunks = []
            self._chunk_size = 0
        elif self._waits_for_handler or self._is_cut_short:
            self._keep(data)
            return
        self._work(data)

    def work(self, now: float) -> None:
        """Go on with what was kept. The peer counts as heard: we did not read, so its silence means nothing."""
        self._now = now
        self._heard_at = now
        if self.has_input:
            self._go_on()

    def work_through(self, steps: Iterator[None]) -> None:
        """What the frame at hand asks for is long, and is done step by step before anything else is read."""
        self._steps = steps

    def _keep(self, data: bytes) -> None:
        self._chunks.append(data)
        self._chunk_size += len(data)
        if self._waits_for_handler and self._chunk_size > LOGIN_BUFFER_BYTES:
            self.fail(errors.RESOURCE_LIMIT_EXCEEDED, f"more than {LOGIN_BUFFER_BYTES} bytes before the login ended")

    def _work(self, data: bytes) -> None:
        offset = 0
        self._is_cut_short = False
        try:
            offset = self._read(data)
        except ArtemisError as error:
            reason = errors.to_amqp(error)
            self.fail(reason.condition, str(error))
            return
        if offset < len(data) and self.state != State.CLOSED:
            rest = data[offset:] if offset else data
            self._chunks.append(rest)
            self._chunk_size = len(rest)
            if self._waits_for_handler and self._chunk_size > LOGIN_BUFFER_BYTES:
                self._keep(b"")

    def _go_on(self) -> None:
        """Work through what arrived while the handler decided, or another turn had to come."""
        self._waits_for_handler = False
        if (self._chunks or self._is_cut_short) and self.state != State.CLOSED:
            data = b"".join(self._chunks)
            self._chunks = []
            self._chunk_size = 0
            self._work(data)

    def data_to_send(self) -> bytes:
        """Take all output. Links that had to wait for room may then send again."""
        if self._dirty:
            dirty, self._dirty = self._dirty, []
            for session in dirty:
                session.flush()
        out = self.out
        rest: list[bytes | memoryview] = []
        if self._held:
            stop = self._held[0]
            rest = out[stop:]
            out = out[:stop]
            self._held = [offset - stop for offset in self._held]
        if not out:
            return b""
        data = b"".join(out)
        self.out = rest
        self._wrote = True
        was_full = self.output_size >= self.output_limit >> 1 or self._was_full
        self.output_size -= len(data)
        self._was_full = False
        if was_full and not self.is_paused:
            self._resume_output()
        return data

    def hold(self, offset: int) -> None:
        """Keep back `out` from `offset` on, where a frame begins, until `let_go`; once each, in order."""
        if not self._is_silent:
            self._held.append(offset)

    def let_go(self) -> None:
        """The oldest `hold` is over."""
        if self._held:
            self._held.pop(0)

    def _drop_held(self) -> None:
        """What waits is not true yet, and the end of the conversation does not wait for it."""
        if self._held:
            dropped = self.out[self._held[0] :]
            del self.out[self._held[0] :]
            self.output_size -= sum([len(data) for data in dropped])
            self._held = []

    def _resume_output(self) -> None:
        for session in list(self._own_sessions.values()):
            session.outgoing.pump()
        self.handler.on_writable()

    def pause(self) -> None:
        """Send no more deliveries until `resume`."""
        self.is_paused = True
        self._was_full = True

    def resume(self) -> None:
        """Deliveries may go on."""
        if self.is_paused:
            self.is_paused = False
            self._was_full = False
            self._resume_output()

    def next_deadline(self) -> float | None:
        """When the next heartbeat is due, or the peer's silence lasts too long."""
        deadline: float | None = None
        if self._open_received and self._idle_timeout_s > 0 and self.state != State.CLOSED:
            deadline = self._heard_at + self._idle_timeout_s
        if self._heartbeat_s > 0 and self.state == State.OPENED:
            if deadline is None or self._next_heartbeat < deadline:
                deadline = self._next_heartbeat
        return deadline

    def handle_deadline(self, now: float) -> None:
        """Send a heartbeat, or give the peer up (AMQP 1.0 §2.4.5)."""
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
                self._write_heartbeat()
            self._wrote = False

    def _write_heartbeat(self) -> None:
        """An empty frame, also in front of what is held: a slow disk is no reason to give us up."""
        if not self.out:
            self.write(_HEARTBEAT)
        elif self._held and self._held[0] == 0:
            self.out.insert(0, _HEARTBEAT)
            self.output_size += len(_HEARTBEAT)
            self._held = [offset + 1 for offset in self._held]
            self.handler.wake()

    # -- writing -----------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Collect output. Nothing follows a close (§2.4.3): what is written late is dropped."""
        if self._is_silent:
            return
        if not self.out:
            self.handler.wake()
        self.out.append(data)
        self.output_size += len(data)

    def write_frame(self, channel: int, performative: object) -> None:
        """Collect a frame. One that tells of an error is made to fit the peer's max-frame-size."""
        data = frame(channel, performative)
        if len(data) > self.peer_max_frame_size and isinstance(performative, (Detach, End, Close)):
            error = performative.error
            if error is not None:
                data = frame(channel, evolve(performative, error=errors.shortened(error)))
        self.write(data)

    def someone_waits(self) -> None:
        """A link may send again for another reason than room: the handler hears of it when the output is taken."""
        self._was_full = True

    def write_payload(self, data: bytes | memoryview) -> None:
        """Collect a piece of a message behind the frame header that was just written."""
        self.out.append(data)
        self.output_size += len(data)

    def mark_dirty(self, session: AmqpSession) -> None:
        """A session has something to write at the end of the batch."""
        if not self._dirty and not self.out:
            self.handler.wake()
        self._dirty.append(session)

    def tell_senders(self, session: AmqpSession) -> None:
        """The peer's window opened: links of the session may send again."""
        for link in session.senders():
            if link.handler is not None and link.is_attached:
                link.handler.on_credit(link)

    # -- login, open, close --------------------------------------------------------------------------------------

    def start_client(self, mechanism: str | None, initial_response: bytes | None, hostname: str | None = None) -> None:
        """Client: begin the conversation; without a mechanism there is no SASL layer."""
        if mechanism is None:
            self.state = State.HEADER
            self.write(AMQP_HEADER)
        else:
            self._credentials = (mechanism, initial_response, hostname)
            self.write(SASL_HEADER)

    def send_sasl_mechanisms(self, mechanisms: list[str]) -> None:
        """Server: what may be chosen from."""
        self.write(
            frame(
                0,
                SaslMechanisms(sasl_server_mechanisms=tuple([Symbol(mechanism) for mechanism in mechanisms])),
                _SASL_FRAME,
            )
        )

    def send_sasl_challenge(self, data: bytes) -> None:
        """Server: ask for more. After the end of the connection this and the other answers say nothing."""
        if self._is_silent:
            return
        self._awaits_response = True
        self.write(frame(0, SaslChallenge(challenge=data), _SASL_FRAME))
        self._go_on()

    def send_sasl_outcome(self, code: int, data: bytes) -> None:
        """Server: the login is over; any code but 0 ends the connection."""
        if self._is_silent:
            return
        self.write(frame(0, SaslOutcome(code=code, additional_data=data or None), _SASL_FRAME))
        if code == 0:
            self._is_authenticated = True
            self.state = State.HEADER
            self._go_on()
        else:
            self._end()

    def send_open(self, opening: Open) -> None:
        """Open our side."""
        if self._is_silent:
            return
        self._open_sent = True
        self.write(frame(0, opening))
        if self._open_received:
            self.state = State.OPENED
            self._go_on()

    def our_open(
        self,
        container_id: str,
        offered_capabilities: tuple[Symbol, ...] = (),
        properties: dict[Symbol, object] | None = None,
        desired_capabilities: tuple[Symbol, ...] = (),
        hostname: str | None = None,
    ) -> Open:
        """An open that announces our limits. Half of the idle time-out is announced (§2.4.5)."""
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
        """Close from our side. With an error, what still comes is ignored until the peer's close."""
        if self._close_sent or self.state == State.CLOSED:
            return
        # What comes behind a dropped attach would name a handle that the peer never saw: it would hear of that alone.
        has_dropped = bool(self._held)
        self._drop_held()
        if not has_dropped:
            self._flush_sessions()
        if not self._open_sent:
            if self.state < State.OPENING and not self._open_received:
                # Nothing can be said before the headers are exchanged.
                self._end()
                return
            self._open_sent = True
            self.write(frame(0, self.our_open(self.container_id)))
        self._close_sent = True
        self.write_frame(0, Close(error=error))
        self._is_silent = True
        self._waits_for_handler = False
        self._drop_input()
        self.state = State.DISCARDING
        for session in self._own_sessions.values():
            session.silence()

    def _flush_sessions(self) -> None:
        dirty, self._dirty = self._dirty, []
        for session in dirty:
            session.flush()

    def _end(self) -> None:
        self.state = State.CLOSED
        self._is_silent = True
        self._drop_input()

    def _drop_input(self) -> None:
        self._chunks = []
        self._chunk_size = 0
        self._steps = None
        self._is_cut_short = False

    def fail(self, condition: str, text: str) -> None:
        """The peer broke the rules: say so, and wait no longer for it."""
        if self.state == State.CLOSED:
            return
        error = AmqpError(condition, text)
        self.handler.on_error(error)
        if self.state == State.SASL and not self.is_client:
            # There is no close before open: the outcome is the only way to tell a client why (§5.3.2).
            self.write(frame(0, SaslOutcome(code=_SASL_SYS), _SASL_FRAME))
        self.close(error)
        self._end()

    # -- reading -----------------------------------------------------------------------------------------------

    def _read(self, data: bytes) -> int:
        """Work through whole headers and frames; returns the offset of the rest. Raises MalformedFrame."""
        offset = 0
        end = len(data)
        meter = self.meter
        if self._steps is not None and not self._step():
            return 0
        while not self._waits_for_handler:
            state = self.state
            is_open = state == _OPENED
            if not is_open and state == State.CLOSED:
                break
            left = end - offset
            if left < _HEADER_SIZE:
                self._needed = _HEADER_SIZE
                break
            if meter.work >= meter.end:
                self._is_cut_short = True
                break
            meter.work += 1
            if not is_open and (state == State.START or state == State.HEADER):
                self._receive_header(data[offset : offset + _HEADER_SIZE])
                offset += _HEADER_SIZE
                continue
            size: int
            data_offset: int
            frame_type: int
            channel: int
            size, data_offset, frame_type, channel = _FRAME.unpack_from(data, offset)
            if size > self._max_frame_size or size < 8 or data_offset < 2 or data_offset * 4 > size:
                self._bad_frame(size, data_offset)
                break
            if size > left:
                self._needed = size
                break
            body = offset + data_offset * 4
            stop = offset + size
            offset = stop
            if frame_type == _AMQP_FRAME:
                is_taken = False
                if is_open and stop - body >= 4 and data[body] == 0 and data[body + 1] == 0x53:
                    code = data[body + 2]
                    if code == 0x14 or code == 0x15:
                        session = self.sessions.get(channel)
                        if session is not None and not session.is_ended:
                            if code == 0x14:
                                is_taken = take_transfer(session, data, body, stop)
                            else:
                                is_taken = take_disposition(session, data, body, stop)
                if not is_taken:
                    self._receive_frame(channel, data, body, stop)
                if self._steps is not None and not self._step():
                    break
            elif frame_type == _SASL_FRAME and self.state == State.SASL:
                self._receive_sasl(data, body, stop)
            else:
                self.fail(errors.FRAMING_ERROR, f"a frame of type {frame_type}")
        return offset

    def _step(self) -> bool:
        """Go on with the last frame; False if there is more of it to do than the share of this turn is."""
        steps = self._steps
        meter = self.meter
        assert steps is not None
        for _ in steps:
            if self._steps is not steps:
                return True  # the connection ended over it
            if meter.work >= meter.end:
                self._is_cut_short = True
                return False
        self._steps = None
        return True

    def _bad_frame(self, size: int, data_offset: int) -> None:
        if size > self._max_frame_size:
            text = f"a frame of {size} bytes, at most {self._max_frame_size} are allowed here"
        else:
            text = f"a frame of {size} bytes with data-offset {data_offset}"
        self.fail(errors.FRAMING_ERROR, text)

    def _receive_header(self, header: bytes) -> None:
        """A protocol header (§2.2). What we cannot speak is answered with what we can, and the end."""
        if self.is_client:
            self._receive_server_header(header)
            return
        if header == SASL_HEADER and self.state == State.START:
            self.write(SASL_HEADER)
            self.state = State.SASL
            self.handler.on_sasl_header()
        elif header == AMQP_HEADER and (self.state == State.HEADER or not self.requires_sasl):
            self.write(AMQP_HEADER)
            self.state = State.OPENING
        else:
            self.write(AMQP_HEADER if self.state == State.HEADER else SASL_HEADER)
            self.handler.on_close(None)
            self._end()

    def _receive_server_header(self, header: bytes) -> None:
        if self.state == State.START and header == SASL_HEADER:
            self.state = State.SASL
        elif self.state == State.HEADER and header == AMQP_HEADER:
            self.state = State.OPENING
            self.handler.wake()
        else:
            self.handler.on_error(AmqpError(errors.NOT_IMPLEMENTED, f"the peer answers with header {header!r}"))
            self._end()

    def _receive_sasl(self, data: bytes, body: int, stop: int) -> None:
        performative, offset = read_performative(data, body, stop)
        if offset != stop:
            self.fail(errors.FRAMING_ERROR, "octets behind a SASL frame")
        elif self.is_client:
            self._receive_sasl_as_client(performative)
        elif isinstance(performative, SaslInit) and self._awaits_init:
            self._awaits_init = False
            self._waits_for_handler = True
            self.handler.on_sasl_init(performative.mechanism, performative.initial_response, performative.hostname)
        elif isinstance(performative, SaslResponse) and self._awaits_response:
            self._awaits_response = False
            self._waits_for_handler = True
            self.handler.on_sasl_response(performative.response)
        else:
            self.fail(errors.NOT_ALLOWED, f"no {type(performative).__name__} is due")

    def _receive_sasl_as_client(self, performative: object) -> None:
        if isinstance(performative, SaslMechanisms) and self._credentials is not None:
            mechanism, response, hostname = self._credentials
            self._credentials = None
            self.write(
                frame(0, SaslInit(mechanism=mechanism, initial_response=response, hostname=hostname), _SASL_FRAME)
            )
        elif isinstance(performative, SaslOutcome) and performative.code == 0:
            self.state = State.HEADER
            self.write(AMQP_HEADER)
        else:
            self.handler.on_error(AmqpError(errors.UNAUTHORIZED_ACCESS, "the login failed"))
            self._end()

    def _receive_frame(self, channel: int, data: bytes, body: int, stop: int) -> None:
        """Any frame, by the tables."""
        if self.state == State.SASL:
            self.fail(errors.FRAMING_ERROR, "an AMQP frame during SASL")
            return
        if body == stop:
            return
        performative, offset = read_performative(data, body, stop)
        if type(performative) is not Transfer and offset != stop:
            self.fail(errors.FRAMING_ERROR, f"octets behind a {type(performative).__name__.lower()}")
            return
        if self.state == State.DISCARDING:
            if type(performative) is Close:
                self._end()
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
            self._end()
            return
        if type(performative) is Begin:
            self._receive_begin(performative, channel)
            return
        session = self.sessions.get(channel)
        if session is None:
            self.fail(errors.FRAMING_ERROR, f"a frame on channel {channel}, which has no session")
            return
        if type(performative) is End:
            session.receive_end(performative)
        elif session.is_ended:
            return
        elif type(performative) is Transfer:
            self._receive_transfer(session, performative, data[offset:stop])
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
        """Take a transfer in one of the forms that `take_transfer` leaves to the tables."""
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
        transfer.payload = payload
        session.receive_transfer()

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
        self._peer_channel_max = opening.channel_max
        if idle_ms:
            # Looking four times per time-out, silence of ours never lasts longer than half of it.
            self._heartbeat_s = idle_ms / 4000
            self._next_heartbeat = self._now + self._heartbeat_s
        if self._open_sent:
            self.state = State.OPENED
        else:
            self._waits_for_handler = True
        self.handler.on_open(opening)

    def _receive_begin(self, begin: Begin, channel: int) -> None:
        if channel > self._channel_max:
            self.fail(errors.FRAMING_ERROR, f"channel {channel} is above channel-max {self._channel_max}")
            return
        if channel in self.sessions:
            self.fail(errors.ILLEGAL_STATE, f"channel {channel} has a session already")
            return
        if begin.remote_channel is not None:
            session = self._own_sessions.get(begin.remote_channel)
            if session is None or session.peer_channel >= 0:
                self.fail(errors.FRAMING_ERROR, f"a begin for our channel {begin.remote_channel}, which asks for none")
                return
            session.peer_channel = channel
            self.sessions[channel] = session
            session.receive_begin(begin)
        else:
            if self._free_channel() > self._peer_channel_max:
                self.fail(errors.RESOURCE_LIMIT_EXCEEDED, "the peer's channel-max leaves no channel for a session")
                return
            session = self._new_session()
            session.peer_channel = channel
            self.sessions[channel] = session
            session.receive_begin(begin)
            session.write(
                Begin(
                    remote_channel=channel,
                    next_outgoing_id=session.next_outgoing_id,
                    incoming_window=session.incoming_window,
                    outgoing_window=0x7FFFFFFF,
                    handle_max=session.handle_max,
                )
            )
        self.handler.on_begin(session, begin)

    def begin(self) -> AmqpSession:
        """Client: begin a session; the handler hears of the peer's answer."""
        session = self._new_session()
        session.write(
            Begin(
                next_outgoing_id=0,
                incoming_window=session.incoming_window,
                outgoing_window=0x7FFFFFFF,
                handle_max=session.handle_max,
            )
        )
        return session

    def _free_channel(self) -> int:
        return self._freed[0] if self._freed else len(self._own_sessions)

    def _new_session(self) -> AmqpSession:
        session = AmqpSession(self, self._free_channel())
        if self._freed:
            heappop(self._freed)
        self._own_sessions[session.channel] = session
        return session

    def drop_session(self, session: AmqpSession) -> None:
        """Both sides ended: the channels are free."""
        self.sessions.pop(session.peer_channel, None)
        if self._own_sessions.pop(session.channel, None) is not None:
            heappush(self._freed, session.channel)
