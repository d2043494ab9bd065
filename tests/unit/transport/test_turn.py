"""One turn: dispatch once, then write once for each connection; one timer for everybody."""

import logging
from math import inf

import pytest

from artemis_py.core.runtime.meter import Meter
from artemis_py.transport.turn import DELIVERIES, LONGEST_CORE_WAIT_S, REST_AFTER_FAILURE_S, Turn
from tests.unit.transport.doubles import START_MS, ManualLoop

AWAITED_BATCH = 7


class ScriptedCore:
    """Fulfils `Core` with work and deadlines that the test sets."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.steady_ms = 0
        self.meter = Meter()
        self.work = 0
        self.runs: list[int] = []
        self.deadline_ms: int | None = None
        self.steady_deadline_ms: int | None = None
        self.deadlines_handled: list[int] = []
        self.error: Exception | None = None
        self.was_busy = False
        self.budgets: list[int] = []

    def run(self, budget: int, is_busy: bool) -> bool:
        self.budgets.append(budget)
        self.was_busy = is_busy
        self.runs.append(self.now_ms)
        if self.error is not None:
            raise self.error
        self.work = max(0, self.work - 1)
        return self.work > 0

    def next_deadline_ms(self) -> int | None:
        return self.deadline_ms

    def next_steady_ms(self) -> int | None:
        return self.steady_deadline_ms

    def is_due(self) -> bool:
        return (self.deadline_ms is not None and self.deadline_ms <= self.now_ms) or (
            self.steady_deadline_ms is not None and self.steady_deadline_ms <= self.steady_ms
        )

    def handle_deadlines(self) -> None:
        self.deadlines_handled.append(self.now_ms)
        if self.error is not None:
            raise self.error
        if self.deadline_ms is not None and self.deadline_ms <= self.now_ms:
            self.deadline_ms = None
        if self.steady_deadline_ms is not None and self.steady_deadline_ms <= self.steady_ms:
            self.steady_deadline_ms = None

    def stored(self, batch: int) -> bool:
        return batch == AWAITED_BATCH


class Pen:
    """Fulfils `Writer`; notes when it was asked to write."""

    def __init__(self, order: list[str], name: str) -> None:
        self.planned_at = inf
        self.is_marked = False
        self.called_at: list[float] = []
        self._order = order
        self._name = name

    def flush(self, now: float) -> None:
        self.is_marked = False
        self._order.append(self._name)

    def work(self, now: float) -> None:
        """There is none."""

    def handle_deadline(self, now: float) -> None:
        self.called_at.append(now)


@pytest.fixture
def loop() -> ManualLoop:
    return ManualLoop()


@pytest.fixture
def core() -> ScriptedCore:
    return ScriptedCore()


@pytest.fixture
def turn(core: ScriptedCore, loop: ManualLoop) -> Turn:
    return Turn(core, loop, loop.wall_clock)


def test_all_marked_connections_write_once_after_one_dispatch(turn: Turn, core: ScriptedCore, loop: ManualLoop) -> None:
    """Work is done per batch; the order is that of marking."""
    order: list[str] = []
    pens = [Pen(order, name) for name in "abc"]
    for pen in pens + pens:
        turn.mark(pen)
    loop.run()

    assert order == ["a", "b", "c"]
    assert len(core.runs) == 1


def test_entering_stamps_the_core_with_both_clocks(turn: Turn, core: ScriptedCore, loop: ManualLoop) -> None:
    """The core has no clock of its own."""
    loop.now = 1.5

    assert turn.enter() == 1.5
    assert core.now_ms == START_MS + 1500
    assert core.steady_ms == 1500


def test_unfinished_dispatch_goes_on_in_the_next_iteration(turn: Turn, core: ScriptedCore, loop: ManualLoop) -> None:
    """Sockets are served between two parts of a long dispatch."""
    core.work = 3
    turn.plan()
    loop.run_once()

    assert len(core.runs) == 1
    loop.run()
    assert len(core.runs) == 3


def test_a_turn_delivers_as_many_messages_as_came_in(turn: Turn, core: ScriptedCore, loop: ManualLoop) -> None:
    """Otherwise a backlog would gather as long as many connections send, although consumers wait."""
    for came_in in (0, DELIVERIES - 1, 5 * DELIVERIES, 0):
        core.meter.work += came_in
        turn.plan()
        loop.run_once()

    assert core.budgets == [DELIVERIES, DELIVERIES, 5 * DELIVERIES, DELIVERIES]


def test_the_core_is_told_whether_input_waits(turn: Turn, core: ScriptedCore, loop: ManualLoop) -> None:
    """Then it may gather deliveries; otherwise they go out at once."""
    turn.plan()
    loop.run_once()
    assert not core.was_busy

    class Long(Pen):
        def work(self, now: float) -> None:
            turn.line_up(self)

    turn.line_up(Long([], "long"))
    loop.run_once()
    assert core.was_busy


def test_idle_turn_plans_nothing(turn: Turn, core: ScriptedCore, loop: ManualLoop) -> None:
    """A broker without work sleeps."""
    turn.plan()
    loop.run()

    assert loop.timers == []
    assert loop.ready == []


def test_failing_dispatch_is_logged_and_connections_still_write(
    turn: Turn, core: ScriptedCore, loop: ManualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """One bug must not silence everybody."""
    order: list[str] = []
    core.error = RuntimeError("planted")
    turn.mark(Pen(order, "a"))
    loop.run()

    assert order == ["a"]
    assert [record.message for record in caplog.records if record.levelno == logging.ERROR] == ["dispatch failed"]


def test_one_timer_serves_all_waiters(turn: Turn, loop: ManualLoop) -> None:
    """Idle connections cost memory only: the loop holds one timer whatever their number."""
    pens = [Pen([], str(number)) for number in range(100)]
    for number, pen in enumerate(pens):
        turn.plan_deadline(pen, 10.0 + number)

    assert loop.timers == [10.0]
    loop.advance(200)
    assert [pen.called_at for pen in pens] == [[10.0 + number] for number in range(100)]


def test_earlier_deadline_moves_the_timer(turn: Turn, loop: ManualLoop) -> None:
    """A deadline planned later may be due sooner."""
    late, early = Pen([], "late"), Pen([], "early")
    turn.plan_deadline(late, 10.0)
    turn.plan_deadline(early, 5.0)

    assert loop.timers == [5.0]
    loop.advance(20)
    assert (early.called_at, late.called_at) == ([5.0], [10.0])


def test_forgotten_waiter_is_not_called(turn: Turn, loop: ManualLoop) -> None:
    """A closed connection hears nothing any more."""
    pen = Pen([], "gone")
    turn.plan_deadline(pen, 5.0)
    turn.forget(pen)
    loop.advance(10)

    assert pen.called_at == []


def test_core_deadline_is_kept(turn: Turn, core: ScriptedCore, loop: ManualLoop) -> None:
    """Scheduled messages and redelivery delays wait in the core; a turn follows to deliver them."""
    core.deadline_ms = START_MS + 2000
    turn.plan()
    loop.advance(10)

    assert core.deadlines_handled == [START_MS + 2000]
    assert core.runs[-1] == START_MS + 2000


def test_wall_clock_set_forward_is_noticed(turn: Turn, core: ScriptedCore, loop: ManualLoop) -> None:
    """The core counts in wall-clock time: an hour that is skipped must not delay deliveries by that hour."""
    jump = 0.0
    turn = Turn(core, loop, lambda: loop.wall_clock() + jump)
    core.deadline_ms = START_MS + 3_600_000
    turn.plan()
    loop.run()
    jump = 3600.0
    loop.advance(LONGEST_CORE_WAIT_S)

    assert len(core.deadlines_handled) == 1


def test_steady_deadline_is_kept_whatever_the_wall_clock_says(core: ScriptedCore, loop: ManualLoop) -> None:
    """An hour that comes twice delays no span, and one that is skipped shortens none."""
    jump = 0.0
    turn = Turn(core, loop, lambda: loop.wall_clock() + jump)
    for by in (-3600.0, 3600.0):
        core.steady_deadline_ms = int(loop.now * 1000) + 20_000
        handled = len(core.deadlines_handled)
        turn.plan()
        loop.run()
        jump += by
        loop.advance(19.5)
        assert len(core.deadlines_handled) == handled
        loop.advance(0.5)
        assert len(core.deadlines_handled) == handled + 1


def test_both_clocks_are_moved_for_tests(turn: Turn, core: ScriptedCore, loop: ManualLoop) -> None:
    """A day passes for the core, at once, and not for connections."""
    core.steady_deadline_ms = 24 * 3_600_000
    turn.advance(24 * 3600)
    now = turn.enter()
    turn.plan()
    loop.run()
    loop.advance(0)

    assert now == 0
    assert core.now_ms == START_MS + 24 * 3_600_000
    assert len(core.deadlines_handled) == 1


def test_the_wall_clock_is_not_read_for_a_steady_deadline(turn: Turn, core: ScriptedCore, loop: ManualLoop) -> None:
    """A broker that waits for a span wakes up once, at its end."""
    core.steady_deadline_ms = 60_000
    turn.plan()
    loop.run()

    assert loop.timers == [60.0]


def test_the_earlier_deadline_of_both_clocks_comes_first(turn: Turn, core: ScriptedCore, loop: ManualLoop) -> None:
    """There is one timer for both."""
    for wall_s, steady_s in ((2.0, 3.0), (5.0, 4.0)):
        core.deadline_ms, core.steady_deadline_ms = START_MS + int(wall_s * 1000), int(steady_s * 1000)
        turn.plan()
        loop.run()
        assert loop.timers == [min(wall_s, steady_s)]
        loop.advance(max(wall_s, steady_s) - loop.now)
        assert not core.is_due()


def test_a_deadline_that_stays_sets_the_timer_once(turn: Turn, core: ScriptedCore, loop: ManualLoop) -> None:
    """Each turn computes when the deadline comes, from clocks of the core that count whole milliseconds."""
    core.deadline_ms, core.steady_deadline_ms = START_MS + 1000, 1000
    for fraction_ms in (0.9, 0.6, 0.3, 0.0):
        loop.now = (round(loop.now * 1000) + fraction_ms) / 1000
        turn.plan()
        loop.run()

    assert len(loop.planned) == 1
    loop.advance(1.0)
    assert core.deadlines_handled == [START_MS + 1000]


def test_failing_core_deadline_rests_before_it_is_tried_again(
    turn: Turn, core: ScriptedCore, loop: ManualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """The same failure again and again must not fill the log or the processor."""
    core.deadline_ms = START_MS
    core.error = RuntimeError("planted")
    turn.plan()
    loop.advance(10 * REST_AFTER_FAILURE_S)

    assert 1 < len(core.deadlines_handled) <= 11


def test_stopped_turn_plans_nothing(turn: Turn, core: ScriptedCore, loop: ManualLoop) -> None:
    """After the end of the broker the loop holds no call of it."""
    turn.plan_deadline(Pen([], "a"), 5.0)
    turn.stop()
    turn.plan()
    turn.plan_deadline(Pen([], "b"), 1.0)

    assert loop.timers == []
    assert loop.ready == []


def test_a_commit_plans_a_turn_if_something_waited_for_it(turn: Turn, core: ScriptedCore, loop: ManualLoop) -> None:
    """References that are stored first are delivered when their batch is durable; other commits cost nothing."""
    turn.stored(AWAITED_BATCH - 1)
    assert loop.ready == []

    turn.stored(AWAITED_BATCH)
    loop.run()

    assert len(core.runs) == 1
