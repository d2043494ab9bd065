"""Reading a range of a queue: attach, credit, end of range, and going on after a broken connection.

The range is asked for with the source filter `artemis:sequence-range:list` in distribution mode `copy`: deliveries
come settled, in the order of their numbers, and the broker says when there is nothing more by giving the credit of a
draining link back (AMQP 1.0 §2.6.7). Only that is the end: a delivery in several frames has used its credit with the
first of them, and is there with the last. Numbers that are missing in between are what `reading` asks the broker about.
"""

import time
from collections.abc import Iterator
from typing import Final

from attrs import frozen

from artemis_amqp.client import (
    SETTLED,
    Accepted,
    Described,
    ReceiverLink,
    ReceiverLinkHandler,
    Source,
    Symbol,
    Target,
    TransferFrame,
    encode,
    selector_filter,
)
from artemis_amqp.engine.extensions import SEQUENCE_RANGE
from artemis_py.spark.connection import Connection
from artemis_py.spark.errors import ConnectionLost, Refused

ACCEPTED_STATE: Final = encode(Accepted())
_UNSETTLED: Final = 0

BATCH_MESSAGES: Final = 8192
BATCH_BYTES: Final = 4 * 1024 * 1024
"""Of one Arrow batch: beyond 10,000 rows Spark gets slower, and a batch of large bodies must fit into memory."""

SHORT_ROUND: Final = 10
"""A round of a drain that brings less than this part of its credit is short: what it brought was sent just now. A queue
that is read from disk brings some full rounds between them."""
MAX_SHORT_ROUNDS: Final = 20
EMPTY_ROUNDS: Final = 2


@frozen(kw_only=True)
class Range:
    """Part of a queue: the numbers from `start` up to, but not including, `stop`."""

    address: str
    queue: str
    queue_id: int
    start: int
    stop: int
    node: str = ""
    """The broker that gave the numbers; empty if nobody said so."""

    @property
    def count(self) -> int:
        """Messages, if none is missing."""
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.address}::{self.queue} (queue id {self.queue_id}) [{self.start}, {self.stop})"


