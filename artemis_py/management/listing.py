"""Long lists in pages: which rows, in which order, and how many in one reply.

A filter is Artemis' JSON object `{"field", "operation", "value", "sortField", "sortOrder"}`, every member optional
(artemis-model §6.1). Values keep their JSON types in the answer; a filter compares their text.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Final, TypeVar

from artemis_py.core.runtime.background import Steps
from artemis_py.errors import InvalidRequest
from artemis_py.management.control import proposal

Item = TypeVar("Item")

MAX_PAGE_ROWS: Final = 1000
"""Most rows in one reply: about 400 KiB of JSON, well below every client's default limit of message size."""

DEFAULT_PAGE_ROWS: Final = 100

SLICE_ITEMS: Final = 1000
"""Items that are looked at in one slice, in some 2 ms."""
SLICE_CHECKED_ITEMS: Final = 250
"""The same if a permission is looked for on each, which takes up to 10 µs."""
SLICE_ROWS: Final = 50
"""Rows that are written in one slice, in as long."""


_Key = tuple[int, float, str]
"""What a row is sorted by: numbers come before texts."""

_ANYWHERE: Final[_Key] = (0, 0, "")


def list_page(
    items: Iterable[Item],
    columns: Mapping[str, Callable[[Item], object]],
    wanted: Mapping[str, object],
    page: int,
    page_rows: int,
    is_seen: Callable[[Item], bool] | None = None,
) -> Steps:
    """Make one page of `items` as JSON text `{"data": [...], "count": n}`; n is the number of matches on all pages.

    It is work in slices, because there may be any number of items: those that there are now, some of which may be gone
    at the end. Items for which `is_seen` returns false are left out, and not counted. Pages count from 1. A `page_rows`
    outside 1 to MAX_PAGE_ROWS means MAX_PAGE_ROWS. Raises InvalidRequest for a filter that names no column or
    operation, and for a page below 1.
    """
    if page < 1:
        raise InvalidRequest(f"page is {page}; pages count from 1")
    if not 1 <= page_rows <= MAX_PAGE_ROWS:
        page_rows = MAX_PAGE_ROWS
    matches = _matcher(columns, wanted)
    key = _key(columns, wanted)
    is_descending = _is_descending(wanted.get("sortOrder"))
    last = page * page_rows
    found: list[tuple[_Key, Item]] = []
    count = 0
    there = list(items)
    size = SLICE_ITEMS if is_seen is None else SLICE_CHECKED_ITEMS
    for start in range(0, len(there), size):
        # A list of very many takes as long to make as a slice.
        if start or len(there) > size:
            yield None
        some = there[start : start + size]
        matching = [(key(item), item) for item in some if (is_seen is None or is_seen(item)) and matches(item)]
        count += len(matching)
        found += matching
        # Items that are equal keep their order. Only what may be on the page is kept.
        found.sort(key=itemgetter(0), reverse=is_descending)
        del found[last:]
    rows: list[str] = []
    shown = found[last - page_rows :]
    for start in range(0, len(shown), SLICE_ROWS):
        if start:
            yield None
        made = [
            {name: column(item) for name, column in columns.items()} for _, item in shown[start : start + SLICE_ROWS]
        ]
        rows += [json.dumps(row, ensure_ascii=False) for row in made]
    return f'{{"data": [{", ".join(rows)}], "count": {count}}}'


def _matcher(columns: Mapping[str, Callable[[Item], object]], wanted: Mapping[str, object]) -> Callable[[Item], bool]:
    """Return what tells whether an item is wanted."""
    if _is_empty(wanted.get("field")):
        return lambda item: True
    column = _column(columns, wanted["field"], "field")
    name = wanted.get("operation") or "EQUALS"
    compare = OPERATIONS.get(name) if isinstance(name, str) else None
    if compare is None:
        raise InvalidRequest(f"filter operation {name!r} is unknown; it is one of {', '.join(OPERATIONS)}")
    value = _text(wanted.get("value"))
    return lambda item: compare(_text(column(item)), value)


def _key(columns: Mapping[str, Callable[[Item], object]], wanted: Mapping[str, object]) -> Callable[[Item], _Key]:
    """Return what items are sorted by; if no order is wanted, that is the same for all."""
    if _is_empty(wanted.get("sortField")):
        return lambda item: _ANYWHERE
    column = _column(columns, wanted["sortField"], "sortField")
    return lambda item: _sort_key(column(item))


def _column(columns: Mapping[str, Callable[[Item], object]], name: object, member: str) -> Callable[[Item], object]:
    column = columns.get(name) if isinstance(name, str) else None
    if column is None:
        near = proposal(name, columns) if isinstance(name, str) else ""
        raise InvalidRequest(f"filter {member} {name!r} is none of {', '.join(columns)}{near}")
    return column


def _is_empty(value: object) -> bool:
    return value is None or value == ""


def _is_descending(order: object) -> bool:
    if _is_empty(order) or order in ("asc", "ascending"):
        return False
    if order in ("desc", "descending"):
        return True
    raise InvalidRequest(f"sortOrder is {order!r}; it is asc or desc")


def _text(value: object) -> str:
    """Return a value as the text that a filter compares."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(_text(item) for item in value)
    return str(value)


def _sort_key(value: object) -> _Key:
    """Return a key that sorts numbers before texts; a column normally has one kind."""
    if isinstance(value, int | float):
        return 0, value, ""
    return 1, 0, _text(value)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _greater(left: str, right: str) -> bool:
    a, b = _number(left), _number(right)
    return a is not None and b is not None and a > b


def _less(left: str, right: str) -> bool:
    return _greater(right, left)


OPERATIONS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "EQUALS": lambda text, value: text == value,
    "NOT_EQUALS": lambda text, value: text != value,
    "CONTAINS": lambda text, value: value in text,
    "NOT_CONTAINS": lambda text, value: value not in text,
    "GREATER_THAN": _greater,
    "LESS_THAN": _less,
}
