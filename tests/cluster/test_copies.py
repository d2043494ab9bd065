"""What subscribers see of a mesh: rows of the checklist in docs/mesh.md."""

from functools import partial

import pytest
from attrs import evolve

from artemis_py.cluster.envelope import Envelope, encode_envelope
from artemis_py.cluster.events import NotCopied
from artemis_py.cluster.records import CopyChannel, Interest, Seen, SharedInstance
from artemis_py.cluster.report import explain
from artemis_py.cluster.strict import MAX_UNSTORED
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.carrier import Lane
from artemis_py.core.sessions.subscriptions import Lifetime, Subscription
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.cluster_config import LoadBalancing, Scope
from artemis_py.errors import MaxConsumersReached, NotAuthorized
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_connections import UP, open_wire
from tests.cluster.test_handover import meshed
from tests.cluster.topics import SimSubscriber, Topics


@pytest.fixture
def topics(sim: Simulation) -> Topics:
    """Subscribers of the simulation."""
    return Topics(sim)


def publish_all(topics: Topics, node: Node, address: str, count: int, **options: object) -> list[str]:
    """Messages in order; their bodies."""
    return [topics.publish(node, address, **options) for _ in range(count)]  # type: ignore[arg-type]


def waiting(node: Node) -> int:
    """Messages that wait at a node for others."""
    return sum(queue.message_count for queue in node.domain.queues.values() if queue.internal)


def test_each_subscriber_gets_each_message_once_and_each_link_one_copy(sim: Simulation, topics: Topics) -> None:
    """C4."""
    a, b, c = meshed(sim, 3)
    found = [topics.subscribe(node, address) for node in (a, b, c) for address in ("news.x", "news.*", "#")]
    sim.run_for(2_000)
    bodies = publish_all(topics, a, "news.x", 50)
    sim.run_for(5_000)

    assert [each.bodies for each in found] == [bodies] * 9
    assert sim.copies == 2 * 50
    assert waiting(a) == 0
    assert sim.table_faults() == []


def test_copies_go_only_where_a_selector_wants_them(sim: Simulation, topics: Topics) -> None:
    """C19, for subscriptions: what nobody wants is not on the wire."""
    a, b, c = meshed(sim, 3)
    red = topics.subscribe(b, "news", selector="colour = 'red'")
    other = topics.subscribe(c, "news", selector="colour <> 'red'")
    sim.run_for(2_000)
    for colour in ["red", "blue", "red", "green"]:
        topics.publish(a, "news", colour=colour)
    sim.run_for(3_000)

    assert (red.bodies, other.bodies) == (["A:1", "A:3"], ["A:2", "A:4"])
    assert sim.copies == 4


def test_many_selectors_are_told_as_everything(sim: Simulation, topics: Topics) -> None:
    """The subscription's own queue does the rest (`interest-detail`)."""
    a, b = meshed(sim, 2, interest_detail=2)
    found = [topics.subscribe(b, "news", selector=f"number = {number}") for number in range(3)]
    sim.run_for(2_000)
    for number in range(4):
        topics.publish(a, "news", number=number)
    sim.run_for(3_000)

    assert [each.bodies for each in found] == [["A:1"], ["A:2"], ["A:3"]]
    assert sim.copies == 4


@pytest.mark.parametrize("balancing", list(LoadBalancing))
def test_copies_are_made_whatever_the_load_balancing(sim: Simulation, topics: Topics, balancing: LoadBalancing) -> None:
    """C7: OFF keeps anycast queues apart, not subscriptions, whether they are shared or not."""
    a, b = meshed(sim, 2, load_balancing=balancing)
    plain = topics.subscribe(b, "news")
    shared = topics.subscribe(b, "other", "group", shared=True)
    sim.run_for(2_000)
    for _ in range(2):
        topics.publish(a, "news")
        topics.publish(a, "other")
    sim.run_for(10_000)

    assert plain.bodies == ["A:1", "A:3"]
    # With STRICT, half of them have their turn where they were published.
    assert len(shared.bodies) == (1 if balancing is LoadBalancing.STRICT else 2)


