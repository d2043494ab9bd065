"""Exchanges, with Proton as the client and a store: routing keys, unroutable messages, headers, a restart."""

from collections.abc import Iterator

import pytest
from proton import Described, Message, symbol, uint

from artemis_py.broker import Broker
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
