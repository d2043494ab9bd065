"""docs/mesh-peers.md says what the programs saw."""

import inspect
from pathlib import Path

import pytest

from tests.interop.kinds.recorded import load
from tests.interop.mesh import cluster
from tests.interop.mesh.cluster import ARTEMIS, EITHER, OURS, chosen, compare
from tests.interop.mesh.page import PAGE, has_fault, page, sentence


def test_both_brokers_ran_all_programs() -> None:
    """A program that was added has to be recorded."""
    for path in (ARTEMIS, OURS):
        assert list(load(path)) == list(chosen())


def test_every_program_says_what_it_does() -> None:
    """The table quotes it."""
    assert [name for name, program in chosen().items() if not (inspect.getdoc(program) or "").endswith(".")] == []


def test_the_tables_of_the_page_are_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert text == page(text), "run `python -m tests.interop.mesh.page`"


def test_what_was_seen_both_ways_is_shown_both_ways() -> None:
    facts = {"sent": 5, "came": {EITHER: [4, 5]}, "stranded": {EITHER: [0, 1]}, "doubled": 0, "in order": False}

    assert sentence(facts) == "4 or 5 of 5 came; 0 or 1 wait; out of order"
    assert [has_fault(facts, fact) for fact in ("stranded", "lost", "doubled", "in order")] == [
        True,
        False,
        False,
        True,
    ]


def test_a_fact_that_varies_is_kept_with_every_value_that_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "seen.json"
    monkeypatch.setattr(cluster, "IS_RECORDING", True)
    for came in (1, 2, 1):
        assert compare({"p": {"came": came}}, path, may_vary=True) == []
    monkeypatch.setattr(cluster, "IS_RECORDING", False)

    assert load(path) == {"p": {"came": {EITHER: [1, 2]}}}
    assert compare({"p": {"came": 2}}, path, may_vary=True) == []
    assert compare({"p": {"came": 3}}, path, may_vary=True) == ["p, came: 3, not {'either': [1, 2]}"]


def test_without_variation_the_last_value_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "seen.json"
    monkeypatch.setattr(cluster, "IS_RECORDING", True)
    for came in (1, 2):
        assert compare({"p": {"came": came}}, path, may_vary=False) == []

    assert load(path) == {"p": {"came": 2}}
