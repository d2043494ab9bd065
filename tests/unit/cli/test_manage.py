"""Requests to a broker's management, and how long they wait for it."""

from types import SimpleNamespace
from typing import Any

import pytest

from artemis_py.cli import client, manage
from artemis_py.cli.client import Target
from artemis_py.cli.manage import Administering, Request


class Endpoint:
    """A connection or link of Proton's that leads nowhere."""

    def close(self) -> None:
        pass


class Loop:
    """Stands in for Proton's container: it connects to nothing, and a test calls the timer."""

    def connect(self, url: str, **arguments: Any) -> Endpoint:
        return Endpoint()

    def create_receiver(self, connection: Endpoint, address: str | None, dynamic: bool) -> Endpoint:
        return Endpoint()

    def schedule(self, delay: float, handler: object) -> None:
        pass

    def stop(self) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Time as the commands see it; a machine has run for a while when they start."""
    clock = SimpleNamespace(now=1000.0)
    clock.monotonic = lambda: clock.now
    for module in (client, manage):
        monkeypatch.setattr(module, "time", clock)
    return clock


EVENT: Any = SimpleNamespace(container=Loop())


def begun() -> Administering:
    administering = Administering(Target(url="amqp://h:1", user=None, password=None), [Request("broker", "x")])
    administering.on_start(EVENT)
    return administering


def test_a_connection_may_take_longer_than_a_tick_to_open(clock: SimpleNamespace) -> None:
    """The time for an answer begins with the request: a far or busy broker opens after several ticks."""
    administering = begun()
    clock.now += 5
    administering.on_timer_task(EVENT)
    administering.on_connection_opened(EVENT)
    administering.on_timer_task(EVENT)

    assert (administering.failure, administering.is_finished) == (None, False)


@pytest.mark.parametrize(
    ("is_open", "text"), [(False, "no answer within 10 s"), (True, "no answer to a management request in 10 s")]
)
def test_a_broker_that_does_not_answer_is_given_up(clock: SimpleNamespace, is_open: bool, text: str) -> None:
    """Not connected, exit code 3: neither an open nor a reply may take for ever."""
    administering = begun()
    if is_open:
        administering.on_connection_opened(EVENT)
    clock.now += 11
    administering.on_timer_task(EVENT)

    assert administering.failure is not None
    assert administering.failure.message == f"amqp://h:1: {text}"