def test_without_hops_nothing_crosses(sim: Simulation, topics: Topics) -> None:
    """C17."""
    a, b = meshed(sim, 2, max_hops=0)
    plain, shared = topics.subscribe(b, "news"), topics.subscribe(b, "news", "group", shared=True)
    sim.run_for(2_000)
    topics.publish(a, "news")
    sim.run_for(3_000)

    assert (plain.bodies, shared.bodies, sim.transfers) == ([], [], 0)
    assert "group" not in a.domain.queues


@pytest.mark.parametrize(("hops", "reached"), [(1, 1), (2, 2), (3, 3)])
def test_chain_reaches_as_far_as_max_hops(sim: Simulation, topics: Topics, hops: int, reached: int) -> None:
    """C17: one copy for each link, and none for a node that is too far away."""
    nodes = meshed(sim, 4, max_hops=hops, ties=[(0, 1), (1, 2), (2, 3)])
    found = [topics.subscribe(node, "news") for node in nodes[1:]]
    sim.run_for(5_000)
    bodies = publish_all(topics, nodes[0], "news", 10)
    sim.run_for(5_000)

    assert [each.bodies for each in found] == [bodies] * reached + [[]] * (3 - reached)
    assert sim.copies == 10 * reached
    assert sim.table_faults() == []


def test_ring_brings_nothing_twice(sim: Simulation, topics: Topics) -> None:
    """C18: two ways lead to the node opposite."""
    nodes = meshed(sim, 4, max_hops=3, ties=[(0, 1), (1, 2), (2, 3), (3, 0)])
    found = [topics.subscribe(node, "news") for node in nodes]
    sim.run_for(5_000)
    for node in nodes:
        publish_all(topics, node, "news", 10)
    sim.run_for(8_000)

    assert [sorted(each.bodies) for each in found] == [sorted(found[0].bodies)] * 4
    assert len(found[0].bodies) == 40
    assert sim.copies == 4 * 10 * 3
    assert sim.table_faults() == []


def test_what_a_ring_has_forgotten_does_not_come_round(sim: Simulation, topics: Topics) -> None:
    """A subscription that ends leaves nothing behind, in tables either."""
    nodes = meshed(sim, 4, max_hops=3, ties=[(0, 1), (1, 2), (2, 3), (3, 0)])
    plain = topics.subscribe(nodes[0], "news")
    sim.run_for(5_000)
    plain.node.run(plain.generation, plain.close)
    sim.run_for(5_000)

    assert [list(node.mesh.interests.announced()) for node in nodes] == [[]] * 4
    topics.publish(nodes[2], "news")
    sim.run_for(2_000)
    assert sim.copies == 0


def test_durable_subscription_misses_nothing_while_its_node_is_down(sim: Simulation, topics: Topics) -> None:
    """What it wants is stored, so the publishing broker knows of it even if both are started again."""
    a, b = meshed(sim, 2)
    kept = topics.subscribe(b, "news", "kept")
    plain = topics.subscribe(b, "news")
    sim.run_for(2_000)
    sim.crash(b, 60_000)
    first = publish_all(topics, a, "news", 5)
    sim.run_for(1_000)
    sim.crash(a, 10)
    sim.run_for(1_000)
    second = publish_all(topics, a, "news", 5)
    sim.run_for(1_000)
    assert waiting(a) == 10
    assert sim.run_until(sim.is_meshed, 120_000)
    again = topics.subscribe(b, "news", "kept")
    sim.run_for(5_000)

    assert again.bodies == first + second
    assert (kept.bodies, plain.bodies) == ([], [])
    assert waiting(a) == 0


