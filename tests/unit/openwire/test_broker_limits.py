"""What one connection may open, and what it counts for (docs/openwire.md, Limits)."""

from collections.abc import Callable
from types import ModuleType

import pytest

from artemis_openwire.broker import consumers, exchange, patterns, producers, pulls, temporary, transactions
from artemis_openwire.engine.commands import (
    BaseCommand,
    ConsumerInfo,
    DestinationInfo,
    MessagePull,
    ProducerInfo,
    RemoveInfo,
    SessionInfo,
)
from artemis_openwire.engine.structures import ActiveMQTempQueue, ConnectionId, ProducerId, SessionId
from tests.openwire_site import Client, Site, connected, queue, topic

Opening = Callable[[Client, int], BaseCommand]


def session(client: Client, number: int) -> BaseCommand:
    return SessionInfo(session_id=SessionId(connection_id="c1", value=number))


def producer(client: Client, number: int) -> BaseCommand:
    return ProducerInfo(producer_id=ProducerId(connection_id="c1", session_id=1, value=number))


def consumer(client: Client, number: int) -> BaseCommand:
    return ConsumerInfo(consumer_id=client.consumer(number), destination=queue("q"), prefetch_size=1)


def watcher(client: Client, number: int) -> BaseCommand:
    destination = topic("ActiveMQ.Advisory.TempQueue")
    return ConsumerInfo(consumer_id=client.consumer(number), destination=destination, prefetch_size=1)


def node(client: Client, number: int) -> BaseCommand:
    name = ActiveMQTempQueue(physical_name=f"ID:{number}")
    return DestinationInfo(connection_id=ConnectionId(value="c1"), destination=name, operation_type=0)


def transaction(client: Client, number: int) -> BaseCommand:
    return client.step(0, number)


@pytest.mark.parametrize(
    ("module", "limit", "opening", "had"),
    [
        (exchange, "MAX_SESSIONS", session, 1),
        (producers, "MAX_PRODUCERS", producer, 1),
        (consumers, "MAX_CONSUMERS", consumer, 0),
        (consumers, "MAX_CONSUMERS", watcher, 0),
        (temporary, "MAX_TEMPORARY", node, 0),
        (transactions, "TRANSACTION_LIMIT", transaction, 0),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_so_many_are_enough(
    module: ModuleType, limit: str, opening: Opening, had: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not str(module.__file__).endswith(".py"):
        pytest.skip("constants are compiled in")
    client = connected(Site())
    monkeypatch.setattr(module, limit, had + 2)
    client.done(opening(client, 11))
    client.done(opening(client, 12))

    assert client.refused(opening(client, 13)) == "ResourceAllocationException"


def test_a_pattern_takes_from_so_many_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MAX_QUEUES", 2)
    client = connected(Site())
    for name in ("w.1", "w.2", "w.3"):
        client.send(queue(name), name)
    client.consume(queue("w.*"))

    assert client.texts() == ["w.1", "w.2"]


def test_pulls_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    if not pulls.__file__.endswith(".py"):
        pytest.skip("constants are compiled in")
    monkeypatch.setattr(pulls, "MAX_PULLS", 2)
    client = connected(Site())
    client.consume(queue("q"), prefetch=0)
    for _ in range(3):
        client.tell(MessagePull(consumer_id=client.consumer(), destination=queue("q"), timeout=0))
    client.send(queue("q"), "1", "2", "3")

    assert client.texts() == ["1", "2"]


@pytest.mark.parametrize("way", ["lost", "removed"])
def test_the_account_of_tables_is_as_before(way: str) -> None:
    """Whatever a client had open."""
    site = Site()
    connected(site, "c0").send(queue("q"), "m")
    before = site.domain.dispatcher.tables.size_bytes
    client = connected(site)
    client.done(producer(client, 2))
    client.done(consumer(client, 1))
    client.done(watcher(client, 2))
    client.done(node(client, 3))
    during = site.domain.dispatcher.tables.size_bytes
    if way == "removed":
        client.done(RemoveInfo(object_id=client.consumer(2)))
        client.done(RemoveInfo(object_id=ProducerId(connection_id="c1", session_id=1, value=2)))
        client.done(RemoveInfo(object_id=SessionId(connection_id="c1", value=1)))
        client.done(RemoveInfo(object_id=ConnectionId(value="c1")))
    client.lose()

    assert during > before
    assert site.domain.dispatcher.tables.size_bytes == before
