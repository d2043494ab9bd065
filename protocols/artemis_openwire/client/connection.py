"""A client's side of a conversation: no sockets, no clock, no queues of messages.

The client sends its WireFormatInfo at once and nothing else until the broker's has come. Commands get their numbers
here, and answers are handed over with the number of what they answer.
"""

from struct import Struct
from typing import Final, TypeVar

from attrs import evolve

from artemis_openwire.client.frames import Dispatch
from artemis_openwire.engine.activity import Activity
from artemis_openwire.engine.codec import read_frame, write_frame
from artemis_openwire.engine.commands import (
    BaseCommand,
    BrokerInfo,
    ConnectionControl,
    ConnectionError,
    ConsumerControl,
    KeepAliveInfo,
    MessageDispatch,
    ProducerAck,
    Response,
    ShutdownInfo,
    WireFormatInfo,
)
from artemis_openwire.engine.limits import ConnectionLimits
from artemis_openwire.engine.negotiation import Agreement, agree, offer
from artemis_openwire.engine.structure import FIRST_VERSION
from artemis_py.core.runtime.meter import Meter
from artemis_py.errors import MalformedFrame, ProtocolError
from artemis_py.wire.inbox import Inbox
from artemis_py.wire.outbox import Outbox

_SIZE: Final = Struct(">i")
_HEADER_SIZE: Final = 5
_MAX_COMMAND_ID: Final = (1 << 31) - 1
_DISPATCH: Final = MessageDispatch.code

AWAITING_WIRE_FORMAT: Final = 0
NEGOTIATED: Final = 1
CLOSED: Final = 2

# What a broker sends; anything else is a protocol error.
_OF_BROKER: Final = (
    BrokerInfo,
    ConnectionControl,
    ConnectionError,
    ConsumerControl,
    KeepAliveInfo,
    ProducerAck,
    Response,
    ShutdownInfo,
)

Command = TypeVar("Command", bound=BaseCommand)


class ClientHandler:
    """What a client does with what it gets; called in wire order, from within `receive_data`."""

    def wake(self) -> None:
        """Note that there is output now, where there was none."""

    def on_negotiated(self, agreement: Agreement) -> None:
        """Log in: commands may be sent from now on."""

    def on_response(self, command_id: int, response: Response) -> None:
        """Take an answer; an ExceptionResponse is one as well."""

    def on_dispatch(self, dispatch: Dispatch) -> None:
        """Take a delivery, which is valid during the call."""

    def on_command(self, command: BaseCommand) -> None:
        """Take anything else: BrokerInfo, ConnectionError, ConnectionControl, ConsumerControl or ProducerAck."""

    def on_closed(self, reason: str) -> None:
        """Note that the broker said goodbye, broke the protocol or fell silent."""


