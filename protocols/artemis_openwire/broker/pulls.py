"""Requests of a consumer without prefetch, each for one message (openwire §14.5)."""

from functools import partial
from typing import TYPE_CHECKING, Final

from artemis_py.core.runtime.timers import Timer

if TYPE_CHECKING:
    from artemis_openwire.broker.consumers import ClientConsumer

# Requests that may wait. The Java client sends one at a time.
MAX_PULLS: Final = 1024


class _Pull:
    """One request; it is ended by a message, or at its deadline."""

    __slots__ = ("is_late", "timer")

    def __init__(self) -> None:
        self.timer: Timer | None = None
        self.is_late: bool = False
        """Whether the client wants to be told now that there is nothing."""


class Pulls:
    """The requests of one consumer, in order."""

    def __init__(self, consumer: "ClientConsumer") -> None:
        self._consumer: ClientConsumer = consumer
        self._waiting: list[_Pull] = []

    def ask(self, timeout_ms: int) -> None:
        """Ask for a message: -1: now or never, 0: whenever there is one, above: within this time."""
        consumer = self._consumer
        if consumer.window.prefetch > 0 or len(self._waiting) >= MAX_PULLS:
            return
        pull = _Pull()
        self._waiting.append(pull)
        consumer.window.pulls = len(self._waiting)
        if timeout_ms > 0:
            host = consumer.exchange.handler.host
            pull.timer = host.after(timeout_ms, partial(self._late, pull))
        elif timeout_ms < 0:
            pull.is_late = True
            consumer.drain()
        consumer.update()

    def _late(self, pull: _Pull) -> None:
        """Look one last time: a message may wait for its turn."""
        pull.is_late = True
        self._consumer.drain()

    def served(self) -> None:
        """Note that a message was sent."""
        if self._waiting:
            pull = self._waiting.pop(0)
            if pull.timer is not None:
                pull.timer.cancel()
            self._consumer.window.pulls = len(self._waiting)
        if not any(pull.is_late for pull in self._waiting):
            self._consumer.stop_draining()

    def unserved(self) -> None:
        """Tell the client that there is nothing, once for each request whose time is over."""
        late = [pull for pull in self._waiting if pull.is_late]
        self._waiting = [pull for pull in self._waiting if not pull.is_late]
        self._consumer.window.pulls = len(self._waiting)
        for _ in late:
            self._consumer.writer.send_nothing()
        if late:
            self._consumer.exchange.handler.wake()

    def forget_all(self) -> None:
        """Plan nothing more: the consumer is closed."""
        for pull in self._waiting:
            if pull.timer is not None:
                pull.timer.cancel()
        self._waiting = []
