"""The unsettled deliveries of a session beside a dict with the same, through any history of sends and settlements."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artemis_amqp.engine.link import MASK
from artemis_amqp.engine.unsettled import LONGEST_GAP, MOST_EMPTY, Sent, Unsettled
from tests.amqp_harness import Conversation

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 3000)),
        st.tuples(st.just("send settled"), st.sampled_from([1, 2, LONGEST_GAP, LONGEST_GAP + 1, 5000])),
        st.tuples(st.just("settle the oldest"), st.integers(1, 3000)),
        st.tuples(st.just("settle all but some"), st.integers(0, 5)),
        st.tuples(st.just("settle at"), st.integers(0, 10_000)),
        st.tuples(st.just("look between"), st.integers(0, 10_000), st.integers(0, 10_000)),
        st.tuples(st.just("clear"), st.just(0)),
    ),
    max_size=25,
)


class Model:
    """`Unsettled`, and the dict that it stands for."""

    def __init__(self, first: int) -> None:
        peer = Conversation().open()
        peer.begin()
        self.link = peer.attach_receiver("a", 0)
        self.tested = Unsettled()
        self.dict: dict[int, Sent] = {}
        self.next_id = first

    def send(self, count: int) -> None:
        for _ in range(count):
            sent = Sent(self.link, self.next_id, None, 0)
            self.tested.add(sent)
            self.dict[self.next_id] = sent
            self.next_id = (self.next_id + 1) & MASK

    def settle(self, ids: list[int]) -> None:
        for id in ids:
            sent = self.tested.get(id)
            assert sent is self.dict.pop(id)
            self.tested.remove(sent)
            assert sent.is_settled

    def check_between(self, first: int, last: int) -> None:
        expected = {id for id in self.dict if (id - first) & MASK <= (last - first) & MASK}
        found = self.tested.between(first, last)
        assert len(found) == len(expected)
        assert {sent.delivery_id for sent in found} == expected

    def check(self) -> None:
        assert len(self.tested) == len(self.dict)
        assert self.tested.all() == list(self.dict.values())
        assert not any(sent.is_settled for sent in self.dict.values())
        # A disposition of a wide range looks at each place, however few deliveries there are.
        places = len(self.tested._places) - self.tested._begin
        assert places <= 4 * self.tested._listed + MOST_EMPTY


@pytest.mark.parametrize("first", [0, MASK - 2000])
@given(steps=STEPS)
def test_it_is_the_dict_of_the_deliveries_that_are_not_settled(first: int, steps: list[tuple[Any, ...]]) -> None:
    model = Model(first)
    for name, number, *more in steps:
        ids = list(model.dict)
        if name == "send":
            model.send(number)
        elif name == "send settled":
            model.next_id = (model.next_id + number) & MASK
        elif name == "settle the oldest":
            model.settle(ids[:number])
        elif name == "settle all but some":
            model.settle(ids[number:])
        elif name == "settle at" and ids:
            model.settle([ids[number % len(ids)]])
        elif name == "look between":
            model.check_between((first + number) & MASK, (first + more[0]) & MASK)
        elif name == "clear":
            kept = list(model.dict.values())
            model.tested.clear()
            assert all(sent.is_settled for sent in kept)
            model.dict.clear()
        model.check()


def test_a_delivery_that_stays_unsettled_does_not_make_the_list_grow() -> None:
    """One that is kept for ever, while a hundred thousand others pass."""
    model = Model(0)
    model.send(1)
    for number in range(1, 100_000):
        model.send(1)
        model.settle([number])
    model.check()
    assert len(model.tested._places) <= 4 * MOST_EMPTY
    assert model.tested.get(0) is model.dict[0]
    model.settle([0])
    assert len(model.tested) == 0
    assert model.tested.get(0) is None


def test_ranges_of_two_do_not_cost_as_much_as_all_that_is_unsettled_for_long() -> None:
    """Ids are looked up one by one where they are fewer: 20,000 old deliveries are settled in pairs."""
    model = Model(0)
    model.send(20_000)
    kept = list(model.dict)
    model.send(1)
    model.next_id += 10_000
    model.send(1)
    for first in range(0, len(kept), 2):
        assert [sent.delivery_id for sent in model.tested.between(first, first + 1)] == [first, first + 1]
        model.settle([first, first + 1])
    model.check()
