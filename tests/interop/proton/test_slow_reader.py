"""Clients that do not read, and many clients at once: nobody else waits for them (reliability §5.12)."""

from proton import Message

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client

BODY = bytes(100_000)


def test_reader_that_stops_does_not_stop_others(broker: BrokerProcess, name: str) -> None:
    """It has credit for everything and reads nothing: its share waits, others are served, then it gets all."""
    with Client(broker.url) as slow, Client(broker.url) as client:
        receiver = slow.receiver(name)
        receiver.flow(200)
        slow.sync()
        sender = client.sender(name)
        deliveries = [sender.start(Message(body=BODY)) for _ in range(200)]
        for delivery in deliveries:
            sender.wait(delivery)
        client.send(name + "-other", "m")
        served = client.bodies(name + "-other")
        received = [len(one.body) for one in receiver.receive_many(200)]

    assert served == ["m"]
    assert received == [len(BODY)] * 200


def test_what_a_stopped_reader_cannot_take_stays_for_others(broker: BrokerProcess, name: str) -> None:
    """The output of one connection is bounded, whatever its credit: the rest of the queue is not given away."""
    with Client(broker.url) as slow, Client(broker.url) as client:
        receiver = slow.receiver(name)
        receiver.flow(1000)
        slow.sync()
        sender = client.sender(name)
        for delivery in [sender.start(Message(body=BODY)) for _ in range(400)]:
            sender.wait(delivery)
        other = client.receiver(name)

        assert len(other.receive().body) == len(BODY)


def test_producer_and_stopped_consumer_on_one_connection(broker: BrokerProcess, name: str) -> None:
    """A connection whose deliveries wait still has its transfers and dispositions handled."""
    with Client(broker.url) as client:
        receiver = client.receiver(name)
        receiver.flow(300)
        sender = client.sender(name)
        for delivery in [sender.start(Message(body=BODY)) for _ in range(300)]:
            sender.wait(delivery)
        bodies = [len(one.body) for one in receiver.receive_many(300)]

    assert bodies == [len(BODY)] * 300


def test_fan_out_reaches_every_subscriber_in_order(broker: BrokerProcess, name: str) -> None:
    """Fifty connections, a hundred messages each, one producer."""
    address = f"topic.{name}"
    clients = [Client(broker.url) for _ in range(50)]
    receivers = [client.receiver(address, ("topic",)) for client in clients]
    for receiver in receivers:
        receiver.flow(100)
        receiver.client.sync()
    with Client(broker.url) as producer:
        producer.send(address, *[str(number) for number in range(100)], capabilities=("topic",))
    results = [[one.body for one in receiver.receive_many(100)] for receiver in receivers]
    for client in clients:
        client.close()

    assert results == [[str(number) for number in range(100)]] * 50


def test_many_links_share_a_session(broker: BrokerProcess, name: str) -> None:
    """Two hundred producers and consumers over one connection."""
    with Client(broker.url) as client:
        senders = [client.sender(f"{name}-{number}") for number in range(200)]
        receivers = [client.receiver(f"{name}-{number}") for number in range(200)]
        for number, sender in enumerate(senders):
            sender.send(str(number))
        bodies = [receiver.receive().body for receiver in receivers]

    assert bodies == [str(number) for number in range(200)]
