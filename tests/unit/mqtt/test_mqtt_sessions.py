"""Sessions: what survives a connection and a crash, and what happens exactly once."""

from pathlib import Path
from typing import Any

import pytest

from artemis_mqtt.engine.packets import Connect, Will
from artemis_mqtt.engine.properties import Properties
from tests import mqtt_harness as wire
from tests.core_harness import HOUR_MS, START_MS, set_clock, set_clocks
from tests.mqtt_site import Client, Site, connected, lasting

PUBACK, PUBREC, PUBREL, PUBCOMP = 4, 5, 6, 7


def test_puback_waits_for_the_store(tmp_path: Path) -> None:
    """[MQTT-4.3.2-4]: who has a PUBACK has a promise."""
    with Site(tmp_path) as site:
        subscriber = lasting(site, "s")
        subscriber.subscribe("t", 1)
        publisher = connected(site, "p")
        publisher.publish("t", b"one", 1, 7)

        before = publisher.packets_before_commit()
        after = publisher.packets()

        assert before == []
        assert after == [("puback", 7, 0)]


def test_connack_waits_for_the_store_if_the_session_or_its_will_is_kept(tmp_path: Path) -> None:
    """Whoever was let in has its session and its will after a crash; what came behind CONNECT waits as well."""
    lasts = Properties(session_expiry_interval=60)
    will = Will(topic="w", payload=b"gone", qos=1, retain=False, properties=Properties())
    cases: list[dict[str, Any]] = [{"properties": lasts, "clean_start": False}, {"will": will}]
    with Site(tmp_path) as site:
        for number, fields in enumerate(cases):
            client = Client(site)
            client.send(
                wire.connect(Connect(version=5, client_id=f"c{number}", **fields)),
                wire.publish(5, "t", b"m", 1, 1),
            )
            before = client.packets_before_commit()
            site.commit()
            connack, *behind = client.packets()

            assert before == []
            assert (connack.reason, len(behind)) == (0, 1)


def test_connack_waits_until_the_session_that_it_replaces_is_forgotten(tmp_path: Path) -> None:
    """[MQTT-3.1.2-4]: else a crash would bring back what the client was told is gone."""
    with Site(tmp_path) as site:
        lasting(site, "c").leave()
        site.commit()
        client = Client(site)
        client.send(wire.connect(Connect(version=5, client_id="c")))
        before = client.packets_before_commit()
        site.commit()

        assert before == []
        assert client.packets()[0].reason == 0


def test_connack_of_a_session_that_is_not_stored_does_not_wait(tmp_path: Path) -> None:
    """Nor does it depend on a store that works."""
    with Site(tmp_path) as site:
        Client(site).send(wire.connect(Connect(version=5, client_id="w", will=Will(topic="w", payload=b""))))
        client = Client(site)
        client.send(wire.connect(Connect(version=5, client_id="c")))

        assert client.packets_before_commit()[0].reason == 0


def test_a_client_that_is_gone_before_connack_leaves_its_session(tmp_path: Path) -> None:
    """It is as if CONNACK had been lost."""
    with Site(tmp_path) as site:
        client = Client(site)
        lasts = Properties(session_expiry_interval=60)
        client.send(wire.connect(Connect(version=5, client_id="c", clean_start=False, properties=lasts)))
        client.lose()
        site.commit()
        again = Client(site).connect("c", clean_start=False, properties=lasts)

        assert again.session_present


def test_a_client_that_is_refused_after_all_leaves_no_will(tmp_path: Path) -> None:
    """The broker stops while CONNACK waits."""
    with Site(tmp_path) as site:
        watcher = connected(site, "w")
        watcher.subscribe("w")
        client = Client(site)
        client.send(wire.connect(Connect(version=5, client_id="c", will=Will(topic="w", payload=b"gone"))))
        client.handler.shutdown("it is late")
        (answer,) = client.packets()

        assert answer.reason == 0x88
        assert watcher.packets() == []


def test_a_store_that_fails_before_connack_lets_nobody_in() -> None:
    """The client hears a refusal, not a success that is taken back."""
    site = Site()
    site.domain.storage.when_durable = lambda callback, failed: failed("disk full")  # type: ignore
    client = Client(site)
    lasts = Properties(session_expiry_interval=60)
    client.send(wire.connect(Connect(version=5, client_id="c", clean_start=False, properties=lasts)))
    (answer,) = client.packets()

    assert answer.reason == 0x83
    assert client.handler.closed


