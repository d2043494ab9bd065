"""Offsets and planning: what a checkpoint holds, how far a batch goes, how it is cut."""

import json

import pytest
from attrs import evolve

from artemis_py.spark.errors import DataLoss, InvalidOffset
from artemis_py.spark.management import Head, Heads
from artemis_py.spark.offsets import (
    Offset,
    Position,
    ahead,
    count_within,
    cut,
    earliest,
    latest,
    limited,
    lost,
    proven,
    ranges_by_key,
    reached,
    refuse,
    turned_back,
)

A, B, C = "n|a::a", "n|b::b", "n|c::c"


def head(name: str, first: int, next: int, queue_id: int = 1) -> Head:
    """A queue of the same name as its address."""
    return Head(address=name, queue=name, queue_id=queue_id, first=first, next=next)


def heads(*queues: Head) -> Heads:
    """The broker's answer."""
    return Heads(node="n", queues=queues)


def at(**numbers: int) -> Offset:
    """An offset in queues a, b and c, all of id 1."""
    return Offset({f"n|{name}::{name}": Position(1, number) for name, number in numbers.items()})


def numbers(offset: Offset) -> dict[str, int]:
    """Queue names to numbers."""
    return {key[-1]: position.next for key, position in offset.positions.items()}


def test_an_offset_survives_the_checkpoint() -> None:
    offset = at(b=7, a=3)

    assert Offset.read(offset.written()) == offset
    assert Offset.read(json.dumps(offset.written())) == offset


def test_equal_offsets_are_equal_text() -> None:
    """The engine compares texts to see whether there is anything new."""
    assert json.dumps(at(a=1, b=2).written()) == json.dumps(at(b=2, a=1).written())


@pytest.mark.parametrize("value", [{}, {"v": 2, "q": {}}, {"v": 1, "q": {"a": [1]}}, "[]", {"v": 1, "q": []}, None])
def test_what_is_no_offset_is_refused(value: object) -> None:
    """In words, without those of Python."""
    with pytest.raises(
        InvalidOffset, match=r"^(this is not an offset of this source: .*'q' and 'v'|an offset of version)"
    ):
        Offset.read(value)


def test_earliest_and_latest_are_the_ends_of_the_queues() -> None:
    now = heads(head("a", 5, 9), head("b", 2, 2))

    assert numbers(earliest(now)) == {"a": 5, "b": 2}
    assert numbers(latest(now)) == {"a": 9, "b": 2}


def test_reading_gets_as_far_as_the_queues_go() -> None:
    assert numbers(ahead(at(a=5), heads(head("a", 1, 9)))) == {"a": 9}


def test_a_new_queue_is_recorded_before_it_is_read() -> None:
    """Asked again later, the broker might name another first message than when the batch was planned."""
    begin = at(a=5)
    end = ahead(begin, heads(head("a", 1, 9), head("b", 4, 40)))

    assert numbers(end) == {"a": 9, "b": 4}
    assert list(ranges_by_key(begin, end)) == [A]


def test_a_queue_made_anew_begins_at_its_first_message() -> None:
    begin = at(a=5)
    end = ahead(begin, heads(head("a", 1, 3, queue_id=2)))

    assert end.positions == {A: Position(2, 1)}
    assert ranges_by_key(begin, end) == {}


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        (head("b", 1, 1), "n|a::a is gone"),
        (head("a", 1, 9, queue_id=2), "was created again"),
        (head("a", 1, 4), "ends at 4, the offset is 5"),
        (head("a", 8, 9), "3 messages from 5 up to 7 are gone"),
    ],
)
def test_lost_messages_are_named(queue: Head, reason: str) -> None:
    losses = lost(at(a=5), heads(queue))

    assert len(losses) == 1
    assert reason in losses[0]
    with pytest.raises(DataLoss, match="failOnDataLoss"):
        refuse(losses)


def test_nothing_is_lost_while_the_next_message_is_there() -> None:
    assert lost(at(a=5, b=2), heads(head("a", 5, 5), head("b", 1, 7))) == []


def test_a_limit_is_shared_in_proportion_to_the_backlog() -> None:
    end = limited(at(a=0, b=0, c=5), at(a=300, b=100, c=5), 40)

    assert numbers(end) == {"a": 30, "b": 10, "c": 5}


@pytest.mark.parametrize("limit", range(1, 12))
def test_a_limit_is_used_to_the_last_message(limit: int) -> None:
    """Below the number of queues as well: a batch that moves nothing would never end."""
    begin, target = at(a=0, b=0, c=0), at(a=7, b=3, c=1)
    end = limited(begin, target, limit)

    moved = {name: numbers(end)[name] for name in "abc"}
    assert sum(moved.values()) == min(limit, 11)
    assert all(moved[name] <= numbers(target)[name] for name in "abc")


def test_without_a_limit_a_batch_takes_everything() -> None:
    assert limited(at(a=0), at(a=10**12), None) == at(a=10**12)


def test_a_range_is_cut_into_like_parts_that_leave_nothing_out() -> None:
    parts = cut(ranges_by_key(at(a=10), at(a=21)).values(), 4, None)

    assert [(part.start, part.stop) for part in parts] == [(10, 12), (12, 15), (15, 18), (18, 21)]


def test_no_partition_is_longer_than_asked() -> None:
    parts = cut(ranges_by_key(at(a=0, b=0), at(a=10, b=3)).values(), 0, 4)

    assert [(part.queue, part.count) for part in parts] == [("a", 3), ("a", 3), ("a", 4), ("b", 3)]


