"""Reads everything in broker.xml that a mesh consists of (mesh §2.1)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from artemis_py.config.clusters import read_clusters, read_discovery_groups
from artemis_py.config.connectors import read_connectors
from artemis_py.config.elements import Elements
from artemis_py.config.mesh_check import MeshParts, check_mesh
from artemis_py.core.settings.cluster_config import LOGIN_ELEMENTS, ClusterLogin
from artemis_py.transport.config import AcceptorConfig


def read_mesh(core: Any, elements: Elements, folder: Path, acceptors: Sequence[AcceptorConfig]) -> MeshParts:
    """Return the parts of the mesh, and report what keeps them from working together."""
    connectors = {each.name: each for each in read_connectors(core, elements, folder)}
    groups = {each.name: each for each in read_discovery_groups(core, elements)}
    parts = MeshParts(
        clusters=read_clusters(core, elements, connectors, groups),
        connectors=connectors,
        acceptors=acceptors,
        login=ClusterLogin(**elements.children(core, LOGIN_ELEMENTS, "core")),
        groups=tuple(groups.values()),
    )
    check_mesh(parts, elements.report)
    return parts