def test_answers_keep_the_order_of_their_causes(tmp_path: Path) -> None:
    """[MQTT-4.6.0-2] [MQTT-4.6.0-3]: also between different packets."""
    with Site(tmp_path) as site:
        client = lasting(site, "c")
        client.subscribe("t", 0)
        packets = [wire.publish(5, "t", b"", qos, number) for number, qos in ((1, 1), (2, 2), (3, 1))]

        client.send(*packets)

        answers = [packet[:2] for packet in client.packets() if packet[0] != "publish"]
        assert answers == [("puback", 1), ("pubrec", 2), ("puback", 3)]


def test_a_crash_does_not_take_what_was_acknowledged(tmp_path: Path) -> None:
    """The message, the subscription and the session come back."""
    with Site(tmp_path) as site:
        lasting(site, "s").subscribe("a/+", 1)
        publisher = connected(site, "p")
        publisher.publish("a/b", b"one", 1, 1)
        assert publisher.packets() == [("puback", 1, 0)]

    with Site(tmp_path) as site:
        client = Client(site)
        connack = client.connect("s", clean_start=False, properties=Properties(session_expiry_interval=100))

        assert connack.session_present
        (publish,) = client.packets()
        assert publish[1:4] == ("a/b", b"one", 1)


@pytest.mark.parametrize("crashes", [False, True])
def test_a_repeated_publish_of_qos_2_is_not_routed_again(tmp_path: Path, crashes: bool) -> None:
    """[MQTT-4.3.3-10]: whether PUBREC got lost with the connection or with the broker."""
    site = Site(tmp_path)
    lasting(site, "s").subscribe("t", 1)
    publisher = lasting(site, "p")
    publisher.publish("t", b"one", 2, 9)
    assert publisher.packets() == [("pubrec", 9, 0)]
    publisher.lose()
    if crashes:
        site.crash()
        site = Site(tmp_path)

    publisher = lasting(site, "p")
    publisher.publish("t", b"one", 2, 9, dup=True)
    assert publisher.packets() == [("pubrec", 9, 0)]
    publisher.ack(PUBREL, 9)
    assert publisher.packets() == [("pubcomp", 9, 0)]
    publisher.publish("t", b"two", 2, 9)
    publisher.packets()

    assert site.domain.queue("s.t").message_count == 2
    site.crash()


def test_qos_2_is_shown_to_nobody_before_it_is_durable(tmp_path: Path) -> None:
    """A crash would take it back from a subscriber who has seen it, and the publisher sends it again."""
    with Site(tmp_path) as site:
        subscriber = lasting(site, "s")
        subscriber.subscribe("t", 1)
        publisher = lasting(site, "p")
        subscriber.packets()
        publisher.publish("t", b"once", 2, 9)
        publisher.publish("t", b"perhaps twice", 1, 10)
        early = subscriber.packets_before_commit()

        assert early == []
        assert [publish[2] for publish in subscriber.packets()] == [b"once", b"perhaps twice"]


def test_a_crash_before_the_commit_leaves_neither_message_nor_identifier(tmp_path: Path) -> None:
    """Both are in one batch: the repeated PUBLISH is the first one."""
    with Site(tmp_path) as site:
        lasting(site, "s").subscribe("t", 1)
        publisher = lasting(site, "p")
        site.commit()
        publisher.publish("t", b"one", 2, 9)

    with Site(tmp_path) as site:
        assert site.domain.queue("s.t").message_count == 0
        publisher = lasting(site, "p")
        publisher.publish("t", b"one", 2, 9, dup=True)
        assert publisher.packets() == [("pubrec", 9, 0)]

        assert site.domain.queue("s.t").message_count == 1


def test_pubcomp_waits_until_the_identifier_is_forgotten_for_good(tmp_path: Path) -> None:
    """Or a crash would have the next message under it taken for a repetition, and lost."""
    with Site(tmp_path) as site:
        publisher = lasting(site, "p")
        publisher.publish("t", b"one", 2, 9)
        publisher.packets()
        publisher.ack(PUBREL, 9)

        before = publisher.packets_before_commit()
        after = publisher.packets()

        assert before == []
        assert after == [("pubcomp", 9, 0)]


