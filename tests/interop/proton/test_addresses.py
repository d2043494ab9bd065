"""Which queue a link ends at: capabilities, routing types, FQQN, relay, dynamic nodes (artemis-model §1.3 to 1.5,
4.1).
"""

import pytest
from proton import Delivery, Described, Message, byte, symbol, ulong
from proton.reactor import DynamicNodeProperties

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client, Refused

QUEUE, TOPIC = ("queue",), ("topic",)


def test_first_send_to_an_unknown_address_lands_in_a_queue(broker: BrokerProcess, name: str) -> None:
    """artemis-model §1.3: auto-created with `default-address-routing-type`, ANYCAST in this configuration."""
    with Client(broker.url) as client:
        client.send(name, "m")

        assert client.bodies(name) == ["m"]


def test_queue_capability_creates_a_queue(broker: BrokerProcess, name: str) -> None:
    """artemis-model §1.4: the capability beats the default (MULTICAST below `topic.`)."""
    address = f"topic.{name}"
    with Client(broker.url) as client:
        client.send(address, "m", capabilities=QUEUE)

        assert client.bodies(address, QUEUE) == ["m"]


def test_topic_capability_creates_a_topic(broker: BrokerProcess, name: str) -> None:
    """artemis-model §1.4: every subscriber gets a copy, none is kept for later ones."""
    with Client(broker.url) as client:
        client.send(name, "early", capabilities=TOPIC)
        first, second = client.receiver(name, TOPIC), client.receiver(name, TOPIC)
        client.send(name, "m", capabilities=TOPIC)

        assert first.bodies() == ["m"]
        assert second.bodies() == ["m"]


def test_receiver_without_capability_on_a_topic_is_a_subscriber(broker: BrokerProcess, name: str) -> None:
    """artemis-model §4.1.4 rule 6: an address that is only MULTICAST."""
    address = f"topic.{name}"
    with Client(broker.url) as client:
        client.send(address, "early")
        first, second = client.receiver(address), client.receiver(address)
        client.send(address, "m")

        assert first.bodies() == ["m"]
        assert second.bodies() == ["m"]


def test_receivers_without_capability_on_a_queue_compete(broker: BrokerProcess, name: str) -> None:
    """artemis-model §4.1.4 rule 6."""
    with Client(broker.url) as client:
        first, second = client.receiver(name), client.receiver(name)
        client.send(name, "1", "2")
        first.flow(1)
        second.flow(1)

        assert sorted([first.receive().body, second.receive().body]) == ["1", "2"]


@pytest.mark.parametrize(
    ("made", "asked", "condition"),
    [
        (QUEUE, QUEUE, None),
        (QUEUE, TOPIC, "amqp:illegal-state"),
        (QUEUE, (), None),
        (TOPIC, QUEUE, "amqp:illegal-state"),
        (TOPIC, TOPIC, None),
        (TOPIC, (), None),
        (QUEUE + TOPIC, QUEUE, None),
        (QUEUE + TOPIC, TOPIC, None),
        (QUEUE + TOPIC, (), None),
        ((), QUEUE, None),
        ((), TOPIC, None),
        ((), (), None),
    ],
)
def test_receiver_capability_must_suit_the_address(
    broker: BrokerProcess, name: str, made: tuple[str, ...], asked: tuple[str, ...], condition: str | None
) -> None:
    """artemis-model §4.1.4 rule 5: a receiver creates what is missing, and never widens what is there."""
    with Client(broker.url) as client:
        for capability in made:
            client.sender(name, (capability,)).close()
        if condition is None:
            client.receiver(name, asked).close()
            return
        with pytest.raises(Refused) as refused:
            client.receiver(name, asked)

    assert refused.value.condition == condition


def test_sender_capability_widens_the_address(broker: BrokerProcess, name: str) -> None:
    """artemis-model §1.4: unlike a receiver, a sender with a capability adds its routing type."""
    with Client(broker.url) as client:
        client.sender(name, QUEUE).close()
        client.sender(name, TOPIC).close()

        client.receiver(name, TOPIC).close()


def test_untyped_message_to_an_address_of_both_types_goes_to_both(broker: BrokerProcess) -> None:
    """artemis-model §1.2: a null routing type matches one anycast queue and every multicast queue."""
    with Client(broker.url) as client:
        first, second = client.receiver("both.static", TOPIC), client.receiver("both.static", TOPIC)
        queue = client.receiver("both.static", QUEUE)
        client.send("both.static", "untyped")

        assert [receiver.bodies() for receiver in (queue, first, second)] == [["untyped"]] * 3


