"""How many connections a broker takes."""

import asyncio
import resource
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artemis_py.transport.connections import ConnectionLimits, Connections
from artemis_py.transport.strangers import Standing, Strangers


class Guest:
    """A connection, as far as the register knows it."""

    def __init__(self, acceptor_name: str = "a", peer_address: str = "10.0.0.1") -> None:
        self.acceptor_name = acceptor_name
        self.peer_address = peer_address
        self.displaced_for: str | None = None

    def displace(self, reason: str) -> None:
        self.displaced_for = reason

    def shutdown(self, reason: str) -> None: ...

    def abort(self) -> None: ...

    def is_said(self) -> bool:
        return True


def silent(connections: Connections, count: int, peer_address: str = "10.0.0.1") -> list[Guest]:
    """So many strangers that say nothing."""
    guests = [Guest(peer_address=peer_address) for _ in range(count)]
    for guest in guests:
        assert connections.admit(guest) is None
    return guests


def displaced(guests: list[Guest]) -> list[int]:
    """Which of them had to go."""
    return [index for index, guest in enumerate(guests) if guest.displaced_for is not None]


@pytest.mark.parametrize(
    ("soft_limit", "total", "strangers"),
    [(1024, 922, 461), (100, 90, 45), (65536, 58983, 500), (1, 1, 1), (resource.RLIM_INFINITY, 943719, 500)],
)
def test_limits_follow_from_file_descriptors(soft_limit: int, total: int, strangers: int) -> None:
    """reliability §4: the limit of open files less 10 %; unauthenticated at most 500 and at most half of it."""
    assert ConnectionLimits.of_descriptors(soft_limit) == ConnectionLimits(total=total, strangers=strangers)


def test_total_is_a_limit() -> None:
    """Clients that are logged in make no place."""
    connections = Connections(ConnectionLimits(total=2, strangers=2))
    for guest in silent(connections, 2):
        connections.log_in(guest)

    assert "2 connections are open" in str(connections.admit(Guest()))


def test_the_oldest_silent_stranger_makes_place() -> None:
    """Those that say nothing keep nobody out."""
    connections = Connections(ConnectionLimits(total=10, strangers=2))
    guests = silent(connections, 3)

    assert displaced(guests) == [0]
    assert "2 connections are not logged in" in str(guests[0].displaced_for)
    assert connections.strangers == 2


def test_a_stranger_makes_place_where_files_run_out() -> None:
    """The limit of open files is no way to lock others out either; the clients that are logged in stay."""
    connections = Connections(ConnectionLimits(total=3, strangers=3))
    known, *guests = silent(connections, 3)
    connections.log_in(known)
    silent(connections, 1)

    assert known.displaced_for is None
    assert displaced(guests) == [0]


def test_the_address_with_the_most_strangers_makes_place() -> None:
    """One address that floods does not push the strangers of others out, even if theirs are older."""
    connections = Connections(ConnectionLimits(total=100, strangers=6))
    others = [*silent(connections, 1, "10.0.0.2"), *silent(connections, 2, "10.0.0.3")]
    flood = silent(connections, 20, "10.0.0.1")

    assert displaced(others) == []
    assert displaced(flood) == list(range(17))


def test_a_login_under_way_outlives_silent_strangers() -> None:
    """However old it is: silence has no more than half of the room."""
    connections = Connections(ConnectionLimits(total=100, strangers=2))
    (logging_in,) = silent(connections, 1)
    connections.move(logging_in, Standing.LOGGING_IN)
    flood = silent(connections, 10)

    assert logging_in.displaced_for is None
    assert displaced(flood) == list(range(9))


def test_logins_that_do_not_move_make_place_too() -> None:
    """The head of a protocol is as cheap as silence."""
    connections = Connections(ConnectionLimits(total=100, strangers=2))
    stuck = silent(connections, 2)
    for guest in stuck:
        connections.move(guest, Standing.LOGGING_IN)
    silent(connections, 1)

    assert displaced(stuck) == [0]


def test_newcomers_outlive_logins_that_do_not_move() -> None:
    """A burst of them is silent for a moment, while the room is full of protocol headers: each has its moment."""
    connections = Connections(ConnectionLimits(total=100, strangers=10))
    stuck = silent(connections, 10)
    for guest in stuck:
        connections.move(guest, Standing.LOGGING_IN)
    burst = silent(connections, 5)

    assert displaced(burst) == []
    assert displaced(stuck) == [0, 1, 2, 3, 4]


def test_checked_credentials_keep_their_place() -> None:
    """These wait for the broker, so the next one is refused instead; it says why."""
    connections = Connections(ConnectionLimits(total=100, strangers=2))
    checked = silent(connections, 2)
    for guest in checked:
        connections.move(guest, Standing.CHECKED)

    assert "2 connections are not logged in yet, and all are being checked" in str(connections.admit(Guest()))
    connections.move(checked[1], Standing.LOGGING_IN)
    assert connections.admit(Guest()) is None
    assert displaced(checked) == [1]


