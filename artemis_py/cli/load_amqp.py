"""The load of `artemis-py perf` over AMQP 1.0."""

import asyncio
import time
from typing import Final
from urllib.parse import urlsplit

from artemis_amqp.client import (
    ACCEPTED_CODE,
    Accepted,
    ReceiverLink,
    ReceiverLinkHandler,
    SenderLink,
    SenderLinkHandler,
    Symbol,
    TransferFrame,
    encode,
    header_bytes,
)
from artemis_amqp.client.asyncio_client import Client
from artemis_py.cli.load import BATCH, STAMP, Plan, Run, Violation
from artemis_py.core.messages.message import DEFAULT_PRIORITY

ACCEPTED_STATE: Final = encode(Accepted())


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
        """Number of messages that the pace allows to have been sent by now."""
        self.sent = 0
        self.settled = 0

    @property
    def is_done(self) -> bool:
        """Whether everything was sent, and accepted unless it was sent settled."""
        return self.sent == self.share and (self._plan.settled or self.settled == self.share)

    def on_credit(self, link: SenderLink) -> None:
        """Plan to send more: the broker granted credit."""
        self.plan_turn()

    def on_disposition(self, link: SenderLink, delivery_id: int, token: object, state: object, settled: bool) -> None:
        """Count the broker's outcome for one message."""
        if state != ACCEPTED_CODE:
            self._run.fail(Violation(f"message {token} of producer {self._number} was not accepted: {state}"))
            return
        self.settled += 1
        if self.sent < self.allowed:
            self.plan_turn()
        elif self.is_done:
            self._run.check()

    def plan_turn(self) -> None:
        """Plan to send in the next iteration of the loop: what arrives until then is answered in one batch."""
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
    """Receives and accepts messages, and records them in the ledger."""

    def __init__(self, run: "Run", number: int, link: ReceiverLink) -> None:
        self._run: Final = run
        self._number: Final = number
        self._link: Final = link
        self._low: Final = run.plan.credit // 2
        link.grant(run.plan.credit)

    def on_transfer(self, link: ReceiverLink, delivery: TransferFrame) -> None:
        """Process one message; the body is its last part."""
        run = self._run
        try:
            run.ledger.take(self._number, delivery.payload[-run.plan.size :], time.perf_counter_ns())
        except Violation as violation:
            run.fail(violation)
            return
        if not delivery.is_settled:
            link.session.settle_incoming(delivery.delivery_id, delivery.delivery_id, ACCEPTED_STATE, True)
        if link.credit <= self._low:
            link.grant(run.plan.credit)
        if run.ledger.is_complete:
            run.check()

    def on_settled(self, link: ReceiverLink, delivery_id: int, tag: bytes) -> None:
        """Do nothing: this is only called with rcv-settle-mode second, which is not requested."""


class AmqpRun(Run):
    """A measurement with AMQP links."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._clients: Final[list[Client]] = []

    async def open(self) -> None:
        """Connect all consumers and producers. Raises ClientError."""
        plan = self.plan
        capabilities = (Symbol(plan.capability),)
        for number in range(plan.consumers):
            client = await self._connect()
            receiver = await client.attach_receiver(plan.address, capabilities, plan.settled)
            receiver.handler = PerfConsumer(self, number, receiver)
        for number in range(plan.producers):
            client = await self._connect()
            sender = await client.attach_sender(plan.address, capabilities, plan.settled)
            producer = PerfProducer(self, number, sender)
            sender.handler = producer
            self.producers.append(producer)

    async def close(self) -> None:
        """Disconnect all consumers and producers."""
        await asyncio.gather(*(client.close() for client in self._clients))

    async def _connect(self) -> Client:
        parts = urlsplit(self.plan.target.url)
        assert parts.hostname is not None
        assert parts.port is not None
        target = self.plan.target
        tls = target.tls() if parts.scheme == "amqps" else None
        client = await Client.connect(parts.hostname, parts.port, self.fail, target.user, target.password, tls)
        self._clients.append(client)
        return client
