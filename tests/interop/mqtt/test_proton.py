"""MQTT and AMQP 1.0 on one broker: a topic is an address, and messages cross both ways
(artemis-model §4.2.2, §4.2.4).
"""

import pytest
from proton import Message, symbol

from tests.interop.mqtt.conftest import StartServer
from tests.interop.mqtt.packets import Properties, Property
from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.raw import kept, opened
from tests.interop.mqtt.server import HOST, MqttInstance, MqttServer, unlike_mosquitto
from tests.interop.proton.client import Client

pytestmark = unlike_mosquitto("does not speak AMQP")


def amqp(server: MqttServer) -> Client:
    """Proton on the same port."""
    return Client(f"amqp://{HOST}:{server.port}")


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_amqp_consumer_gets_mqtt_messages(server: MqttServer, name: str, qos: int) -> None:
    """`a/b` is the address `a.b`; the payload is one data section; durable if its QoS was."""
    with amqp(server) as consumer, opened(server) as publisher:
        receiver = consumer.receiver(f"{name}.a", ("topic",))
        publisher.publish(f"{name}/a", b"\x00payload", qos)
        received = receiver.receive()
        received.accept()

        assert bytes(received.body) == b"\x00payload"
        assert received.message.durable == (qos > 0)


def test_amqp_consumer_of_a_wildcard_address(server: MqttServer, name: str) -> None:
    """The address model's wildcards match what MQTT publishes."""
    with amqp(server) as consumer, opened(server) as publisher:
        receiver = consumer.receiver(f"{name}.#", ("topic",))
        publisher.publish(f"{name}/a/b", b"m", 1)
        received = receiver.receive()
        received.accept()

        assert bytes(received.body) == b"m"


def test_mqtt_properties_are_amqp_properties(server: MqttServer, name: str) -> None:
    """Content type, response topic, correlation data, user properties, expiry."""
    given: Properties = [
        (Property.CONTENT_TYPE, "text/plain"),
        (Property.RESPONSE_TOPIC, "answers/mine"),
        (Property.CORRELATION_DATA, b"\x01\x02"),
        (Property.MESSAGE_EXPIRY, 1000),
        (Property.USER, ("colour", "red")),
    ]
    with amqp(server) as consumer, opened(server) as publisher:
        receiver = consumer.receiver(f"{name}.a", ("topic",))
        publisher.publish(f"{name}/a", b"m", 1, given=given)
        received = receiver.receive()
        received.accept()
        message = received.message

        assert message.content_type == "text/plain"
        assert message.reply_to == "answers.mine"
        assert bytes(message.correlation_id) == b"\x01\x02"
        assert 900_000 < message.ttl * 1000 <= 1_000_000
        assert message.properties["colour"] == "red"


def test_mqtt_subscriber_gets_amqp_messages(server: MqttServer, name: str) -> None:
    """A data section is the payload; QoS is that of the subscription (the message asks for no less)."""
    with amqp(server) as producer, opened(server) as subscriber:
        subscriber.subscribe(f"{name}/+", options=2)
        sender = producer.sender(f"{name}.a", ("topic",))
        sender.send(Message(body=b"\x00payload", durable=True, inferred=True))
        message = subscriber.receive()

        assert (message.topic, message.payload, message.qos) == (f"{name}/a", b"\x00payload", 2)


def test_text_of_an_amqp_message_is_utf_8(server: MqttServer, name: str) -> None:
    """An amqp-value string."""
    with amqp(server) as producer, opened(server) as subscriber:
        subscriber.subscribe(f"{name}/a", options=1)
        producer.sender(f"{name}.a", ("topic",)).send(Message(body="é☃"))

        assert subscriber.receive().payload == "é☃".encode()


def test_amqp_properties_are_mqtt_properties(server: MqttServer, name: str) -> None:
    """The same mapping, backwards."""
    with amqp(server) as producer, opened(server) as subscriber:
        subscriber.subscribe(f"{name}/a", options=1)
        message = Message(
            body=b"m",
            inferred=True,
            content_type=symbol("text/plain"),
            reply_to="answers.mine",
            correlation_id=b"\x01\x02",
            ttl=1000.0,
            properties={"colour": "red"},
        )
        producer.sender(f"{name}.a", ("topic",)).send(message)
        received = subscriber.receive()

        assert received.get(Property.CONTENT_TYPE) == "text/plain"
        assert received.get(Property.RESPONSE_TOPIC) == "answers/mine"
        assert received.get(Property.CORRELATION_DATA) == b"\x01\x02"
        assert ("colour", "red") in received.all(Property.USER)
        left = received.get(Property.MESSAGE_EXPIRY)
        assert isinstance(left, int)
        assert 900 < left <= 1000


