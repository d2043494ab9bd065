"""Queues whose messages are mostly on disk: start, purge, damage, failure, and the counts of all of it."""

import logging
from pathlib import Path

import pytest

from artemis_py.core.queues.acknowledging import acknowledge_numbers
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, RELEASED, Consumer
from artemis_py.core.queues.reference import Reference
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.store import schema
from artemis_py.store.scratch import ScratchStore
from tests.core_harness import (
    START_MS,
    Recorder,
    attach,
    browse_all,
    make_services,
    make_session,
    pass_time,
    settle_down,
)
from tests.unit.store.test_damage import spoil
from tests.unit.store.world import SMALL_MAP_BYTES, World, bodies, multicast

TINY = {"#": AddressSettings(max_read_page_messages=3, dead_letter_address="DLQ", max_delivery_attempts=2)}


def numbered(count: int) -> list[str]:
    return [f"{number:03}" for number in range(count)]


def body_of(reference: Reference) -> object:
    return reference.message.view.body


def test_a_start_reads_no_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start does not read messages; counts and sizes are known all the same."""
    with World(tmp_path) as world:
        multicast(world, "t", "a", "b")
        world.send("t", *numbered(20))
        world.settle()
        size = sum(reference.message.size for reference in browse_all(world.queue("a")))

    with World(tmp_path) as world:
        monkeypatch.setattr(world.store, "read", lambda *_: pytest.fail("a message was read"))
        queue = world.queue("a")
        assert (queue.message_count, queue.address.message_count) == (20, 40)
        assert queue.address.size_bytes == 2 * size
        assert world.domain.account.size_bytes == 0
        assert world.found.references == 40


def test_a_queue_keeps_only_its_window_in_memory(tmp_path: Path) -> None:
    """The backlog is on disk and only a window of each queue is in memory."""
    with World(tmp_path, TINY) as world:
        queue = world.queue()
        world.send("q", *numbered(50))
        uncommitted = world.domain.account.message_count
        world.settle()
        committed = world.domain.account.message_count
        recorder, consumer = attach(world.domain, queue, credit=2)
        read = world.domain.account.message_count

        assert (uncommitted, committed, read) == (50, 1, 4)
        assert queue.message_count == 50
        consumer.grant(100)
        settle_down(world.domain)
        assert [body_of(one) for one in recorder.take()] == numbered(50)


def test_what_is_not_committed_is_delivered_in_its_turn(tmp_path: Path) -> None:
    """A consumer does not wait for the disk, and order is kept across what is committed and what is not."""
    with World(tmp_path, TINY) as world:
        queue = world.queue()
        world.send("q", *numbered(10))
        world.settle()
        world.send("q", *[f"1{body}" for body in numbered(10)])
        world.hands.turn()
        world.send("q", *[f"2{body}" for body in numbered(10)])

        recorder, _ = attach(world.domain, queue)

        expected = [*numbered(10), *[f"1{body}" for body in numbered(10)], *[f"2{body}" for body in numbered(10)]]
        assert [body_of(one) for one in recorder.take()] == expected


def test_after_a_failure_what_was_taken_is_still_delivered_once(tmp_path: Path) -> None:
    """P15: consumers go on, with what is committed and with what never will be."""
    with World(tmp_path, TINY) as world:
        queue = world.queue()
        world.send("q", *numbered(10))
        world.settle()
        world.send("q", "in flight", "too")
        world.hands.turn()
        world.send("q", "gathering", "too late")
        world.hands.work("planted")

        recorder, consumer = attach(world.domain, queue)
        taken = recorder.take()
        for reference in taken:
            consumer.settle(reference, ACCEPTED)

        assert [body_of(one) for one in taken] == [*numbered(10), "in flight", "too", "gathering", "too late"]
        assert (queue.message_count, world.domain.account.message_count) == (0, 0)


def test_purging_deletes_in_slices_and_spares_what_consumers_have(tmp_path: Path) -> None:
    """A purge holds no commit up for long; deliveries that are out are not purged."""
    with World(tmp_path, TINY) as world:
        world.environment.drop_slice = 7
        queue = world.queue()
        world.send("q", *numbered(60))
        world.settle()
        recorder, consumer = attach(world.domain, queue, credit=5)
        world.send("q", "new")
        purged = queue.purge()
        world.send("q", "after")
        world.hands.turn()
        world.hands.work()
        after_first = world.count(schema.REFERENCES)
        world.settle()

        assert (purged, queue.message_count) == (56, 6)
        assert after_first > 50
        world.audit()
        for reference in recorder.take():
            consumer.settle(reference, RELEASED)
        assert bodies(queue) == [*numbered(5), "after"]

    with World(tmp_path, TINY) as world:
        assert bodies(world.queue()) == [*numbered(5), "after"]


def test_what_was_purged_does_not_come_back_after_a_crash_between_the_slices(tmp_path: Path) -> None:
    """P3: confirmed with the first commit."""
    told: list[bool] = []
    with World(tmp_path, TINY) as world:
        world.environment.drop_slice = 7
        queue = world.queue()
        world.send("q", *numbered(60))
        world.send("q", "later", delivery_time_ms=START_MS + 10)
        world.settle()
        attach(world.domain, queue, credit=2)
        queue.purge()
        world.store.when_durable(lambda: told.append(True))
        world.hands.turn()
        world.hands.work()
        assert told == [True]
        assert world.count(schema.REFERENCES) > 30

    with World(tmp_path, TINY) as world:
        world.audit()
        assert bodies(world.queue()) == numbered(2)
        pass_time(world.domain, 100)
        assert world.queue().message_count == 2


def test_a_deleted_queue_goes_in_slices(tmp_path: Path) -> None:
    """P10: a new queue of the same name has nothing of it, whenever the end comes."""
    with World(tmp_path, TINY) as world:
        world.environment.drop_slice = 7
        queue, _other = multicast(world, "t", "a", "b")
        world.send("t", *numbered(40))
        world.settle()
        attach(world.domain, queue, credit=5)
        world.domain.delete_queue("a", force=True)
        multicast(world, "t", "a")
        world.send("t", "new")
        world.hands.turn()
        world.hands.work()
        assert world.count(schema.REFERENCES) > 50

    with World(tmp_path, TINY) as world:
        world.audit()
        assert bodies(world.queue("a")) == ["new"]
        assert bodies(world.queue("b")) == [*numbered(40), "new"]


def test_shared_messages_go_with_their_last_reference_whoever_drops_it(tmp_path: Path) -> None:
    """A purge and a deleted queue count as much as deliveries that were settled."""
    with World(tmp_path, TINY) as world:
        multicast(world, "t", "a", "b", "c")
        world.send("t", *numbered(20))
        world.settle()
        recorder, consumer = attach(world.domain, world.queue("a"))
        for reference in recorder.take():
            consumer.settle(reference, ACCEPTED)
        world.settle()
        world.audit()
        world.queue("b").purge()
        world.settle()
        world.audit()
        world.domain.delete_queue("c")
        world.settle()
        world.audit()

        assert world.count(schema.MESSAGES) == 0


def test_a_damaged_message_far_behind_is_passed_over_and_counted_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R8: found when its turn comes."""
    with World(tmp_path, TINY) as world:
        world.queue()
        world.send("q", *numbered(20))
        world.settle()
    spoil(tmp_path, schema.REFERENCES)

    with caplog.at_level(logging.ERROR), World(tmp_path, TINY) as world:
        queue = world.queue()
        browser, _ = attach(world.domain, queue, browse=True)
        seen = [body_of(one) for one in browser.take()]
        recorder, consumer = attach(world.domain, queue)
        taken = recorder.take()
        for reference in taken:
            consumer.settle(reference, ACCEPTED)
        world.settle()

        assert seen == [body_of(one) for one in taken] == numbered(20)[1:]
        assert (queue.message_count, queue.address.size_bytes, world.count(schema.DAMAGED)) == (0, 0, 1)
        world.audit()
    assert caplog.text.count("damaged value set aside") == 1


