"""Destinations that a client creates and removes by name (openwire §15.4).

The client chooses the name of a temporary destination. It belongs to the connection: nobody else may receive from it,
anybody with the permission may send to it, and it ends with the connection.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from artemis_openwire.broker.destinations import durable_queue_name
from artemis_openwire.broker.refusals import CommandRefused, illegal_state, invalid_destination
from artemis_openwire.broker.subscriptions import check_inactive, named_queue, routing_type_of
from artemis_openwire.engine import errors
from artemis_openwire.engine.commands import DestinationInfo, RemoveSubscriptionInfo
from artemis_openwire.engine.names import is_advisory
from artemis_openwire.engine.structures import ActiveMQDestination, ActiveMQTempDestination
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import FQQN_SEPARATOR
from artemis_py.core.sessions.subscriptions import Lifetime, Subscription
from artemis_py.core.sessions.temporary import TemporaryNode
from artemis_py.errors import AddressExists, LimitExceeded, NoSuchAddress, NoSuchQueue, QueueExists

if TYPE_CHECKING:
    from artemis_openwire.broker.exchange import Exchange

ADD: Final = 0
REMOVE: Final = 1

# Temporary destinations of one connection. Each is also counted in the account of tables.
MAX_TEMPORARY: Final = 16_384


class Destinations:
    """The temporary destinations of one connection, and what its client removes."""

    def __init__(self, exchange: "Exchange") -> None:
        self._exchange: Final = exchange
        self._nodes: dict[ActiveMQDestination, TemporaryNode] = {}

    def on_info(self, info: DestinationInfo) -> None:
        """Create or remove a destination. Raises Refusal."""
        destination = info.destination
        if destination is None or not destination.physical_name:
            raise invalid_destination("a destination needs a name")
        if info.operation_type == ADD:
            if isinstance(destination, ActiveMQTempDestination):
                self._create(destination, info)
        elif info.operation_type == REMOVE:
            self._remove(destination, destination.physical_name)
        else:
            raise CommandRefused(errors.JMS, f"nothing can be done to a destination by number {info.operation_type}")

    def _create(self, destination: ActiveMQDestination, info: DestinationInfo) -> None:
        exchange = self._exchange
        name = destination.physical_name or ""
        if destination in self._nodes:
            return
        core = exchange.core
        if info.connection_id is None or info.connection_id.value != exchange.handler.connection_id:
            raise illegal_state("a temporary destination of another connection")
        if len(self._nodes) >= MAX_TEMPORARY:
            raise LimitExceeded(f"{MAX_TEMPORARY} temporary destinations are open on this connection")
        if exchange.handler.host.options.wildcards.is_wild(name) or FQQN_SEPARATOR in name:
            raise invalid_destination(f"'{name}' is not a name for a temporary destination")
        try:
            self._nodes[destination] = core.create_node(routing_type_of(destination), name)
        except (AddressExists, QueueExists):
            raise invalid_destination(f"'{name}' is taken") from None
        exchange.handler.manager.advisories.temporary_added(destination, exchange.handler.connection_id)

    def _remove(self, destination: ActiveMQDestination, name: str) -> None:
        core = self._exchange.core
        if isinstance(destination, ActiveMQTempDestination):
            self._remove_temporary(destination, name)
        elif is_advisory(destination):
            return
        else:
            # One that is gone is no error.
            with suppress(NoSuchQueue, NoSuchAddress):
                if FQQN_SEPARATOR in name:
                    address, queue_name = named_queue(self._exchange.handler, core, name)
                    queue = core.subscriptions.find(queue_name)
                    if queue is not None and queue.address.name == address:
                        core.delete_queue(queue_name)
                elif routing_type_of(destination) is RoutingType.ANYCAST:
                    core.delete_queue(name)
                else:
                    core.delete_address(name)

    def _remove_temporary(self, destination: ActiveMQDestination, name: str) -> None:
        """Remove one of our own; one that is gone is no error."""
        core = self._exchange.core
        node = self._nodes.get(destination)
        if node is None:
            if core.owns_temporary(name) is not None:
                raise invalid_destination(f"the temporary destination '{name}' belongs to another connection")
            return
        if node.has_consumers:
            raise CommandRefused(errors.JMS, f"A consumer is consuming from the temporary destination {name}")
        del self._nodes[destination]
        node.delete("removed by its client")
        self._exchange.handler.manager.advisories.temporary_removed(destination)

    def unsubscribe(self, info: RemoveSubscriptionInfo) -> None:
        """End a durable subscription (openwire §15.3). Raises Refusal."""
        exchange = self._exchange
        core = exchange.core
        name = info.subscription_name or ""
        queue = core.subscriptions.find(durable_queue_name(exchange.handler.client_id, name))
        if queue is None:
            raise invalid_destination(f"there is no durable subscription '{name}' of '{exchange.handler.client_id}'")
        check_inactive(core, exchange.handler.client_id, name)
        core.unsubscribe(Subscription(queue, Lifetime.UNTIL_UNSUBSCRIBED), "its client unsubscribed")

    def close(self) -> None:
        """Tell others that they are gone; the session of the core deletes them."""
        for destination in self._nodes:
            self._exchange.handler.manager.advisories.temporary_removed(destination)
        self._nodes.clear()
