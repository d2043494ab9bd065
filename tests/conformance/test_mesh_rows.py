"""docs/mesh-checklist.md: what a mesh must do, row by row, and the tests for each.

The rows are those of mesh_rows.txt. Run this file as a script (`python -m tests.conformance.test_mesh_rows`) to write
the page.
"""

from pathlib import Path
from typing import Final

import pytest
from attrs import frozen

from tests.conformance.test_artemis_rows import PLACES

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "mesh-checklist.md"
DATA: Final = Path(__file__).with_name("mesh_rows.txt")
LAST: Final = 61
REMARKS: Final = ("part:", "later:", "differs:")

HEAD: Final = """# Checklist of the mesh

What a mesh of brokers must do, in our own words, with the tests that hold this broker to each row. The page is written
by `python -m tests.conformance.test_mesh_rows`. A test fails when a row has neither tests nor a reason, and when it
names a test that does not exist. [mesh](mesh.md) says how it works.

**part** - not all of it is shown by a test, **later** - it needs homes or subscriptions that move, which this mesh does
not have yet. Where such a row has tests, they show what happens instead.
"""


@frozen
class Row:
    """One line of the data file."""

    id: str
    summary: str
    named: tuple[str, ...]
    remark: str


def rows() -> list[Row]:
    """All of them, in order."""
    found = []
    for line in DATA.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            id, summary, tests, remark = (part.strip() for part in line.split("|"))
            named = tuple(f"test_{name.strip()}" for name in tests.split(",") if name.strip())
            found.append(Row(id, summary, named, remark))
    return found


ROWS: Final = rows()


def held_by(row: Row) -> list[str]:
    """Tests of a row; of several with one name, those of the mesh."""
    return [f"{place}: {name}" for name in row.named for place in PLACES.get(name, ())]


def page() -> str:
    """docs/mesh-checklist.md."""
    lines = [HEAD, "| row | what holds | tested by |", "| --- | --- | --- |"]
    for row in ROWS:
        kind, _, why = row.remark.partition(":")
        remark = [f"**{kind}**:{why}"] if kind else []
        shown = "<br>".join(remark + [f"`{test}`" for test in held_by(row)])
        lines.append(f"| {row.id} | {row.summary} | {shown} |")
    return "\n".join(lines) + "\n"


def test_rows_stand_once_and_in_order() -> None:
    """They are those of the design."""
    assert [row.id for row in ROWS] == [f"C{number}" for number in range(1, LAST + 1)]


def test_every_row_has_tests_or_a_reason() -> None:
    """A row without either is a hole that nobody sees."""
    assert [row.id for row in ROWS if not row.named and not row.remark] == []
    assert [row.id for row in ROWS if row.remark and not row.remark.startswith(REMARKS)] == []


def test_named_tests_exist() -> None:
    """A test that was renamed or taken away leaves its row open."""
    assert sorted({name for row in ROWS for name in row.named} - set(PLACES)) == []


def test_the_page_is_up_to_date() -> None:
    """To mend it, run this file."""
    if PAGE.read_text(encoding="utf-8") != page():
        pytest.fail("docs/mesh-checklist.md is old: run python -m tests.conformance.test_mesh_rows")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
