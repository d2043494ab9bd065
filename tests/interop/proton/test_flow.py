"""Credit, drain and fairness (AMQP 1.0 §2.6.7)."""

from proton import Message

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client


def test_consumer_without_credit_gets_nothing(broker: BrokerProcess, name: str) -> None:
    """Initial credit is zero."""
    with Client(broker.url) as client:
        client.send(name, "m")
        receiver = client.receiver(name)
        client.sync()

        assert receiver.waiting == 0
        assert receiver.bodies() == ["m"]


def test_consumer_gets_no_more_than_its_credit(broker: BrokerProcess, name: str) -> None:
    """A transfer takes one credit; the rest stays in the queue for others."""
    with Client(broker.url) as client:
        client.send(name, *[str(number) for number in range(5)])
        receiver = client.receiver(name)
        receiver.flow(2)
        received = receiver.receive_many(2)
        client.sync()

        assert [one.body for one in received] == ["0", "1"]
        assert receiver.waiting == 0
        assert client.bodies(name) == ["2", "3", "4"]


def test_credit_given_in_steps_adds_up(broker: BrokerProcess, name: str) -> None:
    """Flow is absolute: delivery-count plus link-credit."""
    with Client(broker.url) as client:
        client.send(name, *[str(number) for number in range(6)])
        receiver = client.receiver(name)
        for step in (1, 2, 3):
            receiver.flow(step)
        received = receiver.receive_many(6)

    assert [one.body for one in received] == ["0", "1", "2", "3", "4", "5"]


def test_drain_of_an_empty_queue_returns_the_credit(broker: BrokerProcess, name: str) -> None:
    """Drain: nothing to send, so delivery-count advances by the credit."""
    with Client(broker.url) as client:
        receiver = client.receiver(name)

        assert receiver.drain(10) == []
        assert receiver.link.credit == 0


def test_drain_delivers_what_there_is_first(broker: BrokerProcess, name: str) -> None:
    """Drain uses the credit before it gives the rest back."""
    with Client(broker.url) as client:
        client.send(name, "1", "2", "3")
        receiver = client.receiver(name)

        assert [one.body for one in receiver.drain(10)] == ["1", "2", "3"]


def test_drain_of_more_than_the_credit_stops_at_the_credit(broker: BrokerProcess, name: str) -> None:
    """Drain never sends more than asked."""
    with Client(broker.url) as client:
        client.send(name, "1", "2", "3")
        receiver = client.receiver(name)
        drained = receiver.drain(2)
        receiver.close()

        assert [one.body for one in drained] == ["1", "2"]


def test_link_goes_on_after_a_drain(broker: BrokerProcess, name: str) -> None:
    """Drain is a mode that ends with the next flow."""
    with Client(broker.url) as client:
        receiver = client.receiver(name)
        receiver.drain(5)
        client.send(name, "after")

        assert receiver.receive().body == "after"


def test_drained_link_can_be_drained_again(broker: BrokerProcess, name: str) -> None:
    """Credit already zero still gets its answer."""
    with Client(broker.url) as client:
        receiver = client.receiver(name)
        receiver.drain(1)
        receiver.drain(1)
        client.send(name, "m")

        assert receiver.bodies() == ["m"]


def test_message_waiting_for_credit_is_delivered_as_soon_as_it_comes(broker: BrokerProcess, name: str) -> None:
    """A consumer with credit is served by the next send."""
    with Client(broker.url) as client, Client(broker.url) as producer:
        receiver = client.receiver(name)
        receiver.flow(1)
        client.sync()
        producer.send(name, "m")

        assert receiver.receive().body == "m"


def test_producer_has_credit_after_its_attach(broker: BrokerProcess, name: str) -> None:
    """Both directions start at zero: the broker must grant."""
    with Client(broker.url) as client:
        sender = client.sender(name)
        client.wait(lambda: sender.link.credit > 0, "credit")

        assert sender.link.credit > 0


def test_producer_credit_is_topped_up(broker: BrokerProcess, name: str) -> None:
    """More messages than any first grant flow over one link."""
    with Client(broker.url) as client:
        sender = client.sender(name, settled=True)
        client.wait(lambda: sender.link.credit > 0, "credit")
        number = sender.link.credit * 2 + 1
        for index in range(number):
            sender.start(Message(body=index), settled=True)
        client.sync()
        receiver = client.receiver(name, settled=True)
        received = [one.body for one in receiver.receive_many(number)]

    assert received == list(range(number))


def test_consumers_with_credit_share_evenly(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.1: round-robin among consumers of one priority."""
    with Client(broker.url) as client:
        receivers = [client.receiver(name) for _ in range(3)]
        for receiver in receivers:
            receiver.flow(10)
        client.sync()
        client.send(name, *[str(number) for number in range(9)])
        client.wait(lambda: sum(receiver.waiting for receiver in receivers) == 9, "nine messages")

        assert [receiver.waiting for receiver in receivers] == [3, 3, 3]


def test_higher_consumer_priority_is_served_first(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.6.3: link property `priority`; the lower level gets what is left when the higher has no
    credit.
    """
    with Client(broker.url) as client:
        low, high = client.receiver(name, priority=-1), client.receiver(name, priority=5)
        low.flow(10)
        high.flow(2)
        client.sync()
        client.send(name, "1", "2", "3")
        client.wait(lambda: low.waiting + high.waiting == 3, "three messages")

        assert [one.body for one in high.receive_many(2)] == ["1", "2"]
        assert low.receive().body == "3"


def test_consumer_priority_may_be_part_of_the_address(broker: BrokerProcess, name: str) -> None:
    """artemis-model §4.1.4: `?consumer-priority=n`."""
    with Client(broker.url) as client:
        normal = client.receiver(name)
        high = client.receiver(f"{name}?consumer-priority=7")
        normal.flow(10)
        high.flow(10)
        client.sync()
        client.send(name, "1", "2")

        assert [one.body for one in high.receive_many(2)] == ["1", "2"]
        assert normal.waiting == 0


def test_exclusive_queue_serves_one_consumer(broker: BrokerProcess) -> None:
    """artemis-model §3.6.1: the first pinned consumer keeps the queue until it closes."""
    with Client(broker.url) as client:
        first, second = client.receiver("exclusive"), client.receiver("exclusive")
        first.flow(10)
        second.flow(10)
        client.sync()
        client.send("exclusive", "1", "2", "3", "4")
        client.wait(lambda: first.waiting + second.waiting == 4, "four messages")
        pinned, passive = (first, second) if first.waiting else (second, first)
        shares = pinned.waiting, passive.waiting
        for one in pinned.receive_many(4):
            one.accept()
        pinned.close()
        client.send("exclusive", "5")
        after = passive.receive()
        after.accept()

    assert shares == (4, 0)
    assert after.body == "5"


def test_many_frames_are_not_stopped_by_the_session_window(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.5.6: the session window is opened again while a delivery is under way."""
    with Client(broker.url, max_frame_size=512) as client:
        client.send(name, Message(body=bytes(3_000_000)))

        assert len(client.receive(name).body) == 3_000_000
