"""Subscriptions: their queues, options, retained messages, groups, and what permissions say."""

from pathlib import Path

import pytest

from artemis_mqtt.broker.subscriptions import RETAINED_AHEAD, RETAINED_SLICE
from artemis_mqtt.engine.packets import Connect, Unsubscribe, Will
from artemis_mqtt.engine.properties import Properties
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT, PlainFormat, plain_message
from artemis_py.core.messages.large_body import LOADED_BODY_LIMIT_BYTES, LargeBody, LargeReader
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.services.retained import Newcomer, RetainedWatcher
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import StoreError
from tests import mqtt_harness as wire
from tests.mqtt_site import Client, Site, connected, lasting

PUBACK = 4

RETAINED_BY_AN_OLDER_BUILD = (
    (
        b"\0\0\0\0\0F0\xc0\x01\x04\0\x04\0\x11\0\x08\0\0\0\x18mqttplant.temperaturesensor-7"
        b"\x05\x03\0\ntext/plain&\0\x04unit\0\x01C21.5"
    ),
    b"\0\0\0\0\0\0\0\0\0\x04\0\x04\0\x0b\0\x08\0\0\0\x01mqttplant.statesensor-7\x04low \xff",
)


class Forbidden:
    """Everybody may do everything but these."""

    def __init__(self, *forbidden: tuple[Permission, str]) -> None:
        self.forbidden = forbidden

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return (permission, address) not in self.forbidden


def bodies(client: Client) -> list[bytes]:
    return [packet[2] for packet in client.packets() if isinstance(packet, tuple) and packet[0] == "publish"]


# -- queues ------------------------------------------------------------------------------------------------------


def test_queues_are_named_as_in_artemis() -> None:
    """artemis-model §4.2.2: client identifier or group, then the address."""
    site = Site()
    client = lasting(site, "c")

    client.subscribe("a/+/#", 1)
    client.subscribe("$share/g/x.y", 1)

    assert {name: queue.address.name for name, queue in site.domain.queues.items()} == {
        "c.a.*.#": "a.*.#",
        "g.x\\.y": "x\\.y",
    }


def test_two_clients_never_share_a_queue_by_their_names() -> None:
    """Client `a` on `b/c` and client `a.b` on `c` would meet in `a.b.c`; group `g` and client `g` in `g.t`."""
    site = Site()
    first, second, third = connected(site, "a"), connected(site, "a.b"), connected(site, "g")
    first.subscribe("b/c")
    second.subscribe("c")
    second.subscribe("$share/g/t", 1)
    third.subscribe("t", 1)
    publisher = connected(site, "p")
    publisher.publish("b/c", b"one")
    publisher.publish("c", b"two")
    publisher.publish("t", b"three", 1, 1)

    assert (bodies(first), bodies(second), bodies(third)) == ([b"one"], [b"two", b"three"], [b"three"])


def test_the_queue_goes_with_the_subscription() -> None:
    """[MQTT-3.10.4-1] [MQTT-3.10.4-2]; a filter that was never subscribed is said to be so (MQTT 5.0 §3.11.3)."""
    site = Site()
    client = connected(site, "c")
    client.subscribe("t", 1)

    client.send(wire.unsubscribe(5, Unsubscribe(packet_id=5, topic_filters=("t", "other"))))

    (answer,) = client.packets()
    assert answer.reasons == (0, 0x11)
    assert not site.domain.queues


def test_a_queue_on_an_anycast_address_is_consumed_and_stays() -> None:
    """artemis-model §4.2.3."""
    site = Site()
    site.domain.create_address("q", frozenset((RoutingType.ANYCAST,)))
    site.domain.create_queue(QueueConfig(name="q", address="q", routing_type=RoutingType.ANYCAST))
    client = connected(site, "c")
    client.subscribe("q", 1)
    connected(site, "p").publish("q", b"m", 1, 1)

    got = bodies(client)
    client.leave()

    assert got == [b"m"]
    assert "q" in site.domain.queues


def test_a_deleted_queue_ends_the_connection() -> None:
    """A client that is not subscribed any more must know it (artemis-model §4.5)."""
    site = Site()
    client = connected(site, "c")
    client.subscribe("t", 1)

    site.domain.delete_queue("c.t", force=True)

    (goodbye,) = client.packets()
    assert goodbye.reason == 0x98


