"""Requests and replies across brokers: temporary addresses whose names say where they are (C34)."""

from functools import partial
from uuid import UUID, uuid4

import pytest

from artemis_py.cluster.made_names import make_name, node_in, short_id
from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.records import ToldTemporary
from artemis_py.cluster.temporaries import MAX_REMOTES
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.routing.temporary_names import TemporaryNames
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.entropy import Entropy
from artemis_py.core.runtime.events import Dropped
from artemis_py.core.selectors.filter import Filter
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.temporary import TemporaryNode
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.cluster_config import Scope
from artemis_py.errors import NoSuchAddress
from tests.cluster.clients import SimConsumer
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_connections import UP, open_wire
from tests.cluster.test_handover import meshed


class Receiver(SimConsumer):
    """A consumer of its own temporary queue."""

    def __init__(self, node: Node, session: Session, queue: str) -> None:
        self.session = session
        super().__init__(node, queue, 100)

    def attach(self, queue: str, filter: Filter | None) -> Consumer:
        return self.session.consume(self.node.queue(queue), self, filter)


class Requester:
    """A client with a temporary queue, or a temporary topic that it subscribes to."""

    def __init__(
        self, node: Node, routing_type: RoutingType = RoutingType.ANYCAST, chosen_name: str | None = None
    ) -> None:
        self.node = node
        self.session = Session(node.domain, Subject("requester"), "requester", "test")
        self.temporary: TemporaryNode = self.session.create_node(routing_type, chosen_name)
        self.name = self.temporary.name
        queue = self.name
        if routing_type is RoutingType.MULTICAST:
            queue = self.session.create_temporary_queue(routing_type, self.name, None).name
        self.consumer = Receiver(node, self.session, queue)

    @property
    def bodies(self) -> list[str]:
        """The replies that it got."""
        return self.consumer.bodies

    def leave(self) -> None:
        """End its session, and its temporary queue with it."""
        self.consumer.close()
        self.temporary.delete("temporary")


def reply(
    node: Node, to: str | Producer, body: str, durable: bool = True, transaction: Transaction | None = None
) -> Producer:
    """A client's reply."""
    node.stamp()
    producer = node.session.producer(to) if isinstance(to, str) else to
    message = plain_message(producer.name, MessageView(body=body))
    message.durable = durable
    ledger = node.simulation.ledger
    ledger.sent(body, durable, node.name)
    producer.send(message, transaction)
    if transaction is None:
        node.store.when_durable(partial(ledger.acknowledged, body))
    node.plan_turn()
    return producer


def in_transit(node: Node) -> int:
    """Messages that wait at a node for others."""
    return sum(queue.message_count for queue in node.domain.queues.values() if queue.internal)


# -- names -------------------------------------------------------------------------------------------------------


def test_name_says_which_node_made_it() -> None:
    """Short id, version 8, check; the random bits are those of the UUID that was drawn."""
    short = short_id("node")
    name = make_name(short, UUID(int=(1 << 128) - 1))
    uuid = UUID(name)

    assert node_in(name) == short
    assert (uuid.version, uuid.bytes[:6], uuid.int & (1 << 62) - 1) == (8, short, (1 << 62) - 1)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "orders",
        "x" * 14 + "8" + "x" * 21,
        str(uuid4()),
        make_name(short_id("node"), uuid4()).upper(),
        make_name(short_id("node"), uuid4())[:-1] + "g",
        make_name(short_id("node"), UUID(int=1))[:-1] + "0",
        "{" + make_name(short_id("node"), uuid4())[1:],
    ],
)
def test_other_names_are_nobodys(name: str) -> None:
    """Those of one broker, UUIDs of applications, and what only looks like a name of a node."""
    assert node_in(name) == b""


def test_one_broker_makes_names_as_ever() -> None:
    """Random UUIDs, and any name may be that of an ordinary address."""
    names = TemporaryNames(Entropy())

    assert UUID(names.new()).version == 4
    assert names.find(make_name(short_id("node"), uuid4())) is None
    names.check_unused(make_name(short_id("node"), uuid4()))


# -- replies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("routing_type", list(RoutingType))
@pytest.mark.parametrize("durable", [True, False])
def test_reply_reaches_its_client_at_another_node(sim: Simulation, routing_type: RoutingType, durable: bool) -> None:
    """The queue was made 0 ms before; nothing of it is told, and nothing of that name is made at the replier's node."""
    a, b = meshed(sim, 2)
    requester = Requester(a, routing_type)
    bodies = [f"reply {number}" for number in range(100)]
    for body in bodies:
        reply(b, requester.name, body, durable)
    assert sim.run_until(lambda: len(requester.bodies) == 100)
    sim.run_for(2_000)

    assert requester.bodies == bodies
    assert requester.name not in b.domain.addresses
    assert not any(requester.name == each.instance.queue for peer in b.mesh.peers.values() for each in peer.remotes)
    assert in_transit(b) == 0
    assert sim.table_faults() == []