def test_request_over_mqtt_is_answered_over_amqp(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §4.10 across protocols."""
    with amqp(server) as responder, opened(server) as requester:
        receiver = responder.receiver(f"{name}.service", ("topic",))
        requester.subscribe(f"{name}/answers", options=1)
        given: Properties = [(Property.RESPONSE_TOPIC, f"{name}/answers"), (Property.CORRELATION_DATA, b"42")]
        requester.publish(f"{name}/service", b"question", 1, given=given)
        request = receiver.receive()
        request.accept()
        sender = responder.sender(request.message.reply_to, ("topic",))
        sender.send(Message(body=b"answer", inferred=True, correlation_id=request.message.correlation_id))
        answer = requester.receive()

        assert (answer.payload, answer.get(Property.CORRELATION_DATA)) == (b"answer", b"42")


def test_mqtt_subscription_is_a_queue(server: MqttServer, name: str) -> None:
    """artemis-model §4.2.2: `clientId.filter` in the words of the address model; AMQP reads it by its full name."""
    with kept(server, f"c{name}") as client:
        client.subscribe(f"{name}/a", options=1)
        client.disconnect()
    with opened(server) as publisher:
        publisher.publish(f"{name}/a", b"m", 1)
    with amqp(server) as consumer:
        receiver = consumer.receiver(f"{name}.a::c{name}.{name}.a")
        received = receiver.receive()
        received.accept()

        assert bytes(received.body) == b"m"


def test_mqtt_to_an_anycast_queue(server: MqttServer, name: str) -> None:
    """An existing ANYCAST address takes what MQTT publishes; one consumer gets it."""
    with amqp(server) as client, opened(server) as publisher:
        receiver = client.receiver(f"{name}.q", ("queue",))
        publisher.publish(f"{name}/q", b"m", 1)
        received = receiver.receive()
        received.accept()

        assert bytes(received.body) == b"m"


LARGE = bytes(range(256)) * 800
"""What AMQP keeps in a file of its own (artemis-model §3.17)."""


def test_large_amqp_messages_for_absent_and_present_clients(serve: StartServer, name: str) -> None:
    """Of any QoS, to one and to many, Paho among them; a small message follows; over a restart."""
    server = serve(MqttInstance(persistent=True))
    with kept(server, f"c-{name}") as client:
        client.subscribe(f"{name}/a", options=2)
        client.disconnect()
    with (
        amqp(server) as producer,
        opened(server) as most_once,
        opened(server, version=4) as least_once,
        Paho(server, f"p-{name}") as paho,
    ):
        most_once.subscribe(f"{name}/+", options=0)
        least_once.subscribe(f"{name}/+", options=1)
        paho.subscribe(f"{name}/a", 2)
        sender = producer.sender(f"{name}.a", ("topic",))
        for body in (LARGE, b"small"):
            sender.send(Message(body=body, durable=True, inferred=True, properties={"colour": "red"}))
            received = [client.receive() for client in (most_once, least_once)]

            assert [(message.payload, message.qos) for message in received] == [(body, 0), (body, 1)]
            assert ("colour", "red") in received[0].all(Property.USER)
            assert paho.receive().payload == body
    server.kill()
    server.run()
    with kept(server, f"c-{name}") as client:
        assert [client.receive().payload for _ in range(2)] == [LARGE, b"small"]
        assert client.waiting() == []


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_large_mqtt_messages_for_amqp(server: MqttServer, name: str, qos: int) -> None:
    """Up to the maximum packet size; retained ones as well."""
    payload = LARGE * 20
    with amqp(server) as consumer, opened(server) as publisher, opened(server) as late:
        receiver = consumer.receiver(f"{name}.a", ("topic",))
        publisher.publish(f"{name}/a", payload, qos, retain=True)
        received = receiver.receive()
        received.accept()
        late.subscribe(f"{name}/a", options=1)

        assert bytes(received.body) == payload
        assert late.receive().payload == payload
