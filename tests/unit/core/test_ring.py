"""Ring queues keep the newest messages (artemis-model §2.2)."""

from itertools import pairwise
from pathlib import Path

import pytest

from artemis_py.core.queues.consumer import FAILED, RELEASED
from artemis_py.core.queues.page import Page, PageRequest
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.rules.ring import RETRY_MS
from artemis_py.core.runtime.background import SLICE_MESSAGES
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.queue_settings import RingEviction
from tests.core_harness import (
    attach,
    browse_all,
    make_domain,
    make_message,
    make_queue,
    pass_time,
    send,
    settle_down,
)
from tests.unit.store.world import World


def plain_bodies(references: list[Reference]) -> list[str]:
    return [reference.message.data.decode() for reference in references]


def test_the_oldest_goes_when_one_more_comes() -> None:
    domain = make_domain()
    queue = make_queue(domain, ring_size=3)

    send(domain, "q", "a", "b", "c", "d", "e")

    assert plain_bodies(browse_all(queue)) == ["c", "d", "e"]
    assert (queue.messages_added, queue.messages_replaced, queue.message_count) == (5, 2, 3)
    assert domain.account.message_count == 3


def test_the_oldest_goes_whatever_its_priority() -> None:
    domain = make_domain()
    queue = make_queue(domain, ring_size=2)
    for body, priority in (("a", 9), ("b", 1), ("c", 5)):
        domain.route(make_message(body, priority=priority), domain.addresses["q"])

    assert plain_bodies(browse_all(queue)) == ["c", "b"]


def test_what_a_consumer_has_does_not_count_until_it_comes_back() -> None:
    domain = make_domain()
    queue = make_queue(domain, ring_size=2)
    recorder, consumer = attach(domain, queue, 2)
    send(domain, "q", "a", "b")
    send(domain, "q", "c", "d")
    a, b = recorder.take()
    assert plain_bodies(browse_all(queue)) == ["c", "d"]

    consumer.settle(b, RELEASED)
    consumer.settle(a, RELEASED)
    settle_down(domain)

    assert plain_bodies(browse_all(queue)) == ["c", "d"]
    assert (queue.message_count, queue.messages_replaced, domain.account.message_count) == (2, 2, 2)


def test_a_message_that_comes_back_takes_the_room_of_an_older_one() -> None:
    domain = make_domain()
    queue = make_queue(domain, ring_size=2)
    recorder, consumer = attach(domain, queue, 1, filter=None)
    domain.route(make_message("old", priority=1), domain.addresses["q"])
    domain.route(make_message("a", priority=9), domain.addresses["q"])
    settle_down(domain)
    (taken,) = recorder.take()
    assert taken.message.data == b"a"
    send(domain, "q", "b")

    consumer.settle(taken, RELEASED)
    settle_down(domain)

    assert plain_bodies(browse_all(queue)) == ["a", "b"]


def test_a_delayed_message_makes_room_when_it_is_due() -> None:
    domain = make_domain()
    queue = make_queue(domain, ring_size=2)
    domain.route(make_message("late", delivery_time_ms=domain.dispatcher.now_ms + 1000), domain.addresses["q"])
    send(domain, "q", "a", "b")
    assert plain_bodies(browse_all(queue)) == ["a", "b"]

    pass_time(domain, 1000)

    assert plain_bodies(browse_all(queue)) == ["b", "late"]


@pytest.mark.parametrize("size", [1, 7, 30])
def test_a_ring_is_exact_with_messages_on_disk(tmp_path: Path, size: int) -> None:
    """Its window is smaller than the ring, and a restart changes nothing."""
    with World(tmp_path, {"#": AddressSettings(max_read_page_messages=3)}) as world:
        queue = world.queue(ring_size=size)
        for number in range(100):
            world.send("q", str(number))
            if number % 10 == 9:
                world.settle()
        world.settle()

        assert [reference.message.view.body for reference in browse_all(queue)] == [
            str(number) for number in range(100 - size, 100)
        ]
        assert (queue.message_count, queue.messages_replaced) == (size, 100 - size)
        world.audit()
    with World(tmp_path, {"#": AddressSettings(max_read_page_messages=3)}) as world:
        queue = world.domain.queues["q"]
        world.send("q", "100")
        world.settle()

        assert queue.message_count == size
        assert browse_all(queue)[-1].message.view.body == "100"


