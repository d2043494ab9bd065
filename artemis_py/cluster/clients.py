"""Brokers of a mesh as their clients reach them: what each says of itself, and which ones there are now (mesh §7.2).

A broker tells the others addresses for clients in its hello, as URLs of connectors:

    tcp://broker2.example:61616?protocols=AMQP,MQTT,OPENWIRE;sslEnabled=true

They are what its configuration says: the broker cannot know what is in front of it. Without `protocols` it is not known
what is spoken there.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from artemis_py.cluster.peer import PeerState
from artemis_py.core.runtime.referrals import Alternative

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh

# Only what host names and addresses consist of: protocols write it into URIs and lists of their own.
_URL: Final = re.compile(r"tcp://(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253})):([0-9]{1,5})(?:\?([^?#]*))?")
_TLS: Final = "sslEnabled=true"
_PROTOCOLS: Final = "protocols="
MAX_URLS: Final = 8
"""Addresses of one broker that are looked at."""


def write_url(broker: Alternative) -> str:
    """Return the URL that tells others about an address of this broker."""
    parameters = [_PROTOCOLS + ",".join(sorted(broker.protocols))] if broker.protocols else []
    if broker.is_encrypted:
        parameters.append(_TLS)
    query = ";".join(parameters)
    return f"tcp://{broker.endpoint}{'?' if query else ''}{query}"


def read_urls(node_id: str, name: str, urls: Iterable[str]) -> list[Alternative]:
    """Return the addresses of a broker that make sense among those that it has told."""
    found: list[Alternative] = []
    for url in list(urls)[:MAX_URLS]:
        match = _URL.fullmatch(url)
        if match is None:
            continue
        port = int(match[3])
        if not 0 < port < 65536:
            continue
        parameters = (match[4] or "").split(";")
        protocols = [each[len(_PROTOCOLS) :] for each in parameters if each.startswith(_PROTOCOLS)]
        found.append(
            Alternative(
                node_id=node_id,
                name=name,
                host=match[1] or match[2],
                port=port,
                protocols=frozenset([each for text in protocols for each in text.split(",") if each]),
                is_encrypted=_TLS in parameters,
            )
        )
    return found


def others_for_clients(mesh: "Mesh") -> list[Alternative]:
    """Return the other brokers that are up and stay, as clients reach them."""
    found: list[Alternative] = []
    for peer in mesh.peers.values():
        if peer.state is PeerState.UP and peer.hello is not None and not peer.visit.is_leaving:
            found += read_urls(peer.node_id, peer.hello.node_name, peer.hello.clients)
    return found
