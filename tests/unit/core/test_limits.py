"""Limits of memory and of what is paged (artemis-model §3.15), without a store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.queues.dispatcher import UNSETTLED_BYTES_FULL
from artemis_py.core.runtime.events import AddressHasRoom, AddressIsFull
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy, PageFullPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.errors import AddressFull
from artemis_py.store.scratch import ScratchStore
from tests.core_harness import attach, browse_all, make_domain, make_queue, pass_time, send, settle_down
from tests.unit.store.world import SMALL_MAP_BYTES, plain_bodies, send_plain


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[ScratchStore]:
    store = ScratchStore(tmp_path, SMALL_MAP_BYTES)
    yield store
    store.close()


def numbered(count: int) -> list[str]:
    return [f"{number:03}" for number in range(count)]


def test_page_takes_everything_and_keeps_memory_within_the_limit(scratch: ScratchStore) -> None:
    """PAGE: the producer sees nothing of it."""
    domain = make_domain({"q": AddressSettings(max_size_messages=5)}, scratch=scratch)
    queue = make_queue(domain)
    send_plain(domain, "q", *numbered(100))
    address = queue.address

    assert (queue.message_count, address.message_count, address.account.message_count) == (100, 100, 4)
    assert not address.must_wait
    recorder, consumer = attach(domain, queue, credit=200)
    assert plain_bodies(recorder.take()) == numbered(100)
    for reference in consumer.outstanding.all():
        consumer.settle(reference, ACCEPTED)
    assert (address.size_bytes, address.paged_count) == (0, 0)


def test_the_global_limit_pages_as_well(scratch: ScratchStore) -> None:
    """global-max-size is about memory of all addresses."""
    domain = make_domain(options=BrokerSettings(global_max_size_bytes=3000), scratch=scratch)
    queues = [make_queue(domain, name) for name in ("a", "b")]
    for name in ("a", "b"):
        send_plain(domain, name, *numbered(50))

    assert domain.account.size_bytes < 4000
    assert not queues[1].address.must_wait
    assert [plain_bodies(browse_all(queue)) for queue in queues] == [numbered(50), numbered(50)]


def test_that_an_address_is_full_is_told_once(scratch: ScratchStore) -> None:
    """A backlog that stays at the limit is one event, not one for each message."""
    domain = make_domain({"q": AddressSettings(max_size_messages=8)}, scratch=scratch)
    queue = make_queue(domain)
    told: list[str] = []
    domain.events.subscribe(lambda _: told.append("full"), AddressIsFull)
    domain.events.subscribe(lambda _: told.append("room"), AddressHasRoom)
    send_plain(domain, "q", *numbered(20))
    recorder, consumer = attach(domain, queue, credit=1)
    for _ in range(10):
        consumer.settle(recorder.take()[0], ACCEPTED)
        send_plain(domain, "q", "more")
        consumer.grant(1)
        pass_time(domain, 9_000)
    before = list(told)
    queue.purge()
    pass_time(domain, 10_000)

    assert (before, told) == (["full"], ["full", "room"])


def test_a_purge_and_a_deletion_give_back_what_was_spilled(scratch: ScratchStore) -> None:
    """Memory, disk and counts."""
    domain = make_domain({"#": AddressSettings(max_size_messages=2)}, scratch=scratch)
    queue = make_queue(domain)
    for _ in range(2):
        send_plain(domain, "q", *numbered(20))
        assert queue.purge() == 20
        assert (queue.message_count, queue.address.message_count, queue.address.paged_bytes) == (0, 0, 0)
    send_plain(domain, "q", *numbered(20))
    address = queue.address
    domain.delete_queue("q")

    assert (address.message_count, address.paged_bytes, domain.account.size_bytes) == (0, 0, 0)


def test_without_scratch_files_page_holds_producers_back() -> None:
    """An embedded core without a disk."""
    domain = make_domain({"q": AddressSettings(max_size_messages=2)})
    queue = make_queue(domain)
    send(domain, "q", "1", "2", "3")

    assert queue.address.must_wait
    queue.purge()
    assert not queue.address.must_wait


def test_when_scratch_files_fail_page_holds_producers_back(scratch: ScratchStore) -> None:
    """As without them; nothing is lost."""
    domain = make_domain({"q": AddressSettings(max_size_messages=2)}, scratch=scratch)
    queue = make_queue(domain)
    send_plain(domain, "q", *numbered(10))
    scratch.is_usable = False
    send_plain(domain, "q", "last")

    assert queue.address.must_wait
    recorder, _ = attach(domain, queue)
    assert plain_bodies(recorder.take()) == [*numbered(10), "last"]


@pytest.mark.parametrize("policy", PageFullPolicy)
@pytest.mark.parametrize(("messages", "size_bytes"), [(4, -1), (-1, 2000)])
def test_a_page_limit_drops_or_refuses(
    scratch: ScratchStore, policy: PageFullPolicy, messages: int, size_bytes: int
) -> None:
    """page-full-policy; below the limit messages are taken again."""
    settings = AddressSettings(
        max_size_messages=2, page_full_policy=policy, page_limit_messages=messages, page_limit_bytes=size_bytes
    )
    domain = make_domain({"q": settings}, scratch=scratch)
    queue = make_queue(domain)
    send_plain(domain, "q", *numbered(5))
    for _ in range(2):
        if policy is PageFullPolicy.FAIL:
            with pytest.raises(AddressFull, match="page limit"):
                send_plain(domain, "q", "too much")
        else:
            send_plain(domain, "q", "too much")
    assert queue.message_count == 5

    attach(domain, queue, credit=3)
    send_plain(domain, "q", "again")
    assert plain_bodies(browse_all(queue)) == [*numbered(5)[3:], "again"]


def test_changing_the_policy_changes_what_the_limit_is_about(scratch: ScratchStore) -> None:
    """What is paged already counts under BLOCK, and does not under PAGE."""
    domain = make_domain({"q": AddressSettings(max_size_messages=5)}, scratch=scratch)
    address = make_queue(domain).address
    send_plain(domain, "q", *numbered(20))

    counts = []
    for policy in (FullPolicy.BLOCK, FullPolicy.PAGE):
        domain.settings.put("q", AddressSettings(max_size_messages=6, address_full_policy=policy))
        counts.append((address.account.message_count, address.message_count, address.must_wait))
    assert counts == [(20, 20, True), (4, 20, False)]


def test_a_consumer_that_never_settles_gets_nothing_more_when_memory_is_full(scratch: ScratchStore) -> None:
    """P14: memory stays bounded, and the others of the queue go on."""
    limit = 8 * UNSETTLED_BYTES_FULL
    domain = make_domain(options=BrokerSettings(global_max_size_bytes=limit), scratch=scratch)
    queue = make_queue(domain)
    greedy, hoarder = attach(domain, queue, credit=100_000)
    send_plain(domain, "q", *numbered(900), *["x" * 1000] * 3000)
    settle_down(domain)
    held = len(greedy.deliveries)
    assert domain.account.size_bytes < 1.1 * limit
    assert held < 3900
    assert hoarder.is_starved

    other, consumer = attach(domain, queue, credit=10)
    assert len(other.deliveries) == 10
    for reference in other.take():
        consumer.settle(reference, ACCEPTED)

    for reference in hoarder.outstanding.all():
        hoarder.settle(reference, ACCEPTED)
    settle_down(domain)
    assert len(greedy.deliveries) > held


def test_what_finds_no_room_is_counted() -> None:
    """Drops have no event, because a full address may have a million of them."""
    limited = {
        policy.value: AddressSettings(max_size_messages=1, address_full_policy=policy)
        for policy in (FullPolicy.DROP, FullPolicy.FAIL)
    }
    domain = make_domain(limited)
    make_queue(domain, "DROP")
    make_queue(domain, "FAIL")
    send(domain, "DROP", "a", "b", "c")
    send(domain, "FAIL", "a")
    with pytest.raises(AddressFull):
        send(domain, "FAIL", "b")

    assert (domain.admission.dropped, domain.admission.refused) == (2, 1)
