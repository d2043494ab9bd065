"""Replays `broker.txt`: exchanges with a broker in memory over AMQP, octet by octet."""

from pathlib import Path

import pytest

from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_py.core.messages.message import Message
from tests.amqp_broker import Broker, Peer
from tests.core_harness import settle_down

SCRIPT = Path(__file__).with_name("broker.txt").read_text()
BLOCKS = [
    block for block in SCRIPT.split("\n\n") if any(line.startswith((">", "<", "!")) for line in block.splitlines())
]


class Replay:
    """One block: a connection with a session, the client's octets, and what the broker wrote."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.broker.queue()
        self.peer: Peer = self.broker.connect()
        self.written = b""

    def run(self, line: str) -> None:
        """One line of the script."""
        sign, _, rest = line.partition(" ")
        if sign == ">":
            self.peer.connection.receive_data(bytes.fromhex(rest), 0.0)
            self.hear()
        elif sign == "!":
            self.call(rest.split())
        elif rest:
            expected = bytes.fromhex(rest)
            assert self.written[: len(expected)].hex() == expected.hex()
            self.written = self.written[len(expected) :]
        else:
            assert self.written == b""

    def hear(self) -> None:
        """What the broker says now."""
        settle_down(self.broker.domain)
        self.written += self.peer.connection.data_to_send()

    def call(self, words: list[str]) -> None:
        """What happens elsewhere in the broker, or must have happened."""
        match words:
            case ["message", octets]:
                message = Message(AMQP_FORMAT, "q", bytes.fromhex(octets))
                self.broker.domain.route(message, self.broker.domain.address("q"))
                self.hear()
            case ["count", number]:
                assert self.broker.count() == int(number)
            case _:
                raise AssertionError(f"no such call: {words}")


@pytest.mark.parametrize("block", BLOCKS, ids=[block.splitlines()[0].lstrip("# ")[:60] for block in BLOCKS])
def test_exchange(block: str) -> None:
    """The clause is in the block's first line."""
    replay = Replay()

    for line in block.splitlines():
        if not line.startswith("#"):
            replay.run(line)

    assert replay.written == b""


def test_there_are_exchanges() -> None:
    """An empty script would pass."""
    assert len(BLOCKS) == 8
