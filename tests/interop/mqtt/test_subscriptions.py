"""Filters, options, shared subscriptions (MQTT 5.0 §3.8, §4.7, §4.8; MQTT 3.1.1 §3.8, §4.7)."""

from collections import Counter

import pytest

from tests.interop.mqtt import packets
from tests.interop.mqtt.packets import Property
from tests.interop.mqtt.raw import NO_LOCAL, Raw, kept, opened
from tests.interop.mqtt.server import IS_MOSQUITTO, MqttServer, unlike_mosquitto

VERSIONS = (3, 4, 5)

MATCHING = [
    ("a", "a", True),
    ("a", "a/b", False),
    ("a", "A", False),
    ("a/#", "a", True),
    ("a/#", "a/b/c", True),
    ("a/#", "ab", False),
    ("a/+", "a/b", True),
    ("a/+", "a", False),
    ("a/+", "a/", True),
    ("a/+", "a/b/c", False),
    ("a/+/c", "a/b/c", True),
    ("a/+/c", "a//c", True),
    ("+/b", "a/b", True),
    ("+/b/#", "a/b", True),
    ("+/+", "/a", True),
    ("/+", "/a", True),
    ("/+", "a", False),
    ("a//+", "a//b", True),
    ("a.b", "a.b", True),
    ("a.b", "a/b", False),
    ("a/b", "a.b", False),
    ("a*b", "a*b", True),
    ("a/*", "a/b", False),
    ("a/*", "a/*", True),
    (" a", " a", True),
    (" a", "a", False),
    ("a/#", "a/$x", True),
    ("a/+/x", "a/$x/x", True),
    ("é/☃", "é/☃", True),
    ("é", "e\u0301", False),
    ("a\\b", "a\\b", True),
    ("a::b", "a::b", True),
    ("a,b;c", "a,b;c", True),
]


@pytest.mark.parametrize(("pattern", "topic", "matches"), MATCHING)
def test_filters(server: MqttServer, name: str, pattern: str, topic: str, matches: bool) -> None:
    """MQTT 5.0 §4.7: [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.3-4] [MQTT-3.3.2-3]; by any other spelling nothing
    arrives.
    """
    with opened(server) as client:
        client.subscribe(f"{name}/{pattern}", f"{name}-marker")
        client.publish(f"{name}/{topic}", b"m", 1)
        client.publish(f"{name}-marker", b"end", 1)
        topics: list[str] = []
        while not topics or topics[-1] != f"{name}-marker":
            topics.append(client.receive().topic)

        assert topics[:-1] == ([f"{name}/{topic}"] if matches else [])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("pattern", ["a/#/b", "a#", "#a", "a/b#", "a+", "+a/b", "a/b+/c", "a/++", ""])
def test_malformed_filters_are_refused(server: MqttServer, name: str, version: int, pattern: str) -> None:
    """[MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.3-1]: by a code or by closing, never by a subscription."""
    with Raw(server, version) as client:
        client.connect(f"c-{name}")
        client.send(packets.subscribe(version, 1, [(pattern, 0)]))
        last = client.wait_closed_or(packets.SUBACK)

        assert last is None or last.code >= 0x80


@unlike_mosquitto("takes some of them for plain topics")
@pytest.mark.parametrize("pattern", ["$share/", "$share/group", "$share//a", "$share/gr+up/a", "$share/gr#up/a"])
def test_malformed_shared_filters_are_refused(server: MqttServer, name: str, pattern: str) -> None:
    """[MQTT-4.8.2-1] [MQTT-4.8.2-2]."""
    with Raw(server) as client:
        client.connect(f"c-{name}")
        client.send(packets.subscribe(5, 1, [(pattern, 0)]))
        last = client.wait_closed_or(packets.SUBACK)

        assert last is None or last.code >= 0x80


