"""Replays `engine.txt`: exchanges with the AMQP engine, octet by octet."""

from pathlib import Path

import pytest

from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from tests.amqp_harness import ACCEPTED, Conversation

SCRIPT = Path(__file__).with_name("engine.txt").read_text()
BLOCKS = [
    block for block in SCRIPT.split("\n\n") if any(line.startswith((">", "<", "!")) for line in block.splitlines())
]


class Replay:
    """One block: the peer's octets, the broker's calls, and what the engine wrote."""

    def __init__(self) -> None:
        self.peer = Conversation()
        self.peer.handler.credit = 0
        self.written = b""

    def run(self, line: str) -> None:
        """One line of the script."""
        sign, _, rest = line.partition(" ")
        if sign == ">":
            self.peer.engine.receive_data(bytes.fromhex(rest), 0.0)
            self.written += self.peer.engine.data_to_send()
        elif sign == "!":
            self.call(rest.split())
            self.written += self.peer.engine.data_to_send()
        elif rest:
            expected = bytes.fromhex(rest)
            assert self.written[: len(expected)].hex() == expected.hex()
            self.written = self.written[len(expected) :]
        else:
            assert self.written == b""

    def call(self, words: list[str]) -> None:
        """What the broker does."""
        engine = self.peer.engine
        match words:
            case ["opened"]:
                self.peer.open()
            case ["began"]:
                self.peer.open()
                self.peer.begin(window=2**31 - 1)
            case ["sasl", "only"]:
                engine.login.is_required = True
            case ["outcome", code]:
                engine.login.finish(int(code), b"")
            case ["closed"]:
                assert self.written == b""
                assert engine.closed
            case ["attached", name]:
                assert name in self.peer.handler.links
                self.written = b""
            case ["credit", name, number]:
                link = self.peer.handler.links[name]
                assert isinstance(link, ReceiverLink)
                link.grant(int(number))
                engine.data_to_send()
                self.written = b""
            case ["accept", number]:
                self.peer.handler.sessions[-1].settle_incoming(int(number), int(number), ACCEPTED, True)
            case ["drained", name]:
                self.sender(name).drained()
                self.written = b""
            case ["send", name, body]:
                self.sender(name).send(b"", bytes.fromhex(body), None, False)
            case ["settle", name, number]:
                self.sender(name).settle(int(number), ACCEPTED)
            case _:
                raise AssertionError(f"no such call: {words}")

    def sender(self, name: str) -> SenderLink:
        """A link on which the engine sends."""
        link = self.peer.handler.links[name]
        assert isinstance(link, SenderLink)
        return link


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
    assert len(BLOCKS) == 16
