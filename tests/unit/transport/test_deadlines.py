"""The plan of deadlines: earliest first, moved without cost, no trace of those who left."""

from math import inf

from artemis_py.transport.deadlines import SWEEP_THRESHOLD, Deadlines


class Sleeper:
    """Somebody who waits."""

    def __init__(self) -> None:
        self.planned_at = inf

    def handle_deadline(self, now: float) -> None:
        raise AssertionError("Deadlines only says who is due")


def test_due_waiters_come_earliest_first() -> None:
    """Who waits longest is served first."""
    deadlines, late, early, future = Deadlines(), Sleeper(), Sleeper(), Sleeper()
    deadlines.plan(late, 2.0)
    deadlines.plan(early, 1.0)
    deadlines.plan(future, 3.0)

    assert deadlines.take_due(2.0) == [early, late]
    assert deadlines.next() == 3.0


def test_waiter_is_due_once() -> None:
    """What was taken is no longer planned."""
    deadlines, waiter = Deadlines(), Sleeper()
    deadlines.plan(waiter, 1.0)

    assert deadlines.take_due(1.0) == [waiter]
    assert deadlines.take_due(1.0) == []
    assert waiter.planned_at == inf


def test_later_wish_keeps_the_earlier_call() -> None:
    """The owner is asked again then: moving the entry with each byte heard would cost more than the byte."""
    deadlines, waiter = Deadlines(), Sleeper()
    deadlines.plan(waiter, 1.0)
    for heard_at in range(2, 1000):
        deadlines.plan(waiter, float(heard_at))

    assert deadlines.next() == 1.0
    assert len(deadlines) == 1


def test_earlier_wish_replaces_the_later_call() -> None:
    """A shorter deadline must not be missed."""
    deadlines, waiter = Deadlines(), Sleeper()
    deadlines.plan(waiter, 5.0)
    deadlines.plan(waiter, 1.0)

    assert deadlines.take_due(1.0) == [waiter]
    assert deadlines.next() is None


def test_forgotten_waiter_is_not_due() -> None:
    """A connection that is gone is not called."""
    deadlines, gone, stays = Deadlines(), Sleeper(), Sleeper()
    deadlines.plan(gone, 1.0)
    deadlines.plan(stays, 2.0)
    deadlines.forget(gone)
    deadlines.forget(gone)

    assert deadlines.take_due(5.0) == [stays]


def test_waiters_who_left_do_not_pile_up() -> None:
    """Connections that come and go must not be held until their deadline would have come."""
    deadlines = Deadlines()
    for _ in range(100 * SWEEP_THRESHOLD):
        waiter = Sleeper()
        deadlines.plan(waiter, 60.0)
        deadlines.forget(waiter)

    assert len(deadlines) <= SWEEP_THRESHOLD + 1
    assert deadlines.next() is None
