"""Management of the mesh: who belongs to it, and why messages wait. Not in Artemis, except for the word topology."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from artemis_py.errors import InvalidRequest
from artemis_py.management.control import Kind, Operation, Parameter
from artemis_py.management.facts import MemberFacts, MeshFacts

if TYPE_CHECKING:
    from artemis_py.management.broker_control import BrokerControl

MEMBER_COLUMNS: Final[Mapping[str, Callable[[MemberFacts], object]]] = {
    "name": lambda member: member.name,
    "nodeID": lambda member: member.node_id,
    "state": lambda member: member.state,
    "urls": lambda member: " ".join(member.urls),
    "claimed": lambda member: member.claimed,
    "waiting": lambda member: member.waiting,
    "handedOver": lambda member: member.handed_over,
    "taken": lambda member: member.taken,
    "resyncs": lambda member: member.resyncs,
}
"""Columns of `listMembers`."""


def members(control: "BrokerControl") -> list[MemberFacts]:
    """Return the other brokers of the mesh."""
    return list(_mesh(control).members())


def stranded(control: "BrokerControl") -> int:
    """Return how many messages wait although a consumer elsewhere has room for them; 0 without a mesh."""
    mesh = control.facts.mesh
    return 0 if mesh is None else mesh.stranded()


def _explain(control: "BrokerControl", queue: str) -> str:
    """Return the reasons for which messages of a queue wait here, in JSON text."""
    return json.dumps(_mesh(control).explain(queue), ensure_ascii=False)


def _mesh(control: "BrokerControl") -> MeshFacts:
    mesh = control.facts.mesh
    if mesh is None:
        raise InvalidRequest("this broker belongs to no mesh")
    return mesh


MESH_OPERATIONS: Final[Mapping[str, tuple[Operation, ...]]] = {
    "explainQueue": (Operation(_explain, Parameter("name", Kind.TEXT)),),
}
