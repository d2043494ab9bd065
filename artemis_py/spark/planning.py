"""Planning in the driver: find the queues, ask the broker for their heads, decide where to begin."""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from artemis_amqp.engine.extensions import SEQUENCE_RANGE
from artemis_py.spark.connection import Broker, Connection, Result
from artemis_py.spark.errors import Refused
from artemis_py.spark.management import Heads, Lease, Management, subscribe
from artemis_py.spark.offsets import Offset, Position, earliest, latest
from artemis_py.spark.options import ReadOptions

QUEUES_PER_SEARCH: Final = 100
"""Queues for which the broker looks for a time in one request."""


class Queues(Protocol):
    """Queues of a stream, in a broker that numbers messages, or in files."""

    def heads(self) -> Heads:
        """Return where each queue begins and ends. Raises SparkError."""

    def heads_for(self, begin: Offset, lease_s: float) -> Heads:
        """Return as `heads`, and reserve the queues for `lease_s` for a query that is at `begin`. Raises SparkError."""

    def release(self, begin: Offset) -> None:
        """Release the queues, because the query does not continue. Raises SparkError."""

    def start(self, heads: Heads) -> Offset:
        """Return where a new query begins. Raises InvalidOffset."""

    def acknowledge(self, offset: Offset) -> None:
        """Acknowledge everything before `offset`. Raises SparkError."""


class Planner:
    """Queues of a query in a broker; each call opens a connection, and another one if it breaks."""

    def __init__(self, options: ReadOptions) -> None:
        self._options: Final = options
        self._broker: Final = Broker(options.connection)

    def heads(self) -> Heads:
        """Return the heads of the query's queues; a missing subscription is created. Raises SparkError."""
        return self._run(self._names(), self._heads)

    def heads_for(self, begin: Offset, lease_s: float) -> Heads:
        """Return as `heads`, with a lease on subscriptions that are acknowledged. Raises SparkError, Refused if another
        query has it.

        An offset that a user wrote has no reader, and gets no lease.
        """
        options = self._options
        if options.mode != "subscription" or options.ack == "none" or not begin.reader:
            return self.heads()
        lease = Lease(holder=begin.reader, duration_s=lease_s)
        return self._run(self._names(), lambda connection: self._heads(connection, lease))

    def release(self, begin: Offset) -> None:
        """End the lease, with one try only, because it also ends by itself. Raises SparkError."""
        if self._options.mode == "subscription" and begin.reader:
            queues = [key.partition("|")[2] for key in begin.positions]
            with self._broker.connect() as connection:
                self._management(connection).release(queues, begin.reader)

    def acknowledge(self, offset: Offset) -> None:
        """Acknowledge everything before `offset`. Raises SparkError."""
        by_node: dict[str, list[tuple[str, int, int, int]]] = {}
        for key, position in offset.positions.items():
            node, _, queue = key.partition("|")
            by_node.setdefault(node, []).append((queue, position.queue_id, position.next, offset.since(key)))
        for node, positions in by_node.items():
            names = ", ".join(queue for queue, *_ in positions)
            self._run(names, partial(self._acknowledge, node, positions))

    def _acknowledge(self, node: str, positions: list[tuple[str, int, int, int]], connection: Connection) -> None:
        self._management(connection).acknowledge(positions, node)

    def _names(self) -> str:
        """Return the names in the options, for an error."""
        options = self._options
        return ", ".join((*options.queues, *options.addresses, *filter(None, (options.address_pattern,))))

    def _run(self, names: str, work: Callable[[Connection], Result]) -> Result:
        """Run `work`; a refusal by the broker is raised with the names of the queues."""
        try:
            return self._broker.run(work)
        except Refused as error:
            # The class distinguishes a missing queue from a missing permission.
            raise type(error)(f"{names}: {error}") from None

    def _management(self, connection: Connection) -> Management:
        return Management(connection, self._options.connection.idle_timeout_s)

    def _heads(self, connection: Connection, lease: Lease | None = None) -> Heads:
        options = self._options
        if SEQUENCE_RANGE not in connection.offered:
            # Checked before a subscription is created that no query would read.
            raise Refused(
                f"mode={options.mode} needs a broker that numbers messages, as artemis_py does; this one can be read "
                "with mode=drain in a batch, and mode=spool in a stream"
            )
        management = self._management(connection)
        if options.mode == "browse":
            addresses = (*options.addresses, *((options.address_pattern,) if options.address_pattern else ()))
            return management.heads(options.queues, addresses)
        assert options.subscription is not None
        addresses = options.addresses
        if options.address_pattern:
            addresses = (options.address_pattern,)
        queues = [subscribe(connection, address, options.subscription) for address in addresses]
        return management.heads(queues, lease=lease)

    def start(self, heads: Heads) -> Offset:
        """Return where a new query begins. Raises InvalidOffset, SparkError."""
        if self._options.starting_timestamp_ms is not None:
            return self.since(heads, self._options.starting_timestamp_ms)
        text = self._options.starting_offsets
        if text == "earliest":
            return earliest(heads)
        return latest(heads) if text == "latest" else Offset.read(text)

    def end(self, heads: Heads) -> Offset:
        """Return where a batch query ends. Raises InvalidOffset, SparkError."""
        if self._options.ending_timestamp_ms is not None:
            return self.since(heads, self._options.ending_timestamp_ms)
        text = self._options.ending_offsets
        return latest(heads) if text == "latest" else Offset.read(text)

    def _search(self, queues: list[str], time_ms: int, connection: Connection) -> Heads:
        return self._management(connection).heads(queues, time_ms=time_ms)

    def since(self, heads: Heads, time_ms: int) -> Offset:
        """Return the first messages of a time, no further than `heads`. Raises SparkError."""
        names = [f"{head.address}::{head.queue}" for head in heads.queues]
        numbers: dict[int, int] = {}
        for index in range(0, len(names), QUEUES_PER_SEARCH):
            some = names[index : index + QUEUES_PER_SEARCH]
            found = self._run(", ".join(some), partial(self._search, some, time_ms))
            numbers |= {head.queue_id: head.since for head in found.queues}
        return Offset(
            {
                key: Position(position.queue_id, min(position.next, numbers.get(position.queue_id, position.next)))
                for key, position in latest(heads).positions.items()
            }
        )
