"""One queue: order, priority, fairness, credit, and what becomes of deliveries (artemis-model §3.1)."""

from artemis_py.core.queues.consumer import ACCEPTED, FAILED, REJECTED, RELEASED
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import attach, make_domain, make_message, make_queue, pass_time, send, settle_down


def test_messages_leave_in_the_order_they_came() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a", "b", "c")

    recorder, _ = attach(domain, queue)

    assert recorder.bodies() == ["a", "b", "c"]


def test_higher_priorities_leave_first_and_keep_their_order() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    for body, priority in (("low", 1), ("a", 4), ("high", 9), ("b", 4)):
        domain.route(make_message(body, priority=priority), domain.addresses["q"])

    recorder, _ = attach(domain, queue)

    assert recorder.bodies() == ["high", "a", "b", "low"]


def test_credit_bounds_what_is_delivered() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a", "b", "c")

    recorder, consumer = attach(domain, queue, credit=2)
    first = recorder.bodies()
    consumer.grant(1)
    settle_down(domain)

    assert (first, recorder.bodies(), consumer.credit) == (["a", "b"], ["c"], 0)


def test_consumers_with_credit_take_turns() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    first, _ = attach(domain, queue)
    second, _ = attach(domain, queue)

    send(domain, "q", "a", "b", "c", "d")

    assert (first.bodies(), second.bodies()) == (["a", "c"], ["b", "d"])


def test_consumers_with_selectors_take_turns_as_messages_come_one_by_one() -> None:
    """A visit in which everybody was asked in vain afterwards leaves the turn where it was."""
    domain = make_domain()
    queue = make_queue(domain)
    first, _ = attach(domain, queue, filter=parse_filter("1 = 1"))
    second, _ = attach(domain, queue, filter=parse_filter("2 = 2"))

    for text in "abcd":
        send(domain, "q", text)

    assert (first.bodies(), second.bodies()) == (["a", "c"], ["b", "d"])


def test_a_lower_consumer_priority_is_served_only_when_the_higher_is_busy() -> None:
    """artemis-model §3.1: a lower level is only tried when all of the higher ones are busy or do not match."""
    domain = make_domain()
    queue = make_queue(domain)
    low, _ = attach(domain, queue, priority=0)
    high, _ = attach(domain, queue, credit=2, priority=5)

    send(domain, "q", "a", "b", "c")

    assert (high.bodies(), low.bodies()) == (["a", "b"], ["c"])


def test_a_message_that_a_selector_refuses_stays_for_others() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    picky, _ = attach(domain, queue, filter=parse_filter("colour = 'red'"))
    for body, colour in (("1", "blue"), ("2", "red"), ("3", "blue")):
        domain.route(make_message(body, colour=colour), domain.addresses["q"])
    settle_down(domain)

    rest, _ = attach(domain, queue)

    assert (picky.bodies(), rest.bodies()) == (["2"], ["1", "3"])


def test_a_backlog_nobody_wants_is_examined_once_by_each_selector() -> None:
    """Cost must not grow with the backlog: a new message is found without a second look at the old ones."""
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", *["old"] * 50)
    examined = []

    class Counting:
        text = "counting"

        def matches(self, source: object) -> bool:
            examined.append(source)
            return False

    attach(domain, queue, filter=Counting())
    assert len(examined) == 50

    send(domain, "q", "new")

    assert len(examined) == 51


def test_released_messages_return_to_their_place_uncounted() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a", "b", "c")
    recorder, consumer = attach(domain, queue, credit=2)
    first, second = recorder.take()

    consumer.settle(second, RELEASED)
    consumer.settle(first, RELEASED)
    consumer.grant(10)
    settle_down(domain)

    again = recorder.take()
    assert [(one.message.data, one.delivery_count) for one in again] == [(b"a", 0), (b"b", 0), (b"c", 0)]
    assert again[0].sequence == first.sequence


