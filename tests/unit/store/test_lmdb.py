"""The store on disk: what is written when, who is told when, and what a restart brings back."""

from collections.abc import Callable
from pathlib import Path

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, RELEASED
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.access import Subject
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.errors import StoreError
from artemis_py.store import schema
from tests.core_harness import START_MS, attach, browse_all, make_message, pass_time, settle_down
from tests.unit.store.world import World, bodies, multicast


def test_nobody_is_told_before_the_commit(tmp_path: Path) -> None:
    """P1: an acknowledgement follows the commit of what it is for."""
    told: list[str] = []
    with World(tmp_path) as world:
        world.queue()
        world.send("q", "m")
        world.store.when_durable(lambda: told.append("m"))

        world.hands.turn()
        before = list(told)
        world.hands.work()

    assert (before, told) == ([], ["m"])


def test_without_waiting_everybody_is_told_at_once_and_all_is_stored(tmp_path: Path) -> None:
    """Both `journal-sync-…` options false; a failed store still confirms nothing."""
    told: list[str] = []
    with World(tmp_path, answers_wait=False) as world:
        world.queue()
        world.send("q", "m")
        world.store.when_durable(lambda: told.append("at once"))
        before = list(told)
        world.settle()
        world.send("q", "n")
        world.hands.turn()
        world.hands.work("no space")
        world.store.when_durable(lambda: told.append("wrong"), told.append)
    with World(tmp_path) as world:
        kept = bodies(world.queue())

    assert (before, told, kept) == (["at once"], ["at once", "no space"], ["m"])


def test_an_answer_that_fails_does_not_stop_the_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """P14: one connection's mistake is not the others'."""
    told: list[str] = []

    def fail() -> None:
        raise RuntimeError("planted")

    with World(tmp_path) as world:
        world.queue()
        for callback in (fail, lambda: told.append("second")):
            world.send("q", "m")
            world.store.when_durable(callback)
        world.settle()
        world.send("q", "m")
        world.store.when_durable(lambda: told.append("third"))
        world.settle()

    assert told == ["second", "third"]
    assert "planted" in caplog.text


def test_what_comes_during_a_commit_is_in_the_next(tmp_path: Path) -> None:
    """One commit in flight: an answer for the second message waits for the second commit."""
    told: list[str] = []
    with World(tmp_path) as world:
        world.queue()
        world.send("q", "one")
        world.store.when_durable(lambda: told.append("one"))
        world.hands.turn()
        world.send("q", "two")
        world.store.when_durable(lambda: told.append("two"))

        world.hands.turn()
        commits_in_flight = len(world.hands.jobs)
        world.hands.work()
        after_first = list(told)
        world.hands.work()

    assert (commits_in_flight, after_first, told) == (1, ["one"], ["one", "two"])


def test_what_was_put_and_removed_in_between_is_never_written(tmp_path: Path) -> None:
    """A fast consumer saves the disk its work."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.settle()
        recorder, consumer = attach(world.domain, queue)
        world.send("q", "m")
        settle_down(world.domain)
        consumer.settle(recorder.take()[0], ACCEPTED)
        told: list[bool] = []
        world.store.when_durable(lambda: told.append(True))

        assert told == [True]
        assert not world.hands.jobs


def test_messages_come_back_in_order_with_their_positions(tmp_path: Path) -> None:
    """P1, P5: priorities first, then the order of arrival; sequences stay."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.send("q", "a", "b")
        world.send("q", "urgent", priority=9)
        world.send("q", "c")
        world.settle()
        before = [(reference.sequence, reference.message.id) for reference in browse_all(queue)]

    with World(tmp_path) as world:
        queue = world.queue()
        after = [(reference.sequence, reference.message.id) for reference in browse_all(queue)]

        assert bodies(queue) == ["urgent", "a", "b", "c"]
        assert after == before
        assert queue.address.message_count == 4


def test_what_was_not_committed_is_gone(tmp_path: Path) -> None:
    """The other side of the promise: without an acknowledgement there is none."""
    with World(tmp_path) as world:
        world.queue()
        world.settle()
        world.send("q", "m")

    with World(tmp_path) as world:
        assert bodies(world.queue()) == []


