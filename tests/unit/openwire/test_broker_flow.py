"""Full addresses: clients that wait, that are refused, and that are not read (openwire §13)."""

from typing import Any

import pytest

from artemis_openwire.engine.commands import ProducerAck, ProducerInfo, Response
from artemis_openwire.engine.structures import ProducerId
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from tests.openwire_site import Client, Site, connected, queue

ORDERS = queue("orders")
WINDOWED = ProducerId(connection_id="c1", session_id=1, value=5)


def full(policy: FullPolicy = FullPolicy.BLOCK) -> Client:
    """A client of a broker on which a single message fills an address."""
    return connected(Site(settings=AddressSettings(address_full_policy=policy, max_size_bytes=100)))


def empty(client: Client) -> None:
    """Another client takes everything, and leaves."""
    other = connected(client.site, "c2")
    other.consume(ORDERS)
    found = other.dispatches()
    other.ack(found[0], found[-1], count=len(found))
    other.lose()


def test_an_answer_waits_for_room() -> None:
    client = full()
    number = client.tell(client.text(ORDERS), answered=True)
    before = client.received()
    empty(client)

    (answer,) = client.received()
    assert (before, answer) == ([], Response(correlation_id=number))
    assert client.is_read


def test_a_producer_window_waits_for_room() -> None:
    client = full()
    client.done(ProducerInfo(producer_id=WINDOWED, destination=ORDERS, window_size=2000))
    client.tell(client.text(ORDERS, producer_id=WINDOWED))
    before = client.received()
    empty(client)

    assert (before, [type(one) for one in client.received()]) == ([], [ProducerAck])


def test_a_client_that_waits_for_nothing_is_not_read() -> None:
    client = full()
    client.tell(client.text(ORDERS))
    before = client.is_read
    client.tell(client.text(ORDERS))
    count = client.site.domain.queue("orders").message_count
    empty(client)
    client.received()
    after_the_second = client.is_read
    empty(client)
    client.received()

    assert (before, count, after_the_second, client.is_read) == (False, 1, False, True)


def test_a_client_that_owes_acknowledgements_is_read() -> None:
    """They may be what makes room."""
    client = full()
    client.consume(ORDERS)
    client.tell(client.text(ORDERS, "1"))
    (first,) = client.dispatches()
    client.tell(client.text(ORDERS, "2"))
    is_read = client.is_read
    client.ack(first, first)

    assert (is_read, client.texts()) == (True, ["2"])


def test_a_full_address_that_refuses() -> None:
    client = full(FullPolicy.FAIL)
    client.send(ORDERS, "1")

    assert client.refused(client.text(ORDERS)) == "ResourceAllocationException"


def test_a_client_that_leaves_waits_for_nothing() -> None:
    client = full()
    client.tell(client.text(ORDERS))
    client.lose()
    empty(client)

    assert client.site.domain.queue("orders").message_count == 0


@pytest.mark.parametrize("version", [2, 3])
def test_windows_are_known_from_version_3_on(version: int) -> None:
    client = connected(Site(), version=version)
    client.done(ProducerInfo(producer_id=WINDOWED, destination=ORDERS, window_size=2000))
    client.tell(client.text(ORDERS, producer_id=WINDOWED))
    expected: list[Any] = [] if version < 3 else [ProducerAck]

    assert [type(one) for one in client.received()] == expected


@pytest.mark.parametrize(("detects", "expected"), [("true", 1), ("false", 2)])
def test_a_message_of_a_failover_client_is_taken_once(detects: str, expected: int) -> None:
    """openwire §13: it is sent again after a reconnection."""
    site = Site()
    parameters = {"openwireUseDuplicateDetectionOnFailover": detects}
    client = Client(site, "c1", 12, None, **parameters).log_in(fault_tolerant=True)
    message = client.text(ORDERS)
    client.done(message)
    client.lose()
    again = Client(site, "c1", 12, None, **parameters).log_in(fault_tolerant=True, failover_reconnect=True)
    again.done(message)

    assert site.domain.queue("orders").message_count == expected


def test_a_message_of_another_client_is_never_taken_for_a_repetition() -> None:
    client = connected(Site())
    message = client.text(ORDERS)
    client.done(message)
    client.done(message)

    assert client.site.domain.queue("orders").message_count == 2
