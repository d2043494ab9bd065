"""Message groups of MQTT 5: the user property `JMSXGroupID`, among the members of a shared subscription."""

import json

import pytest
from proton import Message

from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.server import HOST, MqttServer, unlike_mosquitto
from tests.interop.proton.client import Client

pytestmark = unlike_mosquitto("has no message groups")


def of_group(name: str, **more: str) -> list[tuple[str, str]]:
    """User properties of a message."""
    return [("JMSXGroupID", name), *more.items()]


def bodies(client: Paho, count: int) -> list[str]:
    return [client.receive().payload.decode() for _ in range(count)]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_group_stays_with_a_member(server: MqttServer, name: str, qos: int) -> None:
    shared = f"$share/s-{name}/{name}"
    with Paho(server) as one, Paho(server) as two, Paho(server) as publisher:
        one.subscribe(shared, qos)
        two.subscribe(shared, qos)
        for number in range(4):
            for group in ("a", "b"):
                publisher.publish(name, f"{group} {number}", qos, UserProperty=of_group(group))
        got = [bodies(one, 4), bodies(two, 4)]

    assert sorted(got) == [[f"{group} {number}" for number in range(4)] for group in ("a", "b")]


def test_amqp_sees_the_group_and_the_other_way_round(server: MqttServer, name: str) -> None:
    """-1 closes a group in both."""
    with Client(f"amqp://{HOST}:{server.port}") as client, Paho(server) as mqtt:
        receiver = client.receiver(name, ("topic",))
        receiver.flow(1)
        mqtt.subscribe(f"{name}/back", 1)
        mqtt.publish(name, "m", 1, UserProperty=of_group("g", JMSXGroupSeq="-1", other="x"))
        message = receiver.receive().message
        assert (message.group_id, message.group_sequence, message.properties) == ("g", 0xFFFFFFFF, {"other": "x"})

        answer = Message(body="back", properties={"other": "y"})
        answer.group_id, answer.group_sequence = "h", 0xFFFFFFFF
        client.send(f"{name}.back", answer)
        properties = dict(mqtt.receive().properties.UserProperty)

    assert properties == {"JMSXGroupID": "h", "JMSXGroupSeq": "-1", "other": "y"}


def set_first_key(client: Client, queue: str) -> None:
    replies = client.receiver(None, dynamic=True)
    properties = {"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "updateQueue"}
    body = json.dumps([{"name": queue, "group-first-key": "first"}])
    client.sender("activemq.management").send(Message(body=body, reply_to=replies.address, properties=properties))
    replies.flow(1)
    reply = replies.receive().message
    assert reply.properties["_AMQ_OperationSucceeded"], reply.body


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_first_message_has_a_user_property(server: MqttServer, name: str, qos: int) -> None:
    """Others, whose queues share the message, do not see it."""
    with Paho(server) as member, Paho(server) as other, Paho(server, version=4) as old, Paho(server) as publisher:
        member.subscribe(f"$share/s-{name}/{name}", qos)
        with Client(f"amqp://{HOST}:{server.port}") as client:
            set_first_key(client, f"s-{name}.{name}")
        other.subscribe(name, qos)
        old.subscribe(name, qos)
        for number in range(2):
            publisher.publish(name, str(number), qos, UserProperty=of_group("g"))
        first, second = member.receive(), member.receive()

        assert first.properties.UserProperty == [("JMSXGroupID", "g"), ("first", "true")]
        assert second.properties.UserProperty == [("JMSXGroupID", "g")]
        assert [other.receive().properties.UserProperty for _ in range(2)] == [[("JMSXGroupID", "g")]] * 2
        assert bodies(old, 2) == ["0", "1"]
