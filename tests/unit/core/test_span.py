"""Reading by numbers shows all that is in the queue, wherever it is, and says nothing of what cannot be read."""

from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.acknowledging import acknowledge_below, acknowledge_numbers
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, Consumer
from artemis_py.core.queues.cursors.range_reader import RangeReader, first_sequence, first_since, there
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.errors import StoreError
from tests.core_harness import (
    Recorder,
    attach,
    browse_all,
    make_domain,
    make_queue,
    make_session,
    pass_time,
    send,
    settle_down,
)
from tests.unit.store.world import World

DELAYED = {"#": AddressSettings(redelivery_delay=50, max_delivery_attempts=5)}


def browser(domain: Domain, queue: Queue, start: int, stop: int) -> tuple[Recorder, Consumer]:
    """A reader by numbers, without credit."""
    recorder = Recorder()
    consumer = make_session(domain).consume(queue, recorder, browse=True, cursor=RangeReader(start, stop))
    return recorder, consumer


def read(domain: Domain, queue: Queue, start: int = 1, stop: int = 100) -> list[int]:
    """The numbers that a reader gets before it is told that there is nothing more."""
    recorder, consumer = browser(domain, queue, start, stop)
    consumer.grant(100, True)
    settle_down(domain)
    assert recorder.drains == 1
    consumer.close()
    return [one.sequence for one in recorder.take()]


@pytest.mark.parametrize("commits", [True, False])
def test_what_a_transaction_claims_is_there_until_it_commits(commits: bool) -> None:
    """A reader that misses it would be done with what comes back when the transaction is rolled back."""
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a", "b", "c")
    recorder = Recorder()
    session = make_session(domain)
    session.consume(queue, recorder).grant(2)
    settle_down(domain)
    transaction = session.begin()
    for reference in recorder.take():
        transaction.settle(reference, ACCEPTED)

    assert first_sequence(queue) == 1
    assert first_since(queue, -1) == 1
    assert read(domain, queue) == [1, 2, 3]
    assert acknowledge_below(queue, 4, 100) == 1
    if commits:
        session.commit(transaction)
        assert read(domain, queue) == []
    else:
        session.rollback(transaction)
        settle_down(domain)
        assert read(domain, queue) == [1, 2]
    assert queue.aside == {}


def test_a_delivery_that_is_handed_back_is_there_once() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a", "b")
    recorder = Recorder()
    session = make_session(domain)
    session.consume(queue, recorder).grant(2)
    settle_down(domain)
    transaction = session.begin()
    transaction.settle(recorder.take()[0], ACCEPTED, is_final=False)

    session.rollback(transaction)

    assert read(domain, queue) == [1, 2]
    assert queue.aside == {}


@pytest.mark.parametrize("end", ["due", "purged"])
def test_what_waits_for_its_next_attempt_is_there(end: str) -> None:
    domain = make_domain(DELAYED)
    queue = make_queue(domain)
    send(domain, "q", "a", "b", "c")
    recorder, consumer = attach(domain, queue, 1)
    consumer.settle(recorder.take()[0], FAILED)

    assert queue.scheduled_count == 1
    assert first_sequence(queue) == 1
    assert read(domain, queue) == [1, 2, 3]
    assert [one.sequence for one in there(queue, 1, 3, 10)[0]] == [1, 2]
    if end == "due":
        pass_time(domain, 50)
        assert queue.scheduled_count == 0
        assert read(domain, queue) == [1, 2, 3]
    else:
        queue.purge()
        settle_down(domain)
        assert read(domain, queue) == []
        assert first_sequence(queue) == 4
    assert queue.aside == {}


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_what_is_past_its_time_expires_and_is_not_acknowledged(tmp_path: Path, is_on_disk: bool) -> None:
    """A reader was not given it: it goes where such messages go, though nobody has looked for them yet."""
    settings = AddressSettings(expiry_address="EXPIRED", max_read_page_messages=1 if is_on_disk else 100)
    with World(tmp_path, {"#": settings}) as world:
        queue = world.queue()
        late = make_queue(world.domain, "EXPIRED")
        for number in range(6):
            message = plain_message("q", MessageView(body=str(number)), True)
            message.expires_ms = world.domain.dispatcher.now_ms + 5 if number % 2 else 0
            world.domain.route(message, world.domain.addresses["q"])
        world.settle()
        world.domain.dispatcher.now_ms += 5
        assert read(world.domain, queue) == [1, 3, 5]

        assert acknowledge_below(queue, 6, 100) == 5
        world.settle()

        assert [one.sequence for one in browse_all(queue)] == [6]
        assert [one.message.view.body for one in browse_all(late)] == ["1", "3"]
        assert (queue.messages_acknowledged, queue.messages_expired) == (3, 2)


def test_what_is_looked_up_is_told_as_far_as_it_goes() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", *"abcdef")
    acknowledge_numbers(queue, {2, 5})

    assert ([one.sequence for one in there(queue, 1, 7, 2)[0]], there(queue, 1, 7, 2)[1]) == ([1, 3], 4)
    assert ([one.sequence for one in there(queue, 4, 7, 9)[0]], there(queue, 4, 7, 9)[1]) == ([4, 6], 7)
    assert there(queue, 5, 6, 9) == ([], 6)
    assert there(queue, 7, 900, 9) == ([], 900)


def test_a_range_that_cannot_be_read_does_not_end(tmp_path: Path) -> None:
    """The end says that everything came: while the store cannot be read nothing is said."""
    with World(tmp_path, {"#": AddressSettings(max_read_page_messages=2)}) as world:
        queue = world.queue()
        for number in range(6):
            world.domain.route(plain_message("q", MessageView(body=str(number)), True), world.domain.addresses["q"])
        world.settle()
        acknowledge_numbers(queue, {1, 2})
        world.settle()
        recorder, consumer = browser(world.domain, queue, 1, 100)
        environment, world.store._environment = world.store._environment, None
        consumer.grant(100, True)
        settle_down(world.domain)

        assert recorder.drains == 0
        with pytest.raises(StoreError, match="queue 'q' cannot be read"):
            first_sequence(queue)
        with pytest.raises(StoreError, match="queue 'q' cannot be read"):
            there(queue, 1, 100, 10)

        world.store._environment = environment
        consumer.grant(100, True)
        settle_down(world.domain)
        assert recorder.drains == 1
        assert [one.sequence for one in recorder.take()] == [3, 4, 5, 6]
