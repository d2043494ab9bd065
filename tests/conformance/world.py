"""A core without protocol or socket: clients with inboxes, and a clock that the test moves."""

from typing import Any, Final

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import MatchHierarchy, WildcardSyntax
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, REJECTED, RELEASED, Consumer, Sink
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import AccessControl, OpenAccess, Subject
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.services.services import Services
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.store.memory import MemoryStore
from tests.core_harness import browse_all

ANYCAST: Final = RoutingType.ANYCAST
MULTICAST: Final = RoutingType.MULTICAST
NOW_MS: Final = 1_700_000_000_000


class Inbox(Sink):
    """A consumer's sink: keeps what it gets until the test settles it."""

    def __init__(self) -> None:
        self.references: list[Reference] = []
        self.consumer: Consumer | None = None

    def deliver(self, reference: Reference) -> None:
        self.references.append(reference)

    def drained(self) -> None: ...

    def ended(self, reason: str) -> None: ...

    @property
    def bodies(self) -> list[object]:
        """Bodies of what it has."""
        return [reference.message.view.body for reference in self.references]

    def settle(self, outcome: int) -> None:
        """End the oldest delivery it has."""
        assert self.consumer is not None
        self.consumer.settle(self.references.pop(0), outcome)

    def accept(self) -> None:
        self.settle(ACCEPTED)

    def release(self) -> None:
        self.settle(RELEASED)

    def fail(self) -> None:
        self.settle(FAILED)

    def reject(self) -> None:
        self.settle(REJECTED)


class World:
    """A domain, one session with all rights, and time."""

    def __init__(
        self,
        settings: dict[str, AddressSettings] | None = None,
        options: BrokerSettings | None = None,
        access: AccessControl | None = None,
    ) -> None:
        hierarchy = MatchHierarchy[AddressSettings](WildcardSyntax())
        for match, values in (settings or {}).items():
            hierarchy.add(match, values)
        options = options or BrokerSettings()
        dispatcher = Dispatcher(MemoryStore(), options=options)
        self.domain: Final = Domain(SettingsRepository(hierarchy), dispatcher, options, access or OpenAccess())
        self.domain.dispatcher.now_ms = NOW_MS
        self.services: Final = Services(Sessions(self.domain))
        self.reaper: Final = self.services.reaper
        self.session: Final = self.login("tester")

    def login(self, user: str, *roles: str) -> Session:
        """A session of a user."""
        return self.services.sessions.open(Subject(user, frozenset(roles)), f"client-{user}")

    def address(self, name: str, *types: RoutingType, auto_created: bool = False) -> None:
        """Create an address."""
        self.domain.create_address(name, frozenset(types), auto_created)

    def queue(self, name: str, address: str, routing_type: RoutingType = ANYCAST, **attributes: Any) -> Queue:
        """Create a queue on an address that exists."""
        return self.domain.create_queue(
            QueueConfig(name=name, address=address, routing_type=routing_type, **attributes)
        )

    def send(
        self,
        address: str,
        body: object = "m",
        routing_type: RoutingType | None = None,
        expires_ms: int = 0,
        **properties: Any,
    ) -> Message:
        """Send as a client does, with auto-creation; then deliver what can be delivered."""
        message = plain_message(address, MessageView(body=body, properties=properties))
        message.expires_ms = expires_ms
        self.session.producer(address, routing_type).send(message)
        self.run()
        return message

    def consume(
        self, name: str, credit: int = 100, selector: str | None = None, session: Session | None = None
    ) -> Inbox:
        """Attach to a queue by its name."""
        inbox = Inbox()
        filter = None if selector is None else parse_filter(selector)
        inbox.consumer = (session or self.session).consume(self.domain.queue(name), inbox, filter)
        inbox.consumer.grant(credit)
        self.run()
        return inbox

    def leave(self, inbox: Inbox) -> None:
        """Detach a consumer in good order."""
        assert inbox.consumer is not None
        self.session.close_consumer(inbox.consumer)
        self.run()

    def bodies(self, queue: str) -> list[object]:
        """What waits in a queue."""
        return [reference.message.view.body for reference in browse_all(self.domain.queue(queue))]

    def run(self) -> None:
        """Deliver until nothing moves."""
        while self.domain.dispatcher.run():
            pass

    def pass_time(self, milliseconds: int) -> None:
        """Move the clock and do what was planned until then."""
        self.domain.dispatcher.now_ms += milliseconds
        self.domain.dispatcher.steady_ms += milliseconds
        self.domain.dispatcher.handle_deadlines()
        self.run()
