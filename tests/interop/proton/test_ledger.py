"""Clients that come, work and vanish at random, against a ledger: nothing lost, nothing done twice.

The seed fixes what each client does. What the network makes of it differs from run to run; the ledger must agree
all the same.
"""

import random
from typing import Final

import pytest
from attrs import define, field
from proton import Message

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client, Received, Receiver, Sender
from tests.interop.proton.test_transactions import Coordinator, post, retire

ROUNDS: Final = 40


@define
class Ledger:
    """What the broker has promised."""

    sent: set[int] = field(factory=set)
    """Accepted sends, and those of committed transactions."""
    in_doubt: set[int] = field(factory=set)
    """Sends of the transaction that is being ended."""
    done: set[int] = field(factory=set)
    """Accepted deliveries, and those of committed transactions."""
    last: int = 0

    def next_number(self) -> int:
        """The body of the next message."""
        self.last += 1
        return self.last

    def check(self, number: int) -> None:
        """A delivery came: it must have been sent, and not be done."""
        assert number in self.sent or number in self.in_doubt, f"{number} was never sent"
        assert number not in self.done, f"{number} was done before"


class Visitor:
    """One connection that does a few things at random."""

    def __init__(self, client: Client, address: str, choice: random.Random, ledger: Ledger) -> None:
        self.client = client
        self.address = address
        self.choice = choice
        self.ledger = ledger
        self.sender: Sender = client.sender(address)
        self.receivers: list[Receiver] = []
        self.held: list[Received] = []

    def act(self) -> None:
        """Do one thing."""
        self.choice.choice((self.send, self.send, self.attach, self.take, self.take, self.transact, self.leave))()

    def send(self) -> None:
        for _ in range(self.choice.randrange(1, 4)):
            number = self.ledger.next_number()
            self.sender.send(Message(body=number, priority=self.choice.randrange(10)))
            self.ledger.sent.add(number)

    def attach(self) -> None:
        selector = self.choice.choice((None, None, "JMSPriority > 4"))
        receiver = self.client.receiver(self.address, selector=selector)
        receiver.flow(self.choice.randrange(1, 60))
        self.receivers.append(receiver)

    def take(self) -> None:
        if not self.receivers:
            return
        receiver = self.choice.choice(self.receivers)
        self.client.sync()
        while receiver.waiting:
            received = receiver.receive()
            self.ledger.check(received.body)
            match self.choice.randrange(6):
                case 0 | 1 | 2:
                    received.accept()
                    self.ledger.done.add(received.body)
                case 3:
                    received.release()
                case 4:
                    received.modify(failed=True)
                case _:
                    self.held.append(received)

    def transact(self) -> None:
        coordinator = Coordinator(self.client)
        transaction = coordinator.declare()
        numbers = [self.ledger.next_number() for _ in range(self.choice.randrange(1, 6))]
        for number in numbers:
            post(self.sender, transaction, Message(body=number))
        self.ledger.in_doubt.update(numbers)
        retired = self.held[:3]
        del self.held[:3]
        for received in retired:
            retire(received, transaction)
        fail = self.choice.random() < 0.4
        coordinator.discharge(transaction, fail)
        self.ledger.in_doubt.clear()
        if not fail:
            self.ledger.sent.update(numbers)
            self.ledger.done.update(received.body for received in retired)
        coordinator.sender.close()

    def leave(self) -> None:
        if self.receivers:
            receiver = self.receivers.pop(self.choice.randrange(len(self.receivers)))
            receiver.close()
            self.held = [received for received in self.held if received.delivery.link != receiver.link]


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_and_nothing_is_done_twice(broker: BrokerProcess, name: str, seed: int) -> None:
    """Nothing is lost, doubled or out of order: through redelivery, rollback, orderly and abrupt ends."""
    address = f"unlimited.{name}"
    choice = random.Random(seed)
    ledger = Ledger()
    for _ in range(ROUNDS):
        client = Client(broker.url, f"{name}-{choice.randrange(5)}")
        visitor = Visitor(client, address, choice, ledger)
        for _ in range(choice.randrange(1, 12)):
            visitor.act()
        (client.abort if choice.random() < 0.5 else client.close)()
    left: list[int] = []
    with Client(broker.url) as client:
        receiver = client.receiver(address)
        while len(left) < len(ledger.sent - ledger.done):
            received = receiver.receive()  # what a lost client had comes back when the broker notices
            received.accept()
            left.append(received.body)
        left += receiver.bodies()

    assert sorted(left) == sorted(ledger.sent - ledger.done)
