"""A broker under load loses power: states of its store with lost and torn writes, opened and checked."""

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from artemis_py.config import load
from artemis_py.store.log.segment import FOLDER_NAME
from tests.crash.conftest import STATES
from tests.crash.history import History
from tests.crash.ledger import read
from tests.crash.lost_writes import read_calls
from tests.crash.power_cut import crash_states, wrongs
from tests.crash.processes import command_of
from tests.crash.run import CrashRun

ROLES = ("produce", "transact", "repeat", "consume", "subscribe")
LOADED_S = 2.0
ENOUGH = 100
"""So many messages are acknowledged, however slow the machine is."""
COUNT = STATES // 4
"""Each is opened by a whole broker."""


def states(shim: Path, folder: Path, count: int, fault: str | None = None) -> Iterator[tuple[float, Path]]:
    """Moments of one run, in order, each with a folder in which the store is as it may be then."""
    log = folder / "calls"
    journal = folder / "run" / "data" / "journal"
    traced = {"LD_PRELOAD": str(shim), "STORE_LOG": str(log), "STORE_FILES": str(journal)}
    run = CrashRun(folder / "run", 5, fault, ROLES, environment=traced)
    run.work(LOADED_S, 2 * ENOUGH)
    state = folder / "state"
    for at, files in crash_states(read_calls(log.read_bytes()), count, random.Random(1)):
        state.mkdir()
        for path, content in files.items():
            inside = Path(path).relative_to(journal)
            if inside.name == "data.mdb" or inside.parts[0] == FOLDER_NAME:
                (state / inside).parent.mkdir(exist_ok=True)
                (state / inside).write_bytes(content)
        yield at, state
        shutil.rmtree(state)


def test_a_loss_of_power_breaks_no_promise(shim: Path, tmp_path: Path) -> None:
    """R3: P1 to P3, P5, P6, P10 and P11 in every state."""
    history = History()
    count = 0
    for at, state in states(shim, tmp_path, COUNT):
        if not count:
            config = load(tmp_path / "run" / "etc" / "broker.xml")
            lines = read(tmp_path / "run" / "ledgers")
        while lines and lines[0].at <= at:
            history.add(lines.pop(0))
        assert wrongs(config, state, history) == []
        count += 1

    print(f"states={count} acknowledged={len(history.acknowledged)} transactions={len(history.transactions)}")
    assert count == COUNT
    assert len(history.acknowledged) > ENOUGH


def test_a_broker_that_does_not_sync_is_caught(shim: Path, tmp_path: Path) -> None:
    """V1: each state in a process of its own, for such a state may kill it."""

    def is_wrong(at: float, state: Path) -> bool:
        run = tmp_path / "run"
        command = command_of(
            "tests.crash.power_cut", str(run / "etc" / "broker.xml"), str(run / "ledgers"), str(state), str(at)
        )
        return subprocess.run(command, capture_output=True, timeout=60).returncode != 0

    assert any(is_wrong(*state) for state in states(shim, tmp_path, 50, "no-sync"))