def test_a_settled_message_does_not_come_back(tmp_path: Path) -> None:
    """P3."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.send("q", "a", "b")
        world.settle()
        recorder, consumer = attach(world.domain, queue)
        consumer.settle(recorder.take()[0], ACCEPTED)
        world.settle()

    with World(tmp_path) as world:
        assert bodies(world.queue()) == ["b"]
        assert world.count(schema.REFERENCES) == 1


def test_a_message_for_several_queues_is_stored_once_and_goes_with_its_last_reference(tmp_path: Path) -> None:
    """What was put and removed before its batch was committed is never written."""
    counts = []
    with World(tmp_path) as world:
        queues = multicast(world, "t", "a", "b", "c")
        world.send("t", "m")
        world.settle()
        counts.append((world.count(schema.REFERENCES), world.count(schema.MESSAGES)))

    for name in ("a", "b", "c"):
        with World(tmp_path) as world:
            queues = [world.queue(each) for each in ("a", "b", "c")]
            assert [len(browse_all(queue)) for queue in queues] == [queue.message_count for queue in queues]
            world.queue(name).purge()
            world.settle()
            world.audit()
            counts.append((world.count(schema.REFERENCES), world.count(schema.MESSAGES)))

    assert counts == [(3, 1), (2, 1), (1, 1), (0, 0)]


def test_a_shared_message_survives_if_only_some_queues_kept_it(tmp_path: Path) -> None:
    """References removed before their batch do not count."""
    with World(tmp_path) as world:
        first, *_ = multicast(world, "t", "a", "b", "c")
        world.send("t", "m")
        first.purge()
        world.settle()

    with World(tmp_path) as world:
        world.queue("b").purge()
        world.settle()
        assert world.count(schema.MESSAGES) == 1

    with World(tmp_path) as world:
        assert [bodies(world.queue(name)) for name in ("a", "b", "c")] == [[], [], ["m"]]


def test_sequences_are_never_used_again(tmp_path: Path) -> None:
    """x-opt-sequence-number: a restart goes on behind every number that anybody saw."""
    last = 0
    for ends_well in (False, True, False):
        with World(tmp_path) as world:
            queue = world.queue()
            world.settle()
            world.domain.route(make_message(), world.domain.addresses["q"])
            (reference,) = browse_all(queue)
            assert reference.sequence > last
            last = reference.sequence
            queue.purge()
            if ends_well:
                world.stop()


def test_a_stop_in_good_order_leaves_no_gap(tmp_path: Path) -> None:
    """Reserved numbers are given back when nobody can have used them."""
    for expected in (1, 2, 3):
        with World(tmp_path) as world:
            queue = world.queue()
            world.send("q", "m")
            assert browse_all(queue)[-1].sequence == expected
            world.stop()


def test_what_crashes_leave_out_of_the_sequences_is_remembered(tmp_path: Path) -> None:
    """A reader that was away for several crashes can tell skipped numbers from lost messages (`heads`)."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.send("q", "a", "b")
        world.settle()
        assert queue.skipped == ()
    with World(tmp_path) as world:
        queue = world.queue()
        first = queue.next_sequence
        assert queue.skipped == ((3, first),)
        world.send("q", "c")
        world.settle()
    with World(tmp_path) as world:
        queue = world.queue()
        assert queue.skipped == ((3, first), (first + 1, queue.next_sequence))
        world.stop()
    with World(tmp_path) as world:
        assert len(world.queue().skipped) == 2, "an orderly end leaves nothing out"
        world.domain.delete_queue("q")
        world.settle()
        assert world.count(schema.RECORDS) == 0


