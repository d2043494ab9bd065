"""What an OpenWire client is told of other brokers (openwire §12.1, mesh §7.1).

The failover transport of a client tries the `connectedBrokers` of a ConnectionControl before its own URIs, until it is
told others. With `rebalanceConnection` and a list that is not the same as before, it connects again to one of them. A
client without this transport ignores all of it.

A client is sent away by a list and the end of its connection: it tries the list first, and the broker that it has lost
last. `reconnectTo` would do less. It puts its broker behind the others and asks for a rebalance, which the client of
Java may remember until it hears the list of the next broker, and then returns to the first one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from artemis_openwire.engine.commands import ConnectionControl
from artemis_py.core.runtime.background import SLICE_UNITS, Steps
from artemis_py.core.runtime.meter import LINK_UNITS
from artemis_py.core.runtime.referrals import Alternative

if TYPE_CHECKING:
    from artemis_openwire.broker.manager import OpenWireProtocolManager

ALONE: Final = ConnectionControl(connected_brokers="", reconnect_to="")
"""What a client is told of other brokers that it may connect to: there are none."""

FIRST_VERSION: Final = 6
"""First version of the protocol that has words for other brokers."""


def brokers_control(others: Sequence[Alternative], rebalances: bool) -> ConnectionControl:
    """Return the command that names other brokers for the case that this one is lost."""
    if not others:
        return ALONE
    return ConnectionControl(connected_brokers=_uris(others), reconnect_to="", rebalance_connection=rebalances)


def redirecting_control(others: Sequence[Alternative]) -> ConnectionControl:
    """Return the command that sends a client to other brokers, the best first, if the connection ends behind it."""
    return ConnectionControl(connected_brokers=_uris(others), reconnect_to="")


def update_clients(manager: "OpenWireProtocolManager", has_more: bool) -> Steps:
    """Tell all clients that want to know which brokers there are now, a slice in each turn."""
    end = manager.host.meter.work + SLICE_UNITS
    for client in manager.clients.all():
        if manager.host.meter.work >= end:
            yield None
            end = manager.host.meter.work + SLICE_UNITS
        manager.host.meter.work += LINK_UNITS
        client.brokers_changed(has_more)
    return None


def _uris(brokers: Sequence[Alternative]) -> str:
    return ",".join([_uri(each) for each in brokers])


def _uri(broker: Alternative) -> str:
    return f"{'ssl' if broker.is_encrypted else 'tcp'}://{broker.endpoint}"
