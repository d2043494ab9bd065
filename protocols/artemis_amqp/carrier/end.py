"""This broker's end of a connection to another, once both have opened; the same for either side.

Each side attaches links to send on: one for records in the first session, one for each lane in the second, so that
messages never use up the window of the records. Nothing else may be attached.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final
from uuid import uuid4

from mypy_extensions import mypyc_attr

from artemis_amqp.carrier.lanes import NUMBER, ControlIn, LaneIn, OutLane
from artemis_amqp.carrier.names import CONTROL_ADDRESS, CONTROL_CREDIT, CONTROL_SIZE, LANE_ADDRESSES, LANE_CREDIT
from artemis_amqp.engine import errors
from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.link import SETTLED, Link
from artemis_amqp.engine.performatives import AmqpError, Attach, Begin, Close, Detach, End, Open, Source, Target
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.session import AmqpSession
from artemis_py.core.runtime.carrier import Lane, PeerLimits, PeerListener, PeerRefused

_UNSETTLED: Final = 0
_SESSIONS: Final = 2
"""One for records, one for messages."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PeerEnd:
    """One end: the engine's handler, and the mesh's `PeerConnection`. A subclass logs in or is logged in to."""

    def __init__(self, engine: AmqpConnection, peer: str, is_dialled: bool) -> None:
        self.engine: Final = engine
        self._peer: Final = peer
        self._is_dialled: Final = is_dialled
        self._listener: PeerListener | None = None
        self._limits = PeerLimits()
        self._sessions: Final[list[AmqpSession]] = []
        self._own: Final[set[Link]] = set()
        """Links that we attached."""
        # The mesh may have something to say before the other side has begun the session for it.
        self._control_out: Final = OutLane(is_settled=True, failed=self._fail)
        self._control_in: ControlIn | None = None
        self._out: Final = {lane: OutLane(is_settled=False, failed=self._fail) for lane in Lane}
        self._in: Final[dict[Lane, LaneIn]] = {}
        self._has_messages: bool = False
        """Whether messages came in this read."""

    # -- for the mesh ------------------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        """Host and port of the other side."""
        return self._peer

    @property
    def is_dialled(self) -> bool:
        """Whether this broker made the connection."""
        return self._is_dialled

    def send_control(self, records: bytes) -> bool:
        """Send records; see `PeerConnection`."""
        return self._listener is None or self._control_out.send(b"", records, 0)

    def send(self, lane: Lane, number: int, message: bytes) -> bool:
        """Send a message; see `PeerConnection`."""
        return self._listener is None or self._out[lane].send(NUMBER.pack(number), message, number)

    def accept(self, lane: Lane, number: int) -> None:
        """Confirm messages; see `PeerConnection`."""
        received = self._in.get(lane)
        if received is not None and self._listener is not None:
            received.confirm(number)

    def close(self, reason: str, is_duplicate: bool = False) -> None:
        """End the connection; see `PeerConnection`."""
        self._end(AmqpError(errors.RESOURCE_LOCKED if is_duplicate else errors.CONNECTION_FORCED, reason), reason)

    # -- for the subclass --------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether the mesh was told that the connection is lost."""
        return self._listener is None

    def begin(self, listener: PeerListener, limits: PeerLimits) -> None:
        """Take the listener that hears of the end, and from `open` on of everything."""
        self._listener = listener
        self._limits = limits

    def open(self, hello: Mapping[str, object]) -> None:
        """Tell the mesh that both sides have opened; close if the mesh refuses."""
        assert self._listener is not None
        if self._is_dialled:
            for _ in range(_SESSIONS):
                self._attach_in(self.engine.channels.begin())
        try:
            self._listener.opened(self, hello)
        except PeerRefused as refusal:
            self.refuse(refusal)

    def refuse(self, refusal: PeerRefused) -> None:
        """Close, because the other broker may not join."""
        condition = errors.RESOURCE_LOCKED if refusal.is_duplicate else errors.NOT_ALLOWED
        self._end(AmqpError(condition, str(refusal)), str(refusal))

    def tell_news(self) -> None:
        """Tell the mesh, after received octets are processed, what was confirmed and where there is room again."""
        listener = self._listener
        if listener is None:
            return
        if self._has_messages:
            self._has_messages = False
            listener.has_read()
        has_room = self._control_out.has_caught_up
        self._control_out.has_caught_up = False
        for lane, out in self._out.items():
            if out.confirmed >= 0:
                number, out.confirmed = out.confirmed, -1
                listener.accepted(lane, number)
            has_room = has_room or out.has_caught_up
            out.has_caught_up = False
        if has_room and self._listener is not None:
            listener.has_room()

    def lose(self, reason: str) -> None:
        """Tell the mesh once that the connection is over."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.lost(reason)

    def _end(self, error: AmqpError, reason: str) -> None:
        if self._listener is not None and not self.engine.closed:
            self.engine.close(error)
        self.lose(reason)

    def _fail(self, text: str) -> None:
        """Close, because the other broker breaks the rules."""
        self._end(AmqpError(errors.NOT_ALLOWED, text), text)

    # -- called by the engine ------------------------------------------------------------------------------------

    def on_open(self, opening: Open) -> None:
        """Do nothing: a subclass handles the open of the other side."""

    def on_begin(self, session: AmqpSession, begin: Begin) -> None:
        """Attach our links in the sessions that the other side begins; those that we began have them already."""
        if session in self._sessions:
            return
        if len(self._sessions) == _SESSIONS:
            self._fail("a third session")
        else:
            self._attach_in(session)

    def on_attach(self, link: Link, attach: Attach) -> None:
        """Accept the links of the mesh, each once and in its session; refuse all others."""
        if link in self._own:
            if attach.target is None:
                return  # a detach with the reason follows
            assert isinstance(link, SenderLink)
            if link.handler is not None:
                link.handler.on_credit(link)
            return
        address = attach.target.address if isinstance(attach.target, Target) else None
        lane = LANE_ADDRESSES.get(address or "")
        is_control = address == CONTROL_ADDRESS
        is_fresh = self._control_in is None if is_control else lane is not None and lane not in self._in
        if not isinstance(link, ReceiverLink) or not is_fresh or self._sessions.index(link.session) == is_control:
            link.refuse(AmqpError(errors.NOT_ALLOWED, f"no link of the mesh goes to {address}, or not a second one"))
        elif lane is None:
            link.accept(attach.source, attach.target, CONTROL_SIZE)
            self._control_in = ControlIn(link, CONTROL_CREDIT, self._receive_control)
        else:
            link.accept(attach.source, attach.target, self.engine.limits.max_message_size)
            received = partial(self._receive, lane)
            self._in[lane] = LaneIn(link, LANE_CREDIT[lane], self._limits.window_bytes, received, self._fail)

    def on_detach(self, link: Link, detach: Detach) -> None:
        """Close: without one of its links the connection is of no use."""
        self._fail(f"the link {link.name} has ended: {_reason(detach.error)}")

    def on_end(self, session: AmqpSession, end: End) -> None:
        """Close: without one of its sessions the connection is of no use."""
        self._fail(f"a session has ended: {_reason(end.error)}")

    def on_close(self, close: Close | None) -> None:
        """End: the other side closes."""
        self.lose("closed before it was open" if close is None else f"closed by the peer: {_reason(close.error)}")

    def on_error(self, error: AmqpError) -> None:
        """End: the other side broke the protocol, or was silent; the engine has told it."""
        self.lose(error.description or error.condition)

    def on_writable(self) -> None:
        """Send what waited for room in the output."""
        for session in self._sessions:
            session.tell_senders()
        self.tell_news()

    def on_sasl_header(self) -> None:
        """Do nothing: the login is over, or the other side's to ask for."""

    def on_sasl_init(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        """Do nothing, as above."""

    def on_sasl_response(self, data: bytes) -> None:
        """Do nothing, as above."""

    # -- steps ---------------------------------------------------------------------------------------------------

    def _attach_in(self, session: AmqpSession) -> None:
        """Attach our links of this session: the first has the records, the second the messages."""
        is_first = not self._sessions
        self._sessions.append(session)
        if is_first:
            self._control_out.connect(self._attach(session, CONTROL_ADDRESS, SETTLED))
            return
        for address, lane in LANE_ADDRESSES.items():
            self._out[lane].connect(self._attach(session, address, _UNSETTLED))

    def _attach(self, session: AmqpSession, address: str, mode: int) -> SenderLink:
        # Both sides attach a link to each address, so the name has a part of its own.
        name = f"{address}:{uuid4()}"
        link = session.attach(name, Source(address=address), Target(address=address), True, mode)
        assert isinstance(link, SenderLink)
        self._own.add(link)
        return link

    def _receive_control(self, records: bytes) -> None:
        if self._listener is not None:
            self._listener.control(records)

    def _receive(self, lane: Lane, number: int, message: bytes) -> None:
        if self._listener is not None:
            self._has_messages = True
            self._listener.message(lane, number, message)


def _reason(error: AmqpError | None) -> str:
    return "without a reason" if error is None else error.description or error.condition