def test_failed_attempts_of_what_is_on_disk_are_known_when_it_comes(tmp_path: Path) -> None:
    """P4 and P9, for a message that was paged between its attempts."""
    settings = {"q": AddressSettings(max_read_page_messages=3, redelivery_delay=50), **TINY}
    with World(tmp_path, settings) as world:
        world.queue("DLQ")
        queue = world.queue()
        world.send("q", *numbered(10))
        world.settle()
        recorder, consumer = attach(world.domain, queue, credit=4)
        consumer.settle(recorder.take()[3], FAILED)
        world.settle()

    with World(tmp_path, settings) as world:
        queue = world.queue()
        recorder, consumer = attach(world.domain, queue)
        at_once = recorder.take()
        pass_time(world.domain, 50)
        (late,) = recorder.take()
        consumer.settle(late, FAILED)
        world.settle()

        assert [body_of(one) for one in at_once] == [body for body in numbered(10) if body != "003"]
        assert (body_of(late), late.delivery_count) == ("003", 2)
        assert bodies(world.queue("DLQ")) == ["003"]
        world.audit()


def test_expired_messages_are_found_on_disk(tmp_path: Path) -> None:
    """artemis-model §3.9: nobody has to consume for them to go to the expiry address."""
    settings = {"q": AddressSettings(expiry_address="EXP", max_read_page_messages=3)}
    with World(tmp_path, settings) as world:
        world.queue("EXP")
        world.queue()
        world.send("q", *numbered(20), expires_ms=START_MS + 1000)
        world.send("q", "stays")
        world.settle()

    with World(tmp_path, settings) as world:
        reaper = make_services(world.domain).reaper
        reaper.start()
        pass_time(world.domain, 30_000)
        for _ in range(20):
            pass_time(world.domain, 50)

        assert bodies(world.queue("EXP")) == numbered(20)
        assert bodies(world.queue()) == ["stays"]
        world.settle()
        world.audit()