def test_more_sequences_are_reserved_before_they_run_out(tmp_path: Path) -> None:
    """Half of the reservation is a commit's worth of messages."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.settle()
        queue.next_sequence = queue.sequence_limit
        world.send("q", "m")
        world.settle()
        used = queue.next_sequence - 1

    with World(tmp_path) as world:
        assert world.queue().next_sequence > used + 30_000


def test_message_ids_are_never_used_again(tmp_path: Path) -> None:
    """Ids name messages across restarts, and shared messages on disk."""
    seen: set[int] = set()
    for _ in range(3):
        with World(tmp_path) as world:
            queue = world.queue()
            world.send("q", "m")
            world.settle()
            id = browse_all(queue)[-1].message.id
            assert id not in seen
            seen.add(id)
            queue.purge()
            world.settle()


def test_failed_attempts_and_redelivery_times_survive(tmp_path: Path) -> None:
    """artemis-model §3.10, and P4: the count goes on where it was."""
    settings = {"q": AddressSettings(redelivery_delay=5000)}
    with World(tmp_path, settings) as world:
        queue = world.queue()
        recorder, consumer = attach(world.domain, queue)
        world.send("q", "m")
        world.settle()
        consumer.settle(recorder.take()[0], FAILED)
        world.settle()

    with World(tmp_path, settings) as world:
        queue = world.queue()
        recorder, consumer = attach(world.domain, queue)
        early = recorder.take()
        pass_time(world.domain, 5000)
        (reference,) = recorder.take()
        assert early == []
        assert reference.delivery_count == 1
        consumer.settle(reference, ACCEPTED)
        world.settle()
        assert world.count(schema.ATTEMPTS) == 0


def test_a_redelivery_delay_becomes_no_longer_because_the_clock_is_set_while_the_broker_is_down(tmp_path: Path) -> None:
    """The store has the time of day at which it is over; the wall clock is set back by an hour."""
    settings = {"q": AddressSettings(redelivery_delay=5000, max_redelivery_delay=5000)}
    with World(tmp_path, settings) as world:
        world.domain.dispatcher.now_ms += 3_600_000
        recorder, consumer = attach(world.domain, world.queue())
        world.send("q", "m")
        world.settle()
        consumer.settle(recorder.take()[0], FAILED)
        world.settle()

    with World(tmp_path, settings) as world:
        recorder, _ = attach(world.domain, world.queue())
        pass_time(world.domain, 4999)
        early = recorder.bodies()
        pass_time(world.domain, 1)

        assert (early, len(recorder.take())) == ([], 1)


def test_what_comes_back_does_not_claim_to_be_new(tmp_path: Path) -> None:
    """P4: it may have been with a consumer when the broker went; first-acquirer says so."""
    with World(tmp_path) as world:
        world.queue()
        world.send("q", "m")
        world.settle()

    with World(tmp_path) as world:
        assert [reference.was_acquired for reference in browse_all(world.queue())] == [True]


def test_scheduled_messages_wait_on(tmp_path: Path) -> None:
    """artemis-model §3.7: whether their time comes before or after the restart."""
    with World(tmp_path) as world:
        world.queue()
        world.send("q", "later", delivery_time_ms=START_MS + 1000)
        world.send("q", "now")
        world.settle()

    with World(tmp_path) as world:
        queue = world.queue()
        waiting = (queue.scheduled_count, bodies(queue))
        pass_time(world.domain, 1000)
        world.settle()
        sequences = [reference.sequence for reference in browse_all(queue)]
        assert waiting == (1, ["now"])
        assert bodies(queue) == ["now", "later"]

    with World(tmp_path) as world:
        queue = world.queue()
        assert bodies(queue) == ["now", "later"]
        assert [reference.sequence for reference in browse_all(queue)] == sequences


def test_a_scheduled_number_is_not_given_twice(tmp_path: Path) -> None:
    """Two messages that wait for their time are two, also if a restart is between them."""
    for expected in (1, 2):
        with World(tmp_path) as world:
            queue = world.queue()
            world.send("q", "later", delivery_time_ms=START_MS + 1000)
            world.settle()
            assert queue.scheduled_count == expected


def test_a_transaction_is_one_batch(tmp_path: Path) -> None:
    """P6: sends and settlements together."""
    with World(tmp_path) as world:
        world.queue("in")
        world.queue("out")
        world.send("in", "request")
        world.settle()
        recorder, _ = attach(world.domain, world.queue("in"))
        transaction = Transaction(1, START_MS)
        transaction.settle(recorder.take()[0], ACCEPTED)
        message = make_message("reply", durable=True)
        world.domain.route(message, world.domain.addresses["out"], transaction=transaction)
        world.settle()
        before = (world.count(schema.REFERENCES), len(world.hands.jobs))
        transaction.commit()
        world.hands.turn()

        assert before == (1, 0)
        assert len(world.hands.jobs) == 1

    with World(tmp_path) as world:
        assert bodies(world.queue("in")) == ["request"]


def test_a_dead_letter_moves_in_one_batch(tmp_path: Path) -> None:
    """P9: in exactly one of the two queues after a crash."""
    settings = {"q": AddressSettings(dead_letter_address="DLQ", max_delivery_attempts=1)}
    with World(tmp_path, settings) as world:
        queue = world.queue()
        world.queue("DLQ")
        recorder, consumer = attach(world.domain, queue)
        world.send("q", "m")
        world.settle()
        consumer.settle(recorder.take()[0], FAILED)
        world.settle()

    with World(tmp_path, settings) as world:
        (dead,) = browse_all(world.queue("DLQ"))
        assert bodies(world.queue()) == []
        assert dead.message.lookup("_AMQ_ORIG_QUEUE") == "q"


def test_definitions_made_at_run_time_survive_with_their_changes(tmp_path: Path) -> None:
    """P10: addresses, queues, what was changed, paused and deleted since."""
    with World(tmp_path) as world:
        domain = world.domain
        world.queue("keep", filter="a = 1", max_consumers=3, auto_created=True)
        domain.update_queue("keep", {"max_consumers": 5})
        domain.update_address("keep", frozenset((RoutingType.ANYCAST,)))
        domain.queue("keep").pause()
        domain.pause_address("keep", True)
        world.settle()
        world.queue("gone")
        world.settle()
        domain.delete_address("gone", force=True)
        world.queue("volatile", durable=False)
        world.settle()

    with World(tmp_path) as world:
        queue = world.domain.queue("keep")
        assert set(world.domain.queues) == {"keep"}
        assert set(world.domain.addresses) == {"keep", "volatile"}
        assert (queue.settings.max_consumers, queue.paused, queue.address.paused, queue.auto_created) == (
            5,
            True,
            True,
            True,
        )
        assert queue.filter is not None
        assert queue.address.routing_types == {RoutingType.ANYCAST}
        queue.resume()
        world.settle()

    with World(tmp_path) as world:
        assert not world.domain.queue("keep").paused


def test_a_new_queue_of_an_old_name_is_empty(tmp_path: Path) -> None:
    """P10: what a deleted queue held goes with it, deliveries that are out included."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.send("q", "a", "b")
        world.settle()
        attach(world.domain, queue, credit=1)
        world.domain.delete_queue("q", force=True)
        world.queue()
        world.settle()
        assert world.count(schema.REFERENCES) == 0

    with World(tmp_path) as world:
        assert bodies(world.queue()) == []


