"""Management of the broker itself: the resource `broker`."""

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from artemis_py.core.addresses.address import Address
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue, queues_of
from artemis_py.core.routing.divert import Divert
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.background import Steps
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.services.services import Services
from artemis_py.core.services.virtual_hosts import VirtualHosts
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import InvalidRequest, LimitExceeded, NoSuchAddress, NoSuchQueue, QueueExists
from artemis_py.management.address_control import routing_types
from artemis_py.management.branch_control import BRANCH_OPERATIONS
from artemis_py.management.broker_connection_control import CONNECTION_OPERATIONS as BROKER_CONNECTION_OPERATIONS
from artemis_py.management.broker_connection_control import connection_names
from artemis_py.management.broker_lists import LIST_OPERATIONS, QUEUE_COLUMNS, Attached
from artemis_py.management.broker_totals import ADDRESS_TOTALS, QUEUE_TOTALS, total
from artemis_py.management.connection_control import CONNECTION_OPERATIONS
from artemis_py.management.control import MAX_NAMES, Control, Kind, Operation, Parameter, Row, bounded_names, edit, view
from artemis_py.management.divert_control import OPERATIONS, divert_names
from artemis_py.management.exchange_control import EXCHANGE_OPERATIONS
from artemis_py.management.facts import BrokerFacts
from artemis_py.management.listing import SLICE_ITEMS
from artemis_py.management.mesh_control import MESH_OPERATIONS, cluster_names, stranded
from artemis_py.management.queue_attributes import filter_text
from artemis_py.management.queue_request import (
    AUTO_CREATE_ADDRESS,
    parse_routing_type,
    queue_changes,
    queue_config,
)
from artemis_py.management.settings_control import SETTINGS_OPERATIONS
from artemis_py.management.token_control import TOKEN_OPERATIONS
from artemis_py.management.virtual_host_control import HOST_OPERATIONS, host_names

NAME = Parameter("name", Kind.TEXT)
ADDRESS = Parameter("address", Kind.TEXT)
ROUTING_TYPE = Parameter("routingType", Kind.TEXT)
ROUTING_TYPES = Parameter("routingTypes", Kind.TEXTS)
FILTER = Parameter("filter", Kind.TEXT_OR_NULL)
DURABLE = Parameter("durable", Kind.FLAG)
FORCE = Parameter("force", Kind.FLAG)
QUEUE = Parameter("queue", Kind.OBJECT)


