"""Subscriptions, sessions and retained messages at one broker, publishers at the other."""

import time
from contextlib import suppress
from queue import Empty
from typing import Final

from tests.interop.kinds.scenario import Seen
from tests.interop.kinds.site import Site
from tests.interop.mesh.pair import LOOK_S, QUIET_S, Pair, fate_of, numbered
from tests.interop.mqtt.paho_client import Paho
from tests.interop.proton.client import Receiver

TOPIC: Final = ("topic",)
GROUP: Final = ("topic", "shared", "global")
FOREVER_S: Final = 0xFFFFFFFF


def publish(site: Site, topic: str, *bodies: str) -> None:
    site.send(topic, *bodies, capabilities=TOPIC)


def subscribe(pair: Pair, site: Site, topic: str, name: str) -> Receiver:
    return pair.consumer(site, topic, container_id=f"client.{name}", capabilities=TOPIC, name=name, durable=True)


def subscribed_and_published_at_once(pair: Pair) -> Seen:
    """10 times: a client subscribes at b to a new topic; on the answer a message is published at a."""
    came = 0
    for number in range(10):
        subscriber = pair.consumer(pair.b, f"topic.new{number}", capabilities=TOPIC)
        publish(pair.a, f"topic.new{number}", "m0")
        came += pair.wait(lambda: subscriber.waiting > 0, subscriber.client)  # noqa: B023
        pair.leave(subscriber)
    return {"sent": 10, "came": came}


def order_of_one_publisher(pair: Pair) -> Seen:
    """Subscribers are at a and b; 100 messages are published at a."""
    subscribers = [pair.consumer(site, "topic.order", capabilities=TOPIC) for site in (pair.a, pair.b)]
    publish(pair.a, "topic.order", *numbered(100))
    _, elsewhere = (pair.take(subscriber, count=100) for subscriber in subscribers)
    return fate_of(numbered(100), elsewhere)


def durable_while_away(pair: Pair) -> Seen:
    """A durable subscriber at b leaves; 5 messages are published at a; it returns to b."""
    pair.leave(subscribe(pair, pair.b, "topic.away", "away"))
    publish(pair.a, "topic.away", *numbered(5))
    return fate_of(numbered(5), pair.take(subscribe(pair, pair.b, "topic.away", "away"), count=5))


def durable_at_the_other_broker(pair: Pair) -> Seen:
    """A durable subscriber at b leaves; 5 messages are published at a; it comes to a."""
    pair.leave(subscribe(pair, pair.b, "topic.moves", "moves"))
    publish(pair.a, "topic.moves", *numbered(5))
    return fate_of(numbered(5), pair.take(subscribe(pair, pair.a, "topic.moves", "moves"), count=5, sure=0))


def durable_that_went_back(pair: Pair) -> Seen:
    """The same; then 5 messages more are published at a, and it returns to b."""
    pair.leave(subscribe(pair, pair.b, "topic.back", "back"))
    publish(pair.a, "topic.back", *numbered(5))
    at_a = subscribe(pair, pair.a, "topic.back", "back")
    came = pair.take(at_a, count=5, sure=0)
    pair.leave(at_a)
    publish(pair.a, "topic.back", *numbered(5, "n"))
    came += pair.take(subscribe(pair, pair.b, "topic.back", "back"), count=10 - len(came))
    return fate_of([*numbered(5), *numbered(5, "n")], came, order=False)


def shared(pair: Pair) -> Seen:
    """Two consumers share a durable subscription, at a and at b; 20 messages are published at a."""
    members = [
        pair.consumer(site, "topic.shared", capabilities=GROUP, name="both", durable=True) for site in (pair.a, pair.b)
    ]
    publish(pair.a, "topic.shared", *numbered(20))
    return fate_of(numbered(20), pair.take(*members, count=20), order=False)


def shared_that_moves(pair: Pair) -> Seen:
    """A shared durable subscription has a consumer at a, which leaves; 10 messages at a; a consumer comes to b."""
    pair.leave(pair.consumer(pair.a, "topic.shared2", capabilities=GROUP, name="moving", durable=True))
    publish(pair.a, "topic.shared2", *numbered(10))
    member = pair.consumer(pair.b, "topic.shared2", capabilities=GROUP, name="moving", durable=True)
    return fate_of(numbered(10), pair.take(member, count=10), order=False)


def mqtt(pair: Pair) -> Seen:
    """An MQTT client subscribes at b with QoS 2; on the answer 20 messages are published at a."""
    with pair.b.paho("mqtt-elsewhere") as subscriber, pair.a.paho("mqtt-publisher") as publisher:
        subscriber.subscribe("topic/mqtt", 2)
        for body in numbered(20):
            publisher.publish("topic/mqtt", body, 2)
        return fate_of(numbered(20), _payloads(pair, subscriber, count=20))


