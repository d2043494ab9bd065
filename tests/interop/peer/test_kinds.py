"""Apache Artemis does what `artemis.json` of tests/interop/kinds says.

For another version of it, set `ARTEMIS_PY_RECORD=1`: the run then writes the file.
"""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.interop.java_server import HOST, free_port, running
from tests.interop.kinds.instance import KINDS, configuration_of_artemis
from tests.interop.kinds.recorded import ARTEMIS, compare, without_varying
from tests.interop.kinds.scenario import FAILED, Seen, observe, programs
from tests.interop.kinds.site import Site
from tests.interop.peer.conftest import create
from tests.interop.records import of_another_broker

ATTEMPTS: Final = 2
"""Artemis copies messages for a new queue in another thread, so that on a busy machine a consumer may find none yet."""


@of_another_broker
@pytest.mark.timeout(600)
def test_programs_see_what_is_recorded(distribution: Path, tmp_path: Path) -> None:
    """All programs against one broker, which is restarted once with other address settings."""
    differences: list[str] = []
    for attempt in range(ATTEMPTS):
        seen = seen_at_artemis(distribution, tmp_path / str(attempt))
        assert {program: facts for program, facts in seen.items() if FAILED in facts} == {}
        differences = compare(without_varying(seen), ARTEMIS)
        if not differences:
            break

    assert differences == []


def seen_at_artemis(distribution: Path, folder: Path) -> dict[str, Seen]:
    """What the programs see at a new broker in a folder."""
    port = free_port()
    command = create(distribution, folder, port)
    # It runs for a minute at most: what its compiler does for long runs is not worth its time.
    environment = os.environ | {"JAVA_ARGS_APPEND": "-XX:TieredStopAtLevel=1"}
    with ExitStack() as broker:

        def start(is_restarted: bool) -> str:
            broker.close()
            text = configuration_of_artemis(KINDS, port, is_restarted=is_restarted)
            (folder / "etc" / "broker.xml").write_text(text, encoding="utf-8")
            broker.enter_context(running(command, port, folder, environment))
            return f"amqp://{HOST}:{port}"

        return observe(Site(start(False)), lambda: start(True), programs(KINDS))
