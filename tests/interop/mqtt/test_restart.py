"""The server is stopped or killed in the middle: what is durable is there again (reference: P1, P3, P7, P8)."""

import pytest

from tests.interop.mqtt import packets
from tests.interop.mqtt.conftest import StartServer
from tests.interop.mqtt.packets import Property, Will
from tests.interop.mqtt.raw import NO_LOCAL, kept, opened
from tests.interop.mqtt.server import IS_MOSQUITTO, MqttInstance, MqttServer, unlike_mosquitto

VERSIONS = (3, 4, 5)


@pytest.fixture
def durable(serve: StartServer) -> MqttServer:
    """A server of the test's own, with a store."""
    return serve(MqttInstance(persistent=True))


def restart(server: MqttServer, how: str) -> None:
    """End it and start it again."""
    if how == "kill":
        server.kill()
    else:
        server.stop()
    server.run()


# Mosquitto writes its store when it is stopped, or every half an hour.
HOW = ["stop"] if IS_MOSQUITTO else ["stop", "kill"]
ENDINGS = pytest.mark.parametrize("how", HOW)


@ENDINGS
@pytest.mark.parametrize("version", VERSIONS)
def test_kept_session_and_its_messages(durable: MqttServer, name: str, how: str, version: int) -> None:
    """P1, P8: QoS 1 and 2 messages that were acknowledged to their publisher, the subscription, and its QoS."""
    with kept(durable, f"c-{name}", version=version) as client:
        client.subscribe(f"{name}/+", options=2)
        client.disconnect()
    with opened(durable, version=version) as publisher:
        publisher.publish(f"{name}/a", b"1", 1)
        publisher.publish(f"{name}/b", b"2", 2)
    restart(durable, how)
    with kept(durable, f"c-{name}", version=version) as again, opened(durable, version=version) as publisher:
        assert again.connack.session_present or version == 3
        publisher.publish(f"{name}/c", b"3", 2)
        messages = [again.receive() for _ in range(3)]

        assert [(message.payload, message.qos) for message in messages] == [(b"1", 1), (b"2", 2), (b"3", 2)]
        assert again.waiting() == []


@ENDINGS
def test_retained_messages(durable: MqttServer, name: str, how: str) -> None:
    """P8: with their properties; a cleared one stays away, a replaced one is the last."""
    with opened(durable) as publisher:
        publisher.publish(f"{name}/kept", b"m", 1, retain=True, given=[(Property.USER, ("a", "b"))])
        publisher.publish(f"{name}/cleared", b"m", 1, retain=True)
        publisher.publish(f"{name}/cleared", b"", 1, retain=True)
        publisher.publish(f"{name}/replaced", b"old", 1, retain=True)
        publisher.publish(f"{name}/replaced", b"new", 2, retain=True)
    restart(durable, how)
    with opened(durable) as client:
        client.subscribe(f"{name}/#", options=2)
        found = {(message := client.receive()).topic: message for _ in range(2)}

        assert {topic: message.payload for topic, message in found.items()} == {
            f"{name}/kept": b"m",
            f"{name}/replaced": b"new",
        }
        assert found[f"{name}/kept"].all(Property.USER) == [("a", "b")]
        assert all(message.retain for message in found.values())
        assert client.waiting() == []


@ENDINGS
@pytest.mark.parametrize("version", VERSIONS)
def test_incoming_qos_2_exchange(durable: MqttServer, name: str, how: str, version: int) -> None:
    """P7 [MQTT-4.3.3-10]: PUBREC was sent; the repeated PUBLISH after the restart adds nothing."""
    with kept(durable, f"s-{name}", version=version) as subscriber:
        subscriber.subscribe(name, options=2)
        subscriber.disconnect()
    publisher = kept(durable, f"p-{name}", version=version)
    publisher.send(packets.publish(version, name, b"once", 2, 17))
    publisher.expect(packets.PUBREC)
    restart(durable, how)
    with kept(durable, f"p-{name}", version=version) as again, kept(durable, f"s-{name}", version=version) as reader:
        again.send(packets.publish(version, name, b"once", 2, 17, dup=True))
        assert again.expect(packets.PUBREC).packet_id == 17
        again.send(packets.answer(packets.PUBREL, 17))
        assert again.expect(packets.PUBCOMP).packet_id == 17
        again.send(packets.publish(version, name, b"next", 2, 17))
        again.expect(packets.PUBREC)
        again.send(packets.answer(packets.PUBREL, 17))
        again.expect(packets.PUBCOMP)

        assert reader.receive_all(2) == [b"once", b"next"]


