"""Topics, durable subscriptions, lists, patterns, virtual topics and qualified names (openwire §10, §15.3, §15.6)."""

from typing import Any

import pytest

from artemis_openwire.engine.commands import (
    ConsumerInfo,
    DestinationInfo,
    MessageDispatch,
    MessagePull,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
)
from artemis_openwire.engine.structures import ActiveMQDestination, ActiveMQTopic, ConnectionId, ProducerId
from artemis_openwire.engine.values import Long, write_map
from artemis_py.core.names.routing_type import RoutingType
from tests.openwire_site import Client, Site, connected, queue, text_of, topic

NEWS = topic("news")


def names(client: Client) -> list[str]:
    """Destinations and texts of what was delivered."""
    return sorted(f"{one.destination.physical_name} {text_of(one)}" for one in client.dispatches() if one.destination)


def durable(client: Client, name: str = "sub", **fields: Any) -> None:
    answer = client.consume(NEWS, subscription_name=name, **fields)
    assert type(answer).__name__ == "Response", answer


def unsubscribe(client: Client, name: str = "sub") -> RemoveSubscriptionInfo:
    connection = ConnectionId(value=client.name)
    return RemoveSubscriptionInfo(connection_id=connection, client_id="ignored", subscription_name=name)


def test_a_subscriber_may_prefer_to_miss_old_messages() -> None:
    """Beyond its window no more wait than it asks for; others get all."""
    client = connected(Site())
    client.consume(NEWS, value=1, prefetch=1, maximum_pending_message_limit=2)
    client.consume(NEWS, value=2, prefetch=10)
    client.send(NEWS, *"12345")
    found = client.dispatches()
    (first,) = [one for one in found if one.consumer_id == client.consumer(1)]
    client.ack(first, first, kind=2)
    (second,) = client.dispatches()

    assert len(found) == 6
    assert (text_of(first), text_of(second)) == ("1", "4")


def test_every_subscriber_gets_a_copy() -> None:
    client = connected(Site())
    client.consume(NEWS, value=1)
    client.consume(NEWS, value=2)
    client.send(NEWS, "m")

    assert sorted(one.consumer_id.value for one in client.dispatches() if one.consumer_id) == [1, 2]


def test_a_selector_keeps_messages_out() -> None:
    client = connected(Site())
    client.consume(NEWS, selector="colour = 'red'")
    client.send(NEWS, "r", marshalled_properties=write_map({"colour": "red"}))
    client.send(NEWS, "b", marshalled_properties=write_map({"colour": "blue"}))

    assert client.texts() == ["r"]


def test_a_wrong_selector_is_named() -> None:
    client = connected(Site())

    wrong = ConsumerInfo(consumer_id=client.consumer(), destination=NEWS, selector="a =", prefetch_size=1)

    assert client.refused(wrong) == "InvalidSelectorException"


def test_no_local_leaves_out_what_the_connection_sent() -> None:
    site = Site()
    client = connected(site)
    client.consume(NEWS, no_local=True)
    client.send(NEWS, "own")
    connected(site, "c2").send(NEWS, "other's")

    assert client.texts() == ["other's"]


def test_a_durable_subscription_collects_while_its_client_is_away() -> None:
    site = Site()
    client = connected(site)
    durable(client)
    client.remove(client.consumer())
    client.send(NEWS, "kept")
    durable(client)

    assert client.texts() == ["kept"]
    assert "client c1.sub" in site.domain.queues


def test_dots_in_names_do_not_mix_subscriptions_up() -> None:
    site = Site()
    first = Client(site, "c1").log_in(client_id="a.b")
    second = Client(site, "c2").log_in(client_id="a")
    durable(first, "c")
    durable(second, "b.c")
    first.send(NEWS, "m")

    assert (first.texts(), second.texts()) == (["m"], ["m"])


def test_a_durable_subscription_has_one_consumer() -> None:
    client = connected(Site())
    durable(client)

    second = ConsumerInfo(consumer_id=client.consumer(2), destination=NEWS, subscription_name="sub", prefetch_size=1)

    assert client.refused(second) == "JMSException"


