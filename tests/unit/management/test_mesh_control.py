"""Management of the mesh: its members, and why messages wait."""

import json

import pytest
from attrs import frozen

from artemis_amqp.engine.errors import CONNECTION_FORCED, to_amqp
from artemis_mqtt.broker.errors import to_reason
from artemis_mqtt.engine.reasons import SERVER_UNAVAILABLE
from artemis_openwire.engine.errors import IO, throwable_of
from artemis_openwire.engine.structure import Throwable
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.settings.cluster_config import ClusterConfig, Scope
from artemis_py.deployment.clients import REASON, Clients
from artemis_py.errors import BrokerDrained, HostStopped
from artemis_py.management.facts import MeshFacts
from tests.core_harness import pass_time, settle_down
from tests.unit.management.world import MANAGEMENT, Rules, World


@frozen
class Member:
    """Another broker."""

    node_id: str
    name: str
    state: str = "up"
    urls: tuple[str, ...] = ("tcp://h:1", "tcp://h:2")
    claimed: int = 1
    waiting: int = 2
    handed_over: int = 3
    taken: int = 4
    resyncs: int = 0
    since_ms: int = 5
    is_dialled: bool = True
    version: int = 1
    clock_difference_ms: int = 7


@frozen
class Share:
    """What another broker has of a queue."""

    name: str = "b"
    node_id: str = "id-b"
    has_queue: bool = True
    is_kept: bool = False
    consumers: int = 1
    granted: int = 2
    handed_over: int = 3
    taken: int = 4
    last_taken_ms: int = 5


@frozen
class Rest:
    """A queue that stays."""

    queue: str = "q"
    messages: int = 3
    reason: str = "it is exclusive"
    moves: bool = False


@frozen
class Own:
    """This broker."""

    cluster: str = "mesh"
    node_id: str = "id-a"
    name: str = "a"
    state: str = "stays"
    incarnation: int = 2
    handed_over: int = 10
    taken: int = 20
    drained: int = 4
    clients: int = 1
    remaining: int = 3
    rest: tuple[Rest, ...] = (Rest(),)


class Two:
    """A mesh with two other brokers."""

    def members(self) -> list[Member]:
        """Both of them."""
        return [Member("id-b", "b"), Member("id-c", "c", state="away", since_ms=0)]

    def explain(self, queue: str) -> list[str]:
        """One reason."""
        return [f"nobody wants what is in {queue}"]

    def shares(self, queue: str) -> list[Share]:
        """One broker."""
        return [Share()]

    def stranded(self) -> int:
        """Some messages."""
        return 5

    def __init__(self) -> None:
        self.config = ClusterConfig(name="m.1", scope=Scope(("eu",), ()), static_connectors=("x",))
        self.is_started = True
        self.asked: list[object] = []
        """What it was told to do."""
        self.state = "stays"

    def status(self) -> Own:
        """This broker."""
        return Own(state=self.state)

    def topology(self) -> dict[str, object]:
        """Nobody."""
        return {"mesh": "mesh", "nodes": []}

    def drain(self, grace_ms: int | None) -> None:
        """Begin."""
        self.asked.append(grace_ms)
        self.state = "draining"

    def stop_drain(self) -> None:
        """End."""
        self.state = "stays"

    def suspend(self) -> None:
        """End connections."""
        self.is_started = False

    def start_again(self) -> None:
        """Connect."""
        self.is_started = True

    def forget(self, member: str) -> int:
        """Some messages were on their way."""
        self.asked.append(member)
        return 6

    def accept(self, member: str) -> None:
        """Let it in."""
        self.asked.append(member)


def world_with(mesh: MeshFacts | None) -> World:
    """A broker of this mesh."""
    return World(mesh=mesh)


def test_members_are_rows_that_can_be_filtered() -> None:
    """As those of every other list."""
    world = world_with(Two())
    everyone = json.loads(world.call("broker", "listMembers"))
    wanted = {"field": "state", "operation": "EQUALS", "value": "away"}
    away = json.loads(world.call("broker", "listMembers", wanted))

    assert [row["name"] for row in everyone["data"]] == ["b", "c"]
    assert everyone["data"][0] == {
        "name": "b",
        "nodeID": "id-b",
        "state": "up",
        "urls": "tcp://h:1 tcp://h:2",
        "claimed": 1,
        "waiting": 2,
        "handedOver": 3,
        "taken": 4,
        "resyncs": 0,
        "connectedSince": 5,
        "dialled": True,
        "version": 1,
        "clockDifference": 7,
    }
    assert [row["nodeID"] for row in away["data"]] == ["id-c"]


def test_reasons_and_numbers_are_those_of_the_mesh() -> None:
    """`mesh explain` and the number that must stay 0."""
    world = world_with(Two())

    assert json.loads(world.call("broker", "explainQueue", "q")) == ["nobody wants what is in q"]
    assert world.call("broker", "getStrandedMessageCount") == 5


def test_where_messages_went_is_shown() -> None:
    """And where they came from."""
    assert json.loads(world_with(Two()).call("broker", "listQueueShares", "q")) == [
        {
            "name": "b",
            "nodeID": "id-b",
            "hasQueue": True,
            "kept": False,
            "consumers": 1,
            "granted": 2,
            "handedOver": 3,
            "taken": 4,
            "lastTaken": 5,
        }
    ]


