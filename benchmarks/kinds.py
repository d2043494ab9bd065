"""What the kinds of queues cost, as ratios to a plain queue of the same depth.

    python benchmarks/kinds.py [--rounds 5] [--depths 10,1000000] [--durable] [--only ring]

In one process, on the core alone, with AMQP messages of 100 octets that have a key and a group. A round takes each
subject in turn, so that the other work of the machine meets all of them alike; a ratio is formed within a round.

    plain        a message in at the end, one out at the front, accepted
    ring         a message in, the oldest removed
    last-value   a message in with a random one of the keys, its predecessor removed
    groups       as plain, with as many groups as the depth and ten consumers; beside ten consumers without groups

With `--durable` queue and messages are stored, and CPU includes the thread that writes; the commits are made by hand.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from artemis_amqp.engine.codec import encode_value
from artemis_amqp.engine.performatives import Properties, encode
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import MatchHierarchy, WildcardSyntax
from artemis_py.core.queues.attaching import attach
from artemis_py.core.queues.consumer import ACCEPTED, Consumer, ConsumerOptions, Sink
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.store.lmdb import LmdbStore
from artemis_py.store.memory import MemoryStore
from artemis_py.store.recovery import recover

OPERATIONS: Final = 20_000
BLOCK: Final = 100
"""Messages per iteration of the loop."""
DEPTHS: Final = (10, 1_000_000)
CONSUMERS: Final = 10
KEY: Final = "key"
MAP_BYTES: Final = 1 << 30
"""Large enough that the store is never mapped again while it is measured."""
_APPLICATION_PROPERTIES: Final = b"\x00\x53\x74"
_DATA: Final = b"\x00\x53\x75\xa0\x64" + bytes(100)


def content(number: int) -> bytes:
    """The bare message with this key and group."""
    properties = encode(Properties(group_id=f"group-{number}"))
    return properties + _APPLICATION_PROPERTIES + encode_value({KEY: f"key-{number}"}) + _DATA


class Hands:
    """The loop and the worker of a store: both do their work when they are told to."""

    def __init__(self) -> None:
        self._planned: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[[], object], /) -> None:
        """Keep it for `turn`."""
        self._planned.append(callback)

    def call_later(self, delay: float, callback: Callable[[], object], /) -> None:
        """Keep it for `turn`, whatever the delay."""
        self._planned.append(callback)

    def submit(self, job: Callable[[], str | None], done: Callable[[str | None], None]) -> None:
        """Commit at the next turn."""
        self._planned.append(lambda: done(job()))

    def turn(self) -> None:
        """Do all that is planned, and what follows from it."""
        while self._planned:
            planned, self._planned = self._planned, []
            for callback in planned:
                callback()


class Taker(Sink):
    """A consumer that accepts at the end of a block."""

    def __init__(self) -> None:
        self.taken: list[Reference] = []

    def deliver(self, reference: Reference) -> None:
        """Keep it."""
        self.taken.append(reference)

    def drained(self) -> None:
        """Never asked for."""

    def ended(self, reason: str) -> None:
        """Never happens."""


class Subject:
    """One queue in a domain of its own, filled to its depth."""

    def __init__(self, depth: int, is_durable: bool, consumers: int = 0, **attributes: object) -> None:
        self._hands = Hands()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        repository = SettingsRepository(MatchHierarchy(WildcardSyntax()))
        if is_durable:
            self._folder = tempfile.TemporaryDirectory(prefix="kinds-")
            store = LmdbStore(Path(self._folder.name), MAP_BYTES)
            self._domain = Domain(repository, Dispatcher(store))
            recover(store, self._domain, {AMQP_FORMAT.name: AMQP_FORMAT})
            store.start(self._hands, self._hands, print, self._domain.dispatcher.stored)
        else:
            self._domain = Domain(repository, Dispatcher(MemoryStore()))
        self._is_durable = is_durable
        self._random = random.Random(7)
        self._contents = [content(number) for number in range(depth)]
        self._depth = depth
        self._address = self._domain.create_address("a", frozenset((RoutingType.ANYCAST,)))
        config = QueueConfig(name="q", address="a", routing_type=RoutingType.ANYCAST, durable=is_durable, **attributes)
        self._queue = self._domain.create_queue(config)
        self._takers = [Taker() for _ in range(consumers)]
        self._consumers = [
            Consumer(number, self._queue, taker, ConsumerOptions(), "") for number, taker in enumerate(self._takers)
        ]
        for start in range(0, depth, BLOCK):
            for data in self._contents[start : start + BLOCK]:
                self._domain.route(self._message(data), self._address)
            self._settle_down()
        for consumer in self._consumers:
            attach(consumer)

    def _message(self, data: bytes) -> Message:
        return Message(AMQP_FORMAT, "a", data, durable=self._is_durable)

    def _settle_down(self) -> None:
        self._domain.dispatcher.run(10 * BLOCK)
        self._hands.turn()

    def seconds_per_message(self) -> float:
        """Process blocks of messages, and check that the queue is as deep as before."""
        elapsed = 0.0
        route, address = self._domain.route, self._address
        for _ in range(OPERATIONS // BLOCK):
            messages = [self._message(data) for data in self._random.choices(self._contents, k=BLOCK)]
            start = time.process_time()
            for message in messages:
                route(message, address)
            if self._consumers:
                self._consume()
            self._settle_down()
            elapsed += time.process_time() - start
        count = self._queue.message_count
        if count != self._depth:
            raise AssertionError(f"{count} messages instead of {self._depth}")
        return elapsed / OPERATIONS

    def _consume(self) -> None:
        """Take as many as came in. Owners of groups may have to wait for each other, so everybody has credit."""
        left = BLOCK
        while left > 0:
            for consumer in self._consumers:
                consumer.grant(left)
            self._domain.dispatcher.run(left)
            taken = 0
            for consumer, taker in zip(self._consumers, self._takers, strict=True):
                for reference in taker.taken:
                    consumer.settle(reference, ACCEPTED)
                taken += len(taker.taken)
                taker.taken.clear()
                consumer.grant(0)
            left -= taken

    def close(self) -> None:
        """Remove what it has on disk."""
        if self._folder is not None:
            self._folder.cleanup()


PLAIN: Final = "plain"
SHARED: Final = "plain, ten consumers"
KINDS: Final[dict[str, tuple[str, Callable[[int, bool], Subject]]]] = {
    PLAIN: (PLAIN, lambda depth, durable: Subject(depth, durable, 1)),
    "ring": (PLAIN, lambda depth, durable: Subject(depth, durable, ring_size=depth)),
    "last-value": (PLAIN, lambda depth, durable: Subject(depth, durable, last_value_key=KEY)),
    SHARED: (SHARED, lambda depth, durable: Subject(depth, durable, CONSUMERS, group_buckets=0)),
    "groups": (SHARED, lambda depth, durable: Subject(depth, durable, CONSUMERS)),
}
"""Subjects by name, each with the one that it is compared with."""


def measure(names: list[str], depth: int, is_durable: bool, rounds: int) -> dict[str, dict[str, float]]:
    """Return microseconds per message, and ratios."""
    wanted = dict.fromkeys([KINDS[name][0] for name in names] + names)
    subjects = {name: KINDS[name][1](depth, is_durable) for name in wanted}
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for subject in subjects.values():
        subject.seconds_per_message()
    for _ in range(rounds):
        for name, subject in subjects.items():
            times[name].append(subject.seconds_per_message())
    for subject in subjects.values():
        subject.close()
    results = {}
    for name, values in times.items():
        ratios = [value / base for value, base in zip(values, times[KINDS[name][0]], strict=True)]
        results[name] = {
            "us": round(median(values) * 1e6, 2),
            "ratio_min": round(min(ratios), 2),
            "ratio": round(median(ratios), 2),
            "ratio_max": round(max(ratios), 2),
        }
    return results


def main() -> None:
    """Print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--depths", default=",".join(map(str, DEPTHS)))
    parser.add_argument("--durable", action="store_true")
    parser.add_argument("--only", action="append", choices=[*KINDS])
    options = parser.parse_args()
    names = options.only or [*KINDS]
    for depth in map(int, options.depths.split(",")):
        print(json.dumps({"depth": depth, "durable": options.durable}), flush=True)
        for name, figures in measure(names, depth, options.durable, options.rounds).items():
            print(json.dumps({"kind": name, **figures}), flush=True)


if __name__ == "__main__":
    main()