def test_another_selector_begins_a_new_subscription() -> None:
    client = connected(Site())
    durable(client)
    client.remove(client.consumer())
    client.send(NEWS, "old")
    durable(client, selector="colour = 'red'")
    client.send(NEWS, "new", marshalled_properties=write_map({"colour": "red"}))

    assert client.texts() == ["new"]


def test_unsubscribing() -> None:
    """openwire §15.3: active ones stay; one that is unknown is an error."""
    client = connected(Site())
    durable(client)
    while_active = client.refused(unsubscribe(client))
    client.remove(client.consumer())
    client.done(unsubscribe(client))

    assert (while_active, client.refused(unsubscribe(client))) == ("JMSException", "InvalidDestinationException")
    assert "client c1.sub" not in client.site.domain.queues


def test_a_pattern_of_topics_names_the_topic_of_each_message() -> None:
    client = connected(Site())
    client.consume(topic("w.*"), value=1)
    client.consume(topic("w.>"), value=2)
    client.send(topic("w.x"), "1")
    client.send(topic("w.x.y"), "2")

    assert names(client) == ["w.x 1", "w.x 1", "w.x.y 2"]


def test_a_pattern_of_queues_takes_from_old_and_new_queues() -> None:
    client = connected(Site())
    client.send(queue("w.old"), "1")
    client.consume(queue("w.>"))
    client.send(queue("w.new"), "2")
    client.send(queue("other"), "3")
    client.site.pass_time(0)

    assert names(client) == ["w.new 2", "w.old 1"]


def test_a_pattern_of_queues_may_match_none() -> None:
    client = connected(Site())
    client.consume(queue("w.>"))
    client.send(queue("w.x"), "1")
    client.site.pass_time(0)
    client.site.domain.delete_queue("w.x", force=True)
    client.dispatches()
    client.send(queue("w.y"), "2")
    client.site.pass_time(0)

    assert names(client) == ["w.y 2"]


def test_a_browser_of_a_pattern_ends() -> None:
    client = connected(Site())
    client.send(queue("w.x"), "1")
    client.send(queue("w.y"), "2")
    client.consume(queue("w.>"), browser=True)

    *found, end = client.dispatches()

    assert sorted(text_of(one) for one in found) == ["1", "2"]
    assert end.message is None


def test_a_closed_consumer_of_a_pattern_takes_nothing_more() -> None:
    client = connected(Site())
    client.consume(queue("w.>"))
    client.remove(client.consumer())
    client.send(queue("w.x"), "1")
    client.site.pass_time(0)

    assert client.site.domain.queue("w.x").consumers == []


def test_the_window_of_a_consumer_covers_all_its_queues() -> None:
    client = connected(Site())
    client.send(queue("a"), "1", "2")
    client.send(queue("b"), "3", "4")
    client.consume(queue("a,b"), prefetch=3)
    found = client.dispatches()
    client.ack(found[0], found[-1], count=3)

    assert (len(found), len(client.dispatches())) == (3, 1)


def test_a_list_sends_to_each_part() -> None:
    """openwire §13: each copy names its part, and the list as the original destination."""
    client = connected(Site())
    client.consume(queue("a"), value=1)
    client.consume(topic("b"), value=2)
    both = queue("a,topic://b")
    client.send(both, "m")

    found: list[MessageDispatch] = client.dispatches()

    assert sorted(repr(one.message.destination) for one in found if one.message) == sorted(
        [repr(queue("a")), repr(topic("b"))]
    )
    assert [one.message.original_destination for one in found if one.message] == [both, both]


def test_a_qualified_name_is_a_queue_of_an_address() -> None:
    site = Site()
    client = connected(site)
    client.consume(topic("news::shared"), value=1)
    client.consume(topic("news::shared"), value=2)
    client.send(NEWS, "1", "2")

    assert sorted(client.texts()) == ["1", "2"]
    assert site.domain.queue("shared").address.name == "news"


RED = queue("a::red")