class BrokerControl(Control):
    """The broker, for the duration of one request."""

    def __init__(
        self, services: Services, facts: BrokerFacts, session: Session, hosts: VirtualHosts | None = None
    ) -> None:
        """Create it for one domain; `hosts` only for the default one, whose managers administer the others."""
        super().__init__("broker")
        self.services = services
        self.hosts = hosts
        self.diverts = services.diverts
        self.branches = services.branches
        self.sessions: Sessions = services.sessions
        self.domain: Domain = services.sessions.domain
        self.facts = facts
        self.session = session

    # Reading.

    def uptime_ms(self) -> int:
        """Return the milliseconds since the start."""
        return max(0, self.domain.dispatcher.steady_ms - self.facts.started_steady_ms)

    def uptime(self) -> str:
        """Return the time since the start, in words."""
        minutes, seconds = divmod(self.uptime_ms() // 1000, 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        parts = ((days, "days"), (hours, "hours"), (minutes, "minutes"), (seconds, "seconds"))
        return " ".join(f"{count} {unit}" for count, unit in parts if count) or "0 seconds"

    def address_names(self) -> list[str]:
        """Return the names of all addresses, sorted. Raises LimitExceeded beyond MAX_NAMES."""
        return self.seen_names("address", bounded_names(self.domain.addresses, "listAddresses"))

    def queue_names(self, routing_type: str | None = None) -> list[str]:
        """Return the names of all queues, or of one routing type, sorted. Raises LimitExceeded beyond MAX_NAMES."""
        wanted = parse_routing_type(routing_type) if routing_type else None
        queues = self.domain.queues.values()
        names = [queue.name for queue in queues if wanted is None or queue.routing_type == wanted]
        return self.seen_names("queue", bounded_names(names, "listQueues"))

    def acceptor_names(self) -> list[str]:
        """Return the names of all acceptors that listen."""
        return self.seen_names("acceptor", [acceptor.name for acceptor in self.facts.acceptors()])

    def consumers(self) -> list[Attached]:
        """Return every consumer of every session."""
        sessions = self.sessions.opened.values()
        return [Attached(session, consumer) for session in sessions for consumer in session.consumers.values()]

    def no_such_address(self, name: str) -> NoSuchAddress:
        """Return the refusal of an address that does not exist; it proposes similar names."""
        near = self.proposed("address", name, self.domain.addresses)
        return NoSuchAddress(f"address '{name}' does not exist{near}")

    def no_such_queue(self, name: str) -> NoSuchQueue:
        """Return the refusal of a queue that does not exist; it proposes similar names."""
        return NoSuchQueue(f"queue '{name}' does not exist{self.proposed('queue', name, self.domain.queues)}")

    def find_address(self, name: str) -> Address:
        """Return an address. Raises NoSuchAddress."""
        address = self.domain.addresses.get(name)
        if address is None:
            raise self.no_such_address(name)
        return address

    def find_queue(self, name: str) -> Queue:
        """Return a queue. Raises NoSuchQueue."""
        queue = self.domain.find_queue(name)
        if queue is None:
            raise self.no_such_queue(name)
        return queue

    def show_address(self, name: str) -> str:
        """Return a line of text that describes an address that the client may know of. Raises NoSuchAddress."""
        if not self.sees("address", name):
            raise self.no_such_address(name)
        return self.address_info(name)

    def address_info(self, name: str) -> str:
        """Return a line of text that describes an address. Raises NoSuchAddress."""
        address = self.find_address(name)
        return f"Address [name={name}, routingTypes={{{','.join(routing_types(address))}}}]"

    def bindings(self, name: str) -> str:
        """Return a line for each queue, divert and history of an address. Raises LimitExceeded beyond MAX_NAMES."""
        if not self.sees("address", name):
            raise self.no_such_address(name)
        address = self.find_address(name)
        queue_is_seen, divert_is_seen = self.seen("queue"), self.seen("divert")
        if len(address.bindings) > MAX_NAMES:
            raise LimitExceeded(f"more than {MAX_NAMES} bindings: use listQueues and listDiverts, which have pages")
        queues = [
            f"Queue [name={queue.name}, routingType={queue.routing_type.name}, filter={filter_text(queue)}]"
            for queue in queues_of(address)
            if queue_is_seen is None or queue_is_seen(queue.name)
        ]
        diverts = [
            f"Divert [name={divert.name}, forwardingAddress={divert.config.forwarding_address}, "
            f"exclusive={divert.supersedes}, filter={divert.config.filter}]"
            for divert in address.bindings
            if isinstance(divert, Divert) and (divert_is_seen is None or divert_is_seen(divert.name))
        ]
        histories = [f"History [name={each.name}]" for each in address.accessories]
        return "\n".join(queues + diverts + histories)

    def _values(self, wanted: Mapping[str, Callable[[Any], object]]) -> Steps:
        """Return the values of attributes by the names that were given, in slices: some are sums over all queues."""
        asked = {name: name[:1].upper() + name[1:] for name in wanted}
        totals = {name: 0 for name, attribute in asked.items() if attribute in QUEUE_TOTALS | ADDRESS_TOTALS}
        for counters, items in (
            (QUEUE_TOTALS, list(self.domain.queues.values())),
            (ADDRESS_TOTALS, list(self.domain.addresses.values())),
        ):
            summed = [(name, counters[asked[name]]) for name in totals if asked[name] in counters]
            for start in range(0, len(items) if summed else 0, SLICE_ITEMS):
                yield None
                some = items[start : start + SLICE_ITEMS]
                for name, counter in summed:
                    totals[name] += sum(map(counter, some))
        return {name: totals[name] if name in totals else attribute(self) for name, attribute in wanted.items()}

    # Changing.

    def create_address(self, name: str, routing_type_names: list[str]) -> str:
        """Create an address; return its line of text."""
        self.session.create_address(name, _routing_types(routing_type_names))
        return self.address_info(name)

    def update_address(self, name: str, routing_type_names: list[str]) -> str:
        """Set the routing types of an address to exactly these; return its line of text."""
        self.find_address(name)
        self.session.update_address(name, _routing_types(routing_type_names))
        return self.address_info(name)

    def delete_address(self, name: str, force: bool = False) -> None:
        """Delete an address, with its queues if `force`."""
        self.find_address(name)
        self.session.delete_address(name, force)

    def create_queue_from(self, wanted: Mapping[str, object], ignore_if_exists: bool = False) -> str:
        """Create the queue that a JSON object describes; return the resulting queue as JSON text."""
        auto_create_address = wanted.get(AUTO_CREATE_ADDRESS)
        if auto_create_address not in (None, True, False):
            raise InvalidRequest(f"attribute {AUTO_CREATE_ADDRESS!r} must be {Kind.FLAG.value}")
        config = queue_config(wanted)
        if ignore_if_exists and config.name in self.domain.queues:
            return self.describe_queue(config.name)
        return self.create_queue(config, auto_create_address is not False)

    def create_queue(self, config: QueueConfig, auto_create_address: bool = True) -> str:
        """Create a queue, and its address if that may be created; return the resulting queue as JSON text."""
        if auto_create_address and config.address not in self.domain.addresses:
            self._create_address_for(config)
        self.session.create_queue(config)
        return self.describe_queue(config.name)

    def _create_address_for(self, config: QueueConfig) -> None:
        """Create the address of a new queue, after checking that the queue can be created too."""
        existing = self.domain.queues.get(config.name)
        if existing is not None:
            raise QueueExists(f"queue '{config.name}' exists already, on address '{existing.address.name}'")
        if config.filter:
            parse_filter(config.filter)
        routing_type = config.routing_type
        if routing_type is None:
            routing_type = self.domain.settings.resolve(config.address).default_queue_routing_type
        permission = Permission.CREATE_DURABLE_QUEUE if config.durable else Permission.CREATE_NON_DURABLE_QUEUE
        self.session.check(permission, config.address, config.name)
        self.session.create_address(config.address, frozenset((routing_type,)))

    def create_queue_by_position(
        self,
        address: str,
        name: str,
        filter: str | None = None,
        durable: bool = True,
        routing_type: str | None = None,
    ) -> str:
        """Create a queue: the short forms of `createQueue`."""
        config = QueueConfig(
            name=name,
            address=address,
            filter=filter or None,
            durable=durable,
            routing_type=None if routing_type is None else parse_routing_type(routing_type),
        )
        return self.create_queue(config)

    def create_queue_in_full(
        self,
        address: str,
        routing_type: str,
        name: str,
        filter: str | None,
        durable: bool,
        max_consumers: int,
        purge_on_no_consumers: bool,
        auto_create_address: bool,
    ) -> str:
        """Create a queue: the form of `createQueue` with eight parameters."""
        config = QueueConfig(
            name=name,
            address=address,
            filter=filter or None,
            durable=durable,
            routing_type=parse_routing_type(routing_type),
            max_consumers=max_consumers,
            purge_on_no_consumers=purge_on_no_consumers,
        )
        return self.create_queue(config, auto_create_address)

    def update_queue(self, wanted: Mapping[str, object]) -> str:
        """Change the attributes that a JSON object names; return the resulting queue as JSON text."""
        name, changes = queue_changes(wanted)
        self.find_queue(name)
        self.session.update_queue(name, changes)
        return self.describe_queue(name)

    def destroy_queue(self, name: str, remove_consumers: bool = False, auto_delete_address: bool = False) -> None:
        """Delete a queue with its messages and, if asked to, its auto-created address if no queue is left on it.

        What an exchange needs as its alternate stays, whether consumers are to be removed or not.
        """
        queue = self.find_queue(name)
        address = queue.address
        self.session.check_delete(queue)
        self.domain.check_queue_removal(queue)
        self.session.delete_queue(name, remove_consumers)
        if auto_delete_address and address.auto_created and address.is_unbound and not address.is_deleted:
            self.session.delete_address(address.name)

    def describe_queue(self, name: str) -> str:
        """Return a queue as a row of `listQueues`, in JSON text."""
        queue = self.find_queue(name)
        return json.dumps({column: value(queue) for column, value in QUEUE_COLUMNS.items()}, ensure_ascii=False)

    attributes: ClassVar = {
        "Name": lambda control: control.domain.options.name,
        "Version": lambda control: control.facts.version,
        "NodeID": lambda control: control.facts.node_id,
        "Uptime": uptime,
        "UptimeMillis": uptime_ms,
        "AddressNames": address_names,
        "QueueNames": queue_names,
        "DivertNames": divert_names,
        "VirtualHostNames": host_names,
        "AddressCount": lambda control: len(control.domain.addresses),
        "QueueCount": lambda control: len(control.domain.queues),
        **{name: total(name) for name in QUEUE_TOTALS},
        "TotalMessagesDiscarded": lambda control: control.domain.discards.count,
        "AddressMemoryUsage": lambda control: control.domain.account.size_bytes,
        **{name: total(name) for name in ADDRESS_TOTALS},
        "ConnectionCount": lambda control: len(control.sessions.opened),
        "StrandedMessageCount": stranded,
        "DiskStoreUsage": lambda control: control.facts.disk_usage(),
        "ClusterConnectionNames": cluster_names,
        "BrokerConnectionNames": connection_names,
        "AcceptorNames": acceptor_names,
    }

    operations: ClassVar[Mapping[str, Row]] = {
        "getQueueNames": view(Operation(queue_names), Operation(queue_names, ROUTING_TYPE)),
        "getAddressInfo": view(Operation(show_address, ADDRESS)),
        "listBindingsForAddress": view(Operation(bindings, ADDRESS)),
        **LIST_OPERATIONS,
        **MESH_OPERATIONS,
        **BROKER_CONNECTION_OPERATIONS,
        **OPERATIONS,
        **EXCHANGE_OPERATIONS,
        **HOST_OPERATIONS,
        **BRANCH_OPERATIONS,
        **CONNECTION_OPERATIONS,
        **SETTINGS_OPERATIONS,
        **TOKEN_OPERATIONS,
        "createAddress": edit(Operation(create_address, NAME, ROUTING_TYPES)),
        "updateAddress": edit(Operation(update_address, NAME, ROUTING_TYPES)),
        "deleteAddress": edit(Operation(delete_address, NAME), Operation(delete_address, NAME, FORCE)),
        "createQueue": edit(
            Operation(create_queue_from, QUEUE),
            Operation(create_queue_from, QUEUE, Parameter("ignoreIfExists", Kind.FLAG)),
            Operation(create_queue_by_position, ADDRESS, NAME),
            Operation(
                lambda control, address, name, routing_type: control.create_queue_by_position(
                    address, name, routing_type=routing_type
                ),
                ADDRESS,
                NAME,
                ROUTING_TYPE,
            ),
            Operation(
                lambda control, address, name, durable: control.create_queue_by_position(
                    address, name, durable=durable
                ),
                ADDRESS,
                NAME,
                DURABLE,
            ),
            Operation(
                lambda control, address, name, durable, routing_type: control.create_queue_by_position(
                    address, name, durable=durable, routing_type=routing_type
                ),
                ADDRESS,
                NAME,
                DURABLE,
                ROUTING_TYPE,
            ),
            Operation(create_queue_by_position, ADDRESS, NAME, FILTER, DURABLE),
            Operation(create_queue_by_position, ADDRESS, NAME, FILTER, DURABLE, ROUTING_TYPE),
            Operation(
                create_queue_in_full,
                ADDRESS,
                ROUTING_TYPE,
                NAME,
                FILTER,
                DURABLE,
                Parameter("maxConsumers", Kind.NUMBER),
                Parameter("purgeOnNoConsumers", Kind.FLAG),
                Parameter("autoCreateAddress", Kind.FLAG),
            ),
        ),
        "updateQueue": edit(Operation(update_queue, QUEUE)),
        "destroyQueue": edit(
            Operation(destroy_queue, NAME),
            Operation(destroy_queue, NAME, Parameter("removeConsumers", Kind.FLAG)),
            Operation(
                destroy_queue,
                NAME,
                Parameter("removeConsumers", Kind.FLAG),
                Parameter("autoDeleteAddress", Kind.FLAG),
            ),
        ),
    }


def _routing_types(names: list[str]) -> frozenset[RoutingType]:
    if not names:
        raise InvalidRequest("an address needs a routing type: ANYCAST, MULTICAST, or both")
    return frozenset(parse_routing_type(name) for name in names)
