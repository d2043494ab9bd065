"""Two brokers of an Apache Artemis cluster do what `artemis.json` of tests/interop/mesh says.

It says something of Artemis and nothing of this broker, and some of what Artemis does depends on how quick the machine
is. So it runs only with `ARTEMIS_PY_PEERS=1`: for another version of Artemis, or after a change of the programs.
With `ARTEMIS_PY_RECORD=1` as well the run writes the file. What differs from what it has is kept beside that: of such a
fact every value that was ever seen is right. Remove the file first for another version of Artemis.
"""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.java_server import HOST, running
from tests.interop.kinds.scenario import FAILED, Seen
from tests.interop.mesh.cluster import ARTEMIS, compare, configuration, observe
from tests.interop.mesh.pair import Pair
from tests.interop.peer.conftest import create, unpacked_artemis
from tests.interop.records import of_another_broker
from tests.interop.test_mesh import free_ports

VERSION = "2.44.0"


@of_another_broker
@pytest.mark.timeout(1200)
def test_programs_see_what_is_recorded(tmp_path: Path) -> None:
    """All programs against two brokers, of which one is killed once; all of it again if something differs.

    What is seen once may be a race of theirs; what is seen twice is not as it is recorded.
    """
    distribution = unpacked_artemis(VERSION, tmp_path)
    unlike = compare(_see(distribution, tmp_path / "once"), ARTEMIS, may_vary=True)
    if unlike:
        twice = compare(_see(distribution, tmp_path / "twice"), ARTEMIS, may_vary=True)
        unlike = [each for each in unlike if each in twice]
    assert unlike == []


def _see(distribution: Path, folder: Path) -> dict[str, Seen]:
    """What the programs see."""
    folder.mkdir()
    ports = dict(zip("ab", free_ports(2), strict=True))
    # They run for a minute at most: what the second compiler does for long runs is not worth its time.
    environment = os.environ | {"JAVA_ARGS_APPEND": "-XX:TieredStopAtLevel=1"}
    commands = {name: create(distribution, folder / name, port) for name, port in ports.items()}
    for name, other in ("ab", "ba"):
        text = configuration(name, ports[name], ports[other], "CORE,AMQP,MQTT")
        (folder / name / "etc" / "broker.xml").write_text(text, encoding="utf-8")

    with ExitStack() as whole, ExitStack() as second:

        def start() -> None:
            process = second.enter_context(running(commands["b"], ports["b"], folder / "b", environment))
            second.callback(process.wait)
            second.callback(process.kill)

        whole.enter_context(running(commands["a"], ports["a"], folder / "a", environment))
        start()
        pair = Pair([f"amqp://{HOST}:{port}" for port in ports.values()])
        seen = observe(pair, second.close, start)
        pair.disconnect()
    assert {program: facts for program, facts in seen.items() if FAILED in facts} == {}
    return seen