@pytest.mark.parametrize("declares", [True, False], ids=["declared", "anonymous"])
def test_a_qualified_name_can_be_sent_to(declares: bool) -> None:
    """artemis-model §1.5: this queue of the address and no other one, also before anybody consumes from it."""
    client = connected(Site())
    client.consume(queue("a::blue"), value=1)
    producer = ProducerId(connection_id=client.name, session_id=1, value=2)
    client.done(ProducerInfo(producer_id=producer, destination=RED if declares else None))
    client.send(RED, "m", producer_id=producer)
    others = client.dispatches()
    client.consume(RED, value=2)
    (found,) = client.dispatches()

    assert others == []
    assert found.message is not None
    assert (found.destination, found.message.destination) == (RED, RED)


def test_a_qualified_name_can_be_part_of_a_list() -> None:
    """For senders and for consumers."""
    client = connected(Site())
    client.consume(queue("a::red,b"))
    client.send(queue("b,a::red"), "1")
    client.send(RED, "2")

    assert names(client) == ["a::red 1", "a::red 2", "b 1"]


def test_a_queue_with_a_qualified_name_can_be_browsed_and_pulled_from() -> None:
    client = connected(Site())
    client.send(RED, "m")
    client.consume(RED, value=1, browser=True)
    browsed = client.texts()
    client.consume(RED, value=2, prefetch=0)
    client.tell(MessagePull(consumer_id=client.consumer(2), destination=RED, timeout=-1))

    assert (browsed, client.texts()) == (["m", ""], ["m"])


def test_a_qualified_name_works_in_transactions_and_for_scheduled_messages() -> None:
    site = Site()
    client = connected(site)
    client.consume(RED)
    client.tell(client.step(0))
    client.send(RED, "1", transaction_id=client.transaction())
    before = client.texts()
    client.done(client.step(2))
    committed = client.texts()
    client.send(RED, "2", marshalled_properties=write_map({"AMQ_SCHEDULED_DELAY": Long(1000)}))
    early = client.texts()
    site.pass_time(2)

    assert (before, committed, early, client.texts()) == ([], ["1"], [], ["2"])


def test_a_queue_of_a_topic_is_a_queue_by_its_qualified_name() -> None:
    """artemis-model §1.5: it gets the kind that the address has; each of its consumers has its own selector."""
    site = Site()
    client = connected(site)
    client.consume(NEWS, value=1)
    client.consume(queue("news::all"), value=2, selector="colour = 'red'")
    client.consume(queue("news::all"), value=3, selector="colour = 'blue'")
    client.send(NEWS, "r", marshalled_properties=write_map({"colour": "red"}))
    client.send(NEWS, "b", marshalled_properties=write_map({"colour": "blue"}))
    found = client.dispatches()
    client.send(queue("orders"), "m")
    refused = client.refused(ConsumerInfo(consumer_id=client.consumer(4), destination=topic("orders::x")))

    assert sorted((one.consumer_id.value, text_of(one)) for one in found if one.consumer_id) == [
        (1, "b"),
        (1, "r"),
        (2, "r"),
        (3, "b"),
    ]
    assert site.domain.queue("all").routing_type is RoutingType.MULTICAST
    assert refused == "InvalidDestinationException"


def test_a_qualified_name_may_have_a_pattern_of_topics() -> None:
    """The wildcards are those of OpenWire, and each delivery names its own topic."""
    client = connected(Site())
    client.consume(topic("news.>::all"))
    client.send(topic("news.uk"), "1")
    client.send(topic("news.fr.paris"), "2")

    assert names(client) == ["news.fr.paris 2", "news.uk 1"]


def test_a_queue_is_removed_by_its_qualified_name() -> None:
    """And not by that of another address."""
    client = connected(Site())
    client.send(RED, "m")

    def remove(destination: ActiveMQDestination) -> list[str]:
        connection = ConnectionId(value="c1")
        client.done(DestinationInfo(connection_id=connection, destination=destination, operation_type=1))
        domain = client.site.domain
        return [name for name in ("red", "a") if name in domain.queues or name in domain.addresses]

    assert [remove(queue("b::red")), remove(RED)] == [["red", "a"], []]


def test_a_qualified_name_names_a_queue() -> None:
    client = connected(Site())
    wrong = queue("a::")
    refusals = [
        client.refused(ConsumerInfo(consumer_id=client.consumer(), destination=wrong)),
        client.refused(client.text(wrong)),
        client.refused(DestinationInfo(connection_id=ConnectionId(value="c1"), destination=wrong, operation_type=1)),
    ]

    assert refusals == ["InvalidDestinationException"] * 3


