"""Topics and addresses: every topic has an address of its own, and finds its way back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artemis_mqtt.broker.addressing import InvalidTopic, queue_names, to_address, to_topic
from artemis_mqtt.broker.manager import MqttProtocolManager
from artemis_py.core.names.syntax import WildcardSyntax
from tests.core_harness import make_domain, make_host

SYNTAX = WildcardSyntax()
OTHER = WildcardSyntax(delimiter="/", any_words=">", single_word="+")


@pytest.mark.parametrize(
    ("topic", "address"),
    [
        ("a/b", "a.b"),
        ("/a/", ".a."),
        ("a.b/c", "a\\.b.c"),
        ("a/+/#", "a.*.#"),
        ("*", "\\*"),
        ("a::b", "a:\\:b"),
        ("$SYS/x", "$SYS.x"),
    ],
)
def test_levels_are_words(topic: str, address: str) -> None:
    """artemis-model §4.2.2; `::` cannot stand in an address."""
    assert to_address(topic, SYNTAX) == address


TOPICS = st.text(st.sampled_from("ab/.:\\*>$é "), min_size=1, max_size=12)


@given(TOPICS, st.sampled_from([SYNTAX, OTHER]))
def test_a_topic_comes_back_from_its_address(topic: str, syntax: WildcardSyntax) -> None:
    """So no two topics share an address, and none names a queue."""
    address = to_address(topic, syntax)

    assert to_topic(address, syntax) == topic
    assert "::" not in address
    assert not syntax.is_wild(address)


@pytest.mark.parametrize("address", ["a.x+y", "a.b\\#", "", "a\0"])
def test_an_address_that_no_topic_can_name(address: str) -> None:
    """[MQTT-3.3.2-2] [MQTT-4.7.3-1] [MQTT-4.7.3-2]."""
    with pytest.raises(InvalidTopic):
        to_topic(address, SYNTAX)


def test_second_names_are_of_one_kind() -> None:
    """What a client calls itself does not make its queue a group's."""
    assert queue_names("c", "", "t") == ("c.t", "$mqtt.c.t")
    assert queue_names("c", "g", "t") == ("g.t", "$share.g.t")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"", None),
        (b"\x10", None),
        (b"\x10\x10\x00", None),
        (b"\x10\x10\x00\x04MQTT", True),
        (b"\x10\xff\x01\x00\x06MQIsdp", True),
        (b"\x10\x80\x80\x80", None),
        (b"\x10\x80\x80\x80\x80", False),
        (b"\x10\x10\x00\x04HTTP", False),
        (b"AMQP", False),
        (b"GET ", False),
    ],
)
def test_first_bytes(head: bytes, expected: bool | None) -> None:
    """One port speaks all protocols."""
    assert MqttProtocolManager(make_host(make_domain())).matches(head) is expected
