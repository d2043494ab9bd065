"""Message groups: one consumer at a time gets all messages of a group."""

from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, RELEASED, Consumer
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.rules import group_table
from artemis_py.core.queues.rules.groups import Groups
from artemis_py.core.queues.settlement import acknowledge, claim, end_claim
from artemis_py.core.routing.domain import Domain
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import Recorder, attach, browse_all, make_domain, make_queue, pass_time, settle_down
from tests.unit.store.world import World


def grouped(text: str, priority: int = 4, sequence: int | None = None, durable: bool = False) -> Message:
    """A message whose group is the first word of the text; `-` stands for none."""
    name = text.split()[0]
    view = MessageView(body=text, group_id=None if name == "-" else name, group_sequence=sequence)
    view.properties["text"] = text
    return plain_message("q", view, durable, priority)


def send(domain: Domain, *texts: str) -> None:
    for text in texts:
        domain.route(grouped(text), domain.addresses["q"])
    settle_down(domain)


def texts(recorder: Recorder) -> list[str]:
    return [str(reference.message.view.body) for reference in recorder.take()]


def rule_of(queue: Queue) -> Groups:
    assert isinstance(queue.assignment, Groups)
    return queue.assignment


class MarkRecorder(Recorder):
    """Keeps the mark of each delivery."""

    def __init__(self) -> None:
        super().__init__()
        self.consumer: Consumer | None = None
        self.marks: list[tuple[str, str | None]] = []

    def deliver(self, reference: Reference) -> None:
        assert reference.consumer is not None
        self.marks.append((str(reference.message.view.body), reference.consumer.mark))
        super().deliver(reference)


def settle_all(domain: Domain, consumer: Consumer, outcome: int = ACCEPTED) -> None:
    for reference in consumer.outstanding.all():
        consumer.settle(reference, outcome)
    settle_down(domain)


def test_a_queue_has_the_rule_once_a_message_of_a_group_came() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    _, consumer = attach(domain, queue)

    send(domain, "- 1")
    assert (queue.assignment, consumer.cursor, queue.dispatch.cursor_count) == (None, None, 0)
    send(domain, "a 1")

    assert rule_of(queue).table.owners() == [("a", consumer)]
    assert queue.dispatch.cursor_count == 1


def test_groups_stay_with_the_consumer_that_got_their_first_message() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    first, _ = attach(domain, queue)
    second, _ = attach(domain, queue)

    send(domain, "a 1", "b 1", "c 1", "b 2", "a 2", "c 2")

    assert (texts(first), texts(second)) == (["a 1", "c 1", "a 2", "c 2"], ["b 1", "b 2"])


def test_messages_without_a_group_take_turns() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    first, _ = attach(domain, queue)
    second, _ = attach(domain, queue)
    send(domain, "a 1")
    assert (texts(first), texts(second)) == (["a 1"], [])

    send(domain, "- 1", "- 2", "- 3", "- 4")

    assert (len(texts(first)), len(texts(second))) == (2, 2)


def test_a_busy_owner_holds_up_its_own_groups_only() -> None:
    """Artemis stops the queue at the first message of a busy owner (artemis-model §3.6.2)."""
    domain = make_domain()
    queue = make_queue(domain)
    busy, owner = attach(domain, queue, 1)
    send(domain, "a 0")
    other, _ = attach(domain, queue, 2000)

    send(domain, *(f"{name} {number}" for number in range(1, 600) for name in ("a", "b", "-")))

    assert texts(busy) == ["a 0"]
    assert texts(other) == [f"{name} {number}" for number in range(1, 600) for name in ("b", "-")]
    owner.grant(1000)
    settle_down(domain)
    assert texts(busy) == [f"a {number}" for number in range(1, 600)]


def test_a_higher_consumer_priority_gets_new_groups_while_it_has_credit() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    low, _ = attach(domain, queue, 100)
    high, _ = attach(domain, queue, 2, priority=5)

    send(domain, "a 1", "b 1", "c 1", "a 2", "c 2")

    assert (texts(high), texts(low)) == (["a 1", "b 1"], ["c 1", "c 2"])
    assert [str(one.message.view.body) for one in browse_all(queue)] == ["a 2"]


