"""The crash test: a broker under load is killed at random moments, and what its clients saw is checked.

`python -m tests.crash.run --rounds 200` runs it long; tests/crash/test_kill.py is the short form. A failure prints the
seed and keeps the folder.
"""

import argparse
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Final

from tests.crash.broken_broker import FAULTS
from tests.crash.check import Report, Violation, check
from tests.crash.consumers import drain
from tests.crash.ledger import Ledger, read
from tests.crash.plan import configuration
from tests.crash.processes import command_of
from tests.log_switch import IS_ON

ROLES: Final = (
    "produce",
    "produce",
    "transact",
    "transact",
    "repeat",
    "consume",
    "consume",
    "share",
    "share",
    "subscribe",
)
DEATHS: Final = ("at random", "after an answer", "at its start", "at random")
"""When brokers are killed, in turn; there is also `by itself`."""
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
LIFE_S: Final = (0.0, 1.5)
"""How long a broker lives after it is ready: from its first commits to a steady load."""
START_S: Final = (0.05, 0.5)
"""When a broker is killed that is still starting."""
POLL_INTERVAL_S: Final = 0.002


class CrashRun:
    """One run in one folder."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        fault: str | None = None,
        roles: Sequence[str] = ROLES,
        deaths: Sequence[str] = DEATHS,
        environment: Mapping[str, str] | None = None,
        logs: Sequence[bool] = (IS_ON,),
    ) -> None:
        """`deaths`: when brokers are killed, in turn; `environment`: more of it for them.

        `logs`: whether they have a write-ahead log, in turn.
        """
        self.folder: Final = folder
        self.random: Final = random.Random(seed)
        self._seed = seed
        self._fault = fault
        self._roles = roles
        self._deaths = deaths
        self._environment = dict(environment or {})
        self._logs = cycle(logs)
        self._port = 0
        self._stop = folder / "stop"
        self._ledgers = folder / "ledgers"
        self._violations: list[Violation] = []

    def run(self, rounds: int) -> Report:
        """Kill `rounds` brokers, then drain the last one's queues and check."""
        self.prepare()
        armed = self.folder / "armed"
        broker = self.start()
        clients: list[subprocess.Popen[bytes]] = []
        try:
            clients += [self._client(number, role) for number, role in enumerate(self._roles)]
            self._await_load(broker, len(clients))
            armed.touch()
            for number in range(rounds):
                self._die(broker, self._deaths[number % len(self._deaths)])
                self._check_store()
                if number + 1 == rounds:
                    armed.unlink()
                broker = self.start()
            self._await_load(broker, len(clients))
            self._stop.touch()
            for client in clients:
                client.wait(STOP_TIMEOUT_S)
            drain(self.url, Ledger(self._ledgers / "drain.ledger"))
        finally:
            for process in clients:
                kill(process)
            broker.send_signal(signal.SIGTERM)
            code = broker.wait(STOP_TIMEOUT_S)
        self._check_store()
        report = check(read(self._ledgers))
        report.violations += self._violations + self._complaints(code)
        return report

    def _die(self, broker: "subprocess.Popen[bytes]", death: str) -> None:
        if death == "by itself":
            broker.wait(STOP_TIMEOUT_S)
        elif death == "at its start":
            self._kill(broker)
            broker = self._spawn()
            time.sleep(self.random.uniform(*START_S))
        else:
            time.sleep(self.random.uniform(*LIFE_S))
            if death == "after an answer":
                self._await_load(broker)
        self._kill(broker)

    def work(self, seconds: float, messages: int) -> None:
        """Have one broker under load for so long after all clients began, until so many messages were acknowledged.

        Then kill it.
        """
        self.prepare()
        broker = self.start()
        clients = [self._client(number, role) for number, role in enumerate(self._roles)]
        try:
            self._await_load(broker, len(clients))
            time.sleep(seconds)
            self._await(broker, lambda: self._acknowledged() >= messages)
        finally:
            for process in (broker, *clients):
                kill(process)

    def prepare(self) -> None:
        """Make the folders."""
        self._ledgers.mkdir(parents=True)
        (self.folder / "etc").mkdir()

    @property
    def url(self) -> str:
        """Of the broker."""
        return f"amqp://127.0.0.1:{self._port}"

    def start(self) -> "subprocess.Popen[bytes]":
        """A broker that is ready; from the second on at the port of the first."""
        process = self._spawn()
        port_file = self.folder / "port"
        self._await(process, port_file.exists)
        self._port = int(port_file.read_text().split()[0])
        return process

    def _kill(self, broker: "subprocess.Popen[bytes]") -> None:
        """Nobody shall look for it before the next one is there."""
        kill(broker)
        (self.folder / "port").unlink(missing_ok=True)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        text = configuration(self._port, next(self._logs))
        (self.folder / "etc" / "broker.xml").write_text(text, encoding="utf-8")
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        module = ["artemis_py.cli"] if self._fault is None else ["tests.crash.broken_broker", self._fault]
        command = command_of(*module, "run", str(self.folder), "--port-file", str(port_file))
        environment = os.environ | self._environment
        with open(self.folder / "broker.log", "ab") as log:
            return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=log)

    def _await_load(self, broker: "subprocess.Popen[bytes]", clients: int = 1) -> None:
        """Until so many clients have written something more."""
        before = self._sizes()
        self._await(broker, lambda: sum(size > before.get(name, 0) for name, size in self._sizes().items()) >= clients)

    def _sizes(self) -> dict[str, int]:
        return {path.name: path.stat().st_size for path in self._ledgers.iterdir()}

    def _acknowledged(self) -> int:
        return sum(path.read_bytes().count(b'"acknowledged"') for path in self._ledgers.iterdir())

    def _await(self, broker: "subprocess.Popen[bytes]", condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not condition():
            if broker.poll() is not None or time.monotonic() > deadline:
                broker.kill()
                raise AssertionError("the broker did not start:\n" + self.log()[-3000:])
            time.sleep(POLL_INTERVAL_S)

    def _client(self, number: int, role: str) -> "subprocess.Popen[bytes]":
        ledger = self._ledgers / f"{role}-{number}.ledger"
        command = command_of("tests.crash.load", role, self.url, str(ledger), str(self.folder))
        with open(self.folder / "clients.log", "ab") as log:
            return subprocess.Popen([*command, str(self._seed + number)], stderr=log)

    def _check_store(self) -> None:
        """What a kill left is sound: every message can be reached and read, and what is counted is there."""
        if self._fault is not None:
            return
        command = command_of("artemis_py.cli", "data", "check", str(self.folder))
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S)
        if done.returncode != 0:
            self._violations.append(Violation("store", done.stdout[-1000:] + done.stderr[-1000:]))

    def _complaints(self, code: int) -> list[Violation]:
        found = [line for line in self.log().splitlines() if " ERROR " in line or "Traceback" in line]
        if code != 0:
            found.append(f"the last broker ended with {code}")
        if clients := (self.folder / "clients.log").read_text(encoding="utf-8", errors="replace"):
            found.append(clients[-3000:])
        return [Violation("log", text) for text in found]

    def log(self) -> str:
        """What all brokers of the run logged."""
        return (self.folder / "broker.log").read_text(encoding="utf-8", errors="replace")


def kill(process: "subprocess.Popen[bytes]") -> None:
    """End it now, without a word."""
    process.kill()
    process.wait()


def main() -> None:
    """The long form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--fault", choices=sorted(FAULTS))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="crash-"))
    print(f"seed={options.seed} folder={folder}", flush=True)
    report = CrashRun(folder, options.seed, options.fault).run(options.rounds)
    print(report)
    if report.violations:
        raise SystemExit(1)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
