"""Subscriptions: their queues' names, lives and filters (artemis-model §4.1.4)."""

import pytest
from proton import Described, Message

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import NO_LOCAL_CODE, Client, Refused

TOPIC, SHARED, GLOBAL = ("topic",), ("topic", "shared"), ("topic", "shared", "global")


@pytest.fixture
def topic(broker: BrokerProcess, name: str) -> str:
    """A MULTICAST address."""
    address = f"topic.{name}"
    with Client(broker.url) as client:
        client.sender(address, TOPIC).close()
    return address


def test_durable_subscription_keeps_messages_while_its_consumer_is_away(broker: BrokerProcess, topic: str) -> None:
    """AMQP 1.0 §2.6.4: detach without close keeps a durable terminus."""
    with Client(broker.url, f"c-{topic}") as client:
        subscriber = client.receiver(topic, TOPIC, name="s1", durable=True)
        subscriber.detach()
        client.send(topic, "while away")
        again = client.receiver(topic, TOPIC, name="s1", durable=True)

        assert again.bodies() == ["while away"]


def test_durable_subscription_survives_its_connection(broker: BrokerProcess, topic: str) -> None:
    """artemis-model §4.1.4: the terminus is durable, the connection is not."""
    with Client(broker.url, f"c-{topic}") as client:
        client.receiver(topic, TOPIC, name="s1", durable=True)
    with Client(broker.url) as producer:
        producer.send(topic, "while away")
    with Client(broker.url, f"c-{topic}") as client:
        assert client.receiver(topic, TOPIC, name="s1", durable=True).bodies() == ["while away"]


@pytest.mark.parametrize(
    ("container", "link", "durable", "capabilities", "queue"),
    [
        ("n1", "s1", True, TOPIC, "n1.s1"),
        ("n2", "s1", True, SHARED, "n2.s1"),
        ("n3", "s1|2", True, SHARED, "n3.s1"),
        ("n4", "s1", False, SHARED, "n4.s1:shared-volatile"),
        ("n5", "s1|volatile1", False, SHARED, "n5.s1:shared-volatile"),
        ("n6", "g1", True, GLOBAL, "g1:global"),
        ("n7", "g2|global", True, GLOBAL, "g2:global"),
        ("n8", "g3", False, GLOBAL, "g3:shared-volatile:global"),
    ],
)
def test_subscription_queue_has_the_name_artemis_gives_it(
    broker: BrokerProcess,
    topic: str,
    container: str,
    link: str,
    durable: bool,
    capabilities: tuple[str, ...],
    queue: str,
) -> None:
    """artemis-model §4.1.4, names: what is queued for the subscription is found under its fully qualified name."""
    with Client(broker.url, container) as client, Client(broker.url) as other:
        subscriber = client.receiver(topic, capabilities, name=link, durable=durable)
        client.send(topic, "m")
        if "shared" not in capabilities:
            subscriber.detach()  # such a queue takes one consumer at a time

        assert other.bodies(f"{topic}::{queue}") == ["m"]


def test_unshared_subscription_takes_one_consumer(broker: BrokerProcess, topic: str) -> None:
    """artemis-model §4.1.4: its queue has `max-consumers` 1."""
    with Client(broker.url, f"c-{topic}") as client, Client(broker.url) as other:
        client.receiver(topic, TOPIC, name="s1", durable=True)
        with pytest.raises(Refused) as refused:
            other.receiver(f"{topic}::c-{topic}.s1", TOPIC)

    assert refused.value.condition == "amqp:resource-limit-exceeded"


@pytest.mark.parametrize("durable", [True, False])
def test_shared_subscription_divides_the_messages(broker: BrokerProcess, topic: str, durable: bool) -> None:
    """artemis-model §4.1.4: link names equal up to the first `|` share one queue."""
    with Client(broker.url, f"c-{topic}") as client:
        first = client.receiver(topic, SHARED, name="s", durable=durable)
        second = client.receiver(topic, SHARED, name="s|2", durable=durable)
        first.flow(10)
        second.flow(10)
        client.send(topic, "1", "2", "3", "4")
        client.wait(lambda: first.waiting + second.waiting == 4, "four messages")

        assert (first.waiting, second.waiting) == (2, 2)


