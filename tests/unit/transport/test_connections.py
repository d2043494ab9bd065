"""How many connections a broker takes."""

import asyncio
import resource

import pytest

from artemis_py.transport.connections import ConnectionLimits, Connections


class Guest:
    """A connection, as far as the register knows it."""

    def __init__(self, acceptor_name: str = "a") -> None:
        self.acceptor_name = acceptor_name

    def shutdown(self, reason: str) -> None: ...

    def abort(self) -> None: ...

    def is_said(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("soft_limit", "total", "strangers"),
    [(1024, 922, 461), (100, 90, 45), (65536, 58983, 500), (1, 1, 1), (resource.RLIM_INFINITY, 943719, 500)],
)
def test_limits_follow_from_file_descriptors(soft_limit: int, total: int, strangers: int) -> None:
    """reliability §4: the limit of open files less 10 %; unauthenticated at most 500 and at most half of it."""
    assert ConnectionLimits.of_descriptors(soft_limit) == ConnectionLimits(total=total, strangers=strangers)


def test_total_is_a_limit() -> None:
    """Logged in or not."""
    connections = Connections(ConnectionLimits(total=2, strangers=2))
    for _ in range(2):
        connections.add(Guest())
        connections.log_in()

    assert "2 connections are open" in str(connections.refusal("a", -1))


def test_strangers_are_limited_and_members_are_not() -> None:
    """Those who do not log in cannot take the room of those who do."""
    connections = Connections(ConnectionLimits(total=10, strangers=1))
    connections.add(Guest())

    assert "not logged in" in str(connections.refusal("a", -1))
    connections.log_in()
    assert connections.refusal("a", -1) is None


def test_connections_allowed_is_per_acceptor() -> None:
    """`connectionsAllowed` of one acceptor leaves the others alone; 0 closes it."""
    connections = Connections(ConnectionLimits(total=10, strangers=10))
    connections.add(Guest("small"))

    assert "connectionsAllowed=1 of acceptor small" in str(connections.refusal("small", 1))
    assert connections.refusal("other", 1) is None
    assert connections.refusal("other", 0) is not None


def test_room_comes_back_when_a_connection_ends() -> None:
    """Counts go down as they went up."""
    connections = Connections(ConnectionLimits(total=1, strangers=1))
    stranger, member = Guest(), Guest()
    connections.add(stranger)
    connections.remove(stranger, is_stranger=True)
    connections.add(member)
    connections.log_in()
    connections.remove(member, is_stranger=False)

    assert connections.refusal("a", 1) is None
    assert (len(connections), connections.strangers) == (0, 0)


class Leaver(Guest):
    """A connection whose peer never answers a goodbye."""

    def __init__(self, connections: Connections, *, said_after: int) -> None:
        super().__init__()
        self._connections = connections
        self._said_after = said_after
        self.events: list[str] = []

    def shutdown(self, reason: str) -> None:
        self.events.append(reason)

    def is_said(self) -> bool:
        self.events.append("asked")
        return self.events.count("asked") >= self._said_after

    def abort(self) -> None:
        self.events.append("cut off")
        self._connections.remove(self, is_stranger=True)


async def test_a_peer_that_has_the_last_words_is_not_waited_for() -> None:
    """It blocks elsewhere and will not answer: the time for goodbyes, an hour here, need not pass."""
    connections = Connections(ConnectionLimits(total=10, strangers=10))
    leavers = [Leaver(connections, said_after=1), Leaver(connections, said_after=3)]
    for leaver in leavers:
        connections.add(leaver)

    await asyncio.wait_for(connections.shutdown("bye", 3600), 60)

    assert [leaver.events for leaver in leavers] == [
        ["bye", "asked", "cut off"],
        ["bye", "asked", "asked", "asked", "cut off"],
    ]


async def test_a_peer_that_has_not_got_the_last_words_is_waited_for_no_longer_than_agreed() -> None:
    """A slow link, or a peer that reads nothing."""
    connections = Connections(ConnectionLimits(total=10, strangers=10))
    leaver = Leaver(connections, said_after=1000)
    connections.add(leaver)

    await asyncio.wait_for(connections.shutdown("bye", 0.6), 60)

    assert leaver.events[-1] == "cut off"
    assert leaver.events.count("asked") >= 1
