"""The kill test of the connector: Spark, the broker or both are killed while queries run, then everything is checked.

`python -m tests.spark.kill --rounds 50` runs it long; tests/spark/test_kill.py is the short form. A failure prints the
seed and keeps the folder. Moments are chosen by what is seen to happen, for those chosen by time mostly miss.
`--self-check` plants faults into the driver and fails unless the checks find each of them.

What must hold (docs/spark.md, "Exactly once"):

    K1  each message is in each sink once, whoever died
    K2  an offset in a checkpoint never changes: a batch that runs again has the range it had
    K3  tasks read what the offsets of their batch say, and all of it
    K4  nothing is acknowledged that is not in a batch of the commit log
    K5  in the end everything is acknowledged, and nothing is left in a stage
    K6  a driver survives the death of the broker
"""

import argparse
import logging
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from proton import Message
from proton.utils import BlockingConnection

from artemis_py.spark.management import Head
from artemis_py.spark.offsets import Offset
from artemis_py.spark.options import read_options
from artemis_py.spark.planning import Planner
from tests.crash.processes import command_of
from tests.interop.broker_process import BrokerProcess, Instance, launch
from tests.spark.conftest import CLIENT_TIMEOUT_S, ask
from tests.spark.driver import Driver, DriverEnded
from tests.spark.victim import ADDRESS, FAULT, IDEMPOTENCE, MESSAGES_PER_BATCH

logger: Final = logging.getLogger(__name__)

DEATHS: Final = ("driver", "broker", "both")
"""Who dies, in turn."""
MOMENTS: Final = ("planned", "read", "routed", "committed")
"""When: a batch is in the offset log; its rows were read; its messages are in the sink's queue; it is done."""
MARKED: Final = "marked"
"""A driver with a fault has come to where it hurts most to be killed."""
FINDINGS: Final = {
    "pause": (),
    "doubles": (r"K1 epoch: 0 of \d+ missing \[\], [1-9]\d* doubled",),
    "hasty": (r"K4 epoch: acknowledged up to", r"K1 epoch: [1-9]\d* of \d+ missing .*, 0 doubled"),
}
"""Each fault of `victim`, and what must be found when it is planted: nothing else. `pause` is none."""
MESSAGES_PER_ROUND: Final = 6 * MESSAGES_PER_BATCH


