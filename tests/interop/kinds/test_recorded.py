"""Facts that differ are found and named."""

from pathlib import Path
from typing import Final

import pytest

from tests.interop.kinds.recorded import VARIES, VARYING, load, save, unlike, without_varying
from tests.interop.kinds.scenario import Seen

KEPT: Final[dict[str, Seen]] = {"ring.paged": {"waiting": ["a"], "count": 1}, "ring.other": {"waiting": []}}


@pytest.mark.parametrize(
    ("seen", "lines"),
    [
        (KEPT, []),
        ({**KEPT, "ring.other": {"waiting": ["b"]}}, ["ring.other, waiting: ['b'], not []"]),
        ({**KEPT, "ring.other": {}}, ["ring.other, waiting: None, not []"]),
        ({"ring.paged": KEPT["ring.paged"]}, ["ring.other, waiting: None, not []"]),
        ({**KEPT, "ring.new": {"more": None}}, ["ring.new, more: None, not None"]),
    ],
    ids=["same", "another value", "fact missing", "program missing", "program not recorded"],
)
def test_each_fact_that_differs_is_named(seen: dict[str, Seen], lines: list[str]) -> None:
    assert unlike(seen, KEPT) == lines


def test_a_file_keeps_the_facts(tmp_path: Path) -> None:
    """One line each, so that a change is one line of a diff."""
    path = tmp_path / "seen.json"

    save(path, KEPT)

    assert load(path) == KEPT
    assert '    "waiting": ["a"],\n' in path.read_text(encoding="utf-8")


def test_what_varies_is_recorded_as_such() -> None:
    assert ("ring.paged", "waiting") in VARYING
    assert without_varying(KEPT) == {**KEPT, "ring.paged": {"waiting": VARIES, "count": 1}}
