"""Dead letters and expired messages of topics, with the configuration that is shipped and real clients.

A JMS topic producer attaches with the capability `topic`; so does Proton here.
"""

from collections.abc import Iterator
from typing import Final

import pytest
from paho.mqtt.client import MQTTMessage
from proton import Message

from tests.interop.mqtt.paho_client import Paho
from tests.interop.proton.client import Client, Receiver
from tests.interop.shipped import Shipped, create, running

TOPIC: Final = ("topic",)


@pytest.fixture(scope="module", params=["an instance", "without a folder"])
def shipped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shipped]:
    """Both ways in which somebody starts the shipped configuration; it loses nothing."""
    directory = tmp_path_factory.mktemp("shipped")
    arguments: tuple[str, ...] = ()
    if request.param == "an instance":
        create(directory)
        arguments = ("instance",)
    with running(directory, *arguments) as broker:
        yield broker
    text = (directory / "log").read_text()
    assert "has no queue" not in text
    assert "discarded" not in text


def subscribe(client: Client, address: str) -> Receiver:
    """A durable subscription, as JMS makes one."""
    return client.receiver(address, TOPIC, name=f"{address}-subscription", durable=True)


def origin(client: Client, dead_letters: str) -> tuple[object, str]:
    """The body of the next message there, and the address it came from."""
    received = client.receive(dead_letters)
    return received.body, received.annotations["x-opt-ORIG-ADDRESS"]


def test_a_rejected_message_of_a_topic_is_in_the_dead_letter_queue(shipped: Shipped, name: str) -> None:
    """426 of them had been lost: DLQ is anycast, and the message was sent to a topic."""
    with Client(shipped.url) as client:
        receiver = subscribe(client, name)
        client.send(name, Message(body="m", durable=True), capabilities=TOPIC)
        receiver.receive().reject()

        assert origin(client, "DLQ") == ("m", name)


def test_a_message_of_a_topic_that_failed_ten_times_is_in_the_dead_letter_queue(shipped: Shipped, name: str) -> None:
    """`max-delivery-attempts` as shipped."""
    with Client(shipped.url) as client:
        receiver = subscribe(client, name)
        client.send(name, Message(body="m", durable=True), capabilities=TOPIC)
        for _ in range(10):
            receiver.receive().modify(failed=True)

        assert origin(client, "DLQ") == ("m", name)


def test_an_expired_message_of_a_topic_is_in_the_expiry_queue(shipped: Shipped, name: str) -> None:
    """It had lain in the subscription while nobody was there."""
    with Client(shipped.url, name) as client:
        subscribe(client, name).detach()
        client.send(name, Message(body="m", durable=True, ttl=0.001), capabilities=TOPIC)
        receiver = subscribe(client, name)
        receiver.flow(1)

        assert origin(client, "ExpiryQueue") == ("m", name)


def test_a_message_that_an_mqtt_session_did_not_fetch_in_time_is_in_the_expiry_queue(
    shipped: Shipped, name: str
) -> None:
    """From a topic producer of AMQP to a session of MQTT that was away."""
    with Paho(shipped, name, clean=False, expiry_s=600) as subscriber:
        subscriber.subscribe(name, qos=1)
    with Client(shipped.url) as client:
        client.send(name, Message(body="m", durable=True, ttl=0.001), capabilities=TOPIC)
        with Paho(shipped, name, clean=False, expiry_s=600) as subscriber:
            assert subscriber.session_present

            assert origin(client, "ExpiryQueue") == ("m", name)


def test_an_mqtt_message_that_amqp_rejects_is_in_the_dead_letter_queue(shipped: Shipped, name: str) -> None:
    """From MQTT to a subscriber of AMQP."""
    with Client(shipped.url) as client, Paho(shipped) as publisher:
        receiver = subscribe(client, name)
        publisher.publish(name, "m", qos=1)
        receiver.receive().reject()

        assert origin(client, "DLQ") == (b"m", name)


def test_an_mqtt_client_reads_the_dead_letters_of_topics(shipped: Shipped, name: str) -> None:
    """A subscriber to an anycast address shares its queue (artemis-model §1.4)."""
    with Client(shipped.url) as client, Paho(shipped) as subscriber:
        receiver = subscribe(client, name)
        subscriber.subscribe("DLQ")
        client.send(name, Message(body=b"m", durable=True), capabilities=TOPIC)
        receiver.receive().reject()
        came: MQTTMessage = subscriber.receive()

        assert came.payload == b"m"
