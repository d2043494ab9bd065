"""Subscriptions whose queues keep their messages (artemis-model §3.5)."""

from pathlib import Path

import pytest

from artemis_mqtt.broker.subscriptions import RETAINED_AHEAD
from artemis_mqtt.engine.properties import Properties
from artemis_py.core.settings.address_settings import AddressSettings
from tests.mqtt_site import Client, Site, connected, lasting

KEEPS = AddressSettings(default_non_destructive=True)


def published(client: Client) -> list[tuple[bytes, int]]:
    """Payloads and packet identifiers of what came."""
    return [(one[2], one[4]) for one in client.packets() if isinstance(one, tuple) and one[0] == "publish"]


PUBACK, PUBREC, PUBCOMP = 4, 5, 7


def settle(client: Client, qos: int, packet_id: int) -> None:
    """Take a message over."""
    if qos == 1:
        client.ack(PUBACK, packet_id)
    if qos == 2:
        client.ack(PUBREC, packet_id)
        client.packets()
        client.ack(PUBCOMP, packet_id)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_subscriber_gets_everything_once_through_a_small_window(tmp_path: Path, qos: int) -> None:
    """Deliveries that find the window closed wait, and are not taken for ones that somebody else has."""
    with Site(tmp_path, settings=KEEPS) as site:
        subscriber = connected(site, "s", properties=Properties(receive_maximum=2))
        subscriber.subscribe("t", qos)
        publisher = connected(site, "p")
        for number in range(10):
            publisher.publish("t", b"%d" % number, qos, number + 1)
        got: list[bytes] = []
        while found := subscriber.packets():
            for kind, *rest in found:
                if kind == "publish":
                    got.append(rest[1])
                    if qos:
                        subscriber.ack(PUBACK if qos == 1 else PUBREC, rest[3])
                elif kind == "pubrel":
                    subscriber.ack(PUBCOMP, rest[0])

        assert got == [b"%d" % number for number in range(10)]
        queue = site.domain.queue("s.t")
        assert (queue.message_count, queue.delivering_count, queue.messages_acknowledged) == (10, 0, 0)
        assert queue.consumers[0].unsettled_bytes == 0


@pytest.mark.parametrize("qos", [1, 2])
def test_a_client_that_is_back_gets_what_it_has_under_way_once_and_then_everything(tmp_path: Path, qos: int) -> None:
    """Again with the same identifiers [MQTT-4.4.0-1]; attaching begins at the first message."""
    with Site(tmp_path, settings=KEEPS) as site:
        subscriber = lasting(site, "s")
        subscriber.subscribe("t", qos)
        publisher = connected(site, "p")
        for number in range(3):
            publisher.publish("t", b"%d" % number, qos, number + 1)
        before = published(subscriber)
        settle(subscriber, qos, before[0][1])
        subscriber.packets()
        subscriber.lose()

        again = lasting(site, "s")
        after = published(again)

        assert [payload for payload, _ in before] == [b"0", b"1", b"2"]
        assert after[:2] == before[1:]
        assert [payload for payload, _ in after[2:]] == [b"0"]
        for _, packet_id in after:
            settle(again, qos, packet_id)
        assert again.packets() == [] or qos == 2
        assert site.domain.queue("s.t").consumers[0].shown == {}


def test_a_session_that_ends_leaves_nothing_behind() -> None:
    site = Site(settings=KEEPS)
    subscriber = lasting(site, "s", expiry_s=5)
    subscriber.subscribe("t", 1)
    connected(site, "p").publish("t", b"m")
    subscriber.packets()
    subscriber.lose()

    site.pass_time(10)
    site.commit()

    assert (site.domain.account.message_count, site.domain.account.size_bytes) == (0, 0)


def test_another_qos_begins_again() -> None:
    site = Site(settings=KEEPS)
    subscriber = lasting(site, "s")
    subscriber.subscribe("t", 1)
    publisher = connected(site, "p")
    publisher.publish("t", b"m", 1, 1)
    (first,) = published(subscriber)

    subscriber.subscribe("t", 0)
    publisher.publish("t", b"n", 1, 2)

    # The one that it has under way is not sent a second time.
    assert [payload for payload, _ in published(subscriber)] == [b"n"]
    settle(subscriber, 1, first[1])
    assert site.domain.queue("s.t").consumers[0].shown == {}


def test_many_retained_messages_reach_a_queue_that_never_gets_shorter() -> None:
    """Elsewhere they wait until the client has read some of them."""
    site = Site(settings=KEEPS)
    publisher = connected(site, "p")
    for number in range(RETAINED_AHEAD + 100):
        publisher.publish(f"t/{number}", b"m", retain=True)
    subscriber = connected(site, "s")
    subscriber.subscribe("t/#", 0)

    assert len(published(subscriber)) == RETAINED_AHEAD + 100
