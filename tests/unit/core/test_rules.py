"""Rules that make kinds of queues, added from outside as a further kind would be."""

from collections.abc import Iterator

import pytest

from artemis_py.core.messages.message import Message
from artemis_py.core.queues.consumer import ACCEPTED, RELEASED, Consumer
from artemis_py.core.queues.cursors.cursor import Cursor, ScanBudget
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.rules.assignment import Assignment
from artemis_py.core.queues.rules.entry import Entry
from artemis_py.core.queues.rules.kinds import KINDS, QueueKind
from artemis_py.core.queues.settlement import replace
from artemis_py.core.routing.domain import Domain
from tests.core_harness import (
    Recorder,
    attach,
    browse_all,
    make_domain,
    make_message,
    make_queue,
    make_session,
    pass_time,
    send,
    settle_down,
)

HOUR_MS = 3_600_000


class LastOfColour(Entry):
    """Keeps the last message of each colour; what has no colour does not come in."""

    def __init__(self) -> None:
        self._last: dict[object, Reference] = {}

    def admit(self, queue: Queue, reference: Reference) -> bool:
        colour = reference.message.lookup("colour")
        if colour is None:
            return False
        before = self._last.get(colour)
        if before is not None and before.state == 0:
            replace(before)
        self._last[colour] = reference
        return True

    def readmit(self, queue: Queue, reference: Reference) -> bool:
        return self._last.get(reference.message.lookup("colour")) is reference


class OneConsumerPerColour(Assignment):
    """Gives all messages of a colour to the consumer that got the first of them."""

    def __init__(self) -> None:
        super().__init__()
        self.is_by_message = True
        self._owners: dict[object, Consumer] = {}

    def may_have(self, queue: Queue, consumer: Consumer, reference: Reference) -> bool:
        return self._owners.get(reference.message.lookup("colour")) in (None, consumer)

    def delivered(self, queue: Queue, consumer: Consumer, reference: Reference) -> None:
        self._owners[reference.message.lookup("colour")] = consumer

    def left(self, queue: Queue, consumer: Consumer) -> None:
        self._owners = {colour: owner for colour, owner in self._owners.items() if owner is not consumer}
        for other in queue.consumers:
            if other.cursor is not None:
                other.cursor.reset()


class ByName(QueueKind):
    """Chooses by the name of the queue, as a kind of the repository does by an attribute."""

    def entry(self, queue: Queue) -> Entry | None:
        if not queue.name.startswith("last"):
            return None
        return queue.entry if isinstance(queue.entry, LastOfColour) else LastOfColour()

    def assignment(self, queue: Queue) -> Assignment | None:
        if not queue.name.startswith("grouped"):
            return None
        return queue.assignment if isinstance(queue.assignment, OneConsumerPerColour) else OneConsumerPerColour()

    def keeps_messages(self, queue: Queue) -> bool:
        return queue.name.startswith("kept")


@pytest.fixture(autouse=True)
def kind() -> Iterator[None]:
    """The registration: one line."""
    KINDS.append(ByName())
    yield
    KINDS.pop()


def coloured(domain: Domain, name: str, *texts: str) -> None:
    """Send messages `colour number`."""
    for text in texts:
        domain.route(make_message(text, colour=text.split()[0]), domain.addresses[name])
    settle_down(domain)


def bodies(queue: Queue) -> list[str]:
    return [reference.message.data.decode() for reference in browse_all(queue)]


def test_a_plain_queue_has_no_rules() -> None:
    queue = make_queue(make_domain())

    assert (queue.entry, queue.assignment, queue.keeps_messages) == (None, None, False)


def test_a_rule_at_the_entry_replaces_and_refuses() -> None:
    domain = make_domain()
    queue = make_queue(domain, "last")

    coloured(domain, "last", "red 1", "blue 1", "red 2")
    send(domain, "last", "without")

    assert bodies(queue) == ["blue 1", "red 2"]
    assert (queue.messages_added, queue.messages_replaced, queue.message_count) == (4, 2, 2)
    assert domain.account.message_count == 2


