"""One client's OpenWire conversation, server side: bytes and time in, calls and bytes out.

Wire order only: no sockets, no clock, no broker. `codec` turns octets into commands, `transitions` says whether one is
legal now, and the `OpenWireHandler` gives it a meaning, at once or later. A client that breaks the protocol is told so
with a ConnectionError and closed; what was legal before counts, however TCP cut the stream.

Messages and acknowledgements, of which there are many, are read by `message_fields` and `ack_fields` and sent by
`dispatch_writer`, steps of transactions are read by `step_fields`; everything else is a record of `commands`. Compiled.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from attrs import evolve

from artemis_openwire.engine import errors
from artemis_openwire.engine.ack_fields import AckFields
from artemis_openwire.engine.activity import Activity
from artemis_openwire.engine.codec import read_frame, write_frame, write_nested
from artemis_openwire.engine.commands import (
    BaseCommand,
    BrokerInfo,
    ConnectionControl,
    ConnectionError,
    ConnectionInfo,
    ExceptionResponse,
    RemoveInfo,
    Response,
    TransactionInfo,
    WireFormatInfo,
)
from artemis_openwire.engine.dispatch_writer import DispatchWriter
from artemis_openwire.engine.fields import NO_ANSWER, answer_id_of
from artemis_openwire.engine.handler import OpenWireHandler
from artemis_openwire.engine.large_arrival import LargeArrival
from artemis_openwire.engine.large_output import LargeOutputs
from artemis_openwire.engine.limits import ConnectionLimits
from artemis_openwire.engine.message_fields import FIRST_CODE, LAST_CODE, MessageFields
from artemis_openwire.engine.negotiation import agree, offer
from artemis_openwire.engine.step_fields import StepFields
from artemis_openwire.engine.structure import FIRST_VERSION, Structure, Throwable
from artemis_openwire.engine.structures import ConnectionId, ConsumerId
from artemis_openwire.engine.transitions import (
    AWAITING_WIRE_FORMAT,
    CLOSED,
    CONNECTED,
    CONNECTING,
    HANDLED,
    IGNORED,
    KEEP_ALIVE_INFO,
    MESSAGE_ACK,
    NEGOTIATED,
    NULL_COMMAND,
    REFUSED,
    REMOVE_INFO,
    REMOVED,
    SHUTDOWN_INFO,
    TRANSACTION_INFO,
    TRANSITIONS,
    check_transition,
)
from artemis_py.core.runtime.meter import Meter
from artemis_py.errors import MalformedFrame, ProtocolError, StoreError
from artemis_py.wire.inbox import Inbox
from artemis_py.wire.outbox import Outbox

# The size of a frame and its code.
_HEADER_SIZE: Final = 5

_RESPONSE: Final = Struct(">iBiBi")
_PRODUCER_ACK: Final = Struct(">iBiB")
_I32: Final = Struct(">i")
_KEEP_ALIVE: Final = b"\0\0\0\x06\x0a\0\0\0\0\0"
_SHUTDOWN: Final = b"\0\0\0\x06\x0b\0\0\0\0\0"


class OpenWireConnection:
    """One client's conversation."""

    def __init__(
        self, handler: OpenWireHandler, broker: BrokerInfo, limits: ConnectionLimits, meter: Meter | None = None
    ) -> None:
        """Create the start state. `broker` is how the broker introduces itself; its id must stay the same for good.

        `meter` says when to stop reading in this iteration of the loop, None: never.
        """
        self.handler: OpenWireHandler = handler
        self.limits: ConnectionLimits = limits
        self.meter: Meter = Meter() if meter is None else meter
        self.state: int = AWAITING_WIRE_FORMAT
        self.version: int = FIRST_VERSION
        """The version that both sides agreed on."""
        self.inbox: Inbox = Inbox(self.meter, _HEADER_SIZE)
        self.outbox: Outbox = Outbox(limits.output_limit_bytes, handler.wake)
        self.is_halted: bool = False
        """Whether the client's commands are not processed for now; the transport does not read either."""
        self._broker: BrokerInfo = broker
        self._message: MessageFields = MessageFields()
        self._ack: AckFields = AckFields()
        self._step: StepFields = StepFields()
        self._activity: Activity = Activity()
        self._max_outgoing_size: int = limits.max_frame_size
        self._small_size: int = min(limits.command_size, limits.max_frame_size, max(limits.large_size - 1, 0))
        """Size up to which a frame of a client that has logged in is never too large, nor a message large."""
        self._arrival: LargeArrival | None = None
        """A large message of which a part has arrived."""
        self.outputs: LargeOutputs = LargeOutputs(self.outbox)
        self.is_streaming: bool = False
        """Whether a large body is being sent."""
        self._login_answer: int = NO_ANSWER
        self._now: float = 0.0

    # -- for the transport -------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether nothing more will be said."""
        return self.state == CLOSED

    @property
    def is_open(self) -> bool:
        """Whether the client has logged in, and neither side has ended the connection."""
        return self.state == CONNECTED

    @property
    def kept_bytes(self) -> int:
        """Octets that were received and not worked through yet, most often the beginning of a frame."""
        size = self.inbox.size
        return size if self._arrival is None else size + self._arrival.kept_bytes

    @property
    def has_input(self) -> bool:
        """Whether input is kept only because the share of a loop iteration was used up; `work` continues with it."""
        return self.inbox.is_cut_short and self.state != CONNECTING and not self.is_halted

    def receive_data(self, data: bytes, now: float) -> None:
        """Work through what the client sent, in pieces of any size. Never raises for anything a client can send.

        Input beyond the share of this iteration of the loop (`Meter.end`) is kept for `work`.
        """
        self._now = now
        self._activity.has_heard = True
        if self.state == CLOSED or self.state == REFUSED:
            return
        data = self.inbox.add(data, self.state == CONNECTING or self.is_halted)
        if data:
            self._work(data)
        elif self.state == CONNECTING:
            self._check_login_buffer()

    def work(self, now: float) -> None:
        """Continue with what was kept. The client counts as heard: we did not read, so its silence means nothing."""
        self._now = now
        self._activity.has_heard = True
        if self.has_input:
            self._work_kept()

    def work_through(self, steps: Iterator[None]) -> None:
        """Do what the command at hand asks for step by step, before anything else is read. For the handler."""
        self.inbox.steps = steps

    def halt(self) -> None:
        """Look at nothing behind the command at hand, until `proceed`. For the handler; the transport must not read."""
        self.is_halted = True
        self._activity.is_unread = True

    def proceed(self) -> None:
        """Process input that was kept, in the shares of later iterations of the loop. For the handler."""
        self.is_halted = False
        self.inbox.is_cut_short = self.inbox.has_rest

    def _work(self, data: bytes) -> None:
        try:
            offset = self._read(data)
        except ProtocolError as error:
            self._fail(str(error))
            return
        if self.state == CLOSED or self.state == REFUSED:
            return
        if offset < len(data):
            self.inbox.keep(data[offset:] if offset else data)
            if self.state == CONNECTING:
                self._check_login_buffer()

    def _work_kept(self) -> None:
        """Process input that arrived while the handler decided, or that was kept for a later iteration of the loop."""
        if self.inbox.has_rest and self.state != CLOSED:
            self._work(self.inbox.take())

    def _check_login_buffer(self) -> None:
        if self.inbox.size > self.limits.login_buffer_size:
            self._fail(f"more than {self.limits.login_buffer_size} bytes before the login ended")

    def data_to_send(self) -> bytes:
        """Return all output and forget it. Deliveries that waited for room may then be sent."""
        outbox = self.outbox
        was_full = outbox.was_full or outbox.size >= outbox.limit
        data = outbox.take()
        if self.is_streaming:
            data += self._read_output()
        if data:
            self._activity.has_sent = True
            if was_full and self.can_send:
                self.handler.on_writable()
        return data

    def _read_output(self) -> bytes:
        """Return more of a large body; if it is damaged the frame cannot be completed, and nothing follows."""
        try:
            data = self.outputs.read()
        except StoreError as error:
            self._close()
            self.handler.on_failed(str(error))
            return b""
        self.is_streaming = not self.outputs.is_empty
        self.handler.wake()
        return data

    def release_bodies(self) -> None:
        """Let go of large messages that arrive or are sent: the socket is gone, or will be."""
        if self._arrival is not None:
            self._arrival.release()
            self._arrival = None
        self.outputs.release()
        self.is_streaming = False

    def next_deadline(self) -> float | None:
        """Return when signs of life are due, or when a refused client is closed."""
        if self.state == CLOSED:
            return None
        if self.state == REFUSED:
            return max(self._activity.closes_at, self._now)
        return self._activity.next_check

    def handle_deadline(self, now: float) -> None:
        """Send a sign of life, give a silent client up, close a refused one."""
        self._now = now
        if self.state == CLOSED:
            return
        if self.state == REFUSED:
            if self._activity.has_lingered(now):
                self._close()
            return
        if self._activity.has_to_send(now) and not self.is_streaming:
            self.outbox.write_before_gates(_KEEP_ALIVE)
        if self._activity.is_silent(now, self.is_halted or self.outbox.is_paused):
            self._fail(f"nothing was heard for {self._activity.interval_s:g} s")

    def pause(self) -> None:
        """Send no deliveries until `resume`; the transport does not read, so silence means nothing."""
        self.outbox.pause()
        self._activity.is_unread = True

    def resume(self) -> None:
        """Send deliveries again."""
        if self.outbox.resume() and self.can_send:
            self.handler.on_writable()

    @property
    def can_send(self) -> bool:
        """Whether there is room for deliveries. If not, `on_writable` says when there is."""
        outbox = self.outbox
        # As in `Outbox.ask_for_room`, without a call: this is asked for each delivery.
        if outbox.is_paused or outbox.size >= outbox.limit or self.is_streaming:
            outbox.was_full = True
            return False
        return self.state == CONNECTED

    # -- reading -----------------------------------------------------------------------------------------------

    # Long because nothing is called for a message but what reads it.
    def _read(self, data: bytes) -> int:
        """Work through all whole frames; return where the first one begins that is not. Raises ProtocolError."""
        size = len(data)
        offset = 0
        meter = self.meter
        inbox = self.inbox
        if inbox.steps is not None and (not inbox.step() or self.state == CLOSED):
            return 0
        if self._arrival is not None:
            offset = self._continue_large(self._arrival, data, 0)
            if self.is_halted or self.state != CONNECTED:
                return offset
        while offset + 5 <= size:
            if meter.work >= meter.end:
                inbox.is_cut_short = True
                break
            length = data[offset] << 24 | data[offset + 1] << 16 | data[offset + 2] << 8 | data[offset + 3]
            code = data[offset + 4]
            is_hot = 22 <= code <= 29 and self.state == CONNECTED
            if not is_hot or length < 1 or length > self._small_size:
                self._check_frame(length, code)
                if is_hot and code != MESSAGE_ACK and length >= self.limits.large_size:
                    meter.work += 1
                    self._arrival = LargeArrival(
                        length, self.version, self.limits.large_size, self.handler.create_large
                    )
                    offset = self._continue_large(self._arrival, data, offset + 4)
                    if self.is_halted or self.state != CONNECTED:
                        break
                    continue
            end = offset + 4 + length
            if end > size:
                inbox.needed = end - offset
                return offset
            meter.work += 1
            body = data[offset + 4 : end]
            if is_hot and code != MESSAGE_ACK:
                self._message.read(body, self.version)
                self.handler.on_message(self._message)
            elif is_hot:
                self._ack.read(body, self.version)
                self.handler.on_ack(self._ack)
            elif code != NULL_COMMAND or length != 1:
                self._read_command(code, body)
            offset = end
            if self.state == CLOSED or self.state == CONNECTING or self.state == REFUSED or self.is_halted:
                break
            if inbox.steps is not None and (not inbox.step() or self.state == CLOSED):
                break
        inbox.needed = _HEADER_SIZE
        return offset

    def _continue_large(self, arrival: LargeArrival, data: bytes, offset: int) -> int:
        """Take more of a large message, and hand it over when it is complete. Raises ProtocolError."""
        offset = arrival.take(data, offset)
        if arrival.is_complete:
            try:
                self._message.read(arrival.frame(), self.version)
                self._arrival = None
                if arrival.body is None and arrival.refusal is None:
                    self.handler.on_message(self._message)
                else:
                    self.handler.on_large_message(self._message, arrival.body, arrival.refusal)
            finally:
                arrival.release()
        return offset

    def _check_frame(self, length: int, code: int) -> None:
        """Refuse a frame before it has arrived, if it is too large or may not come now. Raises ProtocolError."""
        name = ""
        if self.state != CONNECTED and self.state != REMOVED:
            limit = self.limits.login_frame_size
        elif FIRST_CODE <= code <= LAST_CODE:
            limit, name = self.limits.max_frame_size, " (openwireMaxFrameSize)"
        else:
            limit = self.limits.command_size
        if length < 1 or length > limit:
            raise MalformedFrame(f"a frame of {length} bytes and type {code}; {limit} is the most{name}")
        if code != NULL_COMMAND:
            check_transition(self.state, code)

    def _read_command(self, code: int, body: bytes) -> None:
        """Act on a command that comes rarely, and may come now. Raises ProtocolError."""
        was_removed = self.state == REMOVED
        is_known = self.state == CONNECTED
        if code == TRANSACTION_INFO and is_known and self._step.read(body):
            self.handler.on_step(self._step.key, self._step.step, answer_id_of(body))
            return
        command = read_frame(body, self.version)
        if isinstance(command, WireFormatInfo):
            self._negotiate(command)
            return
        self.state = TRANSITIONS[self.state, code]
        assert isinstance(command, BaseCommand)
        answer_id = answer_id_of(body)
        if isinstance(command, ConnectionInfo):
            self._login_answer = answer_id
            self.handler.on_connection_info(command)
        elif code == KEEP_ALIVE_INFO:
            if answer_id != NO_ANSWER:
                # With its like, and not with a Response (openwire §12.5).
                self.outbox.write(_KEEP_ALIVE)
        elif code == SHUTDOWN_INFO:
            self.respond(answer_id)
            self._close()
            self.handler.on_shutdown()
        elif code in IGNORED or (not is_known and not was_removed):
            self.respond(answer_id)
        elif was_removed:
            self._refuse_late(code, answer_id)
        else:
            assert code in HANDLED
            if isinstance(command, RemoveInfo) and isinstance(command.object_id, ConnectionId):
                self.state = REMOVED
            elif isinstance(command, TransactionInfo):
                self._step.learn(body, command, self.version)
            self.handler.on_command(command, answer_id)

    def _refuse_late(self, code: int, answer_id: int) -> None:
        """Answer a client that has removed its connection: there is nothing left to remove, and nothing to use."""
        if code in (REMOVE_INFO, MESSAGE_ACK):
            self.respond(answer_id)
        elif answer_id != NO_ANSWER:
            self.fail(answer_id, Throwable(errors.STATE, "the connection was removed"))

    def _negotiate(self, theirs: WireFormatInfo) -> None:
        """Answer the client's offer with ours, and introduce the broker. Raises ProtocolError."""
        agreement = agree(self.limits, theirs)
        self.state = NEGOTIATED
        self.version = agreement.version
        self._max_outgoing_size = agreement.max_frame_size
        self.outbox.write(write_frame(offer(self.limits), FIRST_VERSION))
        self.outbox.write(write_frame(self._broker, self.version))
        self._activity.begin(
            self._now, agreement.max_inactivity_s, agreement.initial_delay_s, self.limits.sends_keep_alive
        )
        self.handler.on_negotiated(agreement)

    # -- login and end -----------------------------------------------------------------------------------------

    def accept(self, control: ConnectionControl | None = None) -> None:
        """Accept the client, and tell it what it may do if this connection is lost.

        What it sent since its ConnectionInfo is worked through before this returns.
        """
        if self.state != CONNECTING:
            return
        self.state = CONNECTED
        self.respond(self._login_answer)
        if control is not None:
            self.send(control)
        self._work_kept()

    def redirect(self, control: ConnectionControl) -> None:
        """Tell the client, logged in or not, where to go, and close. The handler hears nothing more."""
        if self.state != CLOSED:
            self.send(control)
            self._close()

    def refuse(self, reason: Throwable) -> None:
        """Refuse the client, and close a little later: it needs time to read why."""
        if self.state != CONNECTING:
            return
        self.fail(self._login_answer, reason)
        self.state = REFUSED
        self.inbox.drop()

    def shutdown(self) -> None:
        """Say goodbye and close: a client that can will connect again. The handler hears nothing more."""
        if self.state != CLOSED and self.state != AWAITING_WIRE_FORMAT:
            self.outbox.write(_SHUTDOWN)
        self._close()

    def end(self, reason: Throwable) -> None:
        """Tell the client what is wrong and close. The handler hears nothing more."""
        if self.state != CLOSED and self.state != AWAITING_WIRE_FORMAT:
            self.send(ConnectionError(exception=reason))
        self._close()

    def _fail(self, text: str) -> None:
        """Tell a client that is at fault, and close."""
        self.end(Throwable(errors.IO, text))
        self.handler.on_failed(text)

    def _close(self) -> None:
        self.state = CLOSED
        self.inbox.drop()
        self.release_bodies()
        self.outbox.close()

    # -- answers and commands to the client ----------------------------------------------------------------------

    def respond(self, answer_id: int) -> None:
        """Report success, if the command wanted an answer (openwire §11)."""
        if answer_id != NO_ANSWER:
            self.outbox.write(_RESPONSE.pack(10, 30, 0, 0, answer_id))

    def respond_with(self, answer_id: int, response: Response) -> None:
        """Report success with a number or structures, if the command wanted an answer."""
        if answer_id != NO_ANSWER:
            self.send(evolve(response, correlation_id=answer_id))

    def fail(self, answer_id: int, reason: Throwable) -> None:
        """Report a failure: as the answer, or with a ConnectionError if the command wanted none (openwire §11)."""
        if answer_id != NO_ANSWER:
            self.send(ExceptionResponse(correlation_id=answer_id, exception=reason))
        else:
            self.send(ConnectionError(exception=reason))

    def send(self, command: Structure) -> None:
        """Send a command. Raises ValueError if it does not fit its encoding."""
        self.outbox.write(write_frame(command, self.version))

    def send_producer_ack(self, producer_key: bytes, size: int) -> None:
        """Return octets to a producer's window: `MessageFields.window_size` of a message that was accepted.

        `producer_key` is a field as `MessageFields` has it. Versions 1 and 2 know no windows.
        """
        if self.version >= 3:
            head = _PRODUCER_ACK.pack(10 + len(producer_key), 19, 0, 0)
            self.outbox.write(head + producer_key + _I32.pack(size))

    def dispatch_writer(self, consumer: ConsumerId) -> DispatchWriter:
        """Return what sends the deliveries of one consumer. Ask `can_send` before each of them."""
        key = write_nested(consumer, self.version)
        return DispatchWriter(self.outbox, self.version, self._max_outgoing_size, key)
