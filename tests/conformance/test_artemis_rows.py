"""docs/artemis-checklist.md: thirty points of Artemis' model that are easily missed, and the tests for each.

The points are the rows of artemis_rows.txt. A test is a row's if its name begins with `test_row_<row>_` or if the row
names it. Run this file as a script to write the page; that also removes the `open:` of a row that now has tests.
"""

import ast
from pathlib import Path
from typing import Final

import pytest
from attrs import frozen

TESTS: Final = Path(__file__).resolve().parents[1]
PAGE: Final = TESTS.parent / "docs" / "artemis-checklist.md"
DATA: Final = Path(__file__).with_name("artemis_rows.txt")
EXCUSES: Final = ("choice:", "deviates:", "open:")

HEAD: Final = """# Checklist of the Artemis model

Points of Apache Artemis' address model that are easily missed, in our own words, with tests that hold this broker to
each. The page is written by `python tests/conformance/test_artemis_rows.py`. A test fails when a row is neither tested
nor excused, and when it names a test that does not exist. [artemis-model](reference/artemis-model.md) has the model.

**open** - not built yet, **deviates** - this broker does something else on purpose, **choice** - it leaves this out.
"""


@frozen
class Row:
    """One line of the data file."""

    number: int
    summary: str
    named: tuple[str, ...]
    excuse: str


def rows() -> list[Row]:
    """All of them, in order."""
    found = []
    for line in DATA.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            number, summary, tests, excuse = (part.strip() for part in line.split("|"))
            named = tuple(f"test_{name.strip()}" for name in tests.split(",") if name.strip())
            found.append(Row(int(number), summary, named, excuse))
    return found


def places() -> dict[str, list[str]]:
    """Files of the tests, by name."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found.setdefault(node.name, []).append(path.relative_to(TESTS).as_posix())
    return found


ROWS: Final = rows()
PLACES: Final = places()


def held_by(row: Row) -> list[str]:
    """Tests of a row: those of its number, then those it names."""
    own = [name for name in PLACES if name.startswith(f"test_row_{row.number}_")]
    return [f"{place}: {name}" for name in (*own, *row.named) for place in PLACES.get(name, ())]


def page() -> str:
    """docs/artemis-checklist.md."""
    lines = [HEAD, "| row | what holds | tested by |", "| --- | --- | --- |"]
    for row in ROWS:
        kind, _, why = row.excuse.partition(":")
        excuse = [f"**{kind}**:{why}"] if kind else []
        shown = "<br>".join(excuse + [f"`{test}`" for test in held_by(row)])
        lines.append(f"| {row.number} | {row.summary} | {shown} |")
    return "\n".join(lines) + "\n"


def write() -> None:
    """The page, and the data without the `open:` of rows that have tests."""
    tested = {row.number for row in ROWS if held_by(row)}
    lines = []
    for line in DATA.read_text(encoding="utf-8").splitlines():
        start, bar, excuse = line.rpartition("|")
        if excuse.startswith(" open:") and int(line.split("|")[0]) in tested:
            line = start + bar
        lines.append(line)
    DATA.write_text("\n".join(lines) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


def test_every_row_is_tested_or_excused() -> None:
    """A row without either is a hole that nobody sees."""
    assert [row.number for row in ROWS if not held_by(row) and not row.excuse] == []
    assert [row.excuse for row in ROWS if row.excuse and not row.excuse.startswith(EXCUSES)] == []


def test_nothing_that_is_tested_counts_as_open() -> None:
    """To mend it, run this file."""
    assert [row.number for row in ROWS if row.excuse.startswith("open:") and held_by(row)] == []


def test_rows_stand_once_and_in_order() -> None:
    """Tests name them by number."""
    assert [row.number for row in ROWS] == list(range(1, 31))


def test_named_tests_and_rows_exist() -> None:
    """A test that was renamed or taken away leaves its row open; a wrong number would cover something else."""
    known = tuple(f"test_row_{row.number}_" for row in ROWS)

    assert sorted({name for row in ROWS for name in row.named} - set(PLACES)) == []
    assert [name for name in PLACES if name.startswith("test_row_") and not name.startswith(known)] == []


def test_the_page_is_up_to_date() -> None:
    """To mend it, run this file."""
    if PAGE.read_text(encoding="utf-8") != page():
        pytest.fail("docs/artemis-checklist.md is old: run tests/conformance/test_artemis_rows.py")


if __name__ == "__main__":
    write()
