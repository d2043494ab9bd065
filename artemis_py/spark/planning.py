"""What the driver does before anything is read: find the queues, ask where they stand, decide where to begin."""

from collections.abc import Callable
from typing import Final

from artemis_py.spark.connection import Broker, Connection, Result
from artemis_py.spark.errors import Refused
from artemis_py.spark.management import Heads, Management, subscribe
from artemis_py.spark.offsets import Offset, earliest, latest
from artemis_py.spark.options import ReadOptions
from artemis_py.spark.receiving import RANGE_FILTER


class Planner:
    """The driver's connection, made when it is needed and made anew when it broke."""

    def __init__(self, options: ReadOptions) -> None:
        self._options: Final = options
        self._broker: Final = Broker(options.connection)

    def heads(self) -> Heads:
        """Where the queues of the query stand; a subscription is made if it is not there. Raises SparkError."""
        options = self._options
        names = ", ".join((*options.queues, *options.addresses, *filter(None, (options.address_pattern,))))
        return self._run(names, self._heads)

    def acknowledge(self, offset: Offset) -> None:
        """The query is done with everything before `offset`. Raises SparkError."""
        positions = [
            (key.partition("|")[2], position.queue_id, position.next) for key, position in offset.positions.items()
        ]
        if positions:
            names = ", ".join(queue for queue, _, _ in positions)
            self._run(names, lambda connection: self._management(connection).acknowledge(positions))

    def _run(self, names: str, work: Callable[[Connection], Result]) -> Result:
        """What the broker refuses is a matter of these queues."""
        try:
            return self._broker.run(work)
        except Refused as error:
            # Its kind tells what is gone from what is forbidden.
            raise type(error)(f"{names}: {error}") from None

    def _management(self, connection: Connection) -> Management:
        return Management(connection, self._options.connection.idle_timeout_s)

    def _heads(self, connection: Connection) -> Heads:
        options = self._options
        if RANGE_FILTER not in connection.offered:
            # Before a subscription is made that nobody would read.
            raise Refused(
                f"mode={options.mode} needs a broker that numbers messages, as artemis_py does; this one can be read "
                f"with mode=drain"
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
        return management.heads(queues)

    def start(self, heads: Heads) -> Offset:
        """Where a query begins that has not read anything. Raises InvalidOffset."""
        text = self._options.starting_offsets
        if text == "earliest":
            return earliest(heads)
        return latest(heads) if text == "latest" else Offset.read(text)

    def end(self, heads: Heads) -> Offset:
        """Where a batch query ends. Raises InvalidOffset."""
        text = self._options.ending_offsets
        return latest(heads) if text == "latest" else Offset.read(text)