def test_a_client_reads_nothing_that_waits_for_another_broker(sim: Simulation, topics: Topics) -> None:
    """C49: what waits for a peer is the broker's own, whoever asks for it."""
    a, b = meshed(sim, 2)
    topics.subscribe(b, "news", "kept")
    sim.run_for(2_000)
    sim.crash(b, 60_000)
    publish_all(topics, a, "news", 3)
    sim.run_for(1_000)
    (queue,) = [each for each in a.domain.queues.values() if each.internal]

    assert queue.message_count == 3
    for attempt in (
        lambda: a.session.check_consumer(queue),
        lambda: a.session.producer(queue.address.name),
        lambda: a.session.delete_queue(queue.name, True),
    ):
        with pytest.raises((NotAuthorized, MaxConsumersReached)):
            attempt()
    assert queue.message_count == 3
    assert sim.run_until(sim.is_meshed, 120_000)
    topics.subscribe(b, "news", "kept")
    sim.run_for(2_000)


def test_copies_for_what_is_not_durable_are_bounded_while_a_node_is_away(sim: Simulation, topics: Topics) -> None:
    """Nobody knows whether such a subscription is there when the node is back."""
    a, b = meshed(sim, 2)
    topics.subscribe(b, "news")
    sim.run_for(2_000)
    sim.crash(b, 3_600_000)
    sim.run_for(1_000)
    publish_all(topics, a, "news", MAX_UNSTORED + 5)
    sim.run_for(1_000)

    assert waiting(a) == MAX_UNSTORED
    assert a.mesh.forward_to(b.mesh.node_id).dropped == 5
    assert len([event for event in a.events if isinstance(event, NotCopied)]) == 1


def test_break_of_the_connection_loses_no_copy_and_doubles_none(sim: Simulation, topics: Topics) -> None:
    """Durable or not: only the death of a node loses what is in its memory (mesh §4.4)."""
    a, b = meshed(sim, 2)
    found = [topics.subscribe(b, "news"), topics.subscribe(b, "news", "kept")]
    sim.run_for(2_000)
    bodies = []
    for number in range(60):
        bodies.append(topics.publish(a, "news", durable=number % 2 == 0))
        if number % 20 == 10:
            sim.cut(a, b)
        sim.run_for(30)
    assert sim.run_until(sim.is_meshed, 120_000)
    sim.run_for(10_000)

    assert [each.bodies for each in found] == [bodies] * 2


def test_shared_subscription_gets_each_message_once(sim: Simulation, topics: Topics) -> None:
    """C32: members at three nodes are one subscription, and one that dies leaves its messages to the others."""
    nodes = meshed(sim, 3)
    members = [topics.subscribe(node, "news", "group", shared=True, settle_ms=10) for node in nodes]
    sim.run_for(2_000)
    bodies = [body for node in nodes for body in publish_all(topics, node, "news", 30)]
    sim.run_for(200)
    sim.crash(nodes[2], 1_000)
    sim.run_for(20_000)
    members.append(topics.subscribe(nodes[0], "news", "group", shared=True))
    sim.run_for(5_000)

    assert set(bodies) == {body for each in members for body in each.bodies}
    assert sim.ledger.missing() == []
    assert all(each.bodies for each in members[:2])


def test_shell_collects_for_a_subscription_elsewhere(sim: Simulation, topics: Topics) -> None:
    """Its filter, too; and what came before the consumer had credit moves later."""
    a, b = meshed(sim, 2)
    idle = topics.subscribe(b, "news", "group", shared=True, credit=0, selector="colour = 'red'")
    sim.run_for(2_000)
    topics.publish(a, "news", colour="red")
    topics.publish(a, "news", colour="blue")
    sim.run_for(2_000)
    assert a.domain.queues["group"].message_count == 1
    assert sim.transfers == 0

    idle.node.run(idle.generation, lambda: idle.consumer.grant(10))
    sim.run_for(2_000)
    assert idle.bodies == ["A:1"]


@pytest.mark.parametrize("durable", [True, False])
def test_end_of_a_shared_subscription_leaves_no_shell(sim: Simulation, topics: Topics, durable: bool) -> None:
    """Nothing is stranded: neither queue nor message."""
    a, b, c = meshed(sim, 3)
    member = topics.subscribe(b, "news", "group", shared=True, durable=durable, credit=0)
    sim.run_for(2_000)
    topics.publish(a, "news")
    sim.run_for(500)
    assert all("group" in node.domain.queues for node in (a, b, c))
    member.node.run(member.generation, member.unsubscribe)
    sim.run_for(5_000)

    assert not any("group" in node.domain.queues for node in (a, b, c))


