"""`explainPublish`: which queue would get a message, on which way, and why another would not."""

import json
from typing import Any

import pytest

from artemis_py.cli.explanation import explanation_lines
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.exchange_config import Unroutable
from artemis_py.core.settings.queue_config import QueueConfig
from tests.core_harness import make_queue
from tests.unit.core.exchange_world import bind, chain, make_exchange, publish, reached, to_exchange, to_queue
from tests.unit.management.world import Rules, World


def made(*denied: tuple[Permission, str]) -> World:
    """A broker with queues `a`, `b` and `c`."""
    world = World(access=Rules(*denied))
    for name in "abc":
        make_queue(world.domain, name)
    return world


def explain(world: World, exchange: str, key: str = "", **members: Any) -> dict[str, Any]:
    """The explanation; nothing must have changed."""
    watched = [world.domain.queues[name] for name in "abc"]
    before = [queue.message_count for queue in watched]
    text = world.call("broker", "explainPublish", {"exchange": exchange, "key": key, **members})
    assert [queue.message_count for queue in watched] == before
    found: dict[str, Any] = json.loads(text)
    return found


def queues(found: dict[str, Any]) -> dict[str, list[str]]:
    """The way to each queue."""
    return {each["queue"]: each["path"] for each in found["queues"]}


def reasons(found: dict[str, Any], index: int = 0) -> dict[tuple[str, str], tuple[bool, str | None]]:
    """What is said about the bindings of one of the exchanges."""
    return {
        (each["key"], each["queue"] or each["destinationExchange"]): (each["matches"], each["reason"])
        for each in found["entered"][index]["bindings"]
    }


def test_a_direct_exchange_compares_keys() -> None:
    world = made()
    make_exchange(world.domain, "x")
    bind(world.domain, "x", "k", "a")
    bind(world.domain, "x", "l", "b")
    found = explain(world, "x", "k")

    assert (found["outcome"], found["reason"], found["countsFor"]) == ("delivered", None, "a")
    assert queues(found) == {"a": ["exchange 'x' with key 'k'"]}
    assert reasons(found) == {("k", "a"): (True, None), ("l", "b"): (False, "its key is 'l', not 'k'")}
    assert found["permission"] == {"user": "admin", "send": True}


def test_a_topic_exchange_compares_words_and_a_selector_decides_the_rest() -> None:
    world = made()
    make_exchange(world.domain, "x", "topic")
    bind(world.domain, "x", "a.*", "a")
    bind(world.domain, "x", "#.b", "b", {"x-filter-jms-selector": "amount > 5 AND _AMQ_ROUTING_KEY = 'a.b'"})
    bind(world.domain, "x", "b.#", "c")
    selector = "amount > 5 AND _AMQ_ROUTING_KEY = 'a.b'"

    assert reasons(explain(world, "x", "a.b", properties={"amount": 5})) == {
        ("a.*", "a"): (True, None),
        ("#.b", "b"): (False, f"its selector does not select the message: {selector}"),
        ("b.#", "c"): (False, "its pattern 'b.#' does not cover the routing key 'a.b'"),
    }
    assert set(queues(explain(world, "x", "a.b", properties={"amount": 6}))) == {"a", "b"}


def test_a_headers_exchange_names_what_is_missing() -> None:
    world = made()
    make_exchange(world.domain, "x", "headers")
    bind(world.domain, "x", "1", "a", {"n": 1, "there": None})
    bind(world.domain, "x", "2", "b", {"x-match": "any", "n": 2, "t": "1"})
    found = explain(world, "x", properties={"n": "1", "t": True})

    assert reasons(found) == {
        ("1", "a"): (
            False,
            ("not all of its criteria are met: 'n' is the text '1', the whole number 1 is wanted; there is no 'there'"),
        ),
        ("2", "b"): (
            False,
            (
                "none of its criteria is met: 'n' is the text '1', the whole number 2 is wanted; 't' is true, the "
                "text '1' is wanted"
            ),
        ),
    }
    assert queues(explain(world, "x", properties={"n": 1, "there": None})) == {"a": ["exchange 'x' with key ''"]}


