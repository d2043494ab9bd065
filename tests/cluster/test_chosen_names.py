"""Replies to temporary addresses whose names clients have chosen, as OpenWire's do (C34)."""

from collections.abc import Iterator
from functools import partial

import pytest

from artemis_py.cluster.chosen_names import MAX_GONE, NAMES_PER_STEP
from artemis_py.cluster.envelope import Envelope, encode_envelope
from artemis_py.cluster.events import NamesNotTold
from artemis_py.cluster.hello import CHOSEN_NAMES, FEATURES
from artemis_py.cluster.records import ChosenName, CopyChannel, SnapshotBegin, SnapshotEnd
from artemis_py.cluster.strict import COPY, REPLY
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.carrier import Lane
from artemis_py.core.runtime.events import Dropped, RemoteTemporaryAdded, RemoteTemporaryRemoved
from artemis_py.core.selectors.filter import Filter
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.errors import AddressExists, NoSuchAddress
from tests.cluster.clients import SimConsumer
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_connections import HELLO, UP, open_wire
from tests.cluster.test_handover import meshed
from tests.cluster.test_replies import in_transit, reply

NAME = "ID:host-1:1:1"
TTL_MS = 4_000


class Receiver(SimConsumer):
    """A consumer of its own temporary queue."""

    def __init__(self, node: Node, session: Session, queue: str) -> None:
        self.session = session
        super().__init__(node, queue, 100)

    def attach(self, queue: str, filter: Filter | None) -> Consumer:
        return self.session.consume(self.node.queue(queue), self, filter)


class Requester:
    """A client with a temporary queue, or a temporary topic that it subscribes to, under a name that it chose."""

    def __init__(
        self, node: Node, name: str = NAME, routing_type: RoutingType = RoutingType.ANYCAST, user: str | None = None
    ) -> None:
        self.node = node
        self.name = name
        node.stamp()
        self.session = Session(node.domain, Subject(user), "requester", "test")
        self.temporary = self.session.create_node(routing_type, name)
        queue = name
        if routing_type is RoutingType.MULTICAST:
            queue = self.session.create_temporary_queue(routing_type, name, None).name
        self.consumer = Receiver(node, self.session, queue)
        self.announcement = node.domain.dispatcher.announcements.fresh
        node.domain.dispatcher.announcements.fresh = None
        node.plan_turn()

    @property
    def bodies(self) -> list[str]:
        """The replies that it got."""
        return self.consumer.bodies

    def leave(self) -> None:
        """End its session, and its temporary queue with it."""
        self.consumer.close()
        self.temporary.delete("temporary")
        self.node.plan_turn()


def known(sim: Simulation, node: Node) -> list[str]:
    """Names that a node knows of others."""
    return sorted(node.mesh.chosen_names._holders)


def seen_by_clients(node: Node) -> list[str]:
    """What OpenWire's clients were told of destinations at other brokers, and not that they are gone."""
    names: dict[str, None] = {}
    for event in node.events:
        match event:
            case RemoteTemporaryAdded(name, _):
                names[name] = None
            case RemoteTemporaryRemoved(name, _):
                del names[name]
    return sorted(names)


def is_over(sim: Simulation) -> bool:
    """Whether nothing is remembered of any name but that it is gone."""
    return not any(
        chosen._own or chosen._heard or chosen._holders or chosen._untold
        for chosen in (node.mesh.chosen_names for node in sim.nodes)
    )


@pytest.mark.parametrize("routing_type", list(RoutingType))
@pytest.mark.parametrize("durable", [True, False])
def test_reply_to_a_chosen_name_reaches_its_client(sim: Simulation, routing_type: RoutingType, durable: bool) -> None:
    """Nothing of that name is made at the replier's node, whose clients are told of it."""
    a, b, c = meshed(sim, 3)
    requester = Requester(a, routing_type=routing_type)
    sim.run_for(1_000)
    assert seen_by_clients(b) == seen_by_clients(c) == [NAME]
    bodies = [f"reply {number}" for number in range(50)]
    for body in bodies:
        reply(b, NAME, body, durable)
    assert sim.run_until(lambda: requester.bodies == bodies)
    requester.leave()
    assert sim.run_until(lambda: is_over(sim))

    assert seen_by_clients(b) == seen_by_clients(c) == []
    assert NAME not in {**b.domain.addresses, **c.domain.addresses}
    assert in_transit(b) == 0
    assert sim.table_faults() == []


