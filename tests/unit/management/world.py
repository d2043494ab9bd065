"""A core with a management endpoint, and one client that asks it."""

import json
from collections.abc import Iterable
from typing import Any

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import MatchHierarchy, WildcardSyntax
from artemis_py.core.queues.consumer import Sink
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.storage import Storage
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import AccessControl, OpenAccess, Permission, Subject
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import DEFAULT_BROKER_SETTINGS, BrokerSettings
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.management.endpoint import ManagementEndpoint
from artemis_py.management.facts import AcceptorFacts, BrokerFacts, MeshFacts
from artemis_py.store.memory import MemoryStore
from tests.core_harness import browse_all, make_services, settle_down

ANYCAST = frozenset((RoutingType.ANYCAST,))
MULTICAST = frozenset((RoutingType.MULTICAST,))
NOW_MS = 1_700_000_000_000
MANAGEMENT = "activemq.management"


class Rules:
    """Access control that denies what it is told to."""

    def __init__(self, *denied: tuple[Permission, str]) -> None:
        self.denied = set(denied)

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return (permission, address) not in self.denied


class World:
    """A broker's core and one administrator with a temporary queue for the replies."""

    def __init__(
        self,
        access: AccessControl | None = None,
        storage: Storage | None = None,
        mesh: MeshFacts | None = None,
        options: BrokerSettings = DEFAULT_BROKER_SETTINGS,
        roles: Iterable[str] = (),
    ) -> None:
        settings = SettingsRepository(MatchHierarchy[AddressSettings](WildcardSyntax()))
        self.domain = Domain(settings, Dispatcher(storage or MemoryStore()), options, access=access or OpenAccess())
        self.domain.dispatcher.now_ms = NOW_MS
        self.services = make_services(self.domain)
        self.facts = BrokerFacts(
            version="1.2.3",
            node_id="node-1",
            started_steady_ms=-90_061_500,
            acceptors=lambda: [AcceptorFacts("main", "127.0.0.1", 5672, ("AMQP",))],
            disk_usage=lambda: 0.25,
            mesh=mesh,
        )
        self.endpoint = ManagementEndpoint(self.services, self.facts)
        self.services.sessions.register_endpoint(MANAGEMENT, self.endpoint)
        subject = Subject("admin", frozenset(roles))
        self.session = self.services.sessions.open(subject, "client-1", "127.0.0.1:4000", "AMQP")
        self.replies = self.session.create_temporary_queue(RoutingType.ANYCAST)

    def send(self, **view: Any) -> None:
        """Send a request as a client would."""
        self.session.producer(MANAGEMENT).send(plain_message(MANAGEMENT, MessageView(**view)))

    def reply(self, **view: Any) -> MessageView:
        """Send a request and return the reply."""
        view.setdefault("reply_to", self.replies.name)
        before = len(browse_all(self.replies))
        self.send(**view)
        settle_down(self.domain)
        waiting = browse_all(self.replies)
        assert len(waiting) == before + 1
        return waiting[-1].message.view

    def ask(self, resource: str, operation: str, *parameters: object) -> tuple[bool, Any]:
        """Run an operation; whether it succeeded, and its result or the reason why not."""
        properties = {"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}
        return outcome(self.reply(properties=properties, body=json.dumps(parameters)))

    def call(self, resource: str, operation: str, *parameters: object) -> Any:
        """Run an operation that succeeds; its result."""
        succeeded, result = self.ask(resource, operation, *parameters)
        assert succeeded, result
        return result

    def refusal(self, resource: str, operation: str, *parameters: object) -> str:
        """Run an operation that is refused; the reason."""
        succeeded, result = self.ask(resource, operation, *parameters)
        assert not succeeded, result
        assert isinstance(result, str)
        return result

    def read(self, resource: str, attribute: str) -> Any:
        """Read an attribute that exists."""
        properties = {"_AMQ_ResourceName": resource, "_AMQ_Attribute": attribute}
        succeeded, result = outcome(self.reply(properties=properties))
        assert succeeded, result
        return result

    def publish(self, address: str, count: int = 1, **properties: object) -> None:
        """Send messages to an address."""
        producer = self.session.producer(address)
        for _ in range(count):
            producer.send(plain_message(address, MessageView(body="x", properties=properties)))


def outcome(reply: MessageView) -> tuple[bool, Any]:
    """What a reply says."""
    succeeded = reply.properties["_AMQ_OperationSucceeded"]
    assert isinstance(succeeded, bool)
    assert isinstance(reply.body, str)
    (result,) = json.loads(reply.body)
    return succeeded, result


class Taker(Sink):
    """A consumer's client that keeps what it gets."""

    def __init__(self) -> None:
        self.taken: list[Reference] = []
        self.reasons: list[str] = []

    def deliver(self, reference: Reference) -> None:
        self.taken.append(reference)

    def drained(self) -> None: ...

    def ended(self, reason: str) -> None:
        self.reasons.append(reason)


def consume(world: World, queue: Queue, credit: int) -> Taker:
    """Attach a consumer and let it have what its credit allows."""
    taker = Taker()
    consumer = world.session.consume(queue, taker)
    consumer.grant(credit)
    world.domain.dispatcher.run()
    return taker


def message_of(text: str) -> Message:
    """A message with only a body."""
    return plain_message("a", MessageView(body=text))
