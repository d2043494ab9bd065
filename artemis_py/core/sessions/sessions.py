"""The open sessions of one domain, and the endpoints that clients reach through them."""

from typing import Final

from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Subject
from artemis_py.core.sessions.inlet import Endpoint
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.subscriptions import Subscription, goes


class Sessions:
    """Opens sessions, and keeps a table of the open ones."""

    def __init__(self, postoffice: Domain) -> None:
        self.postoffice: Final = postoffice
        self.opened: Final[dict[int, Session]] = {}
        """Open sessions by id."""
        self.endpoints: Final[dict[str, Endpoint]] = {}
        """Endpoints that take messages in place of an address, by address."""

    def open(self, subject: Subject, client_id: str = "", peer: str = "", protocol: str = "") -> Session:
        """Open a session with the rights of `subject`; `peer` is the client's network address, for the log."""
        return Session(self.postoffice, subject, client_id, peer, protocol, self.opened, self.endpoints)

    def end_subscription(self, subscription: Subscription, reason: str) -> None:
        """End a subscription whose client is gone for good, on behalf of the broker: no permission is needed."""
        if goes(subscription, force=True):
            self.postoffice.delete_queue(subscription.queue.name, force=True, reason=reason)

    def register_endpoint(self, address: str, endpoint: Endpoint) -> None:
        """Have `endpoint` take everything that is sent to `address`."""
        self.endpoints[address] = endpoint