def test_a_range_of_one_message_is_one_partition() -> None:
    assert len(cut(ranges_by_key(at(a=0), at(a=1)).values(), 16, None)) == 1


@pytest.mark.parametrize(
    ("first", "number", "lost_count"),
    [
        (200, 150, 0),  # 150 and on may never have been given: reserved, and then the broker crashed
        (200, 90, 10),  # but 90 to 99 were
        (180, 150, 30),  # 180 is there, so everything below it was given
        (210, 150, 10),  # 200 and on were given after the crash
        (200, 200, 0),
    ],
)
def test_numbers_that_a_crash_skipped_are_not_lost(first: int, number: int, lost_count: int) -> None:
    now = Head(address="a", queue="a", queue_id=1, first=first, next=300, skipped=((100, 200),))

    losses = lost(at(a=number), heads(now))

    assert [line.split()[1] for line in losses] == ([str(lost_count)] if lost_count else [])


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        (head("a", 3, 9), {"a": 5}),
        (head("a", 5, 5), {"a": 5}),
        (head("a", 1, 4), {}),  # set back: what comes under 4 was not read
        (head("a", 1, 9, queue_id=2), {}),
        (head("b", 1, 9), {}),
    ],
)
def test_only_what_the_queue_can_have_given_out_is_acknowledged(queue: Head, expected: dict[str, int]) -> None:
    assert numbers(proven(at(a=5), heads(queue), at(a=5))) == expected


def test_another_broker_is_not_acknowledged() -> None:
    """Its queues may have the same names and ids."""
    assert numbers(proven(at(a=5), Heads(node="m", queues=(head("a", 1, 9),)), at(a=5))) == {}


def test_what_is_kept_is_acknowledged_no_further_than_the_query_is() -> None:
    """It was turned back since: then it has not read again what is before the older position."""
    assert numbers(proven(at(a=50), heads(head("a", 1, 99)), at(a=7))) == {"a": 7}
    assert numbers(proven(at(a=50, b=3), heads(head("a", 1, 99), head("b", 1, 9)), at(b=4))) == {"b": 3}


@pytest.mark.parametrize(
    ("queue", "expected"), [(head("a", 2, 4), 2), (head("a", 2, 5), 5), (head("a", 2, 4, queue_id=2), 5)]
)
def test_a_queue_that_ends_before_the_offset_is_read_from_its_first_message(queue: Head, expected: int) -> None:
    assert numbers(turned_back(at(a=5), heads(queue))) == {"a": expected}


def test_what_a_query_passed_over_at_its_beginning_is_in_its_offsets() -> None:
    """Through the checkpoint and every step to the end of a batch, so that it is never acknowledged."""
    now = heads(head("a", 3, 9), head("b", 4, 4), head("c", 5, 7))
    begin = Offset.read(evolve(at(a=9, b=4, c=5), reader="r").begun(now).written())

    later = heads(head("a", 3, 20), head("b", 4, 20), head("c", 5, 20))
    end = Offset.read(limited(reached(begin, later), ahead(begin, later), 12).remembering(begin, 1).written())

    assert {key: position.next for key, position in begin.passed.items()} == {A: 9}
    assert [end.since(key) for key in (A, B, C)] == [9, 0, 0]
    assert end.before == (begin.positions,)
    assert at(a=1).begun(heads(head("a", 1, 2))).written() == at(a=1).written()
    assert turned_back(end, heads(head("a", 2, 8))).since(A) == 0
    assert proven(end, later, end).since(A) == 9


def test_numbers_that_two_crashes_skipped_are_not_lost() -> None:
    """A query may be away while the broker crashes more than once."""
    now = Head(address="a", queue="a", queue_id=1, first=400, next=500, skipped=((100, 200), (250, 400)))

    assert lost(at(a=150), heads(now)) == ["n|a::a: 50 messages from 150 up to 399 are gone"]


@pytest.mark.parametrize(("max_bytes", "count"), [(10_000, None), (9_999, 59), (5_000, 30), (1, 1)])
def test_octets_are_counted_by_the_average_of_each_queue(max_bytes: int, count: int | None) -> None:
    """Forty messages of 200 octets and twenty of 100."""
    now = heads(evolve(head("a", 1, 41), average_bytes=200), evolve(head("b", 1, 21), average_bytes=100))

    assert count_within(at(a=1, b=1), latest(now), now, max_bytes) == count


def test_an_offset_remembers_where_the_last_batches_began() -> None:
    """And through the checkpoint."""
    first = at(a=1)
    second = at(a=2).remembering(first, 2)
    third = at(a=3).remembering(second, 2)
    fourth = Offset.read(at(a=4).remembering(third, 2).written())

    assert fourth.before == (at(a=2).positions, at(a=3).positions)


def test_an_offset_keeps_its_reader_on_every_way() -> None:
    """The checkpoint is where the reader is found again."""
    begin = evolve(at(a=1), reader="r")
    now = heads(head("a", 2, 9))

    end = limited(reached(begin, now), ahead(begin, now), 3)

    assert Offset.read(end.written()).reader == "r"


def test_skipped_numbers_are_not_part_of_a_limit() -> None:
    """Else a query with a small limit has hundreds of empty batches after a crash of the broker."""
    now = Head(address="a", queue="a", queue_id=1, first=200, next=300, skipped=((100, 200),))

    start = reached(at(a=100), heads(now))

    assert limited(start, latest(heads(now)), 10) == at(a=210)