def test_qos_2_goes_out_when_its_identifier_is_durable(tmp_path: Path) -> None:
    """A client must never have seen an identifier that a crash makes us give to another message."""
    with Site(tmp_path) as site:
        subscriber = lasting(site, "s")
        subscriber.subscribe("t", 2)
        connected(site, "p").publish("t", b"one", 2, 1)
        site.commit()

        before = subscriber.packets_before_commit()
        (after,) = subscriber.packets()

        assert before == []
        assert after[:6] == ("publish", "t", b"one", 2, 1, False)


def test_qos_2_is_repeated_with_its_identifier_after_a_crash(tmp_path: Path) -> None:
    """[MQTT-4.4.0-1]: the same identifiers for the same messages, in the same order, with DUP."""
    with Site(tmp_path) as site:
        subscriber = lasting(site, "s")
        subscriber.subscribe("t", 2)
        publisher = connected(site, "p")
        for number in (1, 2, 3):
            publisher.publish("t", b"%d" % number, 2, number)
        publisher.packets()
        sent = [(packet[2], packet[4]) for packet in subscriber.packets()]

    with Site(tmp_path) as site:
        client = lasting(site, "s")
        repeated = client.packets()

        assert [(packet[2], packet[4]) for packet in repeated] == sent == [(b"1", 1), (b"2", 2), (b"3", 3)]
        assert [packet[6] for packet in repeated] == [True, True, True]


def test_pubrel_waits_for_the_record_and_survives_a_crash(tmp_path: Path) -> None:
    """PUBREC takes the message off its queue; from then on PUBREL is what is repeated [MQTT-4.3.3-4] [MQTT-4.4.0-1]."""
    with Site(tmp_path) as site:
        subscriber = lasting(site, "s")
        subscriber.subscribe("t", 2)
        connected(site, "p").publish("t", b"one", 2, 1)
        site.commit()
        (publish,) = subscriber.packets()
        packet_id = publish[4]
        subscriber.ack(PUBREC, packet_id)
        assert subscriber.packets_before_commit() == []
        assert subscriber.packets() == [("pubrel", packet_id, 0)]

    with Site(tmp_path) as site:
        client = lasting(site, "s")
        assert client.packets() == [("pubrel", packet_id, 0)]
        client.ack(PUBCOMP, packet_id)
        client.packets()
        assert site.domain.queue("s.t").message_count == 0
        client.lose()

        assert lasting(site, "s").packets() == []


def test_a_lost_connection_repeats_what_was_not_acknowledged() -> None:
    """[MQTT-4.4.0-1] [MQTT-3.3.1-1]: QoS 1 and 2, in their order, with DUP and their identifiers."""
    site = Site()
    subscriber = lasting(site, "s")
    subscriber.subscribe("t", 2)
    publisher = connected(site, "p")
    for number, qos in ((1, 1), (2, 2), (3, 1)):
        publisher.publish("t", b"%d" % number, qos, number)
    first = subscriber.packets()
    subscriber.ack(PUBACK, first[0][4])
    subscriber.lose()

    again = lasting(site, "s").packets()

    assert [packet[2] for packet in again] == [b"2", b"3"]
    assert [packet[4] for packet in again] == [packet[4] for packet in first[1:]]
    assert all(packet[6] for packet in again)


def test_messages_of_an_absent_client_wait_for_it() -> None:
    """[MQTT-4.5.0-1]; they were never sent, so DUP is not set."""
    site = Site()
    subscriber = lasting(site, "s")
    subscriber.subscribe("t", 1)
    subscriber.leave()
    publisher = connected(site, "p")
    for number in range(3):
        publisher.publish("t", b"%d" % number, 1, number + 1)

    packets = lasting(site, "s").packets()

    assert [(packet[2], packet[6]) for packet in packets] == [(b"0", False), (b"1", False), (b"2", False)]


