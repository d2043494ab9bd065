"""This broker does what `ours.json` says. After a change that is meant, set `ARTEMIS_PY_RECORD=1` to write the file."""

from pathlib import Path

import pytest

from tests.interop.broker_process import BrokerProcess, launch, start_broker
from tests.interop.kinds import ring
from tests.interop.kinds.instance import KINDS, configuration, instance
from tests.interop.kinds.recorded import ARTEMIS, OURS, compare, load
from tests.interop.kinds.scenario import observe, programs
from tests.interop.kinds.site import Site


@pytest.mark.timeout(600)
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

    assert compare(seen, OURS) == []


def test_a_ring_can_evict_as_artemis_does(tmp_path: Path) -> None:
    """`ring-eviction="HEAD"`: the same program sees the same."""
    folder = tmp_path / "broker"
    folder.mkdir()
    broker = start_broker(instance([ring]), folder)
    site = Site(broker.url)
    site.update("ring.priorities", ring_eviction="HEAD")

    seen = ring.priorities(site)

    site.disconnect()
    broker.stop()
    assert seen == load(ARTEMIS)["ring.priorities"]
