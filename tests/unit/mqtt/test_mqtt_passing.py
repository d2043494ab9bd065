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
