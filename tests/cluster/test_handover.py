"""What clients see of hand-over: rows of the checklist in docs/mesh.md."""

from collections import Counter
from functools import partial

import pytest

from artemis_py.cluster.envelope import MAX_PATH, path_of
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.cluster_config import ClusterConfig, LoadBalancing, Scope
from tests.cluster.clients import SimConsumer
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation


def meshed(sim: Simulation, count: int, **options: object) -> list[Node]:
    """Nodes that are connected."""
    settings = options.pop("settings", None)
    ties = options.pop("ties", None)
    config = ClusterConfig(name="mesh", **options)  # type: ignore[arg-type]
    nodes = sim.add_nodes(count, config, settings, ties)  # type: ignore[arg-type]
    assert sim.run_until(sim.is_meshed)
    return nodes


def send_all(sim: Simulation, node: Node, queue: str, count: int, prefix: str = "m", **properties: object) -> list[str]:
    """Messages in order; what they are called."""
    bodies = [f"{prefix}{number}" for number in range(count)]
    for body in bodies:
        sim.send(node, queue, body, **properties)
    return bodies


def send_if_room(sim: Simulation, node: Node, queue: str, body: str) -> None:
    """Send a message, unless the address is full."""
    address = node.domain.addresses.get(queue)
    if address is None or not address.account.is_full:
        sim.send(node, queue, body)


def has_one(consumer: SimConsumer) -> bool:
    """Whether it got a message."""
    return len(consumer.bodies) == 1


def is_done(sim: Simulation) -> bool:
    """Whether all is consumed and settled."""
    return all(entry.is_confirmed for entry in sim.ledger.entries.values()) and not sim.in_flight()


def test_message_goes_to_the_consumer_of_another_broker(sim: Simulation) -> None:
    """C1, in the core: the queue is created at either end first."""
    a, b = meshed(sim, 2)
    sim.send(a, "q", "first")
    consumer = sim.consume(b, "q")
    early = sim.consume(b, "other")
    sim.run_for(1_000)
    sim.send(a, "other", "second")

    assert sim.run_until(lambda: is_done(sim))
    assert consumer.bodies == ["first"]
    assert early.bodies == ["second"]
    assert sim.table_faults() == []


@pytest.mark.parametrize(("here", "there"), [(1, 1), (1, 9)])
def test_consumers_of_both_brokers_share_as_if_they_were_at_one(sim: Simulation, here: int, there: int) -> None:
    """C2, where no octets are held up."""
    sim.stalls = 0.0
    a, b = meshed(sim, 2)
    local = [sim.consume(a, "q", 100, settle_ms=0) for _ in range(here)]
    remote = [sim.consume(b, "q", 100, settle_ms=0) for _ in range(there)]
    sim.run_for(2_000)
    for number in range(2_000):
        sim.at(sim.now + number * 5, partial(sim.send, a, "q", f"m{number}"))

    assert sim.run_until(lambda: len(sim.ledger.entries) == 2_000 and is_done(sim))
    share = sum(len(each.bodies) for each in remote) / 2_000
    assert share == pytest.approx(there / (here + there), abs=0.1)
    assert sum(len(each.bodies) for each in local + remote) == 2_000


def test_nothing_crosses_without_a_consumer(sim: Simulation) -> None:
    """C3, and C22 for a consumer without credit."""
    a, b, _ = meshed(sim, 3)
    sim.consume(b, "q", 0)
    send_all(sim, a, "q", 100)
    sim.run_for(10_000)

    assert sim.transfers == 0
    assert a.queue("q").waiting_count == 100


def test_consumer_with_credit_for_one_attracts_one(sim: Simulation) -> None:
    """C22."""
    a, b, c = meshed(sim, 3)
    sim.consume(b, "q", 1, settle_ms=3_600_000)
    sim.run_for(2_000)
    send_all(sim, a, "q", 50)
    send_all(sim, c, "q", 50, "other")
    sim.run_for(10_000)

    queue = b.queue("q")
    assert queue.delivering_count == 1
    assert queue.waiting_count <= 1


