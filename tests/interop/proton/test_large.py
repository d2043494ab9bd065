"""Large messages: around the threshold, through files, shared, in transactions, over restarts, and with bounded memory."""

import hashlib
from pathlib import Path

import pytest
from proton import Delivery, Message

from tests.interop.broker_process import BrokerProcess, Instance, launch, start_broker
from tests.interop.proton.client import Client, Refused

THRESHOLD = 102_400


def body_of(size: int) -> bytes:
    """Octets in which a piece that is lost, doubled or moved shows."""
    count = size // 32 + 1
    return b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(count))[:size]


def files_of(broker: BrokerProcess) -> list[Path]:
    """The files of large messages of an instance."""
    return sorted((broker.directory / "data" / "large-messages").glob("*.body"))


@pytest.mark.parametrize("size", [THRESHOLD - 200, THRESHOLD, THRESHOLD + 1, 131_072, 300_000, 5_000_000])
@pytest.mark.parametrize("max_frame", [512, 65_536, 1_000_000])
def test_the_bare_message_comes_as_it_went(broker: BrokerProcess, name: str, size: int, max_frame: int) -> None:
    """AMQP 1.0 §3.2: no intermediary changes the bare message, whatever the frames of either side."""
    message = Message(body=body_of(size), subject="s", properties={"colour": "red", "number": 7}, id="id-1")
    with Client(broker.url, max_frame_size=max_frame) as client:
        client.sender(name).send(message)
        received = client.receiver(name).receive()

    assert received.bare == message.encode()[-len(received.bare) :]
    assert received.message.properties == {"colour": "red", "number": 7}
    assert received.body == body_of(size)
