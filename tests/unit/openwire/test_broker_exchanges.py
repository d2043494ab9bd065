"""Destinations that mean an exchange: `exchange://name/key` (docs/exchanges.md)."""

from pathlib import Path
from typing import Any

import pytest

from artemis_openwire.broker.exchange_names import ExchangeName, read_exchange_name
from artemis_openwire.engine.commands import ConsumerInfo, RemoveSubscriptionInfo
from artemis_openwire.engine.structures import ActiveMQDestination, ConnectionId
from artemis_openwire.engine.values import write_map
from artemis_py.core.settings.exchange_config import Unroutable
from tests.openwire_site import Client, Site, connected, queue, text_of, topic
from tests.unit.core.exchange_world import bind, make_exchange, make_queues, publish


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("exchange://e/a.b/c", ExchangeName("e", "a.b/c")),
        ("exchange://e", ExchangeName("e", None)),
        ("exchange://e/", ExchangeName("e", None)),
        ("exchange", None),
        ("e/k", None),
    ],
)
def test_names_of_exchanges(name: str, wanted: ExchangeName | None) -> None:
    """What follows the first slash is the key."""
    assert read_exchange_name(name) == wanted


def make_site(**options: Any) -> Site:
    """Queues a and b, bound to the topic exchange e under their names."""
    site = Site()
    make_exchange(site.domain, "e", "topic", **options)
    make_queues(site.domain, "a b")
    for name in "ab":
        bind(site.domain, "e", name, name)
    return site


def counts(site: Site) -> dict[str, int]:
    """Messages of each queue that has any."""
    return {name: each.message_count for name, each in site.domain.queues.items() if each.message_count}


KEYS: list[tuple[ActiveMQDestination, dict[str, Any], str]] = [
    (topic("exchange://e/a"), {"type": "b"}, "a"),
    (queue("exchange://e/a"), {}, "a"),
    (topic("exchange://e"), {"type": "b"}, "b"),
    (topic("exchange://e"), {"type": "b", "marshalled_properties": write_map({"routing_key": "a"})}, "a"),
    (topic("exchange://e"), {"type": "b", "marshalled_properties": write_map({"routing-key": "a"})}, "a"),
    (topic("exchange://e"), {"type": "b", "marshalled_properties": write_map({"routing_key": 7})}, "b"),
]


@pytest.mark.parametrize(("destination", "fields", "key"), KEYS)
def test_where_the_routing_key_comes_from(destination: ActiveMQDestination, fields: dict[str, Any], key: str) -> None:
    """The destination, else a property, else the type of the message; none is an empty key."""
    site = make_site()
    client = connected(site)
    client.send(destination, "m", **fields)
    client.send(topic("exchange://e"), "nothing")

    assert counts(site) == {key: 1}
    assert "exchange://e" not in site.domain.addresses


def test_a_list_may_have_exchanges() -> None:
    """Beside other destinations; each part gets its copy."""
    site = make_site()
    connected(site).send(queue("exchange://e/a,exchange://e/b,c"), "m")

    assert counts(site) == {"a": 1, "b": 1, "c": 1}


def test_what_reaches_no_queue_is_refused_if_the_exchange_says_so() -> None:
    """Otherwise it is discarded, as for a topic without subscribers."""
    for unroutable in Unroutable:
        site = make_site(unroutable=unroutable)
        client = connected(site)
        message = client.text(topic("exchange://e/none"))
        if unroutable is Unroutable.REJECT:
            assert client.refused(message) == "InvalidDestinationException"
        else:
            client.done(message)


@pytest.mark.parametrize("name", ["exchange://none/k", "exchange://"])
def test_an_exchange_that_is_not_there_is_refused(name: str) -> None:
    """To producers and consumers; nothing is created."""
    site = Site()
    client = connected(site)

    assert client.refused(client.text(topic(name))) == "InvalidDestinationException"
    info = ConsumerInfo(consumer_id=client.consumer(), destination=topic(name), prefetch_size=1)
    assert client.refused(info) == "InvalidDestinationException"
    assert not site.domain.addresses


def test_messages_for_an_exchange_that_was_deleted_are_refused() -> None:
    """They do not go to an address of that name."""
    site = make_site()
    client = connected(site)
    client.send(topic("exchange://e/a"), "m")
    site.domain.exchanges.delete(site.domain.exchanges.exchange("e"))

    assert client.refused(client.text(topic("exchange://e/a"))) == "InvalidDestinationException"
    assert counts(site) == {"a": 1}