def test_chosen_name_is_not_told_further(sim: Simulation) -> None:
    """Two hops away it is a name like any other: OpenWire clients hear of none, and what is sent there stays there."""
    a, b, c = meshed(sim, 3, max_hops=2, ties=[(0, 1), (1, 2)])
    requester = Requester(a)
    sim.run_for(2_000)
    assert (known(sim, b), known(sim, c)) == ([NAME], [])
    assert (seen_by_clients(b), seen_by_clients(c)) == ([NAME], [])
    reply(b, NAME, "from its peer")
    sim.send(c, NAME, "from farther away", durable=False)
    sim.run_for(10_000)

    assert requester.bodies == ["from its peer"]
    assert c.queue(NAME).waiting_count == 1
    assert sim.table_faults() == []


def test_client_is_answered_when_peers_know_of_its_address(sim: Simulation) -> None:
    """So its request never comes before the name is known, whatever way it goes."""
    a, b = meshed(sim, 2)
    requester = Requester(a)
    announcement = requester.announcement
    assert announcement is not None
    names: list[list[str]] = []
    announcement.when_over(lambda: names.append(known(sim, b)))
    sim.run_for(1_000)

    assert names == [[NAME]]


def test_link_ends_with_the_address_and_late_replies_are_refused(sim: Simulation) -> None:
    """At both nodes, and no address of that name is made."""
    a, b = meshed(sim, 2)
    requester = Requester(a)
    sim.run_for(1_000)
    producer = reply(b, NAME, "first")
    gone: list[str] = []
    producer.when_gone(gone.append)
    sim.run_for(1_000)
    requester.leave()
    sim.run_for(1_000)

    assert requester.bodies == ["first"]
    assert len(gone) == 1
    for node, to in ((b, producer), (b, NAME), (a, NAME)):
        with pytest.raises(NoSuchAddress, match="gone"):
            reply(node, to, "late")
        with pytest.raises(NoSuchAddress, match="gone"):
            node.session.queue_to_consume(NAME)
    assert NAME not in {**a.domain.addresses, **b.domain.addresses}


def test_reply_on_its_way_to_an_address_that_is_gone_is_counted(sim: Simulation) -> None:
    """And with `send-to-dla-on-no-route` it becomes a dead letter; an ordinary address of that name gets nothing."""
    settings = AddressSettings(send_to_dla_on_no_route=True, dead_letter_address="DLQ")
    a, b = meshed(sim, 2, settings=settings)
    a.queue("DLQ")
    requester = Requester(a)
    sim.run_for(1_000)
    requester.leave()
    reply(b, NAME, "one")
    sim.run_for(1_000)
    assert a.queue("DLQ").message_count == 1
    assert [event.queue for event in a.events if isinstance(event, Dropped)] == [NAME]
    sim.ledger.entries.clear()


def test_nobody_else_consumes_from_it(sim: Simulation) -> None:
    """The refusal that a consumer of another connection gets at one broker."""
    a, b = meshed(sim, 2)
    Requester(a)
    sim.run_for(1_000)

    with pytest.raises(NoSuchAddress, match="client of another broker"):
        b.session.queue_to_consume(NAME)
    assert b.session.owns_temporary(NAME) is False


def test_replies_wait_while_the_connection_is_broken(sim: Simulation) -> None:
    """A break costs nobody a reply; the name of a node that is away for `connection-ttl` is gone until it is back."""
    a, b = meshed(sim, 2, check_period_ms=2_000, connection_ttl_ms=TTL_MS)
    requester = Requester(a)
    sim.run_for(500)
    producer = reply(b, NAME, "first")
    sim.partition(a, b, 2_000)
    sim.run_for(1_000)
    reply(b, producer, "second", durable=False)
    assert sim.run_until(lambda: requester.bodies == ["first", "second"])
    sim.partition(a, b, 20_000)
    sim.run_for(12_000)
    with pytest.raises(NoSuchAddress, match="gone"):
        reply(b, producer, "never")
    assert seen_by_clients(b) == []
    del sim.ledger.entries["never"]
    assert sim.run_until(sim.is_meshed)
    sim.run_for(1_000)
    assert seen_by_clients(b) == [NAME]
    reply(b, producer, "third")
    reply(b, NAME, "fourth")

    assert sim.run_until(lambda: requester.bodies == ["first", "second", "third", "fourth"])


