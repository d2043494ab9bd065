"""Publishers that fill memory are not read from; MQTT has no credit that could be withheld."""

from pathlib import Path
from typing import Any

import pytest

from artemis_mqtt.engine.packets import Will
from artemis_mqtt.engine.properties import Properties
from artemis_py.core.runtime import accounts
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.store.scratch import ScratchStore
from tests import mqtt_harness as wire
from tests.mqtt_site import Client, Site, connected, lasting
from tests.unit.store.world import SMALL_MAP_BYTES

BLOCK = AddressSettings(max_size_bytes=2_000, address_full_policy=FullPolicy.BLOCK)

PUBACK = 4


def publishes(count: int, qos: int) -> bytes:
    """So many messages for one read."""
    return b"".join(wire.publish(5, "t", b"%d" % number, qos, number + 1 if qos else 0) for number in range(count))


def messages(packets: list[Any]) -> list[tuple[bytes, int]]:
    """Payload and packet identifier of each PUBLISH."""
    return [(packet[2], packet[4]) for packet in packets if isinstance(packet, tuple) and packet[0] == "publish"]


def test_a_publisher_to_a_full_address_is_not_read_until_there_is_room() -> None:
    """BLOCK: what came in the same read is kept, and routed in order when the subscriber has taken what is there."""
    site = Site(settings=BLOCK)
    reader, writer = lasting(site, "reader"), connected(site, "writer")
    reader.subscribe("t", 1)
    writer.send(publishes(20, 1))
    halted = (writer.is_read, site.domain.addresses["t"].message_count)

    assert halted == (False, 4)
    got: list[bytes] = []
    while fresh := messages(reader.packets()):
        got += [payload for payload, _ in fresh]
        for _, packet_id in fresh:
            reader.ack(PUBACK, packet_id)
        writer.packets()
    assert got == [b"%d" % number for number in range(20)]
    assert writer.is_read
    assert site.domain.account.size_bytes == 0


def test_a_halted_client_is_not_silent() -> None:
    """[MQTT-3.1.2-22] is about what the client sends, which nobody reads then."""
    site = Site(settings=BLOCK)
    lasting(site, "reader").subscribe("t", 1)
    writer = connected(site, "writer", keep_alive_s=10)
    before = writer.handler.next_deadline()
    writer.send(publishes(20, 1))

    assert (before, writer.handler.next_deadline()) == (15.0, None)


def test_a_client_that_owes_acknowledgements_is_read_on() -> None:
    """They come behind what it publishes: it would wait for itself."""
    site = Site(settings=BLOCK)
    both = lasting(site, "both")
    both.subscribe("t", 1)
    both.send(publishes(2, 1))
    first = messages(both.packets())
    both.send(publishes(20, 1))
    is_read = both.is_read
    for _, packet_id in first:
        both.ack(PUBACK, packet_id)

    assert (len(first), is_read) == (2, True)
    assert len(messages(both.packets())) == 20


def test_a_delivery_to_a_halted_client_lets_it_be_read_again() -> None:
    """Its acknowledgement would never be seen."""
    site = Site(settings=BLOCK)
    lasting(site, "reader").subscribe("t", 1)
    both = lasting(site, "both")
    both.subscribe("other", 1)
    both.send(publishes(20, 1))
    halted = both.is_read
    connected(site, "writer").publish("other", b"m", 1, 1)

    assert not halted
    assert len(messages(both.packets())) == 1
    assert both.is_read


def test_nobody_waits_for_a_client_that_is_gone() -> None:
    """A peer that comes, fills and goes a million times leaves nothing."""
    site = Site(settings=BLOCK)
    lasting(site, "reader").subscribe("t", 1)
    accounts = (site.domain.addresses["t"].account, site.domain.account)
    waiting: list[int] = []
    for _ in range(3):
        writer = connected(site, "writer")
        writer.send(publishes(20, 1))
        assert not writer.is_read
        callbacks = [callback for account in accounts for callback in account._waiting]
        waiting.append(sum(getattr(callback, "__name__", "") == "read_on" for callback in callbacks))
        writer.lose()

    assert waiting == [1, 1, 1]
    assert not any(getattr(callback, "__name__", "") == "read_on" for each in accounts for callback in each._waiting)


