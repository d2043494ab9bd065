"""Replays `exchanges.txt`: conversations with the OpenWire engine, octet by octet."""

from pathlib import Path

import pytest

from artemis_openwire.engine import errors
from artemis_openwire.engine.codec import write_nested
from artemis_openwire.engine.commands import WireFormatInfo
from artemis_openwire.engine.fields import NO_ANSWER
from artemis_openwire.engine.limits import ConnectionLimits
from artemis_openwire.engine.structure import Throwable
from artemis_openwire.engine.structures import ActiveMQQueue, ConsumerId
from tests.openwire_harness import Conversation

SCRIPT = Path(__file__).with_name("exchanges.txt").read_text(encoding="ascii")
BLOCKS = [
    block for block in SCRIPT.split("\n\n") if any(line.startswith((">", "<", "!")) for line in block.splitlines())
]
LIMITS = ConnectionLimits(max_inactivity_ms=3000, initial_delay_ms=1000, max_frame_size=1000)
CONSUMER = ConsumerId(connection_id="c", session_id=1, value=2)


class Replay:
    """One block: the client's octets, the broker's calls, and what the engine wrote."""

    def __init__(self) -> None:
        self.client = Conversation(limits=LIMITS)
        self.written = b""

    def run(self, line: str) -> None:
        """One line of the script."""
        sign, _, rest = line.partition(" ")
        engine = self.client.engine
        if sign == ">":
            engine.receive_data(bytes.fromhex(rest), 0.0)
        elif sign == "!":
            self.call(rest.split())
        elif rest:
            self.written += engine.data_to_send()
            expected = bytes.fromhex(rest)
            assert self.written[: len(expected)].hex() == expected.hex()
            self.written = self.written[len(expected) :]
        else:
            assert (self.written + engine.data_to_send()).hex() == ""

    def call(self, words: list[str]) -> None:
        """What the broker does, or is to have seen."""
        engine = self.client.engine
        match words:
            case ["negotiated", version]:
                self.client.version = int(version)
                self.client.send(WireFormatInfo(version=int(version)))
                engine.data_to_send()
            case ["connected", version]:
                self.call(["negotiated", version])
                engine.receive_data(bytes.fromhex(LOGIN[int(version)]), 0.0)
                engine.data_to_send()
            case ["decides", "later"]:
                self.client.handler.accepts = False
            case ["accepts"]:
                engine.accept()
            case ["refuses", *text]:
                engine.refuse(Throwable(errors.SECURITY, " ".join(text)))
            case ["told", name]:
                assert [call[0] if call[0] != "command" else type(call[1]).__name__ for call in self.client.calls][
                    -1
                ] == name
            case ["fails", "without", "an", "answer", *text]:
                engine.fail(NO_ANSWER, Throwable(errors.JMS, " ".join(text)))
            case ["delivers", sequence, redeliveries, now_ms]:
                self.deliver(int(sequence), int(redeliveries), int(now_ms))
            case ["has", "nothing"]:
                engine.dispatch_writer(CONSUMER).send_nothing()
            case ["time", seconds]:
                engine.handle_deadline(float(seconds))
            case ["shuts", "down"]:
                engine.shutdown()
            case ["closed"]:
                self.run("<")
                assert engine.closed
            case _:
                raise AssertionError(f"no such call: {words}")

    def deliver(self, sequence: int, redeliveries: int, now_ms: int) -> None:
        """Send the last message that came from the client back to it; it arrived at 7."""
        version = self.client.version
        _, _, header, body = self.client.calls[-1]
        field = write_nested(ActiveMQQueue(physical_name="q"), version)
        writer = self.client.engine.dispatch_writer(CONSUMER)
        assert writer.send(header, body, field, sequence, redeliveries, now_ms, False)


# ConnectionInfo of connection `c`, command 1, answer wanted.
LOGIN = {
    12: "00000016 03 00000001 01 01 78 01 0001 63 00 00 00 00 00 00 00 00 00 00",
    9: "00000016 03 00000001 01 01 78 01 0001 63 00 00 00 00 00 00 00 00 00 00",
    1: "00000012 03 00000001 01 01 78 01 0001 63 00 00 00 00 00 00",
}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0].lstrip("# ")[:70])
def test_exchange(block: str) -> None:
    """The section and what it says are the block's first line."""
    replay = Replay()
    for line in block.splitlines():
        if line and not line.startswith("#"):
            replay.run(line)
    replay.run("<")