def test_a_message_released_by_one_selector_is_seen_by_another_that_had_passed_it() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    first, first_consumer = attach(domain, queue, credit=1, filter=parse_filter("n > 0"))
    second, _ = attach(domain, queue, filter=parse_filter("n > 0"))
    for number in (1, 2, 3):
        domain.route(make_message(str(number), n=number), domain.addresses["q"])
    settle_down(domain)
    assert second.bodies() == ["2", "3"]

    first_consumer.settle(first.take()[0], RELEASED)
    settle_down(domain)

    assert second.bodies() == ["1"]


def test_a_failed_delivery_counts_and_is_repeated_in_place() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a", "b")
    recorder, consumer = attach(domain, queue, credit=1)

    consumer.settle(recorder.take()[0], FAILED)
    consumer.grant(2)
    settle_down(domain)

    assert [(one.message.data, one.delivery_count) for one in recorder.take()] == [(b"a", 1), (b"b", 0)]


def test_max_delivery_attempts_moves_to_the_dead_letter_address() -> None:
    """artemis-model §3.8: `deliveryCount >= max-delivery-attempts` when a delivery ends badly."""
    domain = make_domain({"#": AddressSettings(dead_letter_address="DLQ", max_delivery_attempts=2)})
    queue = make_queue(domain)
    dead_letters = make_queue(domain, "DLQ")
    send(domain, "q", "poison")
    recorder, consumer = attach(domain, queue)

    for _ in range(2):
        consumer.settle(recorder.take()[0], FAILED)
        settle_down(domain)

    dead, _ = attach(domain, dead_letters)
    message = dead.take()[0].message
    assert message.data == b"poison"
    assert message.extra is not None
    assert (message.extra["_AMQ_ORIG_ADDRESS"], message.extra["_AMQ_ORIG_QUEUE"]) == ("q", "q")
    assert (queue.message_count, queue.messages_killed) == (0, 1)


def test_rejected_goes_to_the_dead_letter_address_at_once() -> None:
    domain = make_domain({"#": AddressSettings(dead_letter_address="DLQ")})
    queue = make_queue(domain)
    dead_letters = make_queue(domain, "DLQ")
    send(domain, "q", "bad")
    recorder, consumer = attach(domain, queue)

    consumer.settle(recorder.take()[0], REJECTED)

    assert (queue.message_count, dead_letters.message_count) == (0, 1)


def test_a_message_undeliverable_here_goes_to_another_consumer() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a")
    first, first_consumer = attach(domain, queue)
    first_consumer.settle(first.take()[0], RELEASED, here=False)
    settle_down(domain)
    assert first.bodies() == []

    second, _ = attach(domain, queue)

    assert second.bodies() == ["a"]


def test_redelivery_waits_longer_each_time_up_to_the_maximum() -> None:
    """artemis-model §3.10: delay x multiplier^(n-1), capped."""
    settings = AddressSettings(redelivery_delay=100, redelivery_delay_multiplier=3.0, max_redelivery_delay=250)
    domain = make_domain({"#": settings})
    queue = make_queue(domain)
    send(domain, "q", "a")
    recorder, consumer = attach(domain, queue)
    waits = []
    for _ in range(3):
        consumer.settle(recorder.take()[0], FAILED)
        settle_down(domain)
        waited = 0
        while not recorder.deliveries:
            pass_time(domain, 10)
            waited += 10
        waits.append(waited)

    assert waits == [100, 250, 250]


def test_a_message_keeps_its_number_while_it_waits_for_redelivery() -> None:
    domain = make_domain({"#": AddressSettings(redelivery_delay=100)})
    queue = make_queue(domain)
    send(domain, "q", "a", "b")
    recorder, consumer = attach(domain, queue, credit=1)
    reference = recorder.take()[0]
    consumer.settle(reference, FAILED)
    consumer.grant(5)
    settle_down(domain)

    pass_time(domain, 100)

    assert [(one.sequence, one.message.data) for one in recorder.take()] == [(2, b"b"), (1, b"a")]


