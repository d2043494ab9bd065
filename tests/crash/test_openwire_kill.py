"""OpenWire under `kill -9`: failover clients exactly once, transactions as a whole, prepared branches kept.

These are the properties P1, P3, P5, P6 and P11.

`python -m tests.crash.test_openwire_kill 200` kills two hundred times; a seed and one of the faults of `broken_broker`
may follow.
"""

import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from artemis_openwire.engine.commands import DataArrayResponse, ExceptionResponse, TransactionInfo
from artemis_openwire.engine.structures import ConnectionId, XATransactionId
from tests.crash.openwire_load import (
    BEGIN,
    COMMIT_PREPARED,
    DONE,
    END,
    FORGET,
    HOST,
    NEWS,
    ORDERS,
    PAIR,
    PREPARE,
    RECOVER,
    ROLLBACK,
    SOLD,
    STOCK,
    Manager,
    Mover,
    Producer,
    Subscriber,
    Transactor,
    Worker,
    content_of,
)
from tests.crash.processes import command_of
from tests.interop.broker_process import BrokerProcess, Instance, launch, start_broker
from tests.interop.openwire_client import OpenWireClient, text_content

LIFE_S: Final = (0.05, 1.2)
"""How long a broker lives after it is ready."""
DRAIN_TIMEOUT_S: Final = 60.0
LOOK_S: Final = 0.05
ENOUGH: Final = 20
"""So many messages of each producer are acknowledged before the end: on a slow machine a run takes longer."""
STOCK_COUNT: Final = 100_000
"""Far more than is sold while the broker lives."""

SETTINGS: Final = "".join(
    f"""<address-setting match="{match}">
      <max-delivery-attempts>-1</max-delivery-attempts>
      <auto-delete-queues>false</auto-delete-queues>
      <auto-delete-addresses>false</auto-delete-addresses>
    </address-setting>"""
    for match in ("*", "pair.*")
)
INSTANCE: Final = Instance(persistence="true", parameters="protocols=OPENWIRE,AMQP", settings=SETTINGS)


class KilledBroker:
    """A broker that is killed and started again in the same folder, at another port."""

    def __init__(self, folder: Path) -> None:
        self._process: BrokerProcess = start_broker(INSTANCE, folder)
        self._folder: Final = folder

    @property
    def port(self) -> int:
        """Of the broker that runs now."""
        return self._process.port

    def restart(self) -> None:
        """Kill it, and wait until the next one is ready."""
        self._process.kill()
        self._process.check_log()
        self._process = launch(self._folder)

    def end(self) -> None:
        """Kill it for good."""
        self._process.kill()

    def transaction(self, *arguments: str) -> Any:
        """What a command of `artemis-py transaction` prints."""
        url = ["--url", self._process.url]
        command = command_of("artemis_py.cli", "transaction", *arguments, *url, "--json")
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)

    def connect(self, name: str) -> OpenWireClient:
        """A client of this name."""
        return OpenWireClient(HOST, self.port, f"ID:{name}:1")


