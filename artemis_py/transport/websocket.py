"""WebSocket (RFC 6455) on the same port: a protocol that carries another one.

To the driver, a WebSocket is a connection like any other. Inside, it is the transport of the protocol whose subprotocol
name the client asked for; it does not look into that protocol. Frames are read and written by `wsproto`, without I/O.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import evolve
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import RemoteProtocolError

from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.runtime.meter import Meter
from artemis_py.core.settings.declaration import Option
from artemis_py.protocol import ConnectionContext, ProtocolConnection, ProtocolManager

_REQUEST: Final = b"GET "

# Enough for a browser's request line and headers with its cookies; more is refused.
MAX_HANDSHAKE_BYTES: Final = 16 * 1024

_BAD_REQUEST: Final = 400

FRAME_UNITS: Final = 10
"""Work that a frame costs in `wsproto`, in units of `core.runtime.meter`."""


class WebSocketManager:
    """Offers the protocols of one acceptor over WebSocket."""

    name = "WS"
    formats: Sequence[MessageFormat] = ()
    parameters: Sequence[Option] = ()
    websocket_subprotocols: Sequence[str] = ()
    greeting: bytes = b""

    def __init__(self, managers: Sequence[ProtocolManager], meter: Meter | None = None) -> None:
        self._meter: Final = Meter() if meter is None else meter
        self._managers: Final[Mapping[str, ProtocolManager]] = {
            name: manager for manager in managers for name in manager.websocket_subprotocols
        }

    def read_parameters(self, acceptor: str, given: Mapping[str, str]) -> Mapping[str, object]:
        """Let each inner protocol read its own parameters; return the results by the protocol's name."""
        return {manager.name: manager.read_parameters(acceptor, given) for manager in self._managers.values()}

    def start(self) -> None:
        """Do nothing: there is nothing to start."""

    def matches(self, head: bytes) -> bool | None:
        """Tell whether `head` begins an HTTP GET request; None if more bytes are needed."""
        if len(head) < len(_REQUEST):
            return None if _REQUEST.startswith(head) else False
        return head.startswith(_REQUEST)

    def connect(self, context: ConnectionContext) -> "WebSocketConnection":
        """Return a connection that waits for the handshake."""
        return WebSocketConnection(context, self._managers, self._meter)


