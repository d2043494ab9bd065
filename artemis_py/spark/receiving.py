"""Reading a range of a queue, or draining a queue: attach, credit, and how the end is recognised.

The range is requested with the source filter `artemis:sequence-range:list` in distribution mode `copy`: deliveries are
sent settled, in the order of their numbers, and the broker says that there are no more by returning the credit of a
draining link (AMQP 1.0 §2.6.7). Only that is the end: a delivery in several frames uses its credit with the first of
them, and is complete with the last. `reading` asks the broker about numbers that are missing in between.
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
"""Limits of one Arrow batch: beyond 10,000 rows Spark gets slower, and a batch of large bodies must fit into memory."""

SHORT_ROUND: Final = 10
"""A round of a drain is short if it brings less than one part in this many of its credit: its messages were sent just
now. A queue that is read from disk has some full rounds between short ones."""
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
    """Broker that gave the numbers; empty if unknown."""

    @property
    def count(self) -> int:
        """Number of messages, if none is missing."""
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.address}::{self.queue} (queue id {self.queue_id}) [{self.start}, {self.stop})"


class Arrivals(ReceiverLinkHandler):
    """Deliveries that arrived, kept until `take`."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.ids: list[int] = []
        """Delivery-ids of the payloads, without aborted deliveries."""
        self.size = 0
        self.count = 0

    def on_transfer(self, link: ReceiverLink, delivery: TransferFrame) -> None:
        """Keep one complete delivery."""
        self.payloads.append(delivery.payload)
        self.ids.append(delivery.delivery_id)
        self.size += len(delivery.payload)
        self.count += 1

    def on_settled(self, link: ReceiverLink, delivery_id: int, tag: bytes) -> None:
        """Do nothing: called only with rcv-settle-mode second, which we do not ask for."""

    def take(self) -> list[bytes]:
        """Return the deliveries since the last call, and forget them."""
        payloads, self.payloads, self.ids, self.size = self.payloads, [], [], 0
        return payloads


def runs(ids: list[int]) -> list[tuple[int, int]]:
    """Return the first and last of each run of consecutive delivery-ids, which are numbers of 32 bits."""
    found: list[tuple[int, int]] = []
    for id in ids:
        if found and id == (found[-1][1] + 1) & 0xFFFFFFFF:
            found[-1] = (found[-1][0], id)
        else:
            found.append((id, id))
    return found


class DrainingLink:
    """A link that delivers all messages of its source, and then reports that there are no more."""

    def __init__(
        self,
        connection: Connection,
        address: str,
        credit: int,
        filters: dict[Symbol, object],
        settle_mode: int,
        distribution_mode: str | None = None,
    ) -> None:
        """Attach. Raises Refused, also if the broker does not know a filter, and ConnectionLost."""
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
        """Part of the returned credit that has been taken into account."""
        link.handler = self._arrivals

    def batches(self, timeout_s: float) -> Iterator[list[bytes]]:
        """Yield deliveries in batches of a few thousand, until the broker says that there are no more.

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
                # The caller may have worked on the batch for long: the broker was not silent for that time.
                heard_at = time.monotonic()
        connection.check(link)
        if arrivals.payloads:
            yield from self._hand_out()

    def detach(self) -> None:
        """Detach; messages that we did not accept return to the source."""
        self._connection.detach(self._link, closes=True)

    def _top_up(self) -> None:
        """Grant more credit: our broker returns credit only at the end of a range, so some must always be left."""
        if self._link.credit <= self._credit // 2 and self._link.granting < 0 and not self._is_exhausted():
            self._link.grant(self._credit, drain=True)

    def _progress(self) -> tuple[int, int, int]:
        """Return numbers that change if anything arrives, even one frame of a delivery of thousands."""
        return self._arrivals.count, self._link.arriving, self._link.returned

    def _is_exhausted(self) -> bool:
        """Tell whether the broker returned credit, and all deliveries that it sent before are complete."""
        return self._link.returned != self._returned and self._link.arriving < 0

    def _is_silent(self, timeout_s: float) -> None:
        """Raise ConnectionLost: nothing arrived for `timeout_s`."""
        raise ConnectionLost(f"reading {self._address}: nothing came for {timeout_s:g} s")

    def _hand_out(self) -> Iterator[list[bytes]]:
        yield self._arrivals.take()


class RangeLink(DrainingLink):
    """Link that reads one range, in the order of its numbers."""

    def __init__(self, connection: Connection, part: Range, start: int, selector: str | None, credit: int) -> None:
        """Attach, to read from `start` within the range. Raises Refused, ConnectionLost."""
        filters: dict[Symbol, object] = {SEQUENCE_RANGE: Described(SEQUENCE_RANGE, [start, part.stop, part.queue_id])}
        if selector is not None:
            filters |= selector_filter(selector)
        super().__init__(connection, f"{part.address}::{part.queue}", credit, filters, SETTLED, "copy")


class DrainLink(DrainingLink):
    """Link that removes messages from a queue of any AMQP 1.0 broker until it is empty.

    A batch is accepted when the caller asks for the next one.
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
        """Attach; `settled`: the broker forgets a message when it has sent it.

        With `max_messages` no more are requested, and a queue into which others send all the time counts as empty when
        only that trickle is left. Raises Refused, ConnectionLost.
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
        """Whether it ended because there were no more messages, not because of the limit."""

    def _is_exhausted(self) -> bool:
        return self._is_done

    def _top_up(self) -> None:
        """Grant credit in rounds, because a drain is answered for all credit so far: Artemis 2.40 returned credit that
        was granted on top of a drain, and still had thousands of messages. Two rounds without a message are the end:
        with other consumers on the queue, a broker may have none for us in a single round.
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
        """Treat silence as the end, because some brokers do not answer a drain; but not in the middle of a delivery."""
        if self._link.arriving >= 0:
            super()._is_silent(timeout_s)
        self.is_empty = True

    def _hand_out(self) -> Iterator[list[bytes]]:
        ids, payloads = self._arrivals.ids, self._arrivals.take()
        yield payloads
        if not self._settled:
            # Only the deliveries that were handed out: an aborted or incomplete one in between is not ours to settle.
            for first, last in runs(ids):
                self._link.session.settle_incoming(first, last, ACCEPTED_STATE, True)