def test_names_do_not_depend_on_the_scope_of_the_mesh(sim: Simulation) -> None:
    """A mesh for `orders` only has replies all the same: their names are the broker's."""
    a, b = meshed(sim, 2, scope=Scope(("orders",)))
    requester = Requester(a)
    reply(b, requester.name, "reply")

    assert sim.run_until(lambda: requester.bodies == ["reply"])


def test_replies_of_a_transaction_come_at_its_commit(sim: Simulation) -> None:
    """All of them, or none."""
    a, b = meshed(sim, 2)
    requester = Requester(a)
    transaction = b.session.begin()
    producer = reply(b, requester.name, "one", transaction=transaction)
    reply(b, producer, "two", transaction=transaction)
    other = b.session.begin()
    reply(b, producer, "never", transaction=other)
    sim.run_for(1_000)
    assert requester.bodies == []
    b.domain.commit(transaction)
    other.rollback()
    b.plan_turn()
    sim.run_for(1_000)

    assert requester.bodies == ["one", "two"]


def test_link_to_an_address_ends_with_it(sim: Simulation) -> None:
    """The sender hears that the requester has left, and no address of that name is made, at either node."""
    a, b = meshed(sim, 2)
    requester = Requester(a)
    producer = reply(b, requester.name, "first")
    gone: list[str] = []
    producer.when_gone(gone.append)
    sim.run_for(1_000)
    requester.leave()
    a.plan_turn()
    sim.run_for(1_000)

    assert requester.bodies == ["first"]
    assert len(gone) == 1
    for send in (producer, requester.name):
        with pytest.raises(NoSuchAddress, match="gone"):
            reply(b, send, "late")
    with pytest.raises(NoSuchAddress, match="gone"):
        reply(a, requester.name, "late")
    assert requester.name not in {**a.domain.addresses, **b.domain.addresses}


def test_first_link_to_an_address_that_is_gone_is_told_so_before_it_is_answered(sim: Simulation) -> None:
    """The answer to the client waits for the other node, and by then the link is known to have no target."""
    a, b = meshed(sim, 2)
    requester = Requester(a)
    requester.leave()
    gone: list[str] = []
    producer = b.session.producer(requester.name)
    producer.when_gone(gone.append)
    announcement = b.domain.dispatcher.announcements.fresh
    assert announcement is not None
    told: list[int] = []
    announcement.when_over(lambda: told.append(len(gone)))
    b.plan_turn()
    sim.run_for(1_000)

    assert told == [1]
    assert b.domain.dispatcher.announcements.fresh is None


def test_answer_does_not_wait_for_a_node_that_has_stopped(sim: Simulation) -> None:
    """For 250 ms at most."""
    a, b = meshed(sim, 2)
    requester = Requester(a)
    sim.stop(a, 2_000)
    b.stamp()
    b.session.producer(requester.name)
    announcement = b.domain.dispatcher.announcements.fresh
    assert announcement is not None
    b.plan_turn()
    sim.run_for(240)
    assert not announcement.is_over
    sim.run_for(20)

    assert announcement.is_over


def test_message_that_comes_after_its_address_is_gone_is_counted_and_may_become_a_dead_letter(sim: Simulation) -> None:
    """As on one broker (`send-to-dla-on-no-route`); the operator is told."""
    settings = AddressSettings(send_to_dla_on_no_route=True, dead_letter_address="DLQ")
    a, b = meshed(sim, 2, settings=settings)
    a.queue("DLQ")
    requester = Requester(a)
    requester.leave()
    producer = b.session.producer(requester.name)
    producer.send(plain_message(requester.name, MessageView(body="late")))
    b.plan_turn()
    sim.run_for(1_000)

    assert a.queue("DLQ").message_count == 1
    assert [event.queue for event in a.events if isinstance(event, Dropped)] == [requester.name]
    assert requester.name not in a.domain.addresses


def test_replies_wait_while_the_connection_is_broken(sim: Simulation) -> None:
    """A break costs nobody a reply; a node that is away for `connection-ttl` counts as gone."""
    a, b = meshed(sim, 2, check_period_ms=2_000, connection_ttl_ms=4_000)
    requester = Requester(a)
    producer = reply(b, requester.name, "first")
    sim.run_for(500)
    sim.partition(a, b, 2_000)
    sim.run_for(1_000)
    reply(b, producer, "second", durable=False)
    assert sim.run_until(lambda: requester.bodies == ["first", "second"])
    sim.partition(a, b, 60_000)
    sim.run_for(8_000)

    with pytest.raises(NoSuchAddress, match="away"):
        reply(b, producer, "third")
    with pytest.raises(NoSuchAddress, match="away"):
        reply(b, requester.name, "third")


