"""What goes into the log: escaped, cut and counted.

Names, filters and reasons come from clients. Whatever a line is made of is a value of the call (`"client=%s", client`),
and the filter on our loggers makes every value harmless before any handler sees it, also one of a program that embeds
the broker: no line breaks, terminal escapes or text that runs backwards, and a bounded length.

What a client can have logged again and again goes through a `LogBrake`: the first lines of a kind, then one line with
the number of those that were left out, once a period.
"""

import logging
import time
import traceback
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

# Long enough for a path, an address with its queue, or the reason of a refusal; a client identifier may have 65,535.
MAX_VALUE_CHARACTERS: Final = 300

# A traceback is for the one who mends the bug; the bound is for a message in it that a client had a part in.
MAX_TRACEBACK_CHARACTERS: Final = 16_000

PERIOD_S: Final = 10.0
"""How often the lines that were left out are counted in the log."""
LINES_OF_SOURCE: Final = 5
"""Lines of one kind that one source (a peer address or a user) may cause in a period."""
LINES_OF_KIND: Final = 50
"""Lines of one kind in a period, whoever causes them."""
# A flood goes on for hours: then a sample and the count are enough. At 300 octets a line and 25 kinds that a client can
# cause, all of them flooding for a day write some 130 MB.
LINES_IN_A_FLOOD: Final = 1

# Sources of a kind that are told apart in a period; those beyond count as one.
SOURCES_LIMIT: Final = 1000


def clean(text: str, limit: int = MAX_VALUE_CHARACTERS) -> str:
    """A text as it may stand in a line: what cannot be printed is escaped, what is too long is cut.

    Escaped are control characters, line and paragraph separators, format characters (such as those that change the
    direction of text), half surrogates and what Unicode has not assigned.
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
    """Lines that begin with a bar, so that none of them looks like a line of the log."""
    lines = text[-MAX_TRACEBACK_CHARACTERS:].rstrip("\n").split("\n")
    return "\n".join(f"| {clean(line)}" for line in lines)


def named_logger(name: str) -> logging.Logger:
    """The logger of a module of ours: `LOGGER: Final = named_logger(__name__)`."""
    logger = logging.getLogger(name)
    logger.addFilter(_CLEAN)  # the same one is added once
    return logger


class _Kind:
    """What was logged of one kind in the running period, and of the one before."""

    __slots__ = ("ends_at", "flooding", "left_out", "level", "lines", "sources", "was_flood")

    def __init__(self) -> None:
        self.ends_at = 0.0
        self.lines = 0
        self.left_out = 0
        self.level = logging.INFO
        self.sources: dict[str, int] = {}
        self.flooding: frozenset[str] = frozenset()
        """Sources that had lines left out in the period before."""
        self.was_flood = False
        """The whole kind had."""


_BRAKES: Final["WeakSet[LogBrake]"] = WeakSet()


class LogBrake:
    """Lines that clients cause: a few of a kind pass in a period, the others are counted.

    The kind of a line is its template, which is ours and never a client's.
    """

    def __init__(self, logger: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        """`logger` names the part that has something to say."""
        self._logger = logger
        self._now = now
        self._kinds: dict[str, _Kind] = {}
        _BRAKES.add(self)

    def log(self, level: int, source: str, template: str, *values: object) -> None:
        """Log `template % values`, unless too much of its kind was logged lately; `source` is the peer or user."""
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
        # The line is the caller's of `log`, `info`, `warning` or `exception`.
        self._logger.log(level, template, *values, exc_info=exc_info, stacklevel=3)

    def count(self, all_of_them: bool = False) -> None:
        """Say how many lines were left out in the periods that are over; `all_of_them`: and in the running ones."""
        now = self._now()
        for template, kind in self._kinds.items():
            if kind.left_out and (all_of_them or now >= kind.ends_at):
                self._begin(template, kind, now)

    def _begin(self, template: str, kind: _Kind, now: float) -> None:
        """End a period, and begin the next one."""
        is_flood = now < kind.ends_at + PERIOD_S  # one that ended long ago says nothing about now
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
                level, "%d more lines were left out, of %d sources: %s", left_out, sources, template.partition(":")[0]
            )


def count_left_out(all_of_them: bool = False) -> float:
    """Do what `LogBrake.count` does, of all brakes; returns the seconds until it is to be done again.

    The broker calls it once a period, and at its end.
    """
    for brake in list(_BRAKES):
        brake.count(all_of_them)
    return PERIOD_S