def test_a_virtual_topic() -> None:
    """artemis-model §4.3.4: the queue is on the topic's address, and messages name the queue and the topic."""
    client = connected(Site(), virtualTopicConsumerWildcards="Consumer.*.>;2")
    client.consume(queue("Consumer.A.VT.x"), value=1)
    client.consume(queue("Consumer.B.VT.x"), value=2)
    client.send(topic("VT.x"), "m")

    found = client.dispatches()

    assert sorted(one.destination.physical_name or "" for one in found if one.destination) == [
        "Consumer.A.VT.x",
        "Consumer.B.VT.x",
    ]
    assert {one.message.destination == one.destination for one in found if one.message} == {True}
    assert {one.message.original_destination for one in found if one.message} == {topic("VT.x")}


@pytest.mark.parametrize(("words", "left"), [("2", ["blue"]), ("2;selectorAware=true", [])], ids=["consumer", "queue"])
def test_the_selector_of_a_virtual_topic_is_the_consumers_or_the_queues(words: str, left: list[str]) -> None:
    """What no consumer selects stays in the queue, unless the selector is the queue's filter."""
    client = connected(Site(), virtualTopicConsumerWildcards=f"Consumer.*.>;{words}")
    client.consume(queue("Consumer.A.VT.x"), selector="colour = 'red'")
    client.send(topic("VT.x"), "red", marshalled_properties=write_map({"colour": "red"}))
    client.send(topic("VT.x"), "blue", marshalled_properties=write_map({"colour": "blue"}))
    found = client.dispatches()
    client.ack(None, found[0])
    client.remove(client.consumer())
    client.consume(queue("Consumer.A.VT.x"))

    assert [text_of(one) for one in found] == ["red"]
    assert client.texts() == left


def test_the_queue_of_a_virtual_topic_has_a_qualified_name() -> None:
    """Both names create the same queue, whichever comes first, and each consumer gets the name that it used."""
    client = connected(Site(), virtualTopicConsumerWildcards="Consumer.*.>;2")
    client.consume(queue("VT.x::Consumer.A.VT.x"), value=1)
    client.consume(queue("Consumer.A.VT.x"), value=2)
    client.send(topic("VT.x"), "1")
    client.send(queue("VT.x::Consumer.A.VT.x"), "2")

    assert names(client) == ["Consumer.A.VT.x 2", "VT.x::Consumer.A.VT.x 1"]


def test_a_message_to_the_queue_of_a_virtual_topic_gets_there() -> None:
    client = connected(Site(), virtualTopicConsumerWildcards="Consumer.*.>;2")
    client.consume(queue("Consumer.A.VT.x"))
    client.send(queue("Consumer.A.VT.x"), "m")

    assert client.texts() == ["m"]


def test_the_queue_of_a_virtual_topic_outlives_its_consumer() -> None:
    client = connected(Site(), virtualTopicConsumerWildcards="Consumer.*.>;2")
    client.consume(queue("Consumer.A.VT.x"))
    client.remove(client.consumer())
    client.send(topic("VT.x"), "kept")
    client.consume(queue("Consumer.A.VT.x"))

    assert client.texts() == ["kept"]


def test_destinations_are_removed_by_request() -> None:
    client = connected(Site())
    client.send(queue("q"), "m")
    remove = DestinationInfo(connection_id=ConnectionId(value="c1"), destination=queue("q"), operation_type=1)
    client.consume(queue("q"))
    in_use = client.refused(remove)
    client.dispatches()
    client.done(RemoveInfo(object_id=client.consumer()))
    client.done(remove)

    assert in_use == "JMSException"
    assert "q" not in client.site.domain.queues


def test_the_advisory_topics_of_a_pattern_are_not_queues() -> None:
    client = connected(Site())
    client.consume(ActiveMQTopic(physical_name="ActiveMQ.Advisory.>"))
    client.consume(queue("seen"), value=2)

    topics = {one.destination.physical_name for one in client.dispatches() if one.destination}

    assert "ActiveMQ.Advisory.Consumer.Queue.seen" in topics
    assert not any(name.startswith("ActiveMQ") for name in client.site.domain.queues)
