"""WebSocket as a transport of other protocols; the client is wsproto's other half, the protocol within a double."""

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    Request,
    TextMessage,
)

from artemis_py.protocol import ConnectionContext
from artemis_py.transport.websocket import MAX_HANDSHAKE_BYTES, WebSocketConnection, WebSocketManager
from tests.core_harness import make_host
from tests.line_protocol import LineConnection, LineProtocolManager
from tests.unit.transport.doubles import AnyName, small_domain


class Site:
    """A WebSocket connection to the line protocol, and its client."""

    def __init__(self, subprotocols: list[str], origin: str | None = None) -> None:
        self.manager = LineProtocolManager(make_host(small_domain()))
        context = ConnectionContext(
            connection_id=1, peer="peer", is_loopback=True, authenticator=AnyName(), wake=lambda: None
        )
        self.connection: WebSocketConnection = WebSocketManager([self.manager]).connect(context)
        self.client = WSConnection(ConnectionType.CLIENT)
        headers = [] if origin is None else [(b"Origin", origin.encode())]
        request = Request(host="broker", target="/any", subprotocols=subprotocols, extra_headers=headers)
        self.connection.receive_data(self.client.send(request), 0.0)

    @property
    def inner(self) -> LineConnection:
        return self.manager.opened[0]

    def send(self, event: Event) -> None:
        self.connection.receive_data(self.client.send(event), 0.0)

    def answers(self) -> list[Event]:
        self.client.receive_data(self.connection.data_to_send())
        return list(self.client.events())


def carried(events: list[Event]) -> bytes:
    return b"".join(bytes(event.data) for event in events if isinstance(event, BytesMessage))


def test_the_inner_protocol_talks_in_binary_frames() -> None:
    """RFC 6455 §1.9: the subprotocol that was asked for is spoken."""
    site = Site(["other", "line"])
    (accepted,) = site.answers()

    site.send(BytesMessage(data=b"LINE ann\nECHO one\nECHO t"))
    site.send(BytesMessage(data=b"wo\n"))

    assert isinstance(accepted, AcceptConnection)
    assert accepted.subprotocol == "line"
    assert carried(site.answers()) == b"HELLO ann\none\ntwo\n"
    assert site.connection.logged_in


@pytest.mark.parametrize("subprotocols", [[], ["other"]])
def test_without_a_known_subprotocol_the_handshake_fails(subprotocols: list[str]) -> None:
    """[MQTT-6.0.0-3] asks the client for `mqtt`; whoever asks for nothing speaks nothing we know."""
    site = Site(subprotocols)

    rejected = site.answers()[0]

    assert isinstance(rejected, RejectConnection)
    assert rejected.status_code == 400
    assert site.connection.closed


def test_text_frames_end_the_connection() -> None:
    """[MQTT-6.0.0-1]: packets travel in binary frames."""
    site = Site(["line"])
    site.answers()

    site.send(TextMessage(data="LINE ann\n"))

    (closed,) = site.answers()
    assert isinstance(closed, CloseConnection)
    assert closed.code == 1003
    assert site.connection.closed


def test_pings_are_answered() -> None:
    """RFC 6455 §5.5.3."""
    site = Site(["line"])
    site.answers()

    site.send(Ping(payload=b"x"))

    assert site.answers() == [Pong(payload=b"x")]


def test_the_end_of_the_inner_protocol_closes_the_websocket() -> None:
    """Its last words come first."""
    site = Site(["line"])
    site.answers()

    site.send(BytesMessage(data=b"LINE ann\nQUIT\n"))

    *words, closed = site.answers()
    assert carried(words) == b"HELLO ann\nBYE as you wish\n"
    assert isinstance(closed, CloseConnection)
    assert site.connection.closed


def test_a_close_frame_is_answered_and_ends_the_connection() -> None:
    """RFC 6455 §5.5.1."""
    site = Site(["line"])
    site.answers()

    site.send(CloseConnection(code=1000))

    assert any(isinstance(event, CloseConnection) for event in site.answers())
    assert site.connection.closed


def test_bytes_that_are_no_http_end_the_connection() -> None:
    """Nothing raises, whatever comes."""
    site = Site(["line"])
    connection = WebSocketManager([site.manager]).connect(site.inner.context)

    connection.receive_data(b"GET / nonsense\r\n\r\n", 0.0)

    assert connection.closed
    assert connection.data_to_send().startswith(b"HTTP/1.1 400")


def test_an_endless_request_is_refused() -> None:
    """Nothing is gathered without a limit."""
    site = Site(["line"])
    connection = WebSocketManager([site.manager]).connect(site.inner.context)

    connection.receive_data(b"GET / HTTP/1.1\r\nX: " + bytes(MAX_HANDSHAKE_BYTES), 0.0)

    assert connection.closed


def test_a_page_in_a_local_browser_is_not_a_local_client() -> None:
    """Anonymous access is open to this machine, and not to every page that is looked at on it."""
    assert Site(["line"]).inner.context.is_loopback
    assert not Site(["line"], origin="https://elsewhere.example").inner.context.is_loopback
