"""What listeners are told of connections: that they open, how they end, and why they are turned away."""

from collections.abc import Callable
from typing import Final

import pytest

from artemis_py.core.runtime.events import (
    ConnectionClosed,
    ConnectionOpened,
    ConnectionRefused,
    Event,
    RefusalCause,
)
from artemis_py.transport.connections import ConnectionLimits
from artemis_py.transport.driver import Driver
from tests.unit.transport.doubles import Bench

PEER: Final = "127.0.0.1:40000"
LOGIN_S: Final = 10


def listening(limits: ConnectionLimits | None = None) -> tuple[Bench, list[Event]]:
    """A bench, and what a listener of its own is told."""
    bench = Bench(limits)
    told: list[Event] = []
    bench.events.subscribe(told.append)
    return bench, told


def reset(driver: Driver) -> None:
    driver.connection_lost(ConnectionResetError("reset by peer"))


ENDS: Final[dict[str, Callable[[Driver], object]]] = {
    "closed by peer": Driver.eof_received,
    "closed": lambda driver: driver.data_received(b"QUIT\n"),
    "the broker stops": lambda driver: driver.shutdown("the broker stops"),
    "failed in receive_data": lambda driver: driver.data_received(b"FAIL\n"),
    "connection lost": lambda driver: driver.connection_lost(None),
    "reset by peer": reset,
    "aborted": Driver.abort,
}


@pytest.mark.parametrize("reason", ENDS)
def test_a_connection_is_told_when_it_opens_and_once_when_it_ends(reason: str) -> None:
    """By whatever side, and though its socket goes only after it."""
    bench, told = listening()
    transport, _ = bench.log_in()
    assert told == [ConnectionOpened(1, "LINE", "test", PEER)]
    assert transport.driver is not None
    ENDS[reason](transport.driver)
    bench.loop.run()
    bench.lose(transport)

    assert told[1:] == [ConnectionClosed(1, "LINE", "test", PEER, reason)]


def test_what_a_connection_says_is_no_event() -> None:
    """Never one per read or write."""
    bench, told = listening()
    transport, _ = bench.log_in()
    told.clear()
    for _ in range(10):
        bench.receive(transport, b"ECHO x\n")

    assert told == []


def test_a_silent_stranger_is_refused_and_was_never_open() -> None:
    """Its end says which time it had."""
    bench, told = listening()
    transport = bench.accept()
    bench.loop.advance(LOGIN_S)
    bench.lose(transport)

    assert told == [ConnectionRefused(1, "", "test", PEER, RefusalCause.LOGIN_TIMEOUT, "10")]


def test_bytes_of_no_protocol_are_refused_with_the_first_of_them() -> None:
    """The length of a name, because they may be a secret."""
    bench, told = listening()
    transport = bench.accept()
    bench.receive(transport, b"GET /secret HTTP/1.1\r\n")
    bench.lose(transport)

    assert told == [ConnectionRefused(1, "", "test", PEER, RefusalCause.UNKNOWN_PROTOCOL, "47455420 (HTTP)")]


def test_a_login_that_makes_room_is_refused_and_closed() -> None:
    """It was open, so a listener that counts connections hears of its end."""
    bench, told = listening(ConnectionLimits(total=10, strangers=1))
    displaced = bench.accept()
    bench.receive(displaced, b"LINE ")
    bench.accept()
    bench.lose(displaced)

    assert told == [
        ConnectionOpened(1, "LINE", "test", PEER),
        ConnectionRefused(1, "LINE", "test", PEER, RefusalCause.DISPLACED, "1 connections are not logged in yet"),
        ConnectionClosed(1, "LINE", "test", PEER, "displaced"),
    ]


def test_a_connection_without_room_has_no_number() -> None:
    """It is refused before it is one of the broker's."""
    bench, told = listening(ConnectionLimits(total=1, strangers=1))
    bench.log_in()
    told.clear()
    bench.lose(bench.accept())

    reason = "1 connections are open, all that the limit of open files leaves room for"
    assert told == [ConnectionRefused(0, "", "test", PEER, RefusalCause.NO_ROOM, reason)]
