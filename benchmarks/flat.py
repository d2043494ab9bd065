"""Costs that must not grow with state: routing with many addresses, queues with a long backlog.

In one process, on the core alone. Sizes alternate within a round, so that whatever else the machine does meets all
of them alike; what counts is the ratio to the smallest size.

    python flat.py [--rounds 5]
"""

import argparse
import json
import time
from statistics import median
from typing import Final

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
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
from artemis_py.store.memory import MemoryStore

OPERATIONS: Final = 20_000
SAMPLE: Final = 200
"""Addresses that a round routes to, spread over all there are."""
ADDRESSES: Final = (1, 100, 10_000, 100_000)
BACKLOGS: Final = (0, 1_000, 100_000, 1_000_000)
BODY: Final = bytes(150)


def new_domain() -> Domain:
    """An empty domain."""
    return Domain(SettingsRepository(MatchHierarchy(WildcardSyntax())), Dispatcher(MemoryStore()))


class Bindings:
    """A domain with `count` addresses: each has a queue, and each is meant by one wildcard subscription."""

    def __init__(self, count: int) -> None:
        self.domain = new_domain()
        self.queues = []
        for number in range(count):
            name = f"plant.{number % 97}.machine.{number}"
            for address, routing_type in ((name, RoutingType.ANYCAST), (f"{name}.#", RoutingType.MULTICAST)):
                self.domain.create_address(address, frozenset((routing_type,)))
                config = QueueConfig(name=f"q.{address}", address=address, routing_type=routing_type)
                self.queues.append(self.domain.create_queue(config))
        step = max(1, count // SAMPLE)
        self.sample = [f"plant.{number % 97}.machine.{number}" for number in range(0, count, step)]

    def seconds_per_message(self) -> float:
        """Route to the sample in turn; every message reaches two queues."""
        domain, sample = self.domain, self.sample
        names = [sample[number % len(sample)] for number in range(OPERATIONS)]
        messages = [Message(PLAIN_FORMAT, name, BODY) for name in names]
        addresses = domain.addresses
        start = time.process_time()
        for message in messages:
            domain.route(message, addresses[message.address])
        elapsed = time.process_time() - start
        routed = sum(queue.message_count for queue in self.queues)
        if routed != 2 * OPERATIONS:
            raise AssertionError(f"{routed} references for {OPERATIONS} messages")
        for queue in self.queues:
            if queue.message_count:
                queue.purge()
        return elapsed / OPERATIONS


class Taker(Sink):
    """A consumer that accepts at once."""

    def __init__(self) -> None:
        self.taken: list[Reference] = []

    def deliver(self, reference: Reference) -> None:
        """Keep it until the round accepts."""
        self.taken.append(reference)

    def drained(self) -> None:
        """Never asked for."""

    def ended(self, reason: str) -> None:
        """Never happens."""


class Backlog:
    """A queue in which `count` messages wait."""

    def __init__(self, count: int) -> None:
        self.domain = new_domain()
        self.address = self.domain.create_address("backlog", frozenset((RoutingType.ANYCAST,)))
        config = QueueConfig(name="backlog", address="backlog", routing_type=RoutingType.ANYCAST)
        self.queue = self.domain.create_queue(config)
        for _ in range(count):
            self.domain.route(Message(PLAIN_FORMAT, "backlog", BODY), self.address)
        self.taker = Taker()
        self.consumer = Consumer(1, self.queue, self.taker, ConsumerOptions(), "")
        attach(self.consumer)
        self.count = count

    def seconds_per_message(self) -> float:
        """In turn: a hundred in at the end, a hundred out at the front and accepted."""
        domain, address, consumer, taker = self.domain, self.address, self.consumer, self.taker
        elapsed = 0.0
        for _ in range(OPERATIONS // 100):
            messages = [Message(PLAIN_FORMAT, "backlog", BODY) for _ in range(100)]
            start = time.process_time()
            for message in messages:
                domain.route(message, address)
            consumer.grant(100)
            domain.dispatcher.run(100)
            for reference in taker.taken:
                consumer.settle(reference, ACCEPTED)
            elapsed += time.process_time() - start
            if len(taker.taken) != 100 or self.queue.message_count != self.count:
                raise AssertionError(f"{len(taker.taken)} delivered, {self.queue.message_count} left")
            taker.taken.clear()
        return elapsed / OPERATIONS


def measure(subjects: dict[int, Bindings] | dict[int, Backlog], rounds: int) -> list[dict[str, float]]:
    """Per size: microseconds, and their ratio to the smallest size's."""
    times: dict[int, list[float]] = {size: [] for size in subjects}
    for subject in subjects.values():
        subject.seconds_per_message()
    for _ in range(rounds):
        for size, subject in subjects.items():
            times[size].append(subject.seconds_per_message())
    first = next(iter(times.values()))
    return [
        {
            "size": size,
            "us": median(values) * 1e6,
            "ratio_min": min(ratios),
            "ratio": median(ratios),
            "ratio_max": max(ratios),
        }
        for size, values in times.items()
        for ratios in [[value / base for value, base in zip(values, first, strict=True)]]
    ]


def run(rounds: int) -> dict[str, list[dict[str, float]]]:
    """Both curves."""
    return {
        "routing": measure({size: Bindings(size) for size in ADDRESSES}, rounds),
        "queue": measure({size: Backlog(size) for size in BACKLOGS}, rounds),
    }


def main() -> None:
    """Print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    print(json.dumps(run(parser.parse_args().rounds)))


if __name__ == "__main__":
    main()
