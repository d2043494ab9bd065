"""The side that dials: it logs in, opens with its hello, and waits for that of the other broker."""

from typing import Final

from artemis_amqp.carrier import names
from artemis_amqp.carrier.end import PeerEnd
from artemis_amqp.client.mechanisms import StrongestLogin
from artemis_amqp.engine import errors
from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.performatives import AmqpError, Open
from artemis_amqp.engine.states import State
from artemis_py.core.runtime.carrier import CONNECTION_LOST, Greeting, PeerRefused
from artemis_py.core.runtime.meter import Meter
from artemis_py.protocol import OutgoingContext


class DialledPeer(PeerEnd):
    """A connection that this broker makes; fulfils `ProtocolConnection` for the transport."""

    def __init__(self, context: OutgoingContext, greeting: Greeting, container_id: str, meter: Meter) -> None:
        limits = ConnectionLimits(
            channel_max=1,
            handle_max=15,
            idle_timeout_s=greeting.limits.idle_timeout_ms / 1000,
            output_limit_bytes=context.output_limit_bytes,
        )
        super().__init__(AmqpConnection(self, limits, is_client=True, meter=meter), context.peer, is_dialled=True)
        self._context: Final = context
        self._container_id: Final = container_id
        self._hello: Final = greeting.hello
        self._is_open_sent = False
        self.begin(greeting.listener, greeting.limits)
        login = StrongestLogin(
            greeting.login.user,
            greeting.login.password,
            has_certificate=context.has_certificate,
            may_send_password=context.is_encrypted or context.is_loopback,
            allowed=context.mechanisms,
        )
        self.engine.login.start_with(login, context.host)

    # -- the transport's side ------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the connection is over; the close of the other side is not awaited."""
        return self.engine.closed or self.is_over

    @property
    def logged_in(self) -> bool:
        """Whether both sides have opened."""
        return self.engine.is_open

    @property
    def has_input(self) -> bool:
        """Whether input waits for a later iteration of the loop."""
        return self.engine.has_input

    def receive_data(self, data: bytes, now: float) -> None:
        """Process received octets."""
        self.engine.receive_data(data, now)
        self.tell_news()

    def work(self, now: float) -> None:
        """Process input that was kept."""
        self.engine.work(now)
        self.tell_news()

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
        self.tell_news()

    def shutdown(self, reason: str) -> None:
        """Close, because this broker stops or wants the connection no longer."""
        self.close(reason)

    def connection_lost(self) -> None:
        """Tell the mesh, unless it knows: the socket is gone."""
        self.lose(CONNECTION_LOST)

    # -- called by the engine ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Have output sent; our open as soon as the headers allow it."""
        self._context.wake()
        if self.engine.state == State.OPENING and not self._is_open_sent:
            self._is_open_sent = True
            try:
                properties = names.properties_of(self._hello())
            except PeerRefused as refusal:
                self.refuse(refusal)
                return
            capabilities = (names.MESH,)
            opening = self.engine.our_open(
                self._container_id, capabilities, properties, capabilities, self._context.host
            )
            self.engine.send_open(opening)

    def on_open(self, opening: Open) -> None:
        """Begin, unless the other side is about to close, or is no broker of a mesh."""
        if names.REFUSED in (opening.properties or {}):
            return  # its close has the reason
        try:
            if not names.asks(opening):
                raise PeerRefused("the other side is no broker of a mesh")
            hello = names.hello_of(opening)
        except PeerRefused as refusal:
            self._end(AmqpError(errors.NOT_ALLOWED, str(refusal)), str(refusal))
            return
        self.open(hello)
