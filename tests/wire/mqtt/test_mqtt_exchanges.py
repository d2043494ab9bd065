"""Replays `exchanges.txt`: conversations with the MQTT engine, octet by octet."""

from pathlib import Path

import pytest

from artemis_mqtt.engine.limits import ConnectionLimits
from artemis_mqtt.engine.topics import topic_field
from tests.mqtt_harness import Conversation

SCRIPT = Path(__file__).with_name("exchanges.txt").read_text()
BLOCKS = [
    block for block in SCRIPT.split("\n\n") if any(line.startswith((">", "<", "!")) for line in block.splitlines())
]
LIMITS = ConnectionLimits(receive_maximum=10, max_packet_size=1000, topic_alias_maximum=5)


class Replay:
    """One block: the client's octets, the broker's calls, and what the engine wrote."""

    def __init__(self) -> None:
        self.client = Conversation(5, LIMITS)
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
            assert self.written + engine.data_to_send() == b""

    def call(self, words: list[str]) -> None:
        """What the broker does, or is to have seen."""
        engine = self.client.engine
        match words:
            case ["decides", "later"]:
                self.client.handler.accepts = False
            case ["refuses", reason]:
                engine.refuse(int(reason, 16))
            case ["published", topic, payload]:
                assert ("publish", topic, bytes.fromhex(payload)) in [call[:3] for call in self.client.handler.calls]
            case ["publishes", qos, topic, payload]:
                packet_id = engine.outgoing.add(int(qos), topic) if qos != "0" else 0
                field = topic_field(topic)
                assert engine.writer.send(field, bytes.fromhex(payload), int(qos), False, False, packet_id, b"")
            case ["disconnects", reason]:
                engine.disconnect(int(reason, 16))
            case ["silence", seconds]:
                engine.handle_deadline(float(seconds))
            case ["closed"]:
                assert self.written + engine.data_to_send() == b""
                assert engine.closed
            case _:
                raise AssertionError(f"no such call: {words}")


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0].lstrip("# ")[:70])
def test_exchange(block: str) -> None:
    """The clause and what it says are the block's first line."""
    replay = Replay()
    for line in block.splitlines():
        if line and not line.startswith("#"):
            replay.run(line)
    replay.run("<")