class KillRun:
    """One run in one folder."""

    def __init__(
        self, folder: Path, seed: int, fault: str | None = None, messages_per_round: int = MESSAGES_PER_ROUND
    ) -> None:
        """With a `fault` of `victim.FAULTS` planted into the drivers, for `run_marked`."""
        self.folder: Final = folder
        self.violations: Final[list[str]] = []
        self.kills: Final[Counter[str]] = Counter()
        self.replays = 0
        """Batches that were read more than once."""
        self.sent = 0
        self.read = 0
        """Rows that tasks read, those of repeated batches every time."""
        self.suppressed: Final[Counter[str]] = Counter()
        """Messages that the broker took from tasks and did not route again, by query; those of killed tasks beside."""
        self._fault: Final = fault
        self._messages_per_round: Final = messages_per_round
        self._random: Final = random.Random(seed)
        self._offsets: Final[dict[Path, str]] = {}
        """Offset logs as they were seen first."""
        self._broker: BrokerProcess
        self._driver: Driver

    def run(self, rounds: int) -> None:
        """Kill somebody `rounds` times, then let the queries finish, and check."""
        self._run([(DEATHS[number % len(DEATHS)], self._random.choice(MOMENTS)) for number in range(rounds)])

    def run_marked(self) -> None:
        """Kill the driver once, where its fault says."""
        self._run([("driver", MARKED)])

    def _run(self, rounds: list[tuple[str, str]]) -> None:
        Instance(persistence="true").write(self.folder / "broker")
        self._broker = launch(self.folder / "broker")
        self._keep_port()
        for query in IDEMPOTENCE:
            Planner(self._subscription(query)).heads()
        self._send()
        self._driver = self._start_driver()
        try:
            for death, moment in rounds:
                self._round(death, moment)
            self._driver.kill()
            self._driver = self._start_driver("--finish")
            try:
                self._driver.finish()
            except DriverEnded as ended:
                self.violations.append(f"the last run failed: {ended}")
            self._check()
        finally:
            self._driver.kill()
            self._broker.stop()

    def _round(self, death: str, moment: str) -> None:
        self._await(moment)
        if death != "broker":
            self._driver.kill()
        if death != "driver":
            self._broker.kill()
            self._broker = launch(self.folder / "broker")
        self.kills[f"{death} {moment}"] += 1
        self._check_between()
        logger.info("round %d: %s %s, violations=%s", self.kills.total(), death, moment, self.violations)
        self._send()
        if death != "broker":
            self._driver = self._start_driver()

    # -- processes -----------------------------------------------------------------------------------------------

    def _keep_port(self) -> None:
        """Clients find the next broker where they found the first."""
        path = self.folder / "broker" / "etc" / "broker.xml"
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("127.0.0.1:0?", f"127.0.0.1:{self._broker.port}?"), encoding="utf-8")

    def _start_driver(self, *arguments: str) -> Driver:
        command = command_of("tests.spark.victim", self._broker.url, str(self.folder), *arguments)
        environment = {} if self._fault is None else {FAULT: self._fault}
        return Driver(command, self.folder / "driver.log", environment)

    def _subscription(self, query: str) -> Any:
        return read_options({"url": self._broker.url, "address": ADDRESS, "subscription": query})

    def _head(self, query: str) -> Head:
        (head,) = Planner(self._subscription(query)).heads().queues
        return head

    def _backlog(self, query: str) -> int:
        """Messages that are not acknowledged."""
        return int(ask(self._broker, f"queue.{query}.{ADDRESS}:global", "countMessages"))

    def _send(self) -> None:
        """Enough for another round, and no more: a backlog that grows with each round keeps the last run for ever."""
        count = max(0, self._messages_per_round - min(map(self._backlog, IDEMPOTENCE)))
        connection = BlockingConnection(self._broker.url, timeout=CLIENT_TIMEOUT_S)
        sender = connection.create_sender(ADDRESS)
        for number in range(self.sent, self.sent + count):
            sender.send(Message(body=str(number), durable=True))
        connection.close()
        self.sent += count

    # -- moments -------------------------------------------------------------------------------------------------

    def _await(self, moment: str) -> None:
        """Wait until some batches after now are where `moment` says."""
        if moment == MARKED:
            self._until((self.folder / MARKED).exists, 1)
            return
        query = self._random.choice(IDEMPOTENCE)
        log = self.folder / "checkpoints" / query
        later = self._random.randint(1, 3)
        if moment == "planned":
            self._until(lambda: last_batch(log / "offsets"), later)
        elif moment == "committed":
            self._until(lambda: last_batch(log / "commits"), later)
        elif moment == "read":
            ledger = self.folder / "ledger"
            self._until(lambda: ledger.stat().st_size if ledger.exists() else 0, 1)
        else:
            with_reader = read_options({"url": self._broker.url, "mode": "browse", "address": f"out.{query}"})
            planner = Planner(with_reader)
            self._until(lambda: sum(head.next for head in planner.heads().queues), 1)
        time.sleep(self._random.choice((0.0, self._random.uniform(0.0, 0.3))))

    def _until(self, value: Callable[[], int], more: int) -> None:
        wanted = value() + more
        try:
            self._driver.wait_until(lambda: value() >= wanted)
        except DriverEnded as ended:
            raise AssertionError(f"K6: {ended}") from ended

    # -- what must hold ------------------------------------------------------------------------------------------

    def _check_between(self) -> None:
        for query in IDEMPOTENCE:
            # The driver may be running: first what is acknowledged, then what is committed.
            head = self._head(query)
            first = head.first
            log = self.folder / "checkpoints" / query
            offsets = self._offset_log(query)
            committed = [number for number in offsets if number <= last_batch(log / "commits")]
            done = offsets[max(committed)].positions if committed else {}
            end = max((position.next for position in done.values()), default=1)
            if first - end - head.never_given(end, first) > 0:
                self.violations.append(f"K4 {query}: acknowledged up to {first}, committed up to {end}")

    def _offset_log(self, query: str) -> dict[int, Offset]:
        """The offsets of the checkpoint by batch; whatever was seen before must be the same."""
        found = {}
        for path in (self.folder / "checkpoints" / query / "offsets").glob("[0-9]*"):
            if path.suffix == "" and (text := path.read_text(encoding="utf-8")).count("\n") >= 2:
                line = text.splitlines()[2]
                if self._offsets.setdefault(path, line) != line:
                    self.violations.append(f"K2 {query}: the offset of batch {path.name} changed to {line}")
                found[int(path.name)] = Offset.read(line)
        return found

    def _check(self) -> None:
        read: dict[str, dict[int, list[int]]] = {query: {} for query in IDEMPOTENCE}
        for line in (self.folder / "ledger").read_text(encoding="ascii").splitlines():
            query, epoch, sequence = line.split()
            read[query].setdefault(int(epoch), []).append(int(sequence))
            self.read += 1
        for line in (self.folder / "sent").read_text(encoding="ascii").splitlines():
            query, _, accepted = line.split()
            self.suppressed[query] += int(accepted)
        for query in IDEMPOTENCE:
            self._check_reads(query, read[query])
            self._check_sink(query)
            if count := self._backlog(query):
                self.violations.append(f"K5 {query}: {count} messages are not acknowledged")
        staged = [name for name in ask(self._broker, "broker", "getQueueNames") if name.startswith("$artemis.staging")]
        if staged:
            self.violations.append(f"K5: left in stages: {staged}")

    def _check_reads(self, query: str, read: dict[int, list[int]]) -> None:
        offsets = self._offset_log(query)
        for epoch, got in sorted(read.items()):
            before, end = offsets[epoch - 1].positions, offsets[epoch].positions
            wanted = {number for key in end for number in range(before[key].next, end[key].next)}
            if not wanted.issuperset(got):
                self.violations.append(f"K3 {query}: batch {epoch} read {sorted(set(got) - wanted)[:9]} beside it")
            self.replays += len(got) > len(set(got))

    def _check_sink(self, query: str) -> None:
        connection = BlockingConnection(self._broker.url, timeout=CLIENT_TIMEOUT_S)
        number = int(ask(self._broker, f"queue.out.{query}", "countMessages"))
        receiver = connection.create_receiver(f"out.{query}", credit=1000)
        found: Counter[int] = Counter()
        for _ in range(number):
            found[int(receiver.receive(timeout=CLIENT_TIMEOUT_S).body)] += 1
            receiver.accept()
        connection.close()
        self.suppressed[query] -= number
        missing = sorted(set(range(self.sent)) - found.keys())
        doubled = sorted(body for body, count in found.items() if count > 1)
        if missing or doubled:
            self.violations.append(
                f"K1 {query}: {len(missing)} of {self.sent} missing {missing[:9]}, {len(doubled)} doubled {doubled[:9]}"
            )