@pytest.mark.parametrize("pattern", ["#", "+/{}", "+/#"])
def test_wildcards_at_the_front_match_no_dollar_topics(server: MqttServer, name: str, pattern: str) -> None:
    """[MQTT-4.7.2-1] [MQTT-3.1.1/4.7.2-1]: whether or not a client may publish there."""
    with opened(server) as watcher, Raw(server) as publisher:
        watcher.subscribe(pattern.format(name))
        publisher.connect()
        publisher.send(packets.publish(5, f"$hidden/{name}", b"no"))
        publisher.drop()
        with opened(server) as client:
            client.publish(f"{name}/{name}", b"end", 1)
        topics = [""]
        while topics[-1] != f"{name}/{name}":
            topics.append(watcher.receive().topic)

        assert not any(topic.startswith("$") for topic in topics)


@pytest.mark.parametrize("version", VERSIONS)
def test_answer_has_a_code_per_filter_in_order(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.8.4-5] [MQTT-3.8.4-6] [MQTT-3.9.3-1] [MQTT-3.1.1/3.8.4-5]."""
    with opened(server, version=version) as client:
        client.send(packets.subscribe(version, 77, [(f"{name}/2", 2), (f"{name}/0", 0), (f"{name}/1", 1)]))
        suback = client.expect(packets.SUBACK)

        assert (suback.packet_id, suback.codes) == (77, (2, 0, 1))


@pytest.mark.parametrize("version", VERSIONS)
def test_subscribing_again_replaces(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.8.4-3] [MQTT-3.1.1/3.8.4-3]: one copy of each message, at the new QoS, and none is lost."""
    with opened(server, version=version) as client:
        client.subscribe(name, options=0)
        client.publish(name, b"1", 2)
        client.subscribe(name, options=2)
        client.publish(name, b"2", 2)
        messages = [client.receive(), client.receive()]

        assert [(message.payload, message.qos) for message in messages] == [(b"1", 0), (b"2", 2)]
        assert client.waiting() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_overlapping_subscriptions_give_the_highest_qos(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.3.4-2] [MQTT-3.1.1/3.3.5-1]: one copy, or one per subscription."""
    if IS_MOSQUITTO and version < 5:
        pytest.skip("mosquitto 2.0.11 takes the QoS of the first match")
    with opened(server, version=version) as client:
        client.subscribe(f"{name}/#", options=0)
        client.subscribe(f"{name}/+", options=2)
        client.subscribe(f"{name}/a", options=1)
        client.publish(f"{name}/a", b"m", 2)
        found = [client.receive()]
        client.ping()
        while client.inbox:
            found.append(client.receive())

        assert max(message.qos for message in found) == 2
        assert len(found) in (1, 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_unsubscribe_ends_one_subscription(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.10.4-1] [MQTT-3.10.4-2] [MQTT-3.10.4-6]: by its exact filter."""
    with opened(server, version=version) as client:
        client.subscribe(f"{name}/a", f"{name}/b", f"{name}/+/c")
        codes = client.unsubscribe(f"{name}/a", f"{name}/#")
        for topic in ("a", "b", "x/c"):
            client.publish(f"{name}/{topic}", topic, 1)

        assert codes == ((0x00, 0x11) if version == 5 else ())
        assert client.receive_all(2) == [b"b", b"x/c"]


def test_unsubscribe_lets_what_was_sent_be_completed(server: MqttServer, name: str) -> None:
    """[MQTT-3.10.4-3]: the QoS 2 exchange that has begun goes on."""
    with opened(server) as client:
        client.subscribe(name, options=2)
        client.publish(name, b"m", 2)
        message = client.receive(acknowledge=False)
        client.unsubscribe(name)
        client.send(packets.answer(packets.PUBREC, message.packet_id))

        assert client.expect(packets.PUBREL).packet_id == message.packet_id
        client.send(packets.answer(packets.PUBCOMP, message.packet_id))
        client.ping()