class Arrivals(ReceiverLinkHandler):
    """Keeps what came until it is taken."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.ids: list[int] = []
        """Their delivery-ids. Those of aborted deliveries are not among them."""
        self.size = 0
        self.count = 0

    def on_transfer(self, link: ReceiverLink, delivery: TransferFrame) -> None:
        """One delivery, all of it."""
        self.payloads.append(delivery.payload)
        self.ids.append(delivery.delivery_id)
        self.size += len(delivery.payload)
        self.count += 1

    def on_settled(self, link: ReceiverLink, delivery_id: int, tag: bytes) -> None:
        """Only with rcv-settle-mode second, which we do not ask for."""

    def take(self) -> list[bytes]:
        """What came since the last call."""
        payloads, self.payloads, self.ids, self.size = self.payloads, [], [], 0
        return payloads


def runs(ids: list[int]) -> list[tuple[int, int]]:
    """The first and last of each run of ascending delivery-ids, which are numbers of 32 bits."""
    found: list[tuple[int, int]] = []
    for id in ids:
        if found and id == (found[-1][1] + 1) & 0xFFFFFFFF:
            found[-1] = (found[-1][0], id)
        else:
            found.append((id, id))
    return found


class DrainingLink:
    """A link that gives what its source has, and then says that there is nothing more."""

    def __init__(
        self,
        connection: Connection,
        address: str,
        credit: int,
        filters: dict[Symbol, object],
        settle_mode: int,
        distribution_mode: str | None = None,
    ) -> None:
        """Raises Refused, also if the broker does not know a filter, and ConnectionLost."""
        source = Source(address=address, distribution_mode=distribution_mode, filter=filters or None)
        link, answer = connection.attach(source, Target(), False, settle_mode)
        assert isinstance(link, ReceiverLink)
        applied = {} if answer.source is None else answer.source.filter or {}
        unknown = filters.keys() - applied.keys()
        if unknown:
            raise Refused(f"{address}: the broker does not know the filter {', '.join(sorted(unknown))}")
        self._connection: Final = connection
        self._link: Final = link
        self._address: Final = address
        self._credit: Final = credit
        self._arrivals: Final = Arrivals()
        self._returned = 0
        """How much of the credit that the broker gave back was noted."""
        link.handler = self._arrivals

    def batches(self, timeout_s: float) -> Iterator[list[bytes]]:
        """Deliveries in batches of a few thousand, until the broker says that there are no more.

        Raises ConnectionLost, also after `timeout_s` of silence.
        """
        link, arrivals, connection = self._link, self._arrivals, self._connection
        link.grant(self._credit, drain=True)
        heard_at = time.monotonic()
        before = self._progress()
        while not self._is_exhausted():
            connection.check(link)
            connection.exchange(max(heard_at + timeout_s - time.monotonic(), 0.0))
            if (progress := self._progress()) != before:
                before = progress
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at >= timeout_s and not self._is_exhausted():
                self._is_silent(timeout_s)
                break
            self._top_up()
            if len(arrivals.payloads) >= BATCH_MESSAGES or arrivals.size >= BATCH_BYTES:
                yield from self._hand_out()
                # What the batch was for may have taken long: the broker was not silent for that time.
                heard_at = time.monotonic()
        connection.check(link)
        if arrivals.payloads:
            yield from self._hand_out()

    def detach(self) -> None:
        """Let go of the source; what it sent and we did not accept goes back to it."""
        self._connection.detach(self._link, closes=True)

    def _top_up(self) -> None:
        """Our broker gives credit back only at the end of a range: there is always some on its way."""
        if self._link.credit <= self._credit // 2 and self._link.granting < 0 and not self._is_exhausted():
            self._link.grant(self._credit, drain=True)

    def _progress(self) -> tuple[int, int, int]:
        """Differs from what it was if anything came, be it one frame of a delivery of thousands."""
        return self._arrivals.count, self._link.arriving, self._link.returned

    def _is_exhausted(self) -> bool:
        """Whether the broker gave credit back, and nothing is left of what it sent before that."""
        return self._link.returned != self._returned and self._link.arriving < 0

    def _is_silent(self, timeout_s: float) -> None:
        """Nothing came for so long."""
        raise ConnectionLost(f"reading {self._address}: nothing came for {timeout_s:g} s")

    def _hand_out(self) -> Iterator[list[bytes]]:
        yield self._arrivals.take()


class RangeLink(DrainingLink):
    """Reads one range, in the order of its numbers."""

    def __init__(self, connection: Connection, part: Range, start: int, selector: str | None, credit: int) -> None:
        """From `start` within the range. Raises Refused, ConnectionLost."""
        filters: dict[Symbol, object] = {SEQUENCE_RANGE: Described(SEQUENCE_RANGE, [start, part.stop, part.queue_id])}
        if selector is not None:
            filters |= selector_filter(selector)
        super().__init__(connection, f"{part.address}::{part.queue}", credit, filters, SETTLED, "copy")


class DrainLink(DrainingLink):
    """Takes messages out of a queue of any AMQP 1.0 broker until it is empty.

    Whoever asks for the next batch has had the last one, which is accepted then.
    """

    def __init__(
        self,
        connection: Connection,
        address: str,
        selector: str | None,
        credit: int,
        settled: bool,
        max_messages: int | None = None,
    ) -> None:
        """`settled`: the broker forgets a message when it has sent it.

        With `max_messages` no more are asked for, and a queue into which others send all the time counts as empty when
        nothing but that trickle is left. Raises Refused, ConnectionLost.
        """
        filters = {} if selector is None else selector_filter(selector)
        first = credit if max_messages is None else min(credit, max_messages)
        super().__init__(connection, address, first, filters, SETTLED if settled else _UNSETTLED)
        self._settled: Final = settled
        self._max_messages: Final = max_messages
        self._round_credit = first
        self._round_start = 0
        self._short_rounds = 0
        self._empty_rounds = 0
        self._is_done = False
        self.is_empty = False
        """It ended because there was nothing more, not because of the limit."""

    def _is_exhausted(self) -> bool:
        return self._is_done

    def _top_up(self) -> None:
        """Credit in rounds, for a drain is answered for all credit there is by then: Artemis 2.40 gave back what was
        granted on top of a drain and had thousands of messages left. Rounds without a message are the end: two, for
        of a queue that is handed out to others as well a broker may have nothing for us at that moment only.
        """
        link, count = self._link, self._arrivals.count
        is_given_back = super()._is_exhausted()
        came = count - self._round_start
        if not is_given_back and came < self._round_credit:
            return
        self._short_rounds = self._short_rounds + 1 if came * SHORT_ROUND < self._round_credit else 0
        is_full = self._max_messages is not None and count >= self._max_messages
        self._empty_rounds = self._empty_rounds + 1 if came == 0 else 0
        is_trickle = self._max_messages is not None and self._short_rounds >= MAX_SHORT_ROUNDS
        self.is_empty = self._empty_rounds >= EMPTY_ROUNDS or is_trickle
        if is_full or self.is_empty:
            self._is_done = True
            return
        if is_given_back:
            self._returned = link.returned
        self._round_start = count
        if self._max_messages is not None:
            self._round_credit = min(self._credit, self._max_messages - count)
        link.grant(self._round_credit, drain=True)

    def _is_silent(self, timeout_s: float) -> None:
        """Some brokers do not answer a drain: silence is the end, but not in the middle of a delivery."""
        if self._link.arriving >= 0:
            super()._is_silent(timeout_s)
        self.is_empty = True

    def _hand_out(self) -> Iterator[list[bytes]]:
        ids, payloads = self._arrivals.ids, self._arrivals.take()
        yield payloads
        if not self._settled:
            # What was handed out and nothing between: a delivery that was aborted, or is on its way, is not ours.
            for first, last in runs(ids):
                self._link.session.settle_incoming(first, last, ACCEPTED_STATE, True)