def test_the_filter_of_a_queue_is_named() -> None:
    world = made()
    world.domain.create_address("p", frozenset((RoutingType.ANYCAST,)))
    world.domain.create_queue(
        QueueConfig(name="picky", address="p", routing_type=RoutingType.ANYCAST, filter="colour = 'red'")
    )
    make_exchange(world.domain, "x", "fanout")
    bind(world.domain, "x", "", "picky")

    found = explain(world, "x")
    assert reasons(found)[("", "picky")] == (
        False,
        "the filter of the queue does not select the message: colour = 'red'",
    )
    assert found["outcome"] == "unroutable"
    assert queues(explain(world, "x", properties={"colour": "red"})) == {"picky": ["exchange 'x' with key ''"]}


def test_the_way_through_several_exchanges_is_told() -> None:
    """With another key, a circle, and an alternate."""
    world = made()
    domain = world.domain
    make_exchange(domain, "x")
    make_exchange(domain, "y", "topic", alternate=to_queue("c"))
    chain(domain, "x", "k", "y", {"x-replacement-routing-key": "new"})
    chain(domain, "y", "#", "x", {"x-replacement-routing-key": "k"})
    bind(domain, "y", "old", "a")
    found = explain(world, "x", "k")

    assert queues(found) == {"c": ["exchange 'x' with key 'k'", "exchange 'y' with key 'new'"]}
    assert [(each["exchange"], each["key"], each["through"]) for each in found["entered"]] == [
        ("x", "k", None),
        ("y", "new", "the binding with key 'k' of exchange 'x'"),
    ]
    assert found["entered"][1]["alternate"] == "queue 'c'"
    assert reasons(found, 1) == {
        ("old", "a"): (False, "its pattern 'old' does not cover the routing key 'new'"),
        ("#", "x"): (True, "the message has been there with this routing key"),
    }


def test_two_bindings_to_one_queue_give_one_copy() -> None:
    world = made()
    make_exchange(world.domain, "x", "topic")
    bind(world.domain, "x", "#", "a")
    bind(world.domain, "x", "k", "a", {"x-filter-jms-selector": "FALSE"})
    found = explain(world, "x", "k")

    assert len(found["queues"]) == 1
    assert reasons(found)[("#", "a")] == (True, None)
    assert found["entered"][0]["unlisted"] == 0


@pytest.mark.parametrize(
    ("unroutable", "expected"),
    [(Unroutable.DISCARD, "accepted and discarded"), (Unroutable.REJECT, "rejected")],
)
def test_what_reaches_no_queue(unroutable: Unroutable, expected: str) -> None:
    world = made()
    make_exchange(world.domain, "x", unroutable=unroutable)
    found = explain(world, "x", "k")

    assert (found["outcome"], found["queues"]) == ("unroutable", [])
    assert expected in found["reason"]


def full(domain: Domain, name: str, policy: FullPolicy) -> None:
    """Fill the address of a queue."""
    domain.settings.put(name, AddressSettings(max_size_messages=1, address_full_policy=policy))
    publish(domain, "filler", name)


def test_limits_decide_in_the_end() -> None:
    """One queue that refuses keeps the message from all; one that drops does not."""
    world = made()
    domain = world.domain
    make_exchange(domain, "filler")
    make_exchange(domain, "x", "fanout")
    for name in "abc":
        bind(domain, "filler", name, name)
        bind(domain, "x", "", name)
    full(domain, "b", FullPolicy.DROP)
    found = explain(world, "x")
    assert (found["outcome"], found["countsFor"]) == ("delivered", "x")
    assert [each["limit"] for each in found["queues"]] == [None, "discarded: address 'b' is full", None]

    full(domain, "c", FullPolicy.FAIL)
    found = explain(world, "x")
    assert found["outcome"] == "refused"
    assert found["reason"] == "refused: address 'c' is full; no queue gets the message"
    assert not domain.addresses["c"].full_reported


def test_permissions_are_those_of_the_sender() -> None:
    world = made((Permission.SEND, "x"))
    make_exchange(world.domain, "x")

    assert explain(world, "x")["permission"] == {"user": "admin", "send": False}
    assert explain(world, "x", roles=["r"])["permission"] == {"roles": ["r"], "send": False}


def test_the_default_exchange_means_the_queue_of_the_name() -> None:
    world = made()

    found = explain(world, "", "a")
    assert (found["outcome"], queues(found)) == ("delivered", {"a": ["the default exchange with key 'a'"]})
    found = explain(world, "", "no")
    assert (found["outcome"], found["queues"]) == ("unroutable", [])
    assert "there is no queue 'no'" in found["reason"]