def test_off_keeps_messages(sim: Simulation) -> None:
    """C7, for anycast."""
    a, b = meshed(sim, 2, load_balancing=LoadBalancing.OFF)
    sim.consume(b, "q")
    send_all(sim, a, "q", 10)
    sim.run_for(10_000)

    assert sim.transfers == 0
    assert a.queue("q").waiting_count == 10


def test_off_with_redistribution_waits_for_the_delay(sim: Simulation) -> None:
    """C8: nothing crosses while a consumer here matches; everything does after the delay without one."""
    settings = AddressSettings(redistribution_delay=2_000)
    a, b = meshed(sim, 2, load_balancing=LoadBalancing.OFF_WITH_REDISTRIBUTION, settings=settings)
    remote = sim.consume(b, "q", 100)
    local = sim.consume(a, "q", 0)
    sim.run_for(1_000)
    send_all(sim, a, "q", 20)
    sim.run_for(10_000)
    assert sim.transfers == 0

    sim.close_consumer(local)
    sim.run_for(1_500)
    assert sim.transfers == 0
    assert sim.run_until(lambda: is_done(sim), 5_000)
    assert len(remote.bodies) == 20


def test_off_with_redistribution_moves_what_no_consumer_here_wants(sim: Simulation) -> None:
    """C8 and C20: by message, not by queue."""
    settings = AddressSettings(redistribution_delay=1_000)
    a, b = meshed(sim, 2, load_balancing=LoadBalancing.OFF_WITH_REDISTRIBUTION, settings=settings)
    remote = sim.consume(b, "q", 100)
    local = sim.consume(a, "q", 0, selector="colour = 'red'")
    sim.run_for(1_000)
    send_all(sim, a, "q", 10, "red", colour="red")
    blue = send_all(sim, a, "q", 10, "blue", colour="blue")
    sim.run_for(10_000)

    assert remote.bodies == blue
    assert a.queue("q").waiting_count == 10
    assert local.bodies == []


def test_explicit_delay_of_minus_one_keeps_what_waits(sim: Simulation) -> None:
    """C9: only what arrives while a taker has a grant is handed over."""
    a, b = meshed(sim, 2, settings=AddressSettings(redistribution_delay=-1))
    send_all(sim, a, "q", 10, "old")
    sim.run_for(1_000)
    remote = sim.consume(b, "q", 100)
    sim.run_for(5_000)
    assert remote.bodies == []

    send_all(sim, a, "q", 5, "new")
    sim.run_for(5_000)
    assert remote.bodies == [f"new{number}" for number in range(5)]
    assert a.queue("q").waiting_count == 10


def test_delay_gives_a_consumer_here_time_to_return(sim: Simulation) -> None:
    """ON_DEMAND with a redistribution delay."""
    a, b = meshed(sim, 2, settings=AddressSettings(redistribution_delay=3_000))
    remote = sim.consume(b, "q", 100)
    local = sim.consume(a, "q", 1)
    sim.close_consumer(local)
    sim.run_for(500)
    send_all(sim, a, "q", 10)
    sim.run_for(1_500)
    assert remote.bodies == []

    assert sim.run_until(lambda: is_done(sim), 5_000)
    assert len(remote.bodies) == 10


@pytest.mark.parametrize(("hops", "arrives"), [(0, 0), (1, 0), (2, 10)])
def test_chain_is_as_long_as_max_hops_says(sim: Simulation, hops: int, arrives: int) -> None:
    """C17."""
    a, _, c = meshed(sim, 3, max_hops=hops, ties=[(0, 1), (1, 2)])
    consumer = sim.consume(c, "q", 100)
    sim.run_for(2_000)
    send_all(sim, a, "q", 10)
    sim.run_for(10_000)

    assert len(consumer.bodies) == arrives


def test_what_is_left_at_the_end_of_a_chain_goes_back(sim: Simulation) -> None:
    """C17, and I5: the node on the way has handed the messages over before, and the consumer is not there."""
    a, _, c = meshed(sim, 3, max_hops=2, ties=[(0, 1), (1, 2)])
    first = sim.consume(c, "q", 10, settle_ms=60_000)
    sim.run_for(2_000)
    bodies = send_all(sim, a, "q", 10)
    assert sim.run_until(lambda: len(first.bodies) == 10)
    sim.close_consumer(first)
    last = sim.consume(a, "q", 10)

    assert sim.run_until(lambda: is_done(sim))
    assert sorted({*last.bodies}) == bodies


