"""Non-destructive queues: every consumer sees every message once, and acknowledging removes nothing
(artemis-model §3.5)."""

from pathlib import Path

import pytest

from artemis_py.core.queues.acknowledging import acknowledge_below, acknowledge_numbers
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, REJECTED, RELEASED
from artemis_py.core.queues.cursors.range_reader import there
from artemis_py.core.queues.page import Page, PageRequest
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.services.reaper import Reaper
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.errors import MaxConsumersReached
from tests.core_harness import (
    START_MS,
    Recorder,
    attach,
    browse_all,
    make_domain,
    make_message,
    make_queue,
    make_services,
    make_session,
    pass_time,
    send,
    settle_down,
)
from tests.unit.store.world import World


def plain_bodies(references: list[Reference]) -> list[str]:
    return [reference.message.data.decode() for reference in references]


@pytest.mark.parametrize("outcome", [ACCEPTED, RELEASED, FAILED, REJECTED])
@pytest.mark.parametrize("here", [False, True])
def test_no_outcome_changes_anything_for_anybody(outcome: int, here: bool) -> None:
    """Not redelivered to the same consumer, and no dead letter."""
    domain = make_domain({"#": AddressSettings(dead_letter_address="DLA", max_delivery_attempts=1)})
    dead = make_queue(domain, "DLA")
    queue = make_queue(domain, non_destructive=True)
    recorder, consumer = attach(domain, queue)
    send(domain, "q", "a", "b")
    first, second = recorder.take()

    consumer.settle(first, outcome, here)
    settle_down(domain)

    assert recorder.take() == []
    assert (plain_bodies(browse_all(queue)), dead.message_count) == (["a", "b"], 0)
    assert (queue.messages_acknowledged, queue.messages_killed, consumer.accepted) == (0, 0, int(outcome == ACCEPTED))
    other, _ = attach(domain, queue)
    assert other.bodies() == ["a", "b"]
    consumer.settle(first, outcome, here)
    consumer.settle(second, outcome, here)
    assert consumer.shown == {}


def test_unsettled_deliveries_count_once_more_and_not_as_delivered() -> None:
    """A message that several consumers look at is one message of the queue; what they refer to takes memory."""
    domain = make_domain()
    queue = make_queue(domain, non_destructive=True)
    send(domain, "q", "a")
    alone = domain.account.size_bytes
    first, one = attach(domain, queue)
    _, two = attach(domain, queue)

    assert (queue.message_count, queue.waiting_count, queue.delivering_count) == (1, 1, 0)
    assert domain.account.size_bytes > alone
    one.settle(first.take()[0], ACCEPTED)
    two.close()
    settle_down(domain)
    assert domain.account.size_bytes == alone


def test_a_consumer_that_settles_nothing_gets_no_more_while_memory_is_full() -> None:
    options = BrokerSettings(global_max_size_bytes=1_000_000)
    domain = make_domain(options=options)
    queue = make_queue(domain, non_destructive=True)
    send(domain, "q", *["x" * 16_000] * 60)
    recorder, consumer = attach(domain, queue)
    assert 0 < len(recorder.deliveries) < 60

    for _ in range(60):
        for reference in recorder.take():
            consumer.settle(reference, ACCEPTED)
        settle_down(domain)

    assert recorder.deliveries == []
    assert domain.account.message_count == 60


def test_a_message_that_is_removed_stays_with_those_that_have_it() -> None:
    domain = make_domain()
    queue = make_queue(domain, non_destructive=True, ring_size=1)
    recorder, consumer = attach(domain, queue)
    send(domain, "q", "a")
    (shown,) = recorder.take()
    send(domain, "q", "b")

    assert (shown.message.references, plain_bodies(browse_all(queue))) == (1, ["b"])
    consumer.settle(shown, ACCEPTED)
    assert (shown.message.references, recorder.bodies()) == (0, ["b"])


def test_a_full_ring_moves_on_under_its_consumers() -> None:
    """A cursor that stands on an evicted message goes on after it."""
    domain = make_domain()
    queue = make_queue(domain, non_destructive=True, ring_size=3)
    send(domain, "q", "a", "b", "c")
    slow, consumer = attach(domain, queue, 2)
    assert slow.bodies() == ["a", "b"]

    send(domain, "q", "d", "e", "f")
    consumer.grant(10)
    settle_down(domain)

    assert slow.bodies() == ["d", "e", "f"]
    assert (queue.messages_replaced, queue.message_count) == (3, 3)


