"""Lists in pages: what is on each page, and that any number of items is looked at in slices."""

import json
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from artemis_py.management import listing
from artemis_py.management.listing import list_page


@frozen
class Item:
    name: str
    number: int | None


COLUMNS = {"name": lambda item: item.name, "number": lambda item: item.number}
ITEMS = st.lists(st.builds(Item, st.sampled_from(["a", "b", "ab"]), st.none() | st.integers(0, 3)), max_size=30)


def result(items: list[Item], wanted: dict[str, object], page: int, page_rows: int) -> tuple[Any, int]:
    """A page, and the number of slices after the first that it took."""
    steps = list_page(items, COLUMNS, wanted, page, page_rows)
    slices = 0
    while True:
        try:
            assert next(steps) is None
            slices += 1
        except StopIteration as end:
            return json.loads(end.value), slices


@given(ITEMS, st.booleans(), st.sampled_from(["", "name", "number"]), st.sampled_from(["", "desc"]), st.integers(1, 4))
def test_pages_are_those_of_the_whole_list(
    items: list[Item], has_filter: bool, sorted_by: str, order: str, page: int
) -> None:
    """Whatever the slices are."""
    wanted: dict[str, object] = {"sortField": sorted_by, "sortOrder": order}
    if has_filter:
        wanted |= {"field": "name", "operation": "CONTAINS", "value": "a"}
    whole = [item for item in items if not has_filter or "a" in item.name]
    if sorted_by == "name":
        whole.sort(key=lambda item: item.name, reverse=bool(order))
    elif sorted_by == "number":
        whole.sort(key=lambda item: (item.number is None, item.number or 0), reverse=bool(order))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "SLICE_ITEMS", 4)
        patch.setattr(listing, "SLICE_ROWS", 2)
        found, _ = result(items, wanted, page, 5)

    assert found == {
        "data": [{"name": item.name, "number": item.number} for item in whole[(page - 1) * 5 : page * 5]],
        "count": len(whole),
    }


def test_many_items_take_many_slices_and_few_one() -> None:
    many = [Item("a", number) for number in range(3500)]

    assert result(many[:50], {"sortField": "number"}, 1, 100)[1] == 0
    # One that takes the items, four that look at them, twenty that write rows; the last of these has no other after it.
    assert result(many, {"sortField": "number"}, 1, 1000)[1] == 4 + 19
