"""A thread beside the event loop, for what would hold it up."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Worker:
    """Runs jobs one after the other in one thread, which is started by the first of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, enter: Callable[[], object]) -> None:
        """`enter` is called on the loop before each completion: the time is passed in there."""
        self._loop = loop
        self._enter = enter
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="artemis-py-worker")
        self._is_stopped = False

    def submit(self, job: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run `job`, which never raises, in the thread, then `done` with its result on the loop."""

        def finish(result: T) -> None:
            if not self._is_stopped:
                self._enter()
                done(result)

        def run() -> None:
            result = job()
            self._loop.call_soon_threadsafe(finish, result)

        self._executor.submit(run)

    def stop(self) -> None:
        """Forget what was not begun, and wait for what was: at most one job. Nothing completes any more."""
        self._is_stopped = True
        self._executor.shutdown(wait=True, cancel_futures=True)
