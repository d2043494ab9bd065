"""The gate before the first delivery: consumers-before-dispatch and delay-before-dispatch (artemis-model §2.3)."""

from typing import TYPE_CHECKING

from artemis_py.core.runtime.timers import Timer

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue


class Gate:
    """Stays closed until a queue has enough consumers, or the first has waited long enough."""

    __slots__ = ("_queue", "_timer", "is_open")

    def __init__(self, queue: "Queue") -> None:
        self._queue: Queue = queue
        self._timer: Timer | None = None
        self.is_open: bool = True

    def check(self) -> None:
        """Open or close the gate when consumers or settings have changed."""
        queue = self._queue
        needed = queue.settings.consumers_before_dispatch
        delay_ms = queue.settings.delay_before_dispatch_ms
        if needed <= 0 and delay_ms < 0:
            self.is_open = True
            return
        count = len(queue.consumers)
        if count == 0:
            self.is_open = False
            self.cancel()
        elif needed > 0 and count >= needed:
            self._open()
        elif not self.is_open and self._timer is None and delay_ms >= 0:
            self._timer = queue.dispatcher.after(delay_ms, self._open)

    def cancel(self) -> None:
        """Cancel the timer of `delay-before-dispatch`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _open(self) -> None:
        self.cancel()
        self.is_open = True
        self._queue.dispatch.mark_ready()