@pytest.mark.parametrize(("capability", "queued", "published"), [(QUEUE, ["m"], []), (TOPIC, [], ["m"])])
def test_typed_message_goes_to_its_type_only(
    broker: BrokerProcess, capability: tuple[str, ...], queued: list[str], published: list[str]
) -> None:
    """artemis-model §1.2, the routing type gate."""
    with Client(broker.url) as client:
        topic, queue = client.receiver("both.static", TOPIC), client.receiver("both.static", QUEUE)
        client.send("both.static", "m", capabilities=capability)

        assert queue.bodies() == queued
        assert topic.bodies() == published


@pytest.mark.parametrize(("code", "queued", "published"), [(1, ["m"], []), (0, [], ["m"])])
def test_routing_type_annotation_decides_per_message(
    broker: BrokerProcess, code: int, queued: list[str], published: list[str]
) -> None:
    """artemis-model §4.1.5 `x-opt-routing-type`: byte 0 MULTICAST, 1 ANYCAST."""
    with Client(broker.url) as client:
        topic, queue = client.receiver("both.static", TOPIC), client.receiver("both.static", QUEUE)
        client.send("both.static", Message(body="m", annotations={symbol("x-opt-routing-type"): byte(code)}))

        assert queue.bodies() == queued
        assert topic.bodies() == published


def test_queues_of_one_anycast_address_take_turns(broker: BrokerProcess) -> None:
    """artemis-model §1.2: one queue of the group gets each message, in turn."""
    with Client(broker.url) as client:
        client.send("pair", "1", "2", "3", "4")
        left, right = client.bodies("pair::pair.left"), client.bodies("pair::pair.right")

    assert sorted(left + right) == ["1", "2", "3", "4"]
    assert len(left) == len(right) == 2


def test_queue_with_a_consumer_is_preferred(broker: BrokerProcess) -> None:
    """artemis-model §1.2: a queue without a matching consumer is avoided while another has one."""
    with Client(broker.url) as client:
        right = client.receiver("pair::pair.right")
        client.send("pair", "1", "2", "3")

        assert right.bodies() == ["1", "2", "3"]


def test_queue_filter_takes_what_it_matches(broker: BrokerProcess) -> None:
    """artemis-model §1.2: the filter is applied when routing to the queue."""
    with Client(broker.url) as client:
        client.send("filtered", Message(body=1, properties={"colour": "red"}))
        client.send("filtered", Message(body=2, properties={"colour": "blue"}))
        client.send("filtered", Message(body=3))

        assert client.bodies("filtered::filtered.red") == [1]


def test_message_to_a_fully_qualified_name_reaches_that_queue_only(broker: BrokerProcess) -> None:
    """artemis-model §1.5."""
    with Client(broker.url) as client:
        client.send("pair::pair.left", "1", "2")

        assert client.bodies("pair::pair.right") == []
        assert client.bodies("pair::pair.left") == ["1", "2"]


def test_fully_qualified_name_creates_a_queue_of_another_name(broker: BrokerProcess, name: str) -> None:
    """artemis-model §1.3: FQQN on a missing queue, when allowed."""
    with Client(broker.url) as client:
        client.send(f"{name}::{name}-q", "m", capabilities=QUEUE)

        assert client.bodies(f"{name}::{name}-q", QUEUE) == ["m"]


def test_fully_qualified_receiver_on_a_topic_shares_a_queue(broker: BrokerProcess, name: str) -> None:
    """artemis-model §4.1.4: multicast and FQQN use that queue, created when allowed; several consumers share it."""
    with Client(broker.url) as client:
        client.sender(name, TOPIC).close()
        first = client.receiver(f"{name}::{name}-sub", TOPIC)
        second = client.receiver(f"{name}::{name}-sub", TOPIC)
        client.send(name, "1", "2", capabilities=TOPIC)
        first.flow(1)
        second.flow(1)

        assert sorted([first.receive().body, second.receive().body]) == ["1", "2"]


