"""Schedules in the five fields of cron."""

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from artemis_py.core.services.cron import MAX_TEXT, Cron
from artemis_py.errors import InvalidRequest

BERLIN = ZoneInfo("Europe/Berlin")


def ms(text: str, zone: ZoneInfo | None = None, fold: int = 0) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone or UTC, fold=fold).timestamp() * 1000)


def after(schedule: str, text: str) -> str:
    found = Cron(schedule).next_ms(ms(text), UTC)
    return datetime.fromtimestamp(found / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("schedule", "now", "then"),
    [
        ("* * * * *", "2026-11-22 21:00:30", "2026-11-22 21:01:00"),
        ("* * * * *", "2026-11-22 21:00:00", "2026-11-22 21:01:00"),
        ("*/15 * * * *", "2026-11-22 21:46:00", "2026-11-22 22:00:00"),
        ("5-20/7 * * * *", "2026-11-22 21:12:00", "2026-11-22 21:19:00"),
        ("0,30 8 * * *", "2026-11-22 21:00:00", "2026-11-23 08:00:00"),
        ("0 9 * * 1-5", "2026-11-20 09:00:00", "2026-11-23 09:00:00"),
        ("0 0 * * 0", "2026-11-23 00:00:00", "2026-11-29 00:00:00"),
        ("0 0 * * 7", "2026-11-23 00:00:00", "2026-11-29 00:00:00"),
        ("0 0 31 * *", "2026-11-01 00:00:00", "2026-12-31 00:00:00"),
        ("0 0 29 2 *", "2096-03-01 00:00:00", "2104-02-29 00:00:00"),
        ("59 23 31 12 *", "2026-12-31 23:59:00", "2027-12-31 23:59:00"),
    ],
)
def test_the_next_time(schedule: str, now: str, then: str) -> None:
    assert after(schedule, now) == then


def test_one_of_two_restricted_days_is_enough() -> None:
    """As in cron, and in ActiveMQ."""
    assert after("0 0 13 * 5", "2026-11-22 00:00:00") == "2026-11-27 00:00:00"
    assert after("0 0 13 * 5", "2026-12-11 00:00:00") == "2026-12-13 00:00:00"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "every monday",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "5/2 * * * *",
        "20-10 * * * *",
        "-1 * * * *",
        "1, * * * *",
        "1- * * * *",
        "٣ * * * *",
        "* * * * mon",
        "0 0 30 2 *",
        "0 0 31 4,6 *",
        "*" + ",*" * MAX_TEXT + " * * * *",
    ],
)
def test_a_text_that_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Cron(text)


def test_an_hour_that_clocks_skip_comes_later() -> None:
    """2027-03-28 in Berlin has no 02:30."""
    found = Cron("30 2 * * *").next_ms(ms("2027-03-28T00:00", BERLIN), BERLIN)

    assert found == ms("2027-03-28T03:30", BERLIN)


def test_an_hour_that_comes_twice_counts_once() -> None:
    """2026-10-25 in Berlin has two 02:30."""
    cron = Cron("30 2 * * *")
    first = cron.next_ms(ms("2026-10-25T00:00", BERLIN), BERLIN)

    assert first == ms("2026-10-25T02:30", BERLIN)
    assert cron.next_ms(first, BERLIN) == ms("2026-10-26T02:30", BERLIN)


def test_every_ten_minutes_are_ten_minutes_in_an_hour_that_comes_twice() -> None:
    cron = Cron("*/10 * * * *")
    times = [ms("2026-10-25T01:50", BERLIN)]
    for _ in range(15):
        times.append(cron.next_ms(times[-1], BERLIN))

    assert {later - sooner for sooner, later in pairwise(times)} == {600_000}