def test_scheduled_messages_appear_when_due_and_are_numbered_then() -> None:
    """spark-amqp §3: no lower number may ever appear after a higher one was visible."""
    domain = make_domain()
    queue = make_queue(domain)
    recorder, _ = attach(domain, queue)
    domain.route(make_message("later", delivery_time_ms=domain.dispatcher.now_ms + 500), domain.addresses["q"])
    send(domain, "q", "now")
    assert (recorder.bodies(), queue.scheduled_count, queue.message_count) == (["now"], 1, 2)

    pass_time(domain, 499)
    early = recorder.bodies()
    pass_time(domain, 1)

    due = recorder.take()
    assert (early, due[0].message.data, due[0].sequence) == ([], b"later", 2)


def test_scheduled_messages_fire_by_time_then_arrival() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    recorder, _ = attach(domain, queue)
    for body, delay in (("c", 300), ("a", 100), ("b", 200), ("b2", 200)):
        domain.route(make_message(body, delivery_time_ms=domain.dispatcher.now_ms + delay), domain.addresses["q"])

    pass_time(domain, 1000)

    assert recorder.bodies() == ["a", "b", "b2", "c"]


def test_an_expired_message_is_not_delivered_but_moved() -> None:
    domain = make_domain({"#": AddressSettings(expiry_address="EXPIRED")})
    queue = make_queue(domain)
    expired = make_queue(domain, "EXPIRED")
    domain.route(make_message("old", expires_ms=domain.dispatcher.now_ms + 10), domain.addresses["q"])
    domain.dispatcher.now_ms += 10

    recorder, _ = attach(domain, queue)

    moved, _ = attach(domain, expired)
    message = moved.take()[0].message
    assert recorder.bodies() == []
    assert message.extra is not None
    assert (message.expires_ms, message.extra["_AMQ_ACTUAL_EXPIRY"]) == (0, domain.dispatcher.now_ms)


def test_the_scan_expires_without_consumers_and_remembers_the_next() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    for delay in (10, 20, 30):
        domain.route(make_message(str(delay), expires_ms=domain.dispatcher.now_ms + delay), domain.addresses["q"])

    domain.dispatcher.now_ms += 15
    first = queue.expiry.expire_due()
    domain.dispatcher.now_ms += 10
    second = queue.expiry.expire_due()

    assert (first, second, queue.message_count) == (1, 1, 1)


def test_browsers_see_everything_and_take_nothing() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a", "b")

    browser, _ = attach(domain, queue, browse=True)

    assert (browser.bodies(), queue.message_count) == (["a", "b"], 2)


def test_browsers_do_not_see_expired_messages() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    domain.route(make_message("old", expires_ms=domain.dispatcher.now_ms + 10), domain.addresses["q"])
    send(domain, "q", "new")
    domain.dispatcher.now_ms += 10

    browser, _ = attach(domain, queue, browse=True)

    assert (browser.bodies(), queue.message_count) == (["new"], 2)


def test_a_browser_may_select_by_position() -> None:
    """`x-opt-sequence-number` in a selector: how the data pipeline reads a range."""
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a", "b", "c")

    selector = parse_filter("amqp.annotation.x-opt-sequence-number > 1")
    browser, _ = attach(domain, queue, browse=True, filter=selector)

    assert browser.bodies() == ["b", "c"]


def test_a_cursor_survives_the_removal_of_the_message_it_stands_on() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a", "b")
    browser, _ = attach(domain, queue, browse=True)
    queue.purge()

    send(domain, "q", "c")

    assert browser.bodies() == ["a", "b", "c"]


def test_draining_gives_up_unused_credit() -> None:
    """AMQP 1.0 §2.6.7: deliver what there is, then use up the credit."""
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a")
    recorder, consumer = attach(domain, queue, credit=0)

    consumer.grant(10, drain=True)
    settle_down(domain)

    assert (recorder.bodies(), recorder.drains, consumer.credit) == (["a"], 1, 0)


def test_draining_an_empty_or_paused_queue_is_answered() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a")
    queue.pause()
    recorder, consumer = attach(domain, queue, credit=0)

    consumer.grant(1, drain=True)
    settle_down(domain)

    assert (recorder.bodies(), recorder.drains) == ([], 1)


