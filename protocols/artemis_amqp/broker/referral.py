"""What an AMQP client is told of other brokers: in our open, and in a close that sends it away (amqp10 §15.3).

    open.properties       failover-server-list: [{network-host, port}, …]       read by Qpid JMS
    close.error           amqp:connection:redirect, {network-host, port}        followed by Qpid JMS, others show it

A scheme is left out: the client takes that of its own connection, which may be a WebSocket.
"""

from collections.abc import Sequence
from typing import Final

from artemis_amqp.engine import errors, extensions
from artemis_amqp.engine.performatives import AmqpError, Open
from artemis_amqp.engine.types import Symbol
from artemis_py.core.runtime.referrals import Alternative

FAILOVER_SERVER_LIST: Final = Symbol("failover-server-list")
_NETWORK_HOST: Final = Symbol("network-host")
_PORT: Final = Symbol("port")
_PRODUCT: Final = Symbol("product")
_QPID_JMS: Final = "QpidJMS"
_ENTRY_OCTETS: Final = 64
"""Octets of an entry of the list besides its host: keys, port, and the constructors."""


def server_list(others: Sequence[Alternative], room: int) -> dict[Symbol, object]:
    """Return the property of our open that names other brokers, as many as fit into so many octets."""
    entries: list[dict[Symbol, object]] = []
    for each in others:
        room -= _ENTRY_OCTETS + len(each.host)
        if room < 0:
            break
        entries.append(_location(each))
    return {FAILOVER_SERVER_LIST: entries} if entries else {}


def redirect(others: Sequence[Alternative]) -> AmqpError:
    """Return the error that sends a client to the first of some other brokers."""
    return AmqpError(errors.REDIRECT, f"another broker serves this client: {others[0].endpoint}", _location(others[0]))


def follows(opening: Open) -> bool:
    """Tell whether a client goes where a redirect says, as far as it tells: most clients only report an error."""
    product = (opening.properties or {}).get(_PRODUCT)
    return product == _QPID_JMS or extensions.REDIRECT in opening.desired_capabilities


def _location(broker: Alternative) -> dict[Symbol, object]:
    return {_NETWORK_HOST: broker.host, _PORT: broker.port}
