"""What a message costs that comes through an exchange, beside one that is sent to an address.

    python benchmarks/exchanges.py [--rounds 7] [--bindings 1,10,1000,100000] [--only topic]

In one process, on the core alone and without a store, with AMQP messages of 100 octets. A subject sends a block of
messages to one queue, which is then emptied; making the messages counts, emptying the queue does not. A round takes
each subject in turn, so that the other work of the machine meets all of them alike; a ratio is formed within a round.

    address      a producer for the address of the queue
    direct       the same routing key for all messages, and as many other bindings as it says
    topic        the same, with patterns
    topic-new    each message has a routing key that none had before
    headers      two headers, which one binding wants; the others want one of them and a third
    chain        three fanout exchanges, one behind the other
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Final

from artemis_amqp.engine.codec import encode_value
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import MatchHierarchy, WildcardSyntax
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Subject
from artemis_py.core.sessions.exchanges import RoutingKeys, open_exchange_producer
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.exchange_config import Destination, ExchangeConfig, ExchangeType
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.store.memory import MemoryStore

BLOCK: Final = 200
"""Messages that are sent before the queue is emptied."""
BLOCKS: Final = 25
"""Blocks of a subject in one round."""
BINDINGS: Final = (1, 10, 1000, 100_000)
HEADERS: Final[Mapping[str, str | int]] = {"format": "pdf", "customer": 7}
DATA: Final = b"\x00\x53\x74" + encode_value(dict(HEADERS)) + b"\x00\x53\x75\xa0\x64" + bytes(100)


class NewKeys(RoutingKeys):
    """A routing key for each message."""

    def __init__(self) -> None:
        self._number = 0

    def key_of(self, message: Message, exchange: str) -> str:
        """Return the next one."""
        self._number += 1
        return f"a.{self._number}.b.c"


class Bench:
    """A domain with a queue, and what is sent to it."""

    def __init__(self) -> None:
        repository = SettingsRepository(MatchHierarchy(WildcardSyntax()))
        self.domain = Domain(repository, Dispatcher(MemoryStore()))
        self.session = Session(self.domain, Subject(None))
        self.domain.create_address("q", frozenset(RoutingType))
        self.queue = self.domain.create_queue(QueueConfig(name="q", address="q", routing_type=RoutingType.ANYCAST))

    def address(self) -> Producer:
        """A producer for the address of the queue."""
        return self.session.producer("q")

    def exchange(self, kind: ExchangeType, others: int, has_new_keys: bool = False) -> Producer:
        """A producer for an exchange that the queue is bound to once for its messages, and often for others."""
        exchanges = self.domain.exchanges
        exchange = exchanges.declare(ExchangeConfig(name=f"{kind.value} {others} {has_new_keys}", type=kind))
        queue = Destination("q", is_queue=True)
        wanted = {ExchangeType.DIRECT: "a.0.b.c", ExchangeType.TOPIC: "a.*.b.#"}.get(kind, "")
        exchanges.bind(exchange, wanted, queue, dict(HEADERS) if kind is ExchangeType.HEADERS else {})
        for number in range(others):
            match kind:
                case ExchangeType.HEADERS:
                    exchanges.bind(exchange, str(number), queue, {**HEADERS, "page": number})
                case ExchangeType.TOPIC:
                    exchanges.bind(exchange, f"x.{number}.*.#", queue)
                case _:
                    exchanges.bind(exchange, f"x.{number}", queue)
        return open_exchange_producer(
            self.session, exchange, None if has_new_keys else "a.0.b.c", NewKeys() if has_new_keys else RoutingKeys()
        )

    def chain(self) -> Producer:
        """A producer for the first of three exchanges."""
        exchanges = self.domain.exchanges
        made = [exchanges.declare(ExchangeConfig(name=f"chain {n}", type=ExchangeType.FANOUT)) for n in range(3)]
        for number in range(2):
            exchanges.bind(made[number], "", Destination(f"chain {number + 1}", is_queue=False))
        exchanges.bind(made[2], "", Destination("q", is_queue=True))
        return open_exchange_producer(self.session, made[0], "", RoutingKeys())

    def measure(self, producer: Producer) -> float:
        """Return the microseconds that a message takes."""
        spent = 0.0
        for _ in range(BLOCKS):
            begin = time.perf_counter()
            for _ in range(BLOCK):
                producer.send(Message(AMQP_FORMAT, "", DATA))
            spent += time.perf_counter() - begin
            assert self.queue.message_count == BLOCK, f"{self.queue.message_count} of {BLOCK} messages came"
            self.queue.purge()
            while self.domain.dispatcher.slices.has_work:
                self.domain.dispatcher.run()
        return spent * 1e6 / (BLOCK * BLOCKS)


def subjects(bench: Bench, bindings: list[int]) -> dict[str, Callable[[], Producer]]:
    """Return what makes the producer of each subject, by its name."""
    found: dict[str, Callable[[], Producer]] = {}
    for count in bindings:
        found[f"direct {count}"] = lambda count=count: bench.exchange(ExchangeType.DIRECT, count - 1)  # type: ignore[misc]
        found[f"topic {count}"] = lambda count=count: bench.exchange(ExchangeType.TOPIC, count - 1)  # type: ignore[misc]
        found[f"topic-new {count}"] = lambda count=count: bench.exchange(ExchangeType.TOPIC, count - 1, True)  # type: ignore[misc]
        found[f"headers {count}"] = lambda count=count: bench.exchange(ExchangeType.HEADERS, count - 1)  # type: ignore[misc]
    found["chain"] = bench.chain
    return found


def main() -> None:
    """Measure, and print a line of JSON for each subject."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bindings", default=",".join(map(str, BINDINGS)))
    parser.add_argument("--only", default="", help="subjects whose names begin so")
    arguments = parser.parse_args()
    bench = Bench()
    address = bench.address()
    makers = subjects(bench, [int(count) for count in arguments.bindings.split(",")])
    producers = {name: make() for name, make in makers.items() if name.startswith(arguments.only)}
    alone: list[float] = []
    spent: dict[str, list[float]] = {name: [] for name in producers}
    for _ in range(arguments.rounds):
        alone.append(bench.measure(address))
        for name, producer in producers.items():
            spent[name].append(bench.measure(producer))
    print(json.dumps({"subject": "address", "us": round(median(alone), 3)}))
    for name, times in spent.items():
        ratios = sorted(one / other for one, other in zip(times, alone, strict=True))
        print(
            json.dumps(
                {
                    "subject": name,
                    "us": round(median(times), 3),
                    "ratio": round(median(ratios), 2),
                    "from": round(ratios[0], 2),
                    "to": round(ratios[-1], 2),
                }
            )
        )


if __name__ == "__main__":
    main()
