"""The resource `broker`: what it shows, creates, changes and deletes (artemis-model §6.1)."""

import json
from typing import Any

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.access import Permission
from artemis_py.management.control import MAX_NAMES
from artemis_py.management.listing import MAX_PAGE_ROWS
from tests.core_harness import make_queue, set_clock, set_clocks
from tests.unit.management.world import ANYCAST, MULTICAST, NOW_MS, Rules, World, consume


def rows(world: World, operation: str, *parameters: object) -> list[dict[str, Any]]:
    listed = json.loads(world.call("broker", operation, *parameters))
    assert isinstance(listed["data"], list)
    return listed["data"]


def world_with_queues(*names: str) -> World:
    world = World()
    for name in names:
        world.call("broker", "createQueue", name, name, "ANYCAST")
    return world


@pytest.mark.parametrize(
    ("typed", "proposed"),
    [
        ("retryMessages", "expireMessages"),
        ("moveMessages2", "removeMessages"),
        ("getMessages", "removeMessages"),
        ("puase", "purge"),
        ("paus", "purge"),
    ],
)
def test_nothing_worse_is_proposed_than_what_was_typed(typed: str, proposed: str) -> None:
    """Whoever follows a proposal without thinking loses nothing."""
    world = World()
    make_queue(world.domain)

    assert proposed not in world.refusal("queue.q", typed, "a", "b", "c", "d", "e", "f")


@pytest.mark.parametrize("typed", ["removeMesages", "remvoeMessages", "rmoveMessages"])
def test_a_misspelt_verb_is_proposed(typed: str) -> None:
    world = World()
    make_queue(world.domain)

    assert "removeMessages" in world.refusal("queue.q", typed, "a", "b", "c", "d", "e", "f")


def test_the_broker_tells_who_it_is() -> None:
    world = World()

    assert [world.call("broker", f"get{name}") for name in ("Version", "NodeID", "Name")] == [
        "1.2.3",
        "node-1",
        "localhost",
    ]


@set_clocks
def test_uptime_is_told_in_milliseconds_and_in_words(jump_ms: int) -> None:
    world = World()

    set_clock(world.domain, jump_ms)
    assert world.call("broker", "getUptimeMillis") == 90_061_500
    assert world.call("broker", "getUptime") == "1 days 1 hours 1 minutes 1 seconds"


def test_names_of_addresses_and_queues_are_sorted_and_queues_selected_by_type() -> None:
    world = world_with_queues("b", "a")
    world.call("broker", "createQueue", "m", "m", "MULTICAST")
    own = world.replies.name

    assert world.call("broker", "getAddressNames") == sorted(["a", "b", "m", own])
    assert world.call("broker", "getQueueNames", "multicast") == ["m"]
    assert world.call("broker", "getQueueNames") == sorted(["a", "b", "m", own])


def test_more_names_than_one_reply_carries_are_refused_with_the_way_out() -> None:
    world = World()
    for number in range(MAX_NAMES):
        world.domain.create_address(f"a{number}", ANYCAST)

    assert "use listAddresses" in world.refusal("broker", "getAddressNames")


# Addresses.


def test_an_address_is_created_with_the_named_types() -> None:
    world = World()
    text = world.call("broker", "createAddress", "a", "ANYCAST, multicast")

    assert text == "Address [name=a, routingTypes={ANYCAST,MULTICAST}]"
    assert world.domain.addresses["a"].routing_types == frozenset(RoutingType)


@pytest.mark.parametrize(
    ("types", "reason"), [("", "needs a routing type"), ("UNICAST", "ANYCAST or MULTICAST"), (1, "it takes")]
)
def test_an_address_needs_known_routing_types(types: object, reason: str) -> None:
    assert reason in World().refusal("broker", "createAddress", "a", types)


def test_an_address_that_exists_is_not_created_again() -> None:
    world = world_with_queues("a")

    assert "exists already" in world.refusal("broker", "createAddress", "a", "ANYCAST")


def test_routing_types_can_be_added_but_not_taken_from_a_queue() -> None:
    world = world_with_queues("a")
    world.call("broker", "updateAddress", "a", ["ANYCAST", "MULTICAST"])

    assert "cannot drop ANYCAST" in world.refusal("broker", "updateAddress", "a", "MULTICAST")
    assert "did you mean a" not in world.refusal("broker", "updateAddress", "zzz", "MULTICAST")


def test_an_address_with_queues_is_only_deleted_by_force() -> None:
    world = world_with_queues("a")

    assert "still has queues" in world.refusal("broker", "deleteAddress", "a")
    assert world.call("broker", "deleteAddress", "a", True) is None
    assert "a" not in world.domain.queues


