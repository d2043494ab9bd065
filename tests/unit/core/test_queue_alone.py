"""A queue needs no domain, and the dispatcher no queue: each knows the other parts by their base classes."""

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.attaching import attach
from artemis_py.core.queues.consumer import REJECTED, Consumer, ConsumerOptions
from artemis_py.core.queues.dispatcher import Dispatchable, Dispatcher
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.routing_services import RoutingServices
from artemis_py.core.settings.address_settings import AddressSettings, merge
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.store.memory import MemoryStore
from tests.core_harness import START_MS, Recorder, make_message


class Collector(RoutingServices):
    """Keeps what a queue gives away."""

    def __init__(self) -> None:
        self.dead: list[bytes] = []
        self.expired: list[bytes] = []

    def dead_letter(self, reference: Reference, cause: str) -> None:
        self.dead.append(reference.message.data)

    def expire(self, reference: Reference) -> None:
        self.expired.append(reference.message.data)

    def account_of(self, message: Message, address: Address) -> Address:
        return address

    def random(self) -> float:
        return 0.5


def test_a_queue_gives_what_it_cannot_deliver_to_whatever_it_was_made_with() -> None:
    dispatcher = Dispatcher(MemoryStore())
    dispatcher.now_ms = START_MS
    address = Address("a", frozenset(RoutingType), merge([AddressSettings()]), dispatcher.account)
    config = QueueConfig(name="q", address="a", routing_type=RoutingType.ANYCAST)
    collector = Collector()
    queue = Queue(dispatcher, config, address, 1, RoutingType.ANYCAST, collector)
    queue.configure(config)
    sink = Recorder()
    consumer = Consumer(1, queue, sink, ConsumerOptions(), "somebody")
    attach(consumer)
    consumer.grant(10)
    for message in (make_message("late", expires_ms=START_MS), make_message("bad")):
        queue.take(message)

    dispatcher.run(100)
    consumer.settle(sink.take()[0], REJECTED)

    assert (collector.expired, collector.dead) == ([b"late"], [b"bad"])
    assert (queue.message_count, queue.messages_expired, queue.messages_killed) == (0, 1, 1)


class Pump(Dispatchable):
    """Delivers ten whenever it is visited, until it has nothing more."""

    def __init__(self, dispatcher: Dispatcher, left: int) -> None:
        super().__init__()
        self.dispatcher = dispatcher
        self.left = left
        self.visits = 0

    def mark_ready(self) -> None:
        if not self.is_ready:
            self.is_ready = True
            self.dispatcher.ready.append(self)

    def deliver(self, budget: int) -> int:
        self.visits += 1
        count = min(budget, 10, self.left)
        self.left -= count
        if self.left:
            self.mark_ready()
        return count


def test_the_dispatcher_visits_whatever_is_ready() -> None:
    dispatcher = Dispatcher(MemoryStore())
    pumps = [Pump(dispatcher, 35), Pump(dispatcher, 5)]
    for pump in pumps:
        pump.mark_ready()

    while dispatcher.run(100):
        pass

    assert [(pump.left, pump.visits) for pump in pumps] == [(0, 4), (0, 1)]
