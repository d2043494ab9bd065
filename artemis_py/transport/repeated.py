"""Calls a function repeatedly on the event loop."""

from collections.abc import Callable
from typing import Final

from artemis_py.transport.turn import Cancellable, Scheduler


class Repeated:
    """A function that is called repeatedly from `start` to `stop`, each time after the delay that it returned."""

    def __init__(self, loop: Scheduler, enter: Callable[[], object], action: Callable[[], float]) -> None:
        """Create it stopped. `action` returns the seconds until its next call; `enter` first passes the time in."""
        self._loop: Final = loop
        self._enter: Final = enter
        self._action: Final = action
        self._timer: Cancellable | None = None

    def start(self, delay_s: float) -> None:
        """Call the function for the first time after `delay_s` seconds."""
        self._timer = self._loop.call_at(self._loop.time() + delay_s, self._run)

    def stop(self) -> None:
        """Stop calling the function."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        self._enter()
        delay_s = self._action()
        if self._timer is not None:  # `action` may have called `stop`
            self.start(delay_s)
