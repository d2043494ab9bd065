"""What everybody else waits while one client gives the broker much to do: a canary's round trips under each load.

    python benchmarks/fairness.py [--python PYTHON ...] [--only subscribe,fan-out] [--persistence] [--json FILE]

A broker process for each load, a canary of its own process (an MQTT client that publishes to itself every 5 ms, and an
AMQP one that sends through a queue), and a client that does in few octets what takes long. Printed: the canaries' 99th
percentile and longest round trip while the load was on. `--python` names interpreters with the brokers to compare.
"""

import argparse
import base64
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mqtt_load import Client, packet, text
from run import START_TIMEOUT_S

from artemis_amqp.engine.performatives import Flow, read_performative

PERIOD_S: Final = 0.005
READ_BYTES: Final = 1 << 20
FILTERS_PER_PACKET: Final = 1000
LINKS: Final = 1000
"""In each session of a connection, of which there are as many:"""
SESSIONS: Final = 5
ASKED_S: Final = 8.0
QUIET_S: Final = 0.5
"""So long the canaries go on when a load is done."""

CONFIGURATION: Final = """<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>fairness</name>
    <persistence-enabled>{persistence}</persistence-enabled>
    <security-enabled>false</security-enabled>
    <acceptors>
      <acceptor name="all">tcp://127.0.0.1:0?protocols=AMQP,MQTT;mqttMaxSubscriptions=200000</acceptor>
    </acceptors>
    <address-settings>
      <address-setting match="#">
        <default-address-routing-type>ANYCAST</default-address-routing-type>
        <default-queue-routing-type>ANYCAST</default-queue-routing-type>
      </address-setting>
    </address-settings>
  </core>
  <web xmlns="urn:artemis-py"><bind>http://127.0.0.1:{web}</bind></web>
</configuration>
"""