def test_room_at_the_end_of_a_chain_reaches_its_begin(sim: Simulation) -> None:
    """C17 and I5: C has room for one message, and two peers. B would never ask for it, because it has no messages."""
    a, b, _, d = meshed(sim, 4, max_hops=3, standing_grant=0, ties=[(0, 1), (1, 2), (2, 3)])
    sim.consume(b, "q", 0)
    last = sim.consume(d, "q", 1)
    sim.run_for(2_000)
    bodies = send_all(sim, a, "q", 10)

    assert sim.run_until(lambda: is_done(sim))
    assert last.bodies == bodies


def test_path_does_not_grow_with_every_move(sim: Simulation) -> None:
    """A message that consumers of two nodes draw to and fro: an envelope has room for some nodes only."""
    nodes = meshed(sim, 2)
    sim.send(nodes[0], "q", "drawn")
    for number in range(MAX_PATH + 4):
        node = nodes[(number + 1) % 2]
        consumer = sim.consume(node, "q", 1, settle_ms=10_000_000)
        assert sim.run_until(lambda: has_one(consumer), 200_000)  # noqa: B023
        assert [len(path_of(each)) for each in consumer.unsettled()] == [min(number + 1, MAX_PATH)]
        sim.close_consumer(consumer)


def test_ring_with_several_ways_delivers_once(sim: Simulation) -> None:
    """C18."""
    a, b, c, d = meshed(sim, 4, max_hops=3, ties=[(0, 1), (1, 2), (2, 3), (3, 0)])
    consumers = [sim.consume(node, "q", 20) for node in (a, c)]
    sim.run_for(2_000)
    for node in (a, b, c, d):
        send_all(sim, node, "q", 200, node.name)

    assert sim.run_until(lambda: is_done(sim))
    assert sum(len(each.bodies) for each in consumers) == 800
    assert sim.table_faults() == []


def test_selectors_decide_what_crosses(sim: Simulation) -> None:
    """C19: only what a consumer elsewhere wants moves, once, and the rest stays where it was sent."""
    a, b, c = meshed(sim, 3)
    red = sim.consume(a, "q", 50, selector="colour = 'red'")
    blue = sim.consume(b, "q", 50, selector="colour = 'blue'")
    sim.run_for(2_000)
    for node in (a, b, c):
        for colour in ("red", "blue", "green"):
            send_all(sim, node, "q", 100, f"{node.name}-{colour}-", colour=colour)
    sim.run_for(30_000)

    assert Counter(body.split("-")[1] for body in red.bodies) == {"red": 300}
    assert Counter(body.split("-")[1] for body in blue.bodies) == {"blue": 300}
    assert [node.queue("q").waiting_count for node in (a, b, c)] == [100, 100, 100]
    assert sim.transfers == 400


def test_consumer_without_selector_beside_one_with(sim: Simulation) -> None:
    """C19: Artemis takes the selectors of some for those of all."""
    a, b = meshed(sim, 2)
    picky = sim.consume(b, "q", 50, selector="colour = 'red'")
    anything = sim.consume(b, "q", 50)
    sim.run_for(2_000)
    send_all(sim, a, "q", 100, colour="green")

    assert sim.run_until(lambda: is_done(sim))
    assert len(anything.bodies) == 100
    assert picky.bodies == []


def test_unmatched_message_moves_to_demand_that_was_there_before(sim: Simulation) -> None:
    """C20, within a second."""
    a, b = meshed(sim, 2)
    sim.consume(a, "q", 50, selector="colour = 'red'")
    blue = sim.consume(b, "q", 50, selector="colour = 'blue'")
    sim.run_for(2_000)
    sim.send(a, "q", "one", colour="blue")
    sim.run_for(1_000)

    assert blue.bodies == ["one"]


