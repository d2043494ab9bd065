"""`artemis-py perf`: put a broker under load, measure rate and latency, verify that nothing is lost or out of order.

All producers and consumers share one event loop, each with a connection of its own. A body starts with a stamp, the
rest is zeros:

    | run | producer | number | sent at |
      u32   u32        u64      u64, nanoseconds of this process' clock
"""

import asyncio
import math
import os
import ssl
import time
from array import array
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final
from urllib.parse import urlsplit

import click
from attrs import frozen

from artemis_amqp.client import Client, ClientError, ConnectionFailed
from artemis_amqp.connection import ACCEPTED_CODE
from artemis_amqp.link import ReceiverLink, ReceiverLinkHandler, SenderLink, SenderLinkHandler
from artemis_amqp.performatives import Accepted, encode
from artemis_amqp.sections import header_bytes
from artemis_amqp.types import Symbol
from artemis_py.cli.client import Target, parse_destination, target_options
from artemis_py.cli.errors import Failed, NotConnected
from artemis_py.cli.render import Progress, print_json
from artemis_py.core.message import DEFAULT_PRIORITY

STAMP: Final = Struct(">IIQQ")
SMALLEST_SIZE: Final = 32
BATCH: Final = 200
"""Messages a producer writes before the loop turns: one write of some ten KiB, and consumers get their turn."""
TICK_S: Final = 0.1
"""How often progress and the time-out are looked at."""
PACE_S: Final = 0.002
"""How often paced producers look at the clock."""
QUANTILES: Final = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
ACCEPTED_STATE: Final = encode(Accepted())


@frozen(kw_only=True)
class Plan:
    """What to do."""

    target: Target
    address: str
    capability: str
    """`queue` or `topic`."""
    count: int
    """Messages of all producers together."""
    size: int
    """Octets of a body."""
    producers: int
    consumers: int
    durable: bool
    settled: bool
    window: int
    credit: int
    rate: float | None
    """Messages per second of all producers together; None: as many as the broker takes."""
    timeout_s: float
    run: int
    """Tells our messages from others'."""

    @property
    def copies(self) -> int:
        """How often each message is delivered."""
        return self.consumers if self.capability == "topic" else 1

    def share(self, producer: int) -> int:
        """Messages that a producer sends."""
        return self.count // self.producers + (producer < self.count % self.producers)


class Violation(Exception):
    """The broker, or somebody else on the same destination, did what it must not."""


class Ledger:
    """Which messages have come, and how long they took."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.received = 0
        self.latencies: array[int] = array("Q")
        """Nanoseconds, in order of arrival."""
        shares = [plan.share(number) for number in range(plan.producers)]
        self._seen = [[bytearray(share) for share in shares] for _ in range(plan.copies)]
        self._expected = [[0] * plan.producers for _ in range(plan.consumers)]

    def take(self, consumer: int, body: bytes, now_ns: int) -> None:
        """One message came. Raises Violation."""
        if len(body) < SMALLEST_SIZE:
            raise Violation("a message that is not ours: the destination must be empty, and used by nobody else")
        run, producer, number, sent_ns = STAMP.unpack_from(body)
        if run != self.plan.run:
            raise Violation("a message that is not ours: the destination must be empty, and used by nobody else")
        expected = self._expected[consumer]
        seen = self._seen[consumer if len(self._seen) > 1 else 0][producer]
        if seen[number]:
            raise Violation(f"message {number} of producer {producer} came twice")
        if number < expected[producer]:
            raise Violation(f"message {number} of producer {producer} came behind {expected[producer] - 1}")
        seen[number] = 1
        expected[producer] = number + 1
        self.received += 1
        self.latencies.append(max(now_ns - sent_ns, 0))

    @property
    def wanted(self) -> int:
        """Deliveries that make it complete."""
        return self.plan.count * self.plan.copies

    @property
    def is_complete(self) -> bool:
        """Whether every message has come: none comes twice, so counting is enough."""
        return self.received == self.wanted


def quantile(ordered: Sequence[int], part: float) -> int:
    """The smallest value that `part` of all values do not exceed; 0 of none."""
    return ordered[max(math.ceil(part * len(ordered)) - 1, 0)] if ordered else 0


class PerfProducer(SenderLinkHandler):
    """Sends its share as fast as credit, window and pace allow."""

    def __init__(self, run: "Run", number: int, link: SenderLink) -> None:
        self._run: Final = run
        self._number: Final = number
        self._link: Final = link
        self._plan: Final = run.plan
        self._is_planned = False
        size = self._plan.size
        length = bytes((0xA0, size)) if size < 256 else b"\xb0" + size.to_bytes(4, "big")
        self._head: Final = header_bytes(self._plan.durable, DEFAULT_PRIORITY, -1, False, 0) + b"\x00\x53\x75" + length
        self._filler: Final = bytes(size - STAMP.size)
        self.share: Final = self._plan.share(number)
        self.allowed = self.share if self._plan.rate is None else 0
        """How many may have been sent by now, as the pace has it."""
        self.sent = 0
        self.settled = 0

    @property
    def is_done(self) -> bool:
        """Whether everything was sent, and accepted if it is not settled."""
        return self.sent == self.share and (self._plan.settled or self.settled == self.share)

    def on_credit(self, link: SenderLink) -> None:
        """The broker takes more."""
        self.plan_turn()

    def on_disposition(self, link: SenderLink, delivery_id: int, token: object, state: object, settled: bool) -> None:
        """The broker's word on one message."""
        if state != ACCEPTED_CODE:
            self._run.fail(Violation(f"message {token} of producer {self._number} was not accepted: {state}"))
            return
        self.settled += 1
        if self.sent < self.allowed:
            self.plan_turn()
        elif self.is_done:
            self._run.check()

    def plan_turn(self) -> None:
        """Send when the loop comes round: what arrives until then is answered in one batch."""
        if not self._is_planned:
            self._is_planned = True
            self._run.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_planned = False
        plan, link = self._plan, self._link
        left = min(self.allowed - self.sent, BATCH)
        if not plan.settled:
            left = min(left, plan.window - (self.sent - self.settled))
        while left > 0 and link.can_send:
            stamp = STAMP.pack(plan.run, self._number, self.sent, time.perf_counter_ns())
            link.send(self._head, stamp + self._filler, self.sent, plan.settled)
            self.sent += 1
            left -= 1
        if left == 0 and self.sent < self.allowed and (plan.settled or self.sent - self.settled < plan.window):
            self.plan_turn()


