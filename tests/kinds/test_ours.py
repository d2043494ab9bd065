"""This broker does what ours.json says. After a change that is meant, record it again: `ARTEMIS_PY_RECORD=1`."""

from pathlib import Path

import pytest

from tests.interop.broker_process import BrokerProcess, launch, start_broker
from tests.kinds.instance import KINDS, configuration, instance
from tests.kinds.recorded import OURS, check
from tests.kinds.scenario import observe, programs
from tests.kinds.site import Site


@pytest.mark.timeout(180)
def test_programs_see_what_is_recorded(tmp_path: Path) -> None:
    """All programs against one broker, which is restarted once with other address settings."""
    folder = tmp_path / "broker"
    folder.mkdir()
    running: list[BrokerProcess] = [start_broker(instance(KINDS), folder)]

    def restart() -> str:
        running.pop().stop()
        (folder / "etc" / "broker.xml").write_text(configuration(KINDS, is_restarted=True), encoding="utf-8")
        running.append(launch(folder))
        return running[0].url

    try:
        seen = observe(Site(running[0].url), restart, programs(KINDS))
    finally:
        for process in running:
            process.stop()

    check(seen, OURS)
