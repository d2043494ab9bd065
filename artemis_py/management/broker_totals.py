"""Attributes of the broker that are sums over all queues, or over all addresses."""

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from artemis_py.management.broker_control import BrokerControl

Counters = dict[str, Callable[[Any], int]]
"""What is added up, by the names of the attributes."""

QUEUE_TOTALS: Final[Counters] = {
    "TotalMessageCount": attrgetter("message_count"),
    "TotalMessagesAdded": attrgetter("messages_added"),
    "TotalMessagesAcknowledged": attrgetter("messages_acknowledged"),
    "TotalConsumerCount": attrgetter("consumer_count"),
}
"""Sums over all queues."""

ADDRESS_TOTALS: Final[Counters] = {
    "RoutedMessageCount": attrgetter("routed"),
    "UnRoutedMessageCount": attrgetter("unrouted"),
}
"""Sums over all addresses."""


def total(name: str) -> Callable[["BrokerControl"], int]:
    """Return what reads one of them."""
    counter = QUEUE_TOTALS.get(name)
    if counter is not None:
        return lambda control: sum(map(counter, control.domain.queues.values()))
    return lambda control: sum(map(ADDRESS_TOTALS[name], control.domain.addresses.values()))
