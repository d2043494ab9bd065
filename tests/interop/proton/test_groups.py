"""Message groups, exclusive queues and consumer priorities with Proton."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proton import Message

from tests.interop.broker_process import BrokerProcess, Instance, start_broker
from tests.interop.proton.client import Client, Receiver

MINUS_ONE = 0xFFFFFFFF


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that marks first messages."""
    instance = Instance(
        settings='<address-setting match="first.#"><default-group-first-key>first</default-group-first-key>'
        "<max-delivery-attempts>-1</max-delivery-attempts></address-setting>"
        '<address-setting match="first.sole.#"><default-exclusive-queue>true</default-exclusive-queue>'
        "</address-setting>",
    )
    broker = start_broker(instance, Path(tmp_path_factory.mktemp("groups")))
    yield broker
    broker.stop()


def grouped(body: str, group: str, sequence: int | None = None, **options: Any) -> Message:
    message = Message(body=body, **options)
    message.group_id = group
    if sequence is not None:
        message.group_sequence = sequence
    return message


def manage(client: Client, queue: str, operation: str, *parameters: object) -> Any:
    replies = client.receiver(None, dynamic=True)
    properties = {"_AMQ_ResourceName": f"queue.{queue}", "_AMQ_OperationName": operation}
    request = Message(body=json.dumps(parameters), reply_to=replies.address, properties=properties)
    client.sender("activemq.management").send(request)
    replies.flow(1)
    reply = replies.receive().message
    assert reply.properties["_AMQ_OperationSucceeded"], reply.body
    return json.loads(reply.body)[0]


def take(receiver: Receiver, count: int) -> list[str]:
    receiver.flow(count)
    return [receiver.receive().body for _ in range(count)]


def test_a_group_stays_with_a_consumer_and_holds_up_nobody_else(broker: BrokerProcess, name: str) -> None:
    with Client(broker.url) as producer, Client(broker.url) as one, Client(broker.url) as two:
        first, second = one.receiver(name), two.receiver(name)
        sender = producer.sender(name)
        first.flow(1)
        sender.send(grouped("a 1", "a"))
        assert first.receive().body == "a 1"
        for number in range(2, 5):
            sender.send(grouped(f"a {number}", "a"))
        sender.send(grouped("b 1", "b"))

        assert take(second, 1) == ["b 1"]
        assert take(first, 3) == ["a 2", "a 3", "a 4"]


def test_group_sequence_minus_one_closes_a_group(broker: BrokerProcess, name: str) -> None:
    """As an unsigned number it is 4294967295 (amqp10 §3)."""
    with Client(broker.url) as producer, Client(broker.url) as one, Client(broker.url) as two:
        first, second = one.receiver(name), two.receiver(name)
        sender = producer.sender(name)
        first.flow(1)
        sender.send(grouped("1", "a"))
        first.receive().accept()
        sender.send(grouped("2", "a", MINUS_ONE))
        first.flow(1)
        first.receive().accept()
        one.sync()
        second.flow(1)
        sender.send(grouped("3", "a"))

        assert second.receive().body == "3"


def test_a_detached_link_keeps_its_group_until_its_deliveries_are_settled(broker: BrokerProcess, name: str) -> None:
    """Its session goes on, and may settle them (AMQP 1.0 §2.7.6)."""
    with Client(broker.url) as producer, Client(broker.url) as one, Client(broker.url) as two:
        first = one.receiver(name)
        sender = producer.sender(name)
        first.flow(1)
        sender.send(grouped("a 1", "a"))
        delivery = first.receive()
        first.link.detach()
        one.sync()
        sender.send(grouped("a 2", "a"))
        sender.send(grouped("b 1", "b"))
        second = two.receiver(name)
        second.flow(2)
        assert second.receive().body == "b 1"

        delivery.accept()
        one.sync()

        assert second.receive().body == "a 2"


def test_the_first_message_has_a_property(keyed: BrokerProcess, name: str) -> None:
    """Among the others that it has, also if it is large or durable."""
    with Client(keyed.url) as client:
        receiver = client.receiver(f"first.{name}")
        receiver.flow(10)
        large = "x" * 300_000
        sender = client.sender(f"first.{name}")
        sender.send(grouped("1", "a", properties={"n": 1}, durable=True))
        sender.send(grouped("2", "a", properties={"n": 2}))
        sender.send(grouped("3", "b"))
        sender.send(grouped(large, "c", properties={"first": False, "n": 4}))
        sender.send(Message(body="5"))
        received = [receiver.receive().message for _ in range(5)]

    assert [one.properties for one in received] == [
        {"n": 1, "first": True},
        {"n": 2},
        {"first": True},
        {"n": 4, "first": True},
        None,
    ]
    assert [one.body for one in received] == ["1", "2", "3", large, "5"]
    assert received[0].group_id == "a"


def test_an_exclusive_queue_marks_the_first_message_of_each_consumer(keyed: BrokerProcess, name: str) -> None:
    queue = f"first.sole.{name}"
    with Client(keyed.url) as producer, Client(keyed.url) as one, Client(keyed.url) as two:
        first, second = one.receiver(queue), two.receiver(queue)
        sender = producer.sender(queue)
        first.flow(2)
        sender.send(Message(body="1"))
        sender.send(Message(body="2"))
        deliveries = [first.receive(), first.receive()]
        second.flow(3)
        first.close()
        received = [second.receive().message for _ in range(2)]

    assert [one.message.properties for one in deliveries] == [{"first": True}, None]
    assert [(one.body, one.properties) for one in received] == [("1", {"first": True}), ("2", None)]


def test_management_lists_and_resets_groups(broker: BrokerProcess, name: str) -> None:
    with Client(broker.url) as producer, Client(broker.url) as one, Client(broker.url) as two:
        first, second = one.receiver(name), two.receiver(name)
        first.flow(1)
        producer.sender(name).send(grouped("1", "a"))
        first.receive().accept()
        one.sync()
        listed = json.loads(manage(producer, name, "listGroupsAsJSON"))
        assert [each["groupID"] for each in listed] == ["a"]
        assert manage(producer, name, "getGroupCount") == 1

        manage(producer, name, "resetGroup", "a")
        manage(producer, name, "resetAllGroups")
        assert json.loads(manage(producer, name, "listGroupsAsJSON")) == []
        second.flow(1)
        producer.sender(name).send(grouped("2", "a"))

        assert second.receive().body == "2"


def test_a_lower_consumer_priority_is_served_while_the_higher_has_no_credit(broker: BrokerProcess, name: str) -> None:
    with Client(broker.url) as producer, Client(broker.url) as one, Client(broker.url) as two:
        low, high = one.receiver(name), two.receiver(f"{name}?consumer-priority=5")
        low.flow(5)
        high.flow(1)
        producer.send(name, "1", "2")

        assert high.receive().body == "1"
        assert low.receive().body == "2"
