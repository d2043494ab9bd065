"""Management of the mesh: who belongs to it, and why messages wait. Not in Artemis, except for the word topology."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from artemis_py.errors import InvalidRequest
from artemis_py.management.control import Kind, Operation, Parameter, Row, edit, view
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
    "connectedSince": lambda member: member.since_ms,
    "dialled": lambda member: member.is_dialled,
    "version": lambda member: member.version,
    "clockDifference": lambda member: member.clock_difference_ms,
}
"""Columns of `listMembers`."""


def members(control: "BrokerControl") -> list[MemberFacts]:
    """Return the other brokers of the mesh."""
    return list(_mesh(control).members())


def cluster_names(control: "BrokerControl") -> list[str]:
    """Return the name of the mesh, by which its resource is called; empty without a mesh."""
    mesh = control.facts.mesh
    return [] if mesh is None else control.seen_names("cluster-connection", [mesh.config.name])


def stranded(control: "BrokerControl") -> int:
    """Return how many messages wait although a consumer elsewhere has room for them; 0 without a mesh."""
    mesh = control.facts.mesh
    return 0 if mesh is None else mesh.stranded()


def _explain(control: "BrokerControl", queue: str) -> str:
    """Return the reasons for which messages of a queue wait here, in JSON text."""
    mesh = _mesh(control)
    reasons = mesh.explain(queue) if control.sees("queue", queue) else [f"there is no queue '{queue}' here"]
    return json.dumps(reasons, ensure_ascii=False)


def _shares(control: "BrokerControl", queue: str) -> str:
    """Return where messages of a queue went, and where they came from, in JSON text."""
    mesh = _mesh(control)
    if not control.sees("queue", queue):
        raise InvalidRequest(f"the mesh has no queue '{queue}' at this broker")
    rows = [
        {
            "name": share.name,
            "nodeID": share.node_id,
            "hasQueue": share.has_queue,
            "kept": share.is_kept,
            "consumers": share.consumers,
            "granted": share.granted,
            "handedOver": share.handed_over,
            "taken": share.taken,
            "lastTaken": share.last_taken_ms,
        }
        for share in mesh.shares(queue)
    ]
    return json.dumps(rows, ensure_ascii=False)


def _mesh(control: "BrokerControl") -> MeshFacts:
    mesh = control.facts.mesh
    if mesh is None:
        raise InvalidRequest("this broker belongs to no mesh")
    return mesh


def _status(control: "BrokerControl") -> str:
    """Return what this broker is doing in its mesh, in JSON text."""
    own = _mesh(control).status()
    status = {
        "mesh": own.cluster,
        "name": own.name,
        "nodeID": own.node_id,
        "state": own.state,
        "starts": own.incarnation,
        "handedOver": own.handed_over,
        "taken": own.taken,
        "drained": own.drained,
        "clients": own.clients,
        "remaining": own.remaining,
        "queues": [
            {"queue": rest.queue, "messages": rest.messages, "reason": rest.reason, "moves": rest.moves}
            for rest in own.rest
        ],
    }
    return json.dumps(status, ensure_ascii=False)


def _topology(control: "BrokerControl") -> str:
    """Return who is connected with whom, in JSON text."""
    return json.dumps(_mesh(control).topology(), ensure_ascii=False)


def _drain(control: "BrokerControl", grace_ms: int | None = None) -> str:
    """Begin to give all messages to other brokers; return the status."""
    mesh = _mesh(control)
    mesh.drain(grace_ms)
    return _status(control)


def _stop_drain(control: "BrokerControl") -> str:
    """Have this broker stay after all; return the status."""
    _mesh(control).stop_drain()
    return _status(control)


def _forget(control: "BrokerControl", member: str) -> int:
    """Forget a member that will not come back; return how many messages were on their way to it."""
    return _mesh(control).forget(member)


def _accept(control: "BrokerControl", member: str) -> None:
    """Let a member come back whose store is older than it was."""
    _mesh(control).accept(member)


MESH_OPERATIONS: Final[Mapping[str, Row]] = {
    "explainQueue": view(Operation(_explain, Parameter("name", Kind.TEXT))),
    "listQueueShares": view(Operation(_shares, Parameter("name", Kind.TEXT))),
    "getMeshStatus": view(Operation(_status)),
    "getMeshTopology": view(Operation(_topology)),
    "drainMesh": edit(Operation(_drain), Operation(_drain, Parameter("graceMillis", Kind.NUMBER))),
    "stopMeshDrain": edit(Operation(_stop_drain)),
    "forgetMember": edit(Operation(_forget, Parameter("member", Kind.TEXT))),
    "acceptMember": edit(Operation(_accept, Parameter("member", Kind.TEXT))),
}
