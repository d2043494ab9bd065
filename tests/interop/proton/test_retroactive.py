"""Retroactive addresses of a broker.xml, with a broker that was started from it (artemis-model §3.11)."""

import json

import pytest
from proton import Message

from tests.interop.broker_process import BrokerProcess, Instance, launch
from tests.interop.conftest import StartBroker
from tests.interop.proton.client import Client, Refused

TOPIC = ("topic",)
PREFIX = "$.artemis.internal."
SETTINGS = """
<address-setting match="news.#"><retroactive-message-count>3</retroactive-message-count></address-setting>
<address-setting match="orders.#"><retroactive-message-count>2</retroactive-message-count></address-setting>
"""
INSTANCE = Instance(persistence="true", settings=SETTINGS)


@pytest.fixture(scope="module")
def keeping(start: StartBroker) -> BrokerProcess:
    """The one broker of this module."""
    return start(INSTANCE)


def durable(body: str, **properties: str) -> Message:
    return Message(body=body, durable=True, properties=properties)


def test_row_19_a_late_subscriber_gets_the_last_messages(keeping: BrokerProcess) -> None:
    with Client(keeping.url, "late") as client:
        client.send("news.a", *"12345", capabilities=TOPIC)
        late = client.receiver("news.a", TOPIC)
        client.send("news.a", "6", capabilities=TOPIC)
        received = late.receive_many(4)

        assert [each.body for each in received] == ["3", "4", "5", "6"]
        assert not [name for each in received for name in each.annotations if "ORIG" in name]


def test_the_selector_of_a_subscription_applies_to_the_history(keeping: BrokerProcess) -> None:
    with Client(keeping.url) as client:
        client.send(
            "news.b", durable("1", kind="x"), durable("2", kind="y"), durable("3", kind="x"), capabilities=TOPIC
        )

        assert client.receiver("news.b", TOPIC, selector="kind = 'x'").bodies() == ["1", "3"]


def test_row_19_a_durable_subscriber_that_comes_back_gets_nothing_again(start: StartBroker) -> None:
    """Nor after a restart; a new one gets the history of before."""
    first = start(INSTANCE)
    with Client(first.url, "c") as client:
        client.send("news.c", *[durable(each) for each in "1234"], capabilities=TOPIC)
        subscriber = client.receiver("news.c", TOPIC, name="s", durable=True)
        for each in subscriber.receive_many(3):
            each.accept()
        subscriber.detach()
        assert client.receiver("news.c", TOPIC, name="s", durable=True).bodies() == []
    first.stop()
    second = launch(first.directory)
    try:
        with Client(second.url, "c") as client:
            assert client.receiver("news.c", TOPIC, name="s", durable=True).bodies() == []
            assert client.receiver("news.c", TOPIC, name="new", durable=True).bodies() == ["2", "3", "4"]
    finally:
        second.stop()


def test_an_anycast_queue_begins_with_the_anycast_history(keeping: BrokerProcess) -> None:
    """Whatever another queue of the address has given away already."""
    with Client(keeping.url) as client:
        client.send("orders.a", *"123", capabilities=("queue",))
        assert client.bodies("orders.a") == ["1", "2", "3"]

        assert client.receiver("orders.a::orders.second", ("queue",)).bodies() == ["2", "3"]


def test_clients_can_browse_the_history_and_nothing_else(keeping: BrokerProcess) -> None:
    ring = f"{PREFIX}news.d.address.retro::{PREFIX}news.d.queue.multicast.retro"
    with Client(keeping.url) as client:
        client.send("news.d", "1", capabilities=TOPIC)
        for attempt in (
            lambda: client.sender(ring),
            lambda: client.sender(f"{PREFIX}news.d.address.retro"),
            lambda: client.sender(f"{PREFIX}other"),
            lambda: client.receiver(ring),
            lambda: client.receiver(f"{PREFIX}news.d.address.retro", TOPIC),
        ):
            with pytest.raises(Refused) as refused:
                attempt()
            assert refused.value.condition == "amqp:unauthorized-access"
        assert client.receiver(ring, copy=True).bodies() == ["1"]


def test_management_shows_histories_as_internal(keeping: BrokerProcess) -> None:
    with Client(keeping.url) as client:
        client.send("news.e", "1", capabilities=TOPIC)
        queues = {each["name"]: each for each in management(client, "listQueues")}
        addresses = {each["name"]: each for each in management(client, "listAddresses")}

    ring = queues[f"{PREFIX}news.e.queue.multicast.retro"]
    assert (ring["internal"], ring["hidden"], ring["ringSize"], ring["maxConsumers"]) == (True, True, 3, 0)
    assert ring["messageCount"] == 1
    assert addresses[f"{PREFIX}news.e.address.retro"]["internal"]
    assert not addresses["news.e"]["hidden"]


def management(client: Client, operation: str) -> list[dict[str, object]]:
    """The rows of a list of the management."""
    replies = client.receiver(None, dynamic=True)
    request = Message(
        body="[]",
        reply_to=replies.address,
        properties={"_AMQ_ResourceName": "broker", "_AMQ_OperationName": operation},
    )
    client.send("activemq.management", request)
    reply = json.loads(replies.receive().body)
    rows: list[dict[str, object]] = json.loads(reply[0])["data"]
    return rows