def test_subscriptions_of_a_session_are_limited() -> None:
    """0x97, and those that are there go on."""
    site = Site()
    client = Client(site, mqttMaxSubscriptions="1")
    client.connect("c")

    assert client.subscribe("a") == (0,)
    assert client.subscribe("b") == (0x97,)
    assert client.subscribe("a", 1) == (1,)


# -- options -----------------------------------------------------------------------------------------------------


def test_no_local_leaves_out_what_the_client_sent() -> None:
    """[MQTT-3.8.3-3]."""
    site = Site()
    client, other = connected(site, "it's"), connected(site, "other")
    client.subscribe("t", 1, no_local=True)
    client.publish("t", b"own")
    other.publish("t", b"other")

    assert bodies(client) == [b"other"]


def test_retain_as_published_keeps_the_flag() -> None:
    """[MQTT-3.3.1-12] [MQTT-3.3.1-13]."""
    site = Site()
    client = connected(site, "c")
    client.subscribe("a", retain_as_published=True)
    client.subscribe("b")
    publisher = connected(site, "p")
    publisher.publish("a", b"a", retain=True)
    publisher.publish("b", b"b", retain=True)

    assert [(packet[2], packet[5]) for packet in client.packets()] == [(b"a", True), (b"b", False)]


def test_every_subscription_delivers_with_its_own_identifier() -> None:
    """[MQTT-3.3.4-3] [MQTT-3.3.4-5]: overlapping subscriptions deliver one each."""
    site = Site()
    client = connected(site, "c")
    client.subscribe("a/#", 0, Properties(subscription_identifiers=(7,)))
    client.subscribe("a/b", 0, Properties(subscription_identifiers=(300,)))
    connected(site, "p").publish("a/b")

    assert sorted(packet[7].subscription_identifiers for packet in client.packets()) == [(7,), (300,)]


def test_changing_the_qos_of_a_subscription_loses_nothing() -> None:
    """[MQTT-3.8.4-3]: from 1 to 0 while deliveries are under way, and back."""
    site = Site()
    client = connected(site, "c")
    client.subscribe("t", 1)
    publisher = connected(site, "p")
    publisher.publish("t", b"one", 1, 1)
    (first,) = client.packets()
    client.subscribe("t", 0)
    publisher.publish("t", b"two", 1, 2)
    (second,) = client.packets()
    client.subscribe("t", 1)
    client.ack(PUBACK, first[4])
    publisher.publish("t", b"three", 1, 3)
    (third,) = client.packets()
    client.ack(PUBACK, third[4])

    assert [(packet[2], packet[3]) for packet in (first, second, third)] == [(b"one", 1), (b"two", 0), (b"three", 1)]
    assert site.domain.queue("c.t").message_count == 0


# -- wildcards and $ -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic_filter", ["#", "+/x"])
def test_a_leading_wildcard_does_not_cover_dollar_topics(topic_filter: str) -> None:
    """[MQTT-4.7.2-1]: live and retained."""
    site = Site()
    publisher = connected(site, "p")
    publisher.publish("$app/x", b"retained", retain=True)
    client, named = connected(site, "c"), connected(site, "n")
    client.subscribe(topic_filter)
    named.subscribe("$app/#")
    publisher.publish("$app/x", b"live")
    site.pass_time(1)

    assert bodies(client) == []
    assert sorted(bodies(named)) == [b"live", b"retained"]


# -- retained ------------------------------------------------------------------------------------------------------


def test_retained_messages_by_retain_handling() -> None:
    """[MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11]: always, for a new subscription, never; flagged as retained."""
    site = Site()
    connected(site, "p").publish("t", b"m", 1, 1, retain=True)
    client = connected(site, "c")
    got = []
    for handling in (2, 1, 0, 1):
        client.subscribe("t", 1, retain_handling=handling)
        got.append([(packet[2], packet[5]) for packet in client.packets()])
        if got[-1]:
            client.ack(PUBACK, 1)
    other = connected(site, "o")
    other.subscribe("t", 0, retain_handling=1)

    assert got == [[], [], [(b"m", True)], []]
    assert [(packet[2], packet[3], packet[5]) for packet in other.packets()] == [(b"m", 0, True)]