def test_restart_of_the_owner_ends_the_link(sim: Simulation) -> None:
    """Its clients' addresses are gone, and a durable reply that waited for one is counted there."""
    a, b = meshed(sim, 2)
    Requester(a)
    sim.run_for(1_000)
    producer = b.session.producer(NAME)
    gone: list[str] = []
    producer.when_gone(gone.append)
    sim.crash(a, 500)
    sim.run_for(10)
    reply(b, producer, "late")
    assert sim.run_until(lambda: bool(gone))
    assert sim.run_until(lambda: in_transit(b) == 0)
    sim.ledger.entries.clear()

    assert known(sim, b) == []
    assert NAME not in a.domain.addresses


def test_durable_reply_survives_the_crash_of_its_node(sim: Simulation) -> None:
    """It was confirmed, so it comes, once; nodes that start are told all names."""
    a, b = meshed(sim, 2)
    requester = Requester(a)
    sim.run_for(1_000)
    sim.partition(a, b, 1_000)
    reply(b, NAME, "reply")
    assert sim.run_until(lambda: sim.ledger.entries["reply"].is_acknowledged)
    sim.crash(b, 500)

    assert sim.run_until(lambda: requester.bodies == ["reply"])
    assert known(sim, b) == [NAME]


def test_client_that_goes_on_at_another_node_keeps_its_name(sim: Simulation) -> None:
    """Its former node has not noticed that it left: replies of a third node come, and its end there is not theirs."""
    a, b, c = meshed(sim, 3)
    before = Requester(a)
    sim.run_for(1_000)
    producer = reply(c, NAME, "first")
    sim.run_for(1_000)
    after = Requester(b)
    sim.run_for(1_000)
    reply(c, producer, "second")
    sim.run_for(1_000)
    before.leave()
    sim.run_for(1_000)
    reply(c, producer, "third")
    reply(c, NAME, "fourth")
    sim.run_for(1_000)

    assert (before.bodies, after.bodies) == (["first"], ["second", "third", "fourth"])
    assert seen_by_clients(c) == [NAME]
    # To clients of its new broker it is an own one, of which they are told otherwise.
    assert NAME not in [event.name for event in b.events if isinstance(event, RemoteTemporaryRemoved)]


def test_former_node_has_the_name_again_if_the_client_goes_back(sim: Simulation) -> None:
    """The newer of two addresses of one name ends first."""
    a, b, c = meshed(sim, 3)
    first = Requester(a)
    sim.run_for(1_000)
    second = Requester(b)
    sim.run_for(1_000)
    second.leave()
    sim.run_for(1_000)
    reply(c, NAME, "one")

    assert sim.run_until(lambda: first.bodies == ["one"])


def test_client_of_another_user_does_not_get_the_name(sim: Simulation) -> None:
    """It would get replies that are for somebody else."""
    a, b = meshed(sim, 2)
    Requester(a, user="one")
    sim.run_for(1_000)

    with pytest.raises(AddressExists, match="client of another broker"):
        Requester(b, user="other")
    assert Requester(b, user="one").bodies == []


def test_many_names_are_told_and_forgotten_in_parts(sim: Simulation) -> None:
    """A node with many of them is restarted."""
    a, b = meshed(sim, 2)
    session = Session(a.domain, Subject("requester"), "requester", "test")
    count = 2 * NAMES_PER_STEP + 1
    for number in range(count):
        session.create_node(RoutingType.ANYCAST, f"ID:host-1:1:{number}")
    a.plan_turn()
    assert sim.run_until(lambda: len(known(sim, b)) == count)
    sim.cut(a, b)
    assert sim.run_until(sim.is_meshed)
    sim.run_for(500)
    assert len(seen_by_clients(b)) == count
    sim.crash(a, 100)
    assert sim.run_until(lambda: is_over(sim))

    assert seen_by_clients(b) == []


