"""Calls something again and again on the event loop."""

from collections.abc import Callable
from typing import Final

from artemis_py.transport.turn import Cancellable, Scheduler


class Repeated:
    """One function that is called from `start` to `stop`, each time after the delay that it asked for."""

    def __init__(self, loop: Scheduler, enter: Callable[[], object], action: Callable[[], float]) -> None:
        """`action` returns the seconds until its next call; `enter` is called before it and passes the time in."""
        self._loop: Final = loop
        self._enter: Final = enter
        self._action: Final = action
        self._timer: Cancellable | None = None

    def start(self, delay_s: float) -> None:
        """Call it for the first time after so many seconds."""
        self._timer = self._loop.call_at(self._loop.time() + delay_s, self._run)

    def stop(self) -> None:
        """Call it no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        self._enter()
        delay_s = self._action()
        if self._timer is not None:  # it was not stopped by what it did
            self.start(delay_s)
