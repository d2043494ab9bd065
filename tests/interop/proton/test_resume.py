"""Taking up a link again: durable termini and what was unsettled (AMQP 1.0 §2.6.4, §2.6.13)."""

import pytest

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client


@pytest.fixture
def topic(broker: BrokerProcess, name: str) -> str:
    """A MULTICAST address."""
    address = f"topic.{name}"
    with Client(broker.url) as client:
        client.sender(address, ("topic",)).close()
    return address


def test_unsettled_messages_of_a_suspended_link_are_delivered_again(broker: BrokerProcess, topic: str) -> None:
    """AMQP 1.0 §2.6.13: Proton re-attaches without an unsettled map, so all of it comes anew, in order."""
    with Client(broker.url, f"c-{topic}") as client:
        subscriber = client.receiver(topic, ("topic",), name="s1", durable=True)
        client.send(topic, "1", "2", "3")
        subscriber.receive_many(2)
        subscriber.detach()
        again = client.receiver(topic, ("topic",), name="s1", durable=True)

        assert again.bodies() == ["1", "2", "3"]


def test_settled_messages_of_a_suspended_link_are_not_delivered_again(broker: BrokerProcess, topic: str) -> None:
    """AMQP 1.0 §2.6.13."""
    with Client(broker.url, f"c-{topic}") as client:
        subscriber = client.receiver(topic, ("topic",), name="s1", durable=True)
        client.send(topic, "1", "2")
        subscriber.receive().accept()
        subscriber.detach()
        again = client.receiver(topic, ("topic",), name="s1", durable=True)

        assert again.bodies() == ["2"]


def test_durable_subscription_resumes_after_a_lost_connection(broker: BrokerProcess, topic: str) -> None:
    """AMQP 1.0 §2.6.13: the terminus outlives the socket; what was on its way counts an attempt."""
    lost = Client(broker.url, f"c-{topic}")
    subscriber = lost.receiver(topic, ("topic",), name="s1", durable=True)
    with Client(broker.url) as producer:
        producer.send(topic, "1", "2")
    subscriber.receive()
    lost.abort()
    with Client(broker.url, f"c-{topic}") as client:
        again = client.receiver(topic, ("topic",), name="s1", durable=True).receive_many(2)
        for one in again:
            one.accept()

    assert [one.body for one in again] == ["1", "2"]


def test_answer_to_a_durable_link_says_what_is_kept(broker: BrokerProcess, topic: str) -> None:
    """AMQP 1.0 §2.6.3: durability and expiry policy really granted."""
    with Client(broker.url, f"c-{topic}") as client:
        subscriber = client.receiver(topic, ("topic",), name="s1", durable=True)
        source = subscriber.link.remote_source

        assert source.durability in (source.CONFIGURATION, source.DELIVERIES)
        assert source.expiry_policy == source.EXPIRE_NEVER