class ClientConnection:
    """One connection to a broker."""

    def __init__(self, handler: ClientHandler, limits: ConnectionLimits | None = None) -> None:
        """Offer what `limits` says, version and silence among it, and wait for the broker's offer."""
        self.handler: ClientHandler = handler
        self.limits: ConnectionLimits = limits or ConnectionLimits()
        self.state: int = AWAITING_WIRE_FORMAT
        self.version: int = FIRST_VERSION
        self.inbox: Inbox = Inbox(Meter(), _HEADER_SIZE)
        self.outbox: Outbox = Outbox(self.limits.output_limit_bytes, handler.wake)
        self._dispatch: Dispatch = Dispatch()
        self._activity: Activity = Activity()
        self._last_id: int = 0
        self._now: float = 0.0
        self.outbox.write(write_frame(offer(self.limits), FIRST_VERSION))

    @property
    def closed(self) -> bool:
        """Whether nothing more will be said."""
        return self.state == CLOSED

    # -- commands ----------------------------------------------------------------------------------------------

    def next_id(self) -> int:
        """Return the number of the next command, for frames that are put together elsewhere."""
        self._last_id = self._last_id + 1 if self._last_id < _MAX_COMMAND_ID else 1
        return self._last_id

    def request(self, command: BaseCommand) -> int:
        """Send a command that wants an answer; return its number, with which `on_response` is called."""
        return self._send(command, True)

    def tell(self, command: BaseCommand) -> int:
        """Send a command that wants no answer; return its number."""
        return self._send(command, False)

    def write(self, frame: bytes) -> None:
        """Send a frame that was put together from a template."""
        self.outbox.write(frame)

    def close(self) -> None:
        """Say goodbye."""
        if self.state == NEGOTIATED:
            self.tell(ShutdownInfo())
        self._close()

    def _send(self, command: BaseCommand, wants_answer: bool) -> int:
        assert self.state == NEGOTIATED, "nothing may be sent before the negotiation, and nothing after the end"
        number = self.next_id()
        self.outbox.write(write_frame(_numbered(command, number, wants_answer), self.version))
        return number

    # -- for the transport -------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: float) -> None:
        """Work through what the broker sent, in pieces of any size."""
        self._now = now
        self._activity.has_heard = True
        if self.state == CLOSED:
            return
        data = self.inbox.add(data, False)
        if not data:
            return
        try:
            offset = self._read(data)
        except ProtocolError as error:
            self._end(str(error))
            return
        if self.state != CLOSED and offset < len(data):
            self.inbox.keep(data[offset:])

    def data_to_send(self) -> bytes:
        """Return all output and forget it."""
        data = self.outbox.take()
        if data:
            self._activity.has_sent = True
        return data

    def next_deadline(self) -> float | None:
        """Return when signs of life are due."""
        return None if self.state == CLOSED else self._activity.next_check

    def handle_deadline(self, now: float) -> None:
        """Send a sign of life, or give a silent broker up."""
        if self.state == CLOSED:
            return
        if self._activity.has_to_send(now):
            self.outbox.write(write_frame(KeepAliveInfo(), self.version))
        if self._activity.is_silent(now):
            self._end(f"nothing was heard for {self._activity.interval_s:g} s")

    # -- reading -----------------------------------------------------------------------------------------------

    def _read(self, data: bytes) -> int:
        """Work through all whole frames; return where the first one begins that is not. Raises ProtocolError."""
        offset = 0
        while offset + _HEADER_SIZE <= len(data) and self.state != CLOSED:
            length: int = _SIZE.unpack_from(data, offset)[0]
            if not 1 <= length <= self.limits.max_frame_size:
                raise MalformedFrame(f"a frame of {length} bytes")
            end = offset + 4 + length
            if end > len(data):
                self.inbox.needed = end - offset
                return offset
            body = data[offset + 4 : end]
            if body[0] == _DISPATCH and self.state == NEGOTIATED:
                self._dispatch.read(body, self.version)
                self.handler.on_dispatch(self._dispatch)
            elif body != b"\0":
                self._read_command(body)
            offset = end
        self.inbox.needed = _HEADER_SIZE
        return offset

    def _read_command(self, body: bytes) -> None:
        command = read_frame(body, self.version)
        if self.state == AWAITING_WIRE_FORMAT:
            if not isinstance(command, WireFormatInfo):
                raise ProtocolError(f"{type(command).__name__} before WireFormatInfo")
            self._negotiate(command)
        elif not isinstance(command, _OF_BROKER):
            raise ProtocolError(f"{type(command).__name__} from a broker")
        elif isinstance(command, Response):
            self.handler.on_response(command.correlation_id, command)
        elif isinstance(command, KeepAliveInfo):
            if command.response_required:
                self.outbox.write(write_frame(KeepAliveInfo(), self.version))
        elif isinstance(command, ShutdownInfo):
            self._end("the broker shuts down")
        else:
            self.handler.on_command(command)

    def _negotiate(self, theirs: WireFormatInfo) -> None:
        agreement = agree(self.limits, theirs)
        self.version = agreement.version
        self.state = NEGOTIATED
        self._activity.begin(
            self._now, agreement.max_inactivity_s, agreement.initial_delay_s, self.limits.sends_keep_alive
        )
        self.handler.on_negotiated(agreement)

    def _end(self, reason: str) -> None:
        self._close()
        self.handler.on_closed(reason)

    def _close(self) -> None:
        self.state = CLOSED
        self.inbox.drop()
        self.outbox.close()


def _numbered(command: Command, number: int, wants_answer: bool) -> Command:
    """Return a command with its number."""
    return evolve(command, command_id=number, response_required=wants_answer)