def test_what_is_given_back_asks_the_rule_again() -> None:
    domain = make_domain()
    queue = make_queue(domain, "last")
    coloured(domain, "last", "red 1")
    recorder, consumer = attach(domain, queue, 1)
    (old,) = recorder.take()
    coloured(domain, "last", "red 2")

    consumer.settle(old, RELEASED)
    settle_down(domain)

    assert bodies(queue) == ["red 2"]
    assert (queue.message_count, domain.account.message_count) == (1, 1)


def test_a_scheduled_message_asks_the_rule_when_it_is_due() -> None:
    domain = make_domain()
    queue = make_queue(domain, "last")
    late = make_message("red late", delivery_time_ms=domain.dispatcher.now_ms + HOUR_MS, colour="red")
    domain.route(late, domain.addresses["last"])
    coloured(domain, "last", "red 1")
    assert (bodies(queue), queue.scheduled_count) == (["red 1"], 1)

    pass_time(domain, HOUR_MS)

    assert bodies(queue) == ["red late"]


def test_a_rule_of_assignment_keeps_what_belongs_together_with_one_consumer() -> None:
    domain = make_domain()
    queue = make_queue(domain, "grouped")
    first, one = attach(domain, queue, 2)
    second, two = attach(domain, queue, 100)
    coloured(domain, "grouped", "red 1", "blue 1", "red 2", "red 3", "blue 2")
    got = (first.bodies(), second.bodies())

    # It has no credit for the third: nobody else gets it.
    assert got == (["red 1", "red 2"], ["blue 1", "blue 2"])
    assert bodies(queue) == ["red 3"]

    one.close()
    settle_down(domain)

    assert sorted(second.bodies()) == ["red 1", "red 2", "red 3"]
    assert two.credit == 100 - 5
    assert queue.waiting_count == 0


def test_a_queue_that_becomes_grouped_gives_its_consumers_cursors() -> None:
    domain = make_domain()
    queue = make_queue(domain, "q")
    first, _ = attach(domain, queue)
    second, _ = attach(domain, queue)
    queue.name = "grouped"

    domain.update_queue("q", {"max_consumers": 5})
    coloured(domain, "q", "red 1", "blue 1", "red 2", "blue 2")

    assert sorted([first.bodies(), second.bodies()]) == [["blue 1", "blue 2"], ["red 1", "red 2"]]


def test_a_queue_that_keeps_its_messages_gives_all_to_each_consumer() -> None:
    domain = make_domain()
    queue = make_queue(domain, "kept")
    send(domain, "kept", "a", "b")
    first, one = attach(domain, queue)
    for reference in first.deliveries:
        one.settle(reference, ACCEPTED)
    send(domain, "kept", "c")
    second, _ = attach(domain, queue)

    assert first.bodies() == second.bodies() == ["a", "b", "c"]
    assert (queue.message_count, queue.messages_acknowledged) == (3, 0)
    queue.purge()
    assert queue.message_count == 0


class EverySecond(Cursor):
    """Leaves every second message to others."""

    def next(self, consumer: Consumer, budget: ScanBudget) -> Reference | None:
        reference = consumer.queue.backlog.lists[4].head
        while reference is not None and reference.sequence % 2:
            budget.left -= 1
            reference = reference.next
        return reference


def test_a_consumer_may_bring_its_own_cursor() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    recorder = Recorder()
    consumer = make_session(domain).consume(queue, recorder, cursor=EverySecond())
    send(domain, "q", "a", "b", "c", "d")

    consumer.grant(10)
    settle_down(domain)

    assert recorder.bodies() == ["b", "d"]
    assert bodies(queue) == ["a", "c"]
    consumer.close()
    settle_down(domain)
    assert bodies(queue) == ["a", "b", "c", "d"]
    assert queue.dispatch.cursor_count == 0


def test_what_a_rule_sees_is_the_message_before_it_has_a_number() -> None:
    seen: list[tuple[int, Message]] = []

    class Watch(Entry):
        def admit(self, queue: Queue, reference: Reference) -> bool:
            seen.append((reference.sequence, reference.message))
            return True

    domain = make_domain()
    queue = make_queue(domain)
    queue.entry = Watch()
    send(domain, "q", "a")

    assert [(sequence, message.data) for sequence, message in seen] == [(0, b"a")]
    assert bodies(queue) == ["a"]
