"""Exchanges, with Proton as the client and a store: routing keys, unroutable messages, headers, a restart."""

from collections.abc import Iterator

import pytest
from proton import Described, Message, symbol, uint

from artemis_py.broker import Broker
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.testing.running import RunningBroker, running_broker
from tests.core_harness import make_queue
from tests.interop.proton.client import Client, Refused
from tests.unit.core.exchange_world import bind, chain, make_exchange


def set_up(broker: Broker) -> None:
    """Queues, and all types of exchanges, one of them chained."""
    domain = broker.domain
    for name in ("eu", "all", "pdf", "orders", "spare"):
        make_queue(domain, name)
    make_exchange(domain, "orders", "topic")
    bind(domain, "orders", "*.eu.#", "eu")
    bind(domain, "orders", "#", "all")
    chain(domain, "amq.direct", "order", "orders", {"x-replacement-routing-key": "new.eu"})
    bind(domain, "amq.match", "", "pdf", {"x-match": "all", "format": "pdf", "pages": 7, "kind": "letter"})


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    """A broker with a store."""
    with running_broker(persistent=True) as running:
        running._ask(set_up)
        yield running


def test_messages_come_through_exchanges_before_and_after_a_restart(broker: RunningBroker) -> None:
    """Their bindings are there again, and so are the messages."""
    for _ in range(2):
        with Client(broker.url()) as client:
            client.send("orders", Message(body="subject", subject="new.eu.de", durable=True))
            client.send("orders/new.us", Message(body="address", subject="new.eu", durable=True))
            client.send("amq.direct/order", Message(body="chain", durable=True))
            client.send("orders::orders", Message(body="queue", durable=True))
        broker.restart()
    with Client(broker.url()) as client:
        assert client.bodies("eu") == ["subject", "chain"] * 2
        assert client.bodies("all") == ["subject", "address", "chain"] * 2
        assert client.bodies("orders::orders") == ["queue"] * 2


def test_headers_of_amqp_are_compared_by_value(broker: RunningBroker) -> None:
    """A uint equals the number in the binding, and a symbol the text."""
    properties = {"format": "pdf", "pages": uint(7), "kind": symbol("letter")}
    with Client(broker.url()) as client:
        client.send("amq.match", Message(body="fits", properties=properties))
        client.send("amq.match", Message(body="has more pages", properties={**properties, "pages": uint(8)}))
        client.send("amq.match", Message(body="has none"))

        assert client.bodies("pdf") == ["fits"]


def test_an_unroutable_message_is_rejected_if_the_client_wants_that(broker: RunningBroker) -> None:
    """Otherwise it is accepted, as the exchange says; the relay finds exchanges, too."""
    with Client(broker.url()) as client:
        client.send("amq.direct/nothing", "discarded")
        sender = client.sender("amq.direct/nothing", ["REJECT_UNROUTABLE"])
        with pytest.raises(Refused, match="no queue gets what is sent to exchange") as refused:
            sender.send("rejected")
        client.sender(None).send(Message(body="relayed", address="orders/new.eu"))

        assert refused.value.condition == "amqp:not-found"
        assert client.bodies("eu") == client.bodies("all") == ["relayed"]


def test_a_receiver_subscribes_through_an_exchange(broker: RunningBroker) -> None:
    """With a key, or a key and a selector; its queue ends with it."""
    red = "colour = 'red'"
    binding = Described(symbol("apache.org:legacy-amqp-topic-binding:string"), "new.#")
    with Client(broker.url()) as client:
        by_address = client.receiver("orders/*.us")
        by_filter = client.receiver("orders", ["topic"], filters={"key": binding}, selector=red)
        for key, colour in (("new.us", "red"), ("new.eu", "blue"), ("old.us", "red")):
            client.send(f"orders/{key}", Message(body=key, properties={"colour": colour}))

        assert by_address.bodies() == ["new.us", "old.us"]
        assert by_filter.bodies() == ["new.us"]
        assert sorted(by_filter.filters) == ["jms-selector", "key"]
        by_address.close()
        by_filter.close()
        assert sorted(broker.queue_names) == ["all", "eu", "orders", "pdf", "spare"]


def publish(broker: RunningBroker, *sent: tuple[str, Message]) -> None:
    """Send messages to addresses, and wait for their outcomes."""
    with Client(broker.url()) as client:
        for address, message in sent:
            client.send(address, message)


def test_a_durable_subscription_outlives_its_client_and_the_broker(broker: RunningBroker) -> None:
    """It collects what its binding lets through, and ends when the client closes it."""
    red = "colour = 'red'"
    messages = [
        (f"orders/{key}", Message(body=key, durable=True, properties={"colour": colour}))
        for key, colour in (("new.us", "red"), ("new.eu", "red"), ("old.us", "blue"))
    ]
    with Client(broker.url(), "me") as client:
        client.receiver("orders/*.us", name="sub", durable=True, selector=red).detach()
    publish(broker, *messages)
    broker.restart()
    publish(broker, *messages)
    with Client(broker.url(), "me") as client:
        receiver = client.receiver("orders/*.us", name="sub", durable=True, selector=red)
        assert receiver.bodies() == ["new.us", "new.us"]
        receiver.detach()
        client.receiver("orders/*.us", name="sub", durable=True, selector="colour = 'blue'").detach()
    publish(broker, *messages)
    broker.restart()
    with Client(broker.url(), "me") as client:
        receiver = client.receiver("orders/*.us", name="sub", durable=True, selector="colour = 'blue'")
        assert receiver.bodies() == ["old.us"]
        receiver.close()
    broker.restart()
    assert sorted(broker.queue_names) == ["all", "eu", "orders", "pdf", "spare"]


