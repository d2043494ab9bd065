"""Temporary resources: addresses, queues and exchanges that live as long as the session they were made for."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from artemis_py.core.addresses.address import Address
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.dispatcher import QUEUE_PARTS, RESERVE_PARTS
from artemis_py.core.queues.queue import Queue, queues_of
from artemis_py.core.routing.creations import creator_of
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.exchanges.exchange import Exchange
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.background import SLICE_UNITS, Steps
from artemis_py.core.settings.queue_config import QueueConfig

if TYPE_CHECKING:
    from artemis_py.core.sessions.session import Session


class TemporaryResources:
    """Addresses and queues that are deleted with one session."""

    def __init__(self, domain: Domain) -> None:
        # The session is not kept here: it refers to this object, and only the garbage collector would free the two.
        self._domain: Domain = domain
        self._queues: dict[str, Queue] = {}
        self._addresses: dict[str, Address] = {}
        self._exchanges: dict[Exchange, None] = {}

    @property
    def parts(self) -> int:
        """Parts of the memory for tables that the next of them may fill; the first of a session may use the reserve."""
        return QUEUE_PARTS if self._queues else RESERVE_PARTS

    def create_queue(
        self,
        session: "Session",
        routing_type: RoutingType,
        address: str | None,
        filter: str | None,
        ring_size: int | None = None,
        name: str | None = None,
    ) -> Queue:
        """Create a queue, with a random name if none is given, on an address of its own or a given one."""
        if name is None:
            domain = self._domain
            name = domain.temporary_names.new() if address is None else domain.entropy.uuid()
        if address is None:
            session.check_creations(0, is_queue=True)
            self.create_address(session, routing_type, name)
            address = name
        config = QueueConfig(
            name=name,
            address=address,
            routing_type=routing_type,
            durable=False,
            filter=filter,
            temporary=True,
            max_consumers=-1,
            ring_size=ring_size,
            creator=creator_of(session.subject),
        )
        queue = session.create_queue(config)
        queue.owner = session
        self._queues[name] = queue
        return queue

    def create_address(self, session: "Session", routing_type: RoutingType, name: str | None) -> Address:
        """Create an address, with a random name if none is given."""
        if name is None:
            name = self._domain.temporary_names.new()
        else:
            self._domain.temporary_names.check_free(name, session.subject.user)
        session.check(Permission.CREATE_ADDRESS, name)
        session.check_reach(name)
        self._domain.dispatcher.check_tables(f"temporary address '{name}'", self.parts)
        address = self._domain.create_address(name, frozenset((routing_type,)), auto_created=True, temporary=True)
        address.owner = session
        self._addresses[name] = address
        return address

    def keep_exchange(self, exchange: Exchange) -> None:
        """Have an exchange deleted with the session."""
        self._exchanges[exchange] = None

    def forget(self, name: str) -> None:
        """Leave the deletion of a queue or address to the caller; harmless if it does not belong to this session."""
        self._queues.pop(name, None)
        self._addresses.pop(name, None)

    def node(self, address: Address) -> "TemporaryNode":
        """Return an address that was created here, for a protocol that decides on its lifetime."""
        return TemporaryNode(self._domain, self, address)

    def _delete(self, name: str) -> None:
        queue = self._queues.pop(name, None)
        if queue is not None and not queue.is_deleted:
            self._domain.delete_queue(name, force=True, reason="temporary")
        address = self._addresses.pop(name, None)
        if address is not None and not address.is_deleted:
            self._domain.delete_address(name, force=True, reason="temporary")

    def delete_all(self) -> Steps:
        """Delete all of them, in slices: other clients may have any number of subscriptions on a temporary address."""
        meter = self._domain.meter
        end = meter.work + SLICE_UNITS
        for name in [*self._queues, *self._addresses]:
            address = self._addresses.get(name)
            if address is not None:
                for queue in queues_of(address):
                    if not queue.is_deleted:
                        self._domain.delete_queue(queue.name, force=True, reason="temporary")
                    if meter.work >= end:
                        yield None
                        end = meter.work + SLICE_UNITS
            self._delete(name)
            if meter.work >= end:
                yield None
                end = meter.work + SLICE_UNITS
        for exchange in list(self._exchanges):
            self._domain.exchanges.delete(exchange, force=True, reason="its session ended")
            if meter.work >= end:
                yield None
                end = meter.work + SLICE_UNITS
        return None


class TemporaryNode:
    """A temporary address with its queues, whose lifetime a protocol decides: it may outlive the session."""

    def __init__(self, domain: Domain, resources: TemporaryResources, address: Address) -> None:
        self._domain: Domain = domain
        self._resources: TemporaryResources = resources
        self._address: Address = address
        self.name: str = address.name

    @property
    def is_empty(self) -> bool:
        """Whether there are no messages, including those that an open transaction would add or has consumed."""
        address = self._address
        if address.is_deleted:
            return True
        # The queues do not count what is in an open transaction; the account of the address does.
        return address.account.message_count == 0 and not any(queue.message_count for queue in queues_of(address))

    @property
    def has_consumers(self) -> bool:
        """Whether anybody consumes from it."""
        return not self._address.is_deleted and any(queue.consumers for queue in queues_of(self._address))

    def when_emptied(self, call: Callable[[str], None]) -> None:
        """Have `call` told the name whenever the last message is gone; it must not delete anything in that call."""
        self._address.emptied = call

    def outlive_session(self) -> None:
        """Keep the node beyond the end of its session, until `delete`."""
        for queue in queues_of(self._address):
            self._resources.forget(queue.name)
        self._resources.forget(self.name)

    def open_to_all(self) -> None:
        """Let the clients of other sessions use the node too, as far as their permissions go."""
        address = self._address
        owner, address.owner = address.owner, None
        for queue in queues_of(address):
            if queue.owner is owner:
                queue.owner = None

    def delete(self, reason: str) -> None:
        """Delete the address with its queues; do nothing if it is gone."""
        self._resources.forget(self.name)
        if not self._address.is_deleted:
            self._domain.delete_address(self.name, force=True, reason=reason)
