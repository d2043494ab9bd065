"""Finds the resources of management by name: what messages and HTTP requests are about."""

from collections.abc import Callable
from functools import partial
from typing import Final

from artemis_py.core.services.services import Services
from artemis_py.core.services.virtual_hosts import VirtualHosts
from artemis_py.core.sessions.session import Session
from artemis_py.errors import InvalidRequest, Refusal
from artemis_py.management.acceptor_control import AcceptorControl
from artemis_py.management.address_control import AddressControl
from artemis_py.management.broker_connection_control import find_connection, no_such_connection
from artemis_py.management.broker_control import BrokerControl
from artemis_py.management.cluster_control import find_cluster, no_such_cluster
from artemis_py.management.control import Control, NoSuchResource
from artemis_py.management.divert_control import DivertControl, find_divert, no_such_divert
from artemis_py.management.exchange_control import ExchangeControl, find_exchange, no_such_exchange
from artemis_py.management.facts import BrokerFacts
from artemis_py.management.queue_control import QueueControl
from artemis_py.management.reader_control import READER, ReaderControl
from artemis_py.management.rights import Rights
from artemis_py.management.virtual_host_control import VirtualHostControl, find_host, no_such_host
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

        It has the rights of the session. Raises InvalidRequest, NoSuchQueue or NoSuchAddress if there is none of this
        name, with similar names; for one that the session may not know of, its reads and calls raise the same.
        """
        services = self._services
        rights = Rights(session)
        broker = BrokerControl(services, self._facts, session, self._hosts)
        broker.guard(rights)
        if resource == "broker":
            return broker
        if resource == READER:
            return ReaderControl(services.sessions.domain, self._facts, services.leases, session)
        if resource == WRITER:
            return WriterControl(services.staging, session)
        kind, _, name = resource.partition(".")
        if name and kind in _KINDS:
            find, missing = _KINDS[kind]
            return find(broker, name).guard(rights, partial(missing, broker, name))
        raise InvalidRequest(
            f"resource {resource[:200]!r} is unknown; it is broker, reader, writer, "
            f"{', '.join(f'{kind}.<name>' for kind in [*_KINDS][:-1])} or {[*_KINDS][-1]}.<name>"
        )


def _acceptor(broker: BrokerControl, name: str) -> AcceptorControl:
    for acceptor in broker.facts.acceptors():
        if acceptor.name == name:
            return AcceptorControl(acceptor)
    raise _no_such_acceptor(broker, name)


def _no_such_acceptor(broker: BrokerControl, name: str) -> NoSuchResource:
    near = broker.proposed("acceptor", name, [acceptor.name for acceptor in broker.facts.acceptors()])
    return NoSuchResource(f"acceptor {name!r} does not exist{near}")


_KINDS: Final[dict[str, tuple[Callable[[BrokerControl, str], Control], Callable[[BrokerControl, str], Refusal]]]] = {
    "address": (
        lambda broker, name: AddressControl(broker.find_address(name), broker.session),
        BrokerControl.no_such_address,
    ),
    "queue": (lambda broker, name: QueueControl(broker.find_queue(name), broker.session), BrokerControl.no_such_queue),
    "divert": (
        lambda broker, name: DivertControl(find_divert(broker, name), broker.domain.options.internal_naming_prefix),
        no_such_divert,
    ),
    "exchange": (lambda broker, name: ExchangeControl(find_exchange(broker, name)), no_such_exchange),
    "virtualhost": (lambda broker, name: VirtualHostControl(find_host(broker, name)), no_such_host),
    "acceptor": (_acceptor, _no_such_acceptor),
    "cluster-connection": (find_cluster, no_such_cluster),
    "brokerconnection": (find_connection, no_such_connection),
}
"""How resources of a kind are found by their names, and what is said of one that does not exist."""