@pytest.mark.parametrize("durable", [True, False])
def test_global_subscription_is_shared_by_containers(broker: BrokerProcess, topic: str, durable: bool) -> None:
    """artemis-model §4.1.4: capability `global` leaves the container out of the name."""
    with Client(broker.url, f"c1-{topic}") as one, Client(broker.url, f"c2-{topic}") as two:
        first = one.receiver(topic, GLOBAL, name=f"s-{topic}", durable=durable)
        second = two.receiver(topic, GLOBAL, name=f"s-{topic}", durable=durable)
        first.flow(10)
        second.flow(10)
        one.sync()
        two.sync()
        one.send(topic, "1", "2", "3", "4")
        taken = [first.receive().body, first.receive().body, second.receive().body, second.receive().body]

    assert sorted(taken) == ["1", "2", "3", "4"]


def test_shared_subscriptions_of_different_containers_are_different(broker: BrokerProcess, topic: str) -> None:
    """artemis-model §4.1.4: without `global` the container is part of the name."""
    with Client(broker.url, f"c1-{topic}") as one, Client(broker.url, f"c2-{topic}") as two:
        first = one.receiver(topic, SHARED, name="s", durable=True)
        second = two.receiver(topic, SHARED, name="s", durable=True)
        one.send(topic, "m")

        assert [first.bodies(), second.bodies()] == [["m"], ["m"]]


def test_shared_volatile_subscription_ends_with_its_last_consumer(broker: BrokerProcess, topic: str) -> None:
    """artemis-model §4.1.4."""
    with Client(broker.url, f"c-{topic}") as client:
        first = client.receiver(topic, SHARED, name="s")
        second = client.receiver(topic, SHARED, name="s|2")
        first.close()
        client.send(topic, "kept")
        kept = second.drain()
        second.close()
        client.send(topic, "nobody")
        third = client.receiver(topic, SHARED, name="s")

        assert [one.body for one in kept] == ["kept"]
        assert third.bodies() == []


def test_plain_subscription_ends_with_its_link(broker: BrokerProcess, topic: str) -> None:
    """artemis-model §4.1.4: a temporary queue."""
    with Client(broker.url, f"c-{topic}") as client:
        client.receiver(topic, TOPIC, name="s").close()
        client.send(topic, "nobody")

        assert client.receiver(topic, TOPIC, name="s").bodies() == []


def test_closing_a_durable_subscription_removes_it(broker: BrokerProcess, topic: str) -> None:
    """AMQP 1.0 §2.6.6: close ends the terminus."""
    with Client(broker.url, f"c-{topic}") as client:
        client.receiver(topic, TOPIC, name="s1", durable=True).close()
        client.send(topic, "nobody")

        assert client.receiver(topic, TOPIC, name="s1", durable=True).bodies() == []


def test_unsubscribe_removes_the_subscription(broker: BrokerProcess, topic: str) -> None:
    """artemis-model §4.1.4 rule 1: attach with a null source by name, then close."""
    with Client(broker.url, f"c-{topic}") as client:
        client.receiver(topic, TOPIC, name="s1", durable=True).detach()
        client.send(topic, "forgotten")
        client.unsubscribe("s1")

        assert client.receiver(topic, TOPIC, name="s1", durable=True).bodies() == []


def test_unsubscribing_what_does_not_exist_is_not_found(broker: BrokerProcess, name: str) -> None:
    """artemis-model §4.1.4 rule 1."""
    with Client(broker.url, f"c-{name}") as client, pytest.raises(Refused) as refused:
        client.unsubscribe("never")

    assert refused.value.condition == "amqp:not-found"


def test_null_source_lookup_answers_with_the_stored_terminus(broker: BrokerProcess, topic: str) -> None:
    """AMQP 1.0 §2.6.3 recovery: ask what the broker remembers."""
    with Client(broker.url, f"c-{topic}") as client:
        client.receiver(topic, TOPIC, name="s1", durable=True).detach()
        lookup = client.receiver(None, name="s1")

        assert lookup.address == topic