def test_page_halts_publishers_while_too_much_is_on_its_way_to_the_disk(tmp_path: Path) -> None:
    """One read with more than memory takes: nothing is refused, and everything arrives after the commits."""
    options = BrokerSettings(global_max_size_bytes=20_000)
    scratch = ScratchStore(tmp_path / "scratch", SMALL_MAP_BYTES)
    with Site(tmp_path / "journal", options=options, scratch=scratch) as site:
        readers = [lasting(site, f"r{number}") for number in range(10)]
        for reader in readers:
            reader.subscribe("t", 1)
            reader.lose()
        site.commit()
        writer = connected(site, "writer")
        writer.send(publishes(100, 1))
        most = site.domain.account.size_bytes
        answers = writer.packets()

        assert most < 30_000
        assert [answer[0] for answer in answers] == ["puback"] * 100
        assert {answer[2] for answer in answers} == {0}
        assert [queue.message_count for queue in site.domain.queues.values()] == [100] * 10
    scratch.close()


def test_what_is_not_durable_goes_to_disk_and_nobody_waits(tmp_path: Path) -> None:
    """PAGE: the subscriber does not read, has many overlapping filters, and all of it is there when it does."""
    scratch = ScratchStore(tmp_path, SMALL_MAP_BYTES)
    site = Site(options=BrokerSettings(global_max_size_bytes=100_000), scratch=scratch)
    reader, writer = connected(site, "reader"), connected(site, "writer")
    for topic_filter in ("t", "+", "#", "t/#", "+/#"):
        reader.subscribe(topic_filter)
    reader.handler.pause()
    writer.send(publishes(1000, 0))
    site.turn()

    assert site.domain.account.size_bytes < 110_000
    assert writer.is_read
    reader.handler.resume()
    got = [payload for payload, _ in messages(reader.packets())]
    assert sorted(got) == sorted([b"%d" % number for number in range(1000)] * 5)
    assert site.domain.account.size_bytes == 0
    scratch.close()


def test_retained_messages_do_not_fill_memory() -> None:
    """Each is refused once they have half of it, in version 5 with 0x97; others go on publishing."""
    site = Site(options=BrokerSettings(global_max_size_bytes=100_000))
    flood, other = connected(site, "flood"), connected(site, "other")
    for number in range(200):
        flood.publish(f"flood/{number}", b"x" * 500, 1, number + 1, retain=True)
    reasons = [answer[2] for answer in flood.packets()]
    other.subscribe("news")
    other.publish("news", b"m", 1, 1)

    assert reasons.count(0x97) > 100
    assert site.domain.account.size_bytes < 60_000
    assert messages(other.packets()) == [(b"m", 0)]


def test_sessions_and_wills_are_counted_until_they_end() -> None:
    """A session that outlives its connection keeps its will and its subscriptions."""
    site = Site()
    tables = site.domain.dispatcher.tables
    will = Will(topic="w", payload=b"x" * 5000, qos=0, retain=False, properties=Properties(will_delay_interval=60))
    client = lasting(site, "client", will=will)
    client.subscribe("t")
    client.lose()
    away = tables.size_bytes
    again = lasting(site, "client")
    back = tables.size_bytes
    again.leave()
    connected(site, "client").leave()
    site.domain.delete_address("t")

    assert back < away - 5000 + 3000
    assert away > 5000
    assert tables.size_bytes == 0


def test_clients_cannot_make_sessions_subscriptions_and_topics_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """0x97 for each, in version 5; the clients that are there go on."""
    monkeypatch.setattr(accounts, "LEAST_TABLES_BYTES", 60_000)
    site = Site(options=BrokerSettings(global_max_size_bytes=10_000))
    there = connected(site, "there")
    there.subscribe("known")
    codes = [there.subscribe(f"t/{number}")[0] for number in range(20)]
    there.publish("unknown", b"m", 1, 1)
    refused = there.packets()
    early = [Client(site).connect(f"early{number}").reason for number in range(20)]
    answer = Client(site).connect("late")
    there.publish("known", b"m", 0)

    assert (codes[0], codes[19]) == (0, 0x97)
    assert refused == [("puback", 1, 0x97)]
    assert (early[0], answer.reason) == (0, 0x97)
    assert messages(there.packets()) == [(b"m", 0)]


def test_packets_that_never_end_are_counted_and_refused() -> None:
    """16 MiB may be on their way on each connection: what there is of them counts, and goes with the connection."""
    site = Site(options=BrokerSettings(global_max_size_bytes=100_000))
    account = site.domain.account
    begun = wire.publish(5, "t", b"x" * 150_000)
    first, second = connected(site, "first"), connected(site, "second")
    first.send(begun[:60_000])
    one = account.size_bytes
    first.send(begun[60_000:110_000])
    both = account.size_bytes
    second.send(begun[:120_000])
    (last,) = second.packets()
    second.lose()
    kept = account.size_bytes
    first.send(begun[110_000:])

    assert (one, both, kept) == (60_000, 110_000, 110_000)
    assert last.reason == 0x97
    assert not first.handler.closed
    assert account.size_bytes == 0
