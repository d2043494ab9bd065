"""What a consumer's verdict does to a message (AMQP 1.0 §3.4; artemis-model §4.1.4)."""

from typing import Final

import pytest
from proton import Delivery, Message

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client, Receiver

DLQ: Final = "DLQ"


def dead_letters(client: Client, name: str) -> Receiver:
    """A receiver of what came from the address `name`; needs the message's subject to be that name."""
    return client.receiver(DLQ, selector=f"JMSType = '{name}'")


def message_of(name: str) -> bytes:
    """A message that the shared dead letter queue can be asked for by subject."""
    return bytes(Message(subject=name, body="m").encode())


def test_accepted_message_is_gone(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.4.2."""
    with Client(broker.url) as client:
        client.send(name, "m")
        client.receive(name)

        assert client.bodies(name) == []


def test_released_message_comes_back_uncounted(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.4.4: released is not a failed delivery."""
    with Client(broker.url) as client:
        client.send(name, "m")
        receiver = client.receiver(name)
        receiver.receive().release()
        again = receiver.receive()
        again.accept()

    assert again.message.delivery_count == 0


def test_message_another_link_had_is_not_first_acquired(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.2.1 first-acquirer: true only if no other link acquired the message before."""
    with Client(broker.url) as client:
        client.send(name, "m")
        first = client.receiver(name).receive()
        first.release()
        second = client.receive(name)

    assert first.message.first_acquirer
    assert not second.message.first_acquirer


def test_released_message_returns_to_its_place(broker: BrokerProcess, name: str) -> None:
    """artemis-model §4.1.4: back to the head, so order holds."""
    with Client(broker.url) as client:
        client.send(name, "1", "2", "3")
        receiver = client.receiver(name)
        first = receiver.receive()
        first.release()

        assert receiver.bodies() == ["1", "2", "3"]


def test_rejected_message_is_dead_lettered_at_once(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.8: rejected ignores max-delivery-attempts; the copy names its origin."""
    with Client(broker.url) as client:
        client.send(name, message_of(name))
        receiver = client.receiver(name)
        original = receiver.receive()
        original.reject()
        dead = dead_letters(client, name).receive()
        dead.accept()

        assert dead.annotations["x-opt-ORIG-ADDRESS"] == name
        assert dead.annotations["x-opt-ORIG-QUEUE"] == name
        assert dead.message.delivery_count == 0
        assert dead.bare == original.bare
        assert receiver.drain() == []


def test_modified_message_counts_its_failures(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.4.5 delivery-failed; AMQP 1.0 §3.2.1 delivery-count."""
    counts = []
    with Client(broker.url) as client:
        client.send(name, "m")
        receiver = client.receiver(name)
        for _ in range(4):
            received = receiver.receive()
            counts.append(received.message.delivery_count)
            received.modify(failed=True)
        receiver.receive().accept()

    assert counts == [0, 1, 2, 3]


def test_modified_message_that_did_not_fail_is_not_counted(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.4.5: without delivery-failed the count stays."""
    with Client(broker.url) as client:
        client.send(name, "m")
        receiver = client.receiver(name)
        receiver.receive().modify(failed=False)
        again = receiver.receive()
        again.accept()

    assert again.message.delivery_count == 0


def test_message_is_dead_lettered_after_its_last_attempt(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.8: `max-delivery-attempts` 3, then the dead-letter address."""
    address = f"attempts3.{name}"
    with Client(broker.url) as client:
        client.send(address, message_of(name))
        receiver = client.receiver(address)
        for _ in range(3):
            receiver.receive().modify(failed=True)
        dead = dead_letters(client, name).receive()
        dead.accept()

        assert dead.annotations["x-opt-ORIG-ADDRESS"] == address
        assert receiver.drain() == []


def test_undeliverable_message_is_not_offered_to_that_link_again(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.4.5 undeliverable-here: another consumer may have it."""
    with Client(broker.url) as client:
        client.send(name, "m")
        receiver = client.receiver(name)
        receiver.receive().modify(undeliverable_here=True)
        left = receiver.drain()
        other = client.receiver(name)

        assert left == []
        assert other.bodies() == ["m"]


def test_undeliverable_message_does_not_hold_up_the_others(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.1: a message one consumer may not have stays in place for the others."""
    with Client(broker.url) as client:
        client.send(name, "1", "2")
        receiver = client.receiver(name)
        receiver.receive().modify(undeliverable_here=True)

        assert receiver.bodies() == ["2"]
        assert client.bodies(name) == ["1"]


def test_unsettled_messages_return_when_the_link_closes(broker: BrokerProcess, name: str) -> None:
    """amqp10 §8.3: an orderly close counts no attempt and keeps the order."""
    with Client(broker.url) as client:
        client.send(name, "1", "2", "3")
        receiver = client.receiver(name)
        receiver.receive_many(3)
        receiver.close()
        again = client.receiver(name).drain()

        assert [one.body for one in again] == ["1", "2", "3"]
        assert [one.message.delivery_count for one in again] == [0, 0, 0]


def test_unsettled_messages_return_when_the_connection_closes(broker: BrokerProcess, name: str) -> None:
    """amqp10 §8.3."""
    with Client(broker.url) as client:
        client.send(name, "1", "2")
        with Client(broker.url) as other:
            other.receiver(name).receive_many(2)

        assert client.bodies(name) == ["1", "2"]


def test_unsettled_messages_return_counted_when_the_socket_is_lost(broker: BrokerProcess, name: str) -> None:
    """amqp10 §8.3: a failed connection is a failed attempt of what was on its way."""
    with Client(broker.url) as client:
        client.send(name, "1", "2")
        other = Client(broker.url)
        other.receiver(name).receive_many(2)
        other.abort()
        received = client.receiver(name).receive_many(2)
        for one in received:
            one.accept()

    assert [one.body for one in received] == ["1", "2"]
    assert [one.message.delivery_count for one in received] == [1, 1]


def test_messages_never_sent_are_not_counted_when_the_socket_is_lost(broker: BrokerProcess, name: str) -> None:
    """amqp10 §8.3: only transmitted deliveries can fail."""
    with Client(broker.url) as client:
        client.send(name, Message(body="m", subject="1"), Message(body="m", subject="2"))
        other = Client(broker.url)
        other.receiver(name).receive()
        other.abort()
        counts = []
        for subject in ("1", "2"):  # by selector: the first comes back whenever the broker notices the loss
            received = client.receiver(name, selector=f"JMSType = '{subject}'").receive()
            counts.append(received.message.delivery_count)
            received.accept()

    assert counts == [1, 0]


def test_redelivery_waits_for_its_delay(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.10: a failed message is scheduled, so a drain finds nothing, and it comes when it is due."""
    address = f"delayed.{name}"
    with Client(broker.url) as client:
        client.send(address, "m")
        receiver = client.receiver(address)
        receiver.receive().modify(failed=True)
        at_once = receiver.drain()
        later = receiver.receive()
        later.accept()

    assert at_once == []
    assert later.message.delivery_count == 1


def test_released_message_has_no_redelivery_delay(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.10: released returns at once."""
    address = f"delayed.{name}"
    with Client(broker.url) as client:
        client.send(address, "m")
        receiver = client.receiver(address)
        receiver.receive().release()

        assert receiver.bodies() == ["m"]


def test_dead_letter_resources_are_created_on_demand(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.8: queue `DLQ.<address>` on the dead-letter address, filtered by origin."""
    address = f"own.{name}"
    with Client(broker.url) as client:
        client.send(address, "m")
        client.receiver(address).receive().reject()
        dead = client.receive(f"own-dead::DLQ.{address}")

    assert dead.body == "m"
    assert dead.annotations["x-opt-ORIG-ADDRESS"] == address


def test_expiry_resources_are_created_on_demand(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.9: queue `EXP.<address>` on the expiry address."""
    address = f"own.{name}"
    with Client(broker.url) as client:
        client.send(address, Message(body="m", ttl=0.001))
        expired = client.receive(f"own-expired::EXP.{address}")

    assert expired.body == "m"
    assert expired.annotations["x-opt-ORIG-ADDRESS"] == address


def test_settling_without_a_state_applies_the_default_outcome(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.5.3 default-outcome modified(delivery-failed), the broker's own when the link names none."""
    with Client(broker.url) as client:
        client.send(name, "m")
        receiver = client.receiver(name)
        receiver.receive().settle()
        again = receiver.receive()
        again.accept()

    assert again.message.delivery_count == 1


@pytest.mark.parametrize("batch", [2, 50])
def test_one_disposition_may_settle_many(broker: BrokerProcess, name: str, batch: int) -> None:
    """AMQP 1.0 §2.7.6: a range of delivery ids; Proton writes one frame for equal neighbours."""
    with Client(broker.url) as client:
        sender = client.sender(name)
        for number in range(batch):
            sender.send(str(number))
        receiver = client.receiver(name)
        for one in receiver.receive_many(batch):
            one.delivery.update(one.delivery.ACCEPTED)
            one.delivery.settle()
        client.sync()
        receiver.close()

        assert client.bodies(name) == []


@pytest.mark.parametrize("state", [Delivery.ACCEPTED, Delivery.RELEASED, Delivery.REJECTED, Delivery.MODIFIED])
def test_broker_settles_what_the_consumer_leaves_unsettled(broker: BrokerProcess, name: str, state: int) -> None:
    """AMQP 1.0 §2.6.12: an unsettled terminal outcome is applied, and answered with the settlement."""
    with Client(broker.url) as client:
        client.send(name, message_of(name))
        receiver = client.receiver(name)
        delivery = receiver.receive().delivery
        delivery.update(state)
        client.wait(lambda: delivery.settled, "settlement by the broker")
        delivery.settle()
        left = receiver.bodies()

        assert left == (["m"] if state in (Delivery.RELEASED, Delivery.MODIFIED) else [])
