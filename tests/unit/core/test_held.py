"""References are counted as messages are: many queues with a few each stay within the limits."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from artemis_py.core.messages.message import MESSAGE_OVERHEAD_BYTES, REFERENCE_BYTES
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, Consumer
from artemis_py.core.queues.cursors.browsing import BrowsingCursor
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.errors import AddressFull
from artemis_py.store.scratch import ScratchStore
from tests.core_harness import (
    Recorder,
    attach,
    browse_all,
    make_domain,
    make_message,
    make_queue,
    make_session,
    send,
    settle_down,
)
from tests.memory_harness import check_held, references_of
from tests.unit.store.world import SMALL_MAP_BYTES, World, plain_bodies, send_plain


class Slow(Recorder):
    """Takes one delivery at a time."""

    consumer: Consumer

    def deliver(self, reference: Reference) -> None:
        super().deliver(reference)
        self.consumer.blocked = True


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[ScratchStore]:
    store = ScratchStore(tmp_path / "scratch", SMALL_MAP_BYTES)
    yield store
    store.close()


def fan_out(domain: Domain, count: int, address: str = "t", **options: object) -> list[Queue]:
    """So many queues that all get what is sent to one address."""
    return [
        make_queue(domain, f"q{number}", RoutingType.MULTICAST, address=address, **options) for number in range(count)
    ]


def in_memory(queues: list[Queue]) -> int:
    return sum(len(references_of(queue)) for queue in queues)


def test_each_further_queue_costs_a_reference() -> None:
    """The message once, with its first reference; what the others hold on top, until they let go."""
    domain = make_domain()
    queues = fan_out(domain, 3)
    send(domain, "t", "m")
    address = domain.addresses["t"]
    sizes = [address.account.size_bytes]
    for queue in queues:
        queue.purge()
        sizes.append(address.account.size_bytes)

    message = MESSAGE_OVERHEAD_BYTES + 1
    assert sizes == [message + 2 * REFERENCE_BYTES, message + REFERENCE_BYTES, message, 0]
    assert domain.account.size_bytes == 0


def test_what_many_queues_hold_stays_within_the_broker_wide_limit(scratch: ScratchStore) -> None:
    """One message is a few hundred bytes, and fifty thousand references to a hundred of them are thirteen megabytes."""
    domain = make_domain(options=BrokerSettings(global_max_size_bytes=1_000_000), scratch=scratch)
    queues = fan_out(domain, 500)
    send_plain(domain, "t", *[f"{number:03}" for number in range(100)])

    assert domain.account.size_bytes < 1_000_000 + 500 * REFERENCE_BYTES
    assert in_memory(queues) * REFERENCE_BYTES < 1_200_000
    assert not domain.addresses["t"].must_wait
    check_held(domain)
    assert plain_bodies(browse_all(queues[499])) == [f"{number:03}" for number in range(100)]


def test_durable_messages_of_many_queues_leave_memory_when_they_are_stored(tmp_path: Path) -> None:
    """Ten queues with nine messages each are within the window of any of them."""
    with World(tmp_path, options=BrokerSettings(global_max_size_bytes=10_000)) as world:
        queues = fan_out(world.domain, 10, durable=True)
        for number in range(9):
            world.send("t", str(number))
            world.settle()

        assert world.domain.account.size_bytes <= 10_000 // 2 + 10 * REFERENCE_BYTES
        assert in_memory(queues) < 40
        check_held(world.domain)


@pytest.mark.parametrize("policy", [FullPolicy.DROP, FullPolicy.FAIL, FullPolicy.BLOCK])
def test_the_policy_of_the_address_is_about_references_as_well(policy: FullPolicy) -> None:
    """DROP drops, FAIL refuses and BLOCK gives no more credit, though the messages alone would fit."""
    settings = AddressSettings(max_size_bytes=10_000, address_full_policy=policy)
    domain = make_domain({"t": settings})
    queues = fan_out(domain, 20)
    refused = 0
    for _ in range(8):
        try:
            domain.route(make_message("m"), domain.addresses["t"])
        except AddressFull:
            refused += 1

    taken = queues[0].message_count
    assert taken == (8 if policy is FullPolicy.BLOCK else 2)
    assert refused == (6 if policy is FullPolicy.FAIL else 0)
    assert domain.addresses["t"].must_wait == (policy is FullPolicy.BLOCK)


def test_wildcard_queues_page_what_fills_the_address_it_was_sent_to(scratch: ScratchStore) -> None:
    """Their own address takes no messages, so its limit would never be reached."""
    domain = make_domain({"a.b": AddressSettings(max_size_bytes=20_000)}, scratch=scratch)
    domain.create_address("a.b", frozenset(RoutingType))
    queues = [make_queue(domain, f"q{n}", RoutingType.MULTICAST, address=f"a.{'*' if n else '#'}") for n in range(2)]
    send_plain(domain, "a.b", *[f"{number:03}" for number in range(100)])

    assert domain.account.size_bytes < 21_000
    assert [queue.message_count for queue in queues] == [100, 100]
    check_held(domain)


def test_what_is_read_for_many_slow_consumers_does_not_fill_memory(scratch: ScratchStore) -> None:
    """Each has a page of its own, so beyond an eighth more than the limit each gets a single message."""
    domain = make_domain(options=BrokerSettings(global_max_size_bytes=100_000), scratch=scratch)
    queues = fan_out(domain, 200)
    send_plain(domain, "t", *[f"{number:03}" for number in range(50)])
    recorders = [attach(domain, queue, credit=1000) for queue in queues]

    assert domain.account.size_bytes < 112_500 + 200 * (600 + 2 * REFERENCE_BYTES)
    check_held(domain)
    while any(queue.message_count for queue in queues):
        for recorder, consumer in recorders:
            for reference in recorder.take():
                consumer.settle(reference, ACCEPTED)
        settle_down(domain)
    assert [queue.message_count for queue in queues] == [0] * 200
    assert domain.account.size_bytes == 0


def test_a_message_whose_address_is_gone_counts_where_it_waits(tmp_path: Path) -> None:
    """A wildcard queue has it; it was read from disk after the address it was sent to had been deleted."""
    settings = {"#": AddressSettings(max_read_page_messages=2)}
    with World(tmp_path, settings) as world:
        queue = make_queue(world.domain, "w", RoutingType.MULTICAST, address="a.#", durable=True)
        world.domain.create_address("a.b", frozenset(RoutingType))
        world.send("a.b", *[str(number) for number in range(9)])
        world.settle()
        world.domain.delete_address("a.b")
        _, consumer = attach(world.domain, queue, credit=9)

        assert consumer.outstanding.count == 9
        assert queue.address.account.message_count > 0
        for reference in consumer.outstanding.all():
            consumer.settle(reference, ACCEPTED)
        assert world.domain.account.size_bytes == 0


def test_browsers_read_little_ahead_while_memory_is_tight(scratch: ScratchStore) -> None:
    """What is ahead of a browser is in nobody's account."""
    domain = make_domain(options=BrokerSettings(global_max_size_bytes=4_000), scratch=scratch)
    queue = make_queue(domain)
    bodies = [f"{number:03}" for number in range(50)]
    send_plain(domain, "q", *bodies)
    recorder = Slow()
    browser = recorder.consumer = make_session(domain).consume(queue, recorder, browse=True)
    browser.grant(100)
    settle_down(domain)
    ahead = 0
    while len(recorder.deliveries) < 50:
        browser.unblock()
        settle_down(domain)
        assert isinstance(browser.cursor, BrowsingCursor)
        ahead = max(ahead, len(browser.cursor.ahead))

    assert ahead == 0
    assert plain_bodies(recorder.take()) == bodies
