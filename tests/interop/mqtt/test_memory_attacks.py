"""Clients that would fill memory cannot, and others go on: the whole process stays within its limit.

Memory is what the process has of its own (`RssAnon`); pages of the store's files are the system's to take back.
"""

import socket
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from artemis_mqtt.engine.packets import Connect, Subscribe, Subscription
from artemis_mqtt.engine.properties import Properties
from tests import mqtt_harness as wire
from tests.interop.broker_process import BrokerProcess, Instance, start_broker

LIMIT_BYTES: Final = 20_000_000
ALLOWED_BYTES: Final = LIMIT_BYTES * 3 // 2
"""What the process may grow by."""
COMMIT_BYTES: Final = 8192
"""The same for each queue that one commit writes to: LMDB has a page of each in memory, and queues have tables."""

TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.02

WORDS: Final = "abcdefghi"
TOPIC: Final = "/".join(WORDS)
FILTERS: Final = ["/".join(word if kept else "+" for word, kept in zip(WORDS, bits, strict=True))
                  for bits in product((True, False), repeat=len(WORDS))]  # fmt: skip
"""512 of them, and all cover the topic."""


class Client:
    """A bare socket that speaks MQTT 5."""

    def __init__(self, broker: BrokerProcess, client_id: str, lasts: bool = False) -> None:
        self._broker = broker
        self._socket = socket.create_connection((broker.host, broker.port), TIMEOUT_S)
        self._rest = b""
        properties = Properties(session_expiry_interval=3600) if lasts else Properties()
        self.send(wire.connect(Connect(client_id=client_id, clean_start=not lasts, properties=properties)))
        self.receive()

    def send(self, data: bytes) -> None:
        """All of it, however long the broker takes."""
        self._socket.sendall(data)

    def receive(self) -> Any:
        """The next packet."""
        while True:
            size = _packet_size(self._rest)
            if 0 < size <= len(self._rest):
                packet, self._rest = self._rest[:size], self._rest[size:]
                return wire.read_server_packets(5, packet)[0]
            data = self._socket.recv(65536)
            assert data, "the broker closed the connection"
            self._rest += data

    def subscribe(self, filters: list[str], qos: int) -> None:
        """All in one packet."""
        wanted = tuple(Subscription(topic_filter=each, qos=qos) for each in filters)
        self.send(wire.subscribe(5, Subscribe(packet_id=1, subscriptions=wanted)))
        assert set(self.receive().reasons) == {qos}

    def watch(self, answers: int) -> tuple[list[int], int]:
        """Reasons of so many PUBACKs, and the most memory that the broker had until they were all there."""
        reasons: list[int] = []
        most = memory(self._broker)
        self._socket.settimeout(POLL_S)
        waits = 0
        while len(reasons) < answers:
            try:
                reasons.append(self.receive()[2])
            except TimeoutError:
                waits += 1
                assert waits < TIMEOUT_S / POLL_S, "the broker does not answer"
                most = max(most, memory(self._broker))
        return reasons, max(most, memory(self._broker))

    def close(self) -> None:
        """Without a word."""
        self._socket.close()


def _packet_size(data: bytes) -> int:
    """Octets of the first packet; 0: its length is not all here."""
    size = 0
    for index, octet in enumerate(data[1:5]):
        size |= (octet & 0x7F) << 7 * index
        if octet < 0x80:
            return size + index + 2
    return 0


def memory(broker: BrokerProcess) -> int:
    """What the process has now."""
    for line in Path(f"/proc/{broker.process.pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("this system does not tell")


def serves(broker: BrokerProcess) -> bool:
    """Whether a client that comes now gets what it sends itself, stored and not."""
    client = Client(broker, "well-behaved")
    client.subscribe(["news/today"], 1)
    client.send(wire.publish(5, "news/today", b"durable", 1, 7) + wire.publish(5, "news/today", b"not", 0))
    got = [client.receive() for _ in range(3)]
    client.close()
    return {each[2] for each in got if each[0] == "publish"} == {b"durable", b"not"}


@pytest.fixture(params=["false", "true"], ids=["in memory", "with a store"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerProcess]:
    """One with little memory."""
    core = f"<security-enabled>false</security-enabled><global-max-size>{LIMIT_BYTES}</global-max-size>"
    running = start_broker(Instance(core=core, persistence=request.param), tmp_path / "instance")
    try:
        serves(running)
        yield running
        running.stop()
    finally:
        running.kill()


@pytest.mark.parametrize("qos", [0, 1])
def test_overlapping_filters_of_a_client_that_does_not_read(broker: BrokerProcess, qos: int) -> None:
    """600 publishes in one write are 307,200 references, 45 MB and more if nobody counts them."""
    idle = Client(broker, "idle", lasts=True)
    idle.subscribe(FILTERS, qos)
    before = memory(broker)
    writer = Client(broker, "writer")
    writer.send(b"".join(wire.publish(5, TOPIC, b"x", qos, qos * (number + 1)) for number in range(600)))
    writer.send(wire.publish(5, TOPIC, b"last", 1, 1000))
    reasons, most = writer.watch(600 * qos + 1)

    assert most - before < ALLOWED_BYTES + len(FILTERS) * COMMIT_BYTES
    assert set(reasons) == {0}
    assert serves(broker)
    for client in (idle, writer):
        client.close()


def test_fan_out_to_sessions_whose_clients_are_away(broker: BrokerProcess) -> None:
    """Durable in the broker with a store; in memory what is durable cannot outlive it, and goes to scratch files."""
    for number in range(4):
        away = Client(broker, f"away{number}", lasts=True)
        away.subscribe(FILTERS, 1)
        away.close()
    before = memory(broker)
    writer = Client(broker, "writer")
    writer.send(b"".join(wire.publish(5, TOPIC, b"x", 1, number + 1) for number in range(200)))
    reasons, most = writer.watch(200)

    assert most - before < ALLOWED_BYTES + 4 * len(FILTERS) * COMMIT_BYTES
    assert set(reasons) == {0}
    assert serves(broker)
    writer.close()


def test_a_flood_of_retained_messages(broker: BrokerProcess) -> None:
    """They stay in memory by their nature: at half of the limit further ones are refused."""
    before = memory(broker)
    writer = Client(broker, "writer")
    most = 0
    refused = 0
    for start in range(0, 10_000, 500):
        numbers = range(start, start + 500)
        packets = [wire.publish(5, f"flood/{number}", b"x" * 4000, 1, number + 1, retain=True) for number in numbers]
        writer.send(b"".join(packets))
        reasons, seen = writer.watch(500)
        most = max(most, seen)
        refused += reasons.count(0x97)

    assert most - before < ALLOWED_BYTES
    assert 5_000 < refused < 9_000
    assert serves(broker)
    writer.close()


def test_topics_without_end(broker: BrokerProcess) -> None:
    """Each makes an address: that ends where memory for such things ends, and known topics go on."""
    before = memory(broker)
    writer = Client(broker, "writer")
    most = 0
    refused = 0
    for start in range(0, 60_000, 500):
        names = [f"{'long' * 600}{number}" for number in range(start, start + 500)]
        writer.send(b"".join(wire.publish(5, name, b"", 1, number + 1) for number, name in enumerate(names)))
        reasons, seen = writer.watch(500)
        most = max(most, seen)
        refused += reasons.count(0x97)
        if refused:
            break

    assert refused > 0
    assert most - before < 100_000_000
    assert serves(broker)
    writer.close()