class Broker:
    """A broker process."""

    def __init__(self, python: Path, folder: Path, persistence: bool) -> None:
        (folder / "etc").mkdir(parents=True)
        (folder / "data").mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            web = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{web}"
        text_of = CONFIGURATION.format(persistence=str(persistence).lower(), web=web)
        (folder / "etc" / "broker.xml").write_text(text_of, encoding="utf-8")
        for file in ("artemis-users.properties", "artemis-roles.properties"):
            (folder / "etc" / file).write_text("", encoding="utf-8")
        port_file = folder / "port"
        command = [python, "-P", "-m", "artemis_py.cli", "run", folder, "--port-file", port_file]
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not port_file.exists() or not port_file.read_text().endswith("\n"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise SystemExit(f"not started:\n{(folder / 'log').read_text()}")
            time.sleep(0.01)
        self.port = int(port_file.read_text())

    def stop(self) -> None:
        """SIGKILL: the loads leave much behind."""
        self.process.kill()
        self.process.wait()


# -- AMQP in octets ------------------------------------------------------------------------------------------------


def _described(code: int, fields: list[bytes]) -> bytes:
    body = struct.pack(">I", len(fields)) + b"".join(fields)
    return b"\x00\x53" + bytes((code,)) + b"\xd0" + struct.pack(">I", len(body)) + body


def _frame(performative: bytes, payload: bytes = b"", channel: int = 0) -> bytes:
    return struct.pack(">IBBH", 8 + len(performative) + len(payload), 2, 0, channel) + performative + payload


def _string(value: str) -> bytes:
    data = value.encode()
    return b"\xb1" + struct.pack(">I", len(data)) + data


def _symbol(value: str) -> bytes:
    return b"\xa3" + bytes((len(value),)) + value.encode()


def _uint(value: int) -> bytes:
    return b"\x70" + struct.pack(">I", value)


NULL: Final = b"\x40"
TRUE: Final = b"\x41"
FALSE: Final = b"\x42"
DURABLE: Final = b"\x00\x53\x70\xc0\x02\x01\x41"
"""A header section."""


def terminus(code: int, address: str | None, capability: str | None = None, dynamic: bool = False) -> bytes:
    """A source (0x28) or target (0x29)."""
    fields = [NULL if address is None else _string(address), NULL, NULL, NULL, TRUE if dynamic else FALSE, NULL]
    if code == 0x28:
        fields += [NULL] * 4
    fields.append(NULL if capability is None else _symbol(capability))
    return _described(code, fields)


def attach(name: str, handle: int, receives: bool, source: bytes, target: bytes, settled: bool = False) -> bytes:
    """An attach frame; each session has `LINKS` handles."""
    mode = b"\x50\x01" if settled else b"\x50\x00"
    channel, handle = divmod(handle, LINKS)
    fields = [_string(name), _uint(handle), TRUE if receives else FALSE, mode, b"\x50\x00", source, target]
    fields += [NULL, NULL, NULL if receives else _uint(0)]
    return _frame(_described(0x12, fields), channel=channel)


def flow(handle: int, credit: int) -> bytes:
    """A flow frame that grants credit."""
    window = _uint(1 << 30)
    return _frame(_described(0x13, [_uint(0), window, _uint(0), window, _uint(handle), _uint(0), _uint(credit)]))


def transfer(handle: int, number: int, body: bytes, settled: bool = True, state: bytes = NULL) -> bytes:
    """A transfer of a durable message."""
    tag = b"\xa0\x04" + struct.pack(">I", number)
    fields = [_uint(handle), _uint(number), tag, b"\x43", TRUE if settled else FALSE, FALSE, NULL, state]
    return _frame(_described(0x14, fields), DURABLE + b"\x00\x53\x75\xa0" + bytes((len(body),)) + body)


def disposition(first: int, last: int) -> bytes:
    """Accepted and settled, by the receiver."""
    return _frame(_described(0x15, [TRUE, _uint(first), _uint(last), TRUE, _described(0x24, [])]))


def detach(handle: int) -> bytes:
    """A closing detach."""
    channel, handle = divmod(handle, LINKS)
    return _frame(_described(0x16, [_uint(handle), TRUE]), channel=channel)


class Amqp:
    """An AMQP connection with five sessions; what comes is thrown away, unless `take` is called."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opening = _frame(_described(0x10, [_string(os.urandom(4).hex()), NULL, _uint(1 << 20), b"\x60\xff\xff"]))
        window = _uint(1 << 30)
        begin = _described(0x11, [NULL, _uint(0), window, window, _uint(65535)])
        beginning = b"".join(_frame(begin, channel=channel) for channel in range(SESSIONS))
        plain = b"\xa0\x04\x00a\x00b"
        sasl = _described(0x41, [_symbol("PLAIN"), plain])
        self.socket.sendall(b"AMQP\x03\x01\x00\x00" + struct.pack(">IBBH", 8 + len(sasl), 2, 1, 0) + sasl)
        self.socket.sendall(b"AMQP\x00\x01\x00\x00" + opening + beginning)
        self._data = b""
        self.take_exactly(8)
        while self.take()[0] != 0x44:  # sasl-outcome
            pass
        self.take_exactly(8)
        self.wait_for(0x11, SESSIONS)

    def take_exactly(self, size: int) -> bytes:
        """So many octets."""
        while len(self._data) < size:
            more = self.socket.recv(READ_BYTES)
            if not more:
                raise SystemExit("the broker closed the connection")
            self._data += more
        data, self._data = self._data[:size], self._data[size:]
        return data

    def take(self) -> tuple[int, bytes]:
        """The next frame: its performative's code, and all its octets."""
        head = self.take_exactly(8)
        body = self.take_exactly(int.from_bytes(head[:4], "big") - 8)
        return (body[2] if body else 0), body

    def wait_for(self, code: int, count: int = 1) -> None:
        """So many frames of this kind; others are passed over."""
        data, self._data = self._data, b""
        offset = 0
        while count:
            while len(data) - offset >= 8 and len(data) - offset >= int.from_bytes(data[offset : offset + 4], "big"):
                size = int.from_bytes(data[offset : offset + 4], "big")
                if size > 8 and data[offset + 10] == code:
                    count -= 1
                    if code != 0x18 and data[offset + 10] == 0x18:
                        raise SystemExit("the broker closed the connection")
                offset += size
                if not count:
                    break
            if count:
                more = self.socket.recv(READ_BYTES)
                if not more:
                    raise SystemExit(f"the broker closed the connection: {data[-300:]!r}")
                data = data[offset:] + more
                offset = 0
        self._data = data[offset:]

    def send_all(self, handle: int, count: int, first: int = 0, state: bytes = NULL) -> None:
        """So many settled transfers, as the link's credit allows; `first` is the delivery-id of the first."""
        sent = 0
        allowed = self._credit(handle)
        while sent < count:
            stop = min(allowed, count)
            self.socket.sendall(b"".join(transfer(handle, first + one, b"x", True, state) for one in range(sent, stop)))
            sent = stop
            while sent < count and allowed <= sent:
                allowed = self._credit(handle)

    def _credit(self, handle: int) -> int:
        """How many may have been sent on the link, by the next flow."""
        while True:
            code, body = self.take()
            if code == 0x13:
                performative, _ = read_performative(body, 0, len(body))
                assert isinstance(performative, Flow)
                if performative.handle == handle:
                    return (performative.delivery_count or 0) + (performative.link_credit or 0)

    def drain(self) -> threading.Thread:
        """Read and throw away from now on."""
        return drained(self.socket)


def drained(sock: socket.socket) -> threading.Thread:
    """A thread that reads until the end."""

    def read() -> None:
        buffer = bytearray(READ_BYTES)
        try:
            while sock.recv_into(buffer):
                pass
        except OSError:
            pass

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


# -- canaries ------------------------------------------------------------------------------------------------------


def canary(kind: str, port: int) -> None:
    """Go round and round until somebody writes to our input; print the round trips in seconds."""
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    turn: Callable[[], None]
    if kind == "mqtt":
        client = Client(port, "canary")
        client.subscribe(["canary"], 0)
        message = packet(0x30, text("canary") + b"x")

        def turn() -> None:
            client.socket.sendall(message)
            client.take(len(message))
    else:
        peer = Amqp(port)
        queue = "canary-queue"
        peer.socket.sendall(attach("out", 0, False, terminus(0x28, "x"), terminus(0x29, queue, "queue")))
        peer.socket.sendall(attach("in", 1, True, terminus(0x28, queue, "queue"), terminus(0x29, "x"), True))
        peer.wait_for(0x13)
        peer.socket.sendall(flow(1, 1 << 20))
        number = 0

        def turn() -> None:
            nonlocal number
            peer.socket.sendall(transfer(0, number, b"x"))
            number += 1
            peer.wait_for(0x14)

    turn()
    print("ready", flush=True)
    taken: list[float] = []
    begin = time.monotonic()
    while not over.is_set():
        start = time.monotonic()
        turn()
        end = time.monotonic()
        taken.append(end - start)
        # A round that took long stands for all that would have begun in it.
        time.sleep(max(0.0, PERIOD_S - (end - start)))
    print(json.dumps({"taken": taken, "seconds": time.monotonic() - begin}), flush=True)


class Canary:
    """One in a process of its own."""

    def __init__(self, kind: str, port: int) -> None:
        command = [sys.executable, __file__, "--canary", kind, "--port", str(port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise SystemExit(f"the {kind} canary did not start")

    def stop(self) -> list[float]:
        """Its round trips; a long one counts as often as it would have if it had not held up the next."""
        output, _ = self._process.communicate("")
        taken: list[float] = []
        for seconds in json.loads(output)["taken"]:
            while seconds > 0:
                taken.append(seconds)
                seconds -= PERIOD_S
        return sorted(taken)


# -- loads ---------------------------------------------------------------------------------------------------------


def mqtt(port: int, name: str, clean: bool = True) -> Client:
    """A client that is logged in."""
    client = Client(port, name, clean)
    client.socket.settimeout(300)
    return client


def subscription(packet_id: int, filters: list[str], qos: int = 0) -> bytes:
    """One SUBSCRIBE."""
    return packet(0x82, struct.pack(">H", packet_id) + b"".join(text(one) + bytes((qos,)) for one in filters))


def take_packets(client: Client, first: int, count: int) -> None:
    """Read until so many packets of this kind came; what else comes is passed over."""
    data = b""
    while count:
        more = client.socket.recv(READ_BYTES)
        if not more:
            raise SystemExit("the broker closed the connection")
        data += more
        offset = 0
        while len(data) - offset >= 2:
            size, shift, at = 0, 0, offset + 1
            while at < len(data):
                size |= (data[at] & 127) << shift
                shift += 7
                at += 1
                if data[at - 1] < 128:
                    break
            else:
                break
            if at + size > len(data):
                break
            count -= data[offset] == first
            offset = at + size
        data = data[offset:]


def subscribe_many(client: Client, filters: list[str], qos: int = 0) -> None:
    """All in one write, in packets as large as the broker takes."""
    blocks = [filters[at : at + FILTERS_PER_PACKET] for at in range(0, len(filters), FILTERS_PER_PACKET)]
    client.socket.sendall(b"".join(subscription(1 + at, block, qos) for at, block in enumerate(blocks)))
    take_packets(client, 0x90, len(blocks))


def subscribe(port: int) -> None:
    """10,000 filters at once."""
    subscribe_many(mqtt(port, "many"), [f"s/{number}" for number in range(10_000)])


def unsubscribe(port: int) -> None:
    """10,000 filters, given up at once."""
    client = mqtt(port, "many")
    filters = [f"s/{number}" for number in range(10_000)]
    subscribe_many(client, filters)
    blocks = [filters[at : at + FILTERS_PER_PACKET] for at in range(0, len(filters), FILTERS_PER_PACKET)]
    client.socket.sendall(
        b"".join(
            packet(0xA2, struct.pack(">H", 1 + at) + b"".join(map(text, block))) for at, block in enumerate(blocks)
        )
    )
    take_packets(client, 0xB0, len(blocks))


def fan_out(port: int, messages: int = 12_000, filters: int = 500) -> None:
    """12,000 publishes, each to 500 filters of one client."""
    subscriber = mqtt(port, "reader")
    wanted = [f"f/{'/'.join('+' if number >> bit & 1 else 'a' for bit in range(9))}" for number in range(filters)]
    subscribe_many(subscriber, wanted)
    one = packet(0x30, text("f/" + "/".join("a" * 9)) + b"x")
    sender = mqtt(port, "sender")
    over = threading.Event()

    def read() -> None:
        got = 0
        buffer = bytearray(READ_BYTES)
        while got < messages * filters * len(one):
            got += subscriber.socket.recv_into(buffer)
        over.set()

    threading.Thread(target=read, daemon=True).start()
    sender.socket.sendall(one * messages)
    over.wait(300)


def new_topics(port: int) -> None:
    """20,000 publishes, each to a topic of its own."""
    client = mqtt(port, "sender")
    client.socket.sendall(b"".join(packet(0x30, text(f"t/{number}") + b"x") for number in range(20_000)))
    client.socket.sendall(b"\xc0\x00")
    take_packets(client, 0xD0, 1)


def small_packets(port: int) -> None:
    """300,000 publishes to nobody, as fast as they go."""
    client = mqtt(port, "sender")
    client.socket.sendall(packet(0x30, text("n") + b"x") * 300_000)
    client.socket.sendall(b"\xc0\x00")
    take_packets(client, 0xD0, 1)


def many_senders(port: int) -> None:
    """20 clients at once, 20,000 publishes each to 20 filters."""
    subscriber = mqtt(port, "reader")
    subscribe_many(subscriber, [f"m/{'+' if number & 1 else 'a'}/{number >> 1}/#" for number in range(20)])
    drained(subscriber.socket)
    clients = [mqtt(port, f"sender-{number}") for number in range(20)]
    body = packet(0x30, text("m/a/1/x") + b"x") * 20_000 + b"\xc0\x00"

    def send(client: Client) -> None:
        client.socket.sendall(body)
        take_packets(client, 0xD0, 1)

    threads = [threading.Thread(target=send, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def retained(port: int, messages: int = 100_000) -> None:
    """A subscription to 100,000 retained messages, ten times at once."""
    client = mqtt(port, "keeper")
    client.socket.sendall(
        b"".join(packet(0x31, text(f"r/{number // 100}/{number}") + b"x") for number in range(messages)) + b"\xc0\x00"
    )
    take_packets(client, 0xD0, 1)
    readers = [mqtt(port, f"reader-{number}") for number in range(10)]
    for reader in readers:
        reader.socket.sendall(subscription(1, ["r/#"]))
    for reader in readers:
        take_packets(reader, 0x31, messages)


def session_ends(port: int) -> None:
    """A clean session with 10,000 subscriptions whose connection breaks."""
    client = mqtt(port, "many")
    subscribe_many(client, [f"s/{number}" for number in range(10_000)])
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()
    time.sleep(3)


def take_over(port: int) -> None:
    """A kept session with 10,000 subscriptions is taken over five times, then ended by a clean start."""
    client = mqtt(port, "many", clean=False)
    subscribe_many(client, [f"s/{number}" for number in range(10_000)], 1)
    for _ in range(5):
        client = mqtt(port, "many", clean=False)
    client = mqtt(port, "many", clean=True)
    time.sleep(2)


def wildcards(port: int) -> None:
    """20,000 publishes to topics of their own with 10,000 filters that begin with wildcards."""
    client = mqtt(port, "many")
    subscribe_many(client, [f"+/+/{number}/+/#" for number in range(5000)] + [f"#/{n}" for n in range(0)])
    sender = mqtt(port, "sender")
    sender.socket.sendall(
        b"".join(packet(0x30, text(f"a/b/{number % 5000}/c/{number}") + b"x") for number in range(20_000)) + b"\xc0\x00"
    )
    drained(client.socket)
    take_packets(sender, 0xD0, 1)


def attaches(port: int, count: int = 5000) -> None:
    """5,000 links to queues of their own, attached in one write, then closed in one."""
    peer = Amqp(port)
    peer.socket.sendall(
        b"".join(
            attach(f"l{number}", number, True, terminus(0x28, f"q{number}", "queue"), terminus(0x29, "x"))
            for number in range(count)
        )
    )
    peer.wait_for(0x12, count)
    peer.socket.sendall(b"".join(detach(number) for number in range(count)))
    peer.wait_for(0x16, count)


def dynamic(port: int, count: int = 5000) -> None:
    """5,000 dynamic nodes, and the connection breaks."""
    peer = Amqp(port)
    peer.socket.sendall(
        b"".join(
            attach(f"l{number}", number, True, terminus(0x28, None, dynamic=True), terminus(0x29, "x"))
            for number in range(count)
        )
    )
    peer.wait_for(0x12, count)
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.socket.close()
    time.sleep(2)


def amqp_fan_out(port: int) -> None:
    """12,000 transfers to an address with 500 queues of other clients."""
    readers = [Amqp(port) for _ in range(5)]
    for reader in readers:
        reader.socket.sendall(
            b"".join(
                attach(f"l{number}", number, True, terminus(0x28, "fan", "topic"), terminus(0x29, "x"), True)
                for number in range(100)
            )
        )
        reader.wait_for(0x12, 100)
        reader.socket.sendall(b"".join(flow(number, 1 << 20) for number in range(100)))
        reader.drain()
    sender = Amqp(port)
    sender.socket.sendall(attach("out", 0, False, terminus(0x28, "x"), terminus(0x29, "fan", "topic")))
    sender.send_all(0, 12_000)
    sender.socket.sendall(detach(0))
    sender.wait_for(0x16)


def dispositions(port: int, count: int = 100_000) -> None:
    """100,000 deliveries, accepted by one disposition."""
    peer = Amqp(port)
    peer.socket.sendall(attach("out", 0, False, terminus(0x28, "x"), terminus(0x29, "wide", "queue")))
    peer.socket.sendall(attach("in", 1, True, terminus(0x28, "wide", "queue"), terminus(0x29, "x")))
    peer.wait_for(0x13)
    peer.socket.sendall(flow(1, count))
    sent = 0
    while sent < count:
        peer.socket.sendall(b"".join(transfer(0, sent + number, b"x") for number in range(500)))
        sent += 500
        peer.wait_for(0x14, 500)
    peer.socket.sendall(disposition(0, count - 1))
    peer.socket.sendall(detach(1))
    peer.wait_for(0x16)


def released(port: int, count: int = 100_000) -> None:
    """100,000 deliveries whose connection breaks."""
    peer = Amqp(port)
    peer.socket.sendall(attach("out", 0, False, terminus(0x28, "x"), terminus(0x29, "wide", "queue")))
    peer.socket.sendall(attach("in", 1, True, terminus(0x28, "wide", "queue"), terminus(0x29, "x")))
    peer.wait_for(0x13)
    peer.socket.sendall(flow(1, count))
    sent = 0
    while sent < count:
        peer.socket.sendall(b"".join(transfer(0, sent + number, b"x") for number in range(500)))
        sent += 500
        peer.wait_for(0x14, 500)
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.socket.close()
    time.sleep(2)


def transaction(port: int, count: int = 50_000) -> None:
    """A transaction with 50,000 messages is committed."""
    peer = Amqp(port)
    peer.socket.sendall(attach("control", 0, False, terminus(0x28, "x"), _described(0x30, [NULL])))
    peer.wait_for(0x13)
    declare = b"\x00\x53\x77" + _described(0x31, [NULL])
    head = [_uint(0), _uint(0), b"\xa0\x01a", b"\x43", FALSE, FALSE]
    peer.socket.sendall(_frame(_described(0x14, head), declare))
    while True:
        code, body = peer.take()
        if code == 0x15:
            break
    at = body.index(b"\xa0\x08")
    txn = body[at : at + 10]
    state = _described(0x34, [txn])
    peer.socket.sendall(attach("out", 1, False, terminus(0x28, "x"), terminus(0x29, "txn", "queue")))
    peer.send_all(1, count, 1, state)
    discharge = b"\x00\x53\x77" + _described(0x32, [txn, FALSE])
    head = [_uint(0), _uint(1 + count), b"\xa0\x01b", b"\x43", FALSE, FALSE]
    peer.socket.sendall(_frame(_described(0x14, head), discharge))
    peer.wait_for(0x15)


def web_socket(port: int) -> None:
    """10,000 filters and 20,000 new topics through a WebSocket."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=300)
    key = base64.b64encode(os.urandom(16)).decode()
    sock.sendall(
        f"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n".encode()
    )
    head = b""
    while b"\r\n\r\n" not in head:
        head += sock.recv(65536)

    def send(data: bytes) -> None:
        size = len(data)
        length = bytes((0x80 | size,)) if size < 126 else b"\xff" + struct.pack(">Q", size)
        sock.sendall(b"\x82" + length + b"\0\0\0\0" + data)

    send(packet(0x10, text("MQTT") + bytes([4, 2, 0, 0]) + text("web")))
    filters = [f"w/{number}" for number in range(10_000)]
    send(b"".join(subscription(1 + at, filters[1000 * at : 1000 * at + 1000]) for at in range(10)))
    send(b"".join(packet(0x30, text(f"wt/{number}") + b"x") for number in range(20_000)) + b"\xc0\x00")
    data = b""
    while not data.endswith(b"\xd0\x00"):
        more = sock.recv(READ_BYTES)
        if not more:
            raise SystemExit("the broker closed the connection")
        data = data[-1:] + more


def many_queues(port: int) -> Client:
    """100,000 queues, of a session that stays."""
    client = mqtt(port, "many", clean=False)
    subscribe_many(client, [f"h/{number}" for number in range(100_000)], 1)
    time.sleep(QUIET_S)
    return client


def asked(path: str) -> Callable[[str], None]:
    """What asks over HTTP for a path again and again, for some seconds."""

    def ask(url: str) -> None:
        end = time.monotonic() + ASKED_S
        while time.monotonic() < end:
            with urllib.request.urlopen(url + path, timeout=300) as answer:
                answer.read()

    return ask


LOADS: Final[dict[str, Callable[[int], None]]] = {
    "subscribe": subscribe,
    "unsubscribe": unsubscribe,
    "fan-out": fan_out,
    "new-topics": new_topics,
    "small-packets": small_packets,
    "many-senders": many_senders,
    "retained": retained,
    "session-ends": session_ends,
    "take-over": take_over,
    "wildcards": wildcards,
    "attaches": attaches,
    "dynamic": dynamic,
    "amqp-fan-out": amqp_fan_out,
    "dispositions": dispositions,
    "released": released,
    "transaction": transaction,
    "web-socket": web_socket,
}
LARGEST_PAGE: Final = (
    "/api/v1/queues?field=name&operation=CONTAINS&value=h&sortField=messageCount&sortOrder=desc&pageSize=1000"
)
HTTP_LOADS: Final = {
    "http-list": asked(LARGEST_PAGE),
    "http-metrics": asked("/metrics"),
    "http-broker": asked("/api/v1/broker"),
}
"""Requests to a broker that has 100,000 queues before the canaries begin."""


def measure(python: Path, name: str, folder: Path, persistence: bool) -> dict[str, float]:
    """One load against a broker of its own."""
    broker = Broker(python, folder, persistence)
    try:
        owner = many_queues(broker.port) if name in HTTP_LOADS else None
        canaries = {kind: Canary(kind, broker.port) for kind in ("mqtt", "amqp")}
        start = time.monotonic()
        if owner is None:
            LOADS[name](broker.port)
        else:
            HTTP_LOADS[name](broker.url)
        seconds = time.monotonic() - start
        time.sleep(QUIET_S)
        result = {"seconds": seconds}
        for kind, one in canaries.items():
            taken = one.stop()
            result[f"{kind} p99 ms"] = 1000 * taken[len(taken) * 99 // 100]
            result[f"{kind} worst ms"] = 1000 * taken[-1]
    finally:
        broker.stop()
    return result


def main() -> None:
    """Print a line for each load and broker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, action="append", help="interpreter with a broker; may be repeated")
    parser.add_argument("--only", default=",".join([*LOADS, *HTTP_LOADS]), help="loads, with commas between")
    parser.add_argument("--persistence", action="store_true", help="with a store")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--canary", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.canary:
        canary(options.canary, options.port)
        return
    results: dict[str, dict[str, dict[str, float]]] = {}
    print("| load | broker | seconds | MQTT p99, worst (ms) | AMQP p99, worst (ms) |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.only.split(","):
            for number, python in enumerate(options.python or [Path(sys.executable)]):
                one = measure(python, name, Path(temporary) / f"{name}-{number}", options.persistence)
                results.setdefault(name, {})[str(python)] = one
                print(
                    f"| {name} | {python.parent.parent.name} | {one['seconds']:.1f} | "
                    f"{one['mqtt p99 ms']:.0f}, {one['mqtt worst ms']:.0f} | "
                    f"{one['amqp p99 ms']:.0f}, {one['amqp worst ms']:.0f} |",
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
