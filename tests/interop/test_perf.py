"""`artemis-py perf` measures and, above all, notices what is wrong."""

import json
import subprocess
import sys
from typing import Any

import pytest
from proton import Message
from proton.utils import BlockingConnection

from tests.interop.broker_process import BrokerProcess

TIMEOUT_S = 60.0


def perf(url: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command."""
    command = [sys.executable, "-P", "-m", "artemis_py.cli", "perf", "--url", url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)


def figures(url: str, *arguments: str) -> dict[str, Any]:
    """Run the command, which must succeed, and read its JSON."""
    done = perf(url, *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("options", [(), ("--settled",), ("--durable",), ("--size", "1000"), ("--window", "1")])
def test_every_message_of_a_queue_comes_once_and_in_order(
    broker: BrokerProcess, name: str, options: tuple[str, ...]
) -> None:
    """Two producers and three consumers share the work; the counts are those that were asked for."""
    result = figures(
        broker.url,
        "--destination",
        f"queue://{name}",
        "--count",
        "501",
        "--producers",
        "2",
        "--consumers",
        "3",
        *options,
    )

    assert (result["sent"], result["received"], result["wanted"], result["failure"]) == (501, 501, 501, None)
    assert 0 < result["latency_ms"]["p50"] <= result["latency_ms"]["p99"] <= result["latency_ms"]["max"]


def test_every_consumer_of_a_topic_gets_every_message(broker: BrokerProcess, name: str) -> None:
    """Multicast: each message counts once per consumer."""
    result = figures(broker.url, "--destination", f"topic://topic.{name}", "--count", "200", "--consumers", "3")

    assert (result["sent"], result["received"]) == (200, 600)


@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_mqtt_is_measured_alike(broker: BrokerProcess, name: str, qos: str) -> None:
    """Every subscriber gets every message, once and in order, whatever the QoS."""
    options = ("--protocol", "mqtt", "--qos", qos, "--producers", "2", "--consumers", "2", "--window", "50")
    result = figures(broker.url, "--destination", f"topic://{name}/load", "--count", "301", *options)

    assert (result["sent"], result["received"], result["failure"]) == (301, 602, None)


def test_mqtt_knows_no_queues(broker: BrokerProcess) -> None:
    """Exit code 2, as for every mistake in the arguments."""
    done = perf(broker.url, "--protocol", "mqtt", "--destination", "queue://q")

    assert done.returncode == 2
    assert "topic://X" in done.stderr


def test_a_rate_is_kept(broker: BrokerProcess, name: str) -> None:
    """100 messages at 500 a second cannot be through before the last one is due."""
    result = figures(broker.url, "--destination", f"queue://{name}", "--count", "100", "--rate", "500")

    assert result["seconds"] >= 99 / 500


def test_a_message_of_somebody_else_fails_the_run(broker: BrokerProcess, name: str) -> None:
    """What was in the queue before is neither counted nor accepted: it is still there."""
    connection = BlockingConnection(broker.url, timeout=60)
    connection.create_sender(name).send(Message(body="left over"))

    done = perf(broker.url, "--destination", f"queue://{name}", "--count", "10")
    left = connection.create_receiver(name, credit=1).receive(timeout=60)
    connection.close()
    assert done.returncode == 1
    assert "must be empty" in done.stdout
    assert left.body == "left over"


def test_messages_that_never_come_fail_the_run(broker: BrokerProcess, name: str) -> None:
    """Fewer messages than were sent: exit code 1, and both numbers."""
    connection = BlockingConnection(broker.url, timeout=60)
    connection.create_receiver(name, credit=5)  # takes some of them away

    done = perf(broker.url, "--destination", f"queue://{name}", "--count", "20", "--timeout", "0.5", "--json")
    connection.close()
    result = json.loads(done.stdout)
    assert done.returncode == 1
    assert result["received"] < result["wanted"] == 20
    assert "no message came for 0.5 s" in result["failure"]


def test_no_broker_is_exit_code_3() -> None:
    """As for every command: 3 means no connection."""
    done = perf("amqp://127.0.0.1:1")

    assert done.returncode == 3
    assert done.stderr.startswith("Error: amqp://127.0.0.1:1: ")
