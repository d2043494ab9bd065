"""Connections: opening, names, heartbeats, stealing (AMQP 1.0 §2.4; artemis-model §4.1.2)."""

import socket
import struct

import pytest
from proton import ConnectionException, Endpoint, Message, symbol
from proton.utils import ConnectionClosed

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client

SOLE = "sole-connection-for-container"


def test_broker_names_itself(broker: BrokerProcess) -> None:
    """AMQP 1.0 §2.7.1: the container-id is the node's, the same on every connection."""
    with Client(broker.url) as one, Client(broker.url) as two:
        names = {one.connection.conn.remote_container, two.connection.conn.remote_container}

    assert len(names) == 1
    assert all(names)


def test_open_tells_product_and_version(broker: BrokerProcess) -> None:
    """artemis-model §4.1.2: `open.properties`."""
    with Client(broker.url) as client:
        properties = {str(key) for key in client.connection.conn.remote_properties}

    assert properties >= {"product", "version"}


def test_two_connections_may_have_one_container_id(broker: BrokerProcess, name: str) -> None:
    """artemis-model §4.1.2: only `sole-connection-for-container` forbids it."""
    with Client(broker.url, name) as one, Client(broker.url, name) as two:
        one.send(name, "m")

        assert two.bodies(name) == ["m"]


def test_sole_connection_is_enforced_when_desired(broker: BrokerProcess, name: str) -> None:
    """artemis-model §4.1.2: the second gets an open, then close `amqp:invalid-field`, info container-id."""
    with Client(broker.url, name, desired_capabilities=[symbol(SOLE)]) as first:
        with pytest.raises(ConnectionClosed) as closed:
            refused_late(Client(broker.url, name, desired_capabilities=[symbol(SOLE)]))
        first.send(name, "m")

        assert closed.value.condition == "amqp:invalid-field"
        assert first.bodies(name) == ["m"]


def refused_late(client: Client) -> None:
    """Wait for the close that follows an open."""
    client.wait(lambda: False, "a close")


def test_sole_container_id_is_free_again_after_its_connection(broker: BrokerProcess, name: str) -> None:
    """artemis-model §4.1.2."""
    for _ in range(3):
        with Client(broker.url, name, desired_capabilities=[symbol(SOLE)]) as client:
            client.send(name, "m")

    with Client(broker.url) as client:
        assert client.bodies(name) == ["m"] * 3


def test_many_sessions_share_a_connection(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.5: sessions are independent."""
    with Client(broker.url) as client:
        sessions = [client.connection.conn.session() for _ in range(10)]
        for session in sessions:
            session.open()
        client.wait(lambda: all(session.state & Endpoint.REMOTE_ACTIVE for session in sessions), "ten sessions")
        sessions[3].close()
        client.wait(lambda: bool(sessions[3].state & Endpoint.REMOTE_CLOSED), "an end")
        client.send(name, "m")

        assert client.bodies(name) == ["m"]
        assert sessions[4].state & Endpoint.REMOTE_ACTIVE


def test_ending_a_session_returns_its_messages(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.5.2: links go with their session."""
    with Client(broker.url) as client:
        client.send(name, "m")
        session = client.connection.conn.session()
        session.open()
        link = session.receiver("r")
        link.source.address = name
        link.open()
        link.flow(1)
        client.wait(lambda: link.queued > 0, "a message")
        session.close()
        client.wait(lambda: bool(session.state & Endpoint.REMOTE_CLOSED), "an end")

        assert client.bodies(name) == ["m"]


def test_link_name_of_another_connection_is_stolen(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.6.1: same link name, same containers: the old link is detached with `amqp:link:stolen`."""
    with Client(broker.url, f"c-{name}") as old, Client(broker.url, f"c-{name}") as new:
        victim = old.receiver(name, name="the-link")
        thief = new.receiver(name, name="the-link")
        refusal = victim.wait_closed()
        new.send(name, "m")

        assert refusal.condition == "amqp:link:stolen"
        assert thief.bodies() == ["m"]


def test_same_link_name_in_both_directions_is_no_conflict(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.6.1: name and direction together identify a link."""
    with Client(broker.url) as client:
        sender = client.sender(name, name="both")
        receiver = client.receiver(name, name="both")
        sender.send("m")

        assert receiver.bodies() == ["m"]


def test_broker_keeps_an_idle_client_alive(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.4.5: a client that demands frames gets them; Proton closes if it does not."""
    with Client(broker.url, heartbeat=0.5) as client:
        before = client.connection.conn.transport.frames_input
        client.wait(lambda: client.connection.conn.transport.frames_input >= before + 3, "three heartbeats")
        client.send(name, "m")

        assert client.bodies(name) == ["m"]


def test_broker_advertises_an_idle_timeout(broker: BrokerProcess) -> None:
    """AMQP 1.0 §2.4.5; artemis-model §4.1.1: half of 60 s."""
    with Client(broker.url) as client:
        assert client.connection.conn.transport.remote_idle_timeout == 30.0


def test_broker_keeps_the_negotiated_frame_size(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.4.1: no frame above what the peer's open says; Proton ends a connection that breaks it."""
    with Client(broker.url, max_frame_size=512) as client:
        client.send(name, Message(body=bytes(100_000)))

        assert len(client.receive(name).body) == 100_000


def test_open_without_sasl_is_anonymous(broker: BrokerProcess, name: str) -> None:
    """artemis-model §4.1.2: the SASL layer may be skipped if anonymous users may come in."""
    with Client(broker.url, sasl_enabled=False) as client:
        client.send(name, "m")

        assert client.bodies(name) == ["m"]


def test_lost_socket_is_cleaned_up(broker: BrokerProcess, name: str) -> None:
    """A reset in the middle of everything frees the container's links and exclusive names."""
    client = Client(broker.url, name, desired_capabilities=[symbol(SOLE)])
    client.receiver(name, name="r").flow(10)
    client.sync()
    sock: socket.socket = client.connection.conn.transport._selectable._delegate
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.abort()
    with Client(broker.url) as other:
        other.send(name, "m")

        assert other.receiver(name).receive().body == "m"


def test_unreachable_port_is_refused(broker: BrokerProcess) -> None:
    """The suite's own client notices a failure: no test passes because nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(ConnectionException):
        Client(f"amqp://127.0.0.1:{port}")


def test_sole_connection_is_protected_from_those_that_do_not_ask(broker: BrokerProcess, name: str) -> None:
    """Enforcing Connection Uniqueness 1.0, strong detection: what the first one was promised holds."""
    with Client(broker.url, name, desired_capabilities=[symbol(SOLE)]) as first:
        with pytest.raises(ConnectionClosed) as closed:
            refused_late(Client(broker.url, name))
        first.send(name, "m")

        assert closed.value.condition == "amqp:invalid-field"