def test_fully_qualified_name_of_another_address_is_not_found(broker: BrokerProcess, name: str) -> None:
    """artemis-model §1.5: the queue must be bound to the address that is named."""
    with Client(broker.url) as client:
        client.sender(name).close()
        with pytest.raises(Refused) as refused:
            client.receiver(f"{name}::pair.left")

    assert refused.value.condition == "amqp:not-found"


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_unknown_address_is_not_found_when_nothing_is_auto_created(broker: BrokerProcess, name: str, role: str) -> None:
    """artemis-model §4.5."""
    with Client(broker.url) as client, pytest.raises(Refused) as refused:
        getattr(client, role)(f"strict.{name}")

    assert refused.value.condition == "amqp:not-found"


def test_refused_link_leaves_its_session_usable(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.6.3: a refusal concerns the link alone."""
    with Client(broker.url) as client:
        with pytest.raises(Refused):
            client.receiver(f"strict.{name}")
        client.send(name, "m")

        assert client.bodies(name) == ["m"]


def test_queue_takes_no_more_than_its_maximum_of_consumers(broker: BrokerProcess) -> None:
    """artemis-model §4.1.4: Artemis answers `amqp:internal-error`; ours says what happened."""
    with Client(broker.url) as client:
        first = client.receiver("limited.one")
        with pytest.raises(Refused) as refused:
            client.receiver("limited.one")
        first.close()
        client.receiver("limited.one").close()

    assert refused.value.condition == "amqp:resource-limit-exceeded"


def test_message_to_a_topic_nobody_subscribed_to_is_accepted(broker: BrokerProcess, name: str) -> None:
    """artemis-model §4.1.3: routing to nothing is still accepted."""
    with Client(broker.url) as client:
        sender = client.sender(name, TOPIC)

        assert sender.wait(sender.start("m")) == Delivery.ACCEPTED


def test_unroutable_message_may_go_to_the_dead_letter_address(broker: BrokerProcess, name: str) -> None:
    """artemis-model §2.1 `send-to-dla-on-no-route`."""
    with Client(broker.url) as client:
        client.send("noroute.topic", Message(subject=name, body="m"))
        dead = client.receiver("DLQ", selector=f"JMSType = '{name}'").receive()
        dead.accept()

    assert dead.body == "m"


# ---- anonymous relay


def test_relay_routes_by_the_to_field(broker: BrokerProcess, name: str) -> None:
    """AMQP Anonymous Terminus 1.0 §2.2.2: one link, an address per message."""
    with Client(broker.url) as client:
        relay = client.sender(None)
        relay.send(Message(address=name + "-1", body="one"))
        relay.send(Message(address=name + "-2", body="two"))

        assert client.bodies(name + "-1") == ["one"]
        assert client.bodies(name + "-2") == ["two"]


def test_relay_rejects_an_unknown_address(broker: BrokerProcess, name: str) -> None:
    """AMQP Anonymous Terminus 1.0 §2.2.2.1: rejected, and the link goes on."""
    with Client(broker.url) as client:
        relay = client.sender(None)
        delivery = relay.start(Message(address=f"strict.{name}", body="lost"))
        with pytest.raises(Refused) as refused:
            relay.wait(delivery)
        told = delivery.remote.condition.info
        relay.send(Message(address=name, body="found"))

        assert refused.value.condition in ("amqp:not-found", "failed")
        assert {str(key): bytes(value) for key, value in told.items()} == {"delivery-tag": b"tag-1"}
        assert client.bodies(name) == ["found"]


def test_relay_rejects_a_message_without_an_address(broker: BrokerProcess, name: str) -> None:
    """artemis-model §4.1.3: no `to`."""
    with Client(broker.url) as client:
        relay = client.sender(None)
        with pytest.raises(Refused):
            relay.send(Message(body="lost"))
        relay.send(Message(address=name, body="found"))

        assert client.bodies(name) == ["found"]


def test_relay_ends_when_a_settled_message_cannot_be_routed(broker: BrokerProcess, name: str) -> None:
    """AMQP Anonymous Terminus 1.0 §2.2.2.1: no outcome could say it, so the link is detached with the error."""
    with Client(broker.url) as client:
        relay = client.sender(None, settled=True)
        relay.start(Message(address=f"strict.{name}", body="lost"), settled=True)

        assert relay.wait_closed().condition == "amqp:not-found"


def test_relay_takes_part_in_shared_addresses(broker: BrokerProcess, name: str) -> None:
    """AMQP Anonymous Terminus 1.0 §2.2.2: one message after the other, each to another kind of address."""
    with Client(broker.url) as client:
        topic = client.receiver(f"topic.{name}", TOPIC)
        relay = client.sender(None)
        for number in range(10):
            relay.send(Message(address=name if number % 2 else f"topic.{name}", body=number))

        assert client.bodies(name) == [1, 3, 5, 7, 9]
        assert topic.bodies() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(("code", "kind"), [(0, QUEUE), (1, TOPIC)])
def test_relay_creates_what_the_destination_annotation_says(
    broker: BrokerProcess, name: str, code: int, kind: tuple[str, ...]
) -> None:
    """artemis-model §1.4: `x-opt-jms-dest` 0 queue, 1 topic."""
    other = TOPIC if kind == QUEUE else QUEUE
    with Client(broker.url) as client:
        relay = client.sender(None)
        relay.send(Message(address=name, body="m", annotations={symbol("x-opt-jms-dest"): byte(code)}))
        with pytest.raises(Refused) as refused:
            client.receiver(name, other)
        client.receiver(name, kind).close()

    assert refused.value.condition == "amqp:illegal-state"


def test_relay_takes_a_fully_qualified_name(broker: BrokerProcess) -> None:
    """artemis-model §1.5: send by any protocol that passes the text through."""
    with Client(broker.url) as client:
        client.sender(None).send(Message(address="pair::pair.left", body="m"))

        assert client.bodies("pair::pair.left") == ["m"]


# ---- dynamic nodes


def test_dynamic_node_carries_requests_and_replies(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.5.3 dynamic: the broker names the node, anybody may send to it."""
    with Client(broker.url) as client, Client(broker.url) as server:
        requests = server.receiver(name)
        replies = client.receiver(None, dynamic=True)
        client.send(name, Message(reply_to=replies.address, correlation_id="c1", body="ping"))
        request = requests.receive()
        request.accept()
        answer = Message(address=request.message.reply_to, correlation_id=request.message.correlation_id, body="pong")
        server.sender(None).send(answer)
        reply = replies.receive()
        reply.accept()

    assert (reply.body, reply.message.correlation_id) == ("pong", "c1")


def test_dynamic_nodes_have_names_of_their_own(broker: BrokerProcess) -> None:
    """AMQP 1.0 §3.5.3: each attach creates a node."""
    with Client(broker.url) as client:
        names = {client.receiver(None, dynamic=True).address for _ in range(5)}

    assert len(names) == 5


def test_dynamic_target_creates_a_queue_for_its_own_connection(broker: BrokerProcess) -> None:
    """artemis-model §4.1.3: a temporary queue; only its own connection consumes from it (reliability §5.8)."""
    with Client(broker.url) as client, Client(broker.url) as other:
        sender = client.sender(None, dynamic=True)
        with pytest.raises(Refused) as refused:
            other.receiver(sender.address)
        consumer = client.receiver(sender.address)
        sender.send("m")

        assert consumer.bodies() == ["m"]
    assert refused.value.condition == "amqp:unauthorized-access"


def test_dynamic_target_with_the_topic_capability_is_a_topic(broker: BrokerProcess) -> None:
    """artemis-model §4.1.3: capability temporary-topic makes a temporary MULTICAST address."""
    with Client(broker.url) as client:
        sender = client.sender(None, ("temporary-topic",), dynamic=True)
        first, second = client.receiver(sender.address, TOPIC), client.receiver(sender.address, TOPIC)
        sender.send("m")

        assert [first.bodies(), second.bodies()] == [["m"], ["m"]]


def test_dynamic_topic_is_for_its_own_connection(broker: BrokerProcess) -> None:
    """As with queues: others may send to it, no other connection subscribes to it, in whatever way."""
    with Client(broker.url) as client, Client(broker.url, "other") as other:
        topic = client.sender(None, ("temporary-topic",), dynamic=True).address
        for durable in (False, True):
            with pytest.raises(Refused) as refused:
                other.receiver(topic, TOPIC, name="s", durable=durable)
            assert refused.value.condition == "amqp:unauthorized-access"
        receiver = client.receiver(topic, TOPIC, name="mine", durable=True)
        with pytest.raises(Refused) as refused:
            other.receiver(f"{topic}::{client.container_id}.mine", TOPIC)
        assert refused.value.condition == "amqp:unauthorized-access"
        other.send(topic, "m")

        assert receiver.bodies() == ["m"]


def test_dynamic_node_is_deleted_with_its_link(broker: BrokerProcess) -> None:
    """AMQP 1.0 §3.5.10 delete-on-close."""
    properties = DynamicNodeProperties({symbol("lifetime-policy"): Described(ulong(0x2B), [])})
    with Client(broker.url) as client:
        sender = client.sender(None, ("temporary-queue",), dynamic=True, options=[properties])
        address = sender.address
        sender.send("lost")
        sender.close()
        receiver = client.receiver(address)

        assert receiver.bodies() == []


def test_dynamic_node_is_deleted_with_its_connection(broker: BrokerProcess) -> None:
    """artemis-model §1.11: temporary resources are bound to the connection."""
    with Client(broker.url) as client:
        other = Client(broker.url)
        node = other.sender(None, dynamic=True)
        address = node.address
        node.send("lost")
        other.close()

        assert client.bodies(address) == []


def lifetime(code: int) -> DynamicNodeProperties:
    """A lifetime policy by its descriptor (AMQP 1.0 §3.5.10 to §3.5.13)."""
    return DynamicNodeProperties({symbol("lifetime-policy"): Described(ulong(code), [])})


def test_delete_on_no_links_keeps_the_node_for_others(broker: BrokerProcess) -> None:
    """AMQP 1.0 §3.5.11: another connection's link is a reason to stay, a message is none."""
    with Client(broker.url) as client, Client(broker.url) as other:
        maker = client.sender(None, dynamic=True, options=[lifetime(0x2C)])
        address = maker.address
        stranger = other.sender(address)
        maker.send("1")
        maker.close()
        stranger.send("2")
        receiver = client.receiver(address)
        kept = receiver.bodies()
        client.send(address, "3")
        receiver.close()
        stranger.close()

        assert kept == ["1", "2"]
        assert client.bodies(address) == []  # an ordinary queue of that name, made for this link


def test_delete_on_no_messages_ends_links(broker: BrokerProcess) -> None:
    """AMQP 1.0 §3.5.12: with the last message, although links are attached."""
    with Client(broker.url) as client:
        receiver = client.receiver(None, dynamic=True, options=[lifetime(0x2D)])
        sender = client.sender(receiver.address)
        sender.send("1")
        sender.send("2")
        first, second = receiver.receive_many(2)
        first.accept()
        sender.send("3")
        second.accept()
        receiver.receive().accept()

        assert receiver.wait_closed().condition == "amqp:resource-deleted"


def test_the_answer_tells_the_lifetime(broker: BrokerProcess) -> None:
    """AMQP 1.0 §2.6.3: what is in force; a policy that is none is refused."""
    with Client(broker.url) as client:
        receiver = client.receiver(None, dynamic=True)
        properties = receiver.link.remote_source.properties
        properties.rewind()
        properties.next()
        answered = properties.get_object()
        with pytest.raises(Refused) as refused:
            client.receiver(None, dynamic=True, options=[lifetime(0x2F)])

    assert answered == {symbol("lifetime-policy"): Described(ulong(0x2B), [])}
    assert refused.value.condition == "amqp:invalid-field"


# ---- wildcards


def test_wildcard_subscriber_gets_what_matches(broker: BrokerProcess, name: str) -> None:
    """artemis-model §1.7: `*` one word, `#` any number of words."""
    with Client(broker.url) as client:
        one = client.receiver(f"topic.{name}.*", TOPIC)
        many = client.receiver(f"topic.{name}.#", TOPIC)
        for suffix in ("", ".a", ".a.b"):
            client.send(f"topic.{name}{suffix}", suffix, capabilities=TOPIC)

        assert one.bodies() == [".a"]
        assert many.bodies() == ["", ".a", ".a.b"]


def test_sending_to_a_wildcard_name_reaches_that_name_only(broker: BrokerProcess, name: str) -> None:
    """artemis-model §1.7: matching never happens from a wild address."""
    with Client(broker.url) as client:
        literal = client.receiver(f"topic.{name}.a", TOPIC)
        client.send(f"topic.{name}.*", "m", capabilities=TOPIC)

        assert literal.bodies() == []


def test_scheme_that_means_nothing_here_is_pointed_out_once_per_connection(broker: BrokerProcess, name: str) -> None:
    """artemis-model §7.1: without a prefix on the acceptor `queue://` is part of the name; the log says the remedy."""
    address = f"queue://{name}"
    with Client(broker.url) as client:
        client.send(address, "m")
        client.receive(address)
    warnings = [line for line in broker.log_text().splitlines() if address in line and "WARNING" in line]

    assert len(warnings) == 1
    assert "add anycastPrefix=queue:// to the parameters of the acceptor" in warnings[0]
