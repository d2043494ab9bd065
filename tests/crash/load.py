"""The clients of the crash test: `python -m tests.crash.load role url ledger stop-file seed`.

Each works until the stop file is there, connects again whenever the broker went away, and never repeats a message:
an operation without an answer has an unknown outcome, and stays so. Only `repeat` sends again, under duplicate ids.
"""

import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import frozen
from proton import Delivery, Message, ProtonException, symbol

from tests.crash.ledger import Ledger
from tests.interop.proton.client import Client, Received, Refused, Sender
from tests.interop.proton.test_duplicates import protected
from tests.interop.proton.test_transactions import Coordinator, post

WORK: Final = "work"
NEWS: Final = "news"
SUBSCRIPTIONS: Final = ("news.a", "news.b")
LATER: Final = "later"
BRIEF: Final = "brief"
EXPIRED: Final = "ExpiryQueue"
ONCE: Final = "once"

# Messages on their way at once: enough for batches, few enough that a kill leaves most outcomes known.
WINDOW: Final = 20
RECONNECT_PAUSE_S: Final = 0.02
CONFIRMATION_TIMEOUT_S: Final = 5.0


@frozen
class Window:
    """Messages that are sent, and perhaps sent again, together."""

    ids: list[str]
    in_transaction: bool


class Worker:
    """One client process."""

    def __init__(self, url: str, ledger: Path, stop: Path, seed: int) -> None:
        self.url: Final = url
        self.name: Final = ledger.stem
        self.ledger: Final = Ledger(ledger)
        self.stop: Final = stop
        self.random: Final = random.Random(seed)
        self._numbers = 0
        self.windows: list[Window] = [Window([], False)]
        """What `repeat` sent last."""

    def run(self, work: Callable[["Worker", Client], None]) -> None:
        """Work, and connect again when that ends with an error."""
        while not self.stop.exists():
            try:
                client = Client(self.url)
                try:
                    work(self, client)
                finally:
                    leave(client)
            except (ProtonException, Refused, OSError):
                time.sleep(RECONNECT_PAUSE_S)

    def new_id(self) -> str:
        """For a message or a transaction; numbers ascend."""
        self._numbers += 1
        return f"{self.name}/{self._numbers}"

    def message(self, id: str) -> Message:
        """A durable message that says its id."""
        return Message(body=id, durable=True, id=id)


def leave(client: Client) -> None:
    """Close what is left of a connection; usually the broker is gone already."""
    with suppress(ProtonException, OSError):
        client.close()


def send_window(worker: Worker, sender: Sender, queue: str, dress: Callable[[Message], None]) -> None:
    """A window of messages, then their answers in order."""
    on_the_way: list[tuple[str, Delivery]] = []
    for _ in range(WINDOW):
        id = worker.new_id()
        message = worker.message(id)
        dress(message)
        worker.ledger.note("attempted", id, queue)
        on_the_way.append((id, sender.start(message)))
    for id, delivery in on_the_way:
        sender.client.wait(lambda delivery=delivery: delivery.settled, "an outcome")  # type: ignore[misc]
        if delivery.remote_state == Delivery.ACCEPTED:
            worker.ledger.note("acknowledged", id, queue)
        delivery.settle()


def produce(worker: Worker, client: Client) -> None:
    """To a queue and to subscriptions; some later, some for a short time only."""

    def plain(message: Message) -> None:
        message.priority = worker.random.choice((4, 4, 4, 9))

    def later(message: Message) -> None:
        message.annotations = {symbol("x-opt-delivery-delay"): worker.random.randrange(1, 800)}

    def brief(message: Message) -> None:
        message.ttl = worker.random.randrange(1, 500) / 1000

    senders = {address: client.sender(address) for address in (WORK, LATER, BRIEF)}
    senders[NEWS] = client.sender(NEWS, ["topic"])
    while not worker.stop.exists():
        address = worker.random.choice((WORK, WORK, NEWS, LATER, BRIEF))
        dress = {LATER: later, BRIEF: brief}.get(address, plain)
        send_window(worker, senders[address], address, dress)


