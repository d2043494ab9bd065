"""Management of a mesh: the resource `cluster-connection.<name>`. The names are those of Artemis where it has them."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

from artemis_py.errors import InvalidRequest
from artemis_py.management.control import Control, Kind, NoSuchResource, Operation, Parameter, Row, edit, view
from artemis_py.management.facts import MemberFacts, MeshFacts

if TYPE_CHECKING:
    from artemis_py.management.broker_control import BrokerControl


class ClusterControl(Control):
    """The mesh that this broker belongs to."""

    def __init__(self, mesh: MeshFacts) -> None:
        super().__init__(f"cluster-connection.{mesh.config.name}")
        self.mesh = mesh

    def total(self, number: Callable[[MemberFacts], int]) -> int:
        """Return a sum over all members."""
        return sum(number(member) for member in self.mesh.members())

    def nodes(self) -> dict[str, str]:
        """Return where each member that is connected is reached, by its id."""
        return {each.node_id: " ".join(each.urls) for each in self.mesh.members() if each.since_ms}

    def bridge_metrics(self, node_id: str) -> dict[str, int]:
        """Return numbers about one member. Raises InvalidRequest if there is none of this id."""
        for member in self.mesh.members():
            if member.node_id == node_id:
                return {
                    "messagesPendingAcknowledgement": member.claimed,
                    "messagesAcknowledged": member.handed_over,
                    "messagesTaken": member.taken,
                    "messagesWaiting": member.waiting,
                    "resyncs": member.resyncs,
                }
        raise InvalidRequest(f"the mesh has no other member with the id '{node_id}'")

    attributes: ClassVar[Mapping[str, Callable[["ClusterControl"], object]]] = {
        "Name": lambda control: control.mesh.config.name,
        "NodeID": lambda control: control.mesh.status().node_id,
        "Address": lambda control: str(control.mesh.config.scope),
        "Started": lambda control: control.mesh.is_started,
        "State": lambda control: control.mesh.status().state,
        "MessageLoadBalancingType": lambda control: control.mesh.config.load_balancing.value,
        "MaxHops": lambda control: control.mesh.config.max_hops,
        "DuplicateDetection": lambda control: True,
        "ProducerWindowSize": lambda control: control.mesh.config.producer_window_size_bytes,
        "StaticConnectors": lambda control: list(control.mesh.config.static_connectors),
        "DiscoveryGroupName": lambda control: control.mesh.config.discovery_group,
        "Nodes": nodes,
        "Topology": lambda control: json.dumps(control.mesh.topology(), ensure_ascii=False),
        "MemberCount": lambda control: len(control.mesh.members()),
        "MembersConnected": lambda control: control.total(lambda member: member.since_ms > 0),
        "MessagesPendingAcknowledgement": lambda control: control.total(lambda member: member.claimed),
        "MessagesInDoubt": lambda control: control.total(lambda member: 0 if member.since_ms else member.claimed),
        "MessagesWaiting": lambda control: control.total(lambda member: member.waiting),
        "MessagesAcknowledged": lambda control: control.mesh.status().handed_over,
        "MessagesTaken": lambda control: control.mesh.status().taken,
        "StrandedMessageCount": lambda control: control.mesh.stranded(),
        "Resyncs": lambda control: control.total(lambda member: member.resyncs),
    }

    operations: ClassVar[Mapping[str, Row]] = {
        "start": edit(Operation(lambda control: control.mesh.start_again())),
        "stop": edit(Operation(lambda control: control.mesh.suspend())),
        "getBridgeMetrics": view(Operation(bridge_metrics, Parameter("nodeId", Kind.TEXT))),
    }


def find_cluster(control: "BrokerControl", name: str) -> ClusterControl:
    """Return the resource of the mesh of this name. Raises InvalidRequest if the broker belongs to no such mesh."""
    mesh = control.facts.mesh
    if mesh is None or mesh.config.name != name:
        raise no_such_cluster(control, name)
    return ClusterControl(mesh)


def no_such_cluster(control: "BrokerControl", name: str) -> NoSuchResource:
    """Return the refusal of a mesh that does not exist; it proposes similar names."""
    mesh = control.facts.mesh
    near = control.proposed("cluster-connection", name, [] if mesh is None else [mesh.config.name])
    return NoSuchResource(f"cluster connection {name!r} does not exist{near}")