def test_temporary_resources_leave_nothing(tmp_path: Path) -> None:
    """P10: they are gone after a restart."""
    with World(tmp_path) as world:
        world.domain.create_address("t", frozenset(RoutingType), temporary=True)
        world.queue("t", address="t")
        world.send("t", "m")
        world.settle()
        assert world.count(schema.REFERENCES) == 0

    with World(tmp_path) as world:
        assert not world.domain.queues
        assert not world.domain.addresses


def test_a_released_message_is_not_written_again(tmp_path: Path) -> None:
    """Giving back changes nothing on disk."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.send("q", "m")
        world.settle()
        recorder, consumer = attach(world.domain, queue, credit=1)
        consumer.settle(recorder.take()[0], RELEASED)

        assert not world.hands.planned


def test_after_a_failed_commit_nothing_is_confirmed_and_durable_sends_are_refused(tmp_path: Path) -> None:
    """P15: whoever waited is told that nobody knows; consumers and what is not durable go on."""
    told: list[str] = []
    with World(tmp_path) as world:
        queue = world.queue()
        world.settle()
        recorder, consumer = attach(world.domain, queue)
        world.send("q", "one")
        world.store.when_durable(lambda: told.append("stored"), lambda reason: told.append(f"failed: {reason}"))
        world.hands.turn()
        world.send("q", "two")
        world.store.when_durable(lambda: told.append("stored"), lambda reason: told.append(f"failed: {reason}"))
        world.hands.work(failure="disk full")
        with pytest.raises(StoreError, match="disk full"):
            world.send("q", "three")
        world.store.when_durable(lambda: told.append("stored"), lambda reason: told.append(f"late: {reason}"))
        world.domain.route(make_message("volatile"), world.domain.addresses["q"])
        world.settle()
        for reference in recorder.take():
            consumer.settle(reference, ACCEPTED)
        world.hands.turn()

        assert told == ["failed: disk full", "failed: disk full", "late: disk full"]
        assert world.failures == ["disk full"]
        assert consumer.accepted == 3
        assert not world.hands.jobs


def test_a_failed_store_does_not_hold_producers_back_that_need_nothing_stored(tmp_path: Path) -> None:
    """Credit is about memory; a refusal says why."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.domain.dispatcher.storage_failed("disk full")

        assert not queue.address.must_wait