@pytest.mark.parametrize("window", [1, 100])
def test_what_has_expired_leaves_when_it_is_found(tmp_path: Path, window: int) -> None:
    """In memory or on disk; to the expiry address, once."""
    settings = {"q": AddressSettings(expiry_address="EXP", max_read_page_messages=window)}
    with World(tmp_path, settings) as world:
        queue, expired = world.queue(non_destructive=True), world.queue("EXP")
        world.send("q", "a", "b", "c", expires_ms=START_MS + 10)
        world.send("q", "d")
        world.settle()
        world.domain.dispatcher.now_ms = START_MS + 20

        first, _ = attach(world.domain, queue)
        second, _ = attach(world.domain, queue)
        world.settle()

        assert [each.message.view.body for each in first.deliveries + second.deliveries] == ["d", "d"]
        assert [each.message.view.body for each in browse_all(expired)] == ["a", "b", "c"]
        assert (queue.message_count, queue.messages_expired) == (1, 3)
        world.audit()


def test_presettled_consumers_have_nothing_unsettled() -> None:
    domain = make_domain()
    queue = make_queue(domain, non_destructive=True)
    recorder, consumer = attach(domain, queue, presettled=True)

    send(domain, "q", "a", "b")

    assert (recorder.bodies(), consumer.shown, consumer.accepted) == (["a", "b"], {}, 2)
    assert (queue.message_count, consumer.credit) == (2, 998)


def test_what_a_client_cannot_take_is_passed_over() -> None:
    """Its credit is restored, and others see the message."""
    domain = make_domain()
    queue = make_queue(domain, non_destructive=True)
    recorder, consumer = attach(domain, queue, 1)
    send(domain, "q", "a", "b")
    (a,) = recorder.take()

    consumer.refuse(a, REJECTED)
    settle_down(domain)
    assert (recorder.bodies(), consumer.credit, queue.messages_killed) == ([], 1, 0)
    consumer.grant(1)
    settle_down(domain)

    assert recorder.bodies() == ["b"]
    assert plain_bodies(browse_all(queue)) == ["a", "b"]


def test_its_consumers_are_consumers() -> None:
    """They count towards max-consumers, and browsers do not."""
    domain = make_domain()
    queue = make_queue(domain, non_destructive=True, max_consumers=1)
    attach(domain, queue, browse=True)
    attach(domain, queue)

    with pytest.raises(MaxConsumersReached):
        attach(domain, queue)


def test_exclusive_means_nothing_where_everybody_gets_everything() -> None:
    domain = make_domain()
    queue = make_queue(domain, non_destructive=True, exclusive=True)
    first, _ = attach(domain, queue)
    second, _ = attach(domain, queue)

    send(domain, "q", "a")

    assert (first.bodies(), second.bodies()) == (["a"], ["a"])


def test_a_drain_ends_when_everything_was_seen() -> None:
    domain = make_domain()
    queue = make_queue(domain, non_destructive=True)
    send(domain, "q", "a", "b")
    recorder, consumer = attach(domain, queue, 0)

    consumer.grant(10, drain=True)
    settle_down(domain)

    assert (recorder.bodies(), recorder.drains, consumer.credit) == (["a", "b"], 1, 0)


def test_messages_keep_a_queue_from_being_deleted_and_its_limit_does_not() -> None:
    """As with any queue: `auto-delete-message-count`."""
    domain = make_domain()
    reaper = Reaper(make_services(domain).sessions)
    make_queue(domain, "kept", non_destructive=True, auto_delete=True)
    make_queue(domain, "gone", non_destructive=True, auto_delete=True, auto_delete_message_count=-1)
    for name in ("kept", "gone"):
        send(domain, name, "a")
        _, consumer = attach(domain, domain.queues[name])
        consumer.close()

    for _ in range(2):
        reaper.reap()
        settle_down(domain)

    assert list(domain.queues) == ["kept"]


def test_readers_by_number_see_each_message_once_and_remove_nothing() -> None:
    domain = make_domain()
    queue = make_queue(domain, non_destructive=True)
    attach(domain, queue)
    send(domain, "q", "a", "b")

    found, _ = there(queue, 1, 10, 100)

    assert plain_bodies(found) == ["a", "b"]
    assert (acknowledge_below(queue, 10, 100), acknowledge_numbers(queue, {1, 2}), queue.message_count) == (0, 0, 2)


def test_a_purge_takes_what_nobody_has_seen_yet() -> None:
    domain = make_domain()
    queue = make_queue(domain, non_destructive=True)
    send(domain, "q", "a", "b")
    recorder, consumer = attach(domain, queue, 1)
    queue.purge()
    consumer.grant(10)
    send(domain, "q", "c")

    assert recorder.bodies() == ["a", "c"]


def test_a_message_is_shown_when_it_is_durable_if_it_must_be(tmp_path: Path) -> None:
    """Browsers may look ahead, consumers may not (`Message.stored_first`)."""
    with World(tmp_path) as world:
        queue = world.queue(non_destructive=True)
        world.settle()
        recorder, _ = attach(world.domain, queue)
        browser, _ = attach(world.domain, queue, browse=True)
        world.send("q", "a", stored_first=True)
        settle_down(world.domain)
        before = len(recorder.deliveries), len(browser.deliveries)

        world.settle()

        assert (before, len(recorder.deliveries)) == ((0, 1), 1)