def test_many_scheduled_messages_wait_on_disk(tmp_path: Path) -> None:
    """1,000,000 scheduled messages take no more memory than a window of them; they come in the order of their time."""
    with World(tmp_path) as world:
        queue = world.queue()
        queue.schedule.window_messages = 3
        order = [(number * 37) % 50 for number in range(50)]
        for delay in order:
            world.send("q", f"{delay:03}", delivery_time_ms=START_MS + delay + 1)
        world.settle()
        assert (queue.scheduled_count, world.domain.account.message_count <= 6) == (50, True)

    with World(tmp_path) as world:
        queue = world.queue()
        queue.schedule.window_messages = 3
        recorder, _ = attach(world.domain, queue)
        came = []
        for _ in range(52):
            pass_time(world.domain, 1)
            came += [body_of(one) for one in recorder.take()]

        assert came == numbered(50)


def test_a_count_that_is_too_high_keeps_nobody_waiting(tmp_path: Path) -> None:
    """A damaged store: what is counted and not there is forgotten when its turn comes."""
    with World(tmp_path) as world:
        world.queue()
        world.send("q", *numbered(5))
        world.settle()
        with world.environment.begin(write=True) as transaction:
            cursor = transaction.cursor(db=world.environment.database(schema.REFERENCES))
            assert cursor.first()
            cursor.delete()

    with World(tmp_path) as world:
        queue = world.queue()
        recorder, _ = attach(world.domain, queue)

        assert [body_of(one) for one in recorder.take()] == numbered(5)[1:]
        assert queue.waiting_count == 0


@pytest.mark.parametrize("policy", [FullPolicy.BLOCK, FullPolicy.FAIL, FullPolicy.DROP])
def test_limits_that_do_not_page_count_what_is_on_disk(tmp_path: Path, policy: FullPolicy) -> None:
    """artemis-model §3.15: a durable backlog fills an address whose policy is not PAGE, before and after a restart."""
    settings = {"q": AddressSettings(max_size_messages=10, address_full_policy=policy, max_read_page_messages=3)}
    for expected in (False, True):
        with World(tmp_path, settings) as world:
            queue = world.queue()
            address = queue.address
            assert address.account.is_full is expected
            if not expected:
                world.send("q", *numbered(10))
                world.settle()
            assert address.account.is_full
            assert address.must_wait is (policy is FullPolicy.BLOCK)

    with World(tmp_path, settings) as world:
        queue = world.queue()
        told: list[bool] = []
        queue.address.when_room(lambda: told.append(True))
        recorder, consumer = attach(world.domain, queue)
        consumer.settle(recorder.take()[0], ACCEPTED)
        assert told == [True]
        assert not queue.address.account.is_full


def test_page_holds_producers_back_only_while_too_much_is_on_its_way_to_the_disk(tmp_path: Path) -> None:
    """A producer that waits for no answer, and a slow disk: memory stays bounded, and a commit lets it go on."""
    scratch = ScratchStore(tmp_path / "scratch", SMALL_MAP_BYTES)
    options = BrokerSettings(global_max_size_bytes=100_000)
    with World(tmp_path, options=options, scratch=scratch) as world:
        address = world.queue().address
        while not address.must_wait:
            world.send("q", "x" * 1000)
        assert world.domain.account.size_bytes < 160_000
        told: list[bool] = []
        address.when_room(lambda: told.append(True))

        world.settle()

        assert (told, address.must_wait) == ([True], False)
    scratch.close()


class OneByOne(Recorder):
    """A client whose connection takes one message at a time."""

    consumer: Consumer

    def deliver(self, reference: Reference) -> None:
        super().deliver(reference)
        self.consumer.block()


def test_what_was_read_ahead_is_not_shown_if_it_was_removed_since(tmp_path: Path) -> None:
    """Also when the removal is committed, so that the tail does not remember it any more."""
    with World(tmp_path, {"#": AddressSettings(max_read_page_messages=1)}) as world:
        queue = world.queue()
        world.send("q", *"abcde")
        world.settle()
        recorder = OneByOne()
        recorder.consumer = make_session(world.domain).consume(queue, recorder, browse=True)
        recorder.consumer.grant(5)
        settle_down(world.domain)
        recorder.consumer.unblock()
        settle_down(world.domain)
        for sequence in (3, 5):
            acknowledge_numbers(queue, {sequence})
            world.settle()

        for _ in range(5):
            recorder.consumer.unblock()
            settle_down(world.domain)

        assert [body_of(one) for one in recorder.take()] == ["a", "b", "d"]
