"""docs/exchange-checklist.md: what is easily missed about exchanges, and the tests for each row (qpid-exchanges §18).

The rows are those of exchange_rows.txt. Run this file as a script to write the page.
"""

import re
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import frozen

from tests.conformance.test_artemis_rows import PLACES, TESTS
from tests.unit.core.test_exchange_tables import HEADERS, TOPIC

PAGE: Final = TESTS.parent / "docs" / "exchange-checklist.md"
REFERENCE: Final = TESTS.parent / "docs" / "reference" / "qpid-exchanges.md"
DATA: Final = Path(__file__).with_name("exchange_rows.txt")
EXCUSES: Final = ("deviates:", "open:")

HEAD: Final = """# Checklist of exchanges

What is easily missed about the exchanges of Qpid and RabbitMQ, in our own words, with the tests that hold this broker
to each row. The page is written by `python -m tests.conformance.test_exchange_rows`. A test fails when a row has no
test, when a row names a test that does not exist, and when the rows T and H are not those of the
[reference](reference/qpid-exchanges.md). [exchanges.md](exchanges.md#decisions) has the reasons where this broker
**deviates**.
"""


@frozen
class Row:
    """One line of the data file."""

    name: str
    summary: str
    tests: tuple[str, ...]
    excuse: str

    @property
    def held_by(self) -> list[str]:
        """Its tests, with their files."""
        return [f"{place}: {name}" for name in self.tests for place in PLACES.get(name, ())]


def rows() -> list[Row]:
    """All of them, in order."""
    found = []
    for line in DATA.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, summary, tests, excuse = (part.strip() for part in line.split("|"))
            named = tuple(f"test_{each.strip()}" for each in tests.split(",") if each.strip())
            found.append(Row(name, summary, named, excuse))
    return found


ROWS: Final = rows()


def page() -> str:
    """docs/exchange-checklist.md."""
    lines = [HEAD, "| row | what holds | tested by |", "| --- | --- | --- |"]
    for row in ROWS:
        kind, _, why = row.excuse.partition(":")
        excuse = [f"**{kind}**:{why}"] if kind else []
        shown = "<br>".join(excuse + [f"`{test}`" for test in row.held_by])
        lines.append(f"| {row.name} | {row.summary} | {shown} |")
    return "\n".join(lines) + "\n"


def table(title: str) -> list[list[str]]:
    """The rows of a table of the reference, by the line in front of it."""
    text = REFERENCE.read_text(encoding="utf-8")
    lines = text[text.index(title) :].splitlines()[2:]
    found = []
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def keys(cell: str) -> list[str]:
    """The routing keys in a cell."""
    return ([""] if "the empty key" in cell else []) + re.findall(r"`([^`]*)`", cell)


def arguments(cell: str) -> list[dict[str, Any]]:
    """The arguments of a binding that a cell describes; more than one way to write them."""
    if cell == "none":
        return [{}]
    if cell == "C=null, or C empty":
        return [{"C": None}, {"C": ""}]
    values: dict[str, Any] = {}
    for part in cell.split(", "):
        name, _, value = part.partition("=")
        values[name] = None if value == "null" else int(value) if value.isdigit() else value
    return [values]


def test_every_row_has_a_test() -> None:
    """A row without one is a hole that nobody sees."""
    assert [row.name for row in ROWS if not row.held_by and not row.excuse.startswith("open:")] == []
    assert [row.excuse for row in ROWS if row.excuse and not row.excuse.startswith(EXCUSES)] == []


def test_tests_that_rows_name_exist() -> None:
    """One that was renamed or taken away leaves its row open."""
    assert sorted({name for row in ROWS for name in row.tests} - set(PLACES)) == []


def test_rows_stand_once_and_in_order() -> None:
    """The tables, the further cases, the traps."""
    counts = {"T": 10, "H": 9, "C": 16, "L": 15}

    assert [row.name for row in ROWS] == [f"{kind}{n}" for kind, count in counts.items() for n in range(1, count + 1)]


def test_the_patterns_of_the_reference_are_tested() -> None:
    """Each row of its table, with all its keys."""
    wanted = [
        (keys(pattern)[0], keys(fits), keys(others)) for pattern, fits, others in table("Binding keys of a topic")
    ]

    assert wanted == TOPIC[: len(wanted)]
    assert len(wanted) == 10


def test_the_arguments_of_the_reference_are_tested() -> None:
    """Each row of its table, for both ways to match."""
    wanted = [
        (given, fits_all == "match", fits_any == "match")
        for cell, fits_all, fits_any in table("Arguments of a binding to a headers")
        for given in arguments(cell)
    ]

    assert wanted == HEADERS[: len(wanted)]
    assert len(wanted) == 9


def test_the_page_is_up_to_date() -> None:
    """To mend it, run this file."""
    if PAGE.read_text(encoding="utf-8") != page():
        pytest.fail("docs/exchange-checklist.md is old: run python -m tests.conformance.test_exchange_rows")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
