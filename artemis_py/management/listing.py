"""Long lists in pages: which rows, in which order, and how many in one reply.

A filter is Artemis' JSON object `{"field", "operation", "value", "sortField", "sortOrder"}`, every member optional
(artemis-model §6.1). Values keep their JSON types in the answer; a filter compares their text.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from artemis_py.errors import InvalidRequest
from artemis_py.management.control import proposal

Item = TypeVar("Item")

MAX_PAGE_ROWS: Final = 1000
"""Most rows in one reply: about 400 KiB of JSON, well below every client's default limit of message size."""

DEFAULT_PAGE_ROWS: Final = 100


def list_page(
    items: Iterable[Item],
    columns: Mapping[str, Callable[[Item], object]],
    wanted: Mapping[str, object],
    page: int,
    page_rows: int,
) -> str:
    """Return one page of `items` as JSON text `{"data": [...], "count": n}`; n is the number of matches on all pages.

    Pages count from 1. A `page_rows` outside 1 to MAX_PAGE_ROWS means MAX_PAGE_ROWS. Raises InvalidRequest for a
    filter that names no column or operation, and for a page below 1.
    """
    if page < 1:
        raise InvalidRequest(f"page is {page}; pages count from 1")
    if not 1 <= page_rows <= MAX_PAGE_ROWS:
        page_rows = MAX_PAGE_ROWS
    found = list(items) if _is_empty(wanted.get("field")) else _matching(items, columns, wanted)
    if not _is_empty(wanted.get("sortField")):
        column = _column(columns, wanted["sortField"], "sortField")
        found.sort(key=lambda item: _sort_key(column(item)), reverse=_is_descending(wanted.get("sortOrder")))
    rows = [
        {name: column(item) for name, column in columns.items()}
        for item in found[(page - 1) * page_rows : page * page_rows]
    ]
    return json.dumps({"data": rows, "count": len(found)}, ensure_ascii=False)


def _matching(
    items: Iterable[Item], columns: Mapping[str, Callable[[Item], object]], wanted: Mapping[str, object]
) -> list[Item]:
    column = _column(columns, wanted["field"], "field")
    name = wanted.get("operation") or "EQUALS"
    matches = OPERATIONS.get(name) if isinstance(name, str) else None
    if matches is None:
        raise InvalidRequest(f"filter operation {name!r} is unknown; it is one of {', '.join(OPERATIONS)}")
    value = _text(wanted.get("value"))
    return [item for item in items if matches(_text(column(item)), value)]


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


def _sort_key(value: object) -> tuple[int, float, str]:
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
