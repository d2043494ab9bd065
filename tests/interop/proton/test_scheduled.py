"""Delivery that waits: annotations `x-opt-delivery-time` and `x-opt-delivery-delay` (artemis-model §3.7)."""

import time

import pytest
from proton import Message, symbol, timestamp

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client

FAR_MS = 3_600_000
SHORT_MS = 200


def now_ms() -> int:
    """Milliseconds since 1970, as the annotations count."""
    return int(time.time() * 1000)


@pytest.mark.parametrize("form", ["time", "delay"])
def test_scheduled_message_is_not_delivered_early(broker: BrokerProcess, name: str, form: str) -> None:
    """artemis-model §3.7: it is not in the pending list, so neither consumers nor browsers see it."""
    value = now_ms() + FAR_MS if form == "time" else FAR_MS
    with Client(broker.url) as client:
        client.send(name, Message(body="later", annotations={symbol(f"x-opt-delivery-{form}"): value}), "now")

        assert [one.body for one in client.receiver(name, copy=True).drain()] == ["now"]
        assert client.bodies(name) == ["now"]


@pytest.mark.parametrize("form", ["time", "delay"])
def test_scheduled_message_is_delivered_when_it_is_due(broker: BrokerProcess, name: str, form: str) -> None:
    """artemis-model §3.7: not before its time."""
    due = now_ms() + SHORT_MS
    value = due if form == "time" else SHORT_MS
    with Client(broker.url) as client:
        receiver = client.receiver(name)
        client.send(name, Message(body="later", annotations={symbol(f"x-opt-delivery-{form}"): value}))
        received = receiver.receive()
        received.accept()

    assert received.body == "later"
    assert now_ms() >= due


def test_time_may_be_a_timestamp(broker: BrokerProcess, name: str) -> None:
    """Amqp10 15.5: long or timestamp."""
    with Client(broker.url) as client:
        due = timestamp(now_ms() + FAR_MS)
        client.send(name, Message(body="later", annotations={symbol("x-opt-delivery-time"): due}))

        assert client.bodies(name) == []


def test_time_wins_over_delay(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.7: with both, the time counts."""
    annotations = {symbol("x-opt-delivery-delay"): FAR_MS, symbol("x-opt-delivery-time"): now_ms() - 1000}
    with Client(broker.url) as client:
        client.send(name, Message(body="now", annotations=annotations))

        assert client.receiver(name).receive().body == "now"


def test_scheduled_messages_come_in_the_order_of_their_times(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.7."""
    with Client(broker.url) as client:
        receiver = client.receiver(name)
        receiver.flow(2)
        due = now_ms() + SHORT_MS
        for body, time_ms in (("second", due + SHORT_MS), ("first", due)):
            client.send(name, Message(body=body, annotations={symbol("x-opt-delivery-time"): time_ms}))

        assert [one.body for one in receiver.receive_many(2)] == ["first", "second"]


def test_broker_offers_delayed_delivery(broker: BrokerProcess) -> None:
    """Amqp10 15.5: connection capability, which Qpid JMS asks for."""
    with Client(broker.url) as client:
        offered = client.connection.conn.remote_offered_capabilities

    expected = {"DELAYED_DELIVERY", "SHARED-SUBS", "ANONYMOUS-RELAY", "artemis:stage", "artemis:sequence-range:list"}
    assert {str(item) for item in offered} >= expected