def test_many_selectors_strand_nothing(sim: Simulation) -> None:
    """C21: with more than are told, everything may come, and what nobody wants there goes on."""
    a, b, c = meshed(sim, 3)
    for number in range(40):
        sim.consume(b if number % 2 else c, "q", 5, selector=f"number = {number}")
    sim.run_for(2_000)
    for number in range(200):
        sim.send(a, "q", f"m{number}", number=number % 40)

    assert sim.run_until(lambda: is_done(sim), 300_000)


def test_receive_loop_makes_progress(sim: Simulation) -> None:
    """C23, in the core: attach with one credit, wait 10 ms, detach, against a backlog elsewhere."""
    a, b = meshed(sim, 2)
    send_all(sim, a, "q", 50)
    sim.run_for(1_000)
    consumers = []
    for _ in range(400):
        consumer = sim.consume(b, "q", 1, settle_ms=0)
        sim.run_for(10)
        sim.close_consumer(consumer)
        sim.run_for(5)
        consumers.append(consumer)

    got = sum(len(each.bodies) for each in consumers)
    assert got >= 10
    assert sim.transfers <= got + 1


def test_stopped_process_holds_at_most_what_was_granted(sim: Simulation) -> None:
    """C24: the others go on."""
    a, b, c = meshed(sim, 3, check_period_ms=3_000)
    sim.consume(b, "q", 10)
    here = sim.consume(c, "q", 10)
    sim.run_for(2_000)
    sim.stop(b, 50_000)
    send_all(sim, a, "q", 500)
    sim.run_for(20_000)

    assert a.mesh.channels.claimed_for(b.mesh.node_id) <= 10
    assert sim.run_until(lambda: len(here.bodies) >= 490, 20_000)
    assert sim.run_until(lambda: is_done(sim), 120_000)


def test_order_of_a_producer_is_kept_across_breaks(sim: Simulation) -> None:
    """One queue that is consumed at one other node (mesh §4.14), while connections break and nodes die."""
    a, b = meshed(sim, 2)
    bodies = [f"m{number}" for number in range(600)]
    consumer = sim.consume(b, "q", 1_000, settle_ms=5)
    for number, body in enumerate(bodies):
        sim.at(sim.now + number * 10, partial(sim.send, a, "q", body))
    for number in range(8):
        sim.at(sim.now + 500 + number * 700, lambda: sim.cut(a, b))

    assert sim.run_until(lambda: len(sim.ledger.entries) == 600 and is_done(sim), 120_000)
    assert consumer.bodies == bodies


def test_attempts_count_over_brokers(sim: Simulation) -> None:
    """C40: what failed at one broker counts at the next; the tenth failure is the last."""
    settings = AddressSettings(max_delivery_attempts=6, dead_letter_address="DLQ")
    a, b = meshed(sim, 2, settings=settings)
    sim.send(a, "q", "m")
    for node in (a, b, a):
        failing = sim.consume(node, "q", 1, settle_ms=3_600_000)
        assert sim.run_until(partial(has_one, failing))
        for _ in range(2):
            node.run(node.generation, failing.fail)
            sim.run_for(200)
        sim.close_consumer(failing)
        sim.run_for(1_000)

    assert [node.queue("q").messages_killed for node in (a, b)] == [1, 0]


@pytest.mark.parametrize(
    "kind",
    [
        {"exclusive": True},
        {"last_value": True},
        {"ring_size": 100},
        {"non_destructive": True},
        {"purge_on_no_consumers": True},
        {"max_consumers": 1},
    ],
    ids=lambda kind: "".join(kind),
)
def test_queue_that_needs_one_broker_stays(sim: Simulation, kind: dict[str, object]) -> None:
    """A kind of queue that cannot be spread: peers are told that it is kept, and nothing crosses."""
    a, b = meshed(sim, 2)
    a.run(a.generation, lambda: a.queue("q", **kind))
    sim.consume(b, "q")
    send_all(sim, a, "q", 10)
    sim.run_for(5_000)

    assert sim.transfers == 0
    (peer,) = b.mesh.peers.values()
    (remote,) = list(peer.remotes)
    assert remote.instance.placement == 2


