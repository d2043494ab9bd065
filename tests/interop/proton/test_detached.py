"""What a client says of deliveries after it detached their link, without closing it (AMQP 1.0 §2.7.6)."""

from proton import Endpoint

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client
from tests.interop.proton.test_transactions import Coordinator, retire


def test_accepted_after_a_detach_counts(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.7.6: the deliveries are live."""
    with Client(broker.url) as client, Client(broker.url) as other:
        client.send(name, "1", "2")
        receiver = client.receiver(name)
        first, second = receiver.receive_many(2)
        receiver.detach()
        meanwhile = other.receiver(name).drain()
        first.accept()
        second.release()

        assert meanwhile == []
        assert other.bodies(name) == ["2"]


def test_retired_after_a_detach_is_part_of_the_transaction(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.7.6 with §4.4.2: the commit takes it along."""
    with Client(broker.url) as client, Client(broker.url) as other:
        client.send(name, "1")
        coordinator = Coordinator(client)
        transaction = coordinator.declare()
        receiver = client.receiver(name)
        received = receiver.receive()
        receiver.detach()
        retire(received, transaction)
        coordinator.discharge(transaction)

        assert other.bodies(name) == []


def test_the_end_of_the_session_gives_it_back(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.5.6: until then it waits for the client's word."""
    with Client(broker.url) as client, Client(broker.url) as other:
        client.send(name, "1")
        session = client.connection.conn.session()
        session.open()
        link = session.receiver("r")
        link.source.address = name
        link.open()
        link.flow(1)
        client.wait(lambda: link.queued > 0, "a message")
        link.detach()
        session.close()
        client.wait(lambda: bool(session.state & Endpoint.REMOTE_CLOSED), "the end")

        assert other.bodies(name) == ["1"]