def test_durable_reply_survives_the_crash_of_its_node(sim: Simulation) -> None:
    """It was confirmed, so it comes, once."""
    a, b = meshed(sim, 2)
    requester = Requester(a)
    sim.partition(a, b, 1_000)
    reply(b, requester.name, "reply")
    assert sim.run_until(lambda: sim.ledger.entries["reply"].is_acknowledged)
    sim.crash(b, 500)

    assert sim.run_until(lambda: requester.bodies == ["reply"])
    assert sim.run_until(lambda: in_transit(b) == 0)


def test_crash_of_the_requester_s_node_ends_the_link(sim: Simulation) -> None:
    """Its temporary queues are gone, and the sender is told when the node is back."""
    a, b = meshed(sim, 2)
    requester = Requester(a)
    producer = b.session.producer(requester.name)
    gone: list[str] = []
    producer.when_gone(gone.append)
    b.plan_turn()
    sim.run_for(1_000)
    sim.crash(a, 100)

    assert sim.run_until(lambda: bool(gone))
    sim.run_for(5_000)
    assert in_transit(b) == 0


def test_name_of_an_unknown_node_is_refused_to_producers_and_consumers(sim: Simulation) -> None:
    """Nobody would ever find what is sent there."""
    a, b = meshed(sim, 2)
    unknown = make_name(short_id("nobody"), uuid4())
    requester = Requester(a)

    for name in (unknown, requester.name):
        with pytest.raises(NoSuchAddress, match="another broker"):
            b.session.queue_to_consume(name)
    with pytest.raises(NoSuchAddress, match="another broker"):
        b.session.producer(unknown)
    assert b.session.owns_temporary(requester.name) is False
    assert b.session.owns_temporary(unknown) is None


def test_full_temporary_queue_holds_the_copies_back(sim: Simulation) -> None:
    """BLOCK there: what is not confirmed waits at the replier's node, and nothing is lost."""
    settings = AddressSettings(max_size_messages=5, address_full_policy=FullPolicy.BLOCK)
    a, b = meshed(sim, 2, settings=settings)
    requester = Requester(a)
    requester.consumer.consumer.block()
    producer = b.session.producer(requester.name)
    for number in range(20):
        if not producer.must_wait:
            reply(b, producer, f"{number}")
        sim.run_for(100)
    sent = len(sim.ledger.entries)
    assert 5 <= sent < 20
    requester.consumer.consumer.unblock()
    a.plan_turn()
    assert sim.run_until(lambda: len(requester.bodies) == sent)
    assert not producer.must_wait


def test_duplicate_id_counts_for_a_reply(sim: Simulation) -> None:
    """As at one broker."""
    a, b = meshed(sim, 2)
    requester = Requester(a)
    producer = b.session.producer(requester.name)
    sim.ledger.sent("x", True, "B")
    sent = [producer.send(plain_message("", MessageView(body="x")), None, b"tid") for _ in range(2)]
    b.plan_turn()
    sim.run_for(1_000)

    assert sent == [1, 0]
    assert requester.bodies == ["x"]


def test_memory_of_addresses_of_other_nodes_is_bounded(sim: Simulation) -> None:
    """Those that a client has a link to stay."""
    a, b = meshed(sim, 2)
    kept = b.session.producer(Requester(a).name)
    kept.when_gone(lambda reason: None)
    for _ in range(MAX_REMOTES + 10):
        b.session.producer(a.mesh.temporaries.new())

    assert len(b.mesh.temporaries._remotes) <= MAX_REMOTES
    assert b.mesh.temporaries.find(kept.name) is not None
    assert kept.name in b.mesh.temporaries._remotes


def test_peer_hears_only_of_what_it_has_asked_for_and_may_have(sim: Simulation) -> None:
    """A name that this node did not make, one that is gone, and one without the permission mesh: not there."""
    node, wire, peer = open_wire(sim, *UP)
    requester = Requester(node)
    mesh: Mesh = node.mesh
    peer.may_share = lambda address: address != other.name
    other = Requester(node)
    asked = ["orders", mesh.temporaries.new(), other.name, requester.name]
    for name in asked:
        mesh.temporaries.asked(peer, name)
    node.plan_turn()
    sim.run_for(10)
    requester.leave()
    other.leave()
    node.plan_turn()
    sim.run_for(10)
    told = [(record.address, record.is_there) for record in wire.records if isinstance(record, ToldTemporary)]

    assert told == [*[(name, 0) for name in asked[:3]], (requester.name, 1), (requester.name, 0)]


def test_peer_cannot_end_links_to_addresses_of_another_node(sim: Simulation) -> None:
    """What a node says counts for its own names only."""
    a, b, c = meshed(sim, 3)
    requester = Requester(a)
    gone: list[str] = []
    b.session.producer(requester.name).when_gone(gone.append)
    b.mesh.temporaries.told(b.mesh.peers[c.mesh.node_id], ToldTemporary(requester.name, 0))

    assert gone == []