@pytest.mark.parametrize("sequence", [-1, 0xFFFFFFFF])
def test_sequence_minus_one_closes_a_group(sequence: int) -> None:
    """The next message goes to the consumer whose turn it is, once all that was delivered before is settled."""
    domain = make_domain()
    queue = make_queue(domain)
    first, one = attach(domain, queue)
    second, _ = attach(domain, queue)
    send(domain, "a 1")
    domain.route(grouped("a 2", sequence=sequence), queue.address)
    send(domain, "a 3", "a 4")
    assert (texts(first), texts(second)) == (["a 1", "a 2"], [])

    settle_all(domain, one)

    assert (texts(first), texts(second)) == ([], ["a 3", "a 4"])


def test_another_sequence_closes_nothing() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    first, _ = attach(domain, queue)
    attach(domain, queue)
    for number, sequence in enumerate((1, 0, 2, 0x7FFFFFFF)):
        domain.route(grouped(f"a {number}", sequence=sequence), queue.address)
    settle_down(domain)

    assert texts(first) == ["a 0", "a 1", "a 2", "a 3"]


def test_the_groups_of_a_consumer_that_left_go_on_when_its_deliveries_are_back() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    _, one = attach(domain, queue, 2)
    send(domain, "a 1", "a 2", "a 3")
    second, _ = attach(domain, queue)
    assert texts(second) == []

    one.close()
    settle_down(domain)

    assert texts(second) == ["a 1", "a 2", "a 3"]


def test_a_transaction_of_a_consumer_that_left_holds_up_its_group() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    first, one = attach(domain, queue, 1)
    send(domain, "a 1", "a 2")
    (reference,) = first.take()
    claim(reference)
    one.close()
    second, _ = attach(domain, queue)
    send(domain, "b 1")
    assert texts(second) == ["b 1"]

    end_claim(reference)
    acknowledge(reference)
    settle_down(domain)

    assert texts(second) == ["a 2"]


def test_what_is_released_comes_before_later_messages_of_its_group() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    first, one = attach(domain, queue, 2)
    attach(domain, queue, 0)
    send(domain, "a 1", "a 2", "a 3", "- 4")
    (earlier, _) = first.take()

    one.settle(earlier, RELEASED)
    one.grant(10)
    settle_down(domain)

    assert texts(first) == ["a 1", "a 3", "- 4"]


def test_what_is_released_wakes_a_consumer_that_had_nothing_left() -> None:
    """A message of a busy consumer is in front of the scan's place, so the released one is behind it."""
    domain = make_domain()
    queue = make_queue(domain)
    attach(domain, queue, 1)
    send(domain, "a 0")
    first, one = attach(domain, queue, 10)
    send(domain, "b 1", "a 1", "b 2")
    (released, _) = first.take()

    one.settle(released, RELEASED)
    settle_down(domain)

    assert texts(first) == ["b 1"]


def test_a_message_that_waits_for_its_redelivery_delay_is_overtaken() -> None:
    domain = make_domain({"#": AddressSettings(redelivery_delay=1000, max_delivery_attempts=-1)})
    queue = make_queue(domain)
    first, one = attach(domain, queue, 1)
    attach(domain, queue, 0)
    send(domain, "a 1", "a 2")
    one.settle(first.take()[0], FAILED)
    one.grant(5)
    settle_down(domain)
    assert texts(first) == ["a 2"]

    pass_time(domain, 1000)

    assert texts(first) == ["a 1"]


def test_a_message_that_the_selector_of_its_owner_excludes_waits_for_another_owner() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    first, one = attach(domain, queue, filter=parse_filter("text <> 'a 2'"))
    second, _ = attach(domain, queue, 0)
    third, three = attach(domain, queue, 0)
    send(domain, "a 1", "a 2", "a 3")
    three.grant(10)
    settle_down(domain)
    assert (texts(first), texts(second), texts(third)) == (["a 1", "a 3"], [], [])

    settle_all(domain, one)
    one.close()
    settle_down(domain)

    assert texts(third) == ["a 2"]


def test_a_message_that_its_owner_must_not_get_moves_the_group() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    first, one = attach(domain, queue, 2)
    second, _ = attach(domain, queue, 10)
    send(domain, "a 1", "a 2", "a 3")
    reference, other = first.take()

    one.settle(reference, RELEASED, here=False)
    settle_down(domain)
    assert texts(second) == []
    one.settle(other, ACCEPTED)
    settle_down(domain)

    assert texts(second) == ["a 1", "a 3"]