def test_member_that_leaves_last_here_leaves_the_queue_to_others(sim: Simulation, topics: Topics) -> None:
    """Each node counts its own members (MQTT): the last one's UNSUBSCRIBE ends nothing for those elsewhere."""
    a, b = meshed(sim, 2)
    here = topics.subscribe(a, "news", "group", shared=True)
    there = topics.subscribe(b, "news", "group", shared=True)
    sim.run_for(2_000)
    leave(here)
    sim.run_for(2_000)
    assert a.mesh.shells.is_shell("group")
    topics.publish(a, "news")
    sim.run_for(2_000)
    assert there.bodies == ["A:1"]

    leave(there)
    sim.run_for(5_000)
    assert "group" not in a.domain.queues
    assert "group" not in b.domain.queues


def leave(member: SimSubscriber) -> None:
    """End a subscription as MQTT does for the last member at a node."""

    def end() -> None:
        member.close()
        assert member.of is not None
        ended = Subscription(member.of.queue, Lifetime.UNTIL_UNSUBSCRIBED)
        member.node.session.subscriptions.unsubscribe(ended, "its last member left", force=True)

    member.node.run(member.generation, end)


def test_unsubscribe_reaches_a_node_that_was_away(sim: Simulation, topics: Topics) -> None:
    """C31, for a shared subscription: it was consumed there as well, long ago."""
    a, b = meshed(sim, 2)
    first = topics.subscribe(a, "news", "group", shared=True)
    second = topics.subscribe(b, "news", "group", shared=True)
    sim.run_for(2_000)
    sim.close_consumer(first)
    sim.run_for(1_000)
    sim.crash(a, 20_000)
    sim.run_for(1_000)
    second.node.run(second.generation, second.unsubscribe)
    sim.run_for(1_000)
    assert "group" not in b.domain.queues
    assert sim.run_until(sim.is_meshed, 120_000)
    sim.run_for(5_000)

    assert "group" not in a.domain.queues
    assert "group" not in b.domain.queues


def test_virtual_topic_queue_is_one_subscription(sim: Simulation, topics: Topics) -> None:
    """C33, in the core: a multicast queue of a name, consumed at two nodes (mesh §4.4)."""
    a, b, c = meshed(sim, 3)
    name = "Consumer.A.VirtualTopic.Orders"
    members = [
        sim.consume(node, name, 5, settle_ms=10)
        for node in (b, c)
        if node.queue(name, address="VirtualTopic.Orders", routing_type=RoutingType.MULTICAST, auto_delete=False)
    ]
    sim.run_for(2_000)
    for number in range(1, 61):
        sim.ledger.sent(f"A:{number}", True, "A")
    bodies = publish_all(topics, a, "VirtualTopic.Orders", 60)
    sim.run_for(10_000)

    assert sorted(body for each in members for body in each.bodies) == sorted(bodies)
    assert all(each.bodies for each in members)


def test_message_published_on_the_answer_to_a_subscription_arrives(sim: Simulation, topics: Topics) -> None:
    """C60: with links that delay up to 50 ms."""
    sim.slowest_ms = 50
    sim.stalls = 0.0
    sim.has_slow_disks = False
    a, b, _ = meshed(sim, 3)
    for number in range(50):
        address = f"news.{number}"
        subscriber = topics.subscribe(b, address, "" if number % 2 else f"group{number}", shared=not number % 2)
        subscription = subscriber.subscription
        assert sim.run_until(lambda: len(subscription.knows) == 3, 1_000)  # noqa: B023
        topics.publish(a, address)
        sim.run_for(500)
        assert len(subscriber.bodies) == 1
    assert b.mesh.announcements.late == 0