def test_nothing_is_dropped_because_the_disk_cannot_be_read(tmp_path: Path) -> None:
    with World(tmp_path, {"#": AddressSettings(max_read_page_messages=1)}) as world:
        queue = world.queue(ring_size=2)
        recorder, consumer = attach(world.domain, queue, 1)
        for bodies in ("a", "bc", "d"):
            world.send("q", *bodies)
            world.settle()
            consumer.grant(1 if bodies == "bc" else 0)
            settle_down(world.domain)
        first = recorder.take()[0]
        world.crash()
        waiting = queue.waiting_count

        consumer.settle(first, RELEASED)

        assert (waiting, queue.waiting_count, queue.messages_replaced) == (2, 3, 0)


def test_the_default_is_a_setting_of_the_address_and_may_change() -> None:
    domain = make_domain({"#": AddressSettings(default_ring_size=2)})
    queue = make_queue(domain)
    send(domain, "q", "a", "b", "c")
    assert queue.message_count == 2

    domain.update_queue("q", {"ring_size": -1})
    send(domain, "q", "d")
    assert queue.message_count == 3

    domain.update_queue("q", {"ring_size": 1})

    assert plain_bodies(browse_all(queue)) == ["d"]
    send(domain, "q", "e")
    assert plain_bodies(browse_all(queue)) == ["e"]


def test_a_ring_of_none_takes_nothing() -> None:
    domain = make_domain()
    queue = make_queue(domain, ring_size=0)

    send(domain, "q", "a")

    assert (queue.message_count, queue.messages_replaced, domain.account.message_count) == (0, 1, 0)


