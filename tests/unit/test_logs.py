"""What goes into the log: escaped, cut and counted (reliability §5.11)."""

import ast
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artemis_py.logs import (
    LINES_OF_KIND,
    LINES_OF_SOURCE,
    MAX_VALUE_CHARACTERS,
    PERIOD_S,
    LogBrake,
    clean,
    count_left_out,
    named_logger,
)

REPOSITORY = Path(__file__).resolve().parents[2]
LOGGER = named_logger("artemis_py.test_logs")

# Line breaks of all kinds, escapes of terminals (also C1's), text that runs backwards, invisible, half a character.
HOSTILE = "a\n2026-01-01 INFO forged\r\x85\u2028\x1b[2J\x9b31m\u202eback\u200b\ufeff\x00\x7f\ud800"


class Clock:
    """Time that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged since the last call."""
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


def test_what_cannot_be_printed_is_escaped() -> None:
    """A line stays one line, and a terminal shows it as it is."""
    assert clean(HOSTILE).isprintable()
    assert clean("a\nb\x1b[0m\u202e\ud800") == r"a\nb\x1b[0m\u202e\ud800"
    assert clean("Grüße an 東京 🙂") == "Grüße an 東京 🙂"


@given(st.text(st.characters()))
def test_every_text_becomes_one_short_line(text: str) -> None:
    """Whatever it is made of; so does the longest client identifier."""
    cleaned = clean(text * 3)

    assert cleaned.isprintable()
    assert len(cleaned) <= 10 * MAX_VALUE_CHARACTERS + 30


def test_what_is_too_long_is_cut() -> None:
    """It says how long it was."""
    assert clean("x" * 65_535) == "x" * MAX_VALUE_CHARACTERS + "... (65535 characters)"


def test_values_of_a_line_are_clean_for_every_handler(caplog: pytest.LogCaptureFixture) -> None:
    """Also those that are no text; numbers keep their formats."""
    LOGGER.warning("failed: client=%s reason=%s code=%#x count=%d", HOSTILE, ValueError(HOSTILE), 130, 3)

    (line,) = lines(caplog)
    assert line.isprintable()
    assert line.startswith(r"failed: client=a\n2026-01-01 INFO forged\r\x85")
    assert line.endswith(" code=0x82 count=3")


def test_no_line_of_a_traceback_looks_like_one_of_the_log() -> None:
    """An exception's text may be a client's."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign,assignment]
    LOGGER.addHandler(handler)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        LOGGER.exception("failed")
    finally:
        LOGGER.removeHandler(handler)

    head, *rest = logging.Formatter("%(message)s").format(records[0]).split("\n")
    assert head == "failed"
    assert len(rest) > 3
    assert all(line.startswith("| ") and line.isprintable() for line in rest)


def test_a_flood_is_its_first_lines_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    """Once a period; while it goes on, one sample line and the count."""
    clock = Clock()
    brake = LogBrake(LOGGER, clock)
    for number in range(1000):
        brake.warning("peer", "refused: number=%d", number)
    assert lines(caplog) == [f"refused: number={number}" for number in range(LINES_OF_SOURCE)]

    brake.count()
    assert lines(caplog) == []
    clock.now += PERIOD_S
    brake.count()
    assert lines(caplog) == [f"{1000 - LINES_OF_SOURCE} more lines were left out, from 1 sources: refused"]
    for number in range(1000):
        brake.warning("peer", "refused: number=%d", number)
    clock.now += PERIOD_S
    brake.warning("peer", "refused: number=%d", 7)
    assert lines(caplog) == [
        "refused: number=0",
        "999 more lines were left out, from 1 sources: refused",
        "refused: number=7",
    ]


def test_a_source_that_was_quiet_for_a_period_has_all_its_lines_again(caplog: pytest.LogCaptureFixture) -> None:
    """The flood is over."""
    clock = Clock()
    brake = LogBrake(LOGGER, clock)
    for _ in range(2):
        for number in range(1000):
            brake.warning("peer", "refused: number=%d", number)
        clock.now += 2 * PERIOD_S

    assert lines(caplog).count("refused: number=4") == 2


def test_sources_and_kinds_do_not_silence_each_other(caplog: pytest.LogCaptureFixture) -> None:
    """A flood of one must not hide another."""
    brake = LogBrake(LOGGER, Clock())
    for number in range(1000):
        brake.warning("one", "refused: number=%d", number)
    brake.warning("other", "refused: number=%d", -1)
    brake.warning("one", "login took too long")

    assert lines(caplog)[-2:] == ["refused: number=-1", "login took too long"]


def test_many_sources_are_bounded_too(caplog: pytest.LogCaptureFixture) -> None:
    """Addresses are cheap; what is left out is counted all the same, at the end of the broker as well."""
    clock = Clock()
    brake = LogBrake(LOGGER, clock)
    for period in range(3):
        for number in range(5000):
            brake.warning(f"peer-{number}", "refused: number=%d", number)
        clock.now += PERIOD_S
        brake.count()
        expected = LINES_OF_KIND if period == 0 else 1
        found = lines(caplog)
        assert len(found) == expected + 1
        assert found[-1].startswith(f"{5000 - expected} more lines")
    brake.warning("peer", "refused: number=%d", 1)
    brake.warning("peer", "refused: number=%d", 2)
    count_left_out(all_of_them=True)
    assert lines(caplog)[-1].startswith("1 more lines")


def test_lines_that_nobody_reads_are_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The level of the logger comes first."""
    brake = LogBrake(LOGGER, Clock())
    with caplog.at_level(logging.WARNING, "artemis_py.test_logs"):
        for _ in range(1000):
            brake.info("peer", "connection opened")
        brake.count(all_of_them=True)

    assert lines(caplog) == []


def test_every_module_of_the_broker_has_a_logger_that_cleans() -> None:
    """`logging.getLogger` would hand out one that does not. The Spark connector and the commands are no broker."""
    folders = [REPOSITORY / "artemis_py", REPOSITORY / "protocols"]
    wrong = [
        str(path.relative_to(REPOSITORY))
        for folder in folders
        for path in folder.rglob("*.py")
        if not {"spark", "cli"} & set(path.relative_to(folder).parts) and path.name != "logs.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "getLogger"
    ]

    assert wrong == []
