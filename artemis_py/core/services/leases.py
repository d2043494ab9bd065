"""Leases: exclusive rights to read a queue by message numbers, for a limited time.

A reader that acknowledges what it has read must be the only one of its queue: with two, each would remove messages that
the other has not read. Every request of the holder renews its lease, and a lease ends by itself, because a client that
dies says nothing. It is an agreement among readers: consumers and browsers are not affected, and after a restart of the
broker there are no leases.
"""

from collections.abc import Iterable
from typing import Final

from attrs import frozen

from artemis_py.core.queues.queue import Queue
from artemis_py.errors import InUse

MAX_LEASE_S: Final = 24 * 3600.0
"""Limit of a lease: a reader that is silent for a day is gone."""


@frozen
class Lease:
    """A reader's lease."""

    holder: str
    """Name that the reader chose, which stays the same when it is restarted."""
    client: str
    """User and network address, for the error text to readers that are refused."""
    until_steady_ms: int
    """When it ends, as `Dispatcher.steady_ms` counts: a wall clock that is set neither ends nor extends it."""


class Leases:
    """The leases of one broker, by queue id; at most one for each queue."""

    def __init__(self) -> None:
        self._leases: dict[int, Lease] = {}

    def take(self, queues: Iterable[Queue], lease: Lease, steady_ms: int) -> None:
        """Lease all of these queues, or renew their leases. Raises InUse if another holder has one of them."""
        self._leases = {id: each for id, each in self._leases.items() if each.until_steady_ms > steady_ms}
        wanted = list(queues)
        for queue in wanted:
            other = self._leases.get(queue.id)
            if other is not None and other.holder != lease.holder:
                left_s = (other.until_steady_ms - steady_ms + 999) // 1000
                raise InUse(
                    f"queue '{queue.name}' is leased to reader {other.holder} of {other.client}, for {left_s} s if it "
                    "does not renew it"
                )
        self._leases |= {queue.id: lease for queue in wanted}

    def release(self, queues: Iterable[Queue], holder: str) -> int:
        """End the holder's leases of these queues; return how many it had."""
        held = [queue.id for queue in queues if queue.id in self._leases and self._leases[queue.id].holder == holder]
        for id in held:
            del self._leases[id]
        return len(held)
