"""Transformers of diverts as clients see them: AMQP by Proton, MQTT 5 and 3.1.1 (artemis-model §3.2)."""

import json

import pytest
from proton import Message, int32, symbol, ubyte

from tests.interop.mqtt.conftest import StartServer
from tests.interop.mqtt.packets import Properties, Property
from tests.interop.mqtt.raw import opened
from tests.interop.mqtt.server import HOST, OPEN, MqttInstance, MqttServer, unlike_mosquitto
from tests.interop.proton.client import Client, plain

pytestmark = unlike_mosquitto("has no diverts")


def divert(name: str, source: str, to: str, transformer: str, **properties: str) -> str:
    inside = "".join(f'<property key="{key.replace("__", "-")}" value="{value}"/>' for key, value in properties.items())
    return f"""<divert name="{name}"><address>{source}</address><forwarding-address>{to}</forwarding-address>
    <routing-type>MULTICAST</routing-type><transformer><class-name>{transformer}</class-name>{inside}</transformer></divert>"""


DIVERTS = "".join(
    [
        "<diverts>",
        divert("add", "in", "added,again", "add-properties", colour="blue"),
        divert("rename", "added", "renamed", "rename-properties", size="count"),
        divert("remove", "renamed", "removed", "remove-properties", colour=""),
        divert("json", "in", "read", "json-to-properties", id="$.order.id", first="$.lines[0]"),
        divert("first", "in", "urgent", "set-priority", priority="9"),
        divert("soon", "in", "short", "set-expiry", expiry__delay="60000"),
        "</diverts>",
    ]
)


@pytest.fixture(scope="module")
def diverting(serve: StartServer) -> MqttServer:
    """The one broker of this module."""
    return serve(MqttInstance(security=OPEN + DIVERTS))


def amqp(server: MqttServer) -> Client:
    """Proton on the same port."""
    return Client(f"amqp://{HOST}:{server.port}")


BODY = json.dumps({"order": {"id": 17}, "lines": ["pen", "ink"]})


def order() -> Message:
    """With properties of several AMQP types, and fields that no transformer touches."""
    message = Message(body=BODY, subject="s", correlation_id="c", content_type=symbol("application/json"))
    message.properties = {"colour": "red", "size": int32(7), "kind": ubyte(3), "word": symbol("w")}
    message.annotations = {symbol("x-mine"): "kept"}
    message.durable = True
    return message


def test_amqp_consumers_see_changed_application_properties(diverting: MqttServer) -> None:
    """Those that do not change keep their types; a chain of diverts adds up; everything else is as it was sent."""
    names = ("in", "added", "again", "renamed", "removed")
    with amqp(diverting) as client:
        receivers = {name: client.receiver(name, ("topic",)) for name in names}
        client.sender("in", ("topic",)).send(order())
        messages = {name: receiver.receive().message for name, receiver in receivers.items()}

    properties = {name: message.properties for name, message in messages.items()}
    typed = {"size": int32(7), "kind": ubyte(3), "word": symbol("w")}
    assert properties["in"] == {"colour": "red"} | typed
    assert properties["added"] == properties["again"] == {"colour": "blue"} | typed
    assert properties["renamed"] == {"colour": "blue", "count": 7, "kind": 3, "word": "w"}
    assert properties["removed"] == {"count": 7, "kind": 3, "word": "w"}
    assert [type(properties["removed"][name]) for name in ("count", "kind", "word")] == [int32, ubyte, symbol]
    removed = messages["removed"]
    assert (removed.subject, removed.correlation_id, removed.body) == ("s", "c", BODY)
    assert (removed.durable, removed.annotations["x-mine"]) == (True, "kept")
    assert removed.annotations["x-opt-ORIG-QUEUE"] == "remove"


def test_what_a_transformer_set_can_be_selected(diverting: MqttServer) -> None:
    """By the consumer of a topic: its selector is the filter of its queue."""
    with amqp(diverting) as client:
        wanted = client.receiver("read", ("topic",), selector="id = 17 AND first = 'pen'")
        other = client.receiver("read", ("topic",), selector="id = 18")
        client.sender("in", ("topic",)).send(order())
        message = wanted.receive().message

        assert (message.properties["id"], message.properties["first"]) == (17, "pen")
        client.sync()
        assert other.waiting == 0


def test_priority_and_expiry_are_in_the_header(diverting: MqttServer) -> None:
    with amqp(diverting) as client:
        urgent, short = [client.receiver(name, ("topic",)) for name in ("urgent", "short")]
        client.sender("in", ("topic",)).send(order())

        assert urgent.receive().message.priority == 9
        assert 50 < short.receive().message.ttl <= 60


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_5_sees_user_properties_and_amqp_sees_those_of_mqtt(diverting: MqttServer, qos: int) -> None:
    with amqp(diverting) as client, opened(diverting) as subscriber, opened(diverting, version=4) as old:
        receiver = client.receiver("removed", ("topic",))
        for each in (subscriber, old):
            each.subscribe("removed", options=qos)
        given: Properties = [
            (Property.USER, ("colour", "red")),
            (Property.USER, ("size", "7")),
            (Property.CONTENT_TYPE, "a/b"),
        ]
        subscriber.publish("in", BODY, qos, given=given)
        received, plainly = subscriber.receive(), old.receive()
        message = receiver.receive().message

    assert received.all(Property.USER) == [("count", "7")]
    assert (received.get(Property.CONTENT_TYPE), received.payload) == ("a/b", BODY.encode())
    assert plainly.payload == BODY.encode()
    assert message.properties == {"count": "7"}
    assert plain(message.body) == BODY.encode()


def test_mqtt_sees_what_was_set_on_an_amqp_message(diverting: MqttServer) -> None:
    with amqp(diverting) as client, opened(diverting) as subscriber:
        subscriber.subscribe("read", options=1)
        client.sender("in", ("topic",)).send(order())
        received = subscriber.receive()

        assert ("id", "17") in received.all(Property.USER)
        assert received.payload == BODY.encode()


def test_a_large_message_is_changed_without_its_body(diverting: MqttServer) -> None:
    """Its copies share one body, which is on disk."""
    body = b"x" * 1_000_000
    with amqp(diverting) as client:
        receiver = client.receiver("removed", ("topic",))
        message = order()
        message.body = body
        message.inferred = True
        client.sender("in", ("topic",)).send(message)
        received = receiver.receive().message

        assert received.properties == {"count": 7, "kind": 3, "word": "w"}
        assert plain(received.body) == body
