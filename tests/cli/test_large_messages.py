"""consumer and browse with messages of many frames, and with one that the broker cannot read any more."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection

from tests.cli.conftest import Command, Outcome, run_command
from tests.interop.broker_process import BrokerProcess, Instance, start_broker

SIZES = (10, 60_000, 300_000, 20, 65_536, 2_000_000, 30, 66_000)
SMALL = 510
"""More than one window of `browse`."""


def send(broker: BrokerProcess, address: str, bodies: list[str]) -> None:
    """Each accepted before the next."""
    connection = BlockingConnection(broker.url, timeout=60)
    sender = connection.create_sender(address)
    for body in bodies:
        sender.send(Message(body=body, durable=True))
    connection.close()


def text(index: int, size: int) -> str:
    return (f"{index:07d}." * (size // 8 + 1))[:size]


BODIES = [text(index, size) for index, size in enumerate(SIZES)]


def test_long_messages_are_seen_and_received_whole(artemis: Command, broker_process: BrokerProcess, name: str) -> None:
    send(broker_process, name, BODIES)

    assert artemis("browse", "--destination", name).lines == BODIES
    assert artemis("browse", "--destination", name, "--message-count", "3").lines == BODIES[:3]
    assert artemis("consumer", "--destination", name, "--message-count", str(len(SIZES))).lines == BODIES


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Command]:
    """Commands against a broker that has lost the body of the third message in its queue `q`."""
    broker = start_broker(Instance(persistence="true"), tmp_path)

    def run(*arguments: str, **variables: str) -> Outcome:
        return run_command(*arguments, ARTEMIS_PY_URL=broker.url, **variables)

    try:
        send(broker, "q", ["0", "1", text(2, 300_000), *(str(number) for number in range(3, SMALL))])
        (file,) = [path for path in (tmp_path / "data").rglob("*.body") if path.stat().st_size > 250_000]
        file.write_bytes(file.read_bytes()[:1000])
        yield run
    finally:
        broker.kill()


WHOLE = [str(number) for number in range(SMALL) if number != 2]


def test_browsing_goes_on_behind_a_message_that_is_broken_off(damaged: Command) -> None:
    """It had its place in the window, which never became full: the end was taken for that of the queue."""
    outcome = damaged("browse", "--destination", "q")

    assert outcome.out.splitlines() == WHOLE
    assert outcome.code == 1
    assert "1 messages were aborted by the broker" in outcome.err


def test_a_consumer_gets_another_message_for_one_that_is_broken_off(damaged: Command) -> None:
    """The credit that it used comes back, or the count is never reached."""
    outcome = damaged("consumer", "--destination", "q", "--message-count", str(SMALL - 1), "--receive-timeout", "20000")

    assert outcome.lines == WHOLE
    assert "Warning: 1 messages were aborted by the broker" in outcome.err