def test_the_map_grows_with_what_is_stored(tmp_path: Path) -> None:
    """LMDB's map is doubled when it is full; nobody notices."""
    with World(tmp_path) as world:
        world.queue()
        for _ in range(4):
            world.send("q", "x" * 1_000_000)
            world.settle()
        assert world.failures == []

    with World(tmp_path) as world:
        assert len(bodies(world.queue())) == 4


def test_a_batch_that_cannot_be_encoded_is_a_failure_not_a_silence(tmp_path: Path) -> None:
    """A mistake of ours may not leave producers waiting, nor tell them that all is well."""
    told: list[str] = []
    with World(tmp_path) as world:
        world.queue()
        world.send("q", "m", routing_type=1000)
        world.store.when_durable(lambda: told.append("stored"), lambda reason: told.append("failed"))
        world.settle()

        assert told == ["failed"]


def test_ids_of_messages_that_only_the_stop_wrote_are_not_used_again(tmp_path: Path) -> None:
    """A shared message is stored under its id: another one of the same id would take its place."""
    with World(tmp_path) as world:
        multicast(world, "t", "a", "b")
        world.send("t", "first")
        world.stop()

    with World(tmp_path) as world:
        world.send("t", "second")
        world.stop()

    with World(tmp_path) as world:
        assert bodies(world.queue("a")) == bodies(world.queue("b")) == ["first", "second"]


def test_a_message_that_is_stored_first_is_delivered_when_it_is_durable(tmp_path: Path) -> None:
    """P6, P7, P9, P11: no crash takes it back from who has seen it. A browser may look ahead."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.settle()
        recorder, _ = attach(world.domain, queue)
        browser, _ = attach(world.domain, queue, browse=True)
        world.send("q", "m", stored_first=True)
        settle_down(world.domain)
        before = (len(recorder.take()), len(browser.take()))
        world.settle()

        assert before == (0, 1)
        assert len(recorder.take()) == 1


def test_a_waiting_consumer_hurries_the_commit(tmp_path: Path) -> None:
    """A commit that nobody waits for comes later; here a consumer waits, with a selector or without."""
    for selector in (None, "color = 'red'"):
        with World(tmp_path / str(selector)) as world:
            queue = world.queue()
            world.settle()
            attach(world.domain, queue, filter=None if selector is None else parse_filter(selector))
            message = make_message("m", durable=True, color="red")
            message.stored_first = True
            world.domain.route(message, world.domain.addresses["q"])
            unhurried = world.store._is_urgent
            settle_down(world.domain)

            assert (unhurried, world.store._is_urgent) == (False, True)


def test_the_time_of_a_hurried_commit_cuts_no_later_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A settled delivery waits for its own time, so that it can share the commit of the next message.

    One timer is set at a time: a lone sender that waits for each answer would set hundreds.
    """
    with World(tmp_path) as world:
        queue = world.queue()
        world.settle()
        recorder, consumer = attach(world.domain, queue)
        times: list[Callable[[], object]] = []
        monkeypatch.setattr(world.hands, "call_later", lambda delay, callback: times.append(callback))
        world.send("q", "m")
        world.store.when_durable(lambda: None)
        world.hands.turn()
        while world.hands.planned or world.hands.jobs:
            world.hands.turn()
            if world.hands.jobs:
                world.hands.work()
        (of_the_message,) = times[:1]
        times.clear()
        settle_down(world.domain)
        consumer.settle(recorder.take()[0], ACCEPTED)
        others = len(times)

        of_the_message()
        commits = len(world.hands.jobs)
        (of_the_settlement,) = times
        of_the_settlement()

        assert (others, commits, len(world.hands.jobs)) == (0, 0, 1)