class WebSocketConnection:
    """One WebSocket, and the conversation in it once the handshake is over."""

    def __init__(self, context: ConnectionContext, managers: Mapping[str, ProtocolManager], meter: Meter) -> None:
        self._context: Final = context
        self._meter: Final = Meter() if meter is None else meter
        self._managers: Final = managers
        self._wire: Final = WSConnection(ConnectionType.SERVER)
        self._inner: ProtocolConnection | None = None
        self._out: list[bytes] = []
        self._handshake_bytes = 0
        self._is_closed = False
        self._has_frames = False
        """Whether frames wait for another turn."""

    @property
    def closed(self) -> bool:
        """Whether the WebSocket, or the conversation in it, is over."""
        return self._is_closed or (self._inner is not None and self._inner.closed)

    @property
    def logged_in(self) -> bool:
        """Whether the inner protocol is logged in."""
        return self._inner is not None and self._inner.logged_in

    def receive_data(self, data: bytes, now: float) -> None:
        """Process bytes of the WebSocket and pass what they carry to the inner protocol, a share in each turn."""
        if self._is_closed:
            return
        if self._inner is None:
            self._handshake_bytes += len(data)
            if self._handshake_bytes > MAX_HANDSHAKE_BYTES:
                self._reject(431, "the request is too long")
                return
        try:
            self._wire.receive_data(data)
        except RemoteProtocolError as error:
            self._fail(error)
            return
        if not self.has_input:
            self._read_frames(now)

    @property
    def has_input(self) -> bool:
        """Whether frames, or packets in them, wait for another turn."""
        return not self.closed and (self._has_frames or (self._inner is not None and self._inner.has_input))

    def work(self, now: float) -> None:
        """Process waiting frames, and packets in them."""
        inner = self._inner
        if inner is not None and inner.has_input:
            inner.work(now)
            if inner.has_input:
                return
        if self._has_frames:
            self._read_frames(now)

    def _read_frames(self, now: float) -> None:
        meter = self._meter
        self._has_frames = False
        try:
            for event in self._wire.events():
                meter.work += FRAME_UNITS
                match event:
                    case BytesMessage():
                        if self._inner is not None and not self._inner.closed:
                            self._inner.receive_data(bytes(event.data), now)
                    case Request():
                        self._shake_hands(event)
                    case Ping():
                        self._out.append(self._wire.send(event.response()))
                    case CloseConnection():
                        if self._wire.state is ConnectionState.REMOTE_CLOSING:
                            self._out.append(self._wire.send(event.response()))
                        self._is_closed = True
                    case TextMessage():
                        # Both protocols require binary frames ([MQTT-6.0.0-1]; AMQP WebSocket binding 2.1).
                        self._close(CloseReason.UNSUPPORTED_DATA, "binary frames only")
                if self._is_closed:
                    break
                if meter.work >= meter.end or (self._inner is not None and self._inner.has_input):
                    self._has_frames = True
                    break
        except RemoteProtocolError as error:
            self._fail(error)

    def _fail(self, error: RemoteProtocolError) -> None:
        if error.event_hint is not None:
            self._out.append(self._wire.send(error.event_hint))
        self._is_closed = True

    def _shake_hands(self, request: Request) -> None:
        for name in request.subprotocols:
            manager = self._managers.get(name)
            if manager is not None:
                self._out.append(self._wire.send(AcceptConnection(subprotocol=name)))
                # A page in a browser does not count as local, even if the browser runs on this machine: what is open
                # to local clients must not be open to every page that a user visits.
                is_page = any(header.lower() == b"origin" for header, _ in request.extra_headers)
                outer = self._context
                parameters = outer.parameters.get(manager.name) if isinstance(outer.parameters, Mapping) else None
                self._inner = manager.connect(
                    evolve(outer, is_loopback=outer.is_loopback and not is_page, parameters=parameters)
                )
                return
        known = ", ".join(sorted(self._managers))
        self._reject(_BAD_REQUEST, f"ask for one of the WebSocket subprotocols {known}")

    def _reject(self, status: int, text: str) -> None:
        body = f"{text}\n".encode()
        headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
        if self._wire.state is ConnectionState.CONNECTING:
            self._out.append(
                self._wire.send(RejectConnection(status_code=status, headers=headers, has_body=True))
                + self._wire.send(RejectData(data=body))
            )
        self._is_closed = True

    def _close(self, code: CloseReason, text: str) -> None:
        self._out.append(self._wire.send(CloseConnection(code=code, reason=text)))
        self._is_closed = True

    def data_to_send(self) -> bytes:
        """Return the output and clear it; all output of the inner protocol becomes one binary message."""
        inner = self._inner
        if inner is not None and self._wire.state is ConnectionState.OPEN:
            data = inner.data_to_send()
            if data:
                self._out.append(self._wire.send(BytesMessage(data=data)))
            if inner.closed:
                self._close(CloseReason.NORMAL_CLOSURE, "")
        if not self._out:
            return b""
        out, self._out = self._out, []
        return b"".join(out)

    def next_deadline(self) -> float | None:
        """Return the next deadline of the inner protocol."""
        return None if self._inner is None else self._inner.next_deadline()

    def handle_deadline(self, now: float) -> None:
        """Run the deadlines of the inner protocol that are due."""
        if self._inner is not None:
            self._inner.handle_deadline(now)

    def pause(self) -> None:
        """Tell the inner protocol that the client does not read."""
        if self._inner is not None:
            self._inner.pause()

    def resume(self) -> None:
        """Tell the inner protocol that the client reads again."""
        if self._inner is not None:
            self._inner.resume()

    def shutdown(self, reason: str) -> None:
        """Have the inner protocol say goodbye; before the handshake, refuse the request with status 503."""
        if self._inner is not None:
            self._inner.shutdown(reason)
        elif not self._is_closed:
            self._reject(503, reason)

    def connection_lost(self) -> None:
        """Tell the inner protocol that the socket is gone."""
        if self._inner is not None:
            self._inner.connection_lost()


def with_websocket(managers: Sequence[ProtocolManager], meter: Meter | None = None) -> list[ProtocolManager]:
    """Return the protocols of an acceptor, and WebSocket if any of them can be spoken over it."""
    if any(manager.websocket_subprotocols for manager in managers):
        return [*managers, WebSocketManager(managers, meter)]
    return list(managers)
