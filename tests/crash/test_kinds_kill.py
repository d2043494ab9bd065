"""Kinds of queues under `kill -9`: bounds of rings and last values, copies of diverts, history for new queues.

One client sends windows of numbered messages until a timer kills the broker. The next broker must show, before
anything else comes, what the client's list of confirmed and unconfirmed numbers allows.

`python -m tests.crash.test_kinds_kill 100` kills a hundred times.
"""

import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import define, field
from proton import Delivery, Message, ProtonException

from tests.crash.plan import LOGS
from tests.crash.processes import command_of
from tests.interop.proton.client import Client, Refused
from tests.log_switch import IS_ON

RING_SIZE: Final = 12
HISTORY: Final = 15
KEYS: Final = 9
WINDOW: Final = 20
LIFE_S: Final = (0.05, 0.8)
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
SUBSCRIBER: Final = "reader"

RING: Final = "ring"
RING_BY_PRIORITY: Final = "ring.head"
LAST: Final = "last"
NEWS: Final = "news"
COPIES: Final = ("copy.a", "copy.b")
PAST: Final = "past"
"""A retroactive address."""

CONFIGURATION: Final = f"""<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>kinds</name>
    {LOGS[IS_ON]}
    <security-enabled>false</security-enabled>
    <acceptors><acceptor name="amqp">tcp://127.0.0.1:PORT?protocols=AMQP</acceptor></acceptors>
    <diverts>
      <divert name="to-both">
        <address>{NEWS}</address><forwarding-address>{",".join(COPIES)}</forwarding-address><exclusive>true</exclusive>
      </divert>
    </diverts>
    <addresses>
      <address name="{RING}"><anycast><queue name="{RING}" ring-size="{RING_SIZE}"/></anycast></address>
      <address name="{RING_BY_PRIORITY}"><anycast>
        <queue name="{RING_BY_PRIORITY}" ring-size="{RING_SIZE}" ring-eviction="HEAD"/></anycast></address>
      <address name="{LAST}"><anycast><queue name="{LAST}" last-value-key="key"/></anycast></address>
      <address name="{NEWS}"><anycast><queue name="{NEWS}"/></anycast></address>
      <address name="{COPIES[0]}"><anycast><queue name="{COPIES[0]}"/></anycast></address>
      <address name="{COPIES[1]}"><anycast><queue name="{COPIES[1]}"/></anycast></address>
      <address name="{PAST}"><multicast/></address>
    </addresses>
    <address-settings>
      <address-setting match="#">
        <max-read-page-messages>4</max-read-page-messages>
        <auto-delete-queues>false</auto-delete-queues>
        <auto-delete-addresses>false</auto-delete-addresses>
      </address-setting>
      <address-setting match="{PAST}"><retroactive-message-count>{HISTORY}</retroactive-message-count></address-setting>
    </address-settings>
  </core>
</configuration>
"""


@define
class Sent:
    """What one client knows of the messages that it sent to one address."""

    attempted: list[int] = field(factory=list)
    """Ascending numbers."""
    confirmed: set[int] = field(factory=set)


@define
class Subscription:
    """A durable subscription that was asked for."""

    begins: int
    """The last number that was sent before."""
    is_confirmed: bool = False


def violations_of_a_ring(what: str, content: Sequence[int], sent: Sent, size: int) -> list[str]:
    """A ring has the newest messages that came in; those that were not confirmed may have come in or not."""
    found = []
    if len(content) > size:
        found.append(f"{what}: {len(content)} messages, {size} allowed")
    if list(content) != sorted(set(content)):
        found.append(f"{what}: not in order, or twice: {content}")
    if not set(content) <= set(sent.attempted):
        found.append(f"{what}: never sent: {sorted(set(content) - set(sent.attempted))}")
    missing = sent.confirmed - set(content)
    first = min(content, default=0)
    if wrong := sorted(number for number in missing if number > first):
        found.append(f"{what}: confirmed and lost: {wrong}, of {content}")
    if missing and len(content) < size:
        found.append(f"{what}: {len(content)} messages, although {len(missing)} more were confirmed")
    return found


