"""Management of the mesh: its members, and why messages wait."""

import json

from attrs import frozen

from artemis_py.management.facts import MeshFacts
from tests.unit.management.world import World


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


class Two:
    """A mesh with two other brokers."""

    def members(self) -> list[Member]:
        """Both of them."""
        return [Member("id-b", "b"), Member("id-c", "c", state="away")]

    def explain(self, queue: str) -> list[str]:
        """One reason."""
        return [f"nobody wants what is in {queue}"]

    def stranded(self) -> int:
        """Some messages."""
        return 5


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
    }
    assert [row["nodeID"] for row in away["data"]] == ["id-c"]


def test_reasons_and_numbers_are_those_of_the_mesh() -> None:
    """`mesh explain` and the number that must stay 0."""
    world = world_with(Two())

    assert json.loads(world.call("broker", "explainQueue", "q")) == ["nobody wants what is in q"]
    assert world.call("broker", "getStrandedMessageCount") == 5


def test_a_broker_without_a_mesh_says_so() -> None:
    """Nothing is stranded there."""
    world = world_with(None)

    assert world.call("broker", "getStrandedMessageCount") == 0
    assert "this broker belongs to no mesh" in world.refusal("broker", "listMembers")
    assert "this broker belongs to no mesh" in world.refusal("broker", "explainQueue", "q")
