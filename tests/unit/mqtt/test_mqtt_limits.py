"""Limits of the whole broker, and acceptors that name them or not."""

import pytest

from artemis_mqtt.engine.packets import Will
from artemis_py.config import check_acceptors
from artemis_py.transport.config import AcceptorConfig
from artemis_py.wire.parameters import InvalidParameter
from tests.mqtt_site import Client, Site

LIMIT = "mqttMaxRetainedMessages"


def test_a_limit_of_the_broker_stays_when_somebody_connects_elsewhere() -> None:
    """The last acceptor that somebody connected to won, and wills of the others were retained without a limit."""
    site = Site()
    one = Client(site, acceptor="one", mqttMaxRetainedMessages="1")
    one.connect("one", will=Will(topic="gone", payload=b"w", retain=True))
    one.publish("a", b"1", 1, 1, retain=True)
    other = Client(site, acceptor="other")
    other.connect("other")

    one.lose()
    other.publish("b", b"1", 1, 1, retain=True)

    assert other.packets() == [("puback", 1, 0x97)]
    assert site.services.retained.count == 1


def test_a_message_that_is_not_retained_leaves_no_address() -> None:
    """A flood of them took more memory for addresses than it was refused for."""
    site = Site()
    client = Client(site, mqttMaxRetainedMessages="1")
    client.connect("c")
    client.publish("kept", b"1", 1, 1, retain=True)
    client.packets()

    client.publish("refused", b"1", 1, 2, retain=True)

    assert client.packets() == [("puback", 2, 0x97)]
    assert "kept" in site.domain.addresses
    assert "refused" not in site.domain.addresses


def test_sessions_are_limited_on_every_acceptor() -> None:
    site = Site()
    Client(site, acceptor="one", mqttMaxSessions="0")
    client = Client(site, 4, acceptor="other")

    assert client.connect("c", clean_start=False).reason == 3


def test_acceptors_that_name_a_limit_of_the_broker_must_agree() -> None:
    """Which of two numbers counts would be a matter of chance."""
    manager = Site().manager
    manager.read_parameters("one", {LIMIT: "5"})
    manager.read_parameters("two", {LIMIT: "5"})
    manager.read_parameters("three", {})

    with pytest.raises(InvalidParameter):
        manager.read_parameters("three", {LIMIT: "6"})
    assert manager.limits.values.max_retained == 5


def test_the_broker_does_not_start_with_two_limits() -> None:
    """The error names the line of one acceptor, and the other one."""
    managers = [Site().manager]
    acceptors = [
        AcceptorConfig(name=name, file="broker.xml", line=line, parameters={LIMIT: text})
        for name, line, text in (("one", 4, "5"), ("two", 5, "-1"))
    ]

    assert [str(problem) for problem in check_acceptors(acceptors, managers).problems] == [
        (
            f'broker.xml:5: acceptor: parameter {LIMIT}: is -1, and 5 on acceptor "one"; there is one value for the '
            "whole broker: give it on one acceptor, or the same on both"
        )
    ]
