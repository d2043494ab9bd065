"""What notifications say: an event of the broker under the names that Artemis gives it (docs/notifications.md).

A notification has a type and properties, and no body. Types and properties that Artemis does not have are named so that
its clients pass them by: properties begin with `artemis_py_`. Longs are plain integers; narrower numbers have a class.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import field, frozen

from artemis_py.core.messages.widths import Int8, Int32
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.event_facts import ClientFacts
from artemis_py.core.runtime.events import (
    AddressAdded,
    AddressHasRoom,
    AddressIsFull,
    AddressRemoved,
    BindingAdded,
    BindingRemoved,
    BindingUpdated,
    ConsumerClosed,
    ConsumerOpened,
    ConsumerSlow,
    Denied,
    Dropped,
    Event,
    LimitReached,
    SessionClosed,
    SessionOpened,
    StoreFailed,
    Unrouted,
)
from artemis_py.core.runtime.outer_events import AcceptorStarted, AcceptorStopped, DiskChanged, LoginFailed

TYPE: Final = "_AMQ_NotifType"
TIMESTAMP: Final = "_AMQ_NotifTimestamp"
ADDRESS: Final = "_AMQ_Address"
BINDING_ID: Final = "_AMQ_Binding_ID"
BINDING_TYPE: Final = "_AMQ_Binding_Type"
CERTIFICATE: Final = "_AMQ_CertSubjectDN"
CHECK_TYPE: Final = "_AMQ_CheckType"
CLIENT_ID: Final = "_AMQ_Client_ID"
CLUSTER_NAME: Final = "_AMQ_ClusterName"
CONNECTION_NAME: Final = "_AMQ_ConnectionName"
CONSUMER_COUNT: Final = "_AMQ_ConsumerCount"
CONSUMER_NAME: Final = "_AMQ_ConsumerName"
DISTANCE: Final = "_AMQ_Distance"
FILTER: Final = "_AMQ_FilterString"
PROTOCOL_NAME: Final = "_AMQ_Protocol_Name"
REASON: Final = "_AMQ_Reason"
REMOTE_ADDRESS: Final = "_AMQ_RemoteAddress"
ROUTING_NAME: Final = "_AMQ_RoutingName"
ROUTING_TYPE: Final = "_AMQ_Routing_Type"
SESSION_NAME: Final = "_AMQ_SessionName"
USER: Final = "_AMQ_User"
VALIDATED_USER: Final = "_AMQ_ValidatedUser"
COUNT: Final = "artemis_py_Count"

NO_CERTIFICATE: Final = "unavailable"
"""What Artemis writes in place of the subject of a certificate."""

OWN_PREFIX: Final = "$artemis."
"""Beginning of the names of queues that services have for themselves."""

BY_REQUEST: Final = "HTTP"
"""Protocol of sessions that last for one request; nobody is told of them."""


@frozen
class Notification:
    """One thing to report."""

    type: str
    properties: Mapping[str, object]
    """Values are texts, numbers and truth values; None is left out."""
    address: str = ""
    """Name of the address that it is about; empty if it is about none."""
    binding: str = ""
    """Name of the queue or divert that it is about; empty if it is about none."""
    time_ms: int = field(default=0, kw_only=True)
    """Time of the event, in milliseconds since 1970."""


Maker = Callable[[Any], list[Notification]]
"""Returns what an event of one kind has to report, which may be nothing."""


class NotificationFacts:
    """Makes notifications of the events of one domain."""

    def __init__(self, domain: Domain, node_id: str) -> None:
        self._domain: Final = domain
        self._node_id: Final = node_id
        self.makers: Final[dict[type[Event], Maker]] = {
            BindingAdded: lambda event: self._binding("BINDING_ADDED", event),
            BindingRemoved: lambda event: self._binding("BINDING_REMOVED", event),
            BindingUpdated: lambda event: self._binding("BINDING_UPDATED", event),
            ConsumerOpened: self._consumer_opened,
            ConsumerClosed: self._consumer_closed,
            ConsumerSlow: self._consumer_slow,
            SessionOpened: self._session_opened,
            SessionClosed: self._session_closed,
            AddressAdded: self._address_added,
            AddressRemoved: self._address_removed,
            LoginFailed: _login_failed,
            Denied: _denied,
            AcceptorStarted: lambda event: _acceptor("ACCEPTOR_STARTED", event),
            AcceptorStopped: lambda event: _acceptor("ACCEPTOR_STOPPED", event),
            AddressIsFull: _address_is_full,
            AddressHasRoom: lambda event: [Notification("ADDRESS_HAS_ROOM", {ADDRESS: event.address}, event.address)],
            DiskChanged: _disk_changed,
            StoreFailed: lambda event: [Notification("STORE_FAILED", {REASON: event.reason})],
            Dropped: self._dropped,
            Unrouted: lambda event: [Notification("MESSAGE_UNROUTED", {ADDRESS: event.address}, event.address)],
            LimitReached: _limit_reached,
        }
        """One for each kind of event; other parts of the broker add theirs before anything is reported."""

    def of(self, event: Event) -> list[Notification]:
        """Return what an event has to report."""
        maker = self.makers.get(type(event))
        return [] if maker is None else maker(event)

    def _is_own(self, name: str) -> bool:
        """Tell whether the broker has an address or a queue of this name for itself."""
        domain = self._domain
        return name in domain.reserved or name.startswith((domain.options.internal_naming_prefix, OWN_PREFIX))

    # -- addresses and bindings --------------------------------------------------------------------------------

    def _binding(self, type: str, event: BindingAdded | BindingRemoved | BindingUpdated) -> list[Notification]:
        facts = event.facts
        if facts.is_internal or self._is_own(event.address):
            return []
        properties = {
            BINDING_TYPE: Int32(2 if facts.is_divert else 0),
            ADDRESS: event.address,
            CLUSTER_NAME: event.name + self._node_id,
            ROUTING_NAME: facts.routing_name,
            BINDING_ID: facts.id,
            DISTANCE: Int32(0),
            FILTER: facts.filter,
        }
        return [Notification(type, properties, event.address, event.name)]

    def _address_added(self, event: AddressAdded) -> list[Notification]:
        address = self._domain.addresses.get(event.name)
        if address is None or address.internal or self._is_own(event.name):
            return []
        properties = {ADDRESS: event.name, **_types(address.routing_types)}
        return [Notification("ADDRESS_ADDED", properties, event.name)]

    def _address_removed(self, event: AddressRemoved) -> list[Notification]:
        if self._is_own(event.name):
            return []
        properties = {ADDRESS: event.name, **_types(event.routing_types), REASON: event.reason}
        return [Notification("ADDRESS_REMOVED", properties, event.name)]

    def _dropped(self, event: Dropped) -> list[Notification]:
        queue = self._domain.queues.get(event.queue)
        address = None if queue is None else queue.address.name
        properties = {ROUTING_NAME: event.queue, ADDRESS: address, REASON: event.reason, COUNT: event.count}
        return [Notification("MESSAGES_DROPPED", properties, address or event.queue, event.queue)]

    # -- clients -----------------------------------------------------------------------------------------------

    def _consumer(self, event: ConsumerOpened | ConsumerClosed) -> dict[str, object]:
        client = event.client
        return {
            ADDRESS: event.address,
            CLUSTER_NAME: event.queue + self._node_id,
            ROUTING_NAME: event.queue,
            DISTANCE: Int32(0),
            CONSUMER_COUNT: Int32(event.count),
            USER: client.user,
            REMOTE_ADDRESS: client.peer,
            SESSION_NAME: str(event.session_id),
            CLIENT_ID: client.client_id or None,
            CONSUMER_NAME: event.id,
            FILTER: event.filter,
        }

    def _consumer_opened(self, event: ConsumerOpened) -> list[Notification]:
        if event.browse:
            return []
        more = {VALIDATED_USER: event.client.user, CERTIFICATE: event.client.certificate or NO_CERTIFICATE}
        return [Notification("CONSUMER_CREATED", self._consumer(event) | more, event.address, event.queue)]

    def _consumer_closed(self, event: ConsumerClosed) -> list[Notification]:
        if event.browse:
            return []
        properties = self._consumer(event) | {REASON: event.reason}
        return [Notification("CONSUMER_CLOSED", properties, event.address, event.queue)]

    def _consumer_slow(self, event: ConsumerSlow) -> list[Notification]:
        if event.is_disconnected:
            # As in Artemis: that its connection ends is reported instead, with the reason.
            return []
        properties = {
            CONSUMER_COUNT: Int32(event.count),
            ADDRESS: event.address,
            ROUTING_NAME: event.queue,
            REMOTE_ADDRESS: event.client.peer,
            CONNECTION_NAME: str(event.session_id),
            CONSUMER_NAME: event.id,
            SESSION_NAME: str(event.session_id),
            USER: event.client.user,
            CLIENT_ID: event.client.client_id or None,
            "artemis_py_Acknowledged": event.acknowledged,
            "artemis_py_SpanMillis": event.span_ms,
            "artemis_py_Demanded": event.demand,
        }
        return [Notification("CONSUMER_SLOW", properties, event.address, event.queue)]

    def _session_opened(self, event: SessionOpened) -> list[Notification]:
        if not _is_told(event.client):
            return []
        found = [Notification("CONNECTION_CREATED", _connection(event.id, event.client))]
        if not self._domain.options.suppress_session_notifications:
            found.append(Notification("SESSION_CREATED", self._session(event.id, event.client)))
        return found

    def _session_closed(self, event: SessionClosed) -> list[Notification]:
        if not _is_told(event.client):
            return []
        found = []
        if not self._domain.options.suppress_session_notifications:
            found.append(Notification("SESSION_CLOSED", self._session(event.id, event.client)))
        properties = _connection(event.id, event.client) | {REASON: event.reason}
        return [*found, Notification("CONNECTION_DESTROYED", properties)]

    def _session(self, id: int, client: ClientFacts) -> dict[str, object]:
        return {
            CONNECTION_NAME: str(id),
            USER: client.user,
            SESSION_NAME: str(id),
            CLIENT_ID: client.client_id or None,
            PROTOCOL_NAME: client.protocol,
            # It says so in Artemis, where clusters find it by that.
            ADDRESS: self._domain.options.management_notification_address,
            DISTANCE: Int32(0),
        }


def _is_told(client: ClientFacts) -> bool:
    return client.is_present and client.protocol != BY_REQUEST


def _connection(id: int, client: ClientFacts) -> dict[str, object]:
    """Return the properties of a connection. It has one session, and the number of that is what management knows."""
    return {
        CONNECTION_NAME: str(id),
        CERTIFICATE: client.certificate or NO_CERTIFICATE,
        REMOTE_ADDRESS: client.peer,
        USER: client.user,
        CLIENT_ID: client.client_id or None,
        PROTOCOL_NAME: client.protocol,
    }


def _types(routing_types: frozenset[RoutingType]) -> dict[str, object]:
    """Return the routing types of an address; Artemis names one of them."""
    types = sorted(routing_types)
    return {
        ROUTING_TYPE: Int8(types[0]) if types else None,
        "artemis_py_RoutingTypes": ",".join(each.name for each in types),
    }


def _login_failed(event: LoginFailed) -> list[Notification]:
    properties = {
        USER: event.user,
        CERTIFICATE: NO_CERTIFICATE,
        REMOTE_ADDRESS: event.peer,
        REASON: event.reason,
        "artemis_py_Mechanism": event.mechanism,
    }
    return [Notification("SECURITY_AUTHENTICATION_VIOLATION", properties)]


def _denied(event: Denied) -> list[Notification]:
    properties = {
        ADDRESS: event.address,
        ROUTING_NAME: event.queue,
        CHECK_TYPE: event.permission.name,
        USER: event.subject.user,
        REMOTE_ADDRESS: event.peer,
    }
    # It is not about the address: a client that may not hear notifications is reported as well.
    return [Notification("SECURITY_PERMISSION_VIOLATION", properties)]


def _acceptor(type: str, event: AcceptorStarted | AcceptorStopped) -> list[Notification]:
    return [Notification(type, {"name": event.name, "host": event.host, "port": Int32(event.port)})]


def _address_is_full(event: AddressIsFull) -> list[Notification]:
    properties = {
        ADDRESS: event.address,
        "artemis_py_Policy": event.policy,
        "artemis_py_Size": event.size_bytes,
    }
    return [Notification("ADDRESS_FULL", properties, event.address)]


def _disk_changed(event: DiskChanged) -> list[Notification]:
    return [Notification("DISK_FULL" if event.is_full else "DISK_OK", {"artemis_py_UsedPart": event.used_part})]


def _limit_reached(event: LimitReached) -> list[Notification]:
    return [Notification("LIMIT_REACHED", {REASON: event.text, REMOTE_ADDRESS: event.peer})]