def test_answer_waits_for_a_slow_node(sim: Simulation, topics: Topics) -> None:
    """C60: a machine that takes a second for what is usually done in a millisecond loses nothing."""
    a, b = meshed(sim, 2)
    sim.stop(a, 1_000)
    subscriber = topics.subscribe(b, "news")
    assert sim.run_until(lambda: len(subscriber.subscription.knows) == 2, 2_000)
    topics.publish(a, "news")
    sim.run_for(1_000)

    assert len(subscriber.bodies) == 1
    assert b.mesh.announcements.late == 0


def test_answer_does_not_wait_for_a_stopped_node(sim: Simulation, topics: Topics) -> None:
    """The first one is given after 5 s at the latest, the others at once, until the node has caught up. All count."""
    _, b, c = meshed(sim, 3)
    sim.stop(c, 8_000)
    subscriber = topics.subscribe(b, "news")
    sim.run_for(4_000)
    assert list(subscriber.subscription.knows) == ["B"]
    assert b.mesh.announcements.late == 0
    sim.run_for(1_300)
    assert b.mesh.announcements.late == 1
    assert b.domain.dispatcher.announcements.fresh is None
    second = topics.subscribe(b, "more")
    sim.run_for(500)
    assert list(second.subscription.knows) == ["B"]
    assert b.mesh.announcements.late == 2
    sim.run_for(4_000)
    third = topics.subscribe(b, "last")
    assert sim.run_until(lambda: len(third.subscription.knows) == 3, 1_000)

    assert b.mesh.announcements.late == 2


def test_transaction_is_copied_at_its_commit(sim: Simulation, topics: Topics) -> None:
    """C41, in part: a transaction that is rolled back leaves nothing."""
    a, b = meshed(sim, 2)
    subscriber = topics.subscribe(b, "news")
    sim.run_for(2_000)

    def send(number: int, commits: bool) -> None:
        transaction = a.session.begin()
        message = plain_message("news", MessageView(body=f"A:{number}"))
        a.session.producer("news", RoutingType.MULTICAST).send(message, transaction)
        if commits:
            a.session.commit(transaction)
        else:
            a.session.rollback(transaction)

    a.run(a.generation, lambda: send(1, False))
    a.run(a.generation, lambda: send(2, True))
    sim.run_for(2_000)

    assert subscriber.bodies == ["A:2"]


def test_scheduled_copy_is_held_where_it_arrives(sim: Simulation, topics: Topics) -> None:
    """C39: the subscriptions of the time of sending get it, when it is due."""
    a, b = meshed(sim, 2)
    early = topics.subscribe(b, "news", "kept")
    sim.run_for(2_000)

    def send() -> None:
        message = plain_message("news", MessageView(body="A:1"))
        message.durable = True
        message.delivery_time_ms = a.clock() + 10_000
        a.session.producer("news", RoutingType.MULTICAST).send(message)

    a.run(a.generation, send)
    sim.run_for(2_000)
    late = topics.subscribe(b, "news")
    assert waiting(a) == 0
    assert b.domain.queues["kept"].scheduled_count == 1
    sim.run_for(15_000)

    assert (early.bodies, late.bodies) == (["A:1"], [])


def test_copy_that_expires_while_a_node_is_down_is_gone(sim: Simulation, topics: Topics) -> None:
    """C39: once, where it waits. It is not a message of a queue that a client has, so no expiry address gets it."""
    a, b = meshed(sim, 2, settings=AddressSettings(expiry_address="EXPIRED"))
    for node in (a, b):
        node.run(node.generation, partial(node.queue, "EXPIRED"))
        node.clock_offset_ms = 0
    topics.subscribe(b, "news", "kept")
    sim.run_for(2_000)
    sim.crash(b, 60_000)
    sim.run_for(1_000)

    def send() -> None:
        message = plain_message("news", MessageView(body="A:1"))
        message.durable = True
        message.expires_ms = a.clock() + 5_000
        a.session.producer("news", RoutingType.MULTICAST).send(message)

    a.run(a.generation, send)
    sim.run_for(20)
    assert waiting(a) == 1
    sim.run_for(10_000)
    assert sim.run_until(sim.is_meshed, 120_000)
    again = topics.subscribe(b, "news", "kept")
    sim.run_for(40_000)

    assert again.bodies == []
    assert waiting(a) == 0
    assert [each.messages_expired for each in a.domain.queues.values() if each.internal] == [1]
    assert [node.domain.queues["EXPIRED"].message_count for node in (a, b)] == [0, 0]


