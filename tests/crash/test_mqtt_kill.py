"""MQTT under `kill -9`: QoS 2 and wills exactly once, QoS 1 at least once, sessions and retained messages kept.

These are the properties P1, P5, P7 and P8.

`python -m tests.crash.test_mqtt_kill 200` kills two hundred times.
"""

import random
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.crash.mqtt_load import DRAIN_TIMEOUT_S, TOPICS, Doomed, Keeper, Publisher, Subscriber, Worker
from tests.crash.processes import command_of
from tests.interop.mqtt.raw import Raw, opened
from tests.interop.mqtt.server import MqttInstance, MqttServer, start_server, unlike_mosquitto

LIFE_S: Final = (0.05, 1.2)
"""How long a server lives after it is ready."""
LOOK_S: Final = 0.05
ENOUGH: Final = 20
"""So many messages of each publisher are acknowledged before the end: on a slow machine a run takes longer."""

QUIET_S: Final = 15.0
"""Nothing has come for this long, and nothing was left to come: what is missing is lost."""


def end_by_kill(server: MqttServer) -> None:
    """Without a word."""
    server.kill()


def end_by_stop(server: MqttServer) -> None:
    """As an operator does."""
    server.stop()


class MqttCrashRun:
    """One server that is ended again and again, its clients, and what they saw."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random: Final = random.Random(seed)
        self.server: Final = start_server(MqttInstance(persistent=True), folder)
        self.publishers: Final = [
            Publisher(self.server, f"q{qos}v{version}", version, f"work/{qos}/{version}", qos)
            for qos in (1, 2)
            for version in (4, 5)
        ]
        self.keeper: Final = Keeper(self.server, "keeper", 5, seed)
        self.doomed: Final = [Doomed(self.server, f"d{version}", version, seed) for version in (4, 5)]
        self.subscribers: Final = [Subscriber(self.server, f"s{version}", version, "work/#") for version in (4, 5)]
        self.members: Final = [Subscriber(self.server, f"m{number}", 5, "$share/group/work/#") for number in (1, 2)]
        self.lost = 0

    def run(self, rounds: int, end: Callable[[MqttServer], None]) -> list[str]:
        """End the server `rounds` times; then let everything come through, and return every violation."""
        try:
            for subscriber in [*self.subscribers, *self.members]:
                subscriber.start()
                assert subscriber.subscribed.wait(DRAIN_TIMEOUT_S)
            for worker in self._sources():
                worker.start()
            for _ in range(rounds):
                time.sleep(self.random.uniform(*LIFE_S))
                end(self.server)
                self.server.run()
            time.sleep(LIFE_S[1])
            self._await_load()
            self._drain()
            violations = [text for worker in self._workers() for text in worker.violations]
            return violations + self._check()
        finally:
            self._leave()

    def _workers(self) -> list[Worker]:
        return [*self._sources(), *self.subscribers, *self.members]

    def _sources(self) -> list[Worker]:
        return [*self.publishers, self.keeper, *self.doomed]

    def _receivers(self) -> dict[str, Counter[str]]:
        """What came, by who counts as one receiver."""
        # Their threads go on counting: a copy is made in one step.
        received = {subscriber.client_id: subscriber.deliveries.copy() for subscriber in self.subscribers}
        return received | {"group": sum((member.deliveries.copy() for member in self.members), Counter[str]())}

    def _wanted(self) -> set[str]:
        """What everybody has to get, once its senders are through."""
        wanted = {
            f"{publisher.client_id}/{number}"
            for publisher in self.publishers
            for number in range(1, publisher.attempted + 1)
        }
        return wanted.union(*(doomed.acknowledged for doomed in self.doomed))

    def _await_load(self) -> None:
        """Wait until everybody has done what the tests ask for, at most as long as a drain may take."""
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while time.monotonic() < deadline and not (
            any(worker.violations for worker in self._workers())
            or (
                all(publisher.acknowledged > ENOUGH for publisher in self.publishers)
                and all(doomed.acknowledged for doomed in self.doomed)
                and all(member.deliveries for member in self.members)
            )
        ):
            time.sleep(LOOK_S)

    def _drain(self) -> None:
        """Stop publishing; wait until every exchange is complete and everything has arrived."""
        for worker in self._sources():
            worker.stopping.set()
        for worker in self._sources():
            worker.join(DRAIN_TIMEOUT_S)
            if worker.is_alive():
                worker.violations.append(f"P13 {worker.client_id} still has open exchanges")
        wanted = self._wanted()
        # Sent last, so it comes behind all that a queue holds; only a will may be later.
        with opened(self.server) as client:
            client.publish("work/end", b"end/1", 1)
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        total, changed_at = 0, time.monotonic()
        while any(not wanted <= deliveries.keys() for deliveries in self._receivers().values()):
            received = self._receivers().values()
            now = time.monotonic()
            if total != (total := sum(deliveries.total() for deliveries in received)):
                changed_at = now
            is_quiet = now - changed_at > QUIET_S and all(deliveries["end/1"] for deliveries in received)
            if is_quiet or now > deadline:
                break
            time.sleep(LOOK_S)
        time.sleep(0.5)  # for a copy too many

    def _check(self) -> list[str]:
        found = []
        wanted = self._wanted()
        once = {publisher.client_id for publisher in self.publishers if publisher.qos == 2}
        once |= {doomed.client_id for doomed in self.doomed}
        for receiver, deliveries in self._receivers().items():
            lost = sorted(wanted - deliveries.keys())
            self.lost += len(lost)
            found += [f"P1 lost: {id} at {receiver}" for id in lost]
            found += [
                f"P7 {count} copies: {id} at {receiver}"
                for id, count in deliveries.items()
                if count > 1 and id.rpartition("/")[0] in once
            ]
        with opened(self.server) as reader:
            reader.subscribe("state/+", options=1)
            expected = sum(count > 0 for count in self.keeper.acknowledged)
            values = dict.fromkeys(range(TOPICS), 0)
            reader.ping()
            while reader.inbox:
                message = reader.receive()
                values[int(message.topic.rpartition("/")[2])] = int(message.payload)
        if sum(value > 0 for value in values.values()) < expected:
            found.append(f"P8 {expected} retained messages, found {values}")
        for topic, value in values.items():
            if not self.keeper.acknowledged[topic] <= value <= self.keeper.attempted[topic]:
                found.append(
                    f"P8 retained message {topic}: {value}, acknowledged {self.keeper.acknowledged[topic]}, "
                    f"attempted {self.keeper.attempted[topic]}"
                )
        return found

    def _leave(self) -> None:
        for worker in self._workers():
            worker.stopping.set()
        if self.server.is_running:
            self.server.kill()
        for worker in self._workers():
            if worker.is_alive():
                worker.join(DRAIN_TIMEOUT_S)
        while Raw.all:
            Raw.all.pop().drop()

    def __str__(self) -> str:
        attempted = sum(publisher.attempted for publisher in self.publishers)
        acknowledged = sum(publisher.acknowledged for publisher in self.publishers)
        delivered = sum(subscriber.deliveries.total() for subscriber in self.subscribers)
        twice = sum(count > 1 for deliveries in self._receivers().values() for count in deliveries.values())
        wills = sum(len(doomed.acknowledged) for doomed in self.doomed)
        shared = sum(member.deliveries.total() for member in self.members)
        return (
            f"attempted={attempted} acknowledged={acknowledged} delivered={delivered} lost={self.lost} "
            f"duplicated={twice} wills={wills} shared={shared}"
        )


@pytest.mark.each_build
@unlike_mosquitto("sends QoS 2 messages again after PUBREL, and keeps nothing when it is killed")
def test_nothing_is_lost_or_doubled_by_kill_9(tmp_path: Path) -> None:
    """P1, P5, P7, P8, R1: three kills at random moments."""
    run = MqttCrashRun(tmp_path, seed=5)
    violations = run.run(3, end_by_kill)

    assert violations == [], f"{run}\n" + "\n".join(violations[:20])
    assert all(publisher.acknowledged > ENOUGH for publisher in run.publishers), str(run)
    assert all(doomed.acknowledged for doomed in run.doomed), str(run)
    assert all(member.deliveries for member in run.members), str(run)


@unlike_mosquitto("sends QoS 2 messages again after PUBREL, and keeps nothing when it is killed")
def test_nothing_is_lost_or_doubled_by_a_stop(tmp_path: Path) -> None:
    """The same, ended as an operator does."""
    run = MqttCrashRun(tmp_path, seed=6)
    violations = run.run(2, end_by_stop)

    assert violations == [], f"{run}\n" + "\n".join(violations[:20])


def test_a_broker_that_acknowledges_before_the_commit_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V1: the test's own test."""
    broken = shlex.join(command_of("tests.crash.broken_broker", "acknowledge-before-commit"))
    script = f'exec {broken} run "$0" --port-file "$1"'
    monkeypatch.setenv("ARTEMIS_PY_INTEROP_BROKER", f"sh -c {shlex.quote(script)}")
    run = MqttCrashRun(tmp_path, seed=5)

    assert run.run(4, end_by_kill) != [], str(run)


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    seed = int(time.time())
    run = MqttCrashRun(Path(tempfile.mkdtemp(prefix="crash-")), seed)
    found = run.run(rounds, end_by_kill)
    print(f"seed={seed} {run}", *found[:20], sep="\n")
    sys.exit(bool(found))
