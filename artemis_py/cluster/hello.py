"""What two brokers say of themselves when a connection opens (docs/mesh.md)."""

from collections.abc import Mapping
from typing import Final
from zlib import crc32

from attrs import frozen

from artemis_py.cluster.records import MIN_VERSION, VERSION
from artemis_py.core.runtime.carrier import PeerRefused

COPIES: Final = "copies"
"""Feature of a broker that tells of its subscriptions, and has a lane for copies."""

OFFERS: Final = "offers"
"""Feature of a broker that takes what one that is being drained offers."""

BULK: Final = "bulk"
"""Feature of a broker that takes large messages in pieces (`pieces`)."""

RETAINED: Final = "retained"
"""Feature of a broker that keeps the retained messages of others."""

RETAINED_ASKED: Final = "retained-asked"
"""Feature of a broker that says when it has told what is retained (`newcomers`)."""

CHOSEN_NAMES: Final = "chosen-names"
"""Feature of a broker that is told of temporary addresses whose names clients have chosen (`chosen_names`)."""

BLOCKS: Final = "blocks"
"""Feature of a broker that takes several messages in one transfer (`blocks`)."""

SIGHT: Final = "sight"
"""Feature of a broker that is told of each connection which others make or lose, and not of all that they have."""

FEATURES: Final = (COPIES, OFFERS, BULK, RETAINED, RETAINED_ASKED, CHOSEN_NAMES, BLOCKS, SIGHT)
"""Features of this broker."""

MAX_CONNECTED: Final = 64
"""Connections that are told: a hello has to fit into the first frame."""

MAX_NAME_CHARS: Final = 1000
"""Limit for each text in a hello: names and ids are shorter by far."""


@frozen(kw_only=True)
class Hello:
    """One broker's account of itself."""

    cluster: str
    """Name of the mesh."""
    node_id: str
    """The UUID in its store."""
    node_name: str
    """Its `<name>`."""
    incarnation: int
    """Number of its starts; it grows with each."""
    run: int
    """A random number of this run: two brokers with the same id and incarnation have copies of one store."""
    runs: tuple[int, ...] = ()
    """Random numbers of the runs before it, the newest first, as far as they are kept (`starts`)."""
    connection: int
    """Number of this connection among all that it has made or accepted in this run."""
    now_ms: int
    load_balancing: str
    max_hops: int
    scope: str
    urls: tuple[str, ...] = ()
    """How others reach it."""
    clients: tuple[str, ...] = ()
    """How clients reach it, with the protocols that are spoken there (`clients`)."""
    connected: tuple[int, ...] = ()
    """The connections that it has, as `connection_key` names them, if it dials: it may not know whom."""
    formats: tuple[str, ...] = ()
    """Formats of messages that it can read."""
    features: tuple[str, ...] = FEATURES
    """What it knows beyond the first version."""
    version: int = VERSION
    """Version of the mesh that it speaks."""

    def run_of(self, incarnation: int) -> int | None:
        """Return the random number of an earlier start, or of this one; None if it is not told."""
        told = (self.run, *self.runs)
        index = self.incarnation - incarnation
        return told[index] if 0 <= index < len(told) else None

    def as_map(self) -> dict[str, object]:
        """Return what goes over the wire."""
        return {
            "version": self.version,
            "min-version": MIN_VERSION,
            "cluster": self.cluster,
            "node-id": self.node_id,
            "node-name": self.node_name,
            "incarnation": self.incarnation,
            "run": self.run,
            "runs": list(self.runs),
            "connection": self.connection,
            "now-ms": self.now_ms,
            "load-balancing": self.load_balancing,
            "max-hops": self.max_hops,
            "scope": self.scope,
            "urls": list(self.urls),
            "clients": list(self.clients),
            "connected": list(self.connected),
            "formats": list(self.formats),
            "features": list(self.features),
        }


def read_hello(said: Mapping[str, object]) -> Hello:
    """Return what a broker said. Raises PeerRefused if it makes no sense, or if the versions do not fit."""
    version, min_version = _number(said, "version"), _number(said, "min-version")
    if version < MIN_VERSION:
        raise PeerRefused(f"the other broker speaks version {version} of the mesh: upgrade it first")
    if min_version > VERSION:
        raise PeerRefused(f"the other broker needs version {min_version} of the mesh: upgrade this broker first")
    return Hello(
        version=version,
        cluster=_text(said, "cluster"),
        node_id=_text(said, "node-id"),
        node_name=_text(said, "node-name"),
        incarnation=_number(said, "incarnation"),
        run=_number(said, "run"),
        runs=_numbers(said, "runs"),
        connection=_number(said, "connection"),
        now_ms=_number(said, "now-ms"),
        load_balancing=_text(said, "load-balancing"),
        max_hops=_number(said, "max-hops"),
        scope=_text(said, "scope"),
        urls=_texts(said, "urls"),
        clients=_texts(said, "clients"),
        connected=_numbers(said, "connected"),
        formats=_texts(said, "formats"),
        features=_texts(said, "features"),
    )


def connection_key(node_id: str, run: int, connection: int) -> int:
    """Return the hash, of 32 bits, that stands for a connection: of the broker at the other side, and its number there.

    If two have the same one, a connection is refused that would have replaced another: that other one stays.
    """
    return crc32(f"{node_id}:{run}:{connection}".encode())


def _number(said: Mapping[str, object], name: str) -> int:
    value = said.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise PeerRefused(f"the other broker's hello has no number '{name}'")
    return int(value)


def _numbers(said: Mapping[str, object], name: str) -> tuple[int, ...]:
    value = said.get(name, [])
    if not isinstance(value, (list, tuple)) or len(value) > MAX_NAME_CHARS:
        raise PeerRefused(f"the other broker's hello has no list '{name}'")
    return tuple([each for each in value if isinstance(each, int)])


def _text(said: Mapping[str, object], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARS:
        raise PeerRefused(f"the other broker's hello has no text '{name}'")
    return str(value)


def _texts(said: Mapping[str, object], name: str) -> tuple[str, ...]:
    value = said.get(name, [])
    if not isinstance(value, (list, tuple)) or len(value) > MAX_NAME_CHARS:
        raise PeerRefused(f"the other broker's hello has no list '{name}'")
    texts = [str(each) for each in value if isinstance(each, str) and len(each) <= MAX_NAME_CHARS]
    return tuple(texts)
