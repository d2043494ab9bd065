"""A thread beside the event loop, for jobs that would block the loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Worker:
    """Runs jobs one after the other in one thread, which the first job starts."""

    def __init__(self, loop: asyncio.AbstractEventLoop, enter: Callable[[], object]) -> None:
        """Create a worker; `enter` is called on the loop before each completion, to pass the time in."""
        self._loop = loop
        self._enter = enter
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="artemis-py-worker")
        self._is_stopped = False
        self._unfinished = 0

    @property
    def is_busy(self) -> bool:
        """Whether a job runs or waits, or `done` has not been called for it. To be asked on the loop."""
        return self._unfinished > 0

    def submit(self, job: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run `job`, which must not raise, in the thread, then call `done` with its result on the loop."""

        self._unfinished += 1

        def finish(result: T) -> None:
            self._unfinished -= 1
            if not self._is_stopped:
                self._enter()
                done(result)

        def run() -> None:
            result = job()
            self._loop.call_soon_threadsafe(finish, result)

        self._executor.submit(run)

    def stop(self) -> None:
        """Discard the jobs that have not begun and wait for the one that has. `done` is not called any more."""
        self._is_stopped = True
        self._executor.shutdown(wait=True, cancel_futures=True)
