"""The genuine client of ActiveMQ beside clients of AMQP (Proton) and MQTT (Paho): every kind of message, both ways."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from proton import Message, int32
from proton import byte as int8
from proton import short as int16

from tests.interop.broker_process import Instance, start_broker
from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.server import MqttServer
from tests.interop.openwire import peers
from tests.interop.openwire.peers import BROKER_JARS, CLASSIC_5, CLASSIC_6, Generation
from tests.interop.proton.client import Client, Received

pytestmark = pytest.mark.timeout(600)

PARAMETERS: Final = "protocols=AMQP,MQTT,OPENWIRE;virtualTopicConsumerWildcards=Consumer.*.%3E%3B2"
JAVA_LIST: Final = "application/x-java-serialized-object"
KINDS: Final = 6
PROPERTIES: Final = {
    "boolean": True,
    "byte": -1,
    "short": 2,
    "int": 3,
    "long": 1 << 40,
    "float": 5.5,
    "double": 6.5,
    "string": "ü",
}

AS_TEXT: Final = {
    "boolean": "true",
    "byte": "-1",
    "short": "2",
    "int": "3",
    "long": str(1 << 40),
    "float": "5.5",
    "double": "6.5",
    "string": "ü",
}


def seen_by_amqp(received: Received) -> Any:
    """A body as a client of AMQP sees it."""
    message = received.message
    received.accept()
    assert message.properties == PROPERTIES
    assert (message.subject, message.reply_to, message.group_id, message.durable) == ("kind", "replies", "g", True)
    assert message.address == "sent"
    # Proton has a symbol "None" for no content type.
    return (message.correlation_id, str(message.content_type), received.body)


@pytest.mark.parametrize(
    ("generation", "options"), [(CLASSIC_5, ""), (CLASSIC_6, "?jms.useCompression=true")], ids=["javax", "compressed"]
)
def test_messages_of_the_java_client_cross_both_ways(generation: Generation, options: str, tmp_path: Path) -> None:
    """docs/openwire.md, "Bodies" and "Fields and properties"."""
    try:
        (folder := tmp_path / "scenarios").mkdir()
        build = peers.build(generation, folder)
    except peers.Unavailable as missing:
        pytest.skip(str(missing))
    broker = start_broker(Instance(parameters=PARAMETERS), tmp_path)
    server = MqttServer(broker.directory)
    server.port = broker.port
    url = f"tcp://127.0.0.1:{broker.port}{options}"
    try:
        with Client(broker.url) as amqp, Paho(server, "m") as mqtt:
            mqtt.subscribe("sent/all", 1)
            sent = amqp_messages()
            command = build.java("interop.Crossing", url, str(len(sent) + 3), without=BROKER_JARS)
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as java:
                try:
                    assert java.stdout is not None
                    # However long Java takes to start: clients wait less.
                    assert java.stdout.readline() == "sent\n"
                    check_amqp(amqp)
                    check_mqtt(mqtt)
                    request = amqp.receiver("requests", ("queue",)).receive()
                    assert (request.body, request.message.correlation_id) == ("request", "r-1")
                    reply_to = request.message.reply_to
                    request.accept()
                    amqp.sender(reply_to).send(Message(body="reply", correlation_id="r-1"))
                    reply = json.loads(java.stdout.readline())
                    for message in sent:
                        amqp.sender("crossing", ("queue",)).send(message)
                    mqtt.publish("news/today", b"\x00\xff", 1, UserProperty=("colour", "red"), CorrelationData=b"c-1")
                    mqtt.publish("news/today", "text", 1, PayloadFormatIndicator=1, ResponseTopic="replies/here")
                    mqtt.publish("VT/orders", "{}", 1, ContentType="application/json")
                    lines = [json.loads(line) for line in java.stdout]
                finally:
                    java.kill()
    except BaseException:
        broker.kill()
        raise
    broker.stop()

    assert reply == {"reply": "r-1 reply"}
    assert [line for line in lines if line["from"] == "queue://crossing"] == FROM_AMQP
    for source in ("topic://news.today", "queue://Consumer.A.VT.orders"):
        expected = [line for line in FROM_MQTT if line["from"] == source]
        assert [line for line in lines if line["from"] == source] == expected


def check_amqp(amqp: Client) -> None:
    """One body of each kind."""
    receiver = amqp.receiver("sent", ("queue",))
    found = [seen_by_amqp(receiver.receive()) for _ in range(KINDS)]
    octets = found.pop()
    receiver.close()

    assert found == [
        ("c-0", "None", None),
        ("c-1", "None", "grün \U0001f600"),
        ("c-2", "None", b"\x00\xff"),
        ("c-3", "None", {"yes": True, "count": 5, "long": 1 << 40, "ratio": 2.5, "name": "ü"}),
        ("c-4", "None", [3, "two", False]),
    ]
    assert octets[:2] == ("c-5", JAVA_LIST)
    assert octets[2].startswith(b"\xac\xed\x00\x05")


def check_mqtt(mqtt: Paho) -> None:
    """The same as octets, with properties as text."""
    found = [mqtt.receive() for _ in range(KINDS)]
    properties = [message.properties for message in found]

    assert [message.payload for message in found[:3]] == [b"", "grün \U0001f600".encode(), b"\x00\xff"]
    assert [json.loads(message.payload) for message in found[3:5]] == [
        {"yes": True, "count": 5, "long": 1 << 40, "ratio": 2.5, "name": "ü"},
        [3, "two", False],
    ]
    assert found[5].payload.startswith(b"\xac\xed\x00\x05")
    assert [getattr(each, "ContentType", None) for each in properties] == [
        *(None, None, None),
        *("application/json", "application/json", JAVA_LIST),
    ]
    for number, (message, each) in enumerate(zip(found, properties, strict=True)):
        user = dict(each.UserProperty)
        assert message.topic == "sent/all"
        assert (each.CorrelationData, each.ResponseTopic) == (f"c-{number}".encode(), "replies")
        assert {name: user.get(name) for name in PROPERTIES} == AS_TEXT
        assert user["JMSXGroupID"] == "g"


def amqp_messages() -> list[Message]:
    """What a client of AMQP sends."""
    typed = {"boolean": True, "byte": int8(-1), "short": int16(2), "int": int32(3), "long": 1 << 40, "double": 6.5}
    return [
        Message(body=None),
        Message(body="grün", properties=typed, correlation_id="c-1", subject="kind", reply_to="replies", priority=7),
        Message(body=b"\x00\xff", inferred=True),
        Message(body=b"text", inferred=True, content_type="text/plain"),
        Message(body={"count": int32(5), "name": "ü"}),
        Message(body=[int16(3), "two", False]),
    ]


def line(kind: str, *body: object, source: str = "queue://crossing", **fields: Any) -> dict[str, Any]:
    """What the Java client prints of a message."""
    given: dict[str, Any] = {
        "from": source,
        "correlation": None,
        "type": None,
        "reply to": None,
        "priority": 4,
        "properties": {},
    }
    return {**given, "kind": kind, "body": list(body), **{name.replace("_", " "): fields[name] for name in fields}}


TYPED: Final = {
    "boolean": "Boolean true",
    "byte": "Byte -1",
    "double": "Double 6.5",
    "int": "Integer 3",
    "long": f"Long {1 << 40}",
    "short": "Short 2",
}
FROM_AMQP: Final = [
    line("message"),
    line("text", "grün", correlation="c-1", type="kind", reply_to="queue://replies", priority=7, properties=TYPED),
    line("bytes", 0, 255),
    line("text", "text"),
    line("map", {"count": "Integer 5", "name": "String ü"}),
    line("stream", "Short 3", "String two", "Boolean false"),
]
FROM_MQTT: Final = [
    line("bytes", 0, 255, source="topic://news.today", correlation="c-1", properties={"colour": "String red"}),
    line("text", "text", source="topic://news.today", reply_to="topic://replies.here"),
    line("text", "{}", source="queue://Consumer.A.VT.orders"),
]