def test_groups_with_the_same_hash_share_an_owner() -> None:
    """The hash is the same in every run: with two buckets `d` is apart from `a`, `b` and `c`."""
    domain = make_domain()
    queue = make_queue(domain, group_buckets=2)
    first, _ = attach(domain, queue)
    second, _ = attach(domain, queue)

    send(domain, "a 1", "d 1", "b 1", "c 1", "d 2", "a 2")

    assert (texts(first), texts(second)) == (["a 1", "b 1", "c 1", "a 2"], ["d 1", "d 2"])
    assert {name for name, _ in rule_of(queue).table.owners()} == {"0", "1"}


def test_without_buckets_group_ids_mean_nothing_until_there_are_some() -> None:
    domain = make_domain()
    queue = make_queue(domain, group_buckets=0)
    first, one = attach(domain, queue)
    second, two = attach(domain, queue)
    send(domain, "a 1", "a 2")
    assert (texts(first), texts(second)) == (["a 1"], ["a 2"])
    assert queue.assignment is None

    domain.update_queue("q", {"group_buckets": -1})
    send(domain, "a 3", "b 1")
    assert texts(first) + texts(second) == ["b 1"]
    settle_all(domain, one)
    settle_all(domain, two)

    assert texts(first) + texts(second) == ["a 3"]
    domain.update_queue("q", {"group_buckets": 0})
    assert queue.assignment is None
    send(domain, "a 4", "a 5")
    assert [len(texts(first)), len(texts(second))] == [1, 1]


@pytest.mark.parametrize("attribute", ["internal", "exclusive"])
def test_internal_and_exclusive_queues_ignore_groups(attribute: str) -> None:
    domain = make_domain()
    queue = make_queue(domain, "q", RoutingType.ANYCAST, **{attribute: True})
    send(domain, "a 1")

    assert not isinstance(queue.assignment, Groups)


def test_a_new_consumer_gets_its_share_of_the_groups() -> None:
    domain = make_domain()
    queue = make_queue(domain, group_rebalance=True)
    first, one = attach(domain, queue)
    send(domain, "a 1", "b 1")
    settle_all(domain, one)
    first.take()
    second, _ = attach(domain, queue)

    send(domain, "a 2", "b 2")

    assert sorted([texts(first), texts(second)]) == [["a 2"], ["b 2"]]


def test_a_group_changes_hands_only_when_its_messages_are_settled() -> None:
    domain = make_domain()
    queue = make_queue(domain, group_rebalance=True)
    _, one = attach(domain, queue, 1)
    send(domain, "a 1")
    second, _ = attach(domain, queue)

    send(domain, "a 2", "b 1")
    assert texts(second) == ["b 1"]
    settle_all(domain, one)

    assert texts(second) == ["a 2"]


def test_dispatch_pauses_until_all_is_settled() -> None:
    domain = make_domain()
    queue = make_queue(domain, group_rebalance=True, group_rebalance_pause_dispatch=True)
    first, one = attach(domain, queue)
    send(domain, "a 1", "- 1")
    first.take()
    second, _ = attach(domain, queue)
    send(domain, "a 2", "b 1", "- 2")
    assert texts(first) + texts(second) == []

    settle_all(domain, one)

    assert sorted(texts(first) + texts(second)) == ["- 2", "a 2", "b 1"]


def test_the_first_message_for_an_owner_is_marked() -> None:
    domain = make_domain()
    queue = make_queue(domain, group_first_key="first")
    recorder = MarkRecorder()
    consumer = attach(domain, queue)[1]
    consumer.sink = recorder

    send(domain, "a 1", "a 2", "b 1", "- 1")

    assert recorder.marks == [("a 1", "first"), ("a 2", None), ("b 1", "first"), ("- 1", None)]


def test_the_first_message_for_an_exclusive_consumer_is_marked() -> None:
    domain = make_domain()
    queue = make_queue(domain, exclusive=True, group_first_key="first")
    recorder = MarkRecorder()
    attach(domain, queue)[1].sink = recorder

    send(domain, "- 1", "- 2")

    assert recorder.marks == [("- 1", "first"), ("- 2", None)]


def test_groups_can_be_reset() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    _, one = attach(domain, queue)
    second, _ = attach(domain, queue)
    send(domain, "a 1")
    settle_all(domain, one)

    assert rule_of(queue).reset("a")
    assert not rule_of(queue).reset("a")
    assert not rule_of(queue).reset("b")
    one.grant(0)
    send(domain, "a 2")

    assert texts(second) == ["a 2"]


