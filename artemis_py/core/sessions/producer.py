"""A producer: one client's right to send to one destination, and the count of messages that it sent there."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import parse_fqqn
from artemis_py.core.routing.routes import NO_TYPE
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.events import ProducerClosed, ProducerOpened
from artemis_py.core.sessions.inlet import AddressInlet, Endpoint, EndpointInlet, Inlet
from artemis_py.core.sessions.remote_inlet import RemoteInlet
from artemis_py.errors import NotAuthorized, Refusal

if TYPE_CHECKING:
    from artemis_py.core.sessions.session import Session


class Producer:
    """Sends to one address; the permission was checked when the producer was made."""

    __slots__ = ("_session", "id", "inlet", "messages_sent", "name", "queue_name")

    def __init__(self, session: "Session", name: str, queue_name: str, inlet: Inlet) -> None:
        self._session: Session = session
        self.name: str = name
        self.queue_name: str = queue_name
        self.inlet: Inlet = inlet
        """Inlet that takes its messages; a service may replace it by one of its own."""
        self.messages_sent: int = 0
        self.id: int = 0
        """Unique in this broker; 0 until it keeps its destination in use."""

    @property
    def address(self) -> Address | None:
        """The address as it was last found; None for an endpoint."""
        return self.inlet.address

    def prepare(self) -> Address | None:
        """Make sure that the destination exists; see `Inlet.prepare`."""
        return self.inlet.prepare()

    def hold(self) -> None:
        """Keep the address in use, so that it is not deleted, until `let_go` or the end of the session."""
        self.inlet.hold()
        session = self._session
        session.held_producers.add(self)
        if not self.id:
            self.id = session.domain.new_id()
        events = session.domain.events
        if events.wants(ProducerOpened):
            events.emit(ProducerOpened(self.id, self.name, session.id))

    def when_gone(self, call: Callable[[str], None]) -> None:
        """Run `call` with the reason when the destination is gone for good; see `Inlet.when_gone`."""
        self.inlet.when_gone(call)

    def let_go(self) -> None:
        """Undo `hold` and `when_gone`; harmless if they did not happen."""
        self.inlet.let_go()
        session = self._session
        if self in session.held_producers:
            session.held_producers.discard(self)
            events = session.domain.events
            if events.wants(ProducerClosed):
                events.emit(ProducerClosed(self.id, self.name, session.id))

    def send(self, message: Message, transaction: Transaction | None = None, duplicate_id: bytes = b"") -> int:
        """Send a message; return how many queues got it or will get it, 1 for a destination that is not a queue.

        Raises a kind of Refusal; the transaction of the message can then only be rolled back. `duplicate_id` is as in
        `Inlet.send`.
        """
        self.messages_sent += 1
        try:
            if self._session.validated is not None:
                self.name_user(message)
            return self.inlet.send(message, transaction, duplicate_id)
        except Refusal as refusal:
            if transaction is not None:
                transaction.fail(refusal)
            raise

    def name_user(self, message: Message) -> None:
        """Name the client's user on a message, if the broker does that; `send` does it. Raises NotAuthorized.

        Requests to the broker itself are left as they are: their permissions decide.
        """
        session = self._session
        if session.validated is not None and not isinstance(self.inlet, EndpointInlet):
            try:
                session.validated.put_on(message, session)
            except NotAuthorized:
                session.denied(Permission.SEND, self.name, self.queue_name or None)
                raise

    def refused(self) -> None:
        """Note that a message was refused before it was sent."""
        self.inlet.refused()

    @property
    def must_wait(self) -> bool:
        """Whether the client should get no more credit for now."""
        return self.inlet.must_wait

    def when_room(self, call: Callable[[], None]) -> None:
        """Run `call` once when `must_wait` may have become false."""
        self.inlet.when_room(call)


def open_producer(
    session: "Session",
    endpoints: dict[str, Endpoint],
    text: str,
    routing_type: RoutingType | None,
    new_type: RoutingType | None,
) -> Producer:
    """Open a producer and choose its inlet; see `Session.producer`."""
    domain = session.domain
    name, queue = parse_fqqn(text)
    if not name and queue:
        name = domain.queue(queue).address.name
    session.check(Permission.SEND, name, queue)
    session.check_reach(name)
    queue_name = queue or ""
    endpoint = endpoints.get(name)
    if endpoint is not None:
        return Producer(session, name, queue_name, EndpointInlet(session, name, endpoint))
    if name not in domain.addresses:
        remote = domain.temporary_names.find(name)
        if remote is not None:
            remote.check()
            return Producer(session, name, queue_name, RemoteInlet(domain, remote))
    is_new = routing_type is None and text not in domain.addresses
    wanted = new_type if is_new else routing_type
    inlet = AddressInlet(session, name, queue_name, NO_TYPE if wanted is None else int(wanted))
    inlet.prepare()
    if is_new:
        inlet.explicit_type = NO_TYPE
    return Producer(session, name, queue_name, inlet)
