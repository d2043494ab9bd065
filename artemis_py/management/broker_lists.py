"""The lists of the resource `broker`: what a row of each has, and which rows the client may see."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from artemis_py.core.addresses.address import Address
from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.queues.queue import Queue, queues_of
from artemis_py.core.runtime.background import Steps
from artemis_py.core.sessions.session import Session
from artemis_py.errors import InvalidRequest
from artemis_py.management.address_control import routing_types
from artemis_py.management.control import Kind, Operation, Parameter, Row, view
from artemis_py.management.divert_control import DIVERT_COLUMNS, all_diverts
from artemis_py.management.exchange_control import BINDING_COLUMNS, EXCHANGE_COLUMNS, all_bindings, all_exchanges
from artemis_py.management.listing import DEFAULT_PAGE_ROWS, list_page
from artemis_py.management.mesh_control import MEMBER_COLUMNS, members
from artemis_py.management.queue_attributes import COLUMNS
from artemis_py.management.token_control import TOKEN_COLUMNS, all_tokens
from artemis_py.management.virtual_host_control import HOST_COLUMNS, all_hosts

if TYPE_CHECKING:
    from artemis_py.management.broker_control import BrokerControl

WANTED = Parameter("options", Kind.OBJECT)
WANTED_TEXT = Parameter("options", Kind.TEXT_OR_NULL)  # an empty filter is often sent as ""
PAGE = Parameter("page", Kind.NUMBER)
PAGE_ROWS = Parameter("pageSize", Kind.NUMBER)

QUEUE_COLUMNS: Final[Mapping[str, Callable[[Queue], object]]] = {
    "id": lambda queue: queue.id,
    **COLUMNS,
    "temporary": lambda queue: queue.temporary,
    "internal": lambda queue: queue.internal,
    # Lists leave these out unless all are asked for.
    "hidden": lambda queue: queue.temporary or queue.internal,
    "autoCreated": lambda queue: queue.auto_created,
    "paused": lambda queue: queue.paused,
    "consumerCount": lambda queue: queue.consumer_count,
    "messageCount": lambda queue: queue.message_count,
    "deliveringCount": lambda queue: queue.delivering_count,
    "scheduledCount": lambda queue: queue.scheduled_count,
    "messagesAdded": lambda queue: queue.messages_added,
    "messagesAcked": lambda queue: queue.messages_acknowledged,
    "messagesExpired": lambda queue: queue.messages_expired,
    "messagesKilled": lambda queue: queue.messages_killed,
    "messagesReplaced": lambda queue: queue.messages_replaced,
}

ADDRESS_COLUMNS: Final[Mapping[str, Callable[[Address], object]]] = {
    "name": lambda address: address.name,
    "routingTypes": routing_types,
    "queueCount": lambda address: len(queues_of(address)),
    "messageCount": lambda address: address.message_count,
    "addressSize": lambda address: address.size_bytes,
    "routedMessageCount": lambda address: address.routed,
    "unRoutedMessageCount": lambda address: address.unrouted,
    "paused": lambda address: address.paused,
    "autoCreated": lambda address: address.auto_created,
    "temporary": lambda address: address.temporary,
    "internal": lambda address: address.internal,
    "hidden": lambda address: address.temporary or address.internal,
}

CONNECTION_COLUMNS: Final[Mapping[str, Callable[[Session], object]]] = {
    "connectionID": lambda session: session.id,
    "remoteAddress": lambda session: session.peer,
    "protocol": lambda session: session.protocol,
    "user": lambda session: session.subject.user,
    "clientID": lambda session: session.client_id,
    "creationTime": lambda session: session.created_ms,
    "consumerCount": lambda session: len(session.consumers),
}


class Attached(NamedTuple):
    """A consumer and the session it belongs to."""

    session: Session
    consumer: Consumer


CONSUMER_COLUMNS: Final[Mapping[str, Callable[[Attached], object]]] = {
    "id": lambda attached: attached.consumer.id,
    "connectionID": lambda attached: attached.session.id,
    "queue": lambda attached: attached.consumer.queue.name,
    "address": lambda attached: attached.consumer.queue.address.name,
    "filter": lambda attached: None if attached.consumer.filter is None else attached.consumer.filter.text,
    "browseOnly": lambda attached: attached.consumer.is_browser,
    "priority": lambda attached: attached.consumer.priority,
    "credit": lambda attached: attached.consumer.credit,
    "messagesInTransit": lambda attached: attached.consumer.outstanding.count + len(attached.consumer.shown),
    "messagesAcknowledged": lambda attached: attached.consumer.accepted,
    "oldestInTransit": lambda attached: oldest_held(attached.consumer),
    "connectionCreationTime": lambda attached: attached.session.created_ms,
    "user": lambda attached: attached.session.subject.user,
    "clientID": lambda attached: attached.session.client_id,
    "remoteAddress": lambda attached: attached.session.peer,
}


def oldest_held(consumer: Consumer) -> int | None:
    """Return the lowest number of the messages that a consumer has; None if it has none."""
    held = [reference.sequence for reference in consumer.unsettled()]
    return min(held) if held else None


def _listing(
    items: Callable[["BrokerControl"], Iterable[object]],
    columns: Mapping[str, Callable[..., object]],
    kind: str = "",
    name_of: Callable[[Any], str] = str,
) -> Row:
    """Return a list operation: filter, page and page size are optional from the right.

    Rows are about resources of this `kind` and name, or those of a kind that has no resources if it is empty.
    """

    def run(
        control: "BrokerControl", wanted: object = None, page: int = 1, page_rows: int = DEFAULT_PAGE_ROWS
    ) -> Steps:
        is_seen = control.seen(kind) if kind else None
        row_is_seen = None if is_seen is None else lambda item: is_seen(name_of(item))
        return list_page(items(control), columns, _filter_object(wanted), page, page_rows, row_is_seen)

    ways = [Operation(run)]
    for wanted in (WANTED, WANTED_TEXT):
        ways += [Operation(run, wanted), Operation(run, wanted, PAGE), Operation(run, wanted, PAGE, PAGE_ROWS)]
    return view(*ways)


def _filter_object(wanted: object) -> Mapping[str, object]:
    if isinstance(wanted, dict):
        return wanted
    if wanted is None or wanted == "":
        return {}
    raise InvalidRequest("options must be a JSON object, or empty")


LIST_OPERATIONS: Final[Mapping[str, Row]] = {
    "listQueues": _listing(
        lambda control: control.domain.queues.values(), QUEUE_COLUMNS, "queue", lambda queue: str(queue.name)
    ),
    "listAddresses": _listing(
        lambda control: control.domain.addresses.values(), ADDRESS_COLUMNS, "address", lambda address: str(address.name)
    ),
    "listConnections": _listing(lambda control: control.sessions.opened.values(), CONNECTION_COLUMNS),
    "listConsumers": _listing(
        lambda control: control.consumers(),
        CONSUMER_COLUMNS,
        "queue",
        lambda attached: str(attached.consumer.queue.name),
    ),
    "listDiverts": _listing(all_diverts, DIVERT_COLUMNS, "divert", lambda divert: str(divert.name)),
    "listExchanges": _listing(all_exchanges, EXCHANGE_COLUMNS, "exchange", lambda exchange: str(exchange.name)),
    "listExchangeBindings": _listing(
        all_bindings, BINDING_COLUMNS, "exchange", lambda binding: str(binding.source.name)
    ),
    "listVirtualHosts": _listing(all_hosts, HOST_COLUMNS, "virtualhost", lambda host: str(host.config.name)),
    "listMembers": _listing(members, MEMBER_COLUMNS),
    "listTokens": _listing(all_tokens, TOKEN_COLUMNS),
}
"""Operations of the resource `broker`."""
