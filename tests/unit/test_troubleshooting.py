"""docs/troubleshooting.md has every line that the log may have at WARNING and above, and every error of the commands.

The texts are read from the source. Of each, the part before the first value must be on the page. Wrong usage and
mistakes in a configuration are not collected: their texts say what would be right.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

REPOSITORY: Final = Path(__file__).resolve().parents[2]
ROOTS: Final = [REPOSITORY / "artemis_py", REPOSITORY / "protocols"]
PAGE: Final = REPOSITORY / "docs" / "troubleshooting.md"
OF_SPARK: Final = "spark"
"""Spark has a log of its own, and a page."""

# It reads the source, which both builds have in common.
pytestmark = pytest.mark.one_build

LEVELS: Final = {"warning", "error", "critical", "exception"}
ERRORS: Final = {"Failed", "NotConnected", "StoreError"}
LEAST: Final = 8
"""Characters of a text that can be looked for."""


def trees() -> Iterator[ast.Module]:
    """All modules that a broker or the command line runs."""
    for root in ROOTS:
        for path in sorted(root.rglob("*.py")):
            if OF_SPARK not in str(path.relative_to(root)):
                yield ast.parse(path.read_text(encoding="utf-8"))


def texts_of(node: ast.expr, values: dict[str, list[ast.expr]]) -> Iterator[str]:
    """The texts that an expression may be, up to the first value in each."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            pieces = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
            # The first one that is long enough: others are advice, and what comes before it is a file or a name.
            yield next((each for each in pieces if len(key(each)) >= LEAST), "")
        case ast.IfExp(body=left, orelse=right):
            yield from texts_of(left, values)
            yield from texts_of(right, values)
        case ast.BinOp(op=ast.Add(), left=left):
            yield from texts_of(left, values)
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)):
            for each in values.get(name, []):
                yield from texts_of(each, values)
        case ast.Dict(values=found):
            for each in found:
                yield from texts_of(each, values)


def assigned(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """What each name of a module or function is assigned."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                found.setdefault(name, []).append(value)
    return found


def logged(tree: ast.Module) -> Iterator[str]:
    """Templates of the lines that a module logs."""
    constants = assigned(tree)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        values = constants | assigned(function)
        for call in ast.walk(function):
            match call:
                case ast.Call(func=ast.Attribute(value=logger, attr=level), args=[first, *others]) if level in LEVELS:
                    name = ast.unparse(logger).lower()
                    if "log" in name:
                        yield from texts_of(first, values)
                    elif "brake" in name:
                        yield from texts_of(others[0], values)


def raised(tree: ast.Module) -> Iterator[str]:
    """Texts of the errors that end a command."""
    constants = assigned(tree)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            values = constants | assigned(function)
            for call in ast.walk(function):
                match call:
                    case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in ERRORS:
                        yield from texts_of(first, values)


def key(template: str) -> str:
    """The part of a text that is looked for: up to the first value, or else the longest piece between values."""
    pieces = [piece.strip(" :;,.=()-") for piece in re.split(r"%[#.\d]*[sdxrf]|\n", template)]
    first = pieces[0].split(": ")[0] if len(pieces[0]) >= LEAST else max(pieces, key=len)
    return re.split(r": \w+$| \w+=$|; | \(", first)[0].strip(" :;,.='\"")


@cache
def keys() -> list[str]:
    """All that the page must have."""
    found = {key(text) for tree in trees() for text in [*logged(tree), *raised(tree)]}
    return sorted(each for each in found if len(each) >= LEAST)


def test_every_line_and_error_has_its_cause() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())

    assert [each for each in keys() if each not in page] == []


def test_the_texts_are_found() -> None:
    """Of each way to write one; a test that finds none proves nothing."""
    found = set(keys())

    assert len(found) > 100
    assert {
        "the last commit failed",  # a call
        "login refused",  # a name that holds the template
        "there is no such connection",  # an error of a command
        "is used by another broker",  # an error of the store
    } <= found
