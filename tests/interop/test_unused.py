"""What clients create on demand and leave behind goes, in the shipped configuration; and its number has a limit."""

import json
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from proton import Message

from tests.interop.mqtt.paho_client import Paho
from tests.interop.proton.client import Client, Refused
from tests.interop.proton.test_ranges import ask
from tests.interop.shipped import Shipped, create, running

DECLARED: Final = ["DLQ", "ExpiryQueue"]
"""What the shipped file has."""

LIMIT: Final = 40
"""Addresses and queues of one user, here."""

PERIOD_MS: Final = 20
TIMEOUT_S: Final = 60.0
TOPIC: Final = ("topic",)
QUOTA_EXCEEDED: Final = 0x97


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shipped]:
    """An instance as it is shipped, but that five minutes are a millisecond, and with a low limit."""
    directory = tmp_path_factory.mktemp("shipped")
    file = create(directory)
    text = file.read_text()
    assert text.count("300000") == 2
    file.write_text(text.replace("300000", "1"))
    variables = {
        "ARTEMIS_PY_CORE_ADDRESS_QUEUE_SCAN_PERIOD": str(PERIOD_MS),
        "ARTEMIS_PY_LOGIN_MAX_AUTO_CREATED_PER_USER": str(LIMIT),
    }
    with running(directory, "instance", variables=variables) as broker:
        yield broker


def addresses(client: Client) -> list[str]:
    """All addresses, as management has them, but the one of the reply and the one that is always there."""
    replies = client.receiver(None, dynamic=True)
    request = Message(
        reply_to=replies.address,
        body="[]",
        properties={"_AMQ_ResourceName": "broker", "_AMQ_Attribute": "AddressNames"},
    )
    sender = client.sender("activemq.management")
    sender.send(request)
    sender.close()
    answer: Any = json.loads(replies.receive().body)
    (names,) = answer
    replies.close()
    return sorted(name for name in names if name not in (replies.address, "activemq.notifications"))


def wait_until_only(client: Client, *expected: str) -> None:
    """Return when these are the only addresses beside the declared ones."""
    wanted = sorted([*DECLARED, *expected])
    deadline = time.monotonic() + TIMEOUT_S
    while (left := addresses(client)) != wanted:
        assert time.monotonic() < deadline, left


def test_what_clean_sessions_subscribed_to_goes(shipped: Shipped) -> None:
    """50,000 filters left 50,000 addresses. What has a subscriber stays."""
    with Client(shipped.url) as client:
        with Paho(shipped) as subscriber:
            for number in range(LIMIT - 1):
                assert subscriber.subscribe(f"filter/{number}") == 0
            with Paho(shipped) as other:
                other.subscribe("stays")
                subscriber.close()
                wait_until_only(client, "stays")
                other.publish("stays", "m", qos=1)
                assert other.receive().payload == b"m"
        wait_until_only(client)


def test_what_was_sent_and_received_once_goes(shipped: Shipped) -> None:
    """Topics nobody subscribed to, and queues that are empty."""
    with Client(shipped.url) as client:
        with Client(shipped.url) as worker:
            for number in range(5):
                worker.send(f"queue{number}", "m")
                assert worker.receive(f"queue{number}").body == "m"
                worker.send(f"topic{number}", "m", capabilities=TOPIC)
        with Paho(shipped) as publisher:
            for number in range(5):
                publisher.publish(f"published/{number}", "m", qos=1)
        wait_until_only(client)


def test_a_durable_message_that_waits_keeps_its_address(shipped: Shipped) -> None:
    """Its producer is gone, and nobody came yet."""
    with Client(shipped.url) as client:
        with Client(shipped.url) as producer:
            producer.send("waits", Message(body="m", durable=True))
            producer.send("goes", "m", capabilities=TOPIC)
        wait_until_only(client, "waits")
        assert client.receive("waits").body == "m"
        wait_until_only(client)


def test_an_attached_sender_keeps_its_queue(shipped: Shipped) -> None:
    """Whatever it sends: there may be nothing for hours."""
    with Client(shipped.url) as client, Client(shipped.url) as producer:
        sender = producer.sender("attached")
        producer.send("goes", "m", capabilities=TOPIC)
        wait_until_only(client, "attached")
        sender.send("m")
        assert client.receive("attached").body == "m"
        sender.close()
        wait_until_only(client)


def test_an_mqtt_session_that_is_away_keeps_its_queue(shipped: Shipped) -> None:
    """It shares the queue of an anycast address, and is resumed."""
    with Client(shipped.url) as client:
        client.sender("shared").close()
        with Paho(shipped, "away", expiry_s=600) as subscriber:
            subscriber.subscribe("shared", qos=1)
        client.send("goes", "m", capabilities=TOPIC)
        wait_until_only(client, "shared")
        client.send("shared", "m")
        with Paho(shipped, "away", clean=False) as subscriber:
            assert subscriber.receive().payload == b"m"
            subscriber.unsubscribe("shared")
        wait_until_only(client)


def test_a_subscription_by_its_full_name_stays_while_its_client_is_away(shipped: Shipped) -> None:
    """Nobody makes it again but its client, and what is sent until then would be lost."""
    with Client(shipped.url) as client:
        client.receiver("full::name", TOPIC).close()
        client.send("goes", "m", capabilities=TOPIC)
        wait_until_only(client, "full")
        client.send("full", "m", capabilities=TOPIC)
        client.sync()
        assert client.receive("full::name").body == "m"
        with Client(shipped.url) as operator:
            assert ask(operator, "broker", "destroyQueue", "name") is None
        wait_until_only(client)


def test_one_user_has_a_limit_and_is_told_so(shipped: Shipped) -> None:
    """In each protocol's words; what goes makes room. Clients without a name are one user."""
    with Client(shipped.url) as client:
        holders = [client.sender(f"held{number}") for number in range(LIMIT // 2)]
        with pytest.raises(Refused) as refused:
            client.sender("more")
        with Paho(shipped) as subscriber:
            codes: list[int] = []
            subscriber.client.on_publish = lambda _, __, ___, code, ____: codes.append(code.value)
            assert subscriber.subscribe("more") == QUOTA_EXCEEDED
            subscriber.publish("more", "m", qos=1)
            assert codes == [QUOTA_EXCEEDED]
        with Paho(shipped, version=4) as old:
            assert old.subscribe("more") == 0x80
        assert refused.value.condition == "amqp:resource-limit-exceeded"
        assert f"max-auto-created-per-user allows {LIMIT}" in str(refused.value)

        for holder in holders:
            holder.close()
        wait_until_only(client)
        client.sender("more").close()
        wait_until_only(client)
    assert "limit reached: user 'anonymous' has 40" in (shipped.directory / "log").read_text()