def test_idle_groups_are_forgotten_beyond_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    if not group_table.__file__.endswith(".py"):
        pytest.skip("constants are compiled in")
    monkeypatch.setattr(group_table, "KEPT_GROUPS", 3)
    domain = make_domain()
    queue = make_queue(domain)
    _, one = attach(domain, queue)
    send(domain, "a 1")
    settle_all(domain, one)
    send(domain, "busy 1")

    for number in range(10):
        send(domain, f"g{number} 1")
        for reference in one.outstanding.all():
            if str(reference.message.view.body) != "busy 1":
                one.settle(reference, ACCEPTED)

    names = [name for name, _ in rule_of(queue).table.owners()]
    assert len(names) <= 4
    assert "busy" in names
    assert "a" not in names


def test_memory_of_groups_is_counted_and_freed() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    tables = domain.dispatcher.tables
    _, one = attach(domain, queue, 1)
    send(domain, "- 0")
    one.grant(1)
    before = tables.size_bytes
    attach(domain, queue, 10)[1].close()

    send(domain, *(f"{name} 1" for name in "abcdefgh"), *(f"a {number}" for number in range(50)))
    attach(domain, queue, 3)
    assert tables.size_bytes > before
    for consumer in list(queue.consumers):
        consumer.close()
    settle_down(domain)

    assert tables.size_bytes <= before
    queue.purge()
    assert (len(rule_of(queue).table.groups), rule_of(queue).lists.count) == (0, 0)


def test_groups_are_found_on_disk_after_a_restart(tmp_path: Path) -> None:
    settings = {"#": AddressSettings(max_read_page_messages=2)}
    with World(tmp_path, settings) as world:
        queue = world.queue()
        for number in range(6):
            for name in ("a", "b"):
                world.domain.route(grouped(f"{name} {number}", durable=True), queue.address)
        world.settle()
    with World(tmp_path, settings) as world:
        queue = world.domain.queues["q"]
        assert not queue.has_groups
        first, one = attach(world.domain, queue, 0)
        second, two = attach(world.domain, queue, 0)
        for _ in range(12):
            one.grant(1)
            two.grant(1)
            world.settle()

        got = sorted([texts(first), texts(second)])
        assert got == [[f"{name} {number}" for number in range(6)] for name in ("a", "b")]


class Count:
    """Number of times that a message was examined."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if not group_table.__file__.endswith(".py"):
            pytest.skip("calls are compiled in")
        self.examined = 0
        examine = Groups.examine

        def counted(rule: Groups, consumer: Consumer, reference: Reference, is_cold: bool) -> int:
            self.examined += 1
            return examine(rule, consumer, reference, is_cold)

        monkeypatch.setattr(Groups, "examine", counted)


def consume_all(domain: Domain, queue: Queue, count: int) -> None:
    """100 consumers with little credit take everything; one of them is slower than the others."""
    consumers = [attach(domain, queue, 0) for _ in range(100)]
    delivered = turn = 0
    while delivered < count:
        for index, (_, consumer) in enumerate(consumers):
            if index > 0 or turn % 3 == 0:
                consumer.grant(20)
        settle_down(domain)
        for recorder, consumer in consumers:
            taken = recorder.take()
            delivered += len(taken)
            for reference in taken:
                consumer.settle(reference, ACCEPTED)
        settle_down(domain)
        turn += 1
    assert (delivered, queue.message_count) == (count, 0)


def test_a_message_is_examined_once_however_many_consumers_and_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not measured: 100,000 messages, half of them of groups that have owners by then, and 100 consumers."""
    domain = make_domain({"#": AddressSettings(max_size_bytes=-1)})
    queue = make_queue(domain)
    for number in range(100_000):
        domain.route(grouped(f"{number // 2 if number % 2 else number} x"), queue.address)
    count = Count(monkeypatch)

    consume_all(domain, queue, 100_000)

    assert count.examined <= 120_000


def test_a_message_on_disk_is_examined_twice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Once where it is, to decide whether it is brought into memory, and once there."""
    with World(tmp_path, {"#": AddressSettings(max_read_page_messages=100)}) as world:
        queue = world.queue()
        for number in range(4000):
            world.domain.route(grouped(f"{number // 2 if number % 2 else number} x", durable=True), queue.address)
        world.settle()
        assert queue.backlog.cold_count > 3000
        count = Count(monkeypatch)

        consume_all(world.domain, queue, 4000)

        assert count.examined <= 2.2 * 4000
