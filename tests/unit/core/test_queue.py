"""One queue: order, priority, fairness, credit, and what becomes of deliveries (artemis-model §3.1)."""

from artemis_py.core.queues.consumer import ACCEPTED, FAILED, REJECTED, RELEASED
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import attach, make_message, make_office, make_queue, pass_time, send, settle_down


def test_messages_leave_in_the_order_they_came() -> None:
    office = make_office()
    queue = make_queue(office)
    send(office, "q", "a", "b", "c")

    recorder, _ = attach(office, queue)

    assert recorder.bodies() == ["a", "b", "c"]


def test_higher_priorities_leave_first_and_keep_their_order() -> None:
    office = make_office()
    queue = make_queue(office)
    for body, priority in (("low", 1), ("a", 4), ("high", 9), ("b", 4)):
        office.route(make_message(body, priority=priority), office.addresses["q"])

    recorder, _ = attach(office, queue)

    assert recorder.bodies() == ["high", "a", "b", "low"]


def test_credit_bounds_what_is_delivered() -> None:
    office = make_office()
    queue = make_queue(office)
    send(office, "q", "a", "b", "c")

    recorder, consumer = attach(office, queue, credit=2)
    first = recorder.bodies()
    consumer.grant(1)
    settle_down(office)

    assert (first, recorder.bodies(), consumer.credit) == (["a", "b"], ["c"], 0)


def test_consumers_with_credit_take_turns() -> None:
    office = make_office()
    queue = make_queue(office)
    first, _ = attach(office, queue)
    second, _ = attach(office, queue)

    send(office, "q", "a", "b", "c", "d")

    assert (first.bodies(), second.bodies()) == (["a", "c"], ["b", "d"])


def test_a_lower_consumer_priority_is_served_only_when_the_higher_is_busy() -> None:
    """artemis-model §3.1: a lower level is only tried when all of the higher ones are busy or do not match."""
    office = make_office()
    queue = make_queue(office)
    low, _ = attach(office, queue, priority=0)
    high, _ = attach(office, queue, credit=2, priority=5)

    send(office, "q", "a", "b", "c")

    assert (high.bodies(), low.bodies()) == (["a", "b"], ["c"])


def test_a_message_that_a_selector_refuses_stays_for_others() -> None:
    office = make_office()
    queue = make_queue(office)
    picky, _ = attach(office, queue, filter=parse_filter("colour = 'red'"))
    for body, colour in (("1", "blue"), ("2", "red"), ("3", "blue")):
        office.route(make_message(body, colour=colour), office.addresses["q"])
    settle_down(office)

    rest, _ = attach(office, queue)

    assert (picky.bodies(), rest.bodies()) == (["2"], ["1", "3"])


def test_a_backlog_nobody_wants_is_examined_once_by_each_selector() -> None:
    """Cost must not grow with the backlog: a new message is found without a second look at the old ones."""
    office = make_office()
    queue = make_queue(office)
    send(office, "q", *["old"] * 50)
    examined = []

    class Counting:
        text = "counting"

        def matches(self, source: object) -> bool:
            examined.append(source)
            return False

    attach(office, queue, filter=Counting())
    assert len(examined) == 50

    send(office, "q", "new")

    assert len(examined) == 51


def test_released_messages_return_to_their_place_uncounted() -> None:
    office = make_office()
    queue = make_queue(office)
    send(office, "q", "a", "b", "c")
    recorder, consumer = attach(office, queue, credit=2)
    first, second = recorder.take()

    consumer.settle(second, RELEASED)
    consumer.settle(first, RELEASED)
    consumer.grant(10)
    settle_down(office)

    again = recorder.take()
    assert [(one.message.data, one.delivery_count) for one in again] == [(b"a", 0), (b"b", 0), (b"c", 0)]
    assert again[0].sequence == first.sequence


def test_a_message_released_by_one_selector_is_seen_by_another_that_had_passed_it() -> None:
    office = make_office()
    queue = make_queue(office)
    first, first_consumer = attach(office, queue, credit=1, filter=parse_filter("n > 0"))
    second, _ = attach(office, queue, filter=parse_filter("n > 0"))
    for number in (1, 2, 3):
        office.route(make_message(str(number), n=number), office.addresses["q"])
    settle_down(office)
    assert second.bodies() == ["2", "3"]

    first_consumer.settle(first.take()[0], RELEASED)
    settle_down(office)

    assert second.bodies() == ["1"]


