"""What consumers elsewhere attract, and how often a message moves for them: rows C21, C23 and C24 of the checklist."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from artemis_py.cluster.report import explain
from artemis_py.cluster.taker import FREE_MOVES
from tests.cluster.moves import Moves
from tests.cluster.test_handover import is_done, meshed, send_all

FIRST_WAIT_MS = 100
SELECTORS = 100


@pytest.fixture
def moves(folder: Path) -> Iterator[Moves]:
    """A simulation that counts moves, and whose promises must hold at the end."""
    simulation = Moves(1, folder)
    yield simulation
    simulation.close()
    assert simulation.ledger.violations == []


def longest_run(times: list[float]) -> int:
    """Moves of one message that followed each other without a wait."""
    run = longest = 1
    for before, after in pairwise(times):
        run = run + 1 if after - before < FIRST_WAIT_MS else 1
        longest = max(longest, run)
    return longest


def test_hundred_selectors_are_told_as_everything_and_strand_nothing(moves: Moves) -> None:
    """C21: each message finds its consumer, and makes no more than four moves before it waits."""
    moves.stalls = 0.0
    a, b, c = meshed(moves, 3)
    for number in range(SELECTORS):
        moves.consume(b if number % 2 else c, "q", 5, selector=f"number = {number}", settle_ms=1)
    moves.run_for(2_000)
    for node in (b, c):
        remote = a.mesh.peers[node.mesh.node_id].remotes.find("q", "q")
        assert remote is not None
        assert remote.demand.wants == (("", 1, SELECTORS // 2),)
    for number in range(3 * SELECTORS):
        moves.send(a, "q", f"m{number}", number=number % SELECTORS)

    assert moves.run_until(lambda: is_done(moves), 300_000)
    assert not moves.stranded()
    assert max(map(longest_run, moves.times.values())) <= FREE_MOVES


def test_what_none_of_many_selectors_wants_comes_to_rest(moves: Moves) -> None:
    """C21: after four moves it waits, each time longer, so that an hour costs little."""
    a, b, c = meshed(moves, 3)
    for number in range(SELECTORS):
        moves.consume(b if number % 2 else c, "q", 5, selector=f"number = {number}")
    moves.run_for(2_000)
    send_all(moves, a, "q", 5, number=-1)
    moves.run_for(60_000)
    early = moves.most()
    # A message that nobody wants, and that rests, is not stranded; `explain` says what it does.
    assert [moves.counted_as_stranded() for _ in range(10)] == [[]] * 10
    reasons = [reason for node in (a, b, c) if node.queue("q").waiting_count for reason in explain(node.mesh, "q")]
    assert any("has moved often" in reason for reason in reasons)
    moves.run_for(3_600_000)

    assert not moves.stranded()
    assert max(map(longest_run, moves.times.values())) <= FREE_MOVES
    # The waits are 100 ms, twice that, and so on, up to a minute: ten in the first one.
    assert early <= FREE_MOVES + 10
    assert moves.most() <= early + 61


def test_receive_loop_gets_all_and_moves_each_at_most_twice(moves: Moves) -> None:
    """C23, in the core: attach with one credit, wait 10 ms, detach, until the backlog of another broker is consumed."""
    moves.stalls = 0.0
    moves.has_slow_disks = False
    a, b = meshed(moves, 2)
    bodies = send_all(moves, a, "q", 50)
    moves.run_for(1_000)
    got: list[str] = []
    loops = 0
    while len(got) < 50 and loops < 1_000:
        loops += 1
        consumer = moves.consume(b, "q", 1, settle_ms=0)
        moves.run_for(10)
        moves.close_consumer(consumer)
        moves.run_for(5)
        got += consumer.bodies

    assert sorted(set(got)) == sorted(bodies)
    assert moves.most() <= 2


def test_stopped_process_costs_the_others_its_grant_and_no_time(moves: Moves) -> None:
    """C24: from `check-period` on, everything goes to the other consumer as fast as if it were the only one."""
    moves.stalls = 0.0
    moves.has_slow_disks = False
    a, b, c = meshed(moves, 3, check_period_ms=3_000, connection_ttl_ms=60_000)
    there = moves.consume(b, "q", 10, settle_ms=0)
    here = moves.consume(c, "q", 10, settle_ms=0)
    moves.run_for(2_000)
    moves.stop(b, 50_000)
    stopped_ms = moves.now
    for number in range(400):
        moves.at(moves.now + number * 10, partial(moves.send, a, "q", f"before{number}"))
    moves.run_for(4_000 + 1_000)

    held = [node.mesh.channels.claimed_for(b.mesh.node_id) for node in (a, c)]
    assert sum(held) <= 10
    assert (len(here.bodies), len(there.bodies)) == (400 - sum(held), 0)
    for number in range(400):
        moves.at(moves.now + number * 10, partial(moves.send, a, "q", f"after{number}"))
    sent = [moves.now + number * 10 for number in range(400)]
    moves.run_for(5_000)
    assert stopped_ms + 50_000 > moves.now
    assert [body for body in here.bodies if body.startswith("after")] == [f"after{number}" for number in range(400)]
    waits = [moves.times["q", f"after{number}"][-1] - sent[number] for number in range(400)]
    assert max(waits) < 250
    assert [node.mesh.channels.claimed_for(b.mesh.node_id) for node in (a, c)] == held
    assert moves.run_until(lambda: is_done(moves), 120_000)
