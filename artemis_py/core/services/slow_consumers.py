"""Slow consumers: those that acknowledge less than the settings of their address demand (docs/notifications.md).

A timer looks at numbers that every consumer has anyway, so nothing is done for a message, and nothing at all while no
settings have a threshold. A consumer is slow if it had enough to do from one look to the next, and did less:

    demanded    `slow-consumer-threshold`, for the time since the last look
    to do       what it has not settled, and its share of what waits behind that, at both looks
    done        what it acknowledged in between

Artemis also counts consumers as slow to which nothing was delivered, or whose client had asked for nothing. This broker
does not. It does not count a consumer with a large message either, which may still be arriving, nor one whose last look
was so recent that less than one message was demanded.
"""

from typing import Final

from attrs import frozen

from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.runtime.background import SLICE_MESSAGES, Steps
from artemis_py.core.runtime.events import ConsumerSlow
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.core.sessions.telling import facts_of
from artemis_py.core.settings.address_settings import ResolvedSettings, SlowConsumerPolicy, SlowConsumerUnit

DEFAULT_PERIOD_S: Final = ResolvedSettings().slow_consumer_check_period

UNITS: Final = {
    SlowConsumerUnit.MESSAGES_PER_SECOND: (1_000, "second"),
    SlowConsumerUnit.MESSAGES_PER_MINUTE: (60_000, "minute"),
    SlowConsumerUnit.MESSAGES_PER_HOUR: (3_600_000, "hour"),
    SlowConsumerUnit.MESSAGES_PER_DAY: (86_400_000, "day"),
}
"""Milliseconds and name of each unit."""


@frozen
class _Look:
    """One consumer at one moment."""

    accepted: int
    to_do: int
    steady_ms: int


class SlowConsumers:
    """Looks at the consumers of one domain, on the timers of its dispatcher; follows the settings by itself."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions: Final = sessions
        self._domain: Final = sessions.domain
        self._timers: Final[dict[int, Timer]] = {}
        """The next look, by `slow-consumer-check-period`."""
        self._looks: Final[dict[int, dict[int, _Look]]] = {}
        """The last look at each consumer by its id, by `slow-consumer-check-period`."""
        self._looking: Final[set[int]] = set()
        """Periods whose look is under way."""
        self._is_stopped = False
        self._domain.settings.on_change(self._follow)
        self._follow()

    def stop(self) -> None:
        """Look at nothing more."""
        self._is_stopped = True
        self._plan(frozenset())

    def _follow(self) -> None:
        """Have looks in the periods that settings name, if one of them has a threshold."""
        layers = self._domain.settings.layers()
        periods: set[int] = set()
        if not self._is_stopped and any((each.slow_consumer_threshold or 0) > 0 for each in layers):
            periods = {each.slow_consumer_check_period or DEFAULT_PERIOD_S for each in layers}
        self._plan(periods)

    def _plan(self, periods: set[int] | frozenset[int]) -> None:
        for period_s in [each for each in self._timers if each not in periods]:
            self._timers.pop(period_s).cancel()
            self._looks.pop(period_s, None)
        for period_s in periods:
            if period_s not in self._timers:
                self._repeat(period_s)

    def _repeat(self, period_s: int) -> None:
        self._timers[period_s] = self._domain.dispatcher.after(period_s * 1000, lambda: self._tick(period_s))

    def _tick(self, period_s: int) -> None:
        self._repeat(period_s)
        if period_s not in self._looking:
            self._looking.add(period_s)
            self._domain.dispatcher.slices.start(self._look(period_s))

    def _look(self, period_s: int) -> Steps:
        """Look at each consumer that is to be looked at in this period, in slices."""
        before = self._looks.get(period_s, {})
        found: dict[int, _Look] = {}
        left = SLICE_MESSAGES
        for session in list(self._sessions.opened.values()):
            left -= 1
            for consumer in list(session.consumers.values()):
                left -= 1
                settings = consumer.queue.address.settings
                if (
                    settings.slow_consumer_threshold > 0
                    and settings.slow_consumer_check_period == period_s
                    and not consumer.is_browser
                    and not consumer.is_closed
                ):
                    found[consumer.id] = self._compare(session, consumer, settings, before.get(consumer.id))
            if left <= 0:
                left = SLICE_MESSAGES
                yield None
        self._looking.discard(period_s)
        if period_s in self._timers:
            self._looks[period_s] = found
        return None

    def _compare(self, session: Session, consumer: Consumer, settings: ResolvedSettings, before: _Look | None) -> _Look:
        """Compare a consumer with the last look at it; return what the next look is to be compared with."""
        now = _Look(consumer.accepted, _to_do(consumer), self._domain.dispatcher.steady_ms)
        if before is None:
            return now
        span_ms = now.steady_ms - before.steady_ms
        unit_ms = UNITS[settings.slow_consumer_threshold_measurement_unit][0]
        demanded = settings.slow_consumer_threshold * span_ms / unit_ms
        if demanded < 1:
            # One message would be enough, and it may still come in time.
            return before
        done = now.accepted - before.accepted
        if done < demanded <= before.to_do and now.to_do >= demanded - done and not _has_large(consumer):
            self._is_slow(session, consumer, settings, done, span_ms)
        return now

    def _is_slow(
        self, session: Session, consumer: Consumer, settings: ResolvedSettings, done: int, span_ms: int
    ) -> None:
        """Tell of a slow consumer, and end its connection if that is the policy."""
        queue = consumer.queue
        unit = UNITS[settings.slow_consumer_threshold_measurement_unit][1]
        demand = f"{settings.slow_consumer_threshold} messages per {unit}"
        ends = settings.slow_consumer_policy is SlowConsumerPolicy.KILL and session.client is not None
        self._domain.events.emit(
            ConsumerSlow(
                consumer.id,
                queue.name,
                queue.address.name,
                session.id,
                queue.consumer_count,
                facts_of(session),
                done,
                span_ms,
                demand,
                ends,
            )
        )
        if ends:
            session.disconnect(
                f"consumer of queue '{queue.name}' is too slow: it acknowledged {done} messages in "
                f"{span_ms / 1000:.1f} s, and {demand} are demanded"
            )


def _to_do(consumer: Consumer) -> int:
    """Return how many messages a consumer could acknowledge: those that it has, and those that wait for it to go on.

    What waits counts if the consumer takes nothing more because of what it has, or because its client does not read. It
    does not count if the queue may have other reasons to keep it: a selector, a group, a pause, a client that asks for
    nothing.
    """
    held = consumer.outstanding.count + len(consumer.shown)
    queue = consumer.queue
    is_busy = (held > 0 and (consumer.credit <= 0 or consumer.blocked)) or (consumer.presettled and consumer.blocked)
    if is_busy and consumer.cursor is None and not queue.paused and not queue.address.paused:
        held += queue.waiting_count // max(queue.consumer_count, 1)
    return held


def _has_large(consumer: Consumer) -> bool:
    """Tell whether a consumer's oldest delivery is large: it may still be on its way."""
    oldest = consumer.outstanding.oldest
    if oldest is None:
        oldest = next(iter(consumer.shown.values()), None)
    return oldest is not None and oldest.message.large is not None