def test_a_missing_address_is_refused_with_the_nearest_names() -> None:
    world = world_with_queues("orders.new")

    assert "did you mean orders.new?" in world.refusal("broker", "deleteAddress", "order.new")
    assert "did you mean orders.new?" in world.refusal("broker", "getAddressInfo", "order.new")


def test_bindings_of_an_address_are_listed_a_line_each() -> None:
    world = world_with_queues("a")
    world.call("broker", "createQueue", "a", "b", "x > 1", False, "ANYCAST")

    assert world.call("broker", "listBindingsForAddress", "a").splitlines() == [
        "Queue [name=a, routingType=ANYCAST, filter=None]",
        "Queue [name=b, routingType=ANYCAST, filter=x > 1]",
    ]


# Queues.


def test_a_queue_is_created_from_json_with_all_its_attributes() -> None:
    """The attribute names are those of artemis-model §2.2."""
    world = World()
    created = json.loads(
        world.call(
            "broker",
            "createQueue",
            {
                "name": "q",
                "address": "a",
                "routing-type": "multicast",
                "durable": False,
                "filter-string": "x = 1",
                "max-consumers": 3,
                "exclusive": True,
                "purge-on-no-consumers": True,
                "consumers-before-dispatch": 2,
                "delay-before-dispatch": 100,
                "enabled": False,
                "auto-delete": True,
                "auto-delete-delay": 5,
                "auto-delete-message-count": 6,
                "user": "someone",
            },
        )
    )
    queue = world.domain.queues["q"]

    assert created["name"] == "q"
    assert queue.filter is not None
    assert (
        queue.address.name,
        queue.routing_type,
        queue.durable,
        queue.filter.text,
        queue.settings.max_consumers,
        queue.settings.exclusive,
        queue.purge_on_no_consumers,
        queue.settings.consumers_before_dispatch,
        queue.settings.delay_before_dispatch_ms,
        queue.enabled,
        queue.settings.auto_delete,
        queue.settings.auto_delete_delay_ms,
        queue.settings.auto_delete_message_count,
        queue.user,
    ) == ("a", RoutingType.MULTICAST, False, "x = 1", 3, True, True, 2, 100, False, True, 5, 6, "someone")


def test_json_may_come_as_text_as_artemis_clients_send_it() -> None:
    world = World()
    world.call("broker", "createQueue", '{"name": "q", "routing-type": "ANYCAST"}')

    assert world.domain.queues["q"].address.name == "q"


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (("a", "q"), (None, True, RoutingType.MULTICAST)),
        (("a", "q", "ANYCAST"), (None, True, RoutingType.ANYCAST)),
        (("a", "q", False), (None, False, RoutingType.MULTICAST)),
        (("a", "q", False, "ANYCAST"), (None, False, RoutingType.ANYCAST)),
        (("a", "q", "x = 1", True), ("x = 1", True, RoutingType.MULTICAST)),
        (("a", "q", None, False, "ANYCAST"), (None, False, RoutingType.ANYCAST)),
        (("a", "ANYCAST", "q", "", False, 2, True, True), (None, False, RoutingType.ANYCAST)),
    ],
)
def test_positional_forms_of_create_queue(parameters: tuple[object, ...], expected: tuple[object, ...]) -> None:
    """Without a type the address' default-queue-routing-type applies: MULTICAST."""
    world = World()
    world.call("broker", "createQueue", *parameters)
    queue = world.domain.queues["q"]

    assert (None if queue.filter is None else queue.filter.text, queue.durable, queue.routing_type) == expected


def test_the_address_of_a_new_queue_is_created_unless_that_is_forbidden() -> None:
    world = World()
    wanted = {"name": "q", "address": "a", "routing-type": "ANYCAST", "auto-create-address": False}

    assert "address 'a' does not exist" in world.refusal("broker", "createQueue", wanted)
    world.call("broker", "createQueue", {**wanted, "auto-create-address": True})
    assert world.domain.addresses["a"].routing_types == ANYCAST


def test_a_queue_that_cannot_be_leaves_no_address_behind() -> None:
    world = world_with_queues("q")
    world.refusal("broker", "createQueue", "new", "q")
    world.refusal("broker", "createQueue", "new", "other", "x =", True)

    assert "new" not in world.domain.addresses