def test_messages_of_the_commit_that_ended_are_delivered_and_later_ones_wait(tmp_path: Path) -> None:
    """Each waits for its own batch, in the order of the queue; what is not durable does not overtake."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.settle()
        recorder, _ = attach(world.domain, queue)
        world.send("q", "one", stored_first=True)
        world.hands.turn()
        world.send("q", "two", stored_first=True)
        world.domain.route(make_message("volatile"), world.domain.addresses["q"])
        settle_down(world.domain)
        delivered = []
        while world.hands.jobs:
            world.hands.work()
            settle_down(world.domain)
            world.hands.turn()
            delivered.append(len(recorder.take()))

        assert [count for count in delivered if count] == [1, 2]


def test_a_drain_waits_for_what_is_being_stored(tmp_path: Path) -> None:
    """AMQP 1.0 §2.6.7: the message was in the queue before the drain."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.settle()
        recorder, consumer = attach(world.domain, queue, credit=0)
        world.send("q", "m", stored_first=True)
        consumer.grant(10, drain=True)
        settle_down(world.domain)
        drains_before = recorder.drains
        world.settle()

        assert (drains_before, recorder.drains, len(recorder.take())) == (0, 1, 1)


def test_after_a_failure_consumers_get_what_is_there(tmp_path: Path) -> None:
    """P15: consumers go on, in memory; what they saw may be there again after a restart, or not."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.settle()
        recorder, _ = attach(world.domain, queue)
        world.send("q", "m", stored_first=True)
        world.hands.turn()
        world.hands.work(failure="disk full")
        settle_down(world.domain)

        assert len(recorder.take()) == 1


def test_transactions_moves_and_duplicate_ids_are_stored_first(tmp_path: Path) -> None:
    """P6, P9, P11: what would be half done, or done twice, if a crash took it back."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.settle()
        address = world.domain.addresses["q"]
        recorder, _ = attach(world.domain, queue)
        transaction = Transaction(1, 0)
        world.domain.route(make_message("part", durable=True), address, transaction=transaction)
        world.domain.commit(transaction)
        world.domain.route_once(make_message("once", durable=True), address, "", None, b"id")
        settle_down(world.domain)
        early = recorder.take()
        world.settle()

        assert early == []
        assert [reference.message.view.body for reference in recorder.take()] == [b"part", b"once"]


def test_message_ids_are_not_given_again_after_a_run_that_stored_no_message(tmp_path: Path) -> None:
    """P1: a run that only settled and was killed leaves the mark where it was: two messages would share a value."""
    expected: list[object] = []
    for run in range(4):
        with World(tmp_path) as world:
            if run == 0:
                multicast(world, "news", "a", "b")
                world.queue("other")
                world.send("other", "m")
            if run == 2:
                world.queue("other").purge()
            else:
                sent = [f"{run}.{number}" for number in range(1 + 5 * run)]
                world.send("news", *sent)
                expected += sent
            world.settle()

    with World(tmp_path) as world:
        assert world.found.damaged == 0
        assert bodies(world.queue("a")) == expected


def test_the_core_is_asked_to_deliver_behind_the_answers(tmp_path: Path) -> None:
    """An answer may be a message (management's replies are): nobody else would see to its delivery."""
    with World(tmp_path) as world:
        world.queue()
        world.settle()
        order: list[str] = []
        world.store.start(world.hands, world.hands, order.append, lambda _: order.append("stored"))
        world.send("q", "m")
        world.store.when_durable(lambda: order.append("answered"))
        world.settle()

        assert order == ["answered", "stored"]


def test_a_scheduled_message_of_several_queues_is_still_there_when_it_was_due(tmp_path: Path) -> None:
    """Its references get new places in one batch, which adds as many to the message as it takes away."""
    with World(tmp_path) as world:
        queues = multicast(world, "news", "news.a", "news.b")
        world.send("news", "m", delivery_time_ms=START_MS + 10)
        world.settle()
        world.domain.dispatcher.now_ms += 10
        world.domain.dispatcher.handle_deadlines()
        world.settle()
        assert [bodies(queue) for queue in queues] == [["m"], ["m"]]
        world.audit()
    with World(tmp_path) as world:
        assert [bodies(world.queue(name)) for name in ("news.a", "news.b")] == [["m"], ["m"]]
        world.audit()


def test_who_created_what_on_demand_is_known_after_a_restart(tmp_path: Path) -> None:
    """Otherwise each restart would give every user the whole limit again; what is deleted then makes room."""
    with World(tmp_path) as world:
        for user in ("anna", None):
            Session(world.domain, Subject(user)).producer(f"of {user}", RoutingType.ANYCAST)
        world.settle()

    with World(tmp_path) as world:
        creations = world.domain.creations
        before = [creations.count("anna"), creations.count("")]
        world.domain.delete_address("of anna", force=True)

        assert (before, creations.count("anna")) == ([2, 2], 0)
