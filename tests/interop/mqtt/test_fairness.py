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
ENOUGH: Final = 10
"""Rounds of the others while one asks for much. Without bounded turns they make one or two for each read of 256 KiB."""
ATTEMPTS: Final = 5
"""On a loaded machine the others may not get the processor while it lasts: one attempt has to show the rounds."""
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
    """A turn is bounded in what it does."""
    canary = Canary(own, what)

    assert most_rounds(lambda attempt: rounds_while(own, canary, what, f"{what}{attempt}")) >= ENOUGH


def most_rounds(rounds_of: Callable[[int], int]) -> int:
    """The most rounds of some attempts; the first that has enough is the last."""
    most = 0
    for attempt in range(ATTEMPTS):
        most = max(most, rounds_of(attempt))
        if most >= ENOUGH:
            break
    return most


def rounds_while(own: MqttServer, canary: Canary, what: str, name: str) -> int:
    """How many rounds the canary makes while one client asks for this."""
    client = Raw(own, MQTT_3_1_1)
    client.connect(f"{name}-greedy")
    match what:
        case "subscribe":
            octets = subscribes(name)
        case "unsubscribe":
            asked(client, subscribes(name))()
            octets = unsubscribes(name)
        case "topics":
            octets = b"".join(wire.publish(MQTT_3_1_1, f"{name}/{one}", b"x", 0, 0) for one in range(20_000))
        case _:
            reader = Raw(own, MQTT_3_1_1)
            reader.connect(f"{name}-reader")
            words = ["+" if one >> bit & 1 else "a" for one in range(512) for bit in range(9)]
            filters = [f"{name}/{'/'.join(words[9 * one : 9 * one + 9])}" for one in range(512)]
            wanted = tuple(Subscription(topic_filter=one, qos=0) for one in filters)
            asked(reader, wire.subscribe(MQTT_3_1_1, Subscribe(packet_id=1, subscriptions=wanted)))()
            octets = wire.publish(MQTT_3_1_1, f"{name}/{'/'.join('a' * 9)}", b"x", 0, 0) * 1000
    return canary.rounds_during(asked(client, octets))


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

    assert most_rounds(lambda attempt: canary.rounds_during(take_over)) >= ENOUGH
