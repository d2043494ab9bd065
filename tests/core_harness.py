"""A domain and the smallest client of it: tests of the core need no protocol."""

import pytest

from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import MatchHierarchy
from artemis_py.core.queues.consumer import Consumer, Sink
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.page import END, PAGE_MESSAGES
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import PRIORITIES, Reference
from artemis_py.core.queues.storage import Scratch
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.events import Events
from artemis_py.core.services.domains import Domains
from artemis_py.core.services.services import Services
from artemis_py.core.services.virtual_hosts import VirtualHosts
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.protocol import Host
from artemis_py.store.memory import MemoryStore

START_MS = 1_000_000
HOUR_MS = 3_600_000

set_clocks = pytest.mark.parametrize("jump_ms", [-HOUR_MS, 0, HOUR_MS], ids=["back", "still", "forward"])
"""Runs a test with each `jump_ms`, for `set_clock`."""


class PropertiesFormat:
    """Messages whose content is a dictionary of properties, for selectors to look at."""

    name = "test"

    def __init__(self, properties: dict[str, object]) -> None:
        self._properties = properties

    def view(self, message: Message) -> MessageView:
        return MessageView(properties=self._properties, body=message.data)

    def lookup(self, message: Message, name: str) -> object:
        return self._properties.get(name)


class Recorder(Sink):
    """A consumer's sink that keeps what it gets."""

    def __init__(self) -> None:
        self.deliveries: list[Reference] = []
        self.drains = 0
        self.ended_because: str | None = None

    def deliver(self, reference: Reference) -> None:
        self.deliveries.append(reference)

    def drained(self) -> None:
        self.drains += 1

    def ended(self, reason: str) -> None:
        self.ended_because = reason

    def take(self) -> list[Reference]:
        """What came since the last call."""
        taken, self.deliveries = self.deliveries, []
        return taken

    def bodies(self) -> list[str]:
        """The bodies of what came since the last call."""
        return [reference.message.data.decode() for reference in self.take()]


def make_domain(
    settings: dict[str, AddressSettings] | None = None,
    options: BrokerSettings | None = None,
    scratch: Scratch | None = None,
    events: Events | None = None,
    beside: Domain | None = None,
) -> Domain:
    """A domain at a fixed time, with these address settings; on the dispatcher of another one if that is given."""
    options = BrokerSettings() if options is None else options
    hierarchy: MatchHierarchy[AddressSettings] = MatchHierarchy(options.wildcards, options.literal_match_markers)
    repository = SettingsRepository(hierarchy, options)
    for match, values in (settings or {}).items():
        repository.add(match, values)
    dispatcher = Dispatcher(MemoryStore(), scratch, options) if beside is None else beside.dispatcher
    domain = Domain(repository, dispatcher, options, events=events)
    domain.dispatcher.now_ms = START_MS
    return domain


def make_services(domain: Domain) -> Services:
    """What stands above routing."""
    return Services(Sessions(domain))


def make_hosts(services: Services) -> VirtualHosts:
    """Virtual hosts beside a domain, with its settings and its access control."""
    domain = services.sessions.domain

    def make(id: int, name: str) -> Services:
        return make_services(Domain(domain.settings, domain.dispatcher, domain.options, domain.access, host=id))

    return VirtualHosts(Domains(services), make)


def make_host(domain: Domain) -> Host:
    """What the manager of a protocol is made with; its `hosts` are virtual hosts that a test may add to."""
    hosts = make_hosts(make_services(domain))
    return Host(hosts.domains, hosts)


def make_session(domain: Domain, client_id: str = "client") -> Session:
    """A session that may do everything."""
    return Session(domain, Subject("tester"), client_id, "test")


def make_queue(
    domain: Domain, name: str = "q", routing_type: RoutingType = RoutingType.ANYCAST, **options: object
) -> Queue:
    """A queue, with its address if that is missing; `options` are attributes of QueueConfig."""
    address = str(options.pop("address", name))
    if address not in domain.addresses:
        domain.create_address(address, frozenset(RoutingType))
    config = QueueConfig(name=name, address=address, routing_type=routing_type, **options)
    return domain.create_queue(config)


def make_message(
    body: str = "m",
    priority: int = 4,
    expires_ms: int = 0,
    delivery_time_ms: int = 0,
    routing_type: int = -1,
    durable: bool = False,
    producer: str = "",
    **properties: object,
) -> Message:
    """A message whose body is text, with properties for selectors."""
    return Message(
        PropertiesFormat(properties),
        "",
        body.encode(),
        durable=durable,
        priority=priority,
        expires_ms=expires_ms,
        delivery_time_ms=delivery_time_ms,
        routing_type=routing_type,
        producer=producer,
    )


def send(domain: Domain, address: str, *bodies: str) -> None:
    """Send plain messages through an address that exists, and let the queues deliver."""
    for body in bodies:
        domain.route(make_message(body), domain.addresses[address])
    settle_down(domain)


def settle_down(domain: Domain) -> None:
    """Let all queues deliver what they can."""
    while domain.dispatcher.run():
        pass


def attach(domain: Domain, queue: Queue, credit: int = 1000, **options: object) -> tuple[Recorder, Consumer]:
    """A new consumer of a session of its own, with credit."""
    recorder = Recorder()
    consumer = make_session(domain).consume(queue, recorder, **options)  # type: ignore[arg-type]
    consumer.grant(credit)
    settle_down(domain)
    return recorder, consumer


def pass_time(domain: Domain, milliseconds: int) -> None:
    """Let time pass, and happen what was planned for it."""
    domain.dispatcher.now_ms += milliseconds
    domain.dispatcher.steady_ms += milliseconds
    domain.dispatcher.handle_deadlines()
    settle_down(domain)


def set_clock(domain: Domain, by_ms: int) -> None:
    """Somebody sets the wall clock; what a turn of the loop does then."""
    domain.dispatcher.now_ms += by_ms
    pass_time(domain, 0)


def step_through(dispatcher: Dispatcher, milliseconds: int) -> None:
    """Let time pass on both clocks, from one planned call to the next."""
    left_ms = milliseconds
    while True:
        waits_ms = [left_ms + 1]
        for due_ms, now_ms in (
            (dispatcher.next_deadline_ms(), dispatcher.now_ms),
            (dispatcher.next_steady_ms(), dispatcher.steady_ms),
        ):
            if due_ms is not None:
                waits_ms.append(max(due_ms - now_ms, 0))
        step_ms = min(waits_ms)
        is_over = step_ms > left_ms
        step_ms = min(step_ms, left_ms)
        dispatcher.now_ms += step_ms
        dispatcher.steady_ms += step_ms
        left_ms -= step_ms
        if is_over:
            return
        dispatcher.handle_deadlines()


def browse_all(queue: Queue) -> list[Reference]:
    """The waiting references in the order they would be delivered; those on disk are read, and not kept."""
    result: list[Reference] = []
    backlog = queue.backlog
    for priority in range(PRIORITIES - 1, -1, -1):
        found: list[Reference] = []
        reference = backlog.lists[priority].head
        while reference is not None:
            found.append(reference)
            reference = reference.next
        tail = backlog.tails[priority]
        after = 0 if tail is None else tail.frontier
        while tail is not None and after < END:
            page = backlog.scan(tail, after, END, PAGE_MESSAGES)
            if page is None:
                break
            for cold in page.references:
                cold.was_acquired = 0 < cold.sequence < queue.restored_below
                found.append(cold)
            after = page.end
        found.sort(key=lambda reference: reference.sequence)
        result += found
    return result
