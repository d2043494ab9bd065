"""What monitoring tools find below `$SYS`."""

from typing import Any

import pytest

from tests.mqtt_site import Client, Site, connected
from tests.unit.mqtt.test_mqtt_subscriptions import Forbidden


def test_numbers_come_at_once_and_then_every_interval() -> None:
    """Retained ones first, as from a broker that publishes them all the time; then live."""
    site = Site()
    client = connected(site, "c")
    client.subscribe("$SYS/broker/clients/+")
    first = client.packets()
    connected(site, "other")
    site.pass_time(10)
    second = client.packets()

    assert [(packet[1], packet[2], packet[5]) for packet in first] == [
        ("$SYS/broker/clients/connected", b"1", True),
        ("$SYS/broker/clients/disconnected", b"0", True),
        ("$SYS/broker/clients/total", b"1", True),
    ]
    assert (second[0][2], second[0][5]) == (b"2", False)


def test_nothing_is_published_for_nobody() -> None:
    """Not even planned."""
    site = Site()
    client = connected(site, "c")
    client.subscribe("$SYS/#")
    client.leave()
    site.pass_time(20)

    assert site.domain.dispatcher.next_deadline_ms() is None


@pytest.mark.parametrize(("parameters", "code"), [({}, 0x87), ({"mqttAnonymousSystemTopics": "true"}, 0)])
@pytest.mark.parametrize("topic_filter", ["$SYS/#", "$share/g/$SYS/broker/version"])
def test_anonymous_clients_see_them_only_if_told_so(parameters: dict[str, Any], code: int, topic_filter: str) -> None:
    """What the broker is busy with is not everybody's business."""
    site = Site(access=Forbidden())
    anonymous, named = Client(site, **parameters), Client(site)
    anonymous.connect("a")
    named.connect("n", username="ann", password=b"secret")

    assert anonymous.subscribe(topic_filter) == (code,)
    assert named.subscribe(topic_filter) == (0,)


def test_no_client_publishes_there() -> None:
    """MQTT 5.0 §4.7.2: nobody shall forge what the broker says of itself."""
    site = Site()
    client = connected(site, "c")
    client.publish("$SYS/broker/version", b"forged", 1, 1)

    assert client.packets() == [("puback", 1, 0x87)]
