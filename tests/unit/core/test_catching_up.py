"""Long histories: a new queue gets them in slices, and before anything newer."""

import pytest

from artemis_py.core.services import catching_up, retroactive
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.queue_config import QueueConfig
from tests.core_harness import (
    START_MS,
    make_message,
    send,
    settle_down,
)
from tests.memory_harness import check_held
from tests.unit.core.retroactive_world import ANYCAST, BOTH, PREFIX, bodies, create, world_of


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A history of more than two messages takes several turns."""
    monkeypatch.setattr(retroactive, "AT_ONCE", 2)
    monkeypatch.setattr(catching_up, "SLICE", 2)
    monkeypatch.setattr(catching_up, "AT_A_TIME", 2)


def test_a_long_history_takes_several_turns_and_comes_before_newer_messages(small: None) -> None:
    domain, services = world_of(9)
    send(domain, "a", *"123456789")
    queue = create(domain)
    at_once = bodies(queue)
    domain.route(make_message("new"), domain.addresses["a"])
    domain.route(make_message("named"), domain.addresses["a"], "q")
    while_copying = (services.retroactive.catching_up, list(domain.queues)[-1])
    settle_down(domain)

    assert at_once == ["1", "2"]
    assert while_copying == (1, f"{PREFIX}{queue.id}.queue.waiting.retro")
    assert bodies(queue) == [*"123456789", "new", "named"]
    assert (services.retroactive.catching_up, len(domain.queues)) == (0, 3)
    assert (queue.messages_added, queue.messages_replaced, queue.guard, queue.entry) == (11, 0, None, None)
    assert bodies(domain.queues[f"{PREFIX}a.queue.multicast.retro"]) == [*"23456789", "new"]
    check_held(domain)


def test_the_ring_keeps_what_is_still_to_be_copied(small: None) -> None:
    """However fast messages come: each that comes for the queue copies two."""
    domain, _services = world_of(9)
    send(domain, "a", *"123456789")
    queue = create(domain, filter="n IS NULL")
    for number in range(9):
        domain.route(make_message(f"n{number}", n=1), domain.addresses["a"])
    settle_down(domain)

    assert bodies(queue) == list("123456789")
    ring = domain.queues[f"{PREFIX}a.queue.multicast.retro"]
    assert (bodies(ring), ring.guard) == ([f"n{number}" for number in range(9)], None)


def test_attributes_may_change_while_a_queue_is_catching_up(small: None) -> None:
    domain, _services = world_of(9)
    send(domain, "a", *"123456789")
    queue = create(domain)
    domain.update_queue("q", {"ring_size": 4})
    domain.route(make_message("new"), domain.addresses["a"])
    settle_down(domain)

    assert bodies(queue) == ["7", "8", "9", "new"]


def test_a_queue_that_is_deleted_leaves_nothing(small: None) -> None:
    domain, services = world_of(9)
    send(domain, "a", *"123456789")
    create(domain)
    domain.route(make_message("new"), domain.addresses["a"])

    domain.delete_queue("q")
    settle_down(domain)

    assert (services.retroactive.catching_up, len(domain.queues)) == (0, 2)
    assert domain.queues[f"{PREFIX}a.queue.multicast.retro"].guard is None
    check_held(domain)


def test_a_setting_of_0_waits_for_queues_that_are_catching_up(small: None) -> None:
    domain, _services = world_of(9)
    send(domain, "a", *"123456789")
    queue = create(domain)

    domain.settings.put("a", AddressSettings(retroactive_message_count=0))
    domain.settings.put("a", AddressSettings(retroactive_message_count=2))
    send(domain, "a", "new")
    settle_down(domain)
    send(domain, "a", "newer")

    assert bodies(queue) == [*"123456789", "new", "newer"]
    assert bodies(create(domain, "late")) == ["newer"]


def test_a_message_that_waits_expires_in_its_own_queue(small: None) -> None:
    domain, services = world_of(9, expiry_address="expired")
    domain.create_address("expired", BOTH)
    letters = domain.create_queue(QueueConfig(name="expired", address="expired", routing_type=ANYCAST))
    send(domain, "a", *"123456789")
    queue = create(domain)
    for _ in range(3):
        domain.route(make_message("short", expires_ms=START_MS + 5), domain.addresses["a"])
    domain.dispatcher.now_ms += 5
    services.reaper.expire_messages()
    settle_down(domain)
    services.reaper.expire_messages()
    settle_down(domain)

    assert bodies(queue) == list("123456789")
    assert bodies(letters) == ["short"] * 3


def test_the_work_of_a_turn_does_not_grow_with_the_history() -> None:
    domain, services = world_of(20_000)
    for number in range(5_000):
        domain.route(make_message(str(number)), domain.addresses["a"])
    before = domain.meter.work
    queue = create(domain)
    at_creation, work = queue.waiting_count, domain.meter.work - before
    most, last = 0, queue.waiting_count
    while services.retroactive.catching_up:
        domain.dispatcher.run()
        most, last = max(most, queue.waiting_count - last), queue.waiting_count

    assert (at_creation, most, last) == (catching_up.AT_ONCE, catching_up.SLICE, 5_000)
    assert catching_up.AT_ONCE <= work < 2 * catching_up.AT_ONCE


def test_purging_a_queue_ends_the_copying(small: None) -> None:
    domain, services = world_of(9)
    send(domain, "a", *"123456789")
    queue = create(domain)
    domain.route(make_message("new"), domain.addresses["a"])

    removed = queue.purge()
    domain.route(make_message("newer"), domain.addresses["a"])
    settle_down(domain)

    assert removed == 5
    assert (bodies(queue), services.retroactive.catching_up, len(domain.queues)) == (["newer"], 0, 3)
    check_held(domain)
