"""Logging: values are escaped and cut, and repeated lines are counted.

Names, filters and reasons come from clients. They are passed as arguments of the logging call (`"client=%s", client`),
and the filter on our loggers makes every argument harmless before any handler sees it, including handlers of a program
that embeds the broker: no line breaks, terminal escapes or text that runs backwards, and a bounded length.

A line that a client can cause repeatedly goes through a `LogBrake`: it logs the first lines of a kind, then, once a
period, one line with the number of lines that were left out.
"""

import logging
import time
import traceback
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

# Long enough for a path, an address with its queue, or the reason of a refusal; a client identifier may have 65,535.
MAX_VALUE_CHARACTERS: Final = 300

# A traceback helps to find a bug; it is bounded because a client may have contributed to a message in it.
MAX_TRACEBACK_CHARACTERS: Final = 16_000

PERIOD_S: Final = 10.0
"""Seconds between two reports of how many lines were left out."""
LINES_OF_SOURCE: Final = 5
"""Lines of one kind that one source (a peer address or a user) may cause in a period."""
LINES_OF_KIND: Final = 50
"""Lines of one kind in a period, from all sources together."""
# A flood can last for hours; a sample and the count are enough then. At 300 octets a line and 25 kinds that a client
# can cause, all of them flooding for a day write some 130 MB.
LINES_IN_A_FLOOD: Final = 1

# Sources of a kind that are told apart in a period; any further ones count as one.
SOURCES_LIMIT: Final = 1000


def clean(text: str, limit: int = MAX_VALUE_CHARACTERS) -> str:
    """Return a text that is safe to log: unprintable characters are escaped, and a text that is too long is cut.

    Unprintable are control characters, line and paragraph separators, format characters (such as those that change
    the direction of text), lone surrogates and unassigned code points.
    """
    size = len(text)
    if size > limit:
        text = text[:limit]
    if not text.isprintable():
        text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
    return text if size <= limit else f"{text}... ({size} characters)"


class _Clean(logging.Filter):
    """Makes the values of a record harmless; lets every record pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(_clean_value(value) for value in record.args)
        if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
            record.exc_text = _clean_traceback("".join(traceback.format_exception(*record.exc_info)))
        return True


_CLEAN: Final = _Clean()


def _clean_value(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    return clean(value if isinstance(value, str) else str(value))


def _clean_traceback(text: str) -> str:
    """Return the text with a bar before each line, so that none of them looks like a line of the log."""
    lines = text[-MAX_TRACEBACK_CHARACTERS:].rstrip("\n").split("\n")
    return "\n".join(f"| {clean(line)}" for line in lines)


def named_logger(name: str) -> logging.Logger:
    """Return the logger of one of our modules: `LOGGER: Final = named_logger(__name__)`."""
    logger = logging.getLogger(name)
    logger.addFilter(_CLEAN)  # adding it again has no effect
    return logger


class _Kind:
    """Lines of one kind: the counts of the current period, and whether the period before was a flood."""

    __slots__ = ("ends_at", "flooding", "left_out", "level", "lines", "sources", "was_flood")

    def __init__(self) -> None:
        self.ends_at = 0.0
        self.lines = 0
        self.left_out = 0
        self.level = logging.INFO
        self.sources: dict[str, int] = {}
        self.flooding: frozenset[str] = frozenset()
        """Sources whose lines were left out in the period before."""
        self.was_flood = False
        """Whether lines were left out because the whole kind was over its limit in the period before."""


_BRAKES: Final["WeakSet[LogBrake]"] = WeakSet()


class LogBrake:
    """Limits lines that clients cause: a few of each kind are logged in a period, the others are counted.

    The kind of a line is its template, which is always ours and never from a client.
    """

    def __init__(self, logger: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        """Create a brake whose lines go to `logger`."""
        self._logger = logger
        self._now = now
        self._kinds: dict[str, _Kind] = {}
        _BRAKES.add(self)

    def log(self, level: int, source: str, template: str, *values: object) -> None:
        """Log `template % values`, unless too many of its kind were logged lately; `source` is the peer or user."""
        self._log(level, source, template, values)

    def info(self, source: str, template: str, *values: object) -> None:
        """As `log`, at the level INFO."""
        self._log(logging.INFO, source, template, values)

    def warning(self, source: str, template: str, *values: object) -> None:
        """As `log`, at the level WARNING."""
        self._log(logging.WARNING, source, template, values)

    def exception(self, source: str, template: str, *values: object) -> None:
        """As `log`, at the level ERROR and with the traceback of the exception that is being handled."""
        self._log(logging.ERROR, source, template, values, exc_info=True)

    def _log(self, level: int, source: str, template: str, values: tuple[object, ...], exc_info: bool = False) -> None:
        if not self._logger.isEnabledFor(level):
            return
        now = self._now()
        kind = self._kinds.get(template)
        if kind is None:
            kind = self._kinds[template] = _Kind()
        if now >= kind.ends_at:
            self._begin(template, kind, now)
        kind.level = max(kind.level, level)
        if source not in kind.sources and len(kind.sources) >= SOURCES_LIMIT:
            source = ""
        count = kind.sources[source] = kind.sources.get(source, 0) + 1
        allowed = LINES_IN_A_FLOOD if source in kind.flooding else LINES_OF_SOURCE
        if count > allowed or kind.lines >= (LINES_IN_A_FLOOD if kind.was_flood else LINES_OF_KIND):
            kind.left_out += 1
            return
        kind.lines += 1
        # The stack level attributes the line to the caller of `log`, `info`, `warning` or `exception`.
        self._logger.log(level, template, *values, exc_info=exc_info, stacklevel=3)

    def count(self, all_of_them: bool = False) -> None:
        """Log how many lines were left out in finished periods; with `all_of_them`, in the current ones too."""
        now = self._now()
        for template, kind in self._kinds.items():
            if kind.left_out and (all_of_them or now >= kind.ends_at):
                self._begin(template, kind, now)

    def _begin(self, template: str, kind: _Kind, now: float) -> None:
        """End a period, log how many lines were left out in it, and begin the next one."""
        is_flood = now < kind.ends_at + PERIOD_S  # a period that ended long ago does not matter
        kind.was_flood = (
            is_flood and sum(min(count, LINES_OF_SOURCE) for count in kind.sources.values()) > LINES_OF_KIND
        )
        kind.flooding = (
            frozenset(source for source, count in kind.sources.items() if count > LINES_OF_SOURCE)
            if is_flood
            else frozenset()
        )
        left_out, sources, level = kind.left_out, len(kind.sources), kind.level
        kind.sources = {}
        kind.lines = kind.left_out = 0
        kind.level = logging.INFO
        kind.ends_at = now + PERIOD_S
        if left_out:
            self._logger.log(
                level, "%d more lines were left out, from %d sources: %s", left_out, sources, template.partition(":")[0]
            )


def count_left_out(all_of_them: bool = False) -> float:
    """Call `LogBrake.count` on all brakes; return the seconds until the next call.

    The broker calls this once a period, and when it stops.
    """
    for brake in list(_BRAKES):
        brake.count(all_of_them)
    return PERIOD_S
