"""Large messages between two brokers of a mesh: processes, with a network that breaks, and Proton as client."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from proton import Message

from benchmarks.large import bytes_of, peak_bytes, receive
from benchmarks.large import send as send_large
from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client
from tests.interop.proxy import Proxy
from tests.interop.test_mesh import artemis_py, connected, free_ports, make, running, until

SIZE: Final = 3_000_000
"""Bytes of a large body: twelve pieces."""

TOPIC: Final = ("topic",)


def url(port: int) -> str:
    """Where a broker is."""
    return f"amqp://127.0.0.1:{port}"


def body(name: str, size: int = SIZE) -> bytes:
    """Octets that tell pieces apart."""
    return b"".join(b"%s %9d " % (name.encode(), count) for count in range(size // 12))[:size]


def send(port: int, address: str, *bodies: bytes, capabilities: Sequence[str] = ()) -> None:
    """Durable messages, each confirmed."""
    with Client(url(port)) as client:
        client.send(address, *[Message(body=each, durable=True) for each in bodies], capabilities=capabilities)


def files(folder: Path) -> int:
    """Number of bodies that a broker has."""
    return len(list((folder / "data" / "large-messages").glob("*.body")))


def has_connected(broker: BrokerProcess, count: int) -> bool:
    """Whether it has connected to another one so often."""
    return connected(broker) >= count


@contextmanager
def meshed(first: Path, second: Path) -> Iterator[list[BrokerProcess]]:
    """Both run, and have met."""
    with running(first, second) as brokers:
        until(lambda: all("broker joined" in each.log_text() for each in brokers), "they never met")
        yield brokers


def test_large_and_small_messages_are_handed_over_in_order(tmp_path: Path) -> None:
    """C44, with bodies of a few MB: the octets, the order, and no file that stays."""
    first, second = free_ports(2)
    folders = make(tmp_path / "a", first, second), make(tmp_path / "b", second, first)
    bodies = [body("l1"), b"s1", body("l2", 400_000), b"s2", b"s3", body("l3")]
    with meshed(*folders):
        send(first, "q", *bodies)
        assert files(folders[0]) == 3
        with Client(url(second)) as client:
            receiver = client.receiver("q")
            receiver.flow(10)
            for expected in bodies:
                received = receiver.receive()
                assert bytes(received.body) == expected
                received.accept()
        until(lambda: not files(folders[0]) and not files(folders[1]), "a file was left")


def test_large_message_arrives_through_a_network_that_breaks(tmp_path: Path) -> None:
    """Begun again each time, and taken once."""
    first, second = free_ports(2)
    with Proxy(second) as proxy:
        folders = make(tmp_path / "a", first, proxy.port, direct=True), make(tmp_path / "b", second, direct=True)
        expected = body("large", 10_000_000)
        with meshed(*folders) as (a, _):
            send(first, "q", expected, b"after")
            with Client(url(second)) as client:
                receiver = client.receiver("q")
                receiver.flow(10)
                client.sync()
                for count in range(1, 3):
                    until(lambda: files(folders[1]), "nothing came")
                    proxy.cut()
                    until(partial(has_connected, a, count + 1), "they never met again")
                received = receiver.receive()
                assert bytes(received.body) == expected
                received.accept()
                assert bytes(receiver.receive().body) == b"after"
            until(lambda: not files(folders[0]) and not files(folders[1]), "a file was left")


def test_subscribers_get_large_copies(tmp_path: Path) -> None:
    """Each once; the copies of the broker where it was published are one file."""
    first, second = free_ports(2)
    folders = make(tmp_path / "a", first, second), make(tmp_path / "b", second, first)
    with meshed(*folders), Client(url(second), "c") as client:
        receivers = [
            client.receiver("topic.news", TOPIC),
            client.receiver("topic.news", TOPIC, name="kept", durable=True),
        ]
        bodies = [b"before", body("large"), b"after"]
        send(first, "topic.news", *bodies, capabilities=TOPIC)
        for receiver in receivers:
            receiver.flow(10)
            for expected in bodies:
                received = receiver.receive()
                assert bytes(received.body) == expected
                received.accept()
        until(lambda: not files(folders[0]) and not files(folders[1]), "a file was left")


def test_drain_moves_large_messages(tmp_path: Path) -> None:
    """C55."""
    first, second = free_ports(2)
    folders = make(tmp_path / "a", first, second), make(tmp_path / "b", second, first)
    with meshed(*folders):
        send(first, "q", body("l1"), b"small", body("l2"))
        said = artemis_py("mesh", "drain", port=first)
        assert "nothing left" in said
        with Client(url(second)) as client:
            receiver = client.receiver("q")
            receiver.flow(10)
            found = [bytes(receiver.receive().body) for _ in range(3)]
        assert found == [body("l1"), b"small", body("l2")]


def test_one_large_body_needs_little_memory(tmp_path: Path) -> None:
    """C44: a body of `ARTEMIS_PY_MESH_LARGE` (1G; without it 64M) costs each broker less than 32 MiB."""
    size = bytes_of(os.environ.get("ARTEMIS_PY_MESH_LARGE", "64M"))
    first, second = free_ports(2)
    folders = make(tmp_path / "a", first, second), make(tmp_path / "b", second, first)
    for folder in folders:
        path = folder / "etc" / "broker.xml"
        path.write_text(path.read_text().replace("?sasl", f"?amqpMaxMessageSize={size + 1024 * 1024};sasl", 1))
    with meshed(*folders) as brokers:
        # What a broker loads for its first messages is none of this.
        send(first, "warm", body("warm"))
        receive(url(second), "warm")
        before = [peak_bytes(each.process.pid) for each in brokers]
        sent = send_large(url(first), "q", size)
        assert receive(url(second), "q") == (size, sent)
        grown = [peak_bytes(each.process.pid) - was for each, was in zip(brokers, before, strict=True)]
        print("grown by", grown, "from", before)
        assert max(grown) < 32 * 1024 * 1024
        until(lambda: not files(folders[0]) and not files(folders[1]), "a file was left")