def test_strangers_of_one_address_are_limited() -> None:
    """`strangersPerAddress`: the address' own oldest goes, though there is room for others."""
    connections = Connections(ConnectionLimits(total=100, strangers=50))
    others = silent(connections, 5, "10.0.0.2")
    guests = [Guest() for _ in range(4)]
    for guest in guests:
        assert connections.admit(guest, per_address=3) is None

    assert displaced(guests) == [0]
    assert displaced(others) == []
    assert "3 connections of 10.0.0.1 are not logged in, strangersPerAddress" in str(guests[0].displaced_for)


def test_strangers_are_limited_and_members_are_not() -> None:
    """Those that do not log in cannot take the room of those that do."""
    connections = Connections(ConnectionLimits(total=10, strangers=1))
    (known,) = silent(connections, 1)
    connections.log_in(known)
    silent(connections, 1)

    assert known.displaced_for is None


def test_connections_allowed_is_per_acceptor() -> None:
    """`connectionsAllowed` of one acceptor leaves the others alone; 0 closes it."""
    connections = Connections(ConnectionLimits(total=10, strangers=10))
    known, elsewhere = Guest("small"), Guest("other")
    assert connections.admit(elsewhere, 5) is None
    assert connections.admit(known, 1) is None
    connections.log_in(known)

    assert "connectionsAllowed=1 of acceptor small" in str(connections.admit(Guest("small"), 1))
    assert connections.admit(Guest("other"), 2) is None
    assert connections.admit(Guest("third"), 0) is not None
    assert elsewhere.displaced_for is None


def test_a_stranger_makes_place_at_its_acceptor() -> None:
    """Silent connections cannot use `connectionsAllowed` up; the older one at another acceptor stays."""
    connections = Connections(ConnectionLimits(total=10, strangers=10))
    elsewhere, stranger = Guest("other"), Guest("small")
    assert connections.admit(elsewhere) is None
    assert connections.admit(stranger, 1) is None
    assert connections.admit(Guest("small"), 1) is None

    assert elsewhere.displaced_for is None
    assert "connectionsAllowed=1" in str(stranger.displaced_for)


def test_room_comes_back_when_a_connection_ends() -> None:
    """Counts go down as they went up, whatever became of the connection."""
    connections = Connections(ConnectionLimits(total=2, strangers=2))
    stranger, member, *others = silent(connections, 3)
    connections.log_in(member)
    for guest in [stranger, member, *others]:
        connections.remove(guest)

    assert (len(connections), connections.strangers) == (0, 0)
    assert displaced([*silent(connections, 1), member, *others]) == []
    assert connections.admit(Guest(), 2, 2) is None


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
        self._connections.remove(self)


async def test_a_peer_that_has_the_last_words_is_not_waited_for() -> None:
    """It blocks elsewhere and will not answer: the time for goodbyes, an hour here, need not pass."""
    connections = Connections(ConnectionLimits(total=10, strangers=10))
    leavers = [Leaver(connections, said_after=1), Leaver(connections, said_after=3)]
    for leaver in leavers:
        connections.admit(leaver)

    await asyncio.wait_for(connections.shutdown("bye", 3600), 60)

    assert [leaver.events for leaver in leavers] == [
        ["bye", "asked", "cut off"],
        ["bye", "asked", "asked", "asked", "cut off"],
    ]


async def test_a_peer_that_has_not_got_the_last_words_is_waited_for_no_longer_than_agreed() -> None:
    """A slow link, or a peer that reads nothing."""
    connections = Connections(ConnectionLimits(total=10, strangers=10))
    leaver = Leaver(connections, said_after=1000)
    connections.admit(leaver)

    await asyncio.wait_for(connections.shutdown("bye", 0.6), 60)

    assert leaver.events[-1] == "cut off"
    assert leaver.events.count("asked") >= 1


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["add", "remove", "logging in", "checked", "silent"]))))
def test_the_weakest_is_what_a_search_finds(steps: list[tuple[int, str]]) -> None:
    """The constant-time book-keeping against a list that is searched."""
    strangers = Strangers()
    model: list[tuple[Guest, Standing]] = []
    standings = {"logging in": Standing.LOGGING_IN, "checked": Standing.CHECKED, "silent": Standing.SILENT}
    for number, step in steps:
        if step == "add":
            guest = Guest(peer_address=f"10.0.0.{number}")
            strangers.add(guest)
            model.append((guest, Standing.SILENT))
        elif model:
            guest, standing = model[number % len(model)]
            if step == "remove":
                strangers.remove(guest)
                model.remove((guest, standing))
            elif standings[step] is not standing:
                strangers.move(guest, standings[step])
                model.remove((guest, standing))
                model.append((guest, standings[step]))
        silent_ones = [guest for guest, standing in model if standing is Standing.SILENT]
        logging_in = [guest for guest, standing in model if standing is Standing.LOGGING_IN]
        of_one_kind = silent_ones if len(silent_ones) >= len(logging_in) else logging_in
        counts = Counter(guest.peer_address for guest in of_one_kind)
        found = strangers.weakest()
        assert (found is None) == (not of_one_kind)
        if found is not None:
            assert counts[found.peer_address] == max(counts.values())
            assert next(one for one in of_one_kind if one.peer_address == found.peer_address) is found
