"""The store's file is cut, or its pages are not what they were: the start says so, and what is left is served."""

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.crash.processes import command_of

CASES = int(os.environ.get("ARTEMIS_PY_DAMAGED_STORES", "15"))
"""Of those kinds that have as many as you like."""


def damaged(folder: Path, kind: str) -> list[dict[str, Any]]:
    """What came of each case; the first is the store without damage."""
    command = command_of("tests.crash.damaged_store", str(folder), kind, str(CASES))
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["cut", "zero", "random", "swap", "flip"])
def test_whatever_is_damaged_the_rest_is_served(tmp_path: Path, kind: str) -> None:
    """No signal, no message that was not there, none overwritten, no large body deleted, and a line that says it."""
    whole, *cases = damaged(tmp_path, kind)
    there = {queue: Counter(found) for queue, found in whole["found"]["start"].items()}
    served = exported = 0

    assert whole["found"]["afterwards"] == []
    for case in cases:
        name, found = case["case"], case["found"]
        assert (name, case["status"]) == (name, 0)
        assert (name, found["bodies"]) == (name, whole["found"]["bodies"])
        if isinstance(found["start"], str):
            assert "is damaged, and nothing tells what is in it" in found["start"], name
            assert all(isinstance(found[command], str) for command in ("stat", "check", "backup", "compact")), name
            exported += not isinstance(found["export"], str)
            continue
        served += 1
        for queue, left in found["start"].items():
            if not queue.startswith("recovered-"):
                assert Counter(left) <= there[queue], (name, queue)
        everything = sum((Counter(left) for left in found["start"].values()), Counter[str]())
        assert everything <= sum(there.values(), Counter[str]()), name
        if found["start"] != whole["found"]["start"]:
            assert found["log"], name
            assert found["check"], name
    assert served
    # A file that was cut has mostly lost what leads to its values, and has most of the values.
    assert exported or kind != "cut"
