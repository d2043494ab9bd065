"""An inlet takes a producer's messages: for an address, for one queue of it, or for something in their place.

Producers know only this class. Anything that takes messages in its own way (staging, an endpoint of the broker) is a
subclass that replaces the inlet of the address; nothing here has to know about it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from mypy_extensions import mypyc_attr

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message
from artemis_py.core.queues.dispatcher import ADDRESS_PARTS
from artemis_py.core.routing.destinations import find_destination
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.routes import NO_TYPE
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.access import Subject

if TYPE_CHECKING:
    from artemis_py.core.sessions.session import Session


class Endpoint(Protocol):
    """Takes everything that is sent to one address, in place of queues; clients talk to the broker itself this way."""

    def receive(self, message: Message, session: "Session") -> None:
        """Act on a message. Raises a Refusal if it is not accepted."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Inlet:
    """Takes the messages of one producer. Compiled code calls the methods of interpreted subclasses too."""

    def __init__(self) -> None:
        self.address: Address | None = None
        """The address of the messages, as it was last found; None if there is none."""

    def send(self, message: Message, transaction: Transaction | None, duplicate_id: bytes) -> int:
        """Take a message; return how many queues got it or will get it. Raises a kind of Refusal.

        `duplicate_id`, if there is one, comes from `duplicates.duplicate_id`; see `Domain.route_once`.
        """
        raise NotImplementedError

    def refused(self) -> None:
        """Note that a message of the producer was refused before it reached this inlet."""

    def prepare(self) -> Address | None:
        """Make sure that the address exists, creating it if allowed, and return it. Raises a kind of Refusal."""
        return None

    @property
    def must_wait(self) -> bool:
        """Whether the client should get no more credit for now."""
        return self.address is not None and self.address.must_wait

    def when_room(self, call: Callable[[], None]) -> None:
        """Run `call` once when `must_wait` may have become false."""
        if self.address is not None:
            self.address.when_room(call)

    def hold(self) -> None:
        """Keep the address in use until `let_go`, for as long as the client stays attached."""

    def when_gone(self, call: Callable[[str], None]) -> None:
        """Run `call` with the reason when the destination is deleted and is not made again for the next message.

        Until `let_go`. An address is made again if that is allowed, so nothing is called for it.
        """

    def let_go(self) -> None:
        """Undo `hold` and `when_gone`; harmless if they did not happen."""


class AddressInlet(Inlet):
    """Routes messages through an address, or to the one queue of it that an FQQN names."""

    def __init__(self, session: "Session", name: str, queue_name: str, explicit_type: int) -> None:
        super().__init__()
        self._session: Session = session
        self._domain: Domain = session.domain
        self.name: str = name
        self.queue_name: str = queue_name
        """Name of the one queue that gets the messages; empty: the address decides."""
        self.explicit_type: int = explicit_type
        """Routing type that the client asked for; NO_TYPE leaves the choice to the message and the address."""
        self._is_held: bool = False

    @property
    def subject(self) -> Subject:
        """The user with whose rights the address is created."""
        return self._session.subject

    def send(self, message: Message, transaction: Transaction | None, duplicate_id: bytes) -> int:
        """Route a message; create the address again if it is gone."""
        if self.explicit_type != NO_TYPE:
            message.routing_type = self.explicit_type
        address = self.address
        if address is None or address.is_deleted or (not address.bindings and message.routing_type != 0):
            address = self.prepare()
        if duplicate_id:
            return self._domain.route_once(message, address, self.queue_name, transaction, duplicate_id, self._session)
        return self._domain.route(message, address, self.queue_name, transaction, self._session)

    def prepare(self) -> Address:
        """Make sure that the address exists, and the queue if one is needed, creating them if allowed.

        Raises NoSuchAddress, NoSuchQueue, NotAuthorized, RoutingTypeMismatch, LimitExceeded.
        """
        session, domain = self._session, self._domain
        if self.name not in domain.addresses:
            domain.dispatcher.check_tables(f"address '{self.name}'", ADDRESS_PARTS)
        address = find_destination(domain, session, self.name, self.queue_name, self.explicit_type)
        if self._is_held and address is not self.address:
            if self.address is not None:
                self.address.producers -= 1
            address.producers += 1
        self.address = address
        return address

    def hold(self) -> None:
        """Count as a producer of the address."""
        if not self._is_held and self.address is not None:
            self._is_held = True
            self.address.producers += 1

    def let_go(self) -> None:
        """Stop counting as a producer of the address."""
        if self._is_held:
            self._is_held = False
            if self.address is not None:
                self.address.producers -= 1


class EndpointInlet(Inlet):
    """Hands messages to an endpoint of the broker."""

    def __init__(self, session: "Session", name: str, endpoint: Endpoint) -> None:
        super().__init__()
        self._session: Session = session
        self._name: str = name
        self._endpoint: Endpoint = endpoint

    def send(self, message: Message, transaction: Transaction | None, duplicate_id: bytes) -> int:
        """Have the endpoint act on a message at once, whatever becomes of the transaction."""
        message.address = self._name
        self._endpoint.receive(message, self._session)
        return 1