@ENDINGS
@pytest.mark.parametrize("version", VERSIONS)
def test_outgoing_exchanges(durable: MqttServer, name: str, how: str, version: int) -> None:
    """P7 [MQTT-4.4.0-1] [MQTT-4.3.3-6]: each is taken up where it was: PUBLISH again, or PUBREL, with its id."""
    client = kept(durable, f"c-{name}", version=version)
    client.subscribe(name, options=2)
    with opened(durable, version=version) as publisher:
        for number in range(3):
            publisher.publish(name, str(number), 2)
    messages = [client.receive(acknowledge=False) for _ in range(3)]
    client.send(packets.answer(packets.PUBREC, messages[0].packet_id))
    assert client.expect(packets.PUBREL).packet_id == messages[0].packet_id
    restart(durable, how)
    with kept(durable, f"c-{name}", version=version) as again:
        assert again.expect(packets.PUBREL).packet_id == messages[0].packet_id
        again.send(packets.answer(packets.PUBCOMP, messages[0].packet_id))
        repeated = [again.receive() for _ in range(2)]

        assert [(message.packet_id, message.payload) for message in repeated] == [
            (message.packet_id, message.payload) for message in messages[1:]
        ]
        assert all(message.dup for message in repeated)
        assert again.waiting() == []


@ENDINGS
def test_acknowledged_messages_do_not_come_again(durable: MqttServer, name: str, how: str) -> None:
    """P3 [MQTT-4.3.3-6]: nothing is promised of a PUBCOMP, so PUBREL may; the message itself may not."""
    with opened(durable) as publisher:
        client = kept(durable, f"c-{name}")
        client.subscribe(name, options=2)
        for payload in (b"1", b"2"):
            publisher.publish(name, payload, 2)
            client.receive()
        client.disconnect()
    restart(durable, how)
    with kept(durable, f"c-{name}") as again, opened(durable) as publisher:
        publisher.publish(name, b"end", 1)
        while (packet := again.read()).kind == packets.PUBREL:
            again.send(packets.answer(packets.PUBCOMP, packet.packet_id))

        assert packet.payload == b"end"


@unlike_mosquitto("loses some of them")
@ENDINGS
def test_options_of_subscriptions(durable: MqttServer, name: str, how: str) -> None:
    """P8: identifier, no local, share."""
    with kept(durable, f"c-{name}") as client:
        client.subscribe(f"{name}/a", options=1, given=[(Property.SUBSCRIPTION_ID, 99)])
        client.subscribe(f"{name}/b", options=1 | NO_LOCAL)
        client.subscribe(f"$share/g/{name}/c", options=1)
        client.disconnect()
    restart(durable, how)
    with kept(durable, f"c-{name}") as again, opened(durable) as other:
        again.publish(f"{name}/b", b"own", 1)
        for topic in "abc":
            other.publish(f"{name}/{topic}", topic, 1)
        messages = [again.receive() for _ in range(3)]

        assert [message.payload for message in messages] == [b"a", b"b", b"c"]
        assert messages[0].all(Property.SUBSCRIPTION_ID) == [99]


@unlike_mosquitto("keeps neither wills nor the time of a session over a restart")
@ENDINGS
def test_delayed_will(durable: MqttServer, name: str, how: str) -> None:
    """P8: its connection broke before the restart; it goes out after its delay."""
    with kept(durable, f"w-{name}") as watcher:
        watcher.subscribe(name, options=1)
        watcher.disconnect()
    will = Will(topic=name, payload=b"gone", qos=1, properties=[(Property.WILL_DELAY, 1)])
    doomed = opened(durable, f"d-{name}", clean=False, given=[(Property.SESSION_EXPIRY, 3600)], will=will)
    doomed.drop()
    restart(durable, how)
    with kept(durable, f"w-{name}") as watcher:
        assert watcher.receive().payload == b"gone"


@unlike_mosquitto("keeps neither wills nor the time of a session over a restart")
def test_will_of_a_connection_that_the_crash_cut(durable: MqttServer, name: str) -> None:
    """P8: the network connection ended without DISCONNECT, whoever is to blame."""
    with kept(durable, f"w-{name}") as watcher:
        watcher.subscribe(name, options=1)
        watcher.disconnect()
    opened(
        durable,
        f"d-{name}",
        clean=False,
        given=[(Property.SESSION_EXPIRY, 3600)],
        will=Will(topic=name, payload=b"gone", qos=1),
    )
    restart(durable, "kill")
    with kept(durable, f"w-{name}") as watcher:
        assert watcher.receive().payload == b"gone"


@ENDINGS
def test_session_that_ended_stays_away(durable: MqttServer, name: str, how: str) -> None:
    """P10: no subscription of a clean session is left to collect messages."""
    with opened(durable, f"c-{name}") as client:
        client.subscribe(name, options=1)
        client.publish(name, b"m", 1)
    restart(durable, how)
    with kept(durable, f"c-{name}") as again:
        assert not again.connack.session_present
        again.publish(name, b"m", 1)

        assert again.waiting() == []
