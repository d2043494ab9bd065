"""What settings change for clients: one broker, configured unlike the others."""

import pytest
from proton import Delivery, Message

from tests.interop.broker_process import BrokerProcess, Instance
from tests.interop.conftest import StartBroker
from tests.interop.proton.client import Client, Refused

TOPIC = ("topic",)

INSTANCE = Instance(
    core="""
<security-enabled>false</security-enabled>
<message-expiry-scan-period>50</message-expiry-scan-period>
<wildcard-addresses>
  <delimiter>/</delimiter><any-words>@</any-words><single-word>$</single-word>
</wildcard-addresses>
<literal-match-markers>()</literal-match-markers>
""",
    parameters="protocols=AMQP;amqpUseModifiedForTransientDeliveryErrors=true"
    ";amqpTreatRejectAsUnmodifiedDeliveryFailed=true;amqpCredits=10;amqpLowCredits=3;maxFrameSize=1024",
    addresses="""
<address name="purged"><anycast><queue name="purged" purge-on-no-consumers="true"/></anycast></address>
<address name="waiting"><anycast><queue name="waiting" consumers-before-dispatch="2"/></anycast></address>
<address name="disabled"><anycast><queue name="disabled" enabled="false"/></anycast></address>
<address name="closed"><anycast><queue name="closed" max-consumers="0"/></anycast></address>
<address name="full"><anycast><queue name="full"/></anycast></address>
<address name="stamped"><anycast><queue name="stamped"/></anycast></address>
<address name="short"><anycast><queue name="short"/></anycast></address>
<address name="eternal"><anycast><queue name="eternal"/></anycast></address>
""",
    settings="""
<address-setting match="@">
  <default-address-routing-type>ANYCAST</default-address-routing-type>
  <default-queue-routing-type>ANYCAST</default-queue-routing-type>
  <dead-letter-address>DLQ</dead-letter-address>
  <max-delivery-attempts>2</max-delivery-attempts>
</address-setting>
<address-setting match="full">
  <max-size-messages>2</max-size-messages><address-full-policy>FAIL</address-full-policy>
</address-setting>
<address-setting match="stamped"><enable-ingress-timestamp>true</enable-ingress-timestamp></address-setting>
<address-setting match="short"><expiry-delay>1</expiry-delay></address-setting>
<address-setting match="eternal"><no-expiry>true</no-expiry></address-setting>
<address-setting match="(news/@)"><default-max-consumers>1</default-max-consumers></address-setting>
""",
)


@pytest.fixture(scope="module")
def configured(start: StartBroker) -> BrokerProcess:
    """The one broker of this module."""
    return start(INSTANCE)


def test_wildcards_have_the_configured_characters(configured: BrokerProcess) -> None:
    """artemis-model §1.7 `<wildcard-addresses>`: `/`, `$` for one word, `@` for any number."""
    with Client(configured.url) as client:
        one, many = client.receiver("w/$", TOPIC), client.receiver("w/@", TOPIC)
        literal = client.receiver("w/#", TOPIC)
        for suffix in ("a", "a/b", "#"):
            client.send(f"w/{suffix}", suffix, capabilities=TOPIC)

        assert one.bodies() == ["a", "#"]
        assert many.bodies() == ["a", "a/b", "#"]
        assert literal.bodies() == ["#"]


def test_literal_match_concerns_the_wildcard_address_alone(configured: BrokerProcess) -> None:
    """artemis-model §1.9: `(news/@)` is the address of this name, not what it matches."""
    with Client(configured.url) as client:
        client.sender("news/x", ("queue",)).close()
        first, second = client.receiver("news/x"), client.receiver("news/x")
        client.receiver("news/@::sub", TOPIC)
        with pytest.raises(Refused):
            client.receiver("news/@::sub", TOPIC)
        first.close()
        second.close()


def test_producer_gets_the_configured_credit(configured: BrokerProcess) -> None:
    """artemis-model §4.1.1 `amqpCredits`: at most so many ahead, topped up at `amqpLowCredits`."""
    with Client(configured.url) as client:
        sender = client.sender("credit")
        client.wait(lambda: sender.link.credit > 0, "credit")
        first = sender.link.credit
        for number in range(50):
            sender.send(str(number))

        assert first == 10
        assert sender.link.credit <= 10
        assert len(client.bodies("credit")) == 50