class KindsCrashRun:
    """One broker that is killed again and again, its client, and what that wrote down."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder: Final = folder
        self._random: Final = random.Random(seed)
        self._port = 0
        self._numbers = 0
        self.sent: Final = {address: Sent() for address in (RING, RING_BY_PRIORITY, LAST, NEWS, PAST)}
        self.subscriptions: Final[dict[str, Subscription]] = {}
        (folder / "etc").mkdir(parents=True)

    @property
    def confirmed(self) -> int:
        """Number of messages that were confirmed."""
        return sum(len(sent.confirmed) for sent in self.sent.values())

    def run(self, rounds: int) -> list[str]:
        """Kill `rounds` brokers; return every violation."""
        found: list[str] = []
        broker = self._start()
        try:
            for number in range(rounds):
                timer = threading.Timer(self._random.uniform(*LIFE_S), broker.kill)
                timer.start()
                self._work()
                timer.join()
                broker.wait()
                broker = self._start()
                found += [f"after kill {number + 1}: {text}" for text in self._check()]
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.wait(STOP_TIMEOUT_S)
        return found

    def _start(self) -> "subprocess.Popen[bytes]":
        text = CONFIGURATION.replace("PORT", str(self._port))
        (self._folder / "etc" / "broker.xml").write_text(text, encoding="utf-8")
        announced = self._folder / "port"
        announced.unlink(missing_ok=True)
        command = command_of("artemis_py.cli", "run", str(self._folder), "--port-file", str(announced))
        with open(self._folder / "broker.log", "ab") as log:
            broker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not announced.exists():
            if broker.poll() is not None or time.monotonic() > deadline:
                broker.kill()
                raise AssertionError("the broker did not start:\n" + (self._folder / "broker.log").read_text()[-3000:])
            time.sleep(0.005)
        self._port = int(announced.read_text().split()[0])
        return broker

    # -- the load --------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Send and subscribe until the broker is gone."""
        try:
            with Client(f"amqp://127.0.0.1:{self._port}", SUBSCRIBER) as client:
                senders = {
                    address: client.sender(address, ["topic" if address == PAST else "queue"]) for address in self.sent
                }
                while True:
                    address = self._random.choice(list(senders))
                    window = [(number, senders[address].start(self._message(address, number)))
                              for number in self._take_numbers(address)]  # fmt: skip
                    for number, delivery in window:
                        client.wait(lambda delivery=delivery: delivery.settled, "an outcome")  # type: ignore[misc]
                        if delivery.remote_state == Delivery.ACCEPTED:
                            self.sent[address].confirmed.add(number)
                        delivery.settle()
                    if self._random.random() < 0.1:
                        self._subscribe(client)
        except (ProtonException, Refused, OSError):
            return

    def _take_numbers(self, address: str) -> list[int]:
        count = self._random.randrange(1, WINDOW)
        numbers = list(range(self._numbers + 1, self._numbers + 1 + count))
        self._numbers += count
        self.sent[address].attempted += numbers
        return numbers

    def _message(self, address: str, number: int) -> Message:
        priority = number % 3 + 3 if address == RING else 4
        return Message(body=number, durable=True, priority=priority, properties={"key": f"k{number % KEYS}"})

    def _subscribe(self, client: Client) -> None:
        name = f"s{len(self.subscriptions) + 1}"
        subscription = Subscription(begins=max(self.sent[PAST].attempted, default=0))
        self.subscriptions[name] = subscription
        receiver = client.receiver(PAST, ["topic"], name=name, durable=True)
        subscription.is_confirmed = True
        receiver.detach()

    # -- the check -------------------------------------------------------------------------------------------

    def _check(self) -> list[str]:
        with Client(f"amqp://127.0.0.1:{self._port}", f"{SUBSCRIBER}.check") as client:
            found = violations_of_a_ring(RING, sorted(self._read(client, RING)), self.sent[RING], RING_SIZE)
            head = self._read(client, RING_BY_PRIORITY)
            found += violations_of_a_ring(RING_BY_PRIORITY, head, self.sent[RING_BY_PRIORITY], RING_SIZE)
            found += self._check_last_values(self._read(client, LAST))
            found += self._check_copies(client)
            for name, subscription in self.subscriptions.items():
                found += self._check_history(client, name, subscription)
        return found

    def _read(self, client: Client, queue: str, address: str = "") -> list[int]:
        """The numbers that wait in a queue, in its order; they stay there."""
        name = f"{address}::{queue}" if address else queue
        receiver = client.receiver(name, ["topic"] if address else [], copy=True)
        numbers = [int(received.body) for received in receiver.drain(credit=100_000)]
        receiver.close()
        return numbers

    def _check_last_values(self, content: list[int]) -> list[str]:
        found = []
        sent = self.sent[LAST]
        for key in range(KEYS):
            mine = [number for number in content if number % KEYS == key]
            confirmed = max((number for number in sent.confirmed if number % KEYS == key), default=0)
            if len(mine) > 1 or (confirmed and not mine):
                found.append(f"{LAST}: {mine} for key {key}, {confirmed} was confirmed")
            if any(number < confirmed or number not in sent.attempted for number in mine):
                found.append(f"{LAST}: {mine} for key {key}, although {confirmed} was confirmed later")
        return found

    def _check_copies(self, client: Client) -> list[str]:
        first, second = (self._read(client, name) for name in COPIES)
        found = []
        if first != second:
            found.append(f"diverts: only one has {sorted(set(first) ^ set(second))}")
        if lost := sorted(self.sent[NEWS].confirmed - set(first)):
            found.append(f"diverts: confirmed and lost: {lost}")
        if kept := self._read(client, NEWS):
            found.append(f"diverts: {kept} came past an exclusive one")
        return found

    def _check_history(self, client: Client, name: str, subscription: Subscription) -> list[str]:
        try:
            content = self._read(client, f"{SUBSCRIBER}.{name}", PAST)
        except Refused:
            return [f"{name}: confirmed and gone"] if subscription.is_confirmed else []
        sent = self.sent[PAST]
        before = Sent(
            attempted=[number for number in sent.attempted if number <= subscription.begins],
            confirmed={number for number in sent.confirmed if number <= subscription.begins},
        )
        history = [number for number in content if number <= subscription.begins]
        found = violations_of_a_ring(f"history of {name}", history, before, HISTORY)
        later = content[len(history) :]
        if later != sorted(set(later)) or content[: len(history)] != history:
            found.append(f"{name}: not in order, or twice: {content}")
        if lost := sorted(sent.confirmed - before.confirmed - set(later)):
            found.append(f"{name}: confirmed and lost: {lost}")
        return found


def test_kinds_of_queues_outlive_kill_9(tmp_path: Path) -> None:
    """Four kills at random moments; the state is examined after each."""
    run = KindsCrashRun(tmp_path / "run", seed=11)
    violations = run.run(4)

    assert violations == []
    assert run.confirmed > 300
    assert any(subscription.is_confirmed for subscription in run.subscriptions.values())


def test_a_ring_that_forgot_is_caught() -> None:
    """The check's own test."""
    sent = Sent(attempted=list(range(1, 21)), confirmed=set(range(1, 19)))

    assert violations_of_a_ring("ring", [16, 17, 18, 20], sent, 4) == []
    assert violations_of_a_ring("ring", [15, 16, 17, 20], sent, 4) != []
    assert violations_of_a_ring("ring", [17, 18, 19], sent, 4) != []
    assert violations_of_a_ring("ring", [15, 16, 17, 18, 19], sent, 4) != []


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    seed = int(time.time())
    crash_run = KindsCrashRun(Path(tempfile.mkdtemp(prefix="crash-")), seed)
    result = crash_run.run(rounds)
    print(f"seed={seed} confirmed={crash_run.confirmed} violations={len(result)}", *result[:20], sep="\n")
    sys.exit(bool(result))
