"""One large message through a broker with little memory: `python benchmarks/large.py --size 1G --limit 300M`.

A broker of an instance folder of its own is started with its data limited by the kernel (`RLIMIT_DATA`), and its
largest resident size is read when it is done (`VmHWM`). The client is Proton's, and holds no more of the message than
a few hundred KiB either: what it sends is a pattern, what it receives is only hashed.
"""

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from proton import Delivery, Event, Message, Sender
from proton.handlers import MessagingHandler
from proton.reactor import Container

BLOCK: Final = hashlib.sha256(b"block").digest() * 2048
"""64 KiB; each is sent with its number in front."""
AHEAD_BYTES: Final = 512 * 1024
"""What the sender hands to Proton before it went out."""
DATA_SECTION: Final = b"\x00\x53\x75\xb0"
"""How a data section of any size begins; its size follows in four octets (AMQP 1.0 §3.2.6)."""
START_TIMEOUT_S: Final = 30.0

CONFIGURATION: Final = """<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
  <name>large</name>
  <security-enabled>false</security-enabled>
  <acceptors><acceptor name="amqp">tcp://127.0.0.1:0?protocols=AMQP;amqpMaxMessageSize={limit}</acceptor></acceptors>
  <addresses><address name="large"><anycast><queue name="large"/></anycast></address></addresses>
</core></configuration>
"""


def block(number: int, size: int) -> bytes:
    """The octets of a body from its block `number` on, at most `size`."""
    return (number.to_bytes(8, "big") + BLOCK[8:])[:size]


class Client(MessagingHandler):  # type: ignore[misc]  # Proton has no types
    """One connection that ends with an outcome."""

    def __init__(self, url: str, address: str) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self.url: Final = url
        self.address: Final = address
        self.digest = hashlib.sha256()
        self.outcome = ""

    def on_rejected(self, event: Event) -> None:
        """Done."""
        self.end(event, f"rejected: {event.delivery.remote.condition}")

    def on_link_error(self, event: Event) -> None:
        """Done."""
        self.end(event, f"detached: {event.link.remote_condition}")

    def on_transport_error(self, event: Event) -> None:
        """Done."""
        self.end(event, f"lost: {event.transport.condition}")

    def end(self, event: Event, outcome: str) -> None:
        """The outcome is known."""
        self.outcome = outcome
        event.connection.close()


class Sending(Client):
    """Sends one message of `size` bytes of body, a block at a time."""

    def __init__(self, url: str, address: str, size: int, durable: bool) -> None:
        super().__init__(url, address)
        self._left = size
        self._number = 0
        self._durable = durable
        self._sender: Sender
        self._delivery: Delivery | None = None

    def on_start(self, event: Event) -> None:
        """Connect."""
        connection = event.container.connect(self.url, reconnect=False)
        self._sender = event.container.create_sender(connection, self.address)

    def on_sendable(self, event: Event) -> None:
        """Begin: header, properties, and the head of one data section."""
        if self._delivery is None:
            self._delivery = self._sender.delivery("large")
            start = bytes(Message(durable=self._durable, id="large", properties={"size": self._left}).encode())
            self._sender.stream(start + DATA_SECTION + self._left.to_bytes(4, "big"))
        self._go_on()

    def on_transport(self, event: Event) -> None:
        """Output went out."""
        self._go_on()

    def _go_on(self) -> None:
        delivery = self._delivery
        if delivery is None or not self._left:
            return
        while self._left and delivery.pending < AHEAD_BYTES:
            octets = block(self._number, min(self._left, len(BLOCK)))
            self._number += 1
            self._left -= len(octets)
            self.digest.update(octets)
            self._sender.stream(octets)
        if not self._left:
            self._sender.advance()

    def on_accepted(self, event: Event) -> None:
        """Done."""
        self.end(event, "accepted")


class Receiving(Client):
    """Receives one message and hashes its body."""

    def __init__(self, url: str, address: str) -> None:
        super().__init__(url, address)
        self._start = b""
        self.size = 0

    def on_start(self, event: Event) -> None:
        """Connect; one message."""
        connection = event.container.connect(self.url, reconnect=False)
        event.container.create_receiver(connection, self.address).flow(1)

    def on_delivery(self, event: Event) -> None:
        """Take what came, of a delivery that may not be complete."""
        delivery = event.delivery
        if delivery.link.is_sender or not delivery.readable:
            return
        self._take(bytes(delivery.link.recv(delivery.pending) or b""))
        if not delivery.partial:
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()
            delivery.link.advance()
            self.end(event, "accepted")

    def _take(self, octets: bytes) -> None:
        if not self.size:
            self._start += octets
            octets = self._start.partition(DATA_SECTION)[2][4:]
        self.size += len(octets)
        self.digest.update(octets)


def send(url: str, address: str, size: int, durable: bool = True) -> str:
    """Send one message of so many bytes; returns the SHA-256 of its body. Raises RuntimeError unless it is accepted."""
    handler = Sending(url, address, size, durable)
    Container(handler).run()
    if handler.outcome != "accepted":
        raise RuntimeError(handler.outcome)
    return handler.digest.hexdigest()


def receive(url: str, address: str) -> tuple[int, str]:
    """Receive one message; size and SHA-256 of its body. Raises RuntimeError if none comes whole."""
    handler = Receiving(url, address)
    Container(handler).run()
    if handler.outcome != "accepted":
        raise RuntimeError(handler.outcome)
    return handler.size, handler.digest.hexdigest()


def peak_bytes(process_id: int) -> int:
    """The largest resident size of a process so far."""
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not tell VmHWM")


def start(folder: Path, size: int, limit: int) -> "tuple[subprocess.Popen[bytes], str]":
    """A broker of its own, and its URL."""
    (folder / "etc").mkdir()
    (folder / "etc" / "broker.xml").write_text(CONFIGURATION.format(limit=size + 1024 * 1024))
    port_file = folder / "port"
    process = subprocess.Popen(
        [sys.executable, "-m", "artemis_py.cli", "run", str(folder), "--port-file", str(port_file)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
        stdout=subprocess.DEVNULL,
        stderr=(folder / "log").open("wb"),
    )
    deadline = time.monotonic() + START_TIMEOUT_S
    while not port_file.exists() or not port_file.read_text().endswith("\n"):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError((folder / "log").read_text())
        time.sleep(0.02)
    return process, f"amqp://127.0.0.1:{port_file.read_text().strip().split()[-1]}"


def bytes_of(text: str) -> int:
    """`1G`, `300M`, `64K` or a number."""
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    return int(text[:-1] if factor > 1 else text) * factor


def measure(size: int, limit: int, durable: bool, folder: Path) -> dict[str, Any]:
    """One message there and back."""
    process, url = start(folder, size, limit)
    try:
        idle = peak_bytes(process.pid)
        began = time.monotonic()
        sent = send(url, "large", size, durable)
        stored = time.monotonic()
        received_size, received = receive(url, "large")
        ended = time.monotonic()
        return {
            "bytes": size,
            "durable": durable,
            "same": (received_size, received) == (size, sent),
            "in_s": round(stored - began, 2),
            "out_s": round(ended - stored, 2),
            "idle_mib": idle >> 20,
            "peak_mib": peak_bytes(process.pid) >> 20,
            "limit_mib": limit >> 20,
        }
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Measure once and print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=bytes_of, default=1 << 30)
    parser.add_argument("--limit", type=bytes_of, default=300 << 20)
    parser.add_argument("--not-durable", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        print(json.dumps(measure(arguments.size, arguments.limit, not arguments.not_durable, Path(folder))))


if __name__ == "__main__":
    main()
