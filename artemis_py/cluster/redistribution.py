"""Which messages of a queue peers may take now, as load balancing and `redistribution-delay` say (mesh §3.4)."""

from typing import TYPE_CHECKING, Final

from artemis_py.core.settings.cluster_config import LoadBalancing

if TYPE_CHECKING:
    from artemis_py.cluster.local_queue import LocalQueue
    from artemis_py.cluster.taker import Taker

OFF_DELAY_MS: Final = 1000
"""`redistribution-delay` for OFF_WITH_REDISTRIBUTION if nothing is said."""


class Redistribution:
    """Opens and restricts the takers of one queue."""

    def __init__(self, local: "LocalQueue") -> None:
        self._local: Final = local
        self._samples: list[tuple[int, int]] = []
        """Times and the next sequence at them, to know which messages have waited long enough."""
        self._ripe = 1
        """Messages with a lower sequence have waited so long."""

    @property
    def keeps_what_waits(self) -> bool:
        """Whether only messages that come while a peer has a grant are handed over."""
        delay_ms = self._local.queue.address.settings.redistribution_delay
        return (
            delay_ms is not None and delay_ms < 0 and self._local.mesh.config.load_balancing is LoadBalancing.ON_DEMAND
        )

    def allows(self, taker: "Taker", now_ms: int) -> bool:
        """Tell whether a taker may have anything now, and restrict it to what it may have."""
        local = self._local
        delay_ms = local.queue.address.settings.redistribution_delay
        if local.mesh.departures.drain is not None:
            taker.restrict(False, 0, 0)
            return True
        if local.mesh.config.load_balancing is LoadBalancing.OFF_WITH_REDISTRIBUTION:
            if delay_ms is None:
                delay_ms = OFF_DELAY_MS
            return delay_ms >= 0 and self._may_redistribute(taker, delay_ms, now_ms)
        if self.keeps_what_waits:
            if taker.unused <= 0:
                # What waits now stays; the next grant is for what comes after it.
                taker.restrict(False, local.queue.next_sequence - 1, 0)
            return True
        taker.restrict(False, 0, 0)
        if not delay_ms or local.alone_since_ms < 0:
            return True
        if now_ms < local.alone_since_ms + delay_ms:
            local.wake_at(local.alone_since_ms + delay_ms)
            return False
        return True

    def _may_redistribute(self, taker: "Taker", delay_ms: int, now_ms: int) -> bool:
        """Let a taker have what no consumer here has wanted for the delay.

        When a message came is known from a few samples of the queue's next sequence, not for each message.
        """
        local = self._local
        own = local.own_consumers()
        if any(each.filter is None for each in own):
            self._samples = []
            self._ripe = 1
            return False
        samples = self._samples
        next_sequence = local.queue.next_sequence
        newest = samples[-1] if samples else (now_ms - delay_ms, self._ripe)
        if newest[1] != next_sequence:
            planned_ms = newest[0] + delay_ms // 4 if samples else now_ms
            if planned_ms <= now_ms:
                samples.append((now_ms, next_sequence))
            else:
                local.wake_at(planned_ms)
        while samples and samples[0][0] + delay_ms <= now_ms:
            self._ripe = samples.pop(0)[1]
        if samples:
            local.wake_at(samples[0][0] + delay_ms)
        taker.restrict(bool(own), 0, self._ripe)
        return True
