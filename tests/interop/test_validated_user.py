"""`populate-validated-user` and `reject-empty-validated-user` as clients of all protocols see them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from proton import Message

from artemis_openwire.engine.commands import ActiveMQTextMessage
from artemis_openwire.engine.structures import ActiveMQQueue
from artemis_openwire.engine.values import read_map, write_map
from tests.interop.broker_process import BrokerProcess, Instance, launch, start_broker
from tests.interop.mqtt.paho_client import Paho
from tests.interop.mqtt.server import MqttServer
from tests.interop.openwire_client import OpenWireClient, text_content
from tests.interop.proton.client import Client, Refused

USER: Final = "_AMQ_VALIDATED_USER"
CORE: Final = """
<populate-validated-user>true</populate-validated-user>
<reject-empty-validated-user>true</reject-empty-validated-user>
<security-settings><security-setting match="#">
  <permission type="createAddress" roles="app,guests"/>
  <permission type="createDurableQueue" roles="app,guests"/>
  <permission type="createNonDurableQueue" roles="app"/>
  <permission type="deleteNonDurableQueue" roles="app"/>
  <permission type="send" roles="app,guests"/>
  <permission type="consume" roles="app"/>
</security-setting></security-settings>
"""
QUEUE: Final = ActiveMQQueue(physical_name="q")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with two users, and guests that may send as far as permissions go."""
    instance = Instance(
        core=CORE,
        persistence="true",
        parameters="protocols=AMQP,MQTT,OPENWIRE",
        addresses='<address name="q"><anycast><queue name="q"/></anycast></address>'
        '<address name="news"><multicast/></address>',
        users="ann = pass\nbob = pass\n",
        roles="app = ann,bob\n",
    )
    process = start_broker(instance, tmp_path / "broker")
    yield process
    process.kill()


def amqp(broker: BrokerProcess, user: str | None) -> Client:
    """A client of AMQP."""
    options: dict[str, Any] = {} if user is None else {"user": user, "password": "pass", "allowed_mechs": "PLAIN"}
    return Client(broker.url, user or "guest", **options)


def mqtt(broker: BrokerProcess, user: str | None) -> Paho:
    """A client of MQTT."""
    server = MqttServer(broker.directory)
    server.port = broker.port
    return Paho(server, f"m-{user}", user=user, password=None if user is None else "pass")


def openwire(broker: BrokerProcess, user: str | None) -> OpenWireClient:
    """A client of OpenWire."""
    login = {} if user is None else {"user_name": user, "password": "pass"}
    return OpenWireClient(broker.host, broker.port, f"ID:{user}-1:1", **login)


def test_clients_of_all_protocols_see_who_has_sent_a_message(broker: BrokerProcess) -> None:
    """Also after a restart, and when the message is a dead letter; what clients claim is replaced."""
    forged = write_map({USER: "eve", "JMSXUserID": "eve"})
    with amqp(broker, "ann") as sender, openwire(broker, "bob") as wire:
        sender.send("q", Message(body="amqp", durable=True))
        wire.send(QUEUE, text_content("openwire"), user_id="eve", marshalled_properties=forged)
    broker.stop()
    broker = launch(broker.directory)
    with amqp(broker, "ann") as client:
        receiver = client.receiver("q")
        first, second = receiver.receive_many(2)
        assert [each.annotations["x-opt-VALIDATED-USER"] for each in (first, second)] == ["ann", "bob"]
        assert not first.message.user_id
        assert second.message.user_id == b"bob"
        assert second.message.properties is None
        for each in (first, second):
            each.reject()
    with openwire(broker, "ann") as wire:
        wire.consume(ActiveMQQueue(physical_name="DLQ"))
        letters = [wire.receive(), wire.receive()]
        assert [each.user_id for each in letters] == ["ann", "bob"]
        assert USER not in read_map(letters[1].marshalled_properties)
    broker.stop()


def test_subscribers_of_mqtt_see_it_too(broker: BrokerProcess) -> None:
    with mqtt(broker, "ann") as subscriber, mqtt(broker, "bob") as publisher, amqp(broker, "ann") as sender:
        subscriber.subscribe("news", 1)
        receiver = sender.receiver("news", ("topic",))
        publisher.publish("news", "m", 1, UserProperty=[(USER, "eve"), ("a", "1")])
        received = subscriber.receive()
        assert received.properties.UserProperty == [("a", "1"), (USER, "bob")]
        assert receiver.receive().annotations["x-opt-VALIDATED-USER"] == "bob"

        sender.sender("news", ("topic",)).send(Message(body="m"))
        assert (USER, "ann") in subscriber.receive().properties.UserProperty
    broker.stop()


def test_a_forged_amqp_message_and_one_without_a_user_are_refused(broker: BrokerProcess) -> None:
    """Each protocol has its own words for that; the client may stay."""
    with amqp(broker, "ann") as client:
        with pytest.raises(Refused) as forged:
            client.send("q", Message(body="m", user_id=b"eve"))
        assert forged.value.condition == "amqp:unauthorized-access"
        client.send("q", Message(body="m", user_id=b"ann"))
    with amqp(broker, None) as guest, pytest.raises(Refused, match="reject-empty-validated-user"):
        guest.send("q", Message(body="m"))
    with openwire(broker, None) as guest:
        answer = guest.answer(guest.begin(guest.message(QUEUE, text_content("m"), 1, ActiveMQTextMessage)))
        assert answer.exception.class_name == "java.lang.SecurityException"  # type: ignore[attr-defined]
    with mqtt(broker, None) as guest:
        info = guest.client.publish("q", "m", 1)
        info.wait_for_publish(60)
    with amqp(broker, "bob") as client:
        receiver = client.receiver("q")
        assert receiver.bodies() == ["m"]
    assert "permission denied: user=anonymous permission=send address=q" in broker.log_text()
    broker.stop()
