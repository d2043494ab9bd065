"""Local transactions over the coordinator (AMQP 1.0 part 4)."""

from itertools import count
from typing import Final

import pytest
from proton import Data, Delivery, Described, Message, symbol, uint, ulong
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, Transaction

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client, Received, Refused, Sender
from tests.interop.proton.raw import ATTACH, BEGIN_FRAME, DETACH, FLOW, Raw, composed, frame, opening

TAGS: Final = count(1)


class Coordinator:
    """The controlling link of one connection, driven by hand."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.sender: Sender = client.coordinator()

    def declare(self) -> bytes:
        """Begin; returns the transaction's id (AMQP 1.0 §4.5.2)."""
        delivery = self.sender.start(Message(body=Described(symbol("amqp:declare:list"), [None])))
        self.sender.wait(delivery)
        identifier = delivery.remote.data[0]
        delivery.settle()
        return bytes(identifier)

    def discharge(self, identifier: bytes, fail: bool = False) -> None:
        """End; raises Refused if the broker could not commit (AMQP 1.0 §4.5.3)."""
        delivery = self.sender.start(Message(body=Described(symbol("amqp:discharge:list"), [identifier, fail])))
        try:
            self.sender.wait(delivery)
        finally:
            delivery.settle()


def post(sender: Sender, identifier: bytes, message: Message | str, settled: bool = False) -> Delivery:
    """Send under the transaction (AMQP 1.0 §4.4.1)."""
    sender.client.wait(lambda: sender.link.credit > 0, "credit")
    delivery = sender.link.delivery(f"txn-{next(TAGS)}")
    delivery.local.data = [identifier]
    delivery.update(0x34)
    sender.link.stream(bytes((message if isinstance(message, Message) else Message(body=message)).encode()))
    sender.link.advance()
    if settled:
        delivery.settle()
    return delivery


def retire(received: Received, identifier: bytes, outcome: int = Delivery.ACCEPTED) -> None:
    """Settle with an outcome that counts when the transaction commits (AMQP 1.0 §4.4.2)."""
    received.delivery.local.data = [identifier, Described(ulong(outcome), [])]
    received.delivery.update(0x34)
    received.delivery.settle()
    received.client.sync()