@pytest.mark.parametrize("version", [3, 4])
def test_clean_session_of_3_ends_with_the_connection(version: int) -> None:
    """[MQTT-3.1.2-6] of 3.1.1: its queues are gone at once."""
    site = Site()
    client = connected(site, "c", version, clean_start=True)
    client.subscribe("t", 1)

    client.lose()

    assert site.manager.sessions.get("c") is None
    assert not site.domain.queues


@set_clocks
def test_a_session_expires(jump_ms: int) -> None:
    """[MQTT-4.1.0-2]: after its interval, and not before."""
    site = Site()
    client = lasting(site, "c", expiry_s=10)
    client.subscribe("t", 1)
    client.leave()

    set_clock(site.domain, jump_ms)
    site.pass_time(9.9)
    before = site.manager.sessions.get("c")
    site.pass_time(0.2)

    assert before is not None
    assert site.manager.sessions.get("c") is None
    assert not site.domain.queues


def test_a_session_does_not_outlive_its_expiry_because_the_clock_is_set_while_the_broker_is_down(
    tmp_path: Path,
) -> None:
    """Its end is known by the wall clock of the run before: one that is set back gives it its interval once more."""
    with Site(tmp_path) as site:
        lasting(site, "left", expiry_s=10).leave()
        site.commit()

    with Site(tmp_path, now_ms=START_MS - HOUR_MS) as site:
        site.pass_time(9.9)
        before = site.manager.sessions.get("left")
        site.pass_time(0.2)

        assert before is not None
        assert site.manager.sessions.get("left") is None
        site.commit()


def test_a_client_that_is_back_stops_the_clock() -> None:
    """MQTT 5.0 §3.1.2.11.2: the interval begins with the end of the connection, of the last one."""
    site = Site()
    lasting(site, "c", expiry_s=10).leave()
    site.pass_time(8)
    client = lasting(site, "c", expiry_s=10)
    client.subscribe("t", 1)
    site.pass_time(30)

    assert site.manager.sessions.get("c") is not None
    assert client.subscribe("u", 1) == (1,)


def test_an_expiry_is_counted_over_a_restart(tmp_path: Path) -> None:
    """From the end of the connection; a session that was connected at the crash ended with that."""
    with Site(tmp_path) as site:
        lasting(site, "left", expiry_s=10).leave()
        lasting(site, "there", expiry_s=10)
        site.commit()
        later_ms = site.domain.dispatcher.now_ms + 6_000

    with Site(tmp_path, now_ms=later_ms) as site:
        site.pass_time(5)
        assert site.manager.sessions.get("left") is None
        assert site.manager.sessions.get("there") is not None
        site.pass_time(6)
        assert site.manager.sessions.get("there") is None
        site.commit()

    with Site(tmp_path, now_ms=later_ms) as site:
        assert len(site.manager.sessions) == 0


def test_a_session_that_ended_leaves_nothing_in_the_store(tmp_path: Path) -> None:
    """Subscriptions, identifiers of both directions, the session."""
    with Site(tmp_path) as site:
        client = lasting(site, "c")
        client.subscribe("t", 2)
        client.publish("t", b"m", 2, 5)
        client.packets()
        client.lose()
        connected(site, "c", clean_start=True).leave()
        site.commit()

        assert site.domain.storage.load_records("mqtt") == []


@pytest.mark.parametrize(("version", "code"), [(4, 3), (5, 0x97)])
def test_the_sessions_that_are_kept_are_limited(tmp_path: Path, version: int, code: int) -> None:
    """Over a restart; who has one gets it back, who wants none is let in, and the end of one makes room."""
    lasts = Properties(session_expiry_interval=60) if version == 5 else Properties()

    def answer(site: Site, client_id: str, clean: bool = False) -> int:
        client = Client(site, version, mqttMaxSessions="1", defaultMqttSessionExpiryInterval="60")
        reason = client.connect(client_id, clean_start=clean, properties=Properties() if clean else lasts).reason
        client.lose()
        site.commit()
        return int(reason)

    with Site(tmp_path) as site:
        assert [answer(site, "a"), answer(site, "b"), answer(site, "a"), answer(site, "b", True)] == [0, code, 0, 0]
    with Site(tmp_path) as site:
        assert answer(site, "b") == code
        site.pass_time(61)
        assert answer(site, "b") == 0


