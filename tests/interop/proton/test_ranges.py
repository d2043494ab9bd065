"""Parts of a queue by the numbers of its messages, as any client reads them."""

import json
from typing import Any

import pytest
from proton import Described, Message, symbol

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client, Receiver, Refused

FILTER = symbol("artemis:sequence-range:list")


def part(client: Client, address: str, *bounds: object, **options: Any) -> Receiver:
    """A browser of a range."""
    return client.receiver(address, copy=True, filters={str(FILTER): Described(FILTER, list(bounds))}, **options)


def number(message: Message) -> int:
    return int(message.annotations[symbol("x-opt-sequence-number")])


def ask(client: Client, resource: str, operation: str, *parameters: object) -> Any:
    """A management operation; its result, or the reason as Refused."""
    replies = client.receiver(None, dynamic=True)
    properties = {"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}
    message = Message(body=json.dumps(parameters), reply_to=replies.address, properties=properties)
    client.sender("activemq.management").send(message)
    replies.flow(1)
    reply = replies.receive().message
    (result,) = json.loads(reply.body)
    if not reply.properties["_AMQ_OperationSucceeded"]:
        raise Refused(None, result)
    return json.loads(result) if isinstance(result, str) else result


def test_a_range_comes_in_the_order_of_its_numbers(broker: BrokerProcess, name: str) -> None:
    """Priorities decide what is consumed first, not what is where."""
    with Client(broker.url) as client:
        for index in range(6):
            client.sender(name).send(Message(body=str(index), priority=9 - index))
        browser = part(client, name, 2, 5)

        assert browser.filters == [str(FILTER)]
        assert [(one.body, number(one.message)) for one in browser.drain()] == [("1", 2), ("2", 3), ("3", 4)]
        assert browser.drain() == []


def test_what_a_consumer_holds_is_in_the_range(broker: BrokerProcess, name: str) -> None:
    with Client(broker.url) as client, Client(broker.url) as other:
        client.send(name, "1", "2", "3")
        other.receiver(name).receive_many(2)

        assert [one.body for one in part(client, name, 1, 4).drain()] == ["1", "2", "3"]


def test_a_range_may_reach_beyond_the_end(broker: BrokerProcess, name: str) -> None:
    """What comes later is delivered when it comes."""
    with Client(broker.url) as client:
        client.send(name, "1")
        browser = part(client, name, 1, 1000)
        assert [one.body for one in browser.drain()] == ["1"]
        browser.flow(1)
        client.send(name, "2")

        assert browser.receive().body == "2"


def test_a_selector_chooses_within_the_range(broker: BrokerProcess, name: str) -> None:
    with Client(broker.url) as client:
        for index in range(6):
            client.sender(name).send(Message(body=str(index), properties={"n": index}))

        assert [one.body for one in part(client, name, 1, 5, selector="n > 1").drain()] == ["2", "3"]


def test_settled_deliveries_are_sent_settled(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.8.2: a link whose sender settles everything has no unsettled delivery, a browser's either."""
    with Client(broker.url) as client:
        client.send(name, "1")
        browser = client.receiver(name, copy=True, settled=True)

        assert [one.delivery.settled for one in browser.drain()] == [True]


@pytest.mark.parametrize("bounds", [(), (1,), (1, 2, 3, 4), ("1", "2"), (True, False)])
def test_what_is_no_range_is_refused(broker: BrokerProcess, name: str, bounds: tuple[object, ...]) -> None:
    with Client(broker.url) as client:
        client.send(name, "1")
        with pytest.raises(Refused, match="a sequence range is a list of two numbers"):
            part(client, name, *bounds)


def test_a_range_is_for_browsers(broker: BrokerProcess, name: str) -> None:
    with Client(broker.url) as client, pytest.raises(Refused, match="distribution-mode copy"):
        client.receiver(name, filters={str(FILTER): Described(FILTER, [1, 2])})


def test_a_queue_made_anew_is_another_queue(broker: BrokerProcess, name: str) -> None:
    with Client(broker.url) as client:
        client.send(name, "1")
        (head,) = ask(client, "reader", "heads", {"queues": [name]})["queues"]
        browser = part(client, name, 1, 2, head["queueId"])
        assert [one.body for one in browser.drain()] == ["1"]
        browser.close()
        ask(client, "broker", "destroyQueue", name)
        client.send(name, "2")

        with pytest.raises(Refused, match="was created again"):
            part(client, name, 1, 2, head["queueId"])


def test_heads_say_where_queues_begin_and_end(broker: BrokerProcess, name: str) -> None:
    with Client(broker.url) as client:
        client.send(name, "1", "2", "3")
        client.receiver(name).receive_many(1)[0].accept()
        client.sync()
        by_name = ask(client, "reader", "heads", {"queues": [f"{name}::{name}"]})
        by_address = ask(client, "reader", "heads", {"addresses": [name]})

    assert by_name == by_address
    (head,) = by_name["queues"]
    assert (head["address"], head["queue"], head["first"], head["next"], head["messageCount"]) == (name, name, 2, 4, 2)


def test_acknowledging_up_to_a_number_is_cumulative_and_repeatable(broker: BrokerProcess, name: str) -> None:
    with Client(broker.url) as client:
        client.send(name, "1", "2", "3", "4")
        (head,) = ask(client, "reader", "heads", {"queues": [name]})["queues"]
        position = {"queues": [[name, head["queueId"], 3]]}

        assert ask(client, "reader", "acknowledgeUpTo", position) == {"acknowledged": {name: 2}, "complete": True}
        assert ask(client, "reader", "acknowledgeUpTo", position) == {"acknowledged": {name: 0}, "complete": True}
        other = {"queues": [[name, head["queueId"] + 1000, 5], ["never-was", 1, 5]]}
        assert ask(client, "reader", "acknowledgeUpTo", other) == {"acknowledged": {}, "complete": True}
        assert ask(client, f"queue.{name}", "getMessagesAcknowledged") == 2
        assert client.bodies(name) == ["3", "4"]


def test_a_request_acknowledges_a_part_of_much(broker: BrokerProcess, name: str) -> None:
    """The broker's other clients do not wait for it."""
    with Client(broker.url) as client:
        sender = client.sender(name)
        for delivery in [sender.start("x") for _ in range(5001)]:
            sender.wait(delivery)
        (head,) = ask(client, "reader", "heads", {"queues": [name]})["queues"]
        position = {"queues": [[name, head["queueId"], head["next"]]]}

        answers = [ask(client, "reader", "acknowledgeUpTo", position)["complete"] for _ in range(2)]

    assert answers == [False, True]


def test_a_range_of_a_wildcard_queue_tells_where_messages_were_sent_to(broker: BrokerProcess, name: str) -> None:
    """Whoever consumes from it gets what it always got."""
    capabilities = ("topic", "shared", "global")
    with Client(broker.url) as client:
        client.receiver(f"{name}.#", name="s", durable=True, capabilities=capabilities)
        client.send(f"{name}.a", "1")
        client.send(f"{name}.b.c", "2")
        queue = f"{name}.#::s:global"

        found = part(client, queue, 1, 3).drain()
        browsed = client.receiver(queue, copy=True).drain()

    assert [one.message.annotations[symbol("x-opt-address")] for one in found] == [f"{name}.a", f"{name}.b.c"]
    assert [symbol("x-opt-address") in one.message.annotations for one in browsed] == [False, False]
