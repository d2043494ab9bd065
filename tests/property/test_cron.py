"""Schedules against the simplest model: look at one minute after the other."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from artemis_py.core.services.cron import Cron
from artemis_py.errors import InvalidRequest

START = datetime(2026, 1, 1, tzinfo=UTC)
SPANS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


@st.composite
def fields(draw: st.DrawFn, lowest: int, highest: int) -> str:
    """One field."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return "*"
    if kind == 1:
        return f"*/{draw(st.integers(1, highest))}"
    first, last = sorted(draw(st.tuples(st.integers(lowest, highest), st.integers(lowest, highest))))
    if kind == 2:
        return f"{first}-{last}"
    return f"{first},{last}"


def values(field: str, lowest: int, highest: int) -> set[int]:
    if field.startswith("*"):
        return set(range(lowest, highest + 1, int(field[2:] or 1)))
    if "-" in field:
        first, last = map(int, field.split("-"))
        return set(range(first, last + 1))
    return set(map(int, field.split(",")))


@given(
    st.tuples(*[fields(*span) for span in SPANS]),
    st.integers(0, 60 * 24 * 365 * 4).map(lambda minutes: START + timedelta(minutes=minutes)),
)
def test_no_time_is_left_out_and_none_is_made_up(parts: tuple[str, ...], now: datetime) -> None:
    minutes, hours, days, months, weekdays = [values(part, *span) for part, span in zip(parts, SPANS, strict=True)]
    try:
        cron = Cron(" ".join(parts))
    except InvalidRequest:
        # Only a day that no month has is refused.
        assert all(not day_exists(month, day) for month in months for day in days)
        return

    def matches(time: datetime) -> bool:
        in_month, in_week = time.day in days, not weekdays.isdisjoint({time.isoweekday() % 7, time.isoweekday()})
        is_any = parts[2] == "*" or parts[4] == "*"
        has_day = (in_month and in_week) if is_any else (in_month or in_week)
        return time.minute in minutes and time.hour in hours and time.month in months and has_day

    found = datetime.fromtimestamp(cron.next_ms(int(now.timestamp() * 1000), UTC) / 1000, UTC)
    assert matches(found)
    between = now + timedelta(minutes=1)
    for _ in range(3000):
        if between >= found:
            break
        assert not matches(between)
        between += timedelta(minutes=1)


def day_exists(month: int, day: int) -> bool:
    return day <= (29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31)
