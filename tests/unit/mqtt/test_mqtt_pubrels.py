"""When PUBRELs of deliveries go out: at once, with the next messages, or when the store is ready."""

from pathlib import Path
from typing import Any

from artemis_mqtt.broker.deliveries import Subscription
from artemis_mqtt.broker.pubrels import ROUND_MS
from tests import mqtt_harness as wire
from tests.mqtt_site import Client, Site, connected, lasting

PUBREC, PUBCOMP = 5, 7
BODIES = [b"a", b"bb", b"ccc"]
MORE = [b"dddd", b"eeeee"]


def send(writer: Client, *payloads: bytes) -> None:
    """Publish messages, whose deliveries wait for the next turn."""
    for payload in payloads:
        writer.publish("t", payload, 2, 1 + len(payload))
        writer.send(wire.ack(6, 1 + len(payload)))


def receive(reader: Client, *packet_ids: int) -> None:
    """Answer with PUBREC, all in one read."""
    reader.send(*[wire.ack(PUBREC, packet_id) for packet_id in packet_ids])


def written(reader: Client) -> list[Any]:
    """What would be written to it now, with no visit of the dispatcher: bodies, and identifiers of PUBREL."""
    packets = wire.read_server_packets(reader.version, reader.handler.data_to_send())
    return [packet[2] if packet[0] == "publish" else packet[1] for packet in packets]


def world() -> tuple[Site, Client, Client]:
    """A subscriber that has received three messages of QoS 2, and a client that writes."""
    site = Site()
    reader, writer = connected(site, "reader"), connected(site, "writer")
    reader.subscribe("t", 2)
    send(writer, *BODIES)
    reader.packets()
    return site, reader, writer


def subscription(reader: Client) -> Subscription:
    """Its only one."""
    assert reader.handler.session is not None
    return reader.handler.session.subscriptions["t"]


def test_they_go_out_at_once_while_nothing_waits_for_the_client() -> None:
    """[MQTT-4.3.3-1]"""
    _, reader, _ = world()
    receive(reader, 1, 2, 3)

    assert written(reader) == [1, 2, 3]


def test_they_go_out_in_one_write_with_messages_that_are_due() -> None:
    """The client answers both in one read."""
    site, reader, writer = world()
    send(writer, *MORE)
    receive(reader, 1, 2, 3)
    before = written(reader)
    site.turn()
    together = written(reader)

    assert before == []
    assert together == [*MORE, 1, 2, 3]


def test_a_visit_that_delivers_some_takes_them_along() -> None:
    """More messages are due then, but there is a write."""
    site, reader, writer = world()
    send(writer, *MORE)
    receive(reader, 1, 2, 3)
    site.domain.dispatcher.run(1)

    assert written(reader) == [MORE[0], 1, 2, 3]


def test_they_wait_no_longer_than_two_rounds() -> None:
    """Whatever keeps the messages back: here an operator paused the queue."""
    site, reader, writer = world()
    send(writer, *MORE)
    subscription(reader).queue.pause()
    receive(reader, 1, 2, 3)
    seen = [written(reader)]
    for _ in range(3):
        site.pass_time(ROUND_MS / 1000)
        seen.append(written(reader))

    assert seen == [[], [], [1, 2, 3], []]


def test_what_waits_again_waits_as_long_as_before() -> None:
    """A round that ends sends what waits since the round before, and nothing that came after it went out."""
    site, reader, writer = world()
    send(writer, *MORE)
    receive(reader, 1)
    site.turn()
    seen = [written(reader)]
    site.pass_time(ROUND_MS / 1000)
    send(writer, b"f")
    receive(reader, 2, 3)
    for _ in range(3):
        seen.append(written(reader))
        site.pass_time(ROUND_MS / 1000)
        site.domain.dispatcher.ready.clear()

    assert seen == [[*MORE, 1], [], [], [2, 3]]


def test_a_closed_window_lets_them_out() -> None:
    """[MQTT-4.9.0-2] Messages wait for PUBCOMP, which waits for PUBREL."""
    site = Site()
    reader, writer = connected(site, "reader"), connected(site, "writer")
    reader.subscribe("t", 2)
    assert reader.handler.session is not None
    reader.handler.session.outgoing.quota = 3
    send(writer, *BODIES, *MORE)
    site.turn()
    seen = [written(reader)]
    receive(reader, 1, 2, 3)
    seen.append(written(reader))

    assert seen == [BODIES, [1, 2, 3]]


def test_a_connection_that_ends_takes_them_along() -> None:
    """Nothing is written when their round ends, and nothing is left in an account."""
    site, reader, writer = world()
    send(writer, *MORE)
    receive(reader, 1, 2, 3)
    reader.lose()
    site.pass_time(4 * ROUND_MS / 1000)
    site.turn()

    assert written(reader) == []
    assert site.domain.account.size_bytes == 0


def test_they_keep_their_order_while_the_store_has_to_know_of_one(tmp_path: Path) -> None:
    """[MQTT-4.6.0-4] A delivery by itself waits for the store, and the run behind it waits with it."""
    with Site(tmp_path) as site:
        lasting(site, "other").subscribe("t", 2)
        reader, writer = connected(site, "reader"), connected(site, "writer")
        reader.subscribe("t", 2)
        send(writer, b"a")
        reader.packets()
        send(writer, b"bb", b"ccc")
        reader.packets()
        writer.publish("t", b"stored", 1, 9)
        receive(reader, 1)
        receive(reader, 2, 3)
        before = [packet for packet in reader.packets_before_commit() if packet[0] == "pubrel"]
        after = [packet[1] for packet in reader.packets() if packet[0] == "pubrel"]

    assert before == []
    assert after == [1, 2, 3]
