"""The clients of the crash test that send."""

from collections.abc import Callable
from typing import Final

from attrs import field, frozen
from proton import Delivery, Described, Message, symbol, ulong

from tests.crash.plan import (
    BRIEF,
    FRAGILE,
    LATER,
    LONGEST_DELAY_S,
    LONGEST_LIFE_S,
    NEWS,
    ONCE,
    RESULTS,
    TASKS,
    WINDOW,
    WORK,
    make,
)
from tests.crash.worker import Worker
from tests.interop.proton.client import Client, Received, Receiver, Refused, Sender
from tests.interop.proton.test_transactions import Coordinator, post

ADDRESSES: Final = (WORK, WORK, NEWS, NEWS, LATER, BRIEF, TASKS, FRAGILE)
CREDIT: Final = 20
DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
TRANSACTIONAL: Final = 0x34
"""Descriptor code of the transactional state."""


def produce(worker: Worker, client: Client) -> None:
    """To queues and to subscriptions; some later, some for a short time only, some urgent."""

    def plain(message: Message) -> None:
        message.priority = worker.random.choice((4, 4, 4, 9))

    def later(message: Message) -> None:
        message.annotations = {symbol("x-opt-delivery-delay"): worker.random.randrange(1, int(LONGEST_DELAY_S * 1000))}

    def brief(message: Message) -> None:
        message.ttl = worker.random.uniform(0.001, LONGEST_LIFE_S)

    dresses = {LATER: later, BRIEF: brief}
    senders = {address: client.sender(address, ["topic"] if address == NEWS else []) for address in ADDRESSES}
    while worker.goes_on:
        address = worker.random.choice(ADDRESSES)
        send_window(worker, senders[address], address, dresses.get(address, plain))
        worker.pause()


def send_window(worker: Worker, sender: Sender, queue: str, dress: Callable[[Message], None]) -> None:
    """A window of messages, then their answers in order."""
    on_the_way: list[tuple[str, Delivery]] = []
    for _ in range(WINDOW):
        id = worker.new_id()
        message = make(id)
        dress(message)
        worker.ledger.note("attempted", id, queue, priority=message.priority)
        on_the_way.append((id, sender.start(message)))
    for id, delivery in on_the_way:
        sender.client.wait(lambda delivery=delivery: delivery.settled, "an outcome")  # type: ignore[misc]
        if delivery.remote_state == Delivery.ACCEPTED:
            worker.ledger.note("acknowledged", id, queue)
        delivery.settle()


def transact(worker: Worker, client: Client) -> None:
    """Take tasks and put results, all or nothing; one transaction in ten is rolled back."""
    coordinator = Coordinator(client)
    sender, receiver = client.sender(RESULTS), client.receiver(TASKS)
    receiver.flow(CREDIT)
    while worker.goes_on:
        transaction = worker.new_id()
        identifier = coordinator.declare()
        worker.ledger.note("begun", transaction)
        _take_tasks(worker, receiver, identifier, transaction)
        for _ in range(3):
            id = worker.new_id()
            worker.ledger.note("attempted", id, RESULTS, transaction=transaction)
            delivery = post(sender, identifier, make(id))
            sender.wait(delivery)
            delivery.settle()
        fails = worker.random.random() < 0.1
        worker.ledger.note("rolled-back" if fails else "committing", transaction)
        coordinator.discharge(identifier, fail=fails)
        if not fails:
            worker.ledger.note("committed", transaction)
        worker.pause()


def _take_tasks(worker: Worker, receiver: Receiver, identifier: bytes, transaction: str) -> None:
    number = receiver.waiting
    for _ in range(number):
        received = receiver.receive()
        id = worker.ledger.note_delivery("delivered", received, TASKS)
        worker.ledger.note("retired", id, TASKS, transaction=transaction)
        retire(received, identifier)
    receiver.flow(number)


def retire(received: Received, identifier: bytes) -> None:
    """Accept under a transaction (AMQP 1.0 §4.4.2); the answer to what is sent next shows that this went before."""
    received.delivery.local.data = [identifier, Described(ulong(Delivery.ACCEPTED), [])]
    received.delivery.update(TRANSACTIONAL)
    received.delivery.settle()


@frozen
class Window:
    """Messages that are sent, and perhaps sent again, together."""

    ids: list[str]
    in_transaction: bool


@frozen
class Repetition:
    """What a client has to send again when its connection was lost: the window that was answered, and the next."""

    windows: list[Window] = field(factory=lambda: [Window([], False)])

    def __call__(self, worker: Worker, client: Client) -> None:
        """A window after the other, every second one as a transaction, whose first message alone has an id."""
        sender, coordinator = client.sender(ONCE), Coordinator(client)
        for window in self.windows:
            send_protected(worker, sender, coordinator, window)
        while worker.goes_on:
            window = Window([worker.new_id() for _ in range(WINDOW)], not self.windows[-1].in_transaction)
            self.windows[:] = [self.windows[-1], window]
            for id in window.ids:
                worker.ledger.note("attempted", id, ONCE)
            send_protected(worker, sender, coordinator, window)
            worker.pause()


def protected(id: str) -> Message:
    """The message of an id, with that as its duplicate id."""
    message = make(id)
    message.properties[DUPLICATE_ID] = id
    return message


def send_protected(worker: Worker, sender: Sender, coordinator: Coordinator, window: Window) -> None:
    """For the first time or again."""
    if window.in_transaction:
        send_in_transaction(sender, coordinator, window.ids)
    else:
        deliveries = [sender.start(protected(id)) for id in window.ids]
        for delivery in deliveries:
            sender.wait(delivery)
            delivery.settle()
    for id in window.ids:
        worker.ledger.note("acknowledged", id, ONCE)


def send_in_transaction(sender: Sender, coordinator: Coordinator, ids: list[str]) -> None:
    """All or nothing; if the broker knows the first, it has all."""
    identifier = coordinator.declare()
    for index, id in enumerate(ids):
        delivery = post(sender, identifier, make(id) if index else protected(id))
        sender.wait(delivery)
        delivery.settle()
    try:
        coordinator.discharge(identifier)
    except Refused as refused:
        if "same id" not in str(refused):
            raise