def test_no_more_names_are_told_than_there_is_room_for(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator hears of that once; the address is there for clients of its broker."""
    monkeypatch.setattr("artemis_py.cluster.chosen_names.MAX_NAMES", 3)
    a, b = meshed(sim, 2)
    session = Session(a.domain, Subject("requester"), "requester", "test")
    for number in range(5):
        session.create_node(RoutingType.ANYCAST, f"{NAME}:{number}")
    a.plan_turn()
    sim.run_for(1_000)

    assert known(sim, b) == [f"{NAME}:{number}" for number in range(3)]
    assert [event.limit for event in a.events if isinstance(event, NamesNotTold)] == [3]


def test_memory_of_names_that_are_gone_is_bounded(sim: Simulation) -> None:
    """The first ones are forgotten."""
    node, _, peer = open_wire(sim, *UP)
    for number in range(MAX_GONE + 10):
        for is_there in (1, 0):
            node.mesh.chosen_names.learn(peer, ChosenName(f"{NAME}:{number}", 1, "", is_there))

    assert len(node.mesh.chosen_names._gone) == MAX_GONE
    assert node.mesh.chosen_names.is_gone(f"{NAME}:{MAX_GONE}")
    assert not node.mesh.chosen_names.is_gone(f"{NAME}:1")


# -- a peer that is not as it should be --------------------------------------------------------------------------


@pytest.fixture
def features() -> Iterator[None]:
    """A peer that is played knows what this broker knows."""
    HELLO["features"] = [*FEATURES]
    yield
    del HELLO["features"]


@pytest.mark.usefixtures("features")
def test_peer_is_told_what_it_may_know(sim: Simulation) -> None:
    """The permission `mesh`, both ways; names of the broker itself do not count."""
    node, wire, peer = open_wire(sim, *UP)
    peer.may_share = lambda address: address != "ID:secret"
    Requester(node)
    Requester(node, "ID:secret")
    sim.run_for(500)
    for name in ("ID:secret", "$SYS.x", "ID:other"):
        node.mesh.chosen_names.learn(peer, ChosenName(name, 1, "", 1))

    assert {each.address for each in wire.records if isinstance(each, ChosenName)} == {NAME}
    assert known(sim, node) == ["ID:other"]


def test_peer_of_an_earlier_version_is_told_nothing(sim: Simulation) -> None:
    """It would pass it over."""
    HELLO["features"] = [each for each in FEATURES if each != CHOSEN_NAMES]
    try:
        node, wire, _ = open_wire(sim, *UP)
    finally:
        del HELLO["features"]
    Requester(node)
    sim.run_for(500)

    assert not any(isinstance(each, ChosenName) for each in wire.records)


@pytest.mark.usefixtures("features")
def test_peer_that_tells_too_many_is_closed(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it has told is forgotten after `connection-ttl`."""
    monkeypatch.setattr("artemis_py.cluster.chosen_names.MAX_NAMES", 3)
    node, wire, _ = open_wire(sim, *UP, *[ChosenName(f"{NAME}:{number}", 1, "", 1) for number in range(4)])
    assert wire.closed is not None
    assert "more than 3 temporary addresses" in wire.closed
    sim.run_for(node.config.connection_ttl_ms + 10)

    assert is_over(sim)


@pytest.mark.usefixtures("features")
def test_snapshot_forgets_what_it_does_not_repeat(sim: Simulation) -> None:
    """A second one on the same connection."""
    names = [ChosenName(f"{NAME}:{number}", number % 2, "", 1) for number in range(4)]
    node, _, _ = open_wire(sim, *UP, *names, SnapshotBegin(), *names[:2], SnapshotEnd(0, 0))
    sim.run_for(100)

    assert known(sim, node) == seen_by_clients(node) == [f"{NAME}:0", f"{NAME}:1"]


@pytest.mark.usefixtures("features")
def test_peer_cannot_send_past_the_scope_by_calling_it_a_reply(sim: Simulation) -> None:
    """Only temporary addresses get replies."""
    node, _, peer = open_wire(sim, *UP, CopyChannel(11, 1))
    queue = node.queue("orders")
    message = plain_message("orders", MessageView(body="x"))
    message.extra = {COPY: node.mesh.node_id, REPLY: 1}
    content = encode_envelope(Envelope(message, "orders", "", 0, False, ("stranger",), False))
    node.run(node.generation, partial(peer.message, Lane.COPIES, 1, content))
    sim.run_for(100)

    assert queue.message_count == 0
