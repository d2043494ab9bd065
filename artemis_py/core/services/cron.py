"""Times of day and days, written in the five fields of cron: minute, hour, day of the month, month, day of the week.

A field is `*`, a number, a range `a-b`, `*` or a range with a step `/n`, or several of them separated by commas. Sunday
is 0 or 7. If both the day of the month and the day of the week are restricted, one of them has to match.

Times are those of the broker's time zone. What falls into an hour that clocks skip happens as much later; what falls
into an hour that comes twice happens in the first one, unless the hour is `*`: then it happens in both.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from artemis_py.errors import InvalidRequest

_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day", 0, 7))
_ANY: Final = "*"
_SUNDAY: Final = 7

MAX_TEXT: Final = 256
"""Characters of a schedule: five fields with every number of an hour in the first are less."""

# The longest way from one 29th of February to the next, over a year like 2100, with some days to spare.
_MAX_DAYS: Final = 8 * 366 + 1

_MINUTE: Final = timedelta(minutes=1)
_EPOCH: Final = datetime(1970, 1, 1)


class Cron:
    """One schedule."""

    def __init__(self, text: str) -> None:
        """Read a schedule. Raises InvalidRequest if it is none, or if its time never comes."""
        words = text.split()
        if len(words) != len(_FIELDS) or len(text) > MAX_TEXT:
            raise InvalidRequest(f"'{text[:MAX_TEXT]}' is no schedule: it needs five fields, as in '0 9 * * 1-5'")
        found = [_read(word, *field) for word, field in zip(words, _FIELDS, strict=True)]
        self.text: Final = text
        self._minutes: Final = sorted(found[0])
        self._hours: Final = sorted(found[1])
        self._days: Final = found[2]
        self._months: Final = found[3]
        self._weekdays: Final = {day % _SUNDAY for day in found[4]}
        self._any_hour: Final = words[1] == _ANY
        self._any_day: Final = words[2] == _ANY
        self._any_weekday: Final = words[4] == _ANY
        # A month whose days never come shows at once; the year is one before a year with a 29th of February.
        if self._next(datetime(2027, 1, 1)) is None:
            raise InvalidRequest(f"the time of the schedule '{text}' never comes")

    def next_ms(self, after_ms: int, zone: tzinfo | None = None) -> int:
        """Return the first time after `after_ms`, in milliseconds since 1970; None: in the zone of this machine."""
        wanted = self._next_wall(_wall(after_ms, zone))
        found = _instant(wanted, zone, 0)
        while found <= after_ms:
            found = _instant(wanted, zone, 1)
            if found <= after_ms:
                wanted = self._next_wall(wanted)
                found = _instant(wanted, zone, 0)
        offset = _offset(found, zone)
        if self._any_hour and offset != _offset(after_ms, zone):
            # The clock is changed in between: the hour that comes twice has times of its own.
            sooner = self._next_wall(_naive(after_ms) + offset)
            instant = _milliseconds(sooner - offset)
            if after_ms < instant < found and _wall(instant, zone) == sooner:
                found = instant
        return found

    def _next_wall(self, after: datetime) -> datetime:
        found = self._next(after.replace(second=0, microsecond=0) + _MINUTE)
        assert found is not None, "checked when it was read"
        return found

    def _next(self, start: datetime) -> datetime | None:
        """Return the first minute that matches, from `start` on; None if there is none for eight years."""
        time = start.hour, start.minute
        day = start.replace(hour=0, minute=0)
        for _ in range(_MAX_DAYS):
            if self._has_day(day):
                for hour in self._hours:
                    for minute in self._minutes if hour >= time[0] else ():
                        if (hour, minute) >= time:
                            return day.replace(hour=hour, minute=minute)
            day += timedelta(days=1)
            time = 0, 0
        return None

    def _has_day(self, day: datetime) -> bool:
        if day.month not in self._months:
            return False
        in_month = day.day in self._days
        in_week = day.isoweekday() % _SUNDAY in self._weekdays
        if self._any_day or self._any_weekday:
            return in_month and in_week
        return in_month or in_week


def _read(word: str, name: str, lowest: int, highest: int) -> set[int]:
    """Return the numbers of a field. Raises InvalidRequest."""
    found: set[int] = set()
    for part in word.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(step_text, name, 1, highest) if slash else 1
        if span == _ANY:
            first, last = lowest, highest
        else:
            first_text, dash, last_text = span.partition("-")
            if slash and not dash:
                raise InvalidRequest(f"'{part}' is no {name} of a schedule: a step needs '*' or a range before it")
            first = _number(first_text, name, lowest, highest)
            last = _number(last_text, name, lowest, highest) if dash else first
            if last < first:
                raise InvalidRequest(f"'{part}' is no {name} of a schedule: the range ends before it begins")
        found.update(range(first, last + 1, step))
    return found


def _number(text: str, name: str, lowest: int, highest: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and lowest <= int(text) <= highest):
        raise InvalidRequest(f"'{text}' is no {name} of a schedule: a number from {lowest} to {highest} is one")
    return int(text)


def _naive(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def _milliseconds(naive: datetime) -> int:
    return (naive - _EPOCH) // timedelta(milliseconds=1)


def _offset(ms: int, zone: tzinfo | None) -> timedelta:
    offset = _naive(ms).replace(tzinfo=UTC).astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def _wall(ms: int, zone: tzinfo | None) -> datetime:
    return _naive(ms) + _offset(ms, zone)


def _instant(wall: datetime, zone: tzinfo | None, fold: int) -> int:
    return int(wall.replace(tzinfo=zone, fold=fold).timestamp() * 1000)