def test_one_queue_can_be_asked_about() -> None:
    """In an exchange with more bindings than are listed."""
    world = made()
    make_exchange(world.domain, "x")
    for number in range(1100):
        bind(world.domain, "x", str(number), "a")
    bind(world.domain, "x", "k", "b")

    found = explain(world, "x", "k", queue="b")
    assert reasons(found) == {("k", "b"): (True, None)}
    assert found["entered"][0]["unlisted"] == 1100
    found = explain(world, "x", "k")
    assert reasons(found)[("k", "b")] == (True, None)
    assert (len(found["entered"][0]["bindings"]), found["entered"][0]["unlisted"]) == (1000, 101)


def test_what_is_listed_has_a_limit() -> None:
    """A fanout exchange may have any number of queues."""
    world = made()
    make_exchange(world.domain, "x", "fanout")
    for number in range(1005):
        make_queue(world.domain, f"q{number}")
        bind(world.domain, "x", "", f"q{number}")
    found = explain(world, "x")

    assert (found["queueCount"], len(found["queues"])) == (1005, 1000)
    assert (len(found["entered"][0]["bindings"]), found["entered"][0]["unlisted"]) == (1000, 5)
    lines = list(explanation_lines(found))
    assert lines[0] == "delivered to 1005 queues"
    assert "5 more queues are not listed" in lines


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"exchange": "no"}, "exchange 'no' does not exist"),
        ({"exchange": "x", "propertys": {}}, "did you mean properties"),
        ({"exchange": "x", "properties": []}, "'properties' must be a JSON object"),
        ({"exchange": "x", "properties": {"a": []}}, "'properties': argument 'a' is []"),
        ({"exchange": "x", "key": 1}, "'key' must be a text"),
        ({"exchange": "x", "priority": 10}, "'priority' must be a whole number from 0 to 9"),
        ({"exchange": "x", "type": 1}, "'type' must be a text"),
        ({"exchange": "x", "queue": 1}, "'queue' must be a text"),
        ({"exchange": "x", "queue": "no"}, "queue 'no' does not exist"),
        ({"exchange": "x", "roles": "r"}, "'roles' must be an array of texts"),
        ({"exchange": "x", "durable": "no"}, "'durable' must be true or false"),
        ({"exchange": "x", "key": "k" * 5000}, "the routing key has 5000 characters"),
    ],
)
def test_what_cannot_be_explained(members: dict[str, Any], message: str) -> None:
    world = made()
    make_exchange(world.domain, "x")

    assert message in world.refusal("broker", "explainPublish", members)


def test_too_many_words_are_refused_as_for_a_message() -> None:
    world = made()
    make_exchange(world.domain, "x", "topic")
    found = explain(world, "x", "a." * 299 + "a")

    assert found["outcome"] == "refused"
    assert found["reason"] == "the routing key has 300 words; a topic exchange allows 256"


def test_the_explanation_agrees_with_what_happens() -> None:
    """Chains, circles, alternates, selectors: the same queues."""
    world = made()
    domain = world.domain
    make_exchange(domain, "x", "topic")
    make_exchange(domain, "y", "headers", alternate=to_queue("c"))
    make_exchange(domain, "z", "fanout", alternate=to_exchange("y"))
    chain(domain, "x", "#", "y")
    chain(domain, "x", "z.#", "z")
    chain(domain, "z", "", "x", {"x-replacement-routing-key": "z.again"})
    bind(domain, "x", "*.a", "a")
    bind(domain, "y", "", "b", {"n": 1})
    for key in ("", "x.a", "z", "z.a", "z.again"):
        for n in (0, 1):
            found = explain(world, "x", key, properties={"n": n})
            assert set(queues(found)) == reached(domain, "x", key, n=n)


def test_the_text_says_it_line_by_line() -> None:
    world = made()
    domain = world.domain
    make_exchange(domain, "x", alternate=to_queue("c"))
    bind(domain, "x", "l", "b")

    assert list(explanation_lines(explain(world, "x", "k"))) == [
        "delivered to 1 queue",
        "user 'admin': may send",
        "queue 'c' of address 'c'",
        "  through exchange 'x' with key 'k'",
        "its size counts for 'c'",
        "exchange 'x' (direct) with key 'k'",
        "  no   key 'l' to queue 'b': its key is 'l', not 'k'",
        "  no queue was reached, so its alternate is asked: queue 'c'",
    ]
    assert next(explanation_lines(explain(world, "", "no"))).startswith("unroutable: the default exchange leads to")