def test_posted_messages_are_visible_after_the_commit(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §4.4.1: not before."""
    with Client(broker.url) as client, Client(broker.url) as other:
        coordinator = Coordinator(client)
        transaction = coordinator.declare()
        sender = client.sender(name)
        for body in ("1", "2"):
            post(sender, transaction, body)
        client.sync()
        consumer = other.receiver(name)
        before = consumer.drain()
        coordinator.discharge(transaction)

        assert before == []
        assert consumer.bodies() == ["1", "2"]


def test_answer_to_a_post_names_its_transaction(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §4.4.1: transactional-state with the provisional outcome."""
    with Client(broker.url) as client:
        coordinator = Coordinator(client)
        transaction = coordinator.declare()
        sender = client.sender(name)
        delivery = post(sender, transaction, "m")
        client.wait(lambda: bool(delivery.remote_state), "a provisional outcome")
        state, identifier = int(delivery.remote_state), bytes(delivery.remote.data[0])
        coordinator.discharge(transaction)

    assert state == 0x34
    assert identifier == transaction


def test_posted_messages_vanish_with_a_rollback(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §4.5.3 fail=true."""
    with Client(broker.url) as client:
        coordinator = Coordinator(client)
        transaction = coordinator.declare()
        post(client.sender(name), transaction, "m")
        coordinator.discharge(transaction, fail=True)

        assert client.bodies(name) == []


def test_settled_posts_belong_to_the_transaction_too(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §4.4.1: settlement of the transfer does not change its transaction."""
    with Client(broker.url) as client:
        coordinator = Coordinator(client)
        rolled_back = coordinator.declare()
        sender = client.sender(name)
        post(sender, rolled_back, "lost", settled=True)
        coordinator.discharge(rolled_back, fail=True)
        committed = coordinator.declare()
        post(sender, committed, "kept", settled=True)
        coordinator.discharge(committed)

        assert client.bodies(name) == ["kept"]


def test_retired_message_is_gone_after_the_commit(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §4.4.2."""
    with Client(broker.url) as client:
        client.send(name, "m")
        coordinator = Coordinator(client)
        transaction = coordinator.declare()
        receiver = client.receiver(name)
        retire(receiver.receive(), transaction)
        coordinator.discharge(transaction)
        receiver.close()

        assert client.bodies(name) == []


def test_retired_message_comes_back_counted_after_a_rollback(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §4.4.2; amqp10 §13.2: a rolled back retirement is a failed attempt."""
    with Client(broker.url) as client:
        client.send(name, "1", "2")
        coordinator = Coordinator(client)
        transaction = coordinator.declare()
        receiver = client.receiver(name)
        for one in receiver.receive_many(2):
            retire(one, transaction)
        coordinator.discharge(transaction, fail=True)
        again = receiver.receive_many(2)
        for one in again:
            one.accept()

    assert [one.body for one in again] == ["1", "2"]
    assert [one.message.delivery_count for one in again] == [1, 1]


def test_rollbacks_count_towards_the_dead_letter_address(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.8: `max-delivery-attempts` 3 holds for rollbacks."""
    address = f"attempts3.{name}"
    with Client(broker.url) as client:
        client.send(address, Message(subject=name, body="m"))
        coordinator = Coordinator(client)
        receiver = client.receiver(address)
        for _ in range(3):
            transaction = coordinator.declare()
            retire(receiver.receive(), transaction)
            coordinator.discharge(transaction, fail=True)
        dead = client.receiver("DLQ", selector=f"JMSType = '{name}'").receive()
        dead.accept()

        assert dead.body == "m"
        assert receiver.drain() == []


def test_one_transaction_moves_a_message_from_queue_to_queue(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §4.1: a send and an acknowledgement succeed or fail together."""
    source, target = name + "-in", name + "-out"
    with Client(broker.url) as client:
        client.send(source, "m")
        coordinator = Coordinator(client)
        receiver, sender = client.receiver(source), client.sender(target)
        for fail in (True, False):
            transaction = coordinator.declare()
            received = receiver.receive()
            post(sender, transaction, "moved")
            retire(received, transaction)
            coordinator.discharge(transaction, fail)
            found = client.bodies(target)
            assert found == ([] if fail else ["moved"])
        receiver.close()

        assert client.bodies(source) == []


def test_transactions_end_in_rollback_with_their_connection(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §4.3: what was not discharged never happened."""
    with Client(broker.url) as client:
        client.send(name, "stays")
        other = Client(broker.url)
        transaction = Coordinator(other).declare()
        post(other.sender(name), transaction, "lost")
        retire(other.receiver(name).receive(), transaction)
        other.close()

        assert client.bodies(name) == ["stays"]


def test_transactions_end_in_rollback_with_their_coordinator(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §4.3: the transaction lives on the link that declared it."""
    with Client(broker.url) as client:
        coordinator = Coordinator(client)
        transaction = coordinator.declare()
        post(client.sender(name), transaction, "lost")
        coordinator.sender.close()

        assert client.bodies(name) == []


def test_discharge_of_an_unknown_transaction_is_rejected(broker: BrokerProcess) -> None:
    """AMQP 1.0 §4.5.8 `amqp:transaction:unknown-id`."""
    with Client(broker.url) as client:
        coordinator = Coordinator(client)
        with pytest.raises(Refused) as refused:
            coordinator.discharge(b"\x00\x01\x02")

    assert refused.value.condition == "amqp:transaction:unknown-id"


def test_transaction_can_be_discharged_once(broker: BrokerProcess) -> None:
    """AMQP 1.0 §4.5.3: its id is unknown afterwards."""
    with Client(broker.url) as client:
        coordinator = Coordinator(client)
        transaction = coordinator.declare()
        coordinator.discharge(transaction)
        with pytest.raises(Refused) as refused:
            coordinator.discharge(transaction)

    assert refused.value.condition == "amqp:transaction:unknown-id"


def test_transactions_have_different_ids(broker: BrokerProcess) -> None:
    """AMQP 1.0 §4.5.5."""
    with Client(broker.url) as client:
        coordinator = Coordinator(client)
        identifiers = []
        for _ in range(3):
            identifiers.append(coordinator.declare())
            coordinator.discharge(identifiers[-1])

    assert len(set(identifiers)) == 3


def test_commit_that_cannot_hold_is_rejected(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §4.5.3; amqp10 §13.2: a post that failed makes the transaction roll back."""
    address = f"full.fail.{name}"
    with Client(broker.url) as client:
        sender = client.sender(address)
        for body in ("1", "2", "3"):
            sender.send(body)
        coordinator = Coordinator(client)
        transaction = coordinator.declare()
        other = client.sender(name)
        post(other, transaction, "undone")
        post(sender, transaction, "too many")
        with pytest.raises(Refused) as refused:
            coordinator.discharge(transaction)

        assert refused.value.condition == "amqp:transaction:rollback"
        assert client.bodies(name) == []
        assert client.bodies(address) == ["1", "2", "3"]


def test_released_in_a_transaction_returns_on_commit(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §4.4.2: any outcome may be transactional."""
    with Client(broker.url) as client:
        client.send(name, "m")
        coordinator = Coordinator(client)
        transaction = coordinator.declare()
        receiver = client.receiver(name)
        retire(receiver.receive(), transaction, Delivery.RELEASED)
        coordinator.discharge(transaction)

        assert receiver.bodies() == ["m"]


def test_coordinator_tells_what_it_can(broker: BrokerProcess) -> None:
    """AMQP 1.0 §4.5.1: `amqp:local-transactions` among the capabilities of the answer."""
    with Client(broker.url) as client:
        capabilities: Data = Coordinator(client).sender.link.remote_target.capabilities
        capabilities.rewind()
        found = []
        if capabilities.next():
            value = capabilities.get_object()
            found = [str(item) for item in (value.elements if hasattr(value, "elements") else [value])]

    assert "amqp:local-transactions" in found


def test_protons_own_transaction_class_works(broker: BrokerProcess, name: str) -> None:
    """The style of `proton.reactor`: declare, send, commit; declare, send, abort."""

    class Publisher(MessagingHandler, TransactionHandler):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.endings: list[str] = []

        def on_start(self, event: object) -> None:
            self.container = event.container  # type: ignore[attr-defined]
            self.connection = self.container.connect(broker.url, reconnect=False)
            self.sender = self.container.create_sender(self.connection, name)
            self.container.declare_transaction(self.connection, handler=self)

        def on_transaction_declared(self, event: object) -> None:
            transaction: Transaction = event.transaction  # type: ignore[attr-defined]
            transaction.send(self.sender, Message(body=f"in {len(self.endings)}"))
            if self.endings:
                transaction.commit()
            else:
                transaction.abort()

        def on_transaction_aborted(self, event: object) -> None:
            self.endings.append("aborted")
            self.container.declare_transaction(self.connection, handler=self)

        def on_transaction_committed(self, event: object) -> None:
            self.endings.append("committed")
            self.connection.close()

    publisher = Publisher()
    Container(publisher).run()

    assert publisher.endings == ["aborted", "committed"]
    with Client(broker.url) as client:
        assert client.bodies(name) == ["in 1"]


def test_discharge_with_a_half_sent_delivery_ends_the_control_link(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §4.4.1: with transaction-rollback; what was posted is gone."""
    with Client(broker.url) as client:
        coordinator = Coordinator(client)
        transaction = coordinator.declare()
        sender = client.sender(name)
        post(sender, transaction, "whole")
        delivery = sender.link.delivery("half")
        delivery.local.data = [transaction]
        delivery.update(0x34)
        # Larger than a frame, so that Proton writes the first one and waits for the rest.
        sender.link.stream(Message(body="x" * 300_000).encode()[:200_000])
        client.sync()
        with pytest.raises(Refused) as refused:
            coordinator.discharge(transaction)

        assert refused.value.condition == "amqp:transaction:rollback"
        sender.close()
        assert client.bodies(name) == []


def test_acquiring_in_a_transaction_is_refused(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §4.4.3: a flow with a `txn-id`, which Proton cannot write."""
    with Client(broker.url) as client:
        client.send(name, "m")
    window = uint(1000)
    source, target = Described(ulong(0x28), [name]), Described(ulong(0x29), [])
    with Raw(broker) as raw:
        raw.send(opening("raw") + BEGIN_FRAME)
        raw.send(frame(composed(ATTACH, "r", uint(0), True, None, None, source, target)))
        properties = {symbol("txn-id"): b"any"}
        flow = (None, window, uint(0), window, uint(0), uint(0), uint(1), None, None, None, properties)
        raw.send(frame(composed(FLOW, *flow)))
        fields, _ = raw.next(DETACH)

    assert fields[2].value[0] == symbol("amqp:not-implemented")