def test_messages_of_a_group_stay(sim: Simulation) -> None:
    """A message with a group id needs one broker; others of its queue are handed over."""
    a, b = meshed(sim, 2)
    consumer = sim.consume(b, "q")
    sim.run_for(1_000)
    for number in range(5):
        sim.send(a, "q", f"grouped{number}", has_group=True)
        sim.send(a, "q", f"free{number}")
    sim.run_for(5_000)

    assert consumer.bodies == [f"free{number}" for number in range(5)]
    assert a.queue("q").waiting_count == 5


def test_scope_bounds_what_is_told_and_moved(sim: Simulation) -> None:
    """C11: an address out of scope is neither told nor handed over."""
    a, b = meshed(sim, 2, scope=Scope(("orders.",), ("orders.test",)))
    inside = sim.consume(b, "orders.eu")
    outside = [sim.consume(b, name) for name in ("orders.test.1", "payments")]
    sim.run_for(1_000)
    for name in ("orders.eu", "orders.test.1", "payments"):
        sim.send(a, name, name)
    sim.run_for(5_000)

    assert inside.bodies == ["orders.eu"]
    assert [each.bodies for each in outside] == [[], []]
    assert [local.queue.name for local in b.mesh.locals()] == ["orders.eu"]


def test_full_address_grants_nothing(sim: Simulation) -> None:
    """C43 with FAIL: messages stay at their origin while the taker's address is full."""
    settings = AddressSettings(max_size_messages=20, address_full_policy=FullPolicy.FAIL)
    a, b = meshed(sim, 2, settings=settings)
    slow = sim.consume(b, "q", 1_000, settle_ms=3_600_000)
    sim.run_for(1_000)
    for number in range(100):
        sim.at(sim.now + number * 50, partial(send_if_room, sim, a, "q", f"m{number}"))
    sim.run_for(20_000)

    assert len(slow.bodies) <= 20 + 10
    assert b.queue("q").message_count <= 20 + 10


# -- STRICT --------------------------------------------------------------------------------------------------------


def test_strict_divides_evenly_among_brokers_that_have_the_queue(sim: Simulation) -> None:
    """C5: with consumers or without; a broker without the queue gets nothing."""
    a, b, c, d = meshed(sim, 4, load_balancing=LoadBalancing.STRICT)
    for node in (a, b, c):
        node.run(node.generation, partial(node.queue, "q"))
    sim.consume(d, "other")
    sim.run_for(1_000)
    send_all(sim, a, "q", 100)
    sim.run_for(5_000)

    counts = [node.queue("q").waiting_count for node in (a, b, c)]
    assert sum(counts) == 100
    assert max(counts) - min(counts) <= 1
    assert "q" not in d.domain.queues
    assert sim.in_flight() == 0


def test_strict_keeps_the_share_of_a_broker_that_is_away(sim: Simulation) -> None:
    """C6: it comes later, in order, and never moves again."""
    a, b = meshed(sim, 2, load_balancing=LoadBalancing.STRICT)
    for node in (a, b):
        node.run(node.generation, partial(node.queue, "q"))
    sim.run_for(1_000)
    sim.crash(b, 20_000)
    sim.run_for(5_000)
    bodies = send_all(sim, a, "q", 40)
    sim.run_for(5_000)
    sim.crash(a, 500)
    here = None
    assert sim.run_until(lambda: a.is_running)
    here = sim.consume(a, "q", 100)
    assert sim.run_until(sim.is_meshed)
    there = sim.consume(b, "q", 100)

    assert sim.run_until(lambda: is_done(sim))
    assert len(here.bodies) == len(there.bodies) == 20
    assert there.bodies == [body for body in bodies if body in set(there.bodies)]


def test_paused_queue_takes_nothing(sim: Simulation) -> None:
    """Its consumers get nothing, so it has no room; it has when it is resumed."""
    a, b = meshed(sim, 2)
    consumer = sim.consume(b, "q", 100)
    b.run(b.generation, b.queue("q").pause)
    sim.run_for(1_000)
    send_all(sim, a, "q", 30)
    sim.run_for(5_000)
    assert sim.transfers == 0

    b.run(b.generation, b.queue("q").resume)
    assert sim.run_until(lambda: is_done(sim))
    assert len(consumer.bodies) == 30


