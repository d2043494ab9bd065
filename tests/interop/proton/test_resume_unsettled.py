"""Resuming deliveries with unsettled maps (AMQP 1.0 §2.6.13), which Proton cannot do: frames written by hand."""

from typing import Any

import pytest
from proton import Described, symbol, uint, ulong

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client
from tests.interop.proton.raw import ATTACH, BEGIN_FRAME, DETACH, FLOW, TRANSFER, Raw, composed, frame, opening

ACCEPTED = Described(ulong(0x24), [])
SOURCE, TARGET = ulong(0x28), ulong(0x29)


@pytest.fixture
def topic(broker: BrokerProcess, name: str) -> str:
    """A MULTICAST address."""
    address = f"topic.{name}"
    with Client(broker.url) as client:
        client.sender(address, ("topic",)).close()
    return address


def subscribe(topic: str, unsettled: dict[Any, Any] | None = None) -> bytes:
    """Attach handle 0 as the receiver `s` of a durable subscription."""
    source = Described(SOURCE, [topic, uint(2), symbol("never")])
    return frame(composed(ATTACH, "s", uint(0), True, None, None, source, Described(TARGET, []), unsettled))


def credit(received: int, more: int) -> bytes:
    """Flow on handle 0 after `received` deliveries."""
    window = uint(1000)
    return frame(composed(FLOW, uint(0), window, uint(0), window, uint(0), uint(received), uint(more)))


def field(fields: list[Any], index: int) -> Any:
    """A field of a performative; trailing nulls are left out on the wire."""
    return fields[index] if index < len(fields) else None


def connect(broker: BrokerProcess, topic: str) -> Raw:
    """Connection of container `c-<topic>` with a session."""
    raw = Raw(broker)
    raw.send(opening("c-" + topic[-60:]) + BEGIN_FRAME)
    return raw


def suspended(raw: Raw, broker: BrokerProcess, topic: str, *bodies: str) -> list[bytes]:
    """Subscribe, get these messages, detach without settling any; returns the delivery tags."""
    raw.send(subscribe(topic))
    raw.next(ATTACH)
    with Client(broker.url) as client:
        client.send(topic, *bodies)
    raw.send(credit(0, len(bodies)))
    tags = []
    for _ in bodies:
        fields, _payload = raw.next(TRANSFER)
        tags.append(bytes(fields[2]))
    raw.send(frame(composed(DETACH, uint(0), False)))
    raw.next(DETACH)
    return tags


def test_answer_names_what_the_broker_still_has_unsettled(broker: BrokerProcess, topic: str) -> None:
    """AMQP 1.0 §2.6.13: both sides send their maps."""
    with connect(broker, topic) as raw:
        tags = suspended(raw, broker, topic, "one", "two")
        raw.send(subscribe(topic, dict.fromkeys(tags)))
        answer, _ = raw.next(ATTACH)

    assert {bytes(tag) for tag in answer[7]} == set(tags)


def test_unsettled_delivery_is_resumed_with_its_tag(broker: BrokerProcess, topic: str) -> None:
    """AMQP 1.0 §2.6.13: the receiver knows the tag and no state: resume=true, and the whole payload."""
    with connect(broker, topic) as raw:
        [tag] = suspended(raw, broker, topic, "one")
        raw.send(subscribe(topic, {tag: None}) + credit(1, 5))
        fields, payload = raw.next(TRANSFER)

    assert bytes(fields[2]) == tag
    assert field(fields, 8) is True
    assert payload.endswith(b"\xa1\x03one")


def test_delivery_the_receiver_accepted_is_settled_without_payload(broker: BrokerProcess, topic: str) -> None:
    """AMQP 1.0 §2.6.13: the receiver's terminal state is adopted; the message is gone."""
    with connect(broker, topic) as raw:
        [tag] = suspended(raw, broker, topic, "one")
        raw.send(subscribe(topic, {tag: ACCEPTED}) + credit(1, 5))
        fields, payload = raw.next(TRANSFER)
        raw.send(frame(composed(DETACH, uint(0), False)))
        raw.next(DETACH)
    with Client(broker.url) as client:
        left = client.bodies(f"{topic}::c-{topic[-60:]}.s")

    assert bytes(fields[2]) == tag
    assert field(fields, 4) is True
    assert field(fields, 8) is True
    assert payload == b""
    assert left == []


def test_delivery_the_receiver_forgot_is_delivered_anew(broker: BrokerProcess, topic: str) -> None:
    """AMQP 1.0 §2.6.13: not in the receiver's map: a new delivery, without resume."""
    with connect(broker, topic) as raw:
        suspended(raw, broker, topic, "one")
        raw.send(subscribe(topic, {}) + credit(1, 5))
        fields, payload = raw.next(TRANSFER)

    assert not field(fields, 8)
    assert payload.endswith(b"\xa1\x03one")


def test_delivery_only_the_receiver_knows_is_no_harm(broker: BrokerProcess, topic: str) -> None:
    """AMQP 1.0 §2.6.13: the sender settled and forgot; new messages come as ever."""
    with connect(broker, topic) as raw:
        raw.send(subscribe(topic, {b"unknown": None}) + credit(0, 5))
        raw.next(ATTACH)
        with Client(broker.url) as client:
            client.send(topic, "new")
        fields, payload = raw.next(TRANSFER)

    assert not field(fields, 8)
    assert payload.endswith(b"\xa1\x03new")


def test_suspended_delivery_survives_its_connection(broker: BrokerProcess, topic: str) -> None:
    """AMQP 1.0 §2.6.13: durability unsettled-state, expiry never: another connection of the container resumes it."""
    with connect(broker, topic) as first:
        [tag] = suspended(first, broker, topic, "one")
    with connect(broker, topic) as second:
        second.send(subscribe(topic, {tag: None}) + credit(1, 5))
        fields, payload = second.next(TRANSFER)

    assert payload.endswith(b"\xa1\x03one")
    assert (bytes(fields[2]) == tag) == bool(field(fields, 8))