def last_batch(log: Path) -> int:
    """The number of the last batch in an offset or commit log; -1 before the first."""
    names = [path.name for path in log.glob("[0-9]*")] if log.exists() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


def self_check(folder: Path, seed: int) -> list[str]:
    """Plant each fault, each in a folder of its own; what was not found, or found without reason."""
    complaints = []
    for fault, findings in FINDINGS.items():
        run = KillRun(folder / fault, seed, fault, 2 * MESSAGES_PER_BATCH)
        run.folder.mkdir()
        run.run_marked()
        logger.info("%s: %s", fault, run.violations)
        complaints += [
            f"{fault}: nothing like {finding}: {run.violations}"
            for finding in findings
            if not any(re.match(finding, violation) for violation in run.violations)
        ]
        complaints += [
            f"{fault}: {violation}"
            for violation in run.violations
            if not any(re.match(finding, violation) for finding in findings)
        ]
    return complaints


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--self-check", action="store_true")
    arguments = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s")
    logger.setLevel(logging.INFO)
    folder = Path(tempfile.mkdtemp(prefix="spark-kill-"))
    print(f"seed={arguments.seed} folder={folder}", flush=True)
    if arguments.self_check:
        complaints = self_check(folder, arguments.seed)
    else:
        run = KillRun(folder, arguments.seed)
        complaints = run.violations
        try:
            run.run(arguments.rounds)
        except AssertionError as failure:
            complaints.append(str(failure))
        print(f"sent={run.sent} read={run.read} replays={run.replays} suppressed={dict(run.suppressed)}")
        print(f"kills={dict(sorted(run.kills.items()))}")
    for complaint in complaints:
        print(complaint)
    raise SystemExit(bool(complaints))


if __name__ == "__main__":
    main()
