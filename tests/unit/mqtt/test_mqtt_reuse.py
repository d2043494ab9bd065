"""Deliveries that are over and are used again for other messages."""

from pathlib import Path

import pytest

from artemis_mqtt.broker.sent import SPARE_LIMIT, Sent
from artemis_mqtt.engine.packets import Unsubscribe
from tests import mqtt_harness as wire
from tests.mqtt_site import Client, Site, connected, lasting

PUBACK, PUBREC, PUBCOMP = 4, 5, 7


def spare(site: Site) -> list[Sent]:
    """Deliveries that wait for another message."""
    return site.manager.sessions.spare


def receive(client: Client, qos: int) -> tuple[bytes, bool]:
    """Take the next message and acknowledge it to the end; return its payload, and whether it has DUP."""
    ((_, _, payload, _, packet_id, _, dup, _),) = client.packets()
    client.ack(PUBACK if qos == 1 else PUBREC, packet_id)
    if qos == 2:
        assert [packet[:2] for packet in client.packets()] == [("pubrel", packet_id)]
        client.ack(PUBCOMP, packet_id)
    return payload, dup


@pytest.mark.parametrize("qos", [1, 2])
def test_a_delivery_that_is_over_carries_another_message_to_another_client(qos: int) -> None:
    """Nothing of its first message goes with it."""
    site = Site()
    first, second, writer = connected(site, "first"), connected(site, "second"), connected(site, "writer")
    first.subscribe("one", qos)
    second.subscribe("two", qos)
    writer.publish("one", b"a", qos, 1)
    got = [receive(first, qos)]
    (kept,) = spare(site)
    held = kept.reference
    writer.publish("two", b"b", qos, 2)
    site.turn()
    under_way = second.handler.session.outgoing.deliveries.in_order() if second.handler.session else []
    got.append(receive(second, qos))

    assert got == [(b"a", False), (b"b", False)]
    assert [delivery is kept for delivery in under_way] == [True]
    assert spare(site) == [kept]
    # Otherwise ten thousand messages would stay in memory that no account counts.
    assert (held, kept.reference) == (None, None)
    assert site.domain.account.size_bytes == 0


def test_a_delivery_that_is_used_again_is_sent_again_after_a_lost_connection() -> None:
    """[MQTT-4.4.0-1] with its own message, and with DUP."""
    site = Site()
    client, writer = lasting(site, "client"), connected(site, "writer")
    client.subscribe("t", 1)
    writer.publish("t", b"a", 1, 1)
    receive(client, 1)
    writer.publish("t", b"b", 1, 2)
    client.packets()
    client.lose()
    again = lasting(site, "client")

    assert receive(again, 1) == (b"b", True)


def test_what_the_store_may_still_refer_to_is_not_used_again(tmp_path: Path) -> None:
    """A delivery of QoS 2 whose record is stored may be over before that is durable, if its client is in a hurry."""
    with Site(tmp_path) as site:
        client, writer = lasting(site, "client"), connected(site, "writer")
        client.subscribe("t", 2)
        writer.publish("t", b"a", 2, 1)
        writer.packets()
        receive(client, 2)

        assert spare(site) == []


@pytest.mark.parametrize("how", ["lose", "unsubscribe"])
def test_nothing_refers_to_a_subscription_that_ended(how: str) -> None:
    """A delivery knows its last subscription, and that its session."""
    site = Site()
    client, writer = connected(site, "client"), connected(site, "writer")
    client.subscribe("t", 1)
    writer.publish("t", b"a", 1, 1)
    receive(client, 1)
    before = len(spare(site))
    if how == "lose":
        client.lose()
    else:
        client.send(wire.unsubscribe(client.version, Unsubscribe(packet_id=1, topic_filters=("t",))))
        site.turn()

    assert (before, spare(site)) == (1, [])


def test_a_few_deliveries_are_kept() -> None:
    """The broker keeps no more than it needs in an iteration of the loop."""
    site = Site()
    client, writer = connected(site, "client"), connected(site, "writer")
    client.subscribe("t", 1)
    writer.publish("t", b"a", 1, 1)
    ((*_, packet_id, _, _, _),) = client.packets()
    assert client.handler.session is not None
    subscription = client.handler.session.subscriptions["t"]
    spare(site).extend(Sent(None, subscription, 0, 1) for _ in range(SPARE_LIMIT))
    client.ack(PUBACK, packet_id)

    assert len(spare(site)) == SPARE_LIMIT