def test_clients_share_a_subscription(broker: RunningBroker) -> None:
    """Each message goes to one of them; a global subscription is for clients of any container."""
    with Client(broker.url(), "one") as one, Client(broker.url(), "two") as two:
        receivers = [
            client.receiver("orders/#", ["topic", "shared", "global"], name=f"s|volatile{number}")
            for number, client in enumerate((one, two))
        ]
        for receiver in receivers:
            receiver.flow(4)
        one.sync()
        two.sync()
        publish(broker, *[("orders/x", Message(body=number)) for number in range(8)])
        taken = [[each.body for each in receiver.receive_many(4)] for receiver in receivers]

        assert sorted(taken[0] + taken[1]) == list(range(8))
        assert "s:shared-volatile:global" in broker.queue_names


def test_a_sender_is_detached_when_its_exchange_is_deleted(broker: RunningBroker) -> None:
    """And told why, while it has nothing to send."""
    with Client(broker.url()) as client:
        sender = client.sender("orders/new.eu")
        sender.send("first")
        broker._ask(lambda running: running.domain.exchanges.delete(running.domain.exchanges.exchange("orders")))

        assert sender.wait_closed().condition == "amqp:resource-deleted"
        assert client.bodies("eu") == ["first"]


def test_messages_of_a_group_stay_with_one_consumer(broker: RunningBroker) -> None:
    """Whatever they came through, and whichever routing key they had."""
    with Client(broker.url()) as one, Client(broker.url()) as two:
        receivers = [client.receiver("all") for client in (one, two)]
        for receiver in receivers:
            receiver.flow(20)
        one.sync()
        two.sync()
        keys = ("new.eu", "old.us", "x")
        publish(
            broker,
            *[(f"orders/{keys[n % 3]}", Message(body=n, group_id="abcd"[n % 4])) for n in range(12)],
        )
        one.wait(lambda: receivers[0].waiting > 0, "the first group")
        two.wait(lambda: receivers[1].waiting > 0, "the second group")
        one.sync()
        two.sync()
        taken = [[int(each.body) for each in receiver.receive_many(receiver.waiting)] for receiver in receivers]

        assert sorted(taken[0] + taken[1]) == list(range(12))
        assert not {number % 4 for number in taken[0]} & {number % 4 for number in taken[1]}
        assert [sorted(each) for each in taken] == taken


def test_what_came_through_an_exchange_can_be_browsed(broker: RunningBroker) -> None:
    """It stays, with its routing key as a property that selectors know."""
    with Client(broker.url()) as client:
        for key in ("new.eu", "old.eu", "new.eu.de"):
            client.send(f"orders/{key}", key)
        browser = client.receiver("eu", copy=True, selector="_AMQ_ROUTING_KEY LIKE 'new.%'")

        assert [each.body for each in browser.drain()] == ["new.eu", "new.eu.de"]
        assert client.bodies("eu") == ["new.eu", "old.eu", "new.eu.de"]


def test_a_subscription_delivers_as_far_as_its_credit_goes(broker: RunningBroker) -> None:
    """The rest waits in its queue; what is released comes again."""
    with Client(broker.url()) as client:
        receiver = client.receiver("orders/#")
        receiver.flow(2)
        client.sync()
        for number in range(5):
            client.send("orders/k", Message(body=number))
        first, second = receiver.receive_many(2)
        client.sync()
        assert (first.body, second.body, receiver.waiting) == (0, 1, 0)
        first.release()
        second.accept()

        assert receiver.bodies() == [0, 2, 3, 4]


def test_a_sender_waits_for_a_full_queue_behind_its_exchange(broker: RunningBroker) -> None:
    """It gets no credit until somebody has read the queue; no message is lost or refused."""
    full = AddressSettings(max_size_messages=10, address_full_policy=FullPolicy.BLOCK)
    broker._ask(lambda running: running.domain.settings.put("spare", full))
    broker._ask(lambda running: bind(running.domain, "amq.direct", "k", "spare"))
    with Client(broker.url()) as client, Client(broker.url()) as reader:
        sender = client.sender("amq.direct/k")
        credit = sender.link.credit
        deliveries = [sender.start(Message(body=number)) for number in range(credit)]
        for delivery in deliveries:
            sender.wait(delivery)
        client.sync()
        assert sender.link.credit == 0

        taken: list[object] = []
        while len(taken) < credit:
            taken += reader.bodies("spare")
        assert taken == list(range(credit))
        client.wait(lambda: sender.link.credit > 0, "credit")
        sender.send("more")
        assert reader.bodies("spare") == ["more"]