def test_a_drain_is_begun_and_stopped() -> None:
    """With a time for clients, or that of broker.xml; both answer with the status."""
    mesh = Two()
    world = world_with(mesh)
    begun = json.loads(world.call("broker", "drainMesh"))
    again = json.loads(world.call("broker", "drainMesh", 1500))
    stopped = json.loads(world.call("broker", "stopMeshDrain"))

    assert mesh.asked == [None, 1500]
    assert (begun["state"], again["state"], stopped["state"]) == ("draining", "draining", "stays")
    assert json.loads(world.call("broker", "getMeshStatus")) == {
        "mesh": "mesh",
        "name": "a",
        "nodeID": "id-a",
        "state": "stays",
        "starts": 2,
        "handedOver": 10,
        "taken": 20,
        "drained": 4,
        "clients": 1,
        "remaining": 3,
        "queues": [{"queue": "q", "messages": 3, "reason": "it is exclusive", "moves": False}],
    }


def test_members_are_forgotten_and_accepted_by_name() -> None:
    """The mesh knows names and ids."""
    mesh = Two()
    world = world_with(mesh)

    assert world.call("broker", "forgetMember", "b") == 6
    assert world.call("broker", "acceptMember", "c") is None
    assert mesh.asked == ["b", "c"]
    assert json.loads(world.call("broker", "getMeshTopology")) == {"mesh": "mesh", "nodes": []}


def test_the_mesh_is_a_resource_as_in_artemis() -> None:
    """Attributes and operations of its ClusterConnectionControl, and numbers of ours."""
    world = world_with(Two())
    (name,) = world.call("broker", "getClusterConnectionNames")
    resource = f"cluster-connection.{name}"

    def get(attribute: str) -> object:
        return world.call(resource, f"get{attribute}")

    assert (get("Name"), get("NodeID"), get("Address"), get("MaxHops")) == ("m.1", "id-a", "eu", 1)
    assert (get("MessageLoadBalancingType"), get("StaticConnectors")) == ("ON_DEMAND", ["x"])
    assert get("Nodes") == {"id-b": "tcp://h:1 tcp://h:2"}
    assert (get("MemberCount"), get("MembersConnected"), get("MessagesInDoubt")) == (2, 1, 1)
    assert (get("MessagesPendingAcknowledgement"), get("MessagesAcknowledged"), get("MessagesTaken")) == (2, 10, 20)
    assert (get("StrandedMessageCount"), get("Resyncs"), get("State")) == (5, 0, "stays")
    assert json.loads(str(get("Topology"))) == {"mesh": "mesh", "nodes": []}
    assert world.call(resource, "getBridgeMetrics", "id-c")["messagesAcknowledged"] == 3
    assert "no other member" in world.refusal(resource, "getBridgeMetrics", "b")
    world.call(resource, "stop")
    assert world.call(resource, "isStarted") is False
    world.call(resource, "start")
    assert world.call(resource, "isStarted") is True
    assert "does not exist" in world.refusal("cluster-connection.other", "getName")


def test_a_broker_without_a_mesh_says_so() -> None:
    """Nothing is stranded there."""
    world = world_with(None)

    assert world.call("broker", "getStrandedMessageCount") == 0
    assert "this broker belongs to no mesh" in world.refusal("broker", "listMembers")
    assert "this broker belongs to no mesh" in world.refusal("broker", "explainQueue", "q")


def test_only_operators_connect_while_the_broker_is_drained() -> None:
    """Those that say so and may manage; a stopped virtual host lets nobody in."""
    denying = World(access=Rules((Permission.MANAGE, MANAGEMENT))).services.sessions
    sessions = World().services.sessions
    for each in (denying, sessions):
        each.closed_because = "it is closed"
        with pytest.raises(HostStopped, match="closed"):
            each.open(Subject("ops"), is_operator=True)
        each.is_drained = True
        with pytest.raises(BrokerDrained, match="closed"):
            each.open(Subject("app"))
    with pytest.raises(BrokerDrained, match="closed"):
        denying.open(Subject("ops"), is_operator=True)

    assert sessions.open(Subject("ops"), is_operator=True).is_operator


def test_clients_of_each_protocol_are_told_to_go_elsewhere() -> None:
    """In the words with which a stopped virtual host refuses them, after which clients try other brokers."""
    refusal = BrokerDrained("go")

    assert to_amqp(refusal).condition == CONNECTION_FORCED
    assert to_reason(refusal) == SERVER_UNAVAILABLE
    assert throwable_of(refusal) == Throwable(IO, "go")


class Gone:
    """A client that notes why its connection ended."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.referred: list[bool] = []

    def closed_by_operator(self, reason: str) -> None:
        """Note it."""
        self.reasons.append(reason)

    def user_removed(self, reason: str) -> None:
        """Not asked for."""

    def rights_changed(self) -> None:
        """Not asked for."""

    def refer(self, only_followers: bool) -> None:
        """Note it: there is no other broker."""
        self.referred.append(only_followers)


def test_clients_are_sent_away_after_their_time() -> None:
    """Operators and sessions of absent clients stay; new clients come again after the drain was stopped."""
    world = World()
    sessions = world.services.sessions
    clients = Clients(sessions)
    app, ops = sessions.open(Subject("app")), sessions.open(Subject("ops"), is_operator=True)
    told = app.client, ops.client = Gone(), Gone()
    clients.send_away(1_000)
    assert clients.count == 1
    settle_down(world.domain)
    assert told[0].reasons == []
    pass_time(world.domain, 1_000)

    assert [each.reasons for each in told] == [[REASON], []]
    assert [each.referred for each in told] == [[False], []]
    with pytest.raises(BrokerDrained, match="drained"):
        sessions.open(Subject("app"))
    clients.let_in()
    assert not sessions.open(Subject("app")).is_operator
