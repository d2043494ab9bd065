"""Long work takes many turns, and holds up none of them."""

from collections.abc import Callable

import pytest

from artemis_py.core.queues import bulk
from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.queues.settlement import forget
from artemis_py.core.runtime.background import SLICE_MESSAGES, BackgroundWork, Steps
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.errors import InvalidRequest, Refusal, StoreError
from tests.core_harness import attach, browse_all, make_domain, make_message, make_queue, send, settle_down


class Outcome:
    """What became of a piece of work."""

    def __init__(self) -> None:
        self.result: object = None
        self.refusal: Refusal | None = None

    def done(self, result: object) -> None:
        self.result = result

    def refused(self, refusal: Refusal) -> None:
        self.refusal = refusal


def steps(said: list[str], name: str, count: int) -> Steps:
    for number in range(count):
        said.append(f"{name}{number}")
        yield None
    return name


def test_the_first_slice_is_done_at_once_and_the_others_in_rotation() -> None:
    said: list[str] = []
    slices, first, second = BackgroundWork(), Outcome(), Outcome()

    slices.start(steps(said, "a", 3), first.done)
    slices.start(steps(said, "b", 2), second.done)
    assert said == ["a0", "b0"]
    while slices.has_work:
        slices.run()

    assert said == ["a0", "b0", "a1", "b1", "a2"]
    assert (first.result, second.result) == ("a", "b")


def test_work_that_waits_takes_no_turns() -> None:
    calls: list[Callable[[], None]] = []

    def waiting() -> Steps:
        yield lambda resume, fail: calls.append(resume)
        return "woken"

    slices, outcome = BackgroundWork(), Outcome()
    slices.start(waiting(), outcome.done)
    assert not slices.has_work

    calls[0]()
    slices.run()

    assert outcome.result == "woken"


def test_work_whose_wait_is_in_vain_is_refused() -> None:
    """The store failed; the work may tidy up before."""
    said: list[str] = []

    def waiting() -> Steps:
        try:
            yield lambda resume, fail: fail("disk full")
        finally:
            said.append("tidy")
        return None

    slices, outcome = BackgroundWork(), Outcome()
    slices.start(waiting(), outcome.done, outcome.refused)

    assert isinstance(outcome.refusal, StoreError)
    assert (str(outcome.refusal), said) == ("disk full", ["tidy"])


def test_a_refusal_ends_the_work() -> None:
    def refused() -> Steps:
        yield None
        raise InvalidRequest("no")

    slices, outcome = BackgroundWork(), Outcome()
    slices.start(refused(), outcome.done, outcome.refused)
    slices.run()

    assert isinstance(outcome.refusal, InvalidRequest)
    assert not slices.has_work


def test_a_mistake_ends_its_work_and_not_the_others() -> None:
    def wrong() -> Steps:
        yield None
        raise ZeroDivisionError

    slices, outcome = BackgroundWork(), Outcome()
    slices.start(wrong())
    slices.start(steps([], "a", 2), outcome.done)
    with pytest.raises(ZeroDivisionError):
        slices.run()
    while slices.has_work:
        slices.run()

    assert outcome.result == "a"


def test_an_emptied_queue_is_empty_at_once_and_forgets_in_slices() -> None:
    """What comes after the request stays, though it comes before the end of the work."""
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", *(str(number) for number in range(3 * SLICE_MESSAGES)))
    outcome = Outcome()

    domain.dispatcher.slices.start(bulk.empty(queue), outcome.done)
    assert (queue.message_count, outcome.result) == (0, None)
    assert 0 < domain.account.message_count < 3 * SLICE_MESSAGES
    domain.route(make_message("new"), domain.addresses["q"])
    settle_down(domain)

    assert outcome.result == 3 * SLICE_MESSAGES
    assert [reference.message.data for reference in browse_all(queue)] == [b"new"]
    assert domain.account.message_count == 1


def test_a_deleted_queue_gives_its_memory_back_in_slices() -> None:
    domain = make_domain()
    make_queue(domain)
    send(domain, "q", *(str(number) for number in range(2 * SLICE_MESSAGES)))

    domain.delete_queue("q")
    assert domain.account.message_count == SLICE_MESSAGES
    settle_down(domain)

    assert (domain.account.message_count, domain.account.size_bytes) == (0, 0)


def test_browsers_and_selectors_go_on_behind_what_was_emptied() -> None:
    """Their cursors stood on messages that are gone."""
    domain = make_domain()
    queue = make_queue(domain)
    browser, _ = attach(domain, queue, browse=True)
    picky, _ = attach(domain, queue, filter=parse_filter("wanted = TRUE"))
    send(domain, "q", "1", "2", "3")
    assert browser.bodies() == ["1", "2", "3"]

    queue.purge()
    domain.route(make_message("4"), domain.addresses["q"])
    domain.route(make_message("5", wanted=True), domain.addresses["q"])
    settle_down(domain)

    # Whose turn it is decides whether the browser sees what the other consumer takes.
    assert (browser.bodies()[0], picky.bodies()) == ("4", ["5"])


def test_counting_is_about_what_was_there_and_is_still_there() -> None:
    """Between two slices one is taken, one comes back, and one is new."""
    domain = make_domain()
    queue = make_queue(domain)
    taker, consumer = attach(domain, queue, 1)
    send(domain, "q", *(str(number) for number in range(SLICE_MESSAGES + 11)))
    (first,) = taker.take()
    outcome = Outcome()

    domain.dispatcher.slices.start(bulk.count(queue, parse_filter("missing IS NULL")), outcome.done)
    assert outcome.result is None
    for reference in browse_all(queue)[-3:]:
        queue.backlog.unlink(reference)
        forget(reference)
    consumer.settle(first, ACCEPTED)
    domain.route(make_message("new"), domain.addresses["q"])
    settle_down(domain)

    assert outcome.result == SLICE_MESSAGES + 7


def test_removing_goes_on_though_the_place_it_stood_at_is_gone() -> None:
    """The head of the queue is consumed while a selector goes through it."""
    domain = make_domain()
    queue = make_queue(domain)
    for number in range(4 * SLICE_MESSAGES):
        domain.route(make_message(str(number), odd=number % 2 == 1), domain.addresses["q"])
    outcome = Outcome()

    domain.dispatcher.slices.start(bulk.remove(queue, parse_filter("odd = TRUE")), outcome.done)
    taker, consumer = attach(domain, queue, 2 * SLICE_MESSAGES)
    settle_down(domain)
    for reference in taker.take():
        consumer.settle(reference, ACCEPTED)
    left = [int(reference.message.data) for reference in browse_all(queue)]

    assert isinstance(outcome.result, int)
    assert not [number for number in left if number % 2]
    assert outcome.result + consumer.accepted + len(left) == 4 * SLICE_MESSAGES


def test_a_queue_that_is_deleted_meanwhile_ends_the_work() -> None:
    """What it stood on is not in the queue any more, though nothing has touched it yet."""
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", *(str(number) for number in range(3 * SLICE_MESSAGES)))
    outcome = Outcome()

    domain.dispatcher.slices.start(bulk.count(queue, parse_filter("missing IS NULL")), outcome.done)
    domain.dispatcher.run()
    domain.delete_queue("q")
    settle_down(domain)

    assert outcome.result == 2 * SLICE_MESSAGES
