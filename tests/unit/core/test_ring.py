"""Ring queues keep the newest messages (artemis-model §2.2)."""

from pathlib import Path

import pytest

from artemis_py.core.queues.consumer import RELEASED
from artemis_py.core.queues.reference import Reference
from artemis_py.core.settings.address_settings import AddressSettings
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
    assert queue.message_count == 3
    send(domain, "q", "e")

    assert plain_bodies(browse_all(queue)) == ["e"]


def test_a_ring_of_none_takes_nothing() -> None:
    domain = make_domain()
    queue = make_queue(domain, ring_size=0)

    send(domain, "q", "a")

    assert (queue.message_count, queue.messages_replaced, domain.account.message_count) == (0, 1, 0)


def test_a_queue_with_many_more_messages_shrinks_with_each_that_comes() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", *[str(number) for number in range(250)])
    domain.update_queue("q", {"ring_size": 10})

    send(domain, "q", "x")
    assert queue.message_count == 151
    send(domain, "q", "y", "z")

    assert queue.message_count == 10