class Others(RetainedWatcher):
    """Other brokers, whose messages the test tells."""

    def __init__(self) -> None:
        self.newcomers: list[Newcomer] = []

    def kept(self, topic: str) -> None:
        pass

    def removed(self, topic: str) -> None:
        pass

    def expired(self, topic: str) -> None:
        pass

    def introduce(self, newcomer: Newcomer) -> bool:
        self.newcomers.append(newcomer)
        return True


def test_retained_messages_of_other_brokers_are_waited_for() -> None:
    """Those of topics that have come as they were published are left out; later ones are given as retained too."""
    site = Site()
    others = site.services.retained.watcher = Others()
    publisher = connected(site, "p")
    for topic in ("a", "b"):
        publisher.publish(f"t/{topic}", b"old", 1, 1, retain=True)
    client = connected(site, "c")
    client.subscribe("t/+", 1)
    publisher.publish("t/a", b"new", 0, retain=True)
    assert [(packet[2], packet[5]) for packet in client.packets()] == [(b"new", False)]
    (newcomer,) = others.newcomers
    newcomer.look_up({"t.a"})
    site.turn()
    assert [(packet[2], packet[5]) for packet in client.packets()] == [(b"old", True)]
    message = site.services.retained.get("t.b")
    assert message is not None
    newcomer.give(message)
    site.turn()

    assert newcomer.pattern == "t.*"
    assert [(packet[2], packet[5]) for packet in client.packets()] == [(b"old", True)]


def test_client_that_has_unsubscribed_gets_no_retained_messages_of_other_brokers() -> None:
    """Its subscription is over, also if it has another one to the same filter."""
    site = Site()
    others = site.services.retained.watcher = Others()
    publisher = connected(site, "p")
    publisher.publish("t", b"m", 1, 1, retain=True)
    client = connected(site, "c")
    client.subscribe("t", 1)
    client.send(wire.unsubscribe(client.version, Unsubscribe(packet_id=9, topic_filters=("t",))))
    client.subscribe("t", 1)
    client.packets()
    first, second = others.newcomers
    first.look_up(())
    message = site.services.retained.get("t")
    assert message is not None
    first.give(message)
    site.turn()
    assert bodies(client) == []
    second.look_up(())
    site.turn()

    assert bodies(client) == [b"m"]


def test_an_empty_payload_clears_what_was_retained() -> None:
    """[MQTT-3.3.1-6] [MQTT-3.3.1-7]; whoever is subscribed gets it as a message."""
    site = Site()
    publisher, watcher = connected(site, "p"), connected(site, "w")
    watcher.subscribe("t")
    publisher.publish("t", b"m", retain=True)
    publisher.publish("t", b"", retain=True)
    late = connected(site, "l")
    late.subscribe("#")

    assert bodies(watcher) == [b"m", b""]
    assert bodies(late) == []
    assert site.services.retained.count == 0


def test_what_an_older_build_retained_is_still_there(tmp_path: Path) -> None:
    """The octets are those that such a build wrote for two PUBLISH packets, of QoS 1 and 0."""
    with Site(tmp_path) as site:
        for number, record in enumerate(RETAINED_BY_AN_OLDER_BUILD, 1):
            site.domain.storage.save_record("retained", number.to_bytes(8, "big"), record)
        site.commit()

    for _ in range(2):  # read as it was written, and then as it is written now
        with Site(tmp_path) as site:
            client = connected(site, "late")
            client.subscribe("plant/#", 1)
            first, second = client.packets()
            site.commit()

            assert (first[1:3], first[3], first[5]) == (("plant/temperature", b"21.5"), 1, True)
            assert first[-1].user_properties == (("unit", "C"),)
            assert (first[-1].content_type, first[-1].message_expiry_interval) == ("text/plain", 3600)
            assert (second[1:3], second[3], second[5]) == (("plant/state", b"low \xff"), 0, True)


