"""Names on the wire between two brokers, and how hellos travel in the open of a connection (mesh §5.2, §5.3)."""

from collections.abc import Mapping
from typing import Final

from artemis_amqp.engine.codec import encode_value
from artemis_amqp.engine.limits import LOGIN_FRAME_SIZE
from artemis_amqp.engine.performatives import Open
from artemis_amqp.engine.types import Symbol
from artemis_amqp.messages.conversion import plain
from artemis_py.core.runtime.carrier import Lane, PeerRefused

MESH: Final = Symbol("artemis:mesh")
"""Capability that both sides must name, and the property with the hello."""
REFUSED: Final = Symbol("amqp:connection-establishment-failed")
"""Property of an open that is followed by a close (amqp10 §5.1)."""

CONTROL_ADDRESS: Final = "$artemis.mesh.control"
LANE_ADDRESSES: Final[Mapping[str, Lane]] = {f"$artemis.mesh.{lane.value}": lane for lane in Lane}

CONTROL_CREDIT: Final = 256
"""Batches of records that may be on their way: one for each turn of the sender's loop."""
LANE_CREDIT: Final[Mapping[Lane, int]] = {Lane.HANDOVER: 4000, Lane.COPIES: 4000, Lane.BULK: 4}
"""Unconfirmed messages of a lane, which wait for a commit of the taker. Their bytes are limited too: before the size of
messages is known, 1 MiB are 1,024 of them. It is as much as one queue may be granted (`cluster.grants`): with 1000 of
each, 29,000 durable messages went over in a second where now 41,000 do, and 43,000 others where now 70,000 do."""
CONTROL_SIZE: Final = 4 * 1024 * 1024
"""Bytes of one batch of records."""

# Octets of an open beside the hello: container id, host name, capabilities.
_OPEN_REST: Final = 1024


def asks(opening: Open) -> bool:
    """Tell whether the other side of a connection wants to be, or is, a broker of a mesh."""
    return MESH in opening.desired_capabilities or MESH in opening.offered_capabilities


def hello_of(opening: Open) -> Mapping[str, object]:
    """Return the hello in an open. Raises PeerRefused if there is none."""
    hello = plain((opening.properties or {}).get(MESH))
    if not isinstance(hello, dict) or not all(isinstance(key, str) for key in hello):
        raise PeerRefused(f"the open has no map of names in the property {MESH}")
    return hello


def properties_of(hello: Mapping[str, object]) -> dict[Symbol, object]:
    """Return the properties of an open with a hello. Raises PeerRefused if it is too long for the first frame."""
    size = len(encode_value(dict(hello)))
    if size > LOGIN_FRAME_SIZE - _OPEN_REST:
        raise PeerRefused(f"a hello of {size} bytes does not fit into the first frame; name fewer prefixes")
    return {MESH: dict(hello)}