def test_no_local_keeps_own_messages_away(server: MqttServer, name: str) -> None:
    """[MQTT-3.8.3-3]: from this client id, whatever the connection."""
    with kept(server, f"c-{name}") as first, opened(server) as other:
        first.subscribe(name, options=NO_LOCAL | 1)
        first.publish(name, b"own", 1)
        other.publish(name, b"other's", 1)
        assert first.receive_all(1) == [b"other's"]
        first.disconnect()
        with kept(server, f"c-{name}") as again:
            again.publish(name, b"own, again", 1)
            other.publish(name, b"other's, again", 1)

            assert again.receive_all(1) == [b"other's, again"]


@unlike_mosquitto("ignores the option")
def test_no_local_on_a_shared_subscription_is_an_error(server: MqttServer, name: str) -> None:
    """[MQTT-3.8.3-4]."""
    with opened(server) as client:
        client.send(packets.subscribe(5, 1, [(f"$share/g/{name}", NO_LOCAL)]))
        goodbye = client.wait_closed()

        assert goodbye is not None
        assert goodbye.code == 0x82


def test_subscription_identifiers_come_with_the_messages(server: MqttServer, name: str) -> None:
    """[MQTT-3.3.4-3] [MQTT-3.3.4-4]: together, or one on each copy."""
    with opened(server) as client:
        client.subscribe(f"{name}/a", given=[(Property.SUBSCRIPTION_ID, 1)])
        client.subscribe(f"{name}/#", given=[(Property.SUBSCRIPTION_ID, 268_435_455)])
        client.subscribe(f"{name}/b")
        client.publish(f"{name}/a", b"m", 1)
        found = client.receive().all(Property.SUBSCRIPTION_ID)
        client.ping()
        while client.inbox:
            found += client.receive().all(Property.SUBSCRIPTION_ID)

        assert sorted(map(repr, found)) == ["1", "268435455"]


def test_subscription_identifier_is_replaced(server: MqttServer, name: str) -> None:
    """[MQTT-3.8.4-3]: a subscription made again without one has none."""
    with opened(server) as client:
        seen = []
        for given in ([(Property.SUBSCRIPTION_ID, 5)], [(Property.SUBSCRIPTION_ID, 6)], []):
            client.subscribe(name, given=given)
            client.publish(name, b"m", 1)
            seen.append(client.receive().all(Property.SUBSCRIPTION_ID))

        assert seen == [[5], [6], []]


