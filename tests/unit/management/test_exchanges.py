"""Exchanges by management: what is made, changed, bound and deleted, what is refused, and what can be read."""

import json
from typing import Any

import pytest

from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.exchange_config import (
    Destination,
    ExchangeConfig,
    ExchangeLifetime,
    ExchangeType,
    Unroutable,
)
from tests.core_harness import make_message, make_queue
from tests.unit.management.world import Rules, World


def made(*denied: tuple[Permission, str]) -> World:
    """A broker with queues `a` and `b`."""
    world = World(access=Rules(*denied))
    for name in "ab":
        make_queue(world.domain, name)
    return world


def rows(world: World, operation: str, filter: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """The rows of a list."""
    found: list[dict[str, Any]] = json.loads(world.call("broker", operation, json.dumps(filter or {})))["data"]
    return found


def test_an_exchange_is_made_as_the_object_says() -> None:
    """Every member, and the defaults."""
    world = made()
    short = json.loads(world.call("broker", "createExchange", {"name": "short", "type": "topic"}))
    world.call(
        "broker",
        "createExchange",
        {
            "name": "long",
            "type": "headers",
            "durable": False,
            "lifetime": "last-binding",
            "alternate-exchange": "short",
            "unroutable": "reject",
        },
    )

    exchanges = world.domain.exchanges
    assert exchanges.exchange("short").config == ExchangeConfig(name="short", type=ExchangeType.TOPIC)
    assert exchanges.exchange("long").config == ExchangeConfig(
        name="long",
        type=ExchangeType.HEADERS,
        durable=False,
        lifetime=ExchangeLifetime.LAST_BINDING,
        alternate=Destination("short", is_queue=False),
        unroutable=Unroutable.REJECT,
    )
    assert (short["name"], short["type"], short["durable"], short["unroutable"]) == ("short", "topic", True, "discard")
    assert world.call("broker", "listExchangeNames") == [
        *["amq.direct", "amq.fanout", "amq.match", "amq.topic"],
        *["long", "short"],
    ]


@pytest.mark.parametrize("removes_consumers", [False, True])
def test_a_queue_that_is_an_alternate_is_not_deleted(removes_consumers: bool) -> None:
    """Neither if consumers are to be removed; but if the alternate is taken away."""
    world = made()
    world.call("broker", "createExchange", {"name": "e", "type": "direct", "alternate-queue": "a"})
    refused = world.ask("broker", "destroyQueue", "a", removes_consumers)
    world.call("broker", "updateExchange", {"name": "e", "alternate-queue": None})
    world.call("broker", "destroyQueue", "a", removes_consumers)

    assert refused == (False, "queue 'a' is the alternate of exchange 'e'")
    assert "a" not in world.domain.queues


def test_an_exchange_is_changed_and_deleted() -> None:
    """Members that are missing stay; null takes an alternate away."""
    world = made()
    world.call("broker", "createExchange", {"name": "e", "type": "direct", "alternate-queue": "a"})
    exchange = world.domain.exchanges.exchange("e")

    world.call("broker", "updateExchange", {"name": "e", "unroutable": "reject"})
    assert (exchange.rejects, exchange.config.alternate) == (True, Destination("a", is_queue=True))
    changed = json.loads(world.call("broker", "updateExchange", {"name": "e", "alternate-queue": None}))
    assert (exchange.rejects, exchange.config.alternate, changed["alternateQueue"]) == (True, None, None)
    world.call("broker", "bindExchange", {"exchange": "e", "queue": "a"})
    assert "1 bindings" in world.refusal("broker", "deleteExchange", "e", True)
    world.call("broker", "deleteExchange", "e")
    assert world.domain.exchanges.find("e") is None


def test_bindings_are_made_listed_and_removed() -> None:
    """To queues and to exchanges; the answer tells whether something has changed."""
    world = made()
    wanted = {"exchange": "amq.topic", "key": "a.#", "queue": "a", "arguments": {"x-filter-jms-selector": "x = 1"}}
    to_exchange = {"exchange": "amq.fanout", "destination-exchange": "amq.topic"}

    assert world.call("broker", "bindExchange", wanted) is True
    assert world.call("broker", "bindExchange", wanted) is False
    assert world.call("broker", "bindExchange", {**wanted, "arguments": {}, "replace": True}) is True
    assert world.call("broker", "bindExchange", to_exchange) is True
    assert rows(world, "listExchangeBindings", {"field": "queue", "operation": "EQUALS", "value": "a"}) == [
        {
            "exchange": "amq.topic",
            "key": "a.#",
            "queue": "a",
            "destinationExchange": None,
            "arguments": {},
            "durable": True,
            "configurationManaged": False,
        }
    ]
    assert len(rows(world, "listExchangeBindings")) == 2
    assert world.call("broker", "unbindExchange", {"exchange": "amq.topic", "key": "a.#", "queue": "a"}) is True
    assert world.call("broker", "unbindExchange", {"exchange": "amq.topic", "key": "a.#", "queue": "a"}) is False
    assert world.call("broker", "unbindExchange", to_exchange) is True
    assert rows(world, "listExchangeBindings") == []


def test_an_exchange_can_be_looked_at() -> None:
    """Its counts, as a resource and as a row."""
    world = made()
    for name in "ab":
        world.call("broker", "bindExchange", {"exchange": "amq.fanout", "queue": name})
    for name in ("amq.fanout", "amq.direct"):
        world.domain.publishing.publish(make_message(), world.domain.exchanges.exchange(name), "")

    read = {name: world.read("exchange.amq.fanout", name) for name in ("Type", "BindingCount", "RoutedMessages")}
    assert read == {"Type": "fanout", "BindingCount": 2, "RoutedMessages": 1}
    assert world.read("exchange.amq.fanout", "MessageCount") == 1
    assert world.read("exchange.amq.direct", "UnroutedMessages") == 1
    assert world.read("exchange.amq.direct", "Predeclared") is True
    (row,) = rows(world, "listExchanges", {"field": "name", "operation": "EQUALS", "value": "amq.fanout"})
    assert (row["bindings"], row["routedMessages"]) == (2, 1)
    assert "did you mean amq.fanout" in world.refusal("exchange.amq.fanou", "getType")


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("createExchange", {"name": "e"}, "needs a 'type'"),
    ("createExchange", {"name": "e", "type": "bogus"}, "'type' is direct, topic, fanout, headers, not 'bogus'"),
    ("createExchange", {"type": "direct"}, "text is needed for 'name'"),
    ("createExchange", {"name": "e", "type": "direct", "durabel": True}, "did you mean durable"),
    ("createExchange", {"name": "e", "type": "direct", "durable": "yes"}, "'durable' must be true or false"),
    ("createExchange", {"name": "e", "type": "direct", "lifetime": "session"}, "cannot end with a session"),
    ("createExchange", {"name": "amq.mine", "type": "direct"}, "reserved"),
    ("createExchange", {"name": "amq.topic", "type": "topic"}, "reserved"),
    (
        "createExchange",
        {"name": "e", "type": "direct", "alternate-queue": "a", "alternate-exchange": "amq.topic"},
        "not both",
    ),
    ("createExchange", {"name": "e", "type": "direct", "alternate-queue": "nothing"}, "'nothing' does not exist"),
    ("updateExchange", {"name": "amq.topic", "type": "direct"}, "'type' is unknown"),
    ("updateExchange", {"name": "nothing"}, "'nothing' does not exist"),
    ("bindExchange", {"exchange": "amq.topic"}, "needs a 'queue' or a 'destination-exchange'"),
    ("bindExchange", {"exchange": "amq.topic", "queue": "nothing"}, "'nothing' does not exist"),
    ("bindExchange", {"exchange": "amq.topic", "queue": "a", "key": 1}, "must be a text"),
    ("bindExchange", {"exchange": "amq.topic", "queue": "a", "arguments": []}, "must be a JSON object"),
    ("bindExchange", {"exchange": "amq.topic", "queue": "a", "arguments": {"a": []}}, "may be"),
    ("unbindExchange", {"exchange": "amq.topic", "queue": "a", "arguments": {}}, "'arguments' is unknown"),
]


@pytest.mark.parametrize(("operation", "wanted", "text"), REFUSED)
def test_what_is_wrong_is_named(operation: str, wanted: dict[str, Any], text: str) -> None:
    """And nothing has changed."""
    world = made()

    assert text in world.refusal("broker", operation, wanted)

    assert [each.name for each in world.domain.exchanges if not each.is_predeclared] == []
    assert rows(world, "listExchangeBindings") == []


def test_permissions_of_exchanges_apply_to_administrators() -> None:
    """As those of addresses do."""
    world = made((Permission.CREATE_ADDRESS, "e"), (Permission.CONSUME, "amq.topic"), (Permission.SEND, "b"))

    assert "createAddress" in world.refusal("broker", "createExchange", {"name": "e", "type": "direct"})
    assert "consume" in world.refusal("broker", "bindExchange", {"exchange": "amq.topic", "queue": "a"})
    assert "send" in world.refusal("broker", "bindExchange", {"exchange": "amq.direct", "queue": "b"})
