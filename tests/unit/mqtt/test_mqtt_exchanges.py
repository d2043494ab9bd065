"""Topics that go through an exchange, on acceptors with `mqttExchange` (qpid-exchanges §16.5)."""

from pathlib import Path
from typing import Any

import pytest

from artemis_mqtt.broker.addressing import InvalidTopic, from_key, to_key
from artemis_mqtt.engine import reasons
from artemis_mqtt.engine.packets import MQTT_5, Unsubscribe, Will
from artemis_mqtt.engine.properties import Properties
from artemis_py.core.runtime.access import Permission, Subject
from tests import mqtt_harness as wire
from tests.core_harness import make_message
from tests.mqtt_site import Client, Site, connected, lasting
from tests.unit.core.exchange_world import bind, make_exchange, make_queues, publish

TOPICS = [
    ("a/b/c", "a.b.c"),
    ("sensors/+/#", "sensors.*.#"),
    ("a.b/c", "a/b.c"),
    ("a/*", "a.+"),
    ("/a//b/", ".a..b."),
    ("a", "a"),
]


@pytest.mark.parametrize(("topic", "key"), TOPICS)
def test_a_topic_is_a_routing_key(topic: str, key: str) -> None:
    """One to one, so two topics never become one."""
    assert to_key(topic) == key
    if not set("+#") & set(topic):
        assert from_key(key) == topic


@pytest.mark.parametrize("key", ["", "a.*", "a.#", "a\0"])
def test_a_routing_key_that_is_no_topic(key: str) -> None:
    """Nobody can be sent it."""
    with pytest.raises(InvalidTopic, match="cannot be an MQTT topic"):
        from_key(key)


class Forbidden:
    """Everybody may do everything but these."""

    def __init__(self, *forbidden: tuple[Permission, str]) -> None:
        self.forbidden = forbidden

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return (permission, address) not in self.forbidden


def through(
    site: Site, name: str = "c", version: int = MQTT_5, exchange: str = "amq.topic", expiry_s: int = 0, **fields: Any
) -> Client:
    """A client whose topics go through an exchange; with an expiry its session outlives it."""
    client = Client(site, version, mqttExchange=exchange)
    if expiry_s:
        fields |= {"clean_start": False, "properties": Properties(session_expiry_interval=expiry_s)}
    assert client.connect(name, **fields).reason == 0
    return client


def received(client: Client) -> list[tuple[str, bytes]]:
    """Topics and bodies of what a client got."""
    return [(each[1], each[2]) for each in client.packets() if isinstance(each, tuple) and each[0] == "publish"]


@pytest.mark.parametrize("version", [4, MQTT_5])
@pytest.mark.parametrize("qos", [0, 1])
def test_clients_reach_each_other_and_bound_queues(version: int, qos: int) -> None:
    """A level is a word of the routing key. Topics come back as they were, of other clients' keys as well."""
    site = Site()
    make_queues(site.domain, "q")
    bind(site.domain, "amq.topic", "plant.*.state", "q")
    reader = through(site, "reader", version)
    reader.subscribe("plant/+/state", qos)
    other = through(site, "other", version)
    other.subscribe("plant/#", qos)
    writer = through(site, "writer", version)

    for number, topic in enumerate(("plant/one/state", "plant/t.w/o/state", "plant/t.w/state")):
        writer.publish(topic, b"%d" % number, qos, number + 1 if qos else 0)
    publish(site.domain, "amq.topic", "plant.three.state", make_message("text"))

    assert received(reader) == [("plant/one/state", b"0"), ("plant/t.w/state", b"2"), ("plant/three/state", b"text")]
    assert [topic for topic, _ in received(other)] == [
        "plant/one/state",
        "plant/t.w/o/state",
        "plant/t.w/state",
        "plant/three/state",
    ]
    assert site.domain.queue("q").message_count == 3
    assert "plant.one.state" not in site.domain.addresses


def test_other_acceptors_are_not_affected() -> None:
    """There `amq/topic` is the address `amq.topic`, and topics are addresses."""
    site = Site()
    plain, asking = connected(site, "plain"), through(site, "asking")
    plain.subscribe("#")
    asking.subscribe("#")
    plain.publish("amq/topic", b"1")
    plain.publish("a/b", b"2")
    asking.publish("a/b", b"3")

    assert received(plain) == [("amq/topic", b"1"), ("a/b", b"2")]
    assert received(asking) == [("a/b", b"3")]


def test_one_message_has_a_topic_for_each_kind_of_subscription() -> None:
    """The queue of a plain subscription may be bound as any other; it knows no topic but the name of the exchange."""
    site = Site()
    plain, asking, second = connected(site, "plain"), through(site, "asking"), through(site, "second")
    plain.subscribe("x")
    bind(site.domain, "amq.topic", "#", "plain.x")
    for client in (asking, second):
        client.subscribe("a/b")
    asking.publish("a/b")

    assert received(plain) == [("amq/topic", b"m")]
    assert received(asking) == received(second) == [("a/b", b"m")]


