"""Duplicate detection with a client that sends again what it is not sure of (artemis-model §3.13)."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from proton import Message, symbol

from tests.interop.broker_process import BrokerProcess, Instance, launch
from tests.interop.conftest import StartBroker
from tests.interop.proton.client import Client, Refused
from tests.interop.proton.test_transactions import Coordinator, post

NAME = "_AMQ_DUPL_ID"

CORE = """
<security-enabled>false</security-enabled>
<id-cache-size>50</id-cache-size>
"""
DURABLE = Instance(
    persistence="true", core=CORE, addresses='<address name="q"><anycast><queue name="q"/></anycast></address>'
)


def protected(body: str, id: object, durable: bool = True) -> Message:
    """A message under an id."""
    return Message(body=body, durable=durable, properties={NAME: id})


@pytest.mark.parametrize("id", ["an id", b"an id", uuid4()], ids=["text", "octets", "uuid"])
def test_a_second_message_under_an_id_is_accepted_and_dropped(broker: BrokerProcess, name: str, id: object) -> None:
    """artemis-model §3.13: the sender sees accepted; the message is not routed."""
    with Client(broker.url) as client:
        client.send(name, protected("1", id), protected("again", id), protected("2", "another"))

        assert client.bodies(name) == ["1", "2"]


def test_an_annotation_protects_as_well(broker: BrokerProcess, name: str) -> None:
    """For senders that may not touch the bare message; the consumer sees it as it came."""
    with Client(broker.url) as client:
        for body in ("1", "again"):
            client.send(name, Message(body=body, annotations={symbol(NAME): "id"}))
        receiver = client.receiver(name)
        received = receiver.receive()
        received.accept()
        receiver.close()

        assert (received.body, received.annotations[NAME]) == ("1", "id")
        assert client.bodies(name) == []


def test_messages_under_no_id_are_all_taken(broker: BrokerProcess, name: str) -> None:
    with Client(broker.url) as client:
        client.send(name, "m", "m", Message(body="m", properties={"id": "same"}))
        client.send(name, Message(body=NAME, properties={"id": "same"}))

        assert client.bodies(name) == ["m", "m", "m", NAME]


def test_a_duplicate_in_a_transaction_fails_its_commit(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.13: rollback-only, although each message is accepted."""
    with Client(broker.url) as client:
        sender, coordinator = client.sender(name), Coordinator(client)
        for attempt in (1, 2):
            transaction = coordinator.declare()
            for message in (protected(f"{attempt}a", "id"), Message(body=f"{attempt}b")):
                delivery = post(sender, transaction, message)
                sender.wait(delivery)
                delivery.settle()
            if attempt == 1:
                coordinator.discharge(transaction)
            else:
                with pytest.raises(Refused, match=r"amqp:transaction:rollback.*same id"):
                    coordinator.discharge(transaction)

        assert client.bodies(name) == ["1a", "1b"]


def test_a_rolled_back_message_may_come_again(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.13: its id is forgotten."""
    with Client(broker.url) as client:
        sender, coordinator = client.sender(name), Coordinator(client)
        transaction = coordinator.declare()
        sender.wait(post(sender, transaction, protected("lost", "id")))
        coordinator.discharge(transaction, fail=True)
        sender.send(protected("kept", "id"))

        assert client.bodies(name) == ["kept"]


def test_an_acceptor_may_ignore_ids(start: StartBroker, name: str) -> None:
    """artemis-model §4.1.1 `amqpDuplicateDetection`."""
    broker = start(Instance(parameters="protocols=AMQP;amqpDuplicateDetection=false"))

    with Client(broker.url) as client:
        client.send(name, protected("1", "id"), protected("2", "id"))

        assert client.bodies(name) == ["1", "2"]


@pytest.mark.parametrize("ending", [BrokerProcess.stop, BrokerProcess.kill], ids=["stop", "kill -9"])
def test_ids_survive_the_broker(start: StartBroker, ending: Callable[[BrokerProcess], None]) -> None:
    """P11: what was accepted before the end is a duplicate after it, consumed or not."""
    broker = start(DURABLE)
    messages = [protected(str(number), f"id-{number}") for number in range(60)]
    with Client(broker.url) as client:
        client.send("q", *messages)
        receiver = client.receiver("q")
        for received in receiver.receive_many(55):
            received.accept()
    ending(broker)
    broker = launch(broker.directory)

    with Client(broker.url) as client:
        client.send("q", *messages[10:], protected("new", "new"), messages[0])

        assert client.bodies("q")[-2:] == ["new", "0"]
        assert "duplicate not routed: address=q" in broker.log_text()
    broker.stop()
