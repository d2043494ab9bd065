"""Who reads a queue by numbers for as long as nobody else may.

A reader that acknowledges what it has read must be the only one of its queue: of two each would remove what the other
has not read. A lease is renewed with every request of its holder and ends by itself, for a client that dies says
nothing. It is a promise among readers: consumers and browsers are not kept away, and a broker that starts again knows
of none.
"""

from collections.abc import Iterable
from typing import Final

from attrs import frozen

from artemis_py.core.queues.queue import Queue
from artemis_py.errors import InUse

MAX_LEASE_S: Final = 24 * 3600.0
"""A reader that says nothing for a day is gone."""


@frozen
class Lease:
    """One queue's holder."""

    holder: str
    """What the reader calls itself: the same after it was started again."""
    client: str
    """User and network address, for those who are refused."""
    until_ms: int


class Leases:
    """The leases of one broker, by queue id; as many as there are queues at most."""

    def __init__(self) -> None:
        self._leases: dict[int, Lease] = {}

    def take(self, queues: Iterable[Queue], lease: Lease, now_ms: int) -> None:
        """Take all of these queues or renew their leases. Raises InUse if another holder has one of them."""
        self._leases = {id: each for id, each in self._leases.items() if each.until_ms > now_ms}
        wanted = list(queues)
        for queue in wanted:
            other = self._leases.get(queue.id)
            if other is not None and other.holder != lease.holder:
                left_s = (other.until_ms - now_ms + 999) // 1000
                raise InUse(
                    f"queue '{queue.name}' is leased to reader {other.holder} of {other.client}, for {left_s} s if it "
                    "does not renew it"
                )
        self._leases |= {queue.id: lease for queue in wanted}

    def release(self, queues: Iterable[Queue], holder: str) -> int:
        """End what the holder has of these; how many."""
        held = [queue.id for queue in queues if queue.id in self._leases and self._leases[queue.id].holder == holder]
        for id in held:
            del self._leases[id]
        return len(held)