def test_a_failed_delivery_counts_and_is_repeated_in_place() -> None:
    office = make_office()
    queue = make_queue(office)
    send(office, "q", "a", "b")
    recorder, consumer = attach(office, queue, credit=1)

    consumer.settle(recorder.take()[0], FAILED)
    consumer.grant(2)
    settle_down(office)

    assert [(one.message.data, one.delivery_count) for one in recorder.take()] == [(b"a", 1), (b"b", 0)]


def test_max_delivery_attempts_moves_to_the_dead_letter_address() -> None:
    """artemis-model §3.8: `deliveryCount >= max-delivery-attempts` when a delivery ends badly."""
    office = make_office({"#": AddressSettings(dead_letter_address="DLQ", max_delivery_attempts=2)})
    queue = make_queue(office)
    dead_letters = make_queue(office, "DLQ")
    send(office, "q", "poison")
    recorder, consumer = attach(office, queue)

    for _ in range(2):
        consumer.settle(recorder.take()[0], FAILED)
        settle_down(office)

    dead, _ = attach(office, dead_letters)
    message = dead.take()[0].message
    assert message.data == b"poison"
    assert message.extra is not None
    assert (message.extra["_AMQ_ORIG_ADDRESS"], message.extra["_AMQ_ORIG_QUEUE"]) == ("q", "q")
    assert (queue.message_count, queue.messages_killed) == (0, 1)


def test_rejected_goes_to_the_dead_letter_address_at_once() -> None:
    office = make_office({"#": AddressSettings(dead_letter_address="DLQ")})
    queue = make_queue(office)
    dead_letters = make_queue(office, "DLQ")
    send(office, "q", "bad")
    recorder, consumer = attach(office, queue)

    consumer.settle(recorder.take()[0], REJECTED)

    assert (queue.message_count, dead_letters.message_count) == (0, 1)


def test_a_message_undeliverable_here_goes_to_another_consumer() -> None:
    office = make_office()
    queue = make_queue(office)
    send(office, "q", "a")
    first, first_consumer = attach(office, queue)
    first_consumer.settle(first.take()[0], RELEASED, here=False)
    settle_down(office)
    assert first.bodies() == []

    second, _ = attach(office, queue)

    assert second.bodies() == ["a"]


def test_redelivery_waits_longer_each_time_up_to_the_maximum() -> None:
    """artemis-model §3.10: delay x multiplier^(n-1), capped."""
    settings = AddressSettings(redelivery_delay=100, redelivery_delay_multiplier=3.0, max_redelivery_delay=250)
    office = make_office({"#": settings})
    queue = make_queue(office)
    send(office, "q", "a")
    recorder, consumer = attach(office, queue)
    waits = []
    for _ in range(3):
        consumer.settle(recorder.take()[0], FAILED)
        settle_down(office)
        waited = 0
        while not recorder.deliveries:
            pass_time(office, 10)
            waited += 10
        waits.append(waited)

    assert waits == [100, 250, 250]


def test_a_message_keeps_its_number_while_it_waits_for_redelivery() -> None:
    office = make_office({"#": AddressSettings(redelivery_delay=100)})
    queue = make_queue(office)
    send(office, "q", "a", "b")
    recorder, consumer = attach(office, queue, credit=1)
    reference = recorder.take()[0]
    consumer.settle(reference, FAILED)
    consumer.grant(5)
    settle_down(office)

    pass_time(office, 100)

    assert [(one.sequence, one.message.data) for one in recorder.take()] == [(2, b"b"), (1, b"a")]


def test_scheduled_messages_appear_when_due_and_are_numbered_then() -> None:
    """spark-amqp §3: no lower number may ever appear after a higher one was visible."""
    office = make_office()
    queue = make_queue(office)
    recorder, _ = attach(office, queue)
    office.route(make_message("later", delivery_time_ms=office.dispatcher.now_ms + 500), office.addresses["q"])
    send(office, "q", "now")
    assert (recorder.bodies(), queue.scheduled_count, queue.message_count) == (["now"], 1, 2)

    pass_time(office, 499)
    early = recorder.bodies()
    pass_time(office, 1)

    due = recorder.take()
    assert (early, due[0].message.data, due[0].sequence) == ([], b"later", 2)


