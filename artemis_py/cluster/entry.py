"""Which brokers may join the mesh, and which of two connections between the same two brokers stays."""

from typing import TYPE_CHECKING

from attrs import evolve

from artemis_py.cluster.hello import MAX_CONNECTED, Hello, connection_key
from artemis_py.core.runtime.carrier import PeerRefused

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh
    from artemis_py.cluster.peer import Peer


def introduction(hello: Hello, peer: "Peer") -> Hello:
    """Return what this broker says on a connection that it has dialled: with the connections that it has by then."""
    keys = [each.key for each in peer.mesh.peers.values() if not each.is_suspect][-MAX_CONNECTED:]
    peer.connected = frozenset(keys)
    return evolve(hello, connected=tuple(keys))


def check_peer(mesh: "Mesh", hello: Hello) -> None:
    """Raise PeerRefused for a broker of another mesh, for this one itself, and for a store that was copied."""
    if hello.cluster != mesh.config.name:
        raise PeerRefused(f"the other broker is in mesh '{hello.cluster}', this one in '{mesh.config.name}'")
    if hello.node_id == mesh.node_id:
        if hello.run == mesh.run:
            raise PeerRefused("this broker has dialled itself", is_duplicate=True)
        raise PeerRefused(
            f"both brokers have the node id {mesh.node_id}: the data folder was copied; delete one of the copies"
        )
    if mesh.domain.dispatcher.storage_failure is not None:
        raise PeerRefused("the store of this broker has failed")
    known = mesh.members.get(hello.node_id)
    current = mesh.peers.get(hello.node_id)
    if known is not None and hello.incarnation < known.incarnation:
        raise PeerRefused(
            f"broker '{hello.node_name}' says that it has been started {hello.incarnation} times, but "
            f"{known.incarnation} are known: its store was restored or copied"
        )
    if current is not None and current.hello is not None:
        if hello.incarnation == current.hello.incarnation and hello.run != current.hello.run:
            raise PeerRefused(f"another broker has the node id {hello.node_id}: the data folder was copied")
    if known is not None and known.run and hello.run_of(known.incarnation) not in (None, known.run):
        raise PeerRefused(
            f"broker '{hello.node_name}' has been started {hello.incarnation} times, but start {known.incarnation} is "
            "known to be another one than its store has: its store was restored or copied"
        )


def check_age(peer: "Peer", settled: int) -> None:
    """Raise PeerRefused for a connection that was begun before marks of the peer came on another, now broken one.

    The network may have held it up since. Its marks are as old, and what the peer has taken after them would come back
    to life here. `settled`: the last number of a connection at that time.
    """
    if peer.number <= settled:
        raise PeerRefused("this connection was begun before another one between these two brokers, which has ended")


def check_connection(mesh: "Mesh", peer: "Peer", current: "Peer") -> None:
    """Raise PeerRefused if the present connection is the one that stays. Both sides decide the same.

    The present one stays if the broker that dialled had it, and did not know whom it dialled. A broker that reconnects
    has numbers that are greater on both sides. If both brokers dialled at once, each may have seen the two connections
    in another order: then the one that the lower node id dialled stays.
    """
    new, old = peer.hello, current.hello
    assert new is not None
    assert old is not None
    if new.incarnation > old.incarnation:
        return
    if not current.is_suspect and _was_told(mesh, peer, current):
        raise PeerRefused("there is another connection between these two brokers", is_duplicate=True)
    is_newer_here = peer.number > current.number
    is_newer_there = new.connection > old.connection
    if is_newer_here and is_newer_there:
        return
    if is_newer_here != is_newer_there:
        if peer.is_dialled == current.is_dialled:
            keeps_new = is_newer_here if peer.is_dialled else is_newer_there
        else:
            keeps_new = peer.is_dialled == (mesh.node_id < peer.node_id)
        if keeps_new:
            return
    raise PeerRefused("there is another connection between these two brokers", is_duplicate=True)


def _was_told(mesh: "Mesh", peer: "Peer", current: "Peer") -> bool:
    """Tell whether the broker that dialled had the present connection then."""
    if peer.is_dialled:
        return current.key in peer.connected
    assert peer.hello is not None
    return connection_key(mesh.node_id, mesh.run, current.number) in peer.hello.connected
