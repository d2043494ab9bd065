"""Background work in slices, so that a queue of any length never delays the loop.

A piece of work is a generator: each `yield` ends a slice. The yielded value says when it continues: None in the next
turn, a `Wait` when that calls back. Anything can happen between two slices, so every piece of work defines how it
treats messages that arrive or leave in between. One slice is done each turn, in rotation among all work that can
continue.

The first slice is done at once, so short work ends in the turn in which it began. Work cannot be stopped: it ends by
itself, or with the broker. Work that must survive a stop is recorded in the store first, and is restarted with the
broker.
"""

from collections import deque
from collections.abc import Callable, Generator
from typing import Final

from artemis_py.errors import Refusal, StoreError

SLICE_MESSAGES: Final = 500
"""Messages that one slice may process, in some 2 ms."""

SLICE_UNITS: Final = 500
"""The same in units of `core.runtime.meter`, for work whose steps differ much in cost."""

Wait = Callable[[Callable[[], None], Callable[[str], None]], None]
"""Takes a function to call when the work can continue, and one to call, with the reason, if it never can."""

Steps = Generator[Wait | None, None, object]
"""Returns the result; raises Refusal. Any other exception is a bug, and ends the work without a result."""


class _Work:
    """One piece of work in progress."""

    __slots__ = ("done", "refused", "steps")

    def __init__(self, steps: Steps, done: Callable[[object], None], refused: Callable[[Refusal], None]) -> None:
        self.steps: Steps = steps
        self.done: Callable[[object], None] = done
        self.refused: Callable[[Refusal], None] = refused


class BackgroundWork:
    """All work of a broker that takes more than one turn of the loop."""

    def __init__(self) -> None:
        self._ready: deque[_Work] = deque()

    @property
    def has_work(self) -> bool:
        """Whether there is a slice to do in the next turn."""
        return len(self._ready) > 0

    def start(
        self,
        steps: Steps,
        done: Callable[[object], None] | None = None,
        refused: Callable[[Refusal], None] | None = None,
    ) -> None:
        """Do the first slice now and the others in later turns; then call `done` with the result, or `refused`."""
        self._step(_Work(steps, done or _ignore, refused or _ignore), None)

    def run(self) -> None:
        """Do one slice of the work that is next in rotation."""
        if self._ready:
            self._step(self._ready.popleft(), None)

    def _step(self, work: _Work, failure: StoreError | None) -> None:
        try:
            wait = next(work.steps) if failure is None else work.steps.throw(failure)
        except StopIteration as end:
            work.done(end.value)
            return
        except Refusal as refusal:
            work.refused(refusal)
            return
        if wait is None:
            self._ready.append(work)
        else:
            wait(lambda: self._ready.append(work), lambda reason: self._step(work, StoreError(reason)))


def _ignore(outcome: object) -> None:
    """Do nothing: the caller did not ask for the outcome."""