def test_topics_of_the_broker_are_no_routing_keys() -> None:
    """Those that begin with a dollar sign."""
    site = Site()
    client = through(site)
    client.subscribe("$internal/x")
    client.subscribe("#")
    client.publish("$internal/x", b"m")

    assert received(client) == [("$internal/x", b"m")]


def test_a_session_keeps_its_subscriptions(tmp_path: Path) -> None:
    """While its client is away, and over a restart; wherever it comes back, its topics are routing keys."""
    with Site(tmp_path) as site:
        client = through(site, expiry_s=1000)
        client.subscribe("a/+", 1)
        client.lose()
        through(site, "writer").publish("a/b", b"1", 1, 1)
        site.commit()
    with Site(tmp_path) as site:
        through(site, "writer").publish("a/c", b"2", 1, 1)
        site.commit()
        client = lasting(site, "c")

        assert received(client) == [("a/b", b"1"), ("a/c", b"2")]
        client.send(wire.unsubscribe(client.version, Unsubscribe(packet_id=1, topic_filters=("a/+",))))
        client.packets()
        assert not [name for name in site.domain.queues if "a." in name]
        assert not [name for name in site.domain.addresses if "a." in name]
        assert not site.domain.exchanges.exchange("amq.topic").bindings


def test_nothing_is_left_of_a_session_that_ends() -> None:
    """No queue, no binding, and not the address that the queue had for itself, whose name had no wildcards."""
    site = Site()
    client = through(site)
    client.subscribe("a/+/#")
    assert set(site.domain.addresses) == {r"amq.topic.c.a.\*.\#"}
    connected(site, "plain").publish("amq/topic/c/a/x/y")
    assert received(client) == []

    client.leave()
    site.turn()

    assert set(site.domain.queues) == set()
    assert set(site.domain.addresses) == {"amq.topic.c.a.x.y"}
    assert not site.domain.exchanges.exchange("amq.topic").bindings


def test_groups_share_what_comes_through_the_exchange() -> None:
    """Each message goes to one member."""
    site = Site()
    one, two = through(site, "one"), through(site, "two")
    for client in (one, two):
        assert client.subscribe("$share/g/a/#", 0) == (0,)
    for number in range(4):
        one.publish("a/b", b"%d" % number)

    assert sorted(received(one) + received(two)) == [("a/b", b"%d" % number) for number in range(4)]


def test_retained_messages_are_kept_by_topic() -> None:
    """For later subscribers on both kinds of acceptors; an empty one removes it."""
    site = Site()
    writer = through(site, "writer")
    writer.publish("a/b", b"old", retain=True)
    writer.publish("a/b", b"new", retain=True)
    writer.publish("a/c", b"gone", retain=True)
    writer.publish("a/c", b"", retain=True)
    late, plain = through(site, "late"), connected(site, "plain")
    for client in (late, plain):
        client.subscribe("a/+")

        assert received(client) == [("a/b", b"new")]
    assert site.services.retained.count == 1


@pytest.mark.parametrize("delay_s", [0, 10])
def test_a_will_goes_through_the_exchange(tmp_path: Path, delay_s: int) -> None:
    """Also if it is published after a restart."""
    with Site(tmp_path) as site:
        properties = Properties(will_delay_interval=delay_s)
        will = Will(topic="a/will", payload=b"bye", qos=1, retain=False, properties=properties)
        client = through(site, expiry_s=1000, will=will)
        make_queues(site.domain, "q")
        bind(site.domain, "amq.topic", "a.will", "q")
        site.commit()
        client.lose()
        site.commit()
        assert site.domain.queue("q").message_count == (not delay_s)
    with Site(tmp_path) as site:
        site.pass_time(20)
        assert site.domain.queue("q").message_count == 1
        assert "a.will" not in site.domain.addresses


def test_permissions_are_those_of_the_exchange() -> None:
    """Subscribing to it needs consume, and publishing send."""
    site = Site(access=Forbidden((Permission.CONSUME, "amq.topic"), (Permission.SEND, "e")))
    make_exchange(site.domain, "e", "topic")

    assert through(site).subscribe("a") == (reasons.NOT_AUTHORIZED,)
    client = through(site, "d", exchange="e")
    assert client.subscribe("a") == (0,)
    client.publish("a", b"m", 1, 1)
    assert client.packets() == [("puback", 1, reasons.NOT_AUTHORIZED)]


@pytest.mark.parametrize("exchange", ["amq.direct", "none"])
def test_another_exchange_than_a_topic_exchange_is_refused(exchange: str) -> None:
    """Binding keys would be no patterns there."""
    site = Site()
    client = through(site, exchange=exchange)

    assert client.subscribe("a") == (reasons.TOPIC_FILTER_INVALID,)
    client.publish("a", b"m", 1, 1)
    assert client.packets() == [("puback", 1, reasons.TOPIC_NAME_INVALID)]
    assert not site.domain.queues
