"""The references that batches store, beside dicts with the same, through any history of puts, removals and merges."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from artemis_py.core.queues.reference import Reference
from artemis_py.store.puts import MOST_EMPTY, Puts
from artemis_py.store.schema import SHARED
from tests.core_harness import make_domain, make_message, make_queue

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 1500), st.booleans()),
        st.tuples(st.just("share"), st.integers(0, 5000), st.just(False)),
        st.tuples(st.just("replace"), st.integers(0, 5000), st.just(False)),
        st.tuples(st.just("remove"), st.integers(0, 5000), st.just(False)),
        st.tuples(st.just("keep"), st.integers(0, 10), st.just(False)),
        st.tuples(st.just("merge"), st.just(0), st.just(False)),
    ),
    max_size=20,
)


class Model:
    """A batch that gathers, one that others are merged into, and the dicts that they stand for."""

    def __init__(self) -> None:
        self.queue = make_queue(make_domain(), "q")
        self.message = make_message("q")
        self.gathering, self.fold = Puts(), Puts()
        self.dicts: tuple[dict[Reference, int], dict[Reference, int]] = ({}, {})
        self.next_handle = 8
        self.others = [Reference(self.message, self.queue) for _ in range(3)]

    def put(self, count: int, has_key: bool) -> None:
        for _ in range(count):
            reference = Reference(self.message, self.queue)
            reference.key = b"key" if has_key else None
            self.gathering.add(reference, self.next_handle)
            reference.handle = self.next_handle
            self.dicts[0][reference] = self.next_handle
            self.next_handle += 8

    def remove(self, reference: Reference) -> None:
        puts = self.gathering if reference in self.dicts[0] else self.fold
        assert puts.has(reference)
        puts.remove(reference)
        assert not puts.has(reference)
        self.dicts[0].pop(reference, None)
        self.dicts[1].pop(reference, None)

    def merge(self) -> None:
        self.fold.take_over(self.gathering)
        self.gathering = Puts()
        self.dicts[1].update(self.dicts[0])
        self.dicts[0].clear()

    def check(self) -> None:
        for puts, expected in zip((self.gathering, self.fold), self.dicts, strict=True):
            assert puts.count == len(expected)
            assert {reference: puts.handle(reference) for reference in puts.all()} == expected
            assert puts.all() == list(expected)
            assert not any(puts.has(other) for other in self.others)
        assert not any(self.fold.has(reference) for reference in self.dicts[0])
        assert not any(self.gathering.has(reference) for reference in self.dicts[1])


@given(steps=STEPS)
def test_it_is_the_dict_of_what_was_put_and_not_removed(steps: list[tuple[str, int, Any]]) -> None:
    model = Model()
    for name, number, flag in steps:
        both = [*model.dicts[0], *model.dicts[1]]
        if name == "put":
            model.put(number, flag)
        elif name == "share" and model.dicts[0]:
            reference = list(model.dicts[0])[number % len(model.dicts[0])]
            model.gathering.share(reference)
            model.dicts[0][reference] |= SHARED
            assert reference.handle & SHARED
        elif name == "replace" and both and both[number % len(both)].key is not None:
            # What a last-value queue does: the batch must still know under which handle it was put.
            both[number % len(both)].handle = 0
        elif name == "remove" and both:
            model.remove(both[number % len(both)])
        elif name == "keep":
            for reference in both[number:]:
                model.remove(reference)
        elif name == "merge":
            model.merge()
        model.check()


def test_what_passes_while_no_commit_comes_leaves_no_room_behind() -> None:
    """A disk that hangs: the batch gathers for long, and most of what it stores is consumed in the meantime."""
    model = Model()
    model.put(1, False)
    for _ in range(20_000):
        model.put(1, False)
        model.remove(list(model.dicts[0])[-1])
    model.check()
    assert len(model.gathering._places) <= 2 * MOST_EMPTY