def test_a_consumer_at_the_end_does_not_read_the_disk_again(tmp_path: Path) -> None:
    """Whatever else happens in the queue; a new message is read once."""
    with World(tmp_path, {"#": AddressSettings(max_read_page_messages=2)}) as world:
        queue = world.queue(non_destructive=True)
        for priority in (4, 5, 6):
            world.send("q", *"abcdefgh", priority=priority)
        world.settle()
        recorder, consumer = attach(world.domain, queue)
        read: list[int] = []
        original = world.store.read

        def counted(queue: Queue, request: PageRequest) -> Page | None:
            page = original(queue, request)
            read.append(0 if page is None else len(page.references))
            return page

        world.store.read = counted  # type: ignore[method-assign]
        for _ in range(50):
            consumer.grant(1000)
            settle_down(world.domain)
        assert (len(recorder.take()), read) == (24, [])

        world.send("q", "new")
        world.settle()

        assert [each.message.view.body for each in recorder.take()] == ["new"]
        assert sum(read) <= 1
        assert len(read) <= 3


def test_messages_on_disk_are_shown_and_not_kept_in_memory(tmp_path: Path) -> None:
    with World(tmp_path, {"#": AddressSettings(max_read_page_messages=2)}) as world:
        queue = world.queue(non_destructive=True)
        world.send("q", *[str(number) for number in range(100)])
        world.settle()

        recorder, consumer = attach(world.domain, queue)
        shown = recorder.take()
        for reference in shown:
            consumer.settle(reference, ACCEPTED)

        assert [each.message.view.body for each in shown] == [str(number) for number in range(100)]
        assert queue.backlog.count - queue.backlog.cold_count <= 2
        assert world.domain.account.message_count <= 2


def test_the_attribute_may_change_while_consumers_are_attached() -> None:
    """They go on: deliveries of before are settled as they would have been."""
    domain = make_domain()
    queue = make_queue(domain)
    first, one = attach(domain, queue, 1)
    second, two = attach(domain, queue, 1)
    send(domain, "q", "a", "b", "c", "d")
    (a,), (b,) = first.take(), second.take()

    domain.update_queue("q", {"non_destructive": True})
    one.grant(10)
    two.grant(10)
    settle_down(domain)
    assert (first.bodies(), second.bodies()) == (["c", "d"], ["c", "d"])
    one.settle(a, ACCEPTED)
    two.settle(b, RELEASED)
    settle_down(domain)
    assert (first.bodies(), second.bodies(), queue.messages_acknowledged) == (["b"], ["b"], 1)

    domain.update_queue("q", {"non_destructive": False})
    settle_down(domain)
    got = first.bodies() + second.bodies()
    assert (sorted(got), queue.delivering_count, queue.waiting_count) == (["b", "c", "d"], 3, 0)
    one.close()
    two.close()
    settle_down(domain)
    assert plain_bodies(browse_all(queue)) == ["b", "c", "d"]
    assert queue.dispatch.cursor_count == 0


def test_a_delivery_of_before_and_one_of_after_a_change_may_be_of_one_message() -> None:
    """Each is settled for what it is."""
    domain = make_domain()
    queue = make_queue(domain, non_destructive=True)
    recorder, consumer = attach(domain, queue)
    send(domain, "q", "a")
    (shown,) = recorder.take()
    domain.update_queue("q", {"non_destructive": False})
    settle_down(domain)
    (taken,) = recorder.take()
    assert (shown.sequence, taken.sequence) == (1, 1)

    consumer.settle(shown, ACCEPTED)
    assert queue.delivering_count == 1
    consumer.settle(taken, ACCEPTED)

    assert (queue.message_count, queue.messages_acknowledged, domain.account.size_bytes) == (0, 1, 0)


def test_a_selector_is_kept_through_changes() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    session = make_session(domain)
    recorder = Recorder()
    session.consume(queue, recorder, parse_filter("colour = 'red'")).grant(100)
    for keeps in (True, False):
        domain.update_queue("q", {"non_destructive": keeps})
        for colour in ("red", "green"):
            domain.route(make_message(colour, colour=colour), domain.addresses["q"])
        settle_down(domain)
        assert set(recorder.bodies()) == {"red"}


def test_a_scheduled_message_is_shown_when_it_is_due() -> None:
    domain = make_domain()
    queue = make_queue(domain, non_destructive=True)
    recorder, _ = attach(domain, queue)
    domain.route(make_message("late", delivery_time_ms=START_MS + 1000), domain.addresses["q"])
    send(domain, "q", "a")

    pass_time(domain, 1000)

    assert recorder.bodies() == ["a", "late"]


def test_a_deleted_queue_leaves_nothing_behind() -> None:
    domain = make_domain()
    queue = make_queue(domain, non_destructive=True)
    recorder, _ = attach(domain, queue)
    send(domain, "q", "a", "b")

    domain.delete_queue("q", force=True)
    settle_down(domain)

    assert recorder.ended_because is not None
    assert (domain.account.size_bytes, domain.account.message_count) == (0, 0)