def numbered(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_a_queue_that_becomes_a_ring_shrinks_in_slices_and_never_grows() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", *numbered(5 * SLICE_MESSAGES))

    domain.update_queue("q", {"ring_size": 10})
    sizes = [queue.message_count]
    while domain.dispatcher.run():
        domain.route(make_message("x"), domain.addresses["q"])
        sizes.append(queue.message_count)

    assert sizes[0] == 4 * SLICE_MESSAGES
    assert all(after < before for before, after in pairwise(sizes[:4]))
    assert queue.message_count == 10


def test_a_change_while_a_ring_shrinks_counts_at_once() -> None:
    domain = make_domain()
    queue = make_queue(domain, ring_size=5 * SLICE_MESSAGES)
    send(domain, "q", *numbered(5 * SLICE_MESSAGES))

    domain.update_queue("q", {"ring_size": 10})
    domain.update_queue("q", {"ring_size": 3 * SLICE_MESSAGES})
    settle_down(domain)
    assert queue.message_count == 3 * SLICE_MESSAGES

    domain.update_queue("q", {"ring_size": 10})
    domain.update_queue("q", {"ring_size": 5})
    settle_down(domain)
    assert plain_bodies(browse_all(queue)) == numbered(5 * SLICE_MESSAGES)[-5:]

    domain.update_queue("q", {"ring_size": 1})
    domain.update_queue("q", {"ring_size": -1})
    send(domain, "q", "x", "y")
    assert plain_bodies(browse_all(queue))[-2:] == ["x", "y"]


def test_a_deleted_queue_stops_shrinking() -> None:
    domain = make_domain()
    make_queue(domain)
    send(domain, "q", *numbered(3 * SLICE_MESSAGES))
    domain.update_queue("q", {"ring_size": 1})

    domain.delete_queue("q")
    settle_down(domain)

    assert domain.account.message_count == 0


def test_a_restart_continues_to_shrink(tmp_path: Path) -> None:
    """The new size is durable, most removals are not yet."""
    count = 3 * SLICE_MESSAGES
    with World(tmp_path) as world:
        world.queue()
        world.send("q", *numbered(count))
        world.settle()
        world.domain.update_queue("q", {"ring_size": 7})
        world.hands.turn()
        world.hands.work()
        assert world.domain.queues["q"].message_count > 7
    with World(tmp_path) as world:
        queue = world.domain.queues["q"]
        assert queue.message_count == count - SLICE_MESSAGES

        pass_time(world.domain, 0)
        world.settle()

        assert [each.message.view.body for each in browse_all(queue)] == numbered(count)[-7:]
        world.audit()


def test_a_ring_goes_on_shrinking_once_the_disk_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with World(tmp_path, {"#": AddressSettings(max_read_page_messages=1)}) as world:
        queue = world.queue()
        world.send("q", *numbered(10))
        world.settle()
        monkeypatch.setattr(world.store, "read", lambda queue, request: None)
        world.domain.update_queue("q", {"ring_size": 3})
        settle_down(world.domain)
        unreadable = queue.message_count

        monkeypatch.undo()
        pass_time(world.domain, RETRY_MS)

        assert unreadable > 3
        assert [each.message.view.body for each in browse_all(queue)] == ["7", "8", "9"]


def test_the_head_goes_if_the_queue_says_so() -> None:
    """As in Artemis (artemis-model §3.3): the oldest of the highest priority, the new message included."""
    domain = make_domain()
    queue = make_queue(domain, ring_size=2, ring_eviction=RingEviction.HEAD)
    for body, priority in (("a", 1), ("b", 9), ("c", 5), ("d", 9), ("e", 5)):
        domain.route(make_message(body, priority=priority), domain.addresses["q"])

    assert plain_bodies(browse_all(queue)) == ["e", "a"]
    assert queue.messages_replaced == 3


def test_what_comes_back_to_a_full_ring_goes_if_the_head_is_to_go() -> None:
    domain = make_domain({"#": AddressSettings(default_ring_eviction=RingEviction.HEAD)})
    queue = make_queue(domain, ring_size=2)
    recorder, consumer = attach(domain, queue, 1)
    send(domain, "q", "a", "b")
    (a,) = recorder.take()

    consumer.settle(a, RELEASED)
    settle_down(domain)
    assert plain_bodies(browse_all(queue)) == ["a", "b"]
    consumer.grant(1)
    settle_down(domain)
    send(domain, "q", "c")
    consumer.settle(a, RELEASED)
    settle_down(domain)

    assert plain_bodies(browse_all(queue)) == ["b", "c"]
    assert queue.messages_replaced == 1


def test_a_message_that_waited_for_its_redelivery_delay_asks_for_room() -> None:
    """It is older than the others by then."""
    domain = make_domain({"#": AddressSettings(redelivery_delay=1000)})
    queue = make_queue(domain, ring_size=2)
    recorder, consumer = attach(domain, queue, 1)
    send(domain, "q", "a")
    send(domain, "q", "b", "c")
    (a,) = recorder.take()
    consumer.settle(a, FAILED)
    assert (queue.waiting_count, queue.scheduled_count) == (2, 1)

    pass_time(domain, 1000)

    assert plain_bodies(browse_all(queue)) == ["b", "c"]
    assert queue.messages_replaced == 1


def test_replaced_messages_are_no_dead_letters_and_do_not_expire() -> None:
    """artemis-model §3.3."""
    settings = AddressSettings(dead_letter_address="DLA", expiry_address="EXP")
    domain = make_domain({"q": settings})
    queue = make_queue(domain, ring_size=1)
    dead, expired = make_queue(domain, "DLA"), make_queue(domain, "EXP")
    late = make_message("late", expires_ms=domain.dispatcher.now_ms - 1)
    domain.route(late, domain.addresses["q"])

    send(domain, "q", "a", "b")

    assert (dead.message_count, expired.message_count) == (0, 0)
    assert (queue.messages_replaced, queue.messages_expired, queue.messages_killed) == (2, 0, 0)


def test_a_full_ring_of_many_priorities_reads_only_what_it_removes(tmp_path: Path) -> None:
    """The costs of one more message do not depend on the depth, nor on how many priorities wait on disk."""
    with World(tmp_path) as world:
        queue = world.queue(ring_size=300)
        for _ in range(30):
            for priority in range(10):
                world.send("q", "x", priority=priority)
        world.settle()
        read: list[int] = []
        original = queue.backlog.dispatcher.storage.read

        def counted(queue: Queue, request: PageRequest) -> Page | None:
            page = original(queue, request)
            read.append(0 if page is None else len(page.references))
            return page

        world.store.read = counted  # type: ignore[method-assign]
        for _ in range(100):
            world.send("q", "y", priority=0)
            world.settle()

        assert queue.message_count == 300
        assert sum(read) <= 300
        assert len(read) <= 20


def test_queues_of_the_broker_itself_are_rings_only_if_it_says_so() -> None:
    """A setting for all addresses must not remove messages from a stage."""
    domain = make_domain({"#": AddressSettings(default_ring_size=2)})
    plain = make_queue(domain, "stage", internal=True)
    ring = make_queue(domain, "history", internal=True, ring_size=3)

    for name in ("stage", "history"):
        send(domain, name, "a", "b", "c", "d", "e")

    assert (plain.message_count, ring.message_count) == (5, 3)
