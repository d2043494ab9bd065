"""One client that asks for much in few octets does not hold up the others of the process."""

import threading
from collections.abc import Callable
from typing import Final

import pytest

from artemis_mqtt.engine.packets import MQTT_3_1_1, Subscribe, Subscription, Unsubscribe
from tests import mqtt_harness as wire
from tests.interop.mqtt.conftest import StartServer
from tests.interop.mqtt.raw import Raw
from tests.interop.mqtt.server import MqttInstance, MqttServer, unlike_mosquitto

FILTERS: Final = 10_000
BLOCK: Final = 1000
PINGRESP: Final = 13

pytestmark = unlike_mosquitto("does in one go what a read brought")


@pytest.fixture(scope="module")
def own(serve: StartServer) -> MqttServer:
    return serve(MqttInstance(limits={"mqttMaxSubscriptions": 100_000}))


class Canary:
    """A client that goes round and round while something happens."""

    def __init__(self, server: MqttServer, name: str) -> None:
        self._topic = f"{name}/canary"
        self._client = Raw(server, MQTT_3_1_1)
        self._client.connect(f"{name}-canary")
        self._client.subscribe(self._topic)

    def rounds_during(self, action: Callable[[], object]) -> int:
        """How many rounds it makes until the action is over."""
        is_over = threading.Event()

        def act() -> None:
            try:
                action()
            finally:
                is_over.set()

        thread = threading.Thread(target=act)
        thread.start()
        rounds = 0
        while not is_over.is_set():
            self._client.send(wire.publish(MQTT_3_1_1, self._topic, b"x", 0, 0))
            self._client.receive()
            rounds += 1
        thread.join()
        return rounds


def subscribes(name: str) -> bytes:
    blocks = []
    for first in range(0, FILTERS, BLOCK):
        wanted = [Subscription(topic_filter=f"{name}/{one}", qos=0) for one in range(first, first + BLOCK)]
        blocks.append(wire.subscribe(MQTT_3_1_1, Subscribe(packet_id=1 + first, subscriptions=tuple(wanted))))
    return b"".join(blocks)


def unsubscribes(name: str) -> bytes:
    blocks = []
    for first in range(0, FILTERS, BLOCK):
        wanted = tuple(f"{name}/{one}" for one in range(first, first + BLOCK))
        blocks.append(wire.unsubscribe(MQTT_3_1_1, Unsubscribe(packet_id=1 + first, topic_filters=wanted)))
    return b"".join(blocks)


def asked(client: Raw, octets: bytes) -> Callable[[], None]:
    """Send all of it in one go, and wait for the answer to a ping behind it."""

    def ask() -> None:
        client.send(octets + wire.PINGREQ)
        while client.read().kind != PINGRESP:
            pass

    return ask


@pytest.mark.parametrize("what", ["subscribe", "unsubscribe", "topics", "fan-out"])
def test_others_go_on_while_much_is_done(own: MqttServer, what: str) -> None:
    """A turn is bounded in what it does: without that, the others make one round or two per read of 256 KiB."""
    client = Raw(own, MQTT_3_1_1)
    client.connect(f"{what}-greedy")
    canary = Canary(own, what)
    match what:
        case "subscribe":
            octets = subscribes(what)
        case "unsubscribe":
            asked(client, subscribes(what))()
            octets = unsubscribes(what)
        case "topics":
            octets = b"".join(wire.publish(MQTT_3_1_1, f"{what}/{one}", b"x", 0, 0) for one in range(20_000))
        case _:
            reader = Raw(own, MQTT_3_1_1)
            reader.connect(f"{what}-reader")
            words = ["+" if one >> bit & 1 else "a" for one in range(512) for bit in range(9)]
            filters = [f"{what}/{'/'.join(words[9 * one : 9 * one + 9])}" for one in range(512)]
            wanted = tuple(Subscription(topic_filter=one, qos=0) for one in filters)
            asked(reader, wire.subscribe(MQTT_3_1_1, Subscribe(packet_id=1, subscriptions=wanted)))()
            octets = wire.publish(MQTT_3_1_1, f"{what}/{'/'.join('a' * 9)}", b"x", 0, 0) * 1000

    assert canary.rounds_during(asked(client, octets)) >= 10


def test_others_go_on_while_a_large_session_ends(own: MqttServer) -> None:
    """Its 10,000 queues are deleted in slices; the client's next session has nothing of them from its first moment."""
    client = Raw(own, MQTT_3_1_1)
    client.connect("ending")
    asked(client, subscribes("ending"))()
    canary = Canary(own, "ending")

    def take_over() -> None:
        after = Raw(own, MQTT_3_1_1)
        after.connect("ending")
        asked(after, subscribes("ending"))()

    assert canary.rounds_during(take_over) >= 10