class OpenWireCrashRun:
    """One broker that is killed again and again, its clients, and what they saw."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random: Final = random.Random(seed)
        self.broker: Final = KilledBroker(folder)

        def port() -> int:
            return self.broker.port

        self.orders: Final = [Producer(port, f"order{number}", seed, ORDERS) for number in (1, 2)]
        self.news: Final = Producer(port, "news", seed, NEWS)
        self.stock: Final = Producer(port, "stock", seed, STOCK, STOCK_COUNT)
        self.transactors: Final = [Transactor(port, f"pair{number}", seed) for number in (1, 2)]
        self.movers: Final = [Mover(port, f"mover{number}", seed) for number in (1, 2)]
        self.subscriber: Final = Subscriber(port, "subscriber", seed)
        self.managers: Final = [Manager(port, f"manager{number}", seed) for number in (1, 2)]
        self._texts: dict[str, list[str]] = {}
        self._armed: Final = folder / "armed"

    def run(self, rounds: int) -> list[str]:
        """Kill the broker `rounds` times; then let everything come through, and return every violation."""
        try:
            self.subscriber.start()
            assert self.subscriber.ready.wait(DRAIN_TIMEOUT_S)
            for worker in self._workers():
                if worker is not self.subscriber:
                    worker.start()
            self._armed.touch()
            for left in reversed(range(rounds)):
                time.sleep(self.random.uniform(*LIFE_S))
                if not left:
                    self._armed.unlink()
                self.broker.restart()
            time.sleep(LIFE_S[1])
            self._await_load()
            if not any(worker.violations for worker in self._workers()):
                self._drain()
            violations = [text for worker in self._workers() for text in worker.violations]
            return violations + (violations or self._check())
        finally:
            self._stop(self._workers())
            self.broker.end()

    def _sources(self) -> list[Worker]:
        return [*self.orders, self.news, self.stock, *self.transactors, *self.managers]

    def _workers(self) -> list[Worker]:
        return [*self._sources(), *self.movers, self.subscriber]

    def _stop(self, workers: list[Worker]) -> None:
        for worker in workers:
            worker.stopping.set()
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        for worker in workers:
            if worker.ident is not None:
                worker.join(max(deadline - time.monotonic(), 0.0))
            if worker.is_alive():
                worker.violations.append(f"P13 {worker.name} still has something open")

    def _await_load(self) -> None:
        """Wait until everybody has done what the test asks for, at most as long as a drain may take."""
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while time.monotonic() < deadline and not (
            any(worker.violations for worker in self._workers())
            or (
                all(producer.acknowledged > ENOUGH for producer in (*self.orders, self.news, self.stock))
                and all(mover.committed for mover in self.movers)
                and all("committed" in list(transactor.outcomes.values()) for transactor in self.transactors)
            )
        ):
            time.sleep(LOOK_S)

    def _drain(self) -> None:
        """Stop what sends; wait until everything has been taken that is to be taken."""
        self._stop(self._sources())
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        with self.broker.connect("drain") as client:
            while content_of(client, ORDERS) or not self.news.sent() <= self.subscriber.deliveries.keys():
                if time.monotonic() > deadline:
                    break
                time.sleep(LOOK_S)
            time.sleep(0.3)  # for a copy too many
            self._stop([*self.movers, self.subscriber])
            queues = (ORDERS, DONE, STOCK, SOLD, *PAIR)
            self._texts = {str(queue.physical_name): content_of(client, queue) for queue in queues}

    # -- the check -------------------------------------------------------------------------------------------

    def _check(self) -> list[str]:
        wanted = set().union(*(producer.sent() for producer in self.orders))
        found = _compare("orders that were moved", wanted, self._texts["done"] + self._texts["orders"])
        found += [f"P1 lost: {text} at the subscriber" for text in self.news.sent() - self.subscriber.deliveries.keys()]
        return found + self._check_pairs() + self._check_branches()

    def _check_pairs(self) -> list[str]:
        found = []
        counts = Counter(self._texts["pair.a"] + self._texts["pair.b"])
        outcomes = dict.fromkeys(counts, "never sent")
        for transactor in self.transactors:
            outcomes |= transactor.outcomes
        for text, outcome in outcomes.items():
            size = int(text.rpartition("/")[2])
            allowed = {"committed": {size}, "unknown": {0, size}}.get(outcome, {0})
            if counts[text] not in allowed:
                found.append(f"P6 {outcome} with {size} messages, {counts[text]} are there: {text}")
        return found

    def _check_branches(self) -> list[str]:
        branches = [branch for manager in self.managers for branch in manager.branches]
        committed = [branch for branch in branches if branch.is_commit]
        found = _compare("results of branches", {branch.result for branch in committed}, self._texts["sold"])
        taken = Counter(branch.text for branch in committed)
        found += [f"P6 {text} was sold {number} times" for text, number in taken.items() if number > 1]
        return found + _compare("stock", self.stock.sent() - taken.keys(), self._texts["stock"])

    def __str__(self) -> str:
        senders = [*self.orders, self.news, self.stock]
        branches = [branch for manager in self.managers for branch in manager.branches]
        outcomes = Counter(outcome for one in self.transactors for outcome in one.outcomes.values())
        return (
            f"acknowledged={sum(one.acknowledged for one in senders)} "
            f"moved={sum(one.committed for one in self.movers)} "
            f"delivered={self.subscriber.deliveries.total()} transactions={dict(outcomes)} branches={len(branches)} "
            f"committed={sum(one.is_commit for one in branches)} "
            f"recovered={sum(one.recovered for one in self.managers)}"
        )


def _compare(what: str, wanted: Iterable[str], there: list[str]) -> list[str]:
    """Each of these once, and nothing else."""
    counts = Counter(there)
    wanted = set(wanted)
    found = [f"P1 lost of the {what}: {text}" for text in sorted(wanted - counts.keys())]
    found += [f"P2 among the {what}, never sent: {text}" for text in sorted(counts.keys() - wanted)]
    return found + [f"P11 {number} times among the {what}: {text}" for text, number in counts.items() if number > 1]


def test_nothing_is_lost_or_doubled_by_kill_9(tmp_path: Path) -> None:
    """P1, P3, P5, P6, P11, R1: three kills at random moments."""
    run = OpenWireCrashRun(tmp_path, seed=7)
    violations = run.run(3)

    assert violations == [], f"{run}\n" + "\n".join(violations[:20])
    assert all(producer.acknowledged > ENOUGH for producer in (*run.orders, run.news, run.stock)), str(run)
    assert all(mover.committed for mover in run.movers), str(run)
    assert all("committed" in transactor.outcomes.values() for transactor in run.transactors), str(run)
    assert sum(manager.recovered for manager in run.managers), str(run)


def planted(fault: str) -> str:
    """The value of ARTEMIS_PY_INTEROP_BROKER that starts brokers with this fault."""
    broken = shlex.join(command_of("tests.crash.broken_broker", fault))
    script = f'exec {broken} run "$0" --port-file "$1"'
    return f"sh -c {shlex.quote(script)}"


def test_a_broker_that_acknowledges_before_the_commit_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V1: the test's own test. It catches `no-duplicate-ids` and `commit-halves` as well, with more kills."""
    monkeypatch.setenv("ARTEMIS_PY_INTEROP_BROKER", planted("acknowledge-before-commit"))
    run = OpenWireCrashRun(tmp_path, seed=5)

    assert run.run(2) != [], str(run)


