"""`dlq report`: dead letters by group, as a page with charts. The groups come from `dead_letters`."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from artemis_py.spark.jobs.charts import bars, lines
from artemis_py.spark.jobs.dead_letters import Group
from artemis_py.spark.jobs.page import page, section, table

LARGEST: Final = 12
"""Number of bars in a chart; the rest is one more bar."""
UNKNOWN: Final = "(unknown)"


def render(queues: Iterable[str], groups: Sequence[Group], made_at: datetime, has_more: bool = False) -> str:
    """Return the HTML of a report. `made_at` is shown as it is; `has_more`: there are smaller groups."""
    total = sum(group.count for group in groups)
    origins = _counted((origin(group), group.count) for group in groups)
    causes = _counted((group.cause, group.count) for group in groups)
    facts = [
        ("dead letters", f"{total:,}"),
        ("groups", f"the {len(groups):,} largest" if has_more else f"{len(groups):,}"),
        ("origins", f"{len(origins):,}"),
        ("sent back before", f"{sum(group.count for group in groups if group.redrives):,}"),
    ]
    return page(
        f"Dead letters of {', '.join(queues)}",
        f"as of {made_at:%Y-%m-%d %H:%M} UTC",
        facts,
        [
            section("Where and why", bars(largest(origins), "By origin"), bars(largest(causes), "By cause")),
            section("When", _over_time(groups)),
            section("Groups", table(*_facts(groups), code=(0,))),
            section("What they look like", table(*_looks(groups), code=(0, 2, 3, 4))),
        ],
    )


def origin(group: Group) -> str:
    """Return the queue in which a group died, as users write it."""
    if group.origin_address is None:
        return UNKNOWN
    if group.origin_queue in (None, group.origin_address):
        return group.origin_address
    return f"{group.origin_address}::{group.origin_queue}"


def largest(counts: Mapping[str, int], limit: int = LARGEST) -> list[tuple[str, int]]:
    """Return the largest counts first; the rest is one entry."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in ordered[limit:])
    return ordered[:limit] + ([(f"{len(ordered) - limit} others", rest)] if rest else [])


def _counted(items: Iterable[tuple[str, int]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for name, count in items:
        counts[name] += count
    return dict(counts)


def _over_time(groups: Sequence[Group]) -> str:
    """Return a chart of deaths per hour, with a line for each of the most frequent causes."""
    hours: dict[str, Counter[datetime]] = {}
    for group in groups:
        for hour, count in group.hours:
            hours.setdefault(group.cause, Counter())[hour] += count
    known = sorted({hour for counter in hours.values() for hour in counter})
    ends = (_time(known[0]), _time(known[-1])) if known else ("", "")
    series = {
        cause: [(hour.timestamp(), float(count)) for hour, count in hours[cause].items()]
        for cause, _ in largest(_counted((group.cause, group.count) for group in groups), 6)
        if cause in hours
    }
    return lines(series, "Dead letters per hour, of those whose time is known", ends)


Table = tuple[list[str], list[list[object]]]


def _facts(groups: Sequence[Group]) -> Table:
    return ["group", "count", "origin", "cause", "attempts", "sent back", "first", "last"], [
        [
            group.id,
            group.count,
            origin(group),
            group.cause,
            group.attempts,
            group.redrives,
            _time(group.first),
            _time(group.last),
        ]
        for group in groups
    ]


def _looks(groups: Sequence[Group]) -> Table:
    return ["group", "format", "fingerprint", "body", "sample"], [
        [group.id, group.content_type, group.fingerprint, group.shape, group.sample] for group in groups
    ]


def _time(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"
