"""One turn of the loop: the queues dispatch what was read, then each connection with output writes once.

Reading a socket only feeds its connection. The first feed of a loop iteration plans a turn; when it comes, all that
was read is dispatched together and each connection's output goes out in one write. The turn also owns the one
timer that all deadlines share, and stamps the core with the time on two clocks: the wall clock, and the loop's.

A turn is bounded in the work it does, whatever was read. Each read gets a share of that work. A connection whose share
was too small waits in a line and is not read from; each later turn serves the line as far as its work allows.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from artemis_py.core.runtime.meter import Meter
from artemis_py.logs import LogBrake, named_logger
from artemis_py.transport.deadlines import Deadlines, Waiter
from artemis_py.transport.reads import Reads

LOGGER: Final = named_logger(__name__)

# The core has deadlines in wall-clock time, and the loop has none. The wall clock is read at least this often, so a
# change of it is noticed within these seconds. Reading it costs next to nothing. Deadlines on the steady clock, which
# is the loop's, need no such look.
LONGEST_CORE_WAIT_S: Final = 5.0

# The core counts whole milliseconds. So one of its deadlines, in seconds of the loop, varies by a part of a millisecond
# with the moment in which it is computed. Without the slack many turns would cancel the timer and set it again.
TIMER_SLACK_S: Final = 0.001

# After a failure in the core's own deadlines they pause for this long; otherwise the same failure would fill the log.
REST_AFTER_FAILURE_S: Final = 1.0


# Work of one turn, in units of `runtime.meter`: as much for what was read as for the line, so that neither stops the
# other. Compiled, each is 1 to 2 ms; smaller values cost throughput, larger ones delay every connection.
READ_UNITS: Final = 1000
LINE_UNITS: Final = 1000

# Messages that a turn delivers at least, if there are so many. If more came in, as many go out: otherwise a backlog
# would gather while consumers wait, and each message of it would be stored before it is consumed. Measured with 16
# producers and 16 consumers, each way in one run: in memory 3.4 us a message, with as many deliveries 2.3; durable 12.1
# and 7.9, with a log 18.0 and 6.6.
DELIVERIES: Final = 1000

# Share of a read when other connections used up the rest: a client that asks for little never waits for clients that
# ask for much.
LEAST_UNITS: Final = 200


class Core(Protocol):
    """The part of the core that a turn needs: the dispatcher of its queues."""

    now_ms: int
    steady_ms: int
    meter: Meter

    def run(self, budget: int, is_busy: bool) -> bool:
        """Deliver what is ready, at most `budget` messages; return True if more waits. `is_busy`: more input waits."""

    def next_deadline_ms(self) -> int | None:
        """Return when `handle_deadlines` must be called, in milliseconds since 1970; None if never."""

    def next_steady_ms(self) -> int | None:
        """Return when `handle_deadlines` must be called, as `steady_ms` counts; None if never."""

    def is_due(self) -> bool:
        """Tell whether a deadline has come, on either clock."""

    def handle_deadlines(self) -> None:
        """Run the deadlines that are due."""

    def stored(self, batch: int) -> bool:
        """Note that a batch is durable; return True if something may be delivered now."""


class Cancellable(Protocol):
    """A planned call of the event loop."""

    def cancel(self) -> None:
        """Cancel the call."""


class Scheduler(Protocol):
    """The part of the event loop that a turn needs."""

    def time(self) -> float:
        """Return the monotonic clock in seconds."""

    def call_soon(self, callback: Callable[[], object], /) -> object:
        """Call `callback` in the next iteration of the loop."""

    def call_at(self, when: float, callback: Callable[[], object], /) -> Cancellable:
        """Call `callback` at `when`, in the loop's time."""


class Writer(Waiter, Protocol):
    """A connection as the turn sees it."""

    is_marked: bool
    """Whether the connection is on the turn's list. `Turn` sets it; the connection's `flush` clears it."""

    def flush(self, now: float) -> None:
        """Write the collected output; never raises."""

    def work(self, now: float) -> None:
        """Process received input, after `Turn.line_up`; line up again if there is more. Never raises."""