def test_another_connection_takes_the_session_over() -> None:
    """[MQTT-3.1.4-3]: the old one is told, and what it did not acknowledge goes to the new one."""
    site = Site()
    old = lasting(site, "c")
    old.subscribe("t", 1)
    old.publish("t", b"m", 1, 1)
    old.packets()

    new = lasting(site, "c")

    (goodbye,) = old.packets()
    assert goodbye.reason == 0x8E
    assert old.handler.closed
    assert [packet[2] for packet in new.packets()] == [b"m"]


def test_a_will_goes_out_when_the_connection_breaks() -> None:
    """[MQTT-3.1.2-8]; a DISCONNECT takes it back [MQTT-3.1.2-10]."""
    site = Site()
    watcher = connected(site, "w")
    watcher.subscribe("gone/#", 1)
    connected(site, "a", will=Will(topic="gone/a", payload=b"a")).lose()
    connected(site, "b", will=Will(topic="gone/b", payload=b"b")).leave()

    assert [packet[1] for packet in watcher.packets()] == ["gone/a"]


@set_clocks
def test_a_delayed_will_waits_and_a_client_that_is_back_keeps_it(jump_ms: int) -> None:
    """[MQTT-3.1.3-9]."""
    site = Site()
    watcher = connected(site, "w")
    watcher.subscribe("gone/#", 1)
    for name in ("a", "b"):
        will = Will(topic=f"gone/{name}", payload=b"", properties=Properties(will_delay_interval=5))
        lasting(site, name, will=will).lose()
    lasting(site, "b")

    set_clock(site.domain, jump_ms)
    site.pass_time(4.9)
    before = watcher.packets()
    site.pass_time(0.2)

    assert before == []
    assert [packet[1] for packet in watcher.packets()] == ["gone/a"]


def test_a_crash_of_the_broker_is_no_excuse_for_a_will(tmp_path: Path) -> None:
    """Connections that a crash ended did not end well: also those whose sessions ended with them."""
    with Site(tmp_path) as site:
        lasting(site, "w").subscribe("gone/#", 1)
        connected(site, "a", will=Will(topic="gone/a", payload=b"a", qos=1))
        site.commit()

    with Site(tmp_path) as site:
        assert [packet[1] for packet in lasting(site, "w").packets()] == ["gone/a"]
        assert site.manager.sessions.get("a") is None


def test_the_store_fails() -> None:
    """Whoever waits for an answer is told that there is none, and why."""
    site = Site()
    client = connected(site, "c")

    client.handler._store_failed("disk full")

    (goodbye,) = client.packets()
    assert goodbye.reason == 0x83
    assert "disk full" in goodbye.properties.reason_string


def test_a_message_too_large_for_its_client_counts_as_delivered() -> None:
    """[MQTT-3.1.2-24] [MQTT-3.1.2-25]."""
    site = Site()
    client = Client(site)
    client.connect("c", properties=Properties(maximum_packet_size=60))
    client.subscribe("t", 2)
    publisher = connected(site, "p")
    for number, size in enumerate((10, 100, 20)):
        publisher.publish("t", bytes(size), number, number)

    assert [len(packet[2]) for packet in client.packets()] == [10, 20]
    assert site.domain.queue("c.t").message_count == 1


def test_the_window_holds_back_and_opens_again() -> None:
    """[MQTT-3.3.4-9] [MQTT-4.9.0-2]: over several subscriptions, in the order of each."""
    site = Site()
    client = Client(site)
    client.connect("c", properties=Properties(receive_maximum=2))
    client.subscribe("a", 1)
    client.subscribe("b", 1)
    publisher = connected(site, "p")
    for number in range(5):
        publisher.publish("a", b"a%d" % number, 1, number + 1)
        publisher.publish("b", b"b%d" % number, 1, number + 101)
    got: list[bytes] = []
    while packets := client.packets():
        assert len(packets) <= 2
        got += [packet[2] for packet in packets]
        for packet in packets:
            client.ack(PUBACK, packet[4])

    assert sorted(got) == sorted(b"%c%d" % (name, number) for name in b"ab" for number in range(5))
    assert [each for each in got if each.startswith(b"a")] == [b"a%d" % number for number in range(5)]