def test_subscription_identifier_is_kept_with_the_session(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §4.1: part of the session state."""
    with kept(server, f"c-{name}") as first:
        first.subscribe(name, options=1, given=[(Property.SUBSCRIPTION_ID, 7)])
        first.disconnect()
    with opened(server) as publisher:
        publisher.publish(name, b"m", 1)
    with kept(server, f"c-{name}") as again:
        assert again.receive().all(Property.SUBSCRIPTION_ID) == [7]


def test_subscription_identifier_comes_with_retained_messages(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.8.2.1.2: the message is sent because of the subscription."""
    with opened(server) as client:
        client.publish(name, b"m", 1, retain=True)
        client.subscribe(name, given=[(Property.SUBSCRIPTION_ID, 9)])

        assert client.receive().all(Property.SUBSCRIPTION_ID) == [9]


def test_shared_subscription_gives_each_message_to_one_member(server: MqttServer, name: str) -> None:
    """[MQTT-4.8.2-3]: every message once, and both members get some; a plain subscriber gets all."""
    with opened(server) as one, opened(server) as two, opened(server) as plain, opened(server) as publisher:
        for member in (one, two):
            assert member.subscribe(f"$share/group/{name}", options=1) == (1,)
        plain.subscribe(name, options=1)
        for number in range(20):
            publisher.publish(name, str(number), 1)
        assert plain.receive_all(20) == [str(number).encode() for number in range(20)]
        shares: list[list[bytes]] = []
        for member in (one, two):
            member.ping()
            share = []
            while member.inbox:
                share.append(member.receive().payload)
            shares.append(share)

        assert Counter(shares[0] + shares[1]) == Counter(str(number).encode() for number in range(20))
        assert all(shares)


def test_groups_are_independent(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §4.8.2: each share name of a filter gets every message; the name is shared by all clients."""
    with opened(server) as one, opened(server) as two, opened(server) as publisher:
        one.subscribe(f"$share/one/{name}/+", options=1)
        two.subscribe(f"$share/two/{name}/+", options=1)
        publisher.publish(f"{name}/a", b"m", 1)

        assert one.receive_all(1) == [b"m"]
        assert two.receive_all(1) == [b"m"]


def test_plain_and_shared_subscription_of_one_session_do_not_disturb(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §4.8.2: they are two subscriptions; unsubscribing one leaves the other."""
    with opened(server) as client, opened(server) as publisher:
        client.subscribe(f"$share/group/{name}", options=1)
        client.subscribe(name, options=1)
        publisher.publish(name, b"both", 1)
        both = client.receive_all(2)
        client.unsubscribe(name)
        publisher.publish(name, b"shared", 1)

        assert both == [b"both", b"both"]
        assert client.receive_all(1) == [b"shared"]


@unlike_mosquitto("sends them")
def test_shared_subscription_gets_no_retained_messages(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §4.8.2: retained messages are not sent when it is made."""
    with opened(server) as client:
        client.publish(name, b"m", 1, retain=True)
        client.subscribe(f"$share/group/{name}", options=1)

        assert client.waiting() == []


@unlike_mosquitto("forgets it")
def test_unacknowledged_message_of_a_lost_member_goes_to_another(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §4.8.2: at QoS 1 the server may, when the session is over, and then should."""
    with opened(server) as publisher, opened(server) as other:
        lost = opened(server)
        lost.subscribe(f"$share/group/{name}", options=1)
        publisher.publish(name, b"1", 1)
        publisher.publish(name, b"2", 1)
        lost.receive(acknowledge=False)
        other.subscribe(f"$share/group/{name}", options=1)
        lost.drop()

        assert sorted(other.receive().payload for _ in range(2)) == [b"1", b"2"]


def test_qos_2_message_stays_with_the_chosen_member(server: MqttServer, name: str) -> None:
    """[MQTT-4.8.2-4] [MQTT-4.8.2-5]: it is completed when that client is back, and given to nobody else."""
    with opened(server) as publisher, opened(server) as other:
        chosen = kept(server, f"c-{name}")
        chosen.subscribe(f"$share/group/{name}", options=2)
        publisher.publish(name, b"m", 2)
        message = chosen.receive(acknowledge=False)
        other.subscribe(f"$share/group/{name}", options=2)
        chosen.drop()
        assert other.waiting() == []
        with kept(server, f"c-{name}") as again:
            repeated = again.receive()

            assert (repeated.packet_id, repeated.payload, repeated.dup) == (message.packet_id, b"m", True)
            assert other.waiting() == []


def test_shared_message_refused_by_its_receiver_is_discarded(server: MqttServer, name: str) -> None:
    """[MQTT-4.8.2-6]."""
    with opened(server) as refusing, opened(server) as publisher:
        refusing.subscribe(f"$share/group/{name}", options=1)
        publisher.publish(name, b"m", 1)
        message = refusing.receive(acknowledge=False)
        with opened(server) as other:
            other.subscribe(f"$share/group/{name}", options=1)
            refusing.send(packets.answer(packets.PUBACK, message.packet_id, 0x80))
            refusing.ping()
            refusing.drop()

            assert other.waiting() == []


def test_publisher_is_told_that_nobody_listens(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.4.2.1: 0x10 is what the server may say; success is right too."""
    with opened(server) as client:
        assert client.publish(name, b"m", 1) in (0x00, 0x10)
        assert client.publish(name, b"m", 2) in (0x00, 0x10)