def test_scheduled_message_stays_until_it_is_due(sim: Simulation) -> None:
    """C39: it is a new arrival at its origin then, and reaches the consumer elsewhere once."""
    a, b = meshed(sim, 2)
    consumer = sim.consume(b, "q", 10)
    sim.run_for(1_000)
    sim.send(a, "q", "later", delay_ms=2_000)
    sim.run_for(1_900)
    assert sim.transfers == 0

    assert sim.run_until(lambda: is_done(sim), 10_000)
    assert consumer.bodies == ["later"]


def test_message_expires_where_it_is(sim: Simulation) -> None:
    """C39: expiry travels with a message, and is not delivered anywhere after it."""
    a, b = meshed(sim, 2)
    sim.nodes[0].clock_offset_ms = sim.nodes[1].clock_offset_ms = 0
    busy = sim.consume(b, "q", 2, settle_ms=0)
    b.run(b.generation, busy.consumer.block)
    sim.run_for(1_000)
    for number in range(10):
        sim.send(a, "q", f"m{number}", ttl_ms=5_000)
    sim.run_for(10_000)
    b.run(b.generation, busy.consumer.unblock)
    sim.run_for(10_000)

    assert busy.bodies == []
    assert not sim.in_flight()


def test_local_messages_concern_no_peer(sim: Simulation) -> None:
    """A consumer whose credit comes and goes with messages of its own broker: peers hear of that once in a while."""
    a, *_ = sim.add_nodes(4, ClusterConfig(name="mesh"))
    assert sim.run_until(sim.is_meshed)
    sim.consume(a, "q", 3, settle_ms=1)
    sim.run_for(1_000)
    told = {peer: peer._told for peer in a.mesh.peers.values()}
    for number in range(500):
        sim.at(sim.now + 2 * number, partial(sim.send, a, "q", f"m{number}"))
    sim.run_for(1_000)

    assert len(sim.consumers[0].bodies) == 500
    assert all(peer._told - before <= 60 for peer, before in told.items())


def test_a_grant_that_is_not_used_is_taken_back(sim: Simulation) -> None:
    """A consumer whose credit was used by a message of its own broker attracts none after that."""
    a, b = sim.add_nodes(2, ClusterConfig(name="mesh"))
    assert sim.run_until(sim.is_meshed)
    consumer = sim.consume(a, "q", 0)
    a.run(a.generation, lambda: consumer.consumer.grant(1))
    sim.run_for(500)
    sim.send(a, "q", "here")
    sim.run_for(500)
    sim.send(b, "q", "there")
    sim.run_for(1_000)

    assert consumer.bodies == ["here"]
    assert b.domain.queues["q"].message_count == 1
    a.run(a.generation, lambda: consumer.consumer.grant(1))
    sim.run_for(1_000)
    assert consumer.bodies == ["here", "there"]


def test_node_in_between_asks_none_of_whom_it_asks_for(sim: Simulation) -> None:
    """What it wants for A it tells C, and never A: not even for the moment in which what a consumer wanted lingers."""
    a, _, c = meshed(sim, 3, max_hops=2, ties=[(0, 1), (1, 2)])
    sim.consume(a, "q")
    sim.run_for(2_000)
    told = [peer.remotes.find("q", "q") for peer in (*a.mesh.peers.values(), *c.mesh.peers.values())]
    for _ in range(50):
        sim.run_for(37)
        assert [None if remote is None else remote.demand.consumers for remote in told] == [0, 1]


def test_a_consumer_with_much_credit_is_granted_all_of_it(sim: Simulation) -> None:
    """A commit of the origin takes milliseconds: with fewer on their way, one broker would wait for the other."""
    sim.stalls = 0.0
    a, b = meshed(sim, 2)
    consumer = sim.consume(b, "q", 3_000, settle_ms=3_600_000)
    sim.run_for(2_000)
    send_all(sim, a, "q", 10)
    assert sim.run_until(lambda: len(consumer.bodies) == 10)
    sim.run_for(100)

    granted = [remote.granted - remote.handed for remote in a.mesh.peers[b.mesh.node_id].remotes]
    assert granted == [2_990]