def test_a_queue_that_may_not_be_leaves_no_address_behind() -> None:
    world = World(Rules((Permission.CREATE_DURABLE_QUEUE, "new")))
    world.refusal("broker", "createQueue", "new", "q")

    assert "new" not in world.domain.addresses


def test_an_existing_queue_is_refused_naming_its_address_unless_asked_to_ignore_it() -> None:
    """Queue names are unique in the whole broker (artemis-model §7.1)."""
    world = world_with_queues("q")
    wanted = {"name": "q", "address": "elsewhere"}

    assert "on address 'q'" in world.refusal("broker", "createQueue", wanted)
    assert json.loads(world.call("broker", "createQueue", wanted, True))["address"] == "q"


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({}, "needs a name"),
        ({"name": ""}, "needs a name"),
        ({"name": 5}, "'name' must be text"),
        ({"name": "a::b", "address": "a"}, "may not contain '::'"),
        ({"name": "q", "slow-consumer-policy": 5}, "no attribute 'slow-consumer-policy'"),
        ({"name": "q", "max-consumer": 5}, "did you mean max-consumers"),
        ({"name": "q", "max-consumers": "5"}, "'max-consumers' must be a whole number"),
        ({"name": "q", "max-consumers": True}, "'max-consumers' must be a whole number"),
        ({"name": "q", "durable": "yes"}, "'durable' must be true or false"),
        ({"name": "q", "routing-type": "both"}, "ANYCAST or MULTICAST"),
        ({"name": "q", "filter-string": "a b"}, ""),
        ({"name": "q", "auto-create-address": 1.5}, "'auto-create-address' must be"),
        ("{", "is not JSON"),
    ],
)
def test_a_queue_is_not_created_from_what_it_cannot_have(wanted: object, reason: str) -> None:
    world = World()

    assert reason in world.refusal("broker", "createQueue", wanted)
    assert "q" not in world.domain.queues


def test_a_queue_is_changed_in_what_is_named_only() -> None:
    world = world_with_queues("q")
    world.call("broker", "updateQueue", {"name": "q", "max-consumers": 7, "filter-string": "x = 1"})
    updated = json.loads(world.call("broker", "updateQueue", {"name": "q", "filter-string": ""}))

    assert (updated["maxConsumers"], updated["filter"]) == (7, None)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"max-consumers": 1}, "needs the name"),
        ({"name": "none", "max-consumers": 1}, "queue 'none' does not exist"),
        ({"name": "q", "address": "b"}, "'address' of a queue cannot be changed"),
        ({"name": "q", "durable": False}, "'durable' of a queue cannot be changed"),
        ({"name": "q", "routing-type": "MULTICAST"}, "not configured for"),
    ],
)
def test_a_queue_is_not_changed_in_what_is_fixed(wanted: dict[str, object], reason: str) -> None:
    assert reason in world_with_queues("q").refusal("broker", "updateQueue", wanted)


def test_a_queue_with_consumers_is_only_destroyed_with_them() -> None:
    world = world_with_queues("q")
    taker = consume(world, world.domain.queues["q"], 1)

    assert "still has 1 consumers" in world.refusal("broker", "destroyQueue", "q")
    world.call("broker", "destroyQueue", "q", True)
    assert (taker.reasons, "q" in world.domain.queues) == (["deleted by request"], False)


def test_the_auto_created_address_goes_with_its_last_queue_if_asked() -> None:
    world = World()
    world.domain.create_address("auto", MULTICAST, auto_created=True)
    world.call("broker", "createQueue", "auto", "q")
    world.call("broker", "destroyQueue", "q", False, True)

    assert "auto" not in world.domain.addresses


def test_the_auto_created_address_stays_while_it_has_another_queue() -> None:
    world = World()
    world.domain.create_address("auto", MULTICAST, auto_created=True)
    for name in ("q", "other"):
        world.call("broker", "createQueue", "auto", name)
    world.call("broker", "destroyQueue", "q", False, True)

    assert [binding.name for binding in world.domain.addresses["auto"].bindings] == ["other"]


def test_an_address_created_by_name_stays_when_its_last_queue_goes() -> None:
    world = world_with_queues("q")
    world.call("broker", "destroyQueue", "q", False, True)

    assert "q" in world.domain.addresses


# Lists.


def test_queues_are_listed_with_their_counters() -> None:
    world = world_with_queues("q")
    world.publish("q", 3)
    consume(world, world.domain.queues["q"], 2)
    (row,) = rows(world, "listQueues", {"field": "name", "operation": "EQUALS", "value": "q"})

    assert {name: row[name] for name in ("messageCount", "deliveringCount", "consumerCount", "messagesAdded")} == {
        "messageCount": 3,
        "deliveringCount": 2,
        "consumerCount": 1,
        "messagesAdded": 3,
    }