def test_scheduled_messages_fire_by_time_then_arrival() -> None:
    office = make_office()
    queue = make_queue(office)
    recorder, _ = attach(office, queue)
    for body, delay in (("c", 300), ("a", 100), ("b", 200), ("b2", 200)):
        office.route(make_message(body, delivery_time_ms=office.dispatcher.now_ms + delay), office.addresses["q"])

    pass_time(office, 1000)

    assert recorder.bodies() == ["a", "b", "b2", "c"]


def test_an_expired_message_is_not_delivered_but_moved() -> None:
    office = make_office({"#": AddressSettings(expiry_address="EXPIRED")})
    queue = make_queue(office)
    expired = make_queue(office, "EXPIRED")
    office.route(make_message("old", expires_ms=office.dispatcher.now_ms + 10), office.addresses["q"])
    office.dispatcher.now_ms += 10

    recorder, _ = attach(office, queue)

    moved, _ = attach(office, expired)
    message = moved.take()[0].message
    assert recorder.bodies() == []
    assert message.extra is not None
    assert (message.expires_ms, message.extra["_AMQ_ACTUAL_EXPIRY"]) == (0, office.dispatcher.now_ms)


def test_the_scan_expires_without_consumers_and_remembers_the_next() -> None:
    office = make_office()
    queue = make_queue(office)
    for delay in (10, 20, 30):
        office.route(make_message(str(delay), expires_ms=office.dispatcher.now_ms + delay), office.addresses["q"])

    office.dispatcher.now_ms += 15
    first = queue.expiry.expire_due()
    office.dispatcher.now_ms += 10
    second = queue.expiry.expire_due()

    assert (first, second, queue.message_count) == (1, 1, 1)


def test_browsers_see_everything_and_take_nothing() -> None:
    office = make_office()
    queue = make_queue(office)
    send(office, "q", "a", "b")

    browser, _ = attach(office, queue, browse=True)

    assert (browser.bodies(), queue.message_count) == (["a", "b"], 2)


def test_browsers_do_not_see_expired_messages() -> None:
    office = make_office()
    queue = make_queue(office)
    office.route(make_message("old", expires_ms=office.dispatcher.now_ms + 10), office.addresses["q"])
    send(office, "q", "new")
    office.dispatcher.now_ms += 10

    browser, _ = attach(office, queue, browse=True)

    assert (browser.bodies(), queue.message_count) == (["new"], 2)


def test_a_browser_may_select_by_position() -> None:
    """`x-opt-sequence-number` in a selector: how the data pipeline reads a range."""
    office = make_office()
    queue = make_queue(office)
    send(office, "q", "a", "b", "c")

    selector = parse_filter("amqp.annotation.x-opt-sequence-number > 1")
    browser, _ = attach(office, queue, browse=True, filter=selector)

    assert browser.bodies() == ["b", "c"]


def test_a_cursor_survives_the_removal_of_the_message_it_stands_on() -> None:
    office = make_office()
    queue = make_queue(office)
    send(office, "q", "a", "b")
    browser, _ = attach(office, queue, browse=True)
    queue.purge()

    send(office, "q", "c")

    assert browser.bodies() == ["a", "b", "c"]


def test_draining_gives_up_unused_credit() -> None:
    """AMQP 1.0 §2.6.7: deliver what there is, then use up the credit."""
    office = make_office()
    queue = make_queue(office)
    send(office, "q", "a")
    recorder, consumer = attach(office, queue, credit=0)

    consumer.grant(10, drain=True)
    settle_down(office)

    assert (recorder.bodies(), recorder.drains, consumer.credit) == (["a"], 1, 0)


def test_draining_an_empty_or_paused_queue_is_answered() -> None:
    office = make_office()
    queue = make_queue(office)
    send(office, "q", "a")
    queue.pause()
    recorder, consumer = attach(office, queue, credit=0)

    consumer.grant(1, drain=True)
    settle_down(office)

    assert (recorder.bodies(), recorder.drains) == ([], 1)


