"""Messages that are written while they are routed, to subscriptions of every QoS."""

from typing import Any

import pytest

from artemis_mqtt.engine.properties import Properties
from tests import mqtt_harness as wire
from tests.mqtt_site import Client, Site, connected

PUBACK = 4


def messages(packets: list[Any]) -> list[tuple[bytes, int]]:
    """Payload and QoS of each PUBLISH."""
    return [(packet[2], packet[3]) for packet in packets if packet[0] == "publish"]


def written(client: Client) -> list[tuple[bytes, int]]:
    """What is written already: the dispatcher has not run."""
    return messages(wire.read_server_packets(client.version, client.handler.data_to_send()))


@pytest.mark.parametrize("subscribed", [0, 1, 2])
def test_a_message_of_qos_0_is_written_before_the_dispatcher_runs(subscribed: int) -> None:
    """No subscription makes more of it [MQTT-3.8.4-8]: nothing is to be acknowledged, and the queue never holds it."""
    site = Site()
    reader, writer = connected(site, "reader"), connected(site, "writer")
    reader.subscribe("t", subscribed)
    writer.publish("t", b"m", 0)
    (queue,) = [queue for name, queue in site.domain.queues.items() if name.startswith("reader")]

    assert written(reader) == [(b"m", 0)]
    assert (queue.messages_added, queue.messages_acknowledged, queue.delivering_count) == (1, 1, 0)
    assert site.domain.account.size_bytes == 0


@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_to_be_acknowledged_is_kept(qos: int) -> None:
    """Until it is, it has a place in the queue."""
    site = Site()
    reader, writer = connected(site, "reader"), connected(site, "writer")
    reader.subscribe("t", 1)
    writer.publish("t", b"m", qos, 1)

    assert written(reader) == []
    assert messages(reader.packets()) == [(b"m", 1)]


def test_subscribers_that_get_the_same_share_a_packet() -> None:
    """The packet is made for the second subscriber; a subscriber that asked for something else gets its own."""
    site = Site()
    writer = connected(site, "writer")
    readers = [connected(site, f"r{number}", 5 if number < 7 else 4) for number in range(8)]
    small = connected(site, "small", properties=Properties(maximum_packet_size=40))
    brief = connected(site, "brief", properties=Properties(topic_alias_maximum=1))
    for number, reader in enumerate(readers):
        identifiers = (7,) if number == 5 else ()
        reader.subscribe(
            "long/topic", 0, Properties(subscription_identifiers=identifiers), retain_as_published=number == 6
        )
    small.subscribe("long/topic", 0)
    brief.subscribe("long/topic", 0)

    for payload in (b"one" * 10, b"two" * 10):
        writer.publish("long/topic", payload, properties=Properties(content_type="text"))
        octets = [reader.handler.data_to_send() for reader in readers]
        assert octets[1] == site.manager.common.octets
        assert [octets.count(each) for each in octets] == [6, 6, 6, 6, 6, 1, 6, 1]
        (numbered,) = wire.read_server_packets(5, octets[5])
        assert (numbered[1:3], numbered[7].subscription_identifiers) == (("long/topic", payload), (7,))
        (plain,) = wire.read_server_packets(5, octets[0])
        assert (plain[1:3], plain[7]) == (("long/topic", payload), Properties(content_type="text"))
        assert wire.read_server_packets(4, octets[7])[0][1:3] == ("long/topic", payload)
        assert small.handler.data_to_send() == b""
        (short,) = wire.read_server_packets(5, brief.handler.data_to_send())
        assert (short[1], short[2], short[7].topic_alias) == (
            "" if payload == b"two" * 10 else "long/topic",
            payload,
            1,
        )


@pytest.mark.parametrize(
    ("payload", "retain", "content_type"), [(b"m", True, ""), (bytes(5000), False, ""), (b"m", False, 5000 * "t")]
)
def test_a_retained_or_a_long_message_has_no_packet_for_all(payload: bytes, retain: bool, content_type: str) -> None:
    """RETAIN depends on the subscription; what is long is not copied."""
    site = Site()
    writer, first, second, third = (connected(site, name) for name in ("writer", "first", "second", "third"))
    for reader in (first, second, third):
        reader.subscribe("t", 0, retain_as_published=reader is third)
    writer.publish("t", payload, retain=retain, properties=Properties(content_type=content_type))

    assert site.manager.common.octets == b""
    for reader in (first, second, third):
        ((_, topic, data, _, _, kept, *_),) = wire.read_server_packets(5, reader.handler.data_to_send())
        assert (topic, data, kept) == ("t", payload, retain and reader is third)


def test_qos_0_does_not_overtake_what_waits_for_the_window() -> None:
    """[MQTT-3.3.4-9]: one may be under way, so the second waits, and what is sent behind it as well."""
    site = Site()
    reader = connected(site, "reader", properties=Properties(receive_maximum=1))
    writer = connected(site, "writer")
    reader.subscribe("t", 1)
    writer.publish("t", b"a", 1, 1)
    writer.publish("t", b"b", 1, 2)
    first = reader.packets()
    writer.publish("t", b"c", 0)
    early = written(reader)
    reader.ack(PUBACK, first[0][4])
    second = reader.packets()
    reader.ack(PUBACK, second[0][4])

    assert (messages(first), early) == ([(b"a", 1)], [])
    assert messages(second + reader.packets()) == [(b"b", 1), (b"c", 0)]
