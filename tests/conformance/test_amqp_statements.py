"""docs/amqp-conformance.md: what AMQP 1.0 asks of a broker, section by section, and which tests hold this one to it.

The standard does not number its statements, so amqp_statements.txt names the tests of each. Other files cite sections:
`AMQP 1.0 §2.6.7` or, in the first line of a wire exchange, `[2.6.7]`. Run this file as a script to write the page.
"""

import ast
import re
from pathlib import Path
from typing import Final

import pytest
from attrs import define, field, frozen

TESTS: Final = Path(__file__).resolve().parents[1]
PAGE: Final = TESTS.parent / "docs" / "amqp-conformance.md"
DATA: Final = Path(__file__).with_name("amqp_statements.txt")
EXCUSES: Final = ("client:", "choice:", "deviates:", "open:")
EXCHANGE: Final = re.compile(r"\[([\d.]*\d)\]")
PARTS: Final = {"1": "Types", "2": "Transport", "3": "Messaging", "4": "Transactions", "5": "Security"}

HEAD: Final = """# AMQP conformance

What AMQP 1.0 asks of a broker, in our own words, with tests that hold this one to it. The page is written by
`python tests/conformance/test_amqp_statements.py` from `tests/conformance/amqp_statements.txt`. A test fails when a
statement is neither tested nor excused, and when it names a test that does not exist.

Why a statement has no test: **client** - only a client can keep it, **choice** - the standard leaves it to us,
**deviates** - this broker does something else, **open** - nobody tests it yet.
"""


@frozen
class Statement:
    """One line of the data file."""

    summary: str
    tests: tuple[str, ...]
    excuse: str


@define
class Section:
    """One section of the standard."""

    number: str
    title: str
    statements: list[Statement] = field(factory=list)


def sections() -> list[Section]:
    """All of them, in the standard's order."""
    found: list[Section] = []
    for line in DATA.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            number, _, title = line[3:].partition(" ")
            found.append(Section(number, title))
        elif line and not line.startswith("#"):
            summary, tests, excuse = (part.strip() for part in line.split("|"))
            names = tuple(f"test_{name.strip()}" for name in tests.split(",") if name.strip())
            found[-1].statements.append(Statement(summary, names, excuse))
    return found


def places() -> dict[str, list[str]]:
    """Files of the tests, by name."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found.setdefault(node.name, []).append(path.relative_to(TESTS).as_posix())
    return found


SECTIONS: Final = sections()
PLACES: Final = places()


def page() -> str:
    """docs/amqp-conformance.md."""
    kinds = " | ".join(excuse.rstrip(":") for excuse in EXCUSES)
    lines = [HEAD, f"| part | statements | tested | {kinds} |", "| --- " * (3 + len(EXCUSES)) + "|"]
    for part, title in PARTS.items():
        rows = [row for section in SECTIONS if section.number[0] == part for row in section.statements]
        counts = [sum(row.excuse.startswith(excuse) for row in rows) for excuse in EXCUSES]
        numbers = [len(rows), len(rows) - sum(counts), *counts]
        lines.append(f"| {part} {title} | {' | '.join(str(number) for number in numbers)} |")
    for part, title in PARTS.items():
        lines += ["", f"## Part {part}: {title}"]
        for section in SECTIONS:
            if section.number[0] == part and section.statements:
                lines += ["", *shown(section)]
    return "\n".join(lines) + "\n"


def shown(section: Section) -> list[str]:
    """One section of the page."""
    head = [f"### {section.number} {section.title}", "", "| asks for | tested by |", "| --- | --- |"]
    return head + [f"| {row.summary} | {named(row)} |" for row in section.statements]


def named(row: Statement) -> str:
    """The last column."""
    tests = "<br>".join(f"`{place}: {name}`" for name in row.tests for place in PLACES.get(name, ()))
    if not row.excuse:
        return tests
    kind, _, why = row.excuse.partition(":")
    return f"**{kind}**:{why}" + (f"<br>{tests}" if tests else "")


def test_every_statement_is_tested_or_excused() -> None:
    """A statement without either is a hole that nobody sees."""
    rows = [(section.number, row) for section in SECTIONS for row in section.statements]

    assert [f"{number}: {row.summary}" for number, row in rows if not row.tests and not row.excuse] == []
    assert [
        f"{number}: {row.excuse}" for number, row in rows if row.excuse and not row.excuse.startswith(EXCUSES)
    ] == []


def test_named_tests_exist() -> None:
    """A test that was renamed or taken away leaves its statement open."""
    named = {name for section in SECTIONS for row in section.statements for name in row.tests}

    assert sorted(named - set(PLACES)) == []


def test_sections_stand_once_and_in_order() -> None:
    """As in the standard."""
    numbers = [tuple(map(int, section.number.split("."))) for section in SECTIONS]

    assert numbers == sorted(set(numbers))


def test_wire_exchanges_cite_sections_that_exist() -> None:
    """A wrong number would cover something else."""
    known = {section.number for section in SECTIONS}
    cited = {
        (number, path.name)
        for path in sorted((TESTS / "wire" / "amqp").glob("*.txt"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("# [")
        for number in EXCHANGE.findall(line)
    }

    assert sorted(f"{name}: [{number}]" for number, name in cited if number not in known) == []


def test_the_page_is_up_to_date() -> None:
    """To mend it, run this file."""
    if PAGE.read_text(encoding="utf-8") != page():
        pytest.fail("docs/amqp-conformance.md is old: run tests/conformance/test_amqp_statements.py")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