def test_a_blocked_consumer_gets_nothing_until_unblocked() -> None:
    office = make_office()
    queue = make_queue(office)
    recorder, consumer = attach(office, queue)
    consumer.block()
    send(office, "q", "a")
    while_blocked = recorder.bodies()

    consumer.unblock()
    settle_down(office)

    assert (while_blocked, recorder.bodies()) == ([], ["a"])


def test_an_exclusive_queue_feeds_one_consumer_until_it_leaves() -> None:
    """artemis-model §3.6.1."""
    office = make_office()
    queue = make_queue(office, exclusive=True)
    first, first_consumer = attach(office, queue)
    second, _ = attach(office, queue)
    send(office, "q", "a", "b")
    before = (first.bodies(), second.bodies())

    first_consumer.close()
    settle_down(office)

    assert (before, second.bodies()) == ((["a", "b"], []), ["a", "b"])


def test_a_closed_consumer_returns_its_deliveries_uncounted_a_broken_one_counted() -> None:
    """artemis-model §3.8: a clean close never counts as a failure; a broken connection does."""
    office = make_office()
    queue = make_queue(office)
    send(office, "q", "a", "b")
    _, clean = attach(office, queue)
    clean.close(failed=False)
    _, broken = attach(office, queue)
    broken.close(failed=True)

    recorder, _ = attach(office, queue)

    assert [(one.message.data, one.delivery_count) for one in recorder.take()] == [(b"a", 1), (b"b", 1)]


def test_purge_on_no_consumers_keeps_nothing_without_them() -> None:
    """artemis-model §2.3."""
    office = make_office()
    queue = make_queue(office, purge_on_no_consumers=True)
    send(office, "q", "nobody")
    nobody = queue.message_count
    _, consumer = attach(office, queue, credit=1)
    send(office, "q", "a", "b")

    consumer.close()

    assert (nobody, queue.message_count) == (0, 0)


def test_dispatch_waits_for_the_configured_number_of_consumers() -> None:
    office = make_office()
    queue = make_queue(office, consumers_before_dispatch=2)
    send(office, "q", "a")
    first, _ = attach(office, queue)
    alone = first.bodies()

    second, _ = attach(office, queue)

    assert (alone, first.bodies() + second.bodies()) == ([], ["a"])


def test_dispatch_starts_after_the_delay_though_consumers_are_missing() -> None:
    office = make_office()
    queue = make_queue(office, consumers_before_dispatch=2, delay_before_dispatch_ms=100)
    send(office, "q", "a")
    recorder, _ = attach(office, queue)

    pass_time(office, 99)
    early = recorder.bodies()
    pass_time(office, 1)

    assert (early, recorder.bodies()) == ([], ["a"])


def test_the_gate_closes_again_when_all_consumers_left() -> None:
    office = make_office()
    queue = make_queue(office, consumers_before_dispatch=2)
    _, first = attach(office, queue)
    _, second = attach(office, queue)
    first.close()
    second.close()
    send(office, "q", "a")

    recorder, _ = attach(office, queue)

    assert recorder.bodies() == []


def test_a_disabled_queue_is_passed_over() -> None:
    office = make_office()
    queue = make_queue(office)
    office.update_queue("q", {"enabled": False})

    send(office, "q", "a")

    assert queue.message_count == 0


def test_the_budget_bounds_one_turn_and_the_rest_follows() -> None:
    office = make_office()
    queue = make_queue(office)
    send(office, "q", *[str(number) for number in range(10)])
    recorder, consumer = attach(office, queue, credit=0)
    consumer.grant(10)

    more = office.dispatcher.run(budget=4)

    assert (more, len(recorder.deliveries)) == (True, 4)
    settle_down(office)
    assert len(recorder.deliveries) == 10


def test_memory_is_counted_once_per_message_and_given_back() -> None:
    office = make_office()
    first = make_queue(office, "one", address="a")
    make_queue(office, "two", address="a")
    recorder, consumer = attach(office, first)
    message = make_message("body")

    office.route(message, office.addresses["a"])
    settle_down(office)
    held = office.addresses["a"].size_bytes
    consumer.settle(recorder.take()[0], ACCEPTED)

    assert held == message.size
    assert office.addresses["a"].size_bytes == office.account.size_bytes == 0
