"""What shall happen later: a heap of moments, in milliseconds since 1970. Time is passed in."""

from collections.abc import Callable
from heapq import heappop, heappush


class Timer:
    """One planned call; `cancel` makes it never happen."""

    __slots__ = ("_callback", "when_ms")

    def __init__(self, when_ms: int, callback: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Forget the call; harmless when it already happened."""
        self._callback = None

    @property
    def is_pending(self) -> bool:
        """Whether the call is still to come."""
        return self._callback is not None

    def fire(self) -> None:
        """Make the call, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class Timers:
    """All planned calls, earliest first; equal moments keep the order in which they were planned."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0

    def at(self, when_ms: int, callback: Callable[[], None]) -> Timer:
        """Plan `callback` for `when_ms`."""
        timer = Timer(when_ms, callback)
        self._count += 1
        heappush(self._heap, (when_ms, self._count, timer))
        return timer

    def next_ms(self) -> int | None:
        """When the earliest planned call is due."""
        heap = self._heap
        while heap and not heap[0][2].is_pending:
            heappop(heap)
        return heap[0][0] if heap else None

    def run(self, now_ms: int) -> None:
        """Make every call that is due. A call planned meanwhile for a moment already past waits for the next run."""
        heap = self._heap
        due: list[Timer] = []
        while heap and heap[0][0] <= now_ms:
            due.append(heappop(heap)[2])
        for timer in due:
            timer.fire()