def test_scope_limits_copies_and_covers_patterns(sim: Simulation, topics: Topics) -> None:
    """C11: of a subscription to everything, only what is in scope crosses."""
    a, b = meshed(sim, 2, scope=Scope(("eu",), ("eu.secret",)))
    everything, outside = topics.subscribe(b, "#"), topics.subscribe(b, "us.news")
    sim.run_for(2_000)
    inside = topics.publish(a, "eu.news")
    topics.publish(a, "us.news")
    topics.publish(a, "eu.secret.news")
    sim.run_for(2_000)

    assert (everything.bodies, outside.bodies) == ([inside], [])


@pytest.mark.parametrize("policy", [FullPolicy.DROP, FullPolicy.FAIL, FullPolicy.PAGE, FullPolicy.BLOCK])
def test_full_address_of_a_subscriber(sim: Simulation, topics: Topics, policy: FullPolicy) -> None:
    """C43: DROP and FAIL act where the subscription is; BLOCK holds copies back, and so does PAGE without a disk."""
    settings = AddressSettings(max_size_bytes=5_000, address_full_policy=policy)
    sim.stalls = 0.0
    sim.has_slow_disks = False
    a, b = meshed(sim, 2, settings=settings)
    slow = topics.subscribe(b, "news", credit=0)
    sim.run_for(2_000)
    for _ in range(30):
        topics.publish(a, "news", durable=False)
        sim.run_for(50)
    sim.run_for(3_000)
    account = b.domain.addresses["news"].account
    assert (waiting(a) > 0) == (policy in (FullPolicy.BLOCK, FullPolicy.PAGE))
    slow.node.run(slow.generation, lambda: slow.consumer.grant(1_000))
    sim.run_for(10_000)

    if policy in (FullPolicy.PAGE, FullPolicy.BLOCK):
        assert len(slow.bodies) == 30
    else:
        assert 0 < len(slow.bodies) < 30
    assert waiting(a) == 0
    assert account.size_bytes == 0


def test_peer_of_an_earlier_version_is_told_nothing_of_subscriptions(sim: Simulation, topics: Topics) -> None:
    """It would not understand, and its digest would differ for ever."""
    node, wire, peer = open_wire(sim, *UP)
    assert not peer.has_copies
    topics.subscribe(node, "news")
    topics.subscribe(node, "news", "group", shared=True)
    sim.run_for(1_000)

    assert not any(isinstance(each, Interest | SharedInstance | CopyChannel) for each in wire.records)


COPY = encode_envelope(Envelope(plain_message("news", MessageView(body="x")), "news", "", 0, False, ("peer",)))


@pytest.mark.parametrize(("lane", "reason"), [(Lane.HANDOVER, "names no queue"), (Lane.COPIES, "before its channel")])
def test_copy_on_the_wrong_lane_ends_the_connection(sim: Simulation, lane: Lane, reason: str) -> None:
    """C50: as a message for a queue may come, or before its channel was told."""
    _, wire, peer = open_wire(sim, *UP)
    peer.message(lane, 1, COPY)

    assert reason in str(wire.closed)


def test_peer_that_has_seen_what_was_never_sent_is_closed(sim: Simulation) -> None:
    """C50: answers of clients depend on it."""
    _, wire, _ = open_wire(sim, *UP, Seen(1_000))

    assert "never sent" in str(wire.closed)


