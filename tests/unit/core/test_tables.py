"""Addresses, queues and consumers that clients make are counted, and end somewhere."""

from contextlib import suppress

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime import accounts
from artemis_py.core.runtime.accounts import ADDRESS_BYTES, CONSUMER_BYTES, NAME_FACTOR, QUEUE_BYTES, tables_limit
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import LimitExceeded
from tests.core_harness import Recorder, make_domain, make_queue, make_session, send

BOTH = frozenset(RoutingType)


@pytest.fixture
def domain(monkeypatch: pytest.MonkeyPatch) -> Domain:
    """One with room for little."""
    monkeypatch.setattr(accounts, "LEAST_TABLES_BYTES", 20_000)
    return make_domain(options=BrokerSettings(global_max_size_bytes=1000))


def test_what_clients_make_is_counted_and_given_back() -> None:
    """Each with its name, whoever makes it and however it goes."""
    domain = make_domain()
    tables = domain.dispatcher.tables
    sizes = [tables.size_bytes]
    queue = make_queue(domain, "queue", address="address")
    sizes.append(tables.size_bytes)
    session = make_session(domain)
    consumer = session.consume(queue, Recorder())
    session.consume(queue, Recorder())
    sizes.append(tables.size_bytes)
    session.close_consumer(consumer)
    session.close_consumer(consumer)
    session.create_temporary_queue(RoutingType.ANYCAST)
    session.close()
    sizes.append(tables.size_bytes)
    domain.delete_address("address", force=True)
    sizes.append(tables.size_bytes)

    made = ADDRESS_BYTES + QUEUE_BYTES + NAME_FACTOR * len("addressqueue")
    assert sizes == [0, made, made + 2 * CONSUMER_BYTES, made, 0]


def test_a_queue_that_is_deleted_gives_its_consumers_back() -> None:
    """They end with it."""
    domain = make_domain()
    make_session(domain).consume(make_queue(domain), Recorder())
    domain.delete_address("q", force=True)

    assert domain.dispatcher.tables.size_bytes == 0


def test_a_publisher_cannot_make_addresses_without_end(domain: Domain) -> None:
    """They take half of the room at most, so that queues and consumers still find some; then nothing is made."""
    session = make_session(domain)
    tables = domain.dispatcher.tables
    queue = make_queue(domain, "there")
    made = 0
    while tables.size_bytes < 10_000:
        session.producer(f"a{made}", RoutingType.MULTICAST)
        made += 1
    with pytest.raises(LimitExceeded, match="no room for address 'one more'"):
        session.producer("one more", RoutingType.MULTICAST)
    with pytest.raises(LimitExceeded):
        session.producer("another", RoutingType.ANYCAST)
    while tables.size_bytes < 15_000:
        session.create_queue(QueueConfig(name=f"q{tables.size_bytes}", address="there"))
    with pytest.raises(LimitExceeded):
        session.create_queue(QueueConfig(name="one more", address="there"))
    # The first is for answers, so that the client can ask for what makes room.
    session.create_temporary_queue(RoutingType.ANYCAST)
    with pytest.raises(LimitExceeded):
        session.create_temporary_queue(RoutingType.ANYCAST)
    session.consume(queue, Recorder())
    while tables.size_bytes < 20_000:
        session.consume(queue, Recorder())
    with pytest.raises(LimitExceeded):
        session.consume(queue, Recorder())

    assert tables.size_bytes < 25_000 + QUEUE_BYTES
    send(domain, "there", "m")
    assert queue.message_count == 1
    session.close()
    make_session(domain).consume(queue, Recorder())


def test_what_a_client_needs_for_answers_ends_somewhere_too(domain: Domain) -> None:
    """Thousands of clients with one queue each use up the reserve, and no more than that."""
    for _ in range(100):
        with suppress(LimitExceeded):
            session = make_session(domain)
            session.consume(session.create_temporary_queue(RoutingType.ANYCAST), Recorder())

    assert domain.dispatcher.tables.size_bytes < 25_000 + 10_000


def test_an_operator_may_go_on(domain: Domain) -> None:
    """What `broker.xml`, a restart and management make is counted, and not refused."""
    for number in range(30):
        make_queue(domain, f"q{number}")

    assert domain.dispatcher.tables.size_bytes > 20_000


@pytest.mark.parametrize(
    ("global_max_size", "expected"), [(-1, -1), (0, 64 << 20), (200_000_000, 200_000_000), (64 << 20, 64 << 20)]
)
def test_the_limit_follows_that_of_messages(global_max_size: int, expected: int) -> None:
    """It is `global-max-size`, and 64 MiB at least; without that limit there is none."""
    assert tables_limit(global_max_size) == expected
