"""Apache Artemis does what tests/kinds/artemis.json says. For another version, record it: `ARTEMIS_PY_RECORD=1`."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.java_server import HOST, free_port, running
from tests.interop.peer.conftest import create
from tests.kinds.instance import KINDS, configuration_of_artemis
from tests.kinds.recorded import ARTEMIS, check, without_varying
from tests.kinds.scenario import FAILED, observe, programs
from tests.kinds.site import Site


@pytest.mark.timeout(600)
def test_programs_see_what_is_recorded(distribution: Path, tmp_path: Path) -> None:
    """All programs against one broker, which is restarted once with other address settings."""
    folder = tmp_path / "artemis"
    port = free_port()
    command = create(distribution, folder, port)
    with ExitStack() as broker:

        def start(is_restarted: bool) -> str:
            broker.close()
            text = configuration_of_artemis(KINDS, port, is_restarted=is_restarted)
            (folder / "etc" / "broker.xml").write_text(text, encoding="utf-8")
            broker.enter_context(running(command, port, folder))
            return f"amqp://{HOST}:{port}"

        seen = observe(Site(start(False)), lambda: start(True), programs(KINDS))

    assert [program for program, facts in seen.items() if FAILED in facts] == []
    check(without_varying(seen), ARTEMIS)
