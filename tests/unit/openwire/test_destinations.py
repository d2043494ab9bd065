"""OpenWire's destinations and virtual topics as addresses and queues."""

import pytest

from artemis_openwire.broker.destinations import consumed_address, durable_queue_name, matches
from artemis_openwire.broker.virtual_topics import Rewritten, parse_virtual_topics
from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.wire.parameters import InvalidParameter


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.b", "a.b"),
        ("a.*", "a.*"),
        ("a.>", "a.#"),
        (">", "#"),
        ("*.b.>", "*.b.#"),
        # Not a wildcard of OpenWire, so the name stays what a producer would send to.
        ("a.>.b", "a.>.b"),
        ("a.#", "a.#"),
        # In a pattern it is a literal word, which the broker must not take for a wildcard.
        ("a.#.*", r"a.\#.*"),
        ("a*b.>", r"a\*b.#"),
    ],
)
def test_wildcards_of_consumers_are_those_of_the_broker(name: str, expected: str) -> None:
    """artemis-model §4.3.2."""
    assert consumed_address(name, WildcardSyntax()) == expected


def test_a_broker_may_have_another_syntax() -> None:
    assert consumed_address("a.*.>", WildcardSyntax("/", "%", "+")) == "a/+/%"


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("a.>", "a", True),
        ("a.>", "a.b.c", True),
        ("a.>", "b", False),
        ("a.*", "a", False),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("*.b", "a.b", True),
        (">", "anything.at.all", True),
        ("a", "a.b", False),
    ],
)
def test_a_pattern_covers_names(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


def test_durable_subscriptions_share_names_with_other_protocols() -> None:
    """No two pairs share a queue."""
    assert durable_queue_name("client", "sub") == "client.sub"
    assert durable_queue_name("a.b", "c") == r"a\.b.c"
    assert durable_queue_name("a", "b.c") == r"a.b\.c"
    assert durable_queue_name("a\\", "b") == r"a\\.b"


CLASSIC = "Consumer.*.>;2"


@pytest.mark.parametrize(
    ("rules", "queue", "expected"),
    [
        (CLASSIC, "Consumer.A.VirtualTopic.Orders", "VirtualTopic.Orders::Consumer.A.VirtualTopic.Orders"),
        (CLASSIC, "Consumer.A.VirtualTopic.>", "VirtualTopic.>::Consumer.A.VirtualTopic.>"),
        (CLASSIC, "orders", None),
        (CLASSIC, "Consumer.A", None),
        (CLASSIC, "VirtualTopic.Orders::Consumer.A.VirtualTopic.Orders", None),
        ("C.*.*;1, Consumer.*.>;2", "C.A.T", "A.T::C.A.T"),
        ("Consumer.*.>;2,Consumer.>;1", "Consumer.A.T", "T::Consumer.A.T"),
        ("Consumer.>;1,Consumer.*.>;2", "Consumer.A.T", "A.T::Consumer.A.T"),
        ("VQ.*.*.>;3", "VQ.app.eu.orders.new", "orders.new::VQ.app.eu.orders.new"),
        ("", "Consumer.A.T", None),
    ],
)
def test_a_consumer_of_a_virtual_topic_gets_a_queue_of_the_topic(rules: str, queue: str, expected: str | None) -> None:
    """artemis-model §4.3.4; the first rule that matches counts."""
    topics = parse_virtual_topics(rules)

    for _ in range(2):  # found, then remembered
        found = topics.find(queue)
        assert (None if found is None else f"{found.address}::{found.queue}") == expected


def test_a_rule_may_use_the_selector_for_the_queue() -> None:
    topics = parse_virtual_topics("Consumer.*.>;2;selectorAware=true")

    assert topics.find("Consumer.A.T") == Rewritten("T", "Consumer.A.T", is_selector_aware=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Consumer.*.>", "number of words before the topic is missing"),
        ("Consumer.*.>;two", '"two" is not a number of words'),
        ("Consumer.*.>;0", '"0" is not a number of words'),
        ("Consumer.*.*;3", "nothing is left of the topic"),
        ("Consumer.>.A;1", "`>` may only be the last"),
        ("Consumer..A;1", "words with dots between them"),
        (";2", "words with dots between them"),
        ("Consumer.*.>;2;selectorAware=yes", '"selectorAware=yes" is neither'),
        ("Consumer.*.>;2,broken", '"broken" is no virtual topic'),
    ],
)
def test_a_wrong_rule_is_named(text: str, reason: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        parse_virtual_topics(text)

    assert caught.value.name == "virtualTopicConsumerWildcards"
    assert reason in str(caught.value)