def test_messages_for_an_exchange_cannot_be_scheduled() -> None:
    """A job sends to an address."""
    client = connected(make_site())
    properties = write_map({"AMQ_SCHEDULED_DELAY": 1000})

    assert client.refused(client.text(topic("exchange://e/a"), marshalled_properties=properties)) == "JMSException"


def names(client: Client) -> list[tuple[str | None, str]]:
    """Destinations and texts of what was delivered."""
    return [(one.destination.physical_name, text_of(one)) for one in client.dispatches() if one.destination]


def test_a_subscriber_names_a_binding_key() -> None:
    """In the words of exchanges; each delivery names the routing key of its message, and can be sent on there."""
    site = make_site()
    client = connected(site)
    client.consume(topic("exchange://e/*.eu.#"), value=1, selector="colour = 'red'")
    client.consume(topic("exchange://amq.fanout"), value=2)
    red, blue = (write_map({"colour": colour}) for colour in ("red", "blue"))
    client.send(topic("exchange://e/new.eu"), "1", marshalled_properties=red)
    client.send(topic("exchange://e/new.eu"), "2", marshalled_properties=blue)
    client.send(topic("exchange://e/old.eu.de"), "3", marshalled_properties=red)
    client.send(topic("exchange://e/new.us"), "4", marshalled_properties=red)
    client.send(topic("exchange://amq.fanout"), "5")

    assert names(client) == [
        ("exchange://e/new.eu", "1"),
        ("exchange://e/old.eu.de", "3"),
        ("exchange://amq.fanout/", "5"),
    ]
    client.lose()
    site.turn()
    assert set(site.domain.queues) == {"a", "b"}
    assert len(site.domain.exchanges.exchange("e").bindings) == 2


def test_a_durable_subscription_outlives_its_client(tmp_path: Path) -> None:
    """It collects while the client is away and over a restart; another key makes another subscription of it."""

    def subscribe(site: Site, key: str) -> Client:
        client = connected(site)
        answer = client.consume(topic(f"exchange://amq.topic/{key}"), subscription_name="sub")
        assert type(answer).__name__ == "Response", answer
        return client

    site = Site(tmp_path)
    subscribe(site, "a.*").lose()
    site.turn()
    connected(site, "other").send(topic("exchange://amq.topic/a.b"), "1")
    site.commit()
    site.crash()
    site = Site(tmp_path)
    connected(site, "other").send(topic("exchange://amq.topic/a.c"), "2")
    client = subscribe(site, "a.*")
    assert client.texts() == ["1", "2"]
    client.lose()
    site.turn()
    client = subscribe(site, "b")
    assert client.texts() == []
    client.remove(client.consumer())
    connection = ConnectionId(value=client.name)
    client.done(RemoveSubscriptionInfo(connection_id=connection, client_id="c1", subscription_name="sub"))
    assert not site.domain.queues
    assert not site.domain.exchanges.exchange("amq.topic").bindings
    site.crash()


@pytest.mark.parametrize(
    ("destination", "fields"),
    [
        (queue("exchange://amq.topic/a.*"), {}),
        (topic("exchange://amq.topic/a"), {"browser": True}),
        (topic("exchange://amq.match"), {}),
    ],
)
def test_consumers_that_are_refused(destination: ActiveMQDestination, fields: dict[str, Any]) -> None:
    """An exchange has no messages, and a headers exchange is subscribed to with what no destination can say."""
    site = Site()
    client = connected(site)
    info = ConsumerInfo(consumer_id=client.consumer(), destination=destination, prefetch_size=1, **fields)

    assert client.refused(info) == "InvalidDestinationException"
    assert not site.domain.queues


def test_a_direct_exchange_needs_a_key() -> None:
    """A subscription would never get anything."""
    client = connected(Site())
    info = ConsumerInfo(consumer_id=client.consumer(), destination=topic("exchange://amq.direct"), prefetch_size=1)

    assert client.refused(info) == "JMSException"


def test_messages_of_other_protocols_come_with_their_keys() -> None:
    """And those that were converted."""
    site = Site()
    client = connected(site)
    client.consume(topic("exchange://amq.topic/x.#"))
    publish(site.domain, "amq.topic", "x.y")

    assert [one.destination.physical_name for one in client.dispatches() if one.destination] == [
        "exchange://amq.topic/x.y"
    ]