def test_the_empty_filter_of_other_consoles_is_accepted() -> None:
    world = World()

    assert len(rows(world, "listQueues", "")) == len(rows(world, "listQueues", "", 1, 10)) == 1


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"field": "name", "operation": "CONTAINS", "value": "orders"}, ["orders.a", "orders.b"]),
        ({"field": "name", "operation": "NOT_CONTAINS", "value": "-"}, ["orders.a", "orders.b", "other"]),
        ({"field": "name", "operation": "NOT_EQUALS", "value": "other"}, ["orders.a", "orders.b"]),
        ({"field": "messageCount", "operation": "GREATER_THAN", "value": "1"}, ["orders.b"]),
        ({"field": "messageCount", "operation": "LESS_THAN", "value": 2}, ["orders.a", "other"]),
        ({"field": "durable", "value": "true"}, ["orders.a", "orders.b", "other"]),
        ({"sortField": "messageCount", "sortOrder": "desc"}, ["orders.b", "orders.a", "other"]),
        ({"sortField": "name"}, ["orders.a", "orders.b", "other"]),
    ],
)
def test_lists_are_filtered_and_sorted(wanted: dict[str, object], names: list[str]) -> None:
    world = world_with_queues("other", "orders.b", "orders.a")
    world.publish("orders.b", 2)
    world.publish("orders.a", 1)
    listed = [row["name"] for row in rows(world, "listQueues", wanted) if row["name"] != world.replies.name]

    assert listed == (names if "sortField" in wanted else [n for n in ("other", "orders.b", "orders.a") if n in names])


def test_pages_count_from_one_and_the_count_is_that_of_all_pages() -> None:
    world = world_with_queues("a", "b", "c")
    wanted = {"field": "durable", "value": "true", "sortField": "name"}
    listed = [json.loads(world.call("broker", "listQueues", wanted, page, 2)) for page in (1, 2, 3)]

    assert [([row["name"] for row in page["data"]], page["count"]) for page in listed] == [
        (["a", "b"], 3),
        (["c"], 3),
        ([], 3),
    ]


@pytest.mark.parametrize("page_rows", [-1, 0, MAX_PAGE_ROWS + 1])
def test_a_page_has_a_limit_whatever_is_asked_for(page_rows: int) -> None:
    """Artemis' -1 asks for everything at once; the reply stays bounded all the same."""
    world = World()
    for number in range(MAX_PAGE_ROWS + 1):
        world.domain.create_address(f"a{number}", ANYCAST)

    assert len(rows(world, "listAddresses", {}, 1, page_rows)) == MAX_PAGE_ROWS


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"field": "nam", "value": "x"}, "did you mean name"),
        ({"field": ["name"], "value": "x"}, "is none of"),
        ({"field": "name", "operation": "LIKE", "value": "x"}, "EQUALS"),
        ({"sortField": "size"}, "is none of"),
        ({"sortField": "name", "sortOrder": "up"}, "asc or desc"),
        ("name = x", "options must be a JSON object"),
    ],
)
def test_a_filter_that_means_nothing_is_refused(wanted: object, reason: str) -> None:
    assert reason in World().refusal("broker", "listQueues", wanted)


def test_pages_before_the_first_are_refused() -> None:
    assert "pages count from 1" in World().refusal("broker", "listQueues", {}, 0)


def test_connections_and_consumers_are_listed_with_who_and_where() -> None:
    world = world_with_queues("q")
    consume(world, world.domain.queues["q"], 5)
    (connection,) = rows(world, "listConnections")
    (consumer,) = rows(world, "listConsumers")

    assert connection == {
        "connectionID": world.session.id,
        "remoteAddress": "127.0.0.1:4000",
        "protocol": "AMQP",
        "user": "admin",
        "clientID": "client-1",
        "creationTime": NOW_MS,
        "consumerCount": 1,
    }
    assert [consumer[name] for name in ("queue", "user", "clientID", "credit")] == ["q", "admin", "client-1", 5]


def test_totals_are_over_all_queues() -> None:
    world = world_with_queues("a", "b")
    world.publish("a", 2)
    world.publish("b", 1)
    consume(world, world.domain.queues["a"], 1)
    before = world.replies.message_count
    totals = [
        world.call("broker", f"get{name}") for name in ("TotalMessageCount", "TotalConsumerCount", "ConnectionCount")
    ]

    assert totals == [3 + before, 1, 1]
