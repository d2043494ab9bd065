"""What an operator is told, and what an operator may decide."""

import pytest

from artemis_py.cluster.events import KeptElsewhere
from artemis_py.cluster.report import explain, members_of, shares, stranded
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.cluster_config import LoadBalancing
from artemis_py.errors import InvalidRequest
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_handover import meshed, send_all


def stranded_at(sim: Simulation, node: Node) -> int:
    """What the gauge says when it is read twice, six seconds apart."""
    stranded(node.mesh, node.steady_clock())
    sim.run_for(6_000)
    return stranded(node.mesh, node.steady_clock())


def test_messages_that_are_stranded_on_purpose_are_counted(sim: Simulation) -> None:
    """C61: with an explicit -1 what waits stays, although a consumer elsewhere has room for it."""
    a, b = meshed(sim, 2, settings=AddressSettings(redistribution_delay=-1))
    send_all(sim, a, "q", 10)
    sim.run_for(1_000)
    sim.consume(b, "q", 100)
    sim.run_for(1_000)

    assert stranded_at(sim, a) == 10
    assert explain(a.mesh, "q") == ["redistribution-delay keeps 10 messages from mesh:B"]


def test_time_of_stranded_messages_begins_again_when_they_are_gone(sim: Simulation) -> None:
    """Messages that come later are counted when they have waited for five seconds themselves."""
    a, b = meshed(sim, 2, settings=AddressSettings(redistribution_delay=-1))
    send_all(sim, a, "q", 10)
    elsewhere = sim.consume(b, "q", 100)
    sim.run_for(1_000)
    assert stranded_at(sim, a) == 10
    here = sim.consume(a, "q", 100)
    sim.run_for(1_000)
    assert stranded(a.mesh, a.steady_clock()) == 0
    here.close()
    elsewhere.close()
    sim.run_for(1_000)
    send_all(sim, a, "q", 5)
    sim.run_for(1_000)
    sim.consume(b, "q", 100)
    sim.run_for(1_000)

    assert stranded(a.mesh, a.steady_clock()) == 0
    assert stranded_at(sim, a) == 5


def test_nothing_is_stranded_without_a_reason(sim: Simulation) -> None:
    """C61: a backlog that moves, and messages that nobody wants, are not stranded."""
    a, b = meshed(sim, 2)
    sim.consume(b, "q", 5, selector="colour = 'red'", settle_ms=400)
    send_all(sim, a, "q", 200, colour="red")
    send_all(sim, a, "q", 10, "green", colour="green")
    sim.run_for(1_000)

    assert stranded_at(sim, a) == 0


@pytest.mark.parametrize(
    ("options", "queue_options", "reason"),
    [
        ({}, {}, "no other broker has a consumer for it"),
        (
            {"load_balancing": LoadBalancing.OFF},
            {},
            "message-load-balancing is OFF: messages stay where they were sent",
        ),
        ({}, {"exclusive": True}, "a queue that is exclusive needs one broker: messages stay where they were sent"),
    ],
)
def test_explains_why_messages_wait(
    sim: Simulation, options: dict[str, object], queue_options: dict[str, object], reason: str
) -> None:
    """C59."""
    a, _ = meshed(sim, 2, **options)
    a.run(a.generation, lambda: a.queue("q", **queue_options))
    send_all(sim, a, "q", 3)
    sim.run_for(2_000)

    assert explain(a.mesh, "q") == [reason]
    assert explain(a.mesh, "other") == ["there is no queue 'other' here"]


def test_consumers_of_a_queue_that_stays_elsewhere_are_told(sim: Simulation) -> None:
    """At both brokers, by an event and by `explain`, and once."""
    a, b = meshed(sim, 2)
    a.run(a.generation, lambda: a.queue("q", exclusive=True))
    send_all(sim, a, "q", 3)
    consumers = [sim.consume(b, "q", 10) for _ in range(2)]
    sim.run_for(3_000)

    assert not any(each.bodies for each in consumers)
    assert [each for each in a.events if isinstance(each, KeptElsewhere)] == [KeptElsewhere("mesh", "q", "B", True)]
    assert [each for each in b.events if isinstance(each, KeptElsewhere)] == [KeptElsewhere("mesh", "q", "A", False)]
    assert explain(a.mesh, "q") == [
        "a queue that is exclusive needs one broker: messages stay where they were sent",
        "2 consumers at mesh:B get nothing of it",
    ]
    assert explain(b.mesh, "q")[0] == "what mesh:A has of it stays there: its queue of this name needs one broker"


