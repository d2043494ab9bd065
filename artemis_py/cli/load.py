"""One load on a broker, for all protocols: what to send, what has arrived, and how long it took.

All producers and consumers share one event loop, and each has its own connection. A body begins with a stamp; the
rest is zeros:

    | run | producer | number | sent at |
      u32   u32        u64      u64, nanoseconds of this process' clock
"""

import asyncio
import math
from array import array
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, Protocol

from attrs import frozen

from artemis_py.cli.client import Target
from artemis_py.cli.render import Progress

STAMP: Final = Struct(">IIQQ")
SMALLEST_SIZE: Final = 32
BATCH: Final = 200
"""Messages a producer writes in one iteration of the loop: a write of some ten KiB, then consumers can run."""
TICK_S: Final = 0.1
"""Interval at which progress and the time-out are checked, in seconds."""
PACE_S: Final = 0.002
"""Interval at which paced producers check the clock, in seconds."""
QUANTILES: Final = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


@frozen(kw_only=True)
class Plan:
    """Parameters of one load."""

    target: Target
    address: str
    capability: str
    """Routing type to ask for: `queue` or `topic`."""
    count: int
    """Number of messages of all producers together."""
    size: int
    """Size of a body in bytes."""
    producers: int
    consumers: int
    durable: bool
    settled: bool
    window: int
    credit: int
    rate: float | None
    """Messages per second of all producers together; None: as many as the broker accepts."""
    timeout_s: float
    run: int
    """Number that tells our messages from others."""
    protocol: str = "amqp"
    """Protocol: `amqp` or `mqtt`."""
    qos: int = 1
    """Quality of service of MQTT messages."""

    @property
    def copies(self) -> int:
        """Number of times each message is delivered."""
        return self.consumers if self.capability == "topic" else 1

    def share(self, producer: int) -> int:
        """Return how many messages a producer sends."""
        return self.count // self.producers + (producer < self.count % self.producers)


class Violation(Exception):
    """The broker broke a guarantee, or another client uses the same destination."""


class Ledger:
    """Messages that have arrived, and how long they took."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.received = 0
        self.latencies: array[int] = array("Q")
        """Latencies in nanoseconds, in order of arrival."""
        shares = [plan.share(number) for number in range(plan.producers)]
        self._seen = [[bytearray(share) for share in shares] for _ in range(plan.copies)]
        self._expected = [[0] * plan.producers for _ in range(plan.consumers)]

    def take(self, consumer: int, body: bytes, now_ns: int) -> None:
        """Record a message that arrived. Raises Violation."""
        if len(body) < SMALLEST_SIZE:
            raise Violation("a message of another program: the destination must be empty, and not used by others")
        run, producer, number, sent_ns = STAMP.unpack_from(body)
        if run != self.plan.run:
            raise Violation("a message of another program: the destination must be empty, and not used by others")
        expected = self._expected[consumer]
        seen = self._seen[consumer if len(self._seen) > 1 else 0][producer]
        if seen[number]:
            raise Violation(f"message {number} of producer {producer} came twice")
        if number < expected[producer]:
            raise Violation(f"message {number} of producer {producer} came after {expected[producer] - 1}")
        seen[number] = 1
        expected[producer] = number + 1
        self.received += 1
        self.latencies.append(max(now_ns - sent_ns, 0))

    @property
    def wanted(self) -> int:
        """Number of deliveries that make the run complete."""
        return self.plan.count * self.plan.copies

    @property
    def is_complete(self) -> bool:
        """Whether every message has arrived; none arrives twice, so counting is enough."""
        return self.received == self.wanted


def quantile(ordered: Sequence[int], part: float) -> int:
    """Return the smallest value that `part` of all values do not exceed; 0 if there are no values."""
    return ordered[max(math.ceil(part * len(ordered)) - 1, 0)] if ordered else 0


class LoadProducer(Protocol):
    """One producer of a run, for any protocol."""

    allowed: int
    """Number of messages that the pace allows to have been sent by now."""
    sent: int

    @property
    def share(self) -> int:
        """Number of messages to send."""

    @property
    def is_done(self) -> bool:
        """Whether everything was sent, and confirmed if that is required."""

    def plan_turn(self) -> None:
        """Plan to send in the next iteration of the loop."""


class Run:
    """One measurement; subclasses implement its clients."""

    def __init__(self, plan: Plan) -> None:
        self.plan: Final = plan
        self.loop: Final = asyncio.get_running_loop()
        self.ledger: Final = Ledger(plan)
        self.producers: Final[list[LoadProducer]] = []
        self._done: Final[asyncio.Future[None]] = self.loop.create_future()
        self.elapsed_s = 0.0

    def fail(self, error: Exception) -> None:
        """End the run with an error; the first error counts."""
        if not self._done.done():
            self._done.set_exception(error)

    def check(self) -> None:
        """End the run if everything has arrived and was settled."""
        if self.ledger.is_complete and all(producer.is_done for producer in self.producers):
            if not self._done.done():
                self._done.set_result(None)

    async def measure(self, progress: Progress) -> None:
        """Start consumers, then producers, then wait. Raises Violation, and what the clients raise."""
        plan = self.plan
        try:
            await self.open()
            started_at = self.loop.time()
            for producer in self.producers:
                producer.plan_turn()
            pacing = None if plan.rate is None else self.loop.create_task(self._pace(plan.rate))
            try:
                await self._wait(started_at, progress)
            finally:
                self.elapsed_s = self.loop.time() - started_at
                if pacing is not None:
                    pacing.cancel()
        finally:
            await self.close()

    async def open(self) -> None:
        """Connect all consumers and producers. Raises the errors that `_measure` handles."""
        raise NotImplementedError

    async def close(self) -> None:
        """Disconnect all consumers and producers."""
        raise NotImplementedError

    async def _pace(self, rate: float) -> None:
        """Allow the messages that are due, divided evenly among the producers."""
        started_at = self.loop.time()
        while True:
            due = int((self.loop.time() - started_at) * rate)
            for producer in self.producers:
                producer.allowed = min(-(-due // self.plan.producers), producer.share)
                producer.plan_turn()
            await asyncio.sleep(PACE_S)

    async def _wait(self, started_at: float, progress: Progress) -> None:
        """Wait until the run is done; it has failed if nothing arrives any more."""
        received, since = 0, self.loop.time()
        while not self._done.done():
            await asyncio.wait((self._done,), timeout=TICK_S)
            now = self.loop.time()
            progress.show(self.ledger.received, now - started_at)
            if self.ledger.received != received:
                received, since = self.ledger.received, now
            elif now - since > self.plan.timeout_s:
                self.fail(Violation(f"no message came for {self.plan.timeout_s:g} s"))
        await self._done

    def figures(self) -> dict[str, Any]:
        """Return the results; times are in milliseconds."""
        ordered = sorted(self.ledger.latencies)
        elapsed_s = self.elapsed_s
        latency = {name: quantile(ordered, part) / 1e6 for name, part in QUANTILES.items()}
        return {
            "sent": sum(producer.sent for producer in self.producers),
            "received": self.ledger.received,
            "wanted": self.ledger.wanted,
            "seconds": elapsed_s,
            "received_per_s": self.ledger.received / elapsed_s if elapsed_s > 0 else 0.0,
            "latency_ms": latency | {"max": ordered[-1] / 1e6 if ordered else 0.0},
        }
