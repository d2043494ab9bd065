"""Two brokers do what `ours.json` says. After a change that is meant, set `ARTEMIS_PY_RECORD=1` to write the file."""

from pathlib import Path
from typing import Final

import pytest

from tests.interop.broker_process import BrokerProcess, launch
from tests.interop.kinds.scenario import FAILED
from tests.interop.mesh.cluster import OURS, compare, configuration, observe
from tests.interop.mesh.pair import Pair
from tests.interop.test_mesh import free_ports

PATIENCE_S: Final = 30.0
"""Here everything comes that has to, and on a loaded machine late."""


@pytest.mark.timeout(600)
def test_programs_see_what_is_recorded(tmp_path: Path) -> None:
    """All programs against two brokers, of which one is killed once."""
    ports = free_ports(2)
    running: dict[str, BrokerProcess] = {}
    for name, port, other in zip("ab", ports, reversed(ports), strict=True):
        (tmp_path / name / "etc").mkdir(parents=True)
        (tmp_path / name / "data").mkdir()
        text = configuration(name, port, other, "AMQP,MQTT")
        (tmp_path / name / "etc" / "broker.xml").write_text(text, encoding="utf-8")
        for file in ("artemis-users.properties", "artemis-roles.properties"):
            (tmp_path / name / "etc" / file).touch()

    def start(name: str) -> None:
        running[name] = launch(tmp_path / name)

    try:
        for name in "ab":
            start(name)
        pair = Pair([f"amqp://127.0.0.1:{port}" for port in ports], PATIENCE_S)
        seen = observe(pair, lambda: running.pop("b").kill(), lambda: start("b"))
        pair.disconnect()
        for process in running.values():
            process.stop()
    finally:
        for process in running.values():
            process.kill()

    unlike = compare(seen, OURS, may_vary=False)
    assert {program: facts for program, facts in seen.items() if FAILED in facts} == {}
    assert unlike == []