def mqtt_session_while_away(pair: Pair) -> Seen:
    """An MQTT session is at b, its client away; 5 messages are published at a; the client returns to b."""
    _begin_session(pair.b, "mqtt-away", "topic/mqtt2")
    with pair.a.paho("mqtt-publisher") as publisher:
        for body in numbered(5):
            publisher.publish("topic/mqtt2", body, 1)
    with pair.b.paho("mqtt-away", clean=False, expiry_s=FOREVER_S) as client:
        return fate_of(numbered(5), _payloads(pair, client, count=5)) | {"session present": client.session_present}


def mqtt_session_at_the_other_broker(pair: Pair) -> Seen:
    """An MQTT session is at b, its client away; 5 messages are published at a; the client comes to a."""
    _begin_session(pair.b, "mqtt-moves", "topic/mqtt3")
    with pair.a.paho("mqtt-publisher") as publisher:
        for body in numbered(5):
            publisher.publish("topic/mqtt3", body, 1)
    with pair.a.paho("mqtt-moves", clean=False, expiry_s=FOREVER_S) as client:
        return fate_of(numbered(5), _payloads(pair, client, count=5, sure=0)) | {
            "session present": client.session_present
        }


def mqtt_shared(pair: Pair) -> Seen:
    """Two MQTT clients share a subscription, at a and at b; 20 messages are published at a."""
    with pair.a.paho("mqtt-s1") as one, pair.b.paho("mqtt-s2") as other, pair.a.paho("mqtt-publisher") as publisher:
        for client in (one, other):
            client.subscribe("$share/g/topic/mqtt4", 1)
        for body in numbered(20):
            publisher.publish("topic/mqtt4", body, 1)
        return fate_of(numbered(20), _payloads(pair, one, other, count=20), order=False)


def retained(pair: Pair) -> Seen:
    """A message is retained at a; an MQTT client subscribes at b afterwards."""
    with pair.a.paho("mqtt-publisher") as publisher:
        publisher.publish("topic/kept", "m0", 1, retain=True)
    with pair.b.paho("mqtt-late") as client:
        client.subscribe("topic/kept", 1)
        return fate_of(["m0"], _payloads(pair, client, count=1))


def retained_with_a_subscriber(pair: Pair) -> Seen:
    """An MQTT client has subscribed at b, and a message is retained at a; then another client subscribes at b."""
    with pair.b.paho("mqtt-early") as early, pair.a.paho("mqtt-publisher") as publisher:
        early.subscribe("topic/kept2", 1)
        publisher.publish("topic/kept2", "m0", 1, retain=True)
        first = len(_payloads(pair, early, count=1))
        with pair.b.paho("mqtt-late") as client:
            client.subscribe("topic/kept2", 1)
            return {"the first": first, "the second": len(_payloads(pair, client, count=1))}


def retained_and_cleared(pair: Pair) -> Seen:
    """The same, and the message is cleared at a; then another client subscribes at b."""
    with pair.b.paho("mqtt-early") as early, pair.a.paho("mqtt-publisher") as publisher:
        early.subscribe("topic/kept3", 1)
        publisher.publish("topic/kept3", "m0", 1, retain=True)
        publisher.publish("topic/kept3", "", 1, retain=True)
        first = len([payload for payload in _payloads(pair, early, count=2) if payload])
        with pair.b.paho("mqtt-late") as client:
            client.subscribe("topic/kept3", 1)
            return {"the first": first, "the second": len(_payloads(pair, client, count=1, sure=0))}


def _begin_session(site: Site, client_id: str, topic: str) -> None:
    with site.paho(client_id, clean=False, expiry_s=FOREVER_S) as client:
        client.subscribe(topic, 2)


def _payloads(pair: Pair, *clients: Paho, count: int, sure: int | None = None) -> list[str]:
    """What comes to clients, as `Pair.take` takes it: so many, or until nothing comes."""
    payloads: list[str] = []

    def deadline() -> float:
        has_to_come = len(payloads) < (count if sure is None else sure)
        return time.monotonic() + (pair.patience_s if has_to_come else QUIET_S)

    until = deadline()
    while len(payloads) < count and (rest := until - time.monotonic()) > 0:
        for client in clients:
            with suppress(Empty):
                payloads.append(client.inbox.get(timeout=LOOK_S if len(clients) > 1 else rest).payload.decode())
                until = deadline()
    return payloads
