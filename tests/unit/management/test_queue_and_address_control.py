"""The resources `queue.<name>` and `address.<name>` (artemis-model §6.1)."""

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.syntax import parse_fqqn
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.background import SLICE_MESSAGES
from tests.core_harness import browse_all
from tests.unit.management.world import ANYCAST, Rules, World, consume, outcome


@pytest.fixture
def world() -> World:
    """Queue q on address a, with three messages; n counts them."""
    world = World()
    world.domain.create_address("a", ANYCAST)
    world.call("broker", "createQueue", {"name": "q", "address": "a", "routing-type": "ANYCAST"})
    for number in (1, 2, 3):
        world.publish("a", 1, n=number)
    return world


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("Name", "q"),
        ("Address", "a"),
        ("RoutingType", "ANYCAST"),
        ("Filter", None),
        ("Durable", True),
        ("Temporary", False),
        ("AutoCreated", False),
        ("Enabled", True),
        ("Paused", False),
        ("Exclusive", False),
        ("MaxConsumers", -1),
        ("PurgeOnNoConsumers", False),
        ("ConsumersBeforeDispatch", 0),
        ("DelayBeforeDispatch", -1),
        ("AutoDelete", False),
        ("User", None),
        ("MessageCount", 3),
        ("ConsumerCount", 0),
        ("DeliveringCount", 0),
        ("ScheduledCount", 0),
        ("MessagesAdded", 3),
        ("MessagesAcknowledged", 0),
        ("MessagesExpired", 0),
        ("MessagesKilled", 0),
        ("MessagesReplaced", 0),
    ],
)
def test_queue_attributes_are_read_by_name_and_by_operation(world: World, attribute: str, value: object) -> None:
    read = [world.read("queue.q", attribute), world.call("queue.q", f"get{attribute}")]

    assert read == [value, value]


def test_boolean_attributes_answer_to_is() -> None:
    world = World()

    assert world.call(f"queue.{world.replies.name}", "isTemporary") is True


def test_a_queue_is_found_by_its_fully_qualified_name(world: World) -> None:
    assert parse_fqqn("a::q") == ("a", "q")
    assert world.read("queue.a::q", "MessageCount") == 3
    assert "does not exist" in world.refusal("queue.b::q", "getMessageCount")


def test_a_paused_queue_holds_its_messages_until_it_is_resumed(world: World) -> None:
    queue = world.domain.queues["q"]
    world.call("queue.q", "pause")
    taker = consume(world, queue, 10)
    held = len(taker.taken)
    world.call("queue.q", "resume")
    world.domain.dispatcher.run()

    assert (held, len(taker.taken)) == (0, 3)


def test_a_disabled_queue_is_passed_by_until_it_is_enabled(world: World) -> None:
    """artemis-model §2.3."""
    world.call("queue.q", "disable")
    world.publish("a")
    disabled = world.read("queue.q", "MessageCount")
    world.call("queue.q", "enable")
    world.publish("a")

    assert (disabled, world.read("queue.q", "MessageCount")) == (3, 4)


@pytest.mark.parametrize("operation", ["removeAllMessages", "purge"])
def test_removing_all_messages_tells_how_many_there_were(world: World, operation: str) -> None:
    assert world.call("queue.q", operation) == 3
    assert world.read("queue.q", "MessageCount") == 0


def test_messages_are_counted_with_a_filter(world: World) -> None:
    counts = [
        world.call("queue.q", "countMessages", *parameters) for parameters in ((), (None,), ("",), ("n > 1",), ("x",))
    ]

    assert counts == [3, 3, 3, 2, 0]


def test_a_filter_that_does_not_parse_is_refused_with_its_place(world: World) -> None:
    assert world.refusal("queue.q", "countMessages", "n >")


def test_consumers_show_in_the_counters(world: World) -> None:
    consume(world, world.domain.queues["q"], 2)

    assert [world.read("queue.q", name) for name in ("ConsumerCount", "DeliveringCount")] == [1, 2]


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("Address", "a"),
        ("RoutingTypes", ["ANYCAST"]),
        ("QueueNames", ["q"]),
        ("QueueCount", 1),
        ("MessageCount", 3),
        ("RoutedMessageCount", 3),
        ("UnRoutedMessageCount", 0),
        ("Paused", False),
        ("AutoCreated", False),
        ("Temporary", False),
        ("Internal", False),
    ],
)
def test_address_attributes(world: World, attribute: str, value: object) -> None:
    assert world.read("address.a", attribute) == value


def test_the_size_of_an_address_is_what_its_messages_hold_in_memory(world: World) -> None:
    queue = world.domain.queues["q"]

    assert world.read("address.a", "AddressSize") == sum(r.message.size for r in browse_all(queue))


def test_pausing_an_address_holds_its_queues(world: World) -> None:
    world.call("address.a", "pause")
    taker = consume(world, world.domain.queues["q"], 10)
    held, paused = len(taker.taken), world.read("address.a", "Paused")
    world.call("address.a", "resume")
    world.domain.dispatcher.run()

    assert (held, paused, len(taker.taken)) == (0, True, 3)


def test_purging_an_address_empties_all_its_queues(world: World) -> None:
    world.call("broker", "createQueue", {"name": "q2", "address": "a", "routing-type": "ANYCAST"})
    world.publish("a")

    assert world.call("address.a", "purge") == 4


def test_the_duplicate_ids_of_an_address_can_be_forgotten(world: World) -> None:
    """artemis-model §3.13 `clearDuplicateIdCache`."""
    producer = world.session.producer("a")
    taken = [producer.send(plain_message("a", MessageView(body="m")), None, b"id") for _ in range(2)]
    world.call("address.a", "clearDuplicateIdCache")

    taken.append(producer.send(plain_message("a", MessageView(body="m")), None, b"id"))

    assert taken == [1, 0, 1]


def test_deleting_a_durable_queue_needs_its_permission() -> None:
    world = World(Rules((Permission.DELETE_DURABLE_QUEUE, "a")))
    world.call("broker", "createQueue", "a", "q")

    assert "deleteDurableQueue" in world.refusal("broker", "destroyQueue", "q")
    assert "q" in world.domain.queues


def test_messages_are_removed_with_a_filter(world: World) -> None:
    assert world.call("queue.q", "removeMessages", "n > 1") == 2
    assert world.read("queue.q", "MessageCount") == 1
    assert world.call("queue.q", "removeMessages", None) == 1
    assert world.read("queue.q", "MessagesKilled") == 3


def test_long_work_is_answered_at_its_end(world: World) -> None:
    """And others are answered meanwhile."""
    world.publish("a", 2 * SLICE_MESSAGES)
    before = len(browse_all(world.replies))
    for resource, operation in (("queue.q", "countMessages"), ("broker", "getVersion")):
        properties = {"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}
        body = '["n IS NULL"]' if operation == "countMessages" else ""
        world.send(reply_to=world.replies.name, properties=properties, body=body)
    while world.domain.dispatcher.run():
        pass

    answers = [outcome(reference.message.view)[1] for reference in browse_all(world.replies)[before:]]
    assert answers == ["1.2.3", 2 * SLICE_MESSAGES]


def test_long_work_that_is_refused_is_answered_too(world: World) -> None:
    assert "selector" in world.refusal("queue.q", "removeMessages", "n >").lower()
