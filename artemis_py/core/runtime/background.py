"""Long work in slices, so that a queue of any length never holds up the loop.

A piece of work is a generator: each `yield` ends a slice. What it yields says when it goes on: None in the next turn, a
`Wait` when that calls back. Between two slices everything else happens, so every work has to say what it makes of
messages that come and go meanwhile. Of all work that may go on, one slice is done a turn, in rotation.

The first slice is done at once: what is short ends in the turn in which it began. Nobody may stop work:
it ends by itself, or with the broker. What has to survive that is in the store before, and is begun anew at the start.
"""

from collections import deque
from collections.abc import Callable, Generator
from typing import Final

from artemis_py.errors import Refusal, StoreError

SLICE_MESSAGES: Final = 500
"""What one slice may look at: some 2 ms."""

SLICE_UNITS: Final = 500
"""The same in units of `core.runtime.meter`, for work whose pieces differ much."""

Wait = Callable[[Callable[[], None], Callable[[str], None]], None]
"""Takes what to call when the work may go on, and what to call, with the reason, if that will never be."""

Steps = Generator[Wait | None, None, object]
"""Returns the result; raises Refusal. Raising anything else is a mistake of ours, and ends the work without a word."""


class _Work:
    """One piece of work that is under way."""

    __slots__ = ("done", "refused", "steps")

    def __init__(self, steps: Steps, done: Callable[[object], None], refused: Callable[[Refusal], None]) -> None:
        self.steps: Steps = steps
        self.done: Callable[[object], None] = done
        self.refused: Callable[[Refusal], None] = refused


class Slices:
    """All work of a broker that takes more than one turn."""

    def __init__(self) -> None:
        self._ready: deque[_Work] = deque()

    @property
    def has_work(self) -> bool:
        """Whether there is a slice to be done in the next turn."""
        return len(self._ready) > 0

    def start(
        self,
        steps: Steps,
        done: Callable[[object], None] | None = None,
        refused: Callable[[Refusal], None] | None = None,
    ) -> None:
        """Do the first slice now and the others in the turns to come; then `done` with the result, or `refused`."""
        self._step(_Work(steps, done or _ignore, refused or _ignore), None)

    def run(self) -> None:
        """Do one slice of the work whose turn it is."""
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
    """Nobody wants to know."""
