"""Brokers of a mesh are replaced one after the other, under load, beginning with the build of a former commit (C58).

`ARTEMIS_PY_MESH_BEFORE` names the commit; by default it is the one before the last change of what is shipped.
"""

import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.interop.mesh.brokers import Mesh
from tests.interop.mesh.builds import build, former_commit
from tests.interop.mesh.storm import SETTINGS, Storm

MIXED_S: Final = 1.0
"""How long the load goes on with each mixture of builds."""


@pytest.mark.timeout(600)
def test_brokers_are_replaced_one_after_the_other(tmp_path: Path) -> None:
    """In any order: here the one in the middle first. Stored subscriptions, sessions and marks are read by the next."""
    python = build(former_commit(), tmp_path)

    def replace_all(storm: Storm) -> None:
        first, second, third = storm.mesh.nodes
        for node in (second, third, first):
            time.sleep(MIXED_S)
            node.stop()
            node.python = sys.executable
            node.start()
            storm.mesh.wait_until_connected()

    with Mesh(tmp_path / "mesh", 3, settings=SETTINGS, pythons=[python] * 3) as mesh:
        outcome = Storm(mesh, tmp_path / "ledgers", seed=1).run(replace_all)

        assert {node.python for node in mesh.nodes} == {sys.executable}
        assert len(outcome.verdict.acknowledged) > 100, "hardly any load"
        assert outcome.is_clean, outcome