def transact(worker: Worker, client: Client) -> None:
    """Take some of the work and put as many messages back, all or nothing; one in ten is rolled back."""
    coordinator = Coordinator(client)
    sender = client.sender(WORK)
    while not worker.stop.exists():
        transaction = worker.new_id()
        identifier = coordinator.declare()
        worker.ledger.note("begun", transaction)
        for _ in range(5):
            id = worker.new_id()
            worker.ledger.note("attempted", id, WORK, transaction=transaction)
            delivery = post(sender, identifier, worker.message(id))
            sender.wait(delivery)
            delivery.settle()
        fails = worker.random.random() < 0.1
        if fails:
            worker.ledger.note("rolled-back", transaction)
        coordinator.discharge(identifier, fail=fails)
        if not fails:
            worker.ledger.note("committed", transaction)


def repeat(worker: Worker, client: Client) -> None:
    """A window after the other; after a loss of the connection the last two again, the answered one and the other.

    Every second one is a transaction, of which the first message alone has a duplicate id.
    """
    sender, coordinator = client.sender(ONCE), Coordinator(client)
    for window in worker.windows:
        send_protected(worker, sender, coordinator, window)
    while not worker.stop.exists():
        window = Window([worker.new_id() for _ in range(WINDOW)], not worker.windows[-1].in_transaction)
        worker.windows = [worker.windows[-1], window]
        for id in window.ids:
            worker.ledger.note("attempted", id, ONCE)
        send_protected(worker, sender, coordinator, window)


def send_protected(worker: Worker, sender: Sender, coordinator: Coordinator, window: Window) -> None:
    """For the first time or again."""
    if window.in_transaction:
        send_in_transaction(sender, coordinator, window.ids)
    else:
        deliveries = [sender.start(protected(id, id)) for id in window.ids]
        for delivery in deliveries:
            sender.wait(delivery)
            delivery.settle()
    for id in window.ids:
        worker.ledger.note("acknowledged", id, ONCE)


def send_in_transaction(sender: Sender, coordinator: Coordinator, ids: list[str]) -> None:
    """All or nothing; if the broker knows the first, it has all."""
    identifier = coordinator.declare()
    for index, id in enumerate(ids):
        message = Message(body=id, durable=True) if index else protected(id, id)
        delivery = post(sender, identifier, message)
        sender.wait(delivery)
        delivery.settle()
    try:
        coordinator.discharge(identifier)
    except Refused as refused:
        if "same id" not in str(refused):
            raise


def consume(worker: Worker, client: Client) -> None:
    """Accept eight of ten, each confirmed by the broker; release one and fail one."""
    receivers = [client.receiver(WORK), client.receiver("news::news.a", ["topic"]), client.receiver(LATER)]
    queues = (WORK, SUBSCRIPTIONS[0], LATER)
    for receiver in receivers:
        receiver.flow(10)
    while not worker.stop.exists():
        busy = False
        for receiver, queue in zip(receivers, queues, strict=True):
            if receiver.waiting:
                busy = True
                settle(worker, receiver.receive(), queue)
                receiver.flow(1)
        if not busy:
            client.connection.wait(
                lambda: any(receiver.waiting for receiver in receivers) or worker.stop.exists(), timeout=60
            )


def settle(worker: Worker, received: Received, queue: str) -> None:
    """Decide about one delivery."""
    message = received.message
    note_delivery(worker.ledger, message, queue)
    lot = worker.random.randrange(10)
    if lot == 0:
        received.delivery.update(Delivery.RELEASED)
        received.delivery.settle()
    elif lot == 1:
        received.modify(failed=True)
    else:
        received.delivery.update(Delivery.ACCEPTED)
        received.client.connection.wait(lambda: received.delivery.settled, timeout=CONFIRMATION_TIMEOUT_S)
        worker.ledger.note("confirmed", message.body, queue)
        received.delivery.settle()


def note_delivery(ledger: Ledger, message: Message, queue: str) -> None:
    """Write down what came."""
    marked = not message.first_acquirer or message.delivery_count > 0
    ledger.note("delivered", str(message.body), queue, marked=marked, priority=message.priority)


ROLES: Final = {"produce": produce, "transact": transact, "repeat": repeat, "consume": consume}

if __name__ == "__main__":
    role, url, ledger, stop, seed = sys.argv[1:]
    Worker(url, Path(ledger), Path(stop), int(seed)).run(ROLES[role])
