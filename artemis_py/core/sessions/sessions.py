"""The open sessions of one domain, and the endpoints that clients reach through them."""

from collections.abc import Iterable
from typing import Final

from attrs import frozen

from artemis_py.core.addresses.address import Address
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import OpenAccess, Permission, Subject
from artemis_py.core.sessions.inlet import Endpoint
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.subscriptions import Subscription, delete_queue, ends
from artemis_py.errors import BrokerDrained, HostStopped, LimitExceeded, NotAuthorized


@frozen(kw_only=True)
class Totals:
    """Sums over all queues and addresses of a domain."""

    messages: int
    """Number of messages in queues now."""
    messages_in: int
    """Number of messages that were sent to addresses and exchanges since the start."""
    messages_out: int
    """Number of messages that were acknowledged since the start."""


class Sessions:
    """Opens sessions, and keeps a table of the open ones."""

    def __init__(self, domain: Domain) -> None:
        self.domain: Final = domain
        self.opened: Final[dict[int, Session]] = {}
        """Open sessions by id."""
        self.endpoints: Final[dict[str, Endpoint]] = {}
        """Endpoints that take messages in place of an address, by address."""
        self.closed_because: str | None = None
        """Why no client may connect; None as long as clients may."""
        self.is_drained: bool = False
        """Whether that is because the broker is being drained: those that operate it may connect then."""
        self.max_connections: int = -1
        """Clients that may be connected at a time; -1: no limit."""
        self.roles: frozenset[str] = frozenset()
        """Roles that may connect; empty: all users."""

    def check_entry(self, subject: Subject, is_operator: bool = False, replaced: Session | None = None) -> None:
        """Raise HostStopped, LimitExceeded or NotAuthorized if a client may not connect to this domain now.

        `is_operator`: the client says that it operates the broker. `replaced` is the session of an earlier connection
        of the same client, if there is one: it ends when the client is let in.
        """
        if self.closed_because is not None and not (is_operator and self.is_drained and self.may_manage(subject)):
            raise BrokerDrained(self.closed_because) if self.is_drained else HostStopped(self.closed_because)
        if self.roles and self.roles.isdisjoint(subject.roles) and not isinstance(self.domain.access, OpenAccess):
            raise NotAuthorized(f"user '{subject.name}' has none of the roles that may connect to this virtual host")
        if 0 <= self.max_connections <= len(self.opened):
            raise LimitExceeded(
                f"{len(self.opened)} clients are connected to this virtual host, and max-connections is "
                f"{self.max_connections}"
            )
        if not self._is_exempt(subject, is_operator):
            is_leaving = replaced is not None and replaced.is_counted and replaced.subject.user == subject.user
            self.domain.dispatcher.users.check_connection(subject.user, int(is_leaving))

    def _is_exempt(self, subject: Subject, is_operator: bool) -> bool:
        """Tell whether a client is not limited with its user: it operates the broker, perhaps to end the others."""
        return is_operator and self.may_manage(subject)

    def may_manage(self, subject: Subject) -> bool:
        """Tell whether a user has the permission to manage the broker."""
        domain = self.domain
        return domain.access.allows(subject, Permission.MANAGE, domain.options.management_address)

    def open(
        self,
        subject: Subject,
        client_id: str = "",
        peer: str = "",
        protocol: str = "",
        is_operator: bool = False,
        replaced: Session | None = None,
        certificate: str | None = None,
    ) -> Session:
        """Open a session with the rights of `subject`; `peer` is the client's network address, for the log.

        `certificate`: the distinguished name of its TLS certificate. Raises what `check_entry` raises.
        """
        self.check_entry(subject, is_operator, replaced)
        session = Session(self.domain, subject, client_id, peer, protocol, self.opened, self.endpoints, certificate)
        session.is_operator = is_operator
        if not self._is_exempt(subject, is_operator):
            session.is_counted = True
            self.domain.dispatcher.users.connected(subject.user)
        return session

    def open_for_absent(self, last_known: Subject, client_id: str, peer: str, protocol: str) -> Session:
        """Open a session for a client that is not connected, with the rights that its user has now."""
        subject = self.domain.subject_now(last_known)
        return Session(self.domain, subject, client_id, peer, protocol, self.opened, self.endpoints, is_present=False)

    def options_changed(self) -> None:
        """Have open sessions follow changed options of the domain."""
        for session in self.opened.values():
            session.options_changed()

    def open_for_broker(self, name: str, peer: str, protocol: str) -> Session:
        """Open a session for a connection that this broker made to another one.

        It may do everything but touch what is internal, and it stays while clients must leave. Messages that it sends
        have no user here.
        """
        session = Session(self.domain, Subject(None), name, peer, protocol, self.opened, self.endpoints)
        session.is_operator = session.is_trusted = True
        session.options_changed()
        return session

    def queues(self) -> Iterable[Queue]:
        """Return all queues; a protocol finds there what an earlier run left to it."""
        return self.domain.queues.values()

    def addresses(self) -> Iterable[Address]:
        """Return all addresses."""
        return self.domain.addresses.values()

    def find_queue(self, name: str) -> Queue | None:
        """Return the queue of this name, for a protocol that reports on queues."""
        return self.domain.queues.get(name)

    def find_address(self, name: str) -> Address | None:
        """Return the address of this name, for a protocol that reports on addresses."""
        return self.domain.addresses.get(name)

    def totals(self) -> Totals:
        """Return sums over all addresses, exchanges and queues."""
        queues = self.domain.queues.values()
        addresses = [*self.domain.addresses.values(), *[each.address for each in self.domain.exchanges]]
        return Totals(
            messages=sum(queue.message_count for queue in queues),
            messages_in=sum(address.routed + address.unrouted for address in addresses),
            messages_out=sum(queue.messages_acknowledged for queue in queues),
        )

    def set_user(self, queue: Queue, user: str) -> None:
        """Make a subscription without a user that of `user`, the first one that its client logs in as."""
        self.domain.update_queue(queue.name, {"user": user})

    def end_subscription(self, subscription: Subscription, reason: str) -> None:
        """End a subscription whose client is gone for good, on behalf of the broker: no permission is needed."""
        if ends(subscription, force=True):
            delete_queue(self.domain, subscription.queue, reason)

    def is_through_exchange(self, queue: Queue) -> bool:
        """Tell whether a queue collects for a subscriber of an exchange, not of its address."""
        return self.domain.exchanges.subscribed(queue) is not None

    def register_endpoint(self, address: str, endpoint: Endpoint) -> None:
        """Have `endpoint` take everything that is sent to `address`."""
        self.endpoints[address] = endpoint