def test_retained_messages_are_limited() -> None:
    """0x97 for one more topic; the others can still be replaced and cleared."""
    site = Site()
    publisher = Client(site, mqttMaxRetainedMessages="1")
    publisher.connect("p")
    publisher.publish("a", b"1", 1, 1, retain=True)
    publisher.publish("b", b"1", 1, 2, retain=True)
    publisher.publish("a", b"2", 1, 3, retain=True)

    assert publisher.packets() == [("puback", 1, 0x10), ("puback", 2, 0x97), ("puback", 3, 0x10)]
    assert site.services.retained.count == 1


def test_many_retained_messages_come_in_slices() -> None:
    """Others have their turn while a subscription to everything is answered."""
    site = Site()
    publisher = connected(site, "p")
    for number in range(2500):
        publisher.publish(f"t/{number}", b"m", retain=True)
    client = connected(site, "c")
    other = connected(site, "o")
    other.subscribe("x")

    client.subscribe("#")
    publisher.publish("x", b"in between")
    more = site.domain.dispatcher.run()
    between = other.handler.data_to_send()
    first = site.domain.queue("c.#").messages_added

    assert more
    assert 0 < first < 2500
    assert b"in between" in between
    assert len(bodies(client)) == 2500 + 1  # and the live one


def test_a_slow_subscriber_does_not_make_the_broker_hold_all_that_is_retained() -> None:
    """Only some are in its queue; a client that left gets the rest when it is back."""
    site = Site()
    publisher = connected(site, "p")
    for number in range(5000):
        publisher.publish(f"t/{number}", b"m", 1, 1 + number % 1000, retain=True)
        publisher.packets()
    client = Client(site)
    given = Properties(receive_maximum=100, session_expiry_interval=100)
    client.connect("c", clean_start=False, properties=given)
    client.subscribe("t/#", 1)
    site.pass_time(1)
    held = site.domain.queue("c.t.#").message_count
    got: set[str] = set()
    for _ in range(2):
        for _ in range(26):
            for packet in client.packets():
                got.add(packet[1])
                client.ack(PUBACK, packet[4])
            site.pass_time(0.1)
        client.lose()
        site.pass_time(1)
        client = Client(site)
        client.connect("c", clean_start=False, properties=given)

    assert held <= RETAINED_AHEAD + RETAINED_SLICE
    assert len(got) == 5000


def test_a_shared_subscription_gets_nothing_retained() -> None:
    """MQTT 5.0 §4.8.2."""
    site = Site()
    connected(site, "p").publish("t", b"m", retain=True)
    client = connected(site, "c")
    client.subscribe("$share/g/t")

    assert bodies(client) == []


# -- large bodies of other protocols -------------------------------------------------------------------------------


class Body(LargeBody):
    """One that is not there; counts how often somebody looked."""

    def __init__(self, size: int) -> None:
        super().__init__(1, size)
        self.looks = 0

    def reader(self) -> LargeReader:
        self.looks += 1
        raise StoreError("the file is gone")

    def discard(self) -> None:
        """There is nothing."""


class LargeFormat:
    """Needs the body for its view."""

    name = "large"

    def view(self, message: Message) -> MessageView:
        return MessageView(to=message.address, body=message.content())

    def lookup(self, message: Message, name: str) -> object:
        return None