def test_subscription_selector_filters_what_is_queued(broker: BrokerProcess, topic: str) -> None:
    """artemis-model §4.1.4: the selector is the queue's filter."""
    with Client(broker.url, f"c-{topic}") as client, Client(broker.url) as other:
        client.receiver(topic, TOPIC, name="s1", durable=True, selector="n > 1").detach()
        for number in (1, 2, 3):
            client.send(topic, Message(body=number, properties={"n": number}))

        assert other.bodies(f"{topic}::c-{topic}.s1") == [2, 3]


def test_another_selector_makes_the_subscription_anew(broker: BrokerProcess, topic: str) -> None:
    """artemis-model §4.1.4: deleted and created again when it has no consumers, so what was queued is gone."""
    with Client(broker.url, f"c-{topic}") as client:
        client.receiver(topic, TOPIC, name="s1", durable=True, selector="n = 1").detach()
        client.send(topic, Message(body="old", properties={"n": 1}))
        subscriber = client.receiver(topic, TOPIC, name="s1", durable=True, selector="n = 2")
        client.send(topic, Message(body="unwanted", properties={"n": 1}))
        client.send(topic, Message(body="new", properties={"n": 2}))

        assert subscriber.bodies() == ["new"]


def test_the_same_selector_keeps_the_subscription(broker: BrokerProcess, topic: str) -> None:
    """artemis-model §4.1.4."""
    with Client(broker.url, f"c-{topic}") as client:
        client.receiver(topic, TOPIC, name="s1", durable=True, selector="n = 1").detach()
        client.send(topic, Message(body="old", properties={"n": 1}))

        assert client.receiver(topic, TOPIC, name="s1", durable=True, selector="n = 1").bodies() == ["old"]


def test_another_address_makes_the_subscription_anew(broker: BrokerProcess, topic: str) -> None:
    """artemis-model §4.1.4: as with another selector."""
    with Client(broker.url, f"c-{topic}") as client:
        client.receiver(topic, TOPIC, name="s1", durable=True).detach()
        client.send(topic, "old")
        subscriber = client.receiver(f"{topic}.other", TOPIC, name="s1", durable=True)
        client.send(topic, "unwanted")
        client.send(f"{topic}.other", "new", capabilities=TOPIC)

        assert subscriber.bodies() == ["new"]


def test_another_selector_is_refused_while_the_subscription_is_in_use(broker: BrokerProcess, topic: str) -> None:
    """artemis-model §4.1.4: with consumers, `amqp:illegal-state`."""
    with Client(broker.url, f"c-{topic}") as client:
        client.receiver(topic, SHARED, name="s", durable=True, selector="n = 1")
        with pytest.raises(Refused) as refused:
            client.receiver(topic, SHARED, name="s|2", durable=True, selector="n = 2")

    assert refused.value.condition == "amqp:illegal-state"


def test_no_local_subscriber_does_not_get_its_own_messages(broker: BrokerProcess, topic: str) -> None:
    """artemis-model §4.1.4: no-local compares the producer's container."""
    no_local = {"no-local": Described(NO_LOCAL_CODE, [])}
    with Client(broker.url, f"c-{topic}") as client, Client(broker.url) as other:
        subscriber = client.receiver(topic, TOPIC, filters=no_local)
        filters = subscriber.filters
        client.send(topic, "own")
        other.send(topic, "other")

        assert filters == ["no-local"]
        assert subscriber.bodies() == ["other"]


def test_each_subscriber_settles_for_itself(broker: BrokerProcess, topic: str) -> None:
    """artemis-model §1.2: every multicast queue has a reference of its own."""
    with Client(broker.url) as client:
        first, second = client.receiver(topic, TOPIC), client.receiver(topic, TOPIC)
        client.send(topic, "m")
        first.receive().accept()
        second.receive().release()

        assert first.bodies() == []
        assert second.bodies() == ["m"]
