"""producer, consumer and browse against a running broker."""

import json
import signal
import subprocess
import sys

from tests.cli.conftest import Command
from tests.interop.broker_process import STOP_TIMEOUT_S, BrokerProcess


def test_what_a_producer_sends_a_consumer_prints_in_order(artemis: Command, name: str) -> None:
    sent = artemis("producer", "--destination", f"queue://{name}", "--message-count", "3", "--message", "m {n}")
    received = artemis("consumer", "--destination", f"queue://{name}", "--message-count", "3")

    assert sent.code == 0
    assert sent.err.startswith("sent 3 messages")
    assert received.lines == ["m 1", "m 2", "m 3"]


def test_a_consumer_takes_no_more_than_it_was_told_to(artemis: Command, name: str) -> None:
    artemis("producer", "--destination", name, "--message-count", "5", "--message", "{n}")
    first = artemis("consumer", "--destination", name, "--message-count", "2")
    rest = artemis("consumer", "--destination", name, "--message-count", "3")

    assert (first.lines, rest.lines) == (["1", "2"], ["3", "4", "5"])


def test_fewer_messages_than_asked_for_is_a_failure(artemis: Command, name: str) -> None:
    artemis("producer", "--destination", name, "--message-count", "1", "--message", "only")
    outcome = artemis("consumer", "--destination", name, "--message-count", "2", "--receive-timeout", "3000")

    assert (outcome.code, outcome.out) == (1, "only\n")
    assert "received 1 of 2 messages" in outcome.err


def test_many_messages_arrive_complete(artemis: Command, name: str) -> None:
    """More than one window of credit in each direction."""
    count = 5000
    artemis("producer", "--destination", name, "--message-count", str(count), "--message", "{n}")
    received = artemis("consumer", "--destination", name, "--message-count", str(count), "--quiet")

    assert received.lines == [str(number) for number in range(1, count + 1)]
    assert received.err == ""


def test_browsing_shows_all_messages_and_leaves_them(artemis: Command, name: str) -> None:
    artemis("producer", "--destination", name, "--message-count", "1200", "--message", "{n}")
    seen = [artemis("browse", "--destination", name).lines for _ in range(2)]

    assert seen == [[str(number) for number in range(1, 1201)]] * 2


def test_browsing_an_empty_queue_ends(artemis: Command, name: str) -> None:
    artemis("queue", "create", name)

    assert artemis("browse", "--destination", name).lines == []


def test_browsing_a_full_window_ends(artemis: Command, name: str) -> None:
    """500 messages fill the first window exactly; the second finds none."""
    artemis("producer", "--destination", name, "--message-count", "500")

    assert len(artemis("browse", "--destination", name).lines) == 500


def test_a_filter_selects_by_properties(artemis: Command, name: str) -> None:
    for colour in ("red", "blue"):
        artemis("producer", "--destination", name, "--message", colour, "--property", f"colour={colour}")
    browsed = artemis("browse", "--destination", name, "--filter", "colour = 'blue'")
    received = artemis("consumer", "--destination", name, "--filter", "colour = 'blue'", "--message-count", "1")

    assert browsed.lines == received.lines == ["blue"]


def test_all_of_a_message_is_printed_as_json(artemis: Command, name: str) -> None:
    artemis(
        *("producer", "--destination", name, "--message", "text", "--property", "n=5", "--property", "flag=true"),
        *("--priority", "7", "--ttl", "60000", "--non-persistent"),
    )
    (line,) = artemis("consumer", "--destination", name, "--message-count", "1", "--json").lines
    message = json.loads(line)

    assert {key: message[key] for key in ("body", "properties", "priority", "durable")} == {
        "body": "text",
        "properties": {"n": 5, "flag": True},
        "priority": 7,
        "durable": False,
    }
    assert 0 < message["ttl_ms"] <= 60_000


def test_a_size_makes_a_body_of_bytes(artemis: Command, name: str) -> None:
    artemis("producer", "--destination", name, "--message-size", "300000")
    received = artemis("consumer", "--destination", name, "--message-count", "1")

    assert received.lines == ["x" * 300_000]


def test_a_topic_without_subscribers_takes_messages(artemis: Command, name: str) -> None:
    assert artemis("producer", "--destination", f"topic://{name}").code == 0
    shown = artemis("address", "show", name, "--json").json()

    assert shown["addresses"][0]["routingTypes"] == ["MULTICAST"]


def test_a_queue_is_reached_by_its_fully_qualified_name(artemis: Command, name: str) -> None:
    artemis("queue", "create", f"{name}.q", "--address", name, "--multicast")
    artemis("producer", "--destination", f"{name}::{name}.q", "--message", "hi")

    assert artemis("consumer", "--destination", f"{name}::{name}.q", "--message-count", "1").lines == ["hi"]


def test_a_consumer_that_is_interrupted_ends_in_good_order(
    artemis: Command, broker_process: BrokerProcess, name: str
) -> None:
    """Ctrl-C: what it printed is gone, and nothing else."""
    artemis("producer", "--destination", name, "--message-count", "2", "--message", "{n}")
    command = [
        sys.executable,
        "-P",
        "-m",
        "artemis_py.cli",
        "consumer",
        "--url",
        broker_process.url,
        "--destination",
        name,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as consumer:
        assert consumer.stdout is not None
        printed = [consumer.stdout.readline() for _ in range(2)]
        consumer.send_signal(signal.SIGINT)
        code = consumer.wait(STOP_TIMEOUT_S)
    (queue,) = artemis("queue", "stat", "--name", name, "--json").json()["queues"]

    assert (printed, code) == (["1\n", "2\n"], 0)
    assert (queue["messageCount"], queue["messagesAcked"], queue["consumerCount"]) == (0, 2, 0)


def test_a_filter_that_does_not_parse_is_refused_in_words(artemis: Command, name: str) -> None:
    artemis("queue", "create", name)
    outcome = artemis("consumer", "--destination", name, "--filter", "colour =", "--message-count", "1")

    assert outcome.code == 1
    assert outcome.err.startswith(f"Error: {name}: ")