@pytest.mark.parametrize("size", [200_000, LOADED_BODY_LIMIT_BYTES + 1])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_body_that_cannot_be_loaded_does_not_hold_others_up(
    qos: int, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It becomes a dead letter, and the log says why; what is above the limit is not even opened."""
    site = Site()
    client = connected(site, "c")
    client.subscribe("t", qos)
    body = Body(size)
    for large in (body, None):
        message = plain_message("t", MessageView(body=b"m"))
        if large is not None:
            message = Message(LargeFormat(), "t", b"")
            message.large = large
        Session(site.domain, Subject("s"), "s", "peer", "PLAIN").producer("t").send(message)
    got = bodies(client)

    assert got == [b"m"]
    assert body.looks == (size <= LOADED_BODY_LIMIT_BYTES)
    assert site.domain.queue("c.t").messages_killed == 1
    assert client.handler.engine.outgoing.quota == client.handler.engine.outgoing.window - (qos > 0)
    assert "message not delivered: client=c queue=c.t" in caplog.text


# -- groups --------------------------------------------------------------------------------------------------------


def test_a_group_shares_the_messages() -> None:
    """MQTT 5.0 §4.8.2: each message goes to one of them; both get their part."""
    site = Site()
    clients = [connected(site, name) for name in "ab"]
    for client in clients:
        client.subscribe("$share/g/t", 1)
    publisher = connected(site, "p")
    for number in range(10):
        publisher.publish("t", b"%d" % number, 1, number + 1)
    got = [bodies(client) for client in clients]

    assert [len(part) for part in got] == [5, 5]
    assert sorted(got[0] + got[1]) == [b"%d" % number for number in range(10)]


def test_what_a_lost_member_did_not_acknowledge_goes_to_another() -> None:
    """MQTT 5.0 §4.8.2: also when its session goes on."""
    site = Site()
    first = lasting(site, "a")
    first.subscribe("$share/g/t", 1)
    connected(site, "p").publish("t", b"m", 1, 1)
    assert bodies(first) == [b"m"]
    second = connected(site, "b")
    second.subscribe("$share/g/t", 1)

    first.lose()

    assert bodies(second) == [b"m"]
    assert lasting(site, "a").packets() == []


def test_qos_2_of_a_lost_member_waits_for_it() -> None:
    """[MQTT-4.8.2-4] [MQTT-4.8.2-5]: it goes to nobody else, even when its session ends, but to the dead letters."""
    site = Site()
    first = lasting(site, "a", expiry_s=10)
    first.subscribe("$share/g/t", 2)
    connected(site, "p").publish("t", b"m", 2, 1)
    assert bodies(first) == [b"m"]
    second = connected(site, "b")
    second.subscribe("$share/g/t", 2)
    first.lose()

    before = bodies(second)
    site.pass_time(11)

    assert before == []
    assert bodies(second) == []
    assert site.domain.queue("g.t").message_count == 0
    assert site.domain.queue("g.t").messages_killed == 1


def test_qos_2_that_a_lost_member_did_not_see_goes_to_another(tmp_path: Path) -> None:
    """It waited for its record to be durable, and the connection was faster."""
    with Site(tmp_path) as site:
        first = lasting(site, "a", expiry_s=10)
        first.subscribe("$share/g/t", 2)
        connected(site, "p").publish("t", b"m", 2, 1)
        site.commit()
        assert first.packets_before_commit() == []
        first.lose()
        second = connected(site, "b")
        second.subscribe("$share/g/t", 2)
        before = bodies(second)
        site.pass_time(11)

        assert before == []
        assert bodies(second) == [b"m"]


@pytest.mark.parametrize("is_back", [True, False])
@pytest.mark.parametrize("qos", [0, 2])
def test_qos_2_of_a_member_waits_for_it_over_a_restart(tmp_path: Path, is_back: bool, qos: int) -> None:
    """[MQTT-4.8.2-4]: though the message is offered to another member first, whatever its QoS."""
    with Site(tmp_path) as site:
        first = lasting(site, "a", expiry_s=10)
        first.subscribe("$share/g/t", 2)
        lasting(site, "b").subscribe("$share/g/t", qos)
        publisher = connected(site, "p")
        for number in range(2):
            publisher.publish("t", b"m%d" % number, 2, number + 1)
            publisher.packets()
        ((_, _, body, *_, packet_id),) = [packet[:5] for packet in first.packets()]
    with Site(tmp_path) as site:
        second = Client(site)
        lasts = Properties(session_expiry_interval=60)
        second.send(wire.connect(Connect(version=5, client_id="b", clean_start=False, properties=lasts)))
        site.commit()
        if not is_back:
            others = bodies(second)
        first = lasting(site, "a", expiry_s=10)
        if is_back:
            others = bodies(second)
        again = [(packet[2], packet[4], packet[6]) for packet in first.packets()]

        assert body not in others
        assert again[0] == (body, packet_id, True)
        assert len(again) == 1


def test_qos_2_of_a_member_that_ended_after_a_restart_goes_to_nobody(tmp_path: Path) -> None:
    """[MQTT-4.8.2-5]"""
    with Site(tmp_path) as site:
        first = lasting(site, "a", expiry_s=10)
        first.subscribe("$share/g/t", 2)
        publisher = connected(site, "p")
        publisher.publish("t", b"m", 2, 1)
        publisher.packets()
        assert bodies(first) == [b"m"]
        lasting(site, "b").subscribe("$share/g/t", 2)
        site.commit()
    with Site(tmp_path) as site:
        site.pass_time(11)
        second = lasting(site, "b")

        assert bodies(second) == []
        assert site.domain.queue("g.t").message_count == 0


def test_the_queue_of_a_group_goes_with_its_last_subscription() -> None:
    """Those of absent sessions count."""
    site = Site()
    first, second = lasting(site, "a", expiry_s=10), connected(site, "b")
    for client in (first, second):
        client.subscribe("$share/g/t", 1)
    first.leave()
    second.leave()

    before = "g.t" in site.domain.queues
    site.pass_time(11)

    assert before
    assert "g.t" not in site.domain.queues


# -- permissions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic_filter", ["secret/a", "$share/g/secret/a"])
@pytest.mark.parametrize(("version", "code"), [(5, 0x87), (4, 0x80), (3, 0)])
def test_a_filter_needs_the_permission_to_consume(topic_filter: str, version: int, code: int) -> None:
    """[MQTT-3.8.4-6] and its like of 3.x; the other filters are not concerned."""
    site = Site(access=Forbidden((Permission.CONSUME, "secret.a")))
    client = connected(site, "c", version)

    assert client.subscribe(topic_filter) == (code,)
    assert client.subscribe("other", 1) == (1,)
    assert not any("secret" in name for name in site.domain.queues)


def test_wildcards_do_not_reach_around_permissions() -> None:
    """Who may read `#` and not `secret.a` gets neither its messages nor what is retained there."""
    site = Site(access=Forbidden((Permission.CONSUME, "secret.a")))
    publisher = connected(site, "p")
    publisher.publish("secret/a", b"retained", retain=True)
    for number, topic_filter in enumerate(("#", "$share/g/secret/+")):
        client = connected(site, f"c{number}")
        client.subscribe(topic_filter, 1)
        publisher.publish("secret/a", b"live", 1, 1)
        publisher.publish("secret/b", b"open", 1, 2)
        site.pass_time(1)

        assert bodies(client) == [b"open"]
        client.leave()


@pytest.mark.parametrize(("qos", "answer"), [(1, ("puback", 1, 0x87)), (2, ("pubrec", 1, 0x87))])
def test_publishing_needs_the_permission_to_send(qos: int, answer: tuple[str, int, int]) -> None:
    """MQTT 5.0 §3.4.2.1: version 5 is told; nothing is retained."""
    site = Site(access=Forbidden((Permission.SEND, "secret")))
    client = connected(site, "c")
    client.publish("secret", b"m", qos, 1, retain=True)

    assert client.packets() == [answer]
    assert site.services.retained.count == 0
    assert not client.handler.closed


@pytest.mark.parametrize("version", [3, 4])
def test_3_x_is_disconnected_or_kept_in_the_dark(version: int) -> None:
    """[3.1.1: MQTT-3.3.5-2] of 3.1.1 leaves the choice: the acceptor has it."""
    site = Site(access=Forbidden((Permission.SEND, "secret")))
    strict = connected(site, "strict", version)
    strict.publish("secret", b"m", 1, 1)
    lenient = Client(site, version, closeMqttConnectionOnPublishAuthorizationFailure="false")
    lenient.connect("lenient")
    lenient.publish("secret", b"m", 1, 1)

    assert strict.handler.closed
    assert lenient.packets() == [("puback", 1, 0)]


def test_a_will_needs_the_permission_when_it_is_left_and_when_it_goes_out() -> None:
    """reliability §5.8."""
    access = Forbidden((Permission.SEND, "secret"))
    site = Site(access=access)
    watcher = connected(site, "w")
    watcher.subscribe("#")
    refused = Client(site)

    answer = refused.connect("c", will=Will(topic="secret", payload=b"gone"))
    granted = connected(site, "d", will=Will(topic="open", payload=b"gone"))
    access.forbidden = ((Permission.SEND, "open"),)
    granted.lose()

    assert answer.reason == 0x87
    assert bodies(watcher) == []


def test_a_resumed_subscription_that_is_no_longer_allowed_rests() -> None:
    """It reads nothing, and loses nothing: the right may have been taken by mistake."""
    access = Forbidden()
    site = Site(access=access)
    client = lasting(site, "c")
    client.subscribe("a", 2)
    client.subscribe("b", 2)
    publisher = connected(site, "p")
    for number, topic in enumerate("ab"):
        publisher.publish(topic, topic.encode(), 2, number + 1)
    assert bodies(client) == [b"a", b"b"]
    client.leave()
    access.forbidden = ((Permission.CONSUME, "a"),)

    again = lasting(site, "c")

    assert bodies(again) == [b"b"]
    assert again.subscribe("a", 2) == (0x87,)
    access.forbidden = ()
    assert again.subscribe("a", 2) == (2,)
    assert bodies(again) == [b"a"]


def test_a_session_is_not_handed_to_another_user() -> None:
    """What waits in it was allowed to somebody else (reliability §5.8)."""
    site = Site()
    ann = lasting(site, "c", username="ann")
    ann.subscribe("t", 1)
    ann.publish("t", b"for ann", 1, 1)
    assert b"for ann" in bodies(ann)

    bob = Client(site)
    answer = bob.connect("c", username="bob", clean_start=False)

    assert not answer.session_present
    assert bodies(bob) == []
    assert ann.handler.closed
    assert not site.domain.queues


# -- other protocols -----------------------------------------------------------------------------------------------


def test_messages_of_other_protocols_arrive_with_their_properties() -> None:
    """The neutral view decides; QoS is the subscription's (artemis-model §4.2.5)."""
    site = Site()
    client = connected(site, "c")
    client.subscribe("a/b", 2)
    session = Session(site.domain, Subject("other"))
    view = MessageView(
        body="text", content_type="text/plain", reply_to="r.s", correlation_id=b"id", properties={"k": 1, "flag": True}
    )
    session.producer("a.b").send(plain_message("a.b", view))

    (packet,) = client.packets()

    assert packet[1:4] == ("a/b", b"text", 2)
    properties = packet[7]
    assert properties.content_type == "text/plain"
    assert properties.response_topic == "r/s"
    assert properties.correlation_data == b"id"
    assert properties.user_properties == (("k", "1"), ("flag", "true"))
    assert properties.payload_format_indicator == 1


def test_an_address_that_no_topic_can_name_is_left_out() -> None:
    """A `+` in a word of an address must not reach a client [MQTT-3.3.2-2]; the next message does."""
    site = Site()
    client = connected(site, "c")
    client.subscribe("a/#", 1)
    session = Session(site.domain, Subject("other"))
    for name in ("a.x+y", "a.b"):
        site.domain.create_address(name, frozenset((RoutingType.MULTICAST,)))
        session.producer(name).send(plain_message(name, MessageView(body=name)))

    assert bodies(client) == [b"a.b"]
    assert site.domain.queue("c.a.#").delivering_count == 1


class WideFormat(PlainFormat):
    """Messages that decode to far more than they are."""

    def view(self, message: Message) -> MessageView:
        return MessageView(body="x" * 100_000, is_kept=False)


@pytest.mark.parametrize(("format", "is_kept"), [(PLAIN_FORMAT, True), (WideFormat(), False)])
def test_a_message_does_not_keep_what_is_much_larger(format: PlainFormat, is_kept: bool) -> None:
    """It is counted as it came, so each subscriber gets it converted again."""
    site = Site()
    clients = [connected(site, name) for name in ("a", "b")]
    for client in clients:
        client.subscribe("t")
    message = plain_message("t", MessageView(body="x" * 100_000))
    message.format = format
    message.view_cache = None
    Session(site.domain, Subject("s"), "s", "peer", "PLAIN").producer("t").send(message)

    assert [bodies(client) for client in clients] == [[b"x" * 100_000]] * 2
    assert bool(message.encodings) is is_kept
    assert (message.view_cache is not None) is is_kept