class PerfConsumer(ReceiverLinkHandler):
    """Receives, accepts, and enters what came into the ledger."""

    def __init__(self, run: "Run", number: int, link: ReceiverLink) -> None:
        self._run: Final = run
        self._number: Final = number
        self._link: Final = link
        self._low: Final = run.plan.credit // 2
        link.grant(run.plan.credit)

    def on_transfer(
        self,
        link: ReceiverLink,
        delivery_id: int,
        tag: bytes,
        payload: bytes,
        settled: bool,
        message_format: int,
        state: object,
        resume: bool,
    ) -> None:
        """One message: the body is what is last in it."""
        run = self._run
        try:
            run.ledger.take(self._number, payload[-run.plan.size :], time.perf_counter_ns())
        except Violation as violation:
            run.fail(violation)
            return
        if not settled:
            link.session.settle_incoming(delivery_id, delivery_id, ACCEPTED_STATE, True)
        if link.credit <= self._low:
            link.grant(run.plan.credit)
        if run.ledger.is_complete:
            run.check()

    def on_settled(self, link: ReceiverLink, delivery_id: int, tag: bytes) -> None:
        """Only with rcv-settle-mode second, which we do not ask for."""


class Run:
    """One measurement."""

    def __init__(self, plan: Plan) -> None:
        self.plan: Final = plan
        self.loop: Final = asyncio.get_running_loop()
        self.ledger: Final = Ledger(plan)
        self._clients: Final[list[Client]] = []
        self._producers: Final[list[PerfProducer]] = []
        self._done: Final[asyncio.Future[None]] = self.loop.create_future()
        self.elapsed_s = 0.0

    def fail(self, error: Exception) -> None:
        """End the run; the first reason counts."""
        if not self._done.done():
            self._done.set_exception(error)

    def check(self) -> None:
        """End the run if everything has come and was settled."""
        if self.ledger.is_complete and all(producer.is_done for producer in self._producers):
            if not self._done.done():
                self._done.set_result(None)

    async def measure(self, progress: Progress) -> None:
        """Consumers first, then producers, then wait. Raises Violation, ClientError."""
        plan = self.plan
        capabilities = (Symbol(plan.capability),)
        try:
            for number in range(plan.consumers):
                client = await self._connect()
                receiver = await client.attach_receiver(plan.address, capabilities, plan.settled)
                receiver.handler = PerfConsumer(self, number, receiver)
            for number in range(plan.producers):
                client = await self._connect()
                sender = await client.attach_sender(plan.address, capabilities, plan.settled)
                producer = PerfProducer(self, number, sender)
                sender.handler = producer
                self._producers.append(producer)
            started_at = self.loop.time()
            for producer in self._producers:
                producer.plan_turn()
            pacing = None if plan.rate is None else self.loop.create_task(self._pace(plan.rate))
            try:
                await self._wait(started_at, progress)
            finally:
                self.elapsed_s = self.loop.time() - started_at
                if pacing is not None:
                    pacing.cancel()
        finally:
            await asyncio.gather(*(client.close() for client in self._clients))

    async def _connect(self) -> Client:
        parts = urlsplit(self.plan.target.url)
        assert parts.hostname is not None
        assert parts.port is not None
        target = self.plan.target
        tls = ssl.create_default_context(cafile=target.ca) if parts.scheme == "amqps" else None
        client = await Client.connect(parts.hostname, parts.port, self.fail, target.user, target.password, tls)
        self._clients.append(client)
        return client

    async def _pace(self, rate: float) -> None:
        """Allow what is due, shared evenly."""
        started_at = self.loop.time()
        while True:
            due = int((self.loop.time() - started_at) * rate)
            for producer in self._producers:
                producer.allowed = min(-(-due // self.plan.producers), producer.share)
                producer.plan_turn()
            await asyncio.sleep(PACE_S)

    async def _wait(self, started_at: float, progress: Progress) -> None:
        """Until done; a run in which nothing arrives any more has failed."""
        received, since = 0, self.loop.time()
        while not self._done.done():
            await asyncio.wait((self._done,), timeout=TICK_S)
            now = self.loop.time()
            progress.show(self.ledger.received, now - started_at)
            if self.ledger.received != received:
                received, since = self.ledger.received, now
            elif now - since > self.plan.timeout_s:
                self.fail(Violation(f"nothing came for {self.plan.timeout_s:g} s"))
        await self._done

    def figures(self) -> dict[str, Any]:
        """What was measured; times in milliseconds."""
        ordered = sorted(self.ledger.latencies)
        elapsed_s = self.elapsed_s
        latency = {name: quantile(ordered, part) / 1e6 for name, part in QUANTILES.items()}
        return {
            "sent": sum(producer.sent for producer in self._producers),
            "received": self.ledger.received,
            "wanted": self.ledger.wanted,
            "seconds": elapsed_s,
            "received_per_s": self.ledger.received / elapsed_s if elapsed_s > 0 else 0.0,
            "latency_ms": latency | {"max": ordered[-1] / 1e6 if ordered else 0.0},
        }


def report(figures: dict[str, Any], failure: str | None) -> str:
    """The figures for people."""
    latency = ", ".join(f"{name} {value:.3f} ms" for name, value in figures["latency_ms"].items())
    verdict = "every message once and in order" if failure is None else f"FAILED: {failure}"
    return (
        f"received {figures['received']} of {figures['wanted']} messages in {figures['seconds']:.2f} s, "
        f"{figures['received_per_s']:,.0f}/s\n"
        f"from send to receipt: {latency}\n"
        f"verified: {verdict}"
    )


@click.command()
@target_options
@click.option("--destination", default="queue://PERF", show_default=True, help="queue://X or topic://X; must be empty.")
@click.option("--count", type=click.IntRange(min=1), default=100_000, show_default=True, help="Messages in all.")
@click.option("--size", type=click.IntRange(min=SMALLEST_SIZE), default=100, show_default=True, help="Octets per body.")
@click.option("--producers", type=click.IntRange(1, 1000), default=1, show_default=True, help="Each with a connection.")
@click.option("--consumers", type=click.IntRange(1, 1000), default=1, show_default=True, help="Each with a connection.")
@click.option("--durable", is_flag=True, help="Messages ask to survive a restart.")
@click.option("--settled", is_flag=True, help="Fire and forget: neither side acknowledges.")
@click.option(
    "--window", type=click.IntRange(min=1), default=1000, show_default=True, help="Unconfirmed messages per producer."
)
@click.option(
    "--credit", type=click.IntRange(min=1), default=1000, show_default=True, help="Messages ahead, per consumer."
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Messages per second; without it the most.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Give up when nothing came for so many seconds.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def perf(destination: str, as_json: bool, **options: Any) -> None:
    """Measure a broker: rate, time from send to receipt, order and completeness.

    The exit code is 1 if a message was lost, came twice or out of order.
    """
    address, capability = parse_destination(destination)
    run_id = int.from_bytes(os.urandom(4), "big")
    plan = Plan(address=address, capability=capability or "queue", run=run_id, **options)
    figures, failure = asyncio.run(_measure(plan))
    if as_json:
        print_json(figures | {"failure": failure})
    else:
        click.echo(report(figures, failure))
    if failure is not None:
        raise click.exceptions.Exit(Failed.exit_code)


async def _measure(plan: Plan) -> tuple[dict[str, Any], str | None]:
    """Figures, and what was wrong. Raises NotConnected, Failed."""
    run = Run(plan)
    with Progress("received", run.ledger.wanted) as progress:
        try:
            await run.measure(progress)
        except Violation as violation:
            return run.figures(), str(violation)
        except ConnectionFailed as error:
            if error.condition == "amqp:unauthorized-access":
                raise Failed(f"{plan.target.url}: login refused: {error}") from None
            raise NotConnected(f"{plan.target.url}: {error}") from None
        except ClientError as error:
            raise Failed(f"{plan.address}: {error}") from None
    return run.figures(), None
