"""Spring's listener containers, and Narayana with a pool of connections and a database, on the genuine client (6.1).

`ARTEMIS_PY_OPENWIRE_CLASSIC=1` runs both against ActiveMQ Classic as well, to prove that they test the right thing.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interop.openwire import peers
from tests.interop.openwire.peers import CLASSIC_6, HERE, Build, Start

WITH_CLASSIC: Final = os.environ.get("ARTEMIS_PY_OPENWIRE_CLASSIC") == "1"
BROKERS: Final = ("classic", "ours") if WITH_CLASSIC else ("ours",)
TIMEOUT_S: Final = 120
KILLED: Final = 3
"""Exit code of a process that ends itself in the middle of a transaction."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The compiled programs."""
    folder = tmp_path_factory.mktemp("containers")
    shutil.copy(HERE / "containers" / "pom.xml", folder)
    shutil.copytree(HERE / "containers" / "src", folder / "src")
    try:
        return peers.compiled(folder)
    except peers.Unavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module", params=BROKERS)
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """What starts a broker."""
    if request.param == "ours":
        return peers.ours
    return peers.classic(peers.build(CLASSIC_6, tmp_path_factory.mktemp("classic")))


def run(program: Build, *arguments: str, code: int = 0) -> Any:
    """Run one of the programs; returns what it printed."""
    done = subprocess.run(program.java(*arguments), capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def test_listener_containers_of_spring(programs: Build, start: Start, tmp_path: Path) -> None:
    """Cached sessions, consumers that come and go, failing listeners, requests, a durable subscription."""
    with start(tmp_path) as url:
        seen = run(programs, "containers.Listeners", url)

    assert seen == {
        "processed": 60,
        "failed first": 6,
        "failed ones are redelivered": True,
        "processed twice": 0,
        "left": 0,
        "answered": 10,
        "received in round 0": True,
        "received in round 1": True,
    }


def test_a_transaction_over_two_resources_is_recovered(programs: Build, start: Start, tmp_path: Path) -> None:
    """The application dies between the phases, the broker is restarted, and the transaction manager recovers."""
    database = tmp_path / "database"
    broker = tmp_path / "broker"
    for folder in (database, broker):
        folder.mkdir()
    with start(broker) as url:
        for what, code in (("commit", 0), ("rollback", 0), ("crash-in-prepare", KILLED), ("crash-in-commit", KILLED)):
            run(programs, "containers.TwoResources", url, str(database), what, code=code)
    with start(broker) as url:
        seen = run(programs, "containers.TwoResources", url, str(database), "recover")

    assert seen == {
        "prepared": 2,
        "prepared afterwards": 0,
        "left of committed": "",
        "left of rolled-back": "rolled-back",
        "left of undecided": "undecided",
        "left of decided": "",
        "out": "committed, decided",
        "rows": "committed, decided",
    }
