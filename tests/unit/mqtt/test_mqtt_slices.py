"""Sessions with many subscriptions end and are taken up in slices; nobody sees a half of either."""

from pathlib import Path

from artemis_mqtt.engine.packets import MQTT_5, Connect, Subscribe, Subscription
from artemis_mqtt.engine.properties import Properties
from tests import mqtt_harness as wire
from tests.mqtt_site import Client, Site, connected, lasting

MANY = 300


def subscribe_all(client: Client, qos: int = 1, count: int = MANY) -> None:
    wanted = tuple(Subscription(topic_filter=f"t/{one}", qos=qos) for one in range(count))
    client.send(wire.subscribe(MQTT_5, Subscribe(packet_id=9, subscriptions=wanted)))
    client.packets()


def bodies(client: Client) -> list[bytes]:
    return [packet[2] for packet in client.packets() if isinstance(packet, tuple) and packet[0] == "publish"]


def queues(site: Site) -> int:
    return sum(name.startswith("c.t.") for name in site.domain.queues)


def test_a_large_session_ends_in_slices() -> None:
    """One slice in a turn; others are served between."""
    site = Site()
    client = connected(site, "c")
    subscribe_all(client)
    other = connected(site, "other")
    other.subscribe("x")

    client.lose()
    left = [queues(site)]
    while site.domain.dispatcher.run():
        left.append(queues(site))
    other.publish("x", b"m")

    assert MANY > left[0] > MANY - 50
    assert len(left) > 10
    assert queues(site) == 0
    assert bodies(other) == [b"m"]


def test_a_new_session_has_nothing_of_the_one_that_is_ending() -> None:
    """[MQTT-3.1.2-4]: its queues get the same names, and must not be those that wait for their end."""
    site = Site()
    client = lasting(site, "c")
    subscribe_all(client)
    client.lose()
    while site.domain.dispatcher.run():
        pass
    publisher = connected(site, "p")
    publisher.publish(f"t/{MANY - 1}", b"for the old one", 1, 1)

    again = Client(site)
    again.send(wire.connect(Connect(version=MQTT_5, client_id="c", clean_start=True)))
    waiting = queues(site)
    wanted = (Subscription(topic_filter=f"t/{MANY - 1}", qos=1),)
    again.send(wire.subscribe(MQTT_5, Subscribe(packet_id=1, subscriptions=wanted)))
    publisher.publish(f"t/{MANY - 1}", b"for the new one", 1, 2)

    assert waiting > MANY // 2
    assert bodies(again) == [b"for the new one"]
    assert queues(site) == 1


def test_a_session_that_was_ending_ends_after_a_restart(tmp_path: Path) -> None:
    """It was over from the first slice on; what was left of it goes with the next start."""
    with Site(tmp_path) as site:
        client = lasting(site, "c")
        subscribe_all(client)
        client.lose()
        site.commit()
        again = Client(site)
        again.send(wire.connect(Connect(version=MQTT_5, client_id="c", clean_start=True)))
        site.commit()
        left = queues(site)

    assert left > MANY // 2
    with Site(tmp_path) as site:
        assert site.manager.sessions.get("c") is None
        site.turn()
        site.commit()

        assert queues(site) == 0
        assert site.domain.storage.load_records("mqtt") == []


def test_a_large_session_is_taken_up_in_slices() -> None:
    """CONNACK comes when all subscriptions are there again, and messages once, behind it."""
    site = Site()
    client = lasting(site, "c")
    subscribe_all(client)
    publisher = connected(site, "p")
    client.lose()
    site.turn()
    publisher.publish("t/0", b"before", 1, 1)

    again = Client(site)
    properties = Properties(session_expiry_interval=100)
    fields = Connect(version=MQTT_5, client_id="c", clean_start=False, properties=properties)
    again.send(wire.connect(fields))
    site.commit()
    turns = 0
    while not again.handler.engine.is_open:
        assert again.handler.data_to_send() == b""
        publisher.publish("t/1", b"%d" % turns, 1, 2 + turns)
        assert site.domain.dispatcher.run()
        turns += 1
    answer, *rest = again.packets()

    assert turns >= 2
    assert type(answer).__name__ == "Connack"
    assert answer.session_present
    assert [packet[2] for packet in rest] == [b"before", *[b"%d" % turn for turn in range(turns)]]


def test_a_client_that_leaves_before_its_session_is_taken_up_loses_nothing() -> None:
    """The slices stop, and its next connection finds all of it."""
    site = Site()
    client = lasting(site, "c")
    subscribe_all(client)
    client.lose()
    site.turn()
    publisher = connected(site, "p")
    publisher.publish("t/0", b"m", 1, 1)
    properties = Properties(session_expiry_interval=100)
    fields = Connect(version=MQTT_5, client_id="c", clean_start=False, properties=properties)

    for _ in range(3):
        hasty = Client(site)
        hasty.send(wire.connect(fields))
        site.domain.dispatcher.run()
        hasty.lose()
        site.domain.dispatcher.run()
    stayed = Client(site)
    stayed.send(wire.connect(fields))
    answer, *rest = stayed.packets()

    assert answer.session_present
    assert [packet[2] for packet in rest] == [b"m"]
    publisher.publish(f"t/{MANY - 1}", b"n", 1, 2)
    assert bodies(stayed) == [b"n"]