def test_where_messages_of_a_queue_went_is_known(sim: Simulation) -> None:
    """From both sides, with what each other broker would take now."""
    a, b, c = meshed(sim, 3)
    sim.consume(b, "q", 10)
    send_all(sim, a, "q", 25)
    sim.run_for(3_000)
    went = {share.name: share for share in shares(a.mesh, "q")}
    came = {share.name: share for share in shares(b.mesh, "q")}

    assert (went["B"].handed_over, went["B"].consumers, went["B"].has_queue) == (25, 1, True)
    assert (went["C"].handed_over, went["C"].has_queue) == (0, False)
    assert (came["A"].taken, came["C"].taken) == (25, 0)
    assert came["A"].last_taken_ms > 0
    with pytest.raises(InvalidRequest, match="no queue"):
        shares(c.mesh, "q")


def test_explains_what_consumers_elsewhere_lack(sim: Simulation) -> None:
    """C59: selectors, and room."""
    a, b, c = meshed(sim, 3)
    sim.consume(b, "q", 10, selector="colour = 'red'")
    sim.consume(c, "q", 0)
    send_all(sim, a, "q", 3, colour="green")
    sim.run_for(3_000)

    assert sorted(explain(a.mesh, "q")) == [
        "mesh:B wants none of what waits",
        "mesh:C has a consumer for 3 of what waits, and no room",
    ]


def test_members_are_shown_with_what_is_in_doubt(sim: Simulation) -> None:
    """One that is up, and one that died with messages on their way to it."""
    a, b, c = meshed(sim, 3)
    sim.consume(b, "q", 100, settle_ms=60_000)
    sim.run_for(1_000)
    send_all(sim, a, "q", 50)
    assert sim.run_until(lambda: a.mesh.channels.claimed_for(b.mesh.node_id) > 0, step_ms=1)
    dead = b.mesh.node_id
    sim.crash(b, 1_000_000)
    sim.run_for(20_000)

    states = {status.name: status for status in members_of(a.mesh)}
    assert states["C"].state == "up"
    assert states["B"].state == "away"
    assert states["B"].claimed == a.mesh.channels.claimed_for(dead) > 0
    assert explain(a.mesh, "q")[0].endswith("messages of all queues are in doubt until 'B' is back")
    assert c.mesh.channels.claimed_for(dead) == 0


def test_member_that_is_gone_for_good_is_forgotten(sim: Simulation) -> None:
    """C56: what was on its way to it goes to others, marked."""
    a, b, c = meshed(sim, 3)
    sim.consume(b, "q", 100, settle_ms=60_000)
    sim.run_for(1_000)
    send_all(sim, a, "q", 50)
    assert sim.run_until(lambda: a.mesh.channels.claimed_for(b.mesh.node_id) > 0, step_ms=1)
    dead = b.mesh.node_id
    sim.crash(b, 1_000_000)
    sim.run_for(20_000)
    claimed = a.mesh.channels.claimed_for(dead)
    counts: list[int] = []
    a.run(a.generation, lambda: counts.append(a.mesh.departures.forget(dead)))
    rest = sim.consume(c, "q", 100)
    sim.run_for(10_000)

    assert counts == [claimed]
    assert len(rest.bodies) >= claimed
    assert not sim.in_flight()
    with pytest.raises(InvalidRequest, match="is connected"):
        a.mesh.departures.forget(c.mesh.node_id)
    with pytest.raises(InvalidRequest, match="no member"):
        a.mesh.departures.forget(dead)
