"""What the broker does again and again."""

from artemis_py.transport.repeated import Repeated
from tests.unit.transport.doubles import ManualLoop


def test_each_call_says_when_the_next_one_is() -> None:
    loop = ManualLoop()
    start = loop.time()
    calls: list[float] = []
    delays = iter([1.0, 5.0, 5.0])
    entered: list[float] = []

    def act() -> float:
        assert len(entered) == len(calls) + 1
        calls.append(loop.time() - start)
        return next(delays)

    repeated = Repeated(loop, lambda: entered.append(loop.time()), act)
    repeated.start(2.0)
    loop.advance(10.0)

    assert calls == [2.0, 3.0, 8.0]


def test_nothing_is_called_after_the_stop() -> None:
    loop = ManualLoop()
    calls: list[float] = []

    def act() -> float:
        calls.append(loop.time())
        return 1.0

    repeated = Repeated(loop, lambda: None, act)
    repeated.start(1.0)
    repeated.stop()
    repeated.stop()
    loop.advance(5.0)

    assert calls == []
    assert loop.timers == []


def test_an_action_may_stop_its_own_repetition() -> None:
    loop = ManualLoop()
    calls: list[float] = []

    def act() -> float:
        calls.append(loop.time())
        repeated.stop()
        return 1.0

    repeated = Repeated(loop, lambda: None, act)
    repeated.start(1.0)
    loop.advance(5.0)

    assert len(calls) == 1
