"""Finds the resources of management by name: what messages and HTTP requests are about."""

from typing import Final

from artemis_py.core.services.services import Services
from artemis_py.core.services.virtual_hosts import VirtualHosts
from artemis_py.core.sessions.session import Session
from artemis_py.errors import InvalidRequest
from artemis_py.management.acceptor_control import AcceptorControl
from artemis_py.management.address_control import AddressControl
from artemis_py.management.broker_control import BrokerControl
from artemis_py.management.cluster_control import find_cluster
from artemis_py.management.control import Control, proposal
from artemis_py.management.divert_control import DivertControl, find_divert
from artemis_py.management.exchange_control import ExchangeControl, find_exchange
from artemis_py.management.facts import BrokerFacts
from artemis_py.management.queue_control import QueueControl
from artemis_py.management.reader_control import READER, ReaderControl
from artemis_py.management.virtual_host_control import VirtualHostControl, find_host
from artemis_py.management.writer_control import WRITER, WriterControl


class Resources:
    """The resources of one domain."""

    def __init__(self, services: Services, facts: BrokerFacts, hosts: VirtualHosts | None = None) -> None:
        """Create it for one domain; `hosts` only for the default one, where the others are administered."""
        self._services: Final = services
        self._facts: Final = facts
        self._hosts: Final = hosts

    def find(self, resource: str, session: Session) -> Control:
        """Return the control of a resource such as `queue.orders`, for one request of a session.

        Raises InvalidRequest, NoSuchQueue or NoSuchAddress if there is none of this name, with similar names.
        """
        kind, _, name = resource.partition(".")
        services = self._services
        broker = BrokerControl(services, self._facts, session, self._hosts)
        if resource == "broker":
            return broker
        if resource == READER:
            return ReaderControl(services.sessions.domain, self._facts, services.leases, session)
        if resource == WRITER:
            return WriterControl(services.staging, session)
        if kind == "address" and name:
            return AddressControl(broker.find_address(name), session)
        if kind == "queue" and name:
            return QueueControl(broker.find_queue(name), session)
        if kind == "divert" and name:
            return DivertControl(find_divert(broker, name), broker.domain.options.internal_naming_prefix)
        if kind == "exchange" and name:
            return ExchangeControl(find_exchange(broker, name))
        if kind == "virtualhost" and name:
            return VirtualHostControl(find_host(broker, name))
        if kind == "acceptor" and name:
            acceptors = {acceptor.name: acceptor for acceptor in self._facts.acceptors()}
            if name not in acceptors:
                raise InvalidRequest(f"acceptor {name!r} does not exist{proposal(name, acceptors)}")
            return AcceptorControl(acceptors[name])
        if kind == "cluster-connection" and name:
            return find_cluster(broker, name)
        raise InvalidRequest(
            f"resource {resource[:200]!r} is unknown; it is broker, reader, writer, address.<name>, queue.<name>, "
            "divert.<name>, exchange.<name>, virtualhost.<name>, acceptor.<name> or cluster-connection.<name>"
        )