def test_frames_have_the_configured_size(configured: BrokerProcess) -> None:
    """artemis-model §4.1.1 `maxFrameSize`: announced, and kept in both directions."""
    with Client(configured.url) as client:
        announced = client.connection.conn.transport.remote_max_frame_size
        client.send("frames", Message(body=bytes(50_000)))

        assert announced == 1024
        assert len(client.receive("frames").body) == 50_000


def test_full_address_answers_modified_when_told_to(configured: BrokerProcess) -> None:
    """artemis-model §4.1.1 `amqpUseModifiedForTransientDeliveryErrors`."""
    with Client(configured.url) as client:
        sender = client.sender("full")
        states = [sender.wait(sender.start(str(number))) for number in range(3)]

        assert states == [Delivery.ACCEPTED, Delivery.ACCEPTED, Delivery.MODIFIED]
        assert client.bodies("full") == ["0", "1"]


def test_rejected_message_counts_as_failed_when_told_to(configured: BrokerProcess) -> None:
    """artemis-model §4.1.1 `amqpTreatRejectAsUnmodifiedDeliveryFailed`: the limit of attempts decides."""
    with Client(configured.url) as client:
        client.send("rejects", "m")
        receiver = client.receiver("rejects")
        receiver.receive().reject()
        again = receiver.receive()
        again.reject()

        assert again.message.delivery_count == 1
        assert client.receive("DLQ").body == "m"


def test_purging_queue_keeps_messages_for_living_consumers_only(configured: BrokerProcess) -> None:
    """artemis-model §2.3 `purge-on-no-consumers`."""
    with Client(configured.url) as client:
        client.send("purged", "early")
        receiver = client.receiver("purged")
        client.send("purged", "1", "2")
        first = receiver.receive()
        receiver.close()

        assert first.body == "1"
        assert client.bodies("purged") == []


def test_queue_waits_for_its_consumers(configured: BrokerProcess) -> None:
    """artemis-model §2.3 `consumers-before-dispatch`."""
    with Client(configured.url) as client:
        client.send("waiting", "m")
        first = client.receiver("waiting")
        alone = first.drain()
        second = client.receiver("waiting")

        assert alone == []
        assert [*first.bodies(), *second.bodies()] == ["m"]


def test_disabled_queue_takes_nothing(configured: BrokerProcess) -> None:
    """artemis-model §2.3 `enabled`: silently."""
    with Client(configured.url) as client:
        client.send("disabled", "m")

        assert client.bodies("disabled") == []


def test_queue_for_nobody_refuses_consumers(configured: BrokerProcess) -> None:
    """artemis-model §2.2 `max-consumers` 0; a browser is no consumer."""
    with Client(configured.url) as client:
        client.send("closed", "m")
        with pytest.raises(Refused):
            client.receiver("closed")

        assert [one.body for one in client.receiver("closed", copy=True).drain()] == ["m"]


def test_arrival_is_stamped_when_told_to(configured: BrokerProcess) -> None:
    """artemis-model §2.1 `enable-ingress-timestamp`: annotation `x-opt-ingress-time`."""
    with Client(configured.url) as client:
        client.send("stamped", "m")
        client.send("plain", "m")
        stamped, plain = client.receive("stamped").annotations, client.receive("plain").annotations

    assert stamped["x-opt-ingress-time"] > 1_600_000_000_000
    assert "x-opt-ingress-time" not in plain


def test_expiry_of_the_address_applies(configured: BrokerProcess) -> None:
    """artemis-model §3.9 `expiry-delay`; without an expiry address the message is gone."""
    with Client(configured.url) as client:
        client.send("short", "m")
        receiver = client.receiver("short", copy=True)
        while receiver.drain():
            receiver.close()
            receiver = client.receiver("short", copy=True)

        assert client.bodies("short") == []


def test_expiry_may_be_switched_off(configured: BrokerProcess) -> None:
    """artemis-model §3.9 `no-expiry`: the producer's time to live does not count."""
    with Client(configured.url) as client:
        client.send("eternal", Message(body="m", ttl=0.001))
        client.send("eternal", "n")

        assert client.bodies("eternal") == ["m", "n"]