def test_queue_that_was_deleted_elsewhere_leaves_its_messages(sim: Simulation, topics: Topics) -> None:
    """A shared queue that goes because it is empty there, and not because its client ended it, strands nothing."""
    a, b = meshed(sim, 2)
    member = topics.subscribe(b, "news", "group", shared=True, credit=0)
    sim.run_for(2_000)
    topics.publish(a, "news")
    sim.run_for(500)
    sim.close_consumer(member)
    sim.run_for(1_000)
    b.run(b.generation, lambda: b.domain.delete_queue("group", force=True, reason="auto-delete: unused"))
    sim.run_for(5_000)
    assert a.domain.queues["group"].message_count == 1
    assert not a.mesh.shells.is_shell("group")

    again = topics.subscribe(b, "news", "group", shared=True)
    sim.run_for(2_000)
    assert again.bodies == ["A:1"]


def test_subscription_that_is_made_again_with_another_filter_replaces_shells(sim: Simulation, topics: Topics) -> None:
    """A shell with the old one would keep back what the new one wants."""
    a, b = meshed(sim, 2)
    first = topics.subscribe(b, "news", "group", shared=True, selector="number = 1")
    sim.run_for(2_000)
    sim.close_consumer(first)
    sim.run_for(1_000)
    topics.end(first.subscription)
    second = topics.subscribe(b, "news", "group", shared=True, selector="number = 2")
    sim.run_for(3_000)
    for number in (1, 2):
        topics.publish(a, "news", number=number)
    sim.run_for(2_000)

    assert second.bodies == ["A:2"]


def test_peer_without_the_permission_gets_no_copy(sim: Simulation, topics: Topics) -> None:
    """C48: neither is the connection ended for what the other side cannot know."""
    a, b = meshed(sim, 2)
    everything = topics.subscribe(b, "#")
    sim.run_for(2_000)
    (peer,) = a.mesh.peers.values()
    peer.may_share = lambda address: address != "secret"
    (back,) = b.mesh.peers.values()
    back.may_share = lambda address: address != "private"
    for address in ("secret", "private", "open"):
        topics.publish(a, address)
    sim.run_for(2_000)

    assert everything.bodies == ["A:3"]
    assert sim.is_meshed()
    assert waiting(a) == 0


def test_groups_of_a_shared_subscription_go_to_one_node(sim: Simulation, topics: Topics) -> None:
    """Without consumers where they were published they would wait for ever; all nodes choose the same one."""
    a, b, c, d = meshed(sim, 4)
    members = [topics.subscribe(node, "news", "group", shared=True) for node in (b, c)]
    sim.run_for(2_000)

    def send(node: Node, number: int) -> None:
        message = plain_message("news", MessageView(body=f"{node.name}:{number}", properties={"JMSXGroupID": "g"}))
        message.durable = message.has_group = True
        node.session.producer("news", RoutingType.MULTICAST).send(message)

    for number in range(1, 11):
        for node in (a, d):
            node.run(node.generation, partial(send, node, number))
    sim.run_for(10_000)

    (taken,) = [each.bodies for each in members if each.bodies]
    assert [body for body in taken if body[0] == "A"] == [f"A:{number}" for number in range(1, 11)]
    assert [body for body in taken if body[0] == "D"] == [f"D:{number}" for number in range(1, 11)]


def test_explain_knows_subscriptions(sim: Simulation, topics: Topics) -> None:
    """C59: why messages of a shell wait, and those of a queue that is not shared."""
    a, b = meshed(sim, 2)
    topics.subscribe(b, "news", "group", shared=True, credit=0)
    topics.subscribe(b, "news", "kept")
    sim.run_for(2_000)

    assert "it collects for them" in explain(a.mesh, "group")[0]
    assert "comes here as copies" in explain(b.mesh, "kept")[0]


def test_copy_that_only_the_sender_covers_is_discarded(sim: Simulation, topics: Topics) -> None:
    """C11: what both brokers cover is shared, and the connection stays: a pattern does not say what else there is."""
    a, b = meshed(sim, 2)
    everything = topics.subscribe(b, "#")
    sim.run_for(2_000)
    b.mesh.config = evolve(b.mesh.config, scope=Scope(("eu",)))
    for address in ("us.news", "eu.news"):
        topics.publish(a, address)
    sim.run_for(2_000)

    assert everything.bodies == ["A:2"]
    assert sim.is_meshed()