def test_a_blocked_consumer_gets_nothing_until_unblocked() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    recorder, consumer = attach(domain, queue)
    consumer.block()
    send(domain, "q", "a")
    while_blocked = recorder.bodies()

    consumer.unblock()
    settle_down(domain)

    assert (while_blocked, recorder.bodies()) == ([], ["a"])


def test_an_exclusive_queue_feeds_one_consumer_until_it_leaves() -> None:
    """artemis-model §3.6.1."""
    domain = make_domain()
    queue = make_queue(domain, exclusive=True)
    first, first_consumer = attach(domain, queue)
    second, _ = attach(domain, queue)
    send(domain, "q", "a", "b")
    before = (first.bodies(), second.bodies())

    first_consumer.close()
    settle_down(domain)

    assert (before, second.bodies()) == ((["a", "b"], []), ["a", "b"])


def test_a_closed_consumer_returns_its_deliveries_uncounted_a_broken_one_counted() -> None:
    """artemis-model §3.8: a clean close never counts as a failure; a broken connection does."""
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a", "b")
    _, clean = attach(domain, queue)
    clean.close(failed=False)
    _, broken = attach(domain, queue)
    broken.close(failed=True)

    recorder, _ = attach(domain, queue)

    assert [(one.message.data, one.delivery_count) for one in recorder.take()] == [(b"a", 1), (b"b", 1)]


def test_purge_on_no_consumers_keeps_nothing_without_them() -> None:
    """artemis-model §2.3."""
    domain = make_domain()
    queue = make_queue(domain, purge_on_no_consumers=True)
    send(domain, "q", "nobody")
    nobody = queue.message_count
    _, consumer = attach(domain, queue, credit=1)
    send(domain, "q", "a", "b")

    consumer.close()

    assert (nobody, queue.message_count) == (0, 0)


def test_dispatch_waits_for_the_configured_number_of_consumers() -> None:
    domain = make_domain()
    queue = make_queue(domain, consumers_before_dispatch=2)
    send(domain, "q", "a")
    first, _ = attach(domain, queue)
    alone = first.bodies()

    second, _ = attach(domain, queue)

    assert (alone, first.bodies() + second.bodies()) == ([], ["a"])


def test_dispatch_starts_after_the_delay_though_consumers_are_missing() -> None:
    domain = make_domain()
    queue = make_queue(domain, consumers_before_dispatch=2, delay_before_dispatch_ms=100)
    send(domain, "q", "a")
    recorder, _ = attach(domain, queue)

    pass_time(domain, 99)
    early = recorder.bodies()
    pass_time(domain, 1)

    assert (early, recorder.bodies()) == ([], ["a"])


def test_the_gate_closes_again_when_all_consumers_left() -> None:
    domain = make_domain()
    queue = make_queue(domain, consumers_before_dispatch=2)
    _, first = attach(domain, queue)
    _, second = attach(domain, queue)
    first.close()
    second.close()
    send(domain, "q", "a")

    recorder, _ = attach(domain, queue)

    assert recorder.bodies() == []


def test_a_disabled_queue_is_passed_over() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    domain.update_queue("q", {"enabled": False})

    send(domain, "q", "a")

    assert queue.message_count == 0


def test_the_budget_bounds_one_turn_and_the_rest_follows() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", *[str(number) for number in range(10)])
    recorder, consumer = attach(domain, queue, credit=0)
    consumer.grant(10)

    more = domain.dispatcher.run(budget=4)

    assert (more, len(recorder.deliveries)) == (True, 4)
    settle_down(domain)
    assert len(recorder.deliveries) == 10


def test_memory_is_counted_once_per_message_and_given_back() -> None:
    domain = make_domain()
    first = make_queue(domain, "one", address="a")
    make_queue(domain, "two", address="a")
    recorder, consumer = attach(domain, first)
    message = make_message("body")

    domain.route(message, domain.addresses["a"])
    settle_down(domain)
    held = domain.addresses["a"].size_bytes
    consumer.settle(recorder.take()[0], ACCEPTED)

    assert held == message.size
    assert domain.addresses["a"].size_bytes == domain.account.size_bytes == 0