class Turn:
    """The heartbeat of one broker."""

    def __init__(
        self, core: Core, loop: Scheduler, wall_clock: Callable[[], float] = time.time, ahead_s: float = 0.0
    ) -> None:
        self._core = core
        self._loop = loop
        self._wall_clock = wall_clock
        self._ahead_s = ahead_s
        self._is_planned = False
        self._marked: list[Writer] = []
        self._meter: Meter = core.meter
        self.reads: Final = Reads()
        self._read_end = core.meter.work + READ_UNITS
        """Reading of the meter at which the reads of this turn have used up their work."""
        self._dispatched: int = core.meter.work
        """Reading of the meter when the core dispatched last."""
        self._line: deque[Writer] = deque()
        """Connections with received input that is not processed yet."""
        self._deadlines = Deadlines()
        self._timer: Cancellable | None = None
        self._timer_at = 0.0
        """When the timer goes off, in the loop's time. Handles of uvloop do not know it if the time has passed."""
        self._core_rests_until = 0.0
        self._is_stopped = False
        self._brake = LogBrake(LOGGER)

    def enter(self) -> float:
        """Stamp the core with both clocks and return the loop's time. Call it before anything reaches the core."""
        now = self._loop.time()
        self._core.now_ms = int((self._wall_clock() + self._ahead_s) * 1000)
        self._core.steady_ms = int((now + self._ahead_s) * 1000)
        return now

    def advance(self, seconds: float) -> None:
        """Move both clocks of the core forward, for tests; deadlines of connections stay where they are."""
        self._ahead_s += seconds

    def begin_share(self) -> None:
        """Give the read that follows its share of the turn."""
        meter = self._meter
        least = meter.work + LEAST_UNITS
        meter.end = least if self._line or least > self._read_end else self._read_end

    def line_up(self, connection: Writer) -> None:
        """Have `connection.work` called in a coming turn. Call this at most once before each call of `work`."""
        self._line.append(connection)
        self.plan()

    def mark(self, connection: Writer) -> None:
        """Let `connection` write at the end of the coming turn."""
        if not connection.is_marked:
            connection.is_marked = True
            self._marked.append(connection)
            self.plan()

    def plan(self) -> None:
        """Make sure that a turn is coming: something may have become ready in the core."""
        if not self._is_planned and not self._is_stopped:
            self._is_planned = True
            self._loop.call_soon(self._run)

    def stored(self, batch: int) -> None:
        """Tell the core that the store committed a batch, and plan to deliver what waited for it."""
        if self._core.stored(batch):
            self.plan()

    def plan_deadline(self, waiter: Waiter, when: float) -> None:
        """Call `waiter` at `when` (loop time) at the latest."""
        self._deadlines.plan(waiter, when)
        self._arm(when)

    def forget(self, waiter: Waiter) -> None:
        """Cancel the planned call to `waiter`."""
        self._deadlines.forget(waiter)

    def stop(self) -> None:
        """Stop planning turns and deadlines."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        self._is_planned = False
        now = self.enter()
        self._serve_line(now)
        budget = max(self._meter.work - self._dispatched, DELIVERIES)
        try:
            has_more = self._core.run(budget, len(self._line) > 0)
        except Exception:
            # No connection can be blamed here, so all of them stay open; the next event brings the next attempt.
            self._brake.exception("", "dispatch failed")
            has_more = False
        self._dispatched = self._meter.work
        marked, self._marked = self._marked, []
        for connection in marked:
            connection.flush(now)
        if has_more or self._line:
            self.plan()
        self._read_end = self._meter.work + READ_UNITS
        self.reads.end_turn()
        self._arm_for_core(now)

    def _serve_line(self, now: float) -> None:
        """Serve the connections in line one after the other, each with an equal part of the work that is left."""
        line = self._line
        meter = self._meter
        end = meter.work + LINE_UNITS
        for count in range(len(line), 0, -1):
            left = end - meter.work
            if left <= 0:
                break
            meter.end = meter.work + max(left // count, LEAST_UNITS)
            line.popleft().work(now)

    def _arm_for_core(self, now: float) -> None:
        """Set the timer to the core's next deadline, on whichever clock it comes first."""
        core = self._core
        deadline_ms = core.next_deadline_ms()
        if deadline_ms is not None:
            delay = min(max((deadline_ms - core.now_ms) / 1000, 0.0), LONGEST_CORE_WAIT_S)
            self._arm(max(now + delay, self._core_rests_until))
        steady_ms = core.next_steady_ms()
        if steady_ms is not None:
            delay = max((steady_ms - core.steady_ms) / 1000, 0.0)
            self._arm(max(now + delay, self._core_rests_until))

    def _arm(self, when: float) -> None:
        """Set the timer to `when`, unless it goes off earlier, or less than 1 ms later."""
        if self._timer is not None:
            if self._timer_at < when + TIMER_SLACK_S:
                return
            self._timer.cancel()
        if not self._is_stopped:
            self._timer_at = when
            self._timer = self._loop.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self.enter()
        for waiter in self._deadlines.take_due(now):
            waiter.handle_deadline(now)
        self._run_core_deadlines(now)
        when = self._deadlines.next()
        if when is not None:
            self._arm(when)

    def _run_core_deadlines(self, now: float) -> None:
        if now >= self._core_rests_until and self._core.is_due():
            try:
                self._core.handle_deadlines()
            except Exception:
                LOGGER.exception("a deadline of the core failed")
                self._core_rests_until = now + REST_AFTER_FAILURE_S
            self.plan()
        self._arm_for_core(now)
