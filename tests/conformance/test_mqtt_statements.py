"""docs/mqtt-conformance.md: every numbered statement of MQTT, and which tests hold the broker to it.

A test says what it is about in its docstring, a wire exchange in its first line: `[MQTT-3.8.4-2]` is a statement of
5.0, `[3.1.1: MQTT-3.8.4-2]` or `[MQTT-3.1.1/3.8.4-2]` one of 3.1.1. Run this file as a script to write the page;
that also removes the excuses of statements that are tested by now.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from attrs import frozen

TESTS: Final = Path(__file__).resolve().parents[1]
PAGE: Final = TESTS.parent / "docs" / "mqtt-conformance.md"
DATA: Final = Path(__file__).with_name("mqtt_statements.txt")
CITATION: Final = re.compile(r"\[(3\.1\.1: )?MQTT-(3\.1\.1/)?([\d.-]+)\]")
MISPRINTS: Final = {("5.0", "4.2-1"): "4.2.0-1", ("3.1.1", "3.8.3-4"): "3-8.3-4"}
"""Numbers that the standards' texts and appendices spell differently."""
EXCUSES: Final = ("client:", "choice:", "deviates:", "open:")
SHOWN: Final = 3
"""Tests named per statement; the page is for people."""

HEAD: Final = """# MQTT conformance

Every numbered statement of MQTT 5.0 and 3.1.1, in our own words, with tests that hold the broker to it. The page is
written by `python tests/conformance/test_mqtt_statements.py`; tests cite the statements in their docstrings, and a test
fails when a statement is neither tested nor excused. Version 3.1 has no numbered statements.

Why a statement has no test: **client** - only a client can keep it, **choice** - it allows something that this broker
does not do, **deviates** - this broker does something else, **open** - nobody tests it yet.
"""


@frozen
class Statement:
    """One line of the data file."""

    version: str
    identifier: str
    same_as: str
    summary: str
    excuse: str


def statements() -> list[Statement]:
    """All of them, in the standards' order."""
    found = []
    version = ""
    for line in DATA.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            version = line[3:]
        elif line and not line.startswith("#"):
            identifier, same_as, summary, excuse = (part.strip() for part in line.split("|"))
            found.append(Statement(version, identifier, same_as, summary, excuse))
    return found


def documented(path: Path) -> Iterator[tuple[str, str]]:
    """Tests of a Python file with their docstrings."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node) or ""


def exchanges(path: Path) -> Iterator[tuple[str, str]]:
    """Exchanges of a wire script: the first comment of each block."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# ["):
            yield CITATION.sub("", line.lstrip("# ")).strip(), line


def citations() -> dict[tuple[str, str], list[str]]:
    """Tests by (version, identifier)."""
    found: dict[tuple[str, str], list[str]] = {}
    sources = [(path, documented(path)) for path in sorted(TESTS.rglob("*.py"))]
    sources += [(path, exchanges(path)) for path in sorted((TESTS / "wire" / "mqtt").glob("*.txt"))]
    for path, cases in sources:
        for name, text in cases:
            for old, same_old, number in CITATION.findall(text):
                version = "3.1.1" if old or same_old else "5.0"
                key = version, "MQTT-" + MISPRINTS.get((version, number), number)
                found.setdefault(key, []).append(f"{path.relative_to(TESTS).as_posix()}: {name}")
    return found


STATEMENTS: Final = statements()
CITATIONS: Final = citations()


def cited_by(statement: Statement) -> list[str]:
    """Tests that cite it, or the statement of 5.0 that asks for the same; none where the broker deviates."""
    if statement.excuse.startswith("deviates:"):
        return []
    own = CITATIONS.get((statement.version, statement.identifier), [])
    return own or CITATIONS.get(("5.0", statement.same_as), [])


def page() -> str:
    """docs/mqtt-conformance.md."""
    kinds = " | ".join(excuse.rstrip(":") for excuse in EXCUSES)
    lines = [HEAD, f"| version | statements | tested | {kinds} |", "| --- " * (3 + len(EXCUSES)) + "|"]
    versions = list(dict.fromkeys(statement.version for statement in STATEMENTS))
    for version in versions:
        rows = [statement for statement in STATEMENTS if statement.version == version]
        untested = [row for row in rows if not cited_by(row)]
        counts = [sum(row.excuse.startswith(excuse) for row in untested) for excuse in EXCUSES]
        numbers = [len(rows), len(rows) - len(untested), *counts]
        lines.append(f"| {version} | {' | '.join(str(number) for number in numbers)} |")
    for version in versions:
        lines += ["", f"## MQTT {version}", "", "| statement | asks for | tested by |", "| --- | --- | --- |"]
        for row in STATEMENTS:
            if row.version == version:
                lines.append(f"| {row.identifier} | {row.summary} | {shown(row)} |")
    return "\n".join(lines) + "\n"


def shown(statement: Statement) -> str:
    """The last column."""
    tests = cited_by(statement)
    if not tests:
        kind, _, why = statement.excuse.partition(":")
        return f"**{kind}**:{why}" if kind else "-"
    text = "<br>".join(f"`{test}`" for test in tests[:SHOWN])
    more = "<br>and others" if len(tests) > SHOWN else ""
    is_own = (statement.version, statement.identifier) in CITATIONS
    return text + more + ("" if is_own else f" (as 5.0's {statement.same_as})")


def write() -> None:
    """The page, and the data without excuses that are none any more."""
    tested = {f"{row.version} {row.identifier}" for row in STATEMENTS if cited_by(row)}
    version = ""
    lines = []
    for line in DATA.read_text(encoding="utf-8").splitlines():
        version = line[3:] if line.startswith("== ") else version
        start, bar, excuse = line.rpartition("|")
        if excuse.startswith(" open:") and f"{version} {line.split()[0]}" in tested:
            line = start + bar
        lines.append(line)
    DATA.write_text("\n".join(lines) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


def test_every_statement_is_tested_or_excused() -> None:
    """Whoever takes a test away finds out what it was for."""
    missing = [f"{row.version}: {row.identifier}" for row in STATEMENTS if not row.excuse and not cited_by(row)]

    assert missing == []


def test_nothing_that_is_tested_counts_as_open() -> None:
    """Who writes the missing test takes the excuse away."""
    assert [row.identifier for row in STATEMENTS if row.excuse.startswith("open:") and cited_by(row)] == []


def test_tests_cite_statements_that_exist() -> None:
    """A wrong number would cover something else."""
    known = {(row.version, row.identifier) for row in STATEMENTS}

    assert [f"{key}: {tests[0]}" for key, tests in CITATIONS.items() if key not in known] == []


def test_the_data_are_well_formed() -> None:
    """Excuses of known kinds, each statement once, and 3.1.1's twins exist."""
    identifiers = [(row.version, row.identifier) for row in STATEMENTS]

    assert len(set(identifiers)) == len(identifiers)
    assert all(row.excuse.startswith(EXCUSES) for row in STATEMENTS if row.excuse)
    assert all(("5.0", row.same_as) in identifiers for row in STATEMENTS if row.same_as)


def test_the_page_is_up_to_date() -> None:
    """To mend it, run this file."""
    if PAGE.read_text(encoding="utf-8") != page():
        pytest.fail("docs/mqtt-conformance.md is old: run tests/conformance/test_mqtt_statements.py")


if __name__ == "__main__":
    write()
