"""Filters of a SQL query applied to queues, numbers and times: parts that need not be read are left out.

This only narrows the ranges: Spark applies every filter again, so an unknown one is ignored here. Knows neither
connection nor broker.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from attrs import evolve, field, frozen

from artemis_py.spark.receiving import Range

_END: Final = 1 << 62
_NAMES: Final = ("address", "queue")
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@frozen
class Cut:
    """Parts of the queues that a query needs."""

    names: dict[str, frozenset[str]] = field(factory=dict)
    """Values of the columns address and queue; a column that is missing here may have any."""
    start: int = 0
    stop: int = _END
    """Sequence numbers from `start` up to but not including `stop`."""
    start_ms: int | None = None
    stop_ms: int | None = None
    """Times of arrival in milliseconds since 1970, likewise."""

    def narrowed(self, filter: object) -> "Cut":
        """Return the cut narrowed by one of PySpark's filters."""
        column: tuple[str, ...] = getattr(filter, "attribute", ())
        if len(column) != 1:
            return self
        operator, value = type(filter).__name__, getattr(filter, "value", None)
        (name,) = column
        if name in _NAMES:
            return self._named(name, operator, value)
        bounds = _bounds(operator, value)
        if name == "sequence" and all(type(bound) is int for bound in bounds):
            return self._numbered(operator, bounds)
        if name == "enqueued_time" and all(_is_time(bound) for bound in bounds):
            return self._timed(operator, bounds)
        return self

    def _named(self, column: str, operator: str, value: Any) -> "Cut":
        if operator not in ("EqualTo", "EqualNullSafe", "In"):
            return self
        found = frozenset(value if operator == "In" else (value,))
        return evolve(self, names={**self.names, column: self.names.get(column, found) & found})

    def _numbered(self, operator: str, bounds: tuple[int, ...]) -> "Cut":
        start, stop = self.start, self.stop
        if operator not in _UPPER and bounds:
            start = max(start, min(bounds) + (operator == "GreaterThan"))
        if operator not in _LOWER and bounds:
            stop = min(stop, max(bounds) + (operator != "LessThan"))
        return evolve(self, start=start, stop=stop)

    def _timed(self, operator: str, bounds: tuple[datetime, ...]) -> "Cut":
        """Return the cut narrowed by a time, rounded outwards to whole milliseconds."""
        start_ms, stop_ms = self.start_ms, self.stop_ms
        if operator not in _UPPER and bounds:
            first = _milliseconds(min(bounds))
            start_ms = first if start_ms is None else max(start_ms, first)
        if operator not in _LOWER and bounds:
            last = _milliseconds(max(bounds)) + 1
            stop_ms = last if stop_ms is None else min(stop_ms, last)
        return evolve(self, start_ms=start_ms, stop_ms=stop_ms)

    def apply(self, parts: Iterable[Range]) -> list[Range]:
        """Return what names and numbers leave of these ranges."""
        kept = []
        for part in parts:
            if all(getattr(part, column) in names for column, names in self.names.items()):
                start, stop = max(part.start, self.start), min(part.stop, self.stop)
                if start < stop:
                    kept.append(evolve(part, start=start, stop=stop))
        return kept


_LOWER: Final = ("GreaterThan", "GreaterThanOrEqual")
_UPPER: Final = ("LessThan", "LessThanOrEqual")
_EXACT: Final = ("EqualTo", "EqualNullSafe")


def _bounds(operator: str, value: Any) -> tuple[Any, ...]:
    """Return the values of a comparison; none for a filter that is not a comparison."""
    if operator == "In":
        return tuple(value)
    return (value,) if operator in (*_LOWER, *_UPPER, *_EXACT) else ()


def _is_time(value: object) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None


def _milliseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)