# -- branches that an administrator ends -------------------------------------------------------------------------

KEPT: Final = "kept"
COMMITTED: Final = "committed"
ROLLED_BACK: Final = "rolled back"
HEURISTIC_COMMIT: Final = 7
HEURISTIC_ROLLBACK: Final = 6


def xid_of(name: str) -> XATransactionId:
    """The branch of this name."""
    return XATransactionId(format_id=9, global_transaction_id=name.encode(), branch_qualifier=b"b")


def step(client: OpenWireClient, name: str, kind: int) -> Any:
    """Take a step of a branch; returns the answer."""
    connection = ConnectionId(value=client.name)
    return client.answer(
        client.begin(TransactionInfo(connection_id=connection, transaction_id=xid_of(name), type=kind))
    )


def recovered(client: OpenWireClient) -> list[str]:
    """Names of the branches that the broker lists as prepared."""
    response = step(client, "", RECOVER)
    assert isinstance(response, DataArrayResponse)
    xids = [xid for xid in response.data or () if isinstance(xid, XATransactionId)]
    return sorted((xid.global_transaction_id or b"").decode() for xid in xids)


def _name_in(id: str) -> str:
    """The name of the branch that the command line shows as `id`."""
    octets = b64decode(id)
    return next(name for name in (COMMITTED, KEPT, ROLLED_BACK) if name.encode() in octets)


def xa_code(answer: Any) -> int:
    """The code of a refusal."""
    assert isinstance(answer, ExceptionResponse), answer
    assert answer.exception is not None
    text = str(answer.exception.message)
    return int(text[text.index("xaErrorCode:") :].removeprefix("xaErrorCode:").split()[0])


def test_what_an_administrator_decided_outlives_kills(tmp_path: Path) -> None:
    """Three branches are prepared; two are ended by commands, and their manager hears of that after one more kill."""
    broker = KilledBroker(tmp_path)
    try:
        with broker.connect("first") as client:
            for name in (COMMITTED, KEPT, ROLLED_BACK):
                step(client, name, BEGIN)
                client.send(DONE, text_content(name), transaction_id=xid_of(name))
                step(client, name, END)
                assert step(client, name, PREPARE).result == 0
            broker.restart()
        by_name = {
            _name_in(each["xid_as_base64"]): each["xid_as_base64"] for each in broker.transaction("list")["prepared"]
        }
        assert sorted(by_name) == [COMMITTED, KEPT, ROLLED_BACK]
        with broker.connect("second") as client:
            assert recovered(client) == [COMMITTED, KEPT, ROLLED_BACK]
            assert content_of(client, DONE) == []
        broker.transaction("commit", by_name[COMMITTED])
        broker.transaction("rollback", by_name[ROLLED_BACK])
        broker.restart()
        kept = broker.transaction("list")
        assert (kept["committed"], kept["rolledBack"]) == ([by_name[COMMITTED]], [by_name[ROLLED_BACK]])
        with broker.connect("third") as client:
            assert not isinstance(step(client, KEPT, COMMIT_PREPARED), ExceptionResponse)
            assert xa_code(step(client, COMMITTED, ROLLBACK)) == HEURISTIC_COMMIT
            assert xa_code(step(client, ROLLED_BACK, COMMIT_PREPARED)) == HEURISTIC_ROLLBACK
            for name in (COMMITTED, ROLLED_BACK):
                assert not isinstance(step(client, name, FORGET), ExceptionResponse)
            broker.restart()
        with broker.connect("fourth") as client:
            assert recovered(client) == []
            assert sorted(content_of(client, DONE)) == [COMMITTED, KEPT]
    finally:
        broker.end()


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    if len(sys.argv) > 3:
        os.environ["ARTEMIS_PY_INTEROP_BROKER"] = planted(sys.argv[3])
    folder = Path(tempfile.mkdtemp(prefix="crash-"))
    crash_run = OpenWireCrashRun(folder, seed)
    violations = crash_run.run(rounds)
    print(f"seed={seed} folder={folder} {crash_run}", *violations[:20], sep="\n")
    sys.exit(bool(violations))
