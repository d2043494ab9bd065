"""Clients that send anything at all, beside one that works: each ends its own connection at most.

`tests/property/test_openwire_disorder.py` has many more of them, without sockets.
"""

import random
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from artemis_openwire.engine.codec import write_frame
from artemis_openwire.engine.commands import (
    ActiveMQBytesMessage,
    ActiveMQObjectMessage,
    ConnectionInfo,
    ProducerInfo,
    SessionInfo,
)
from artemis_openwire.engine.structures import ActiveMQQueue, ConnectionId, ProducerId, SessionId
from tests.interop.broker_process import BrokerProcess, Instance, start_broker
from tests.interop.openwire_client import OpenWireClient, text_content
from tests.interop.proton.client import Client
from tests.openwire_disorder import Disorder, damaged, pieces
from tests.openwire_harness import wire_format

CLIENTS: Final = 60
STEADY: Final = ActiveMQQueue(physical_name="steady")
BOMBS: Final = ActiveMQQueue(physical_name="bombs")
BOMB_BYTES: Final = 160 << 20
"""Of zeros: 160 KiB when they are compressed."""
MOST_BYTES: Final = 96 << 20
"""What the broker may grow by."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all of them; it must stop without a complaint."""
    folder: Path = tmp_path_factory.mktemp("damage")
    process = start_broker(Instance(parameters="protocols=OPENWIRE,AMQP", persistence="true"), folder)
    yield process
    process.stop()


def login(name: str, version: int) -> list[bytes]:
    """What a client sends before it may do anything."""
    connection = ConnectionId(value=name)
    return [
        write_frame(wire_format(version), 1),
        write_frame(ConnectionInfo(command_id=1, connection_id=connection, client_id=name), version),
        write_frame(SessionInfo(command_id=2, session_id=SessionId(connection_id=name, value=1)), version),
        write_frame(
            ProducerInfo(command_id=3, producer_id=ProducerId(connection_id=name, session_id=1, value=1)), version
        ),
    ]


def disturb(broker: BrokerProcess, seed: int) -> None:
    """One client of any version, with damage somewhere, in pieces."""
    chance = random.Random(seed)
    version = chance.randint(1, 12)
    disorder = Disorder(seed, version)
    octets = login("c1", version) + [write_frame(disorder.command(), version) for _ in range(15)]
    at = chance.randrange(len(octets))
    octets[at] = damaged(octets[at], chance)
    with suppress(OSError), socket.create_connection((broker.host, broker.port), 5) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces(b"".join(octets), chance):
            client.sendall(piece)
        client.settimeout(0.01)
        while client.recv(65536):
            pass


def test_a_client_beside_damaged_ones_sees_nothing_of_them(broker: BrokerProcess) -> None:
    with OpenWireClient(broker.host, broker.port, "ID:steady:1") as steady:
        steady.consume(STEADY)
        for number in range(CLIENTS):
            disturb(broker, number)
            steady.send(STEADY, text_content(str(number)))
            assert steady.receive().content == text_content(str(number))


def test_a_bomb_is_not_unfolded(broker: BrokerProcess) -> None:
    """Neither for a client of AMQP, whose message it cannot become, nor for one of OpenWire, which may."""
    packer = zlib.compressobj(9)
    zeros = bytes(1 << 20)
    bomb = b"".join(packer.compress(zeros) for _ in range(BOMB_BYTES >> 20)) + packer.flush()
    content = BOMB_BYTES.to_bytes(4, "big") + bomb
    before = peak_bytes(broker)
    with OpenWireClient(broker.host, broker.port, "ID:bomber:1") as bomber, Client(broker.url) as reader:
        for kind in (ActiveMQBytesMessage, ActiveMQObjectMessage):
            bomber.send(BOMBS, content, kind, compressed=True)
        bomber.send(BOMBS, text_content("after"))
        started = time.monotonic()
        assert reader.receiver("bombs").receive().body == "after"
        assert time.monotonic() - started < 10
        bomber.consume(ActiveMQQueue(physical_name="DLQ"))
        assert bomber.receive().content == content

    assert peak_bytes(broker) - before < MOST_BYTES


def peak_bytes(broker: BrokerProcess) -> int:
    """The most memory that the broker has had."""
    status = Path(f"/proc/{broker.process.pid}/status").read_text(encoding="ascii")
    return int(status[status.index("VmHWM:") :].split()[1]) * 1024
