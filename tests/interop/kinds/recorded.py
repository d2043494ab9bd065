"""What the programs saw, as it is kept in files: of Apache Artemis, of this broker, and why the two differ."""

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from tests.interop.kinds.scenario import Seen

HERE: Final = Path(__file__).parent
ARTEMIS: Final = HERE / "artemis.json"
OURS: Final = HERE / "ours.json"
DIFFERENCES: Final = HERE / "differences.toml"

IS_RECORDING: Final = os.environ.get("ARTEMIS_PY_RECORD") == "1"
"""Write what is seen instead of comparing it."""


VARIES: Final = "varies"
"""Recorded instead of what differs from run to run."""
VARYING: Final = {
    # Whether a ring or a last-value queue counts a message depends on whether its page has been read.
    ("ring.paged", "waiting"),
    ("ring.paged", "delivered"),
    ("last_value.paged", "waiting"),
    ("last_value.paged", "delivered"),
    # Iterators of consumers are at times given the same value twice.
    ("non_destructive.with_last_value", "first"),
    ("non_destructive.with_last_value_unsettled", "another consumer meanwhile"),
    ("non_destructive.with_last_value_unsettled", "the same afterwards"),
    ("non_destructive.with_exclusive", "first"),
}
"""Facts of Artemis that are not the same each time."""


@frozen
class Difference:
    """A fact that is not the same on the two brokers, on purpose."""

    program: str
    fact: str
    why: str


def load(path: Path) -> dict[str, Seen]:
    """Return what is kept in a file, by program."""
    kept: dict[str, Seen] = json.loads(path.read_text(encoding="utf-8"))
    return kept


def save(path: Path, seen: Mapping[str, Seen]) -> None:
    """Write a file with a line for each fact."""
    blocks = []
    for program, facts in seen.items():
        lines = [f"    {json.dumps(fact)}: {json.dumps(value, ensure_ascii=False)}" for fact, value in facts.items()]
        blocks.append(f"  {json.dumps(program)}: {{\n" + ",\n".join(lines) + "\n  }")
    path.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


def differences() -> list[Difference]:
    """Return the differences that are wanted, in the order of the file."""
    entries: list[dict[str, Any]] = tomllib.loads(DIFFERENCES.read_text(encoding="utf-8"))["difference"]
    return [Difference(entry["program"], fact, entry["why"]) for entry in entries for fact in entry["facts"]]


def unlike(seen: Mapping[str, Seen], kept: Mapping[str, Seen]) -> list[str]:
    """Return a line for each fact that is not the same, in words for a failed test."""
    lines = []
    for program in dict.fromkeys((*kept, *seen)):
        now, before = seen.get(program, {}), kept.get(program, {})
        for fact in dict.fromkeys((*before, *now)):
            if fact not in now or fact not in before or now[fact] != before[fact]:
                lines.append(f"{program}, {fact}: {now.get(fact)!r}, not {before.get(fact)!r}")
    return lines


def without_varying(seen: Mapping[str, Seen]) -> dict[str, Seen]:
    """Return what Artemis does each time."""
    return {
        program: {fact: VARIES if (program, fact) in VARYING else value for fact, value in facts.items()}
        for program, facts in seen.items()
    }


def compare(seen: Mapping[str, Seen], path: Path) -> list[str]:
    """Return how what was seen differs from a file; write the file first if `ARTEMIS_PY_RECORD` is 1."""
    if IS_RECORDING:
        save(path, seen)
    return unlike(seen, load(path))
