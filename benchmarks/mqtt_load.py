"""An MQTT 3.1.1 client that costs next to nothing, to see what a broker costs.

Works on blocks: PUBLISH packets of one size are written from a template in which only the numbers are patched, column
by column; what arrives is read as runs of packets of one size, and answered by columns too. One process plays all
clients; no message is sent before the consumers are at most a fixed number behind, so that no backlog builds up.

Verified: nothing but the expected packets comes; in the end every consumer has got every message; with one producer
also their order.

    python mqtt_load.py --port 1883 --pid 1234 --qos 1 --producers 1 --consumers 1
"""

import argparse
import json
import os
import selectors
import socket
import sys
import time
from pathlib import Path
from struct import pack, unpack
from typing import Final

BODY_BYTES: Final = 100
BLOCK: Final = 200
GATHER_S: Final = 0.0005
"""A pause between turns: a broker that writes message by message would otherwise keep the client busy with reads."""
READ_BYTES: Final = 1024 * 1024
PUBACK: Final = 0x40
PUBREC: Final = 0x50
PUBREL: Final = 0x62
PUBCOMP: Final = 0x70
MAX_PACKET_ID: Final = 65535
KEEP_ALIVE: Final = b"\xff\xff"
"""The longest there is, in CONNECT: nothing is sent to keep a connection alive. Zero, for none, rumqttd refuses."""
STALL_S: Final = 30.0
"""Messages that are under way are given up when none has arrived for this time."""
PARTS: Final = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
"""Delays that are reported, by the part of the messages that took no longer."""


class Broken(Exception):
    """The broker did what it must not."""


def text(value: str) -> bytes:
    """A string with its length."""
    data = value.encode()
    return len(data).to_bytes(2, "big") + data


def packet(first: int, body: bytes) -> bytes:
    """A control packet."""
    length = bytearray()
    size = len(body)
    while True:
        size, low = divmod(size, 128)
        length.append(low | (0x80 if size else 0))
        if not size:
            return bytes([first]) + bytes(length) + body


class Client:
    """A connection that is accepted; blocking until told otherwise."""

    def __init__(self, port: int, name: str, clean: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(packet(0x10, text("MQTT") + bytes([4, 2 if clean else 0]) + KEEP_ALIVE + text(name)))
        answer = self.take(4)
        if answer[0] != 0x20 or answer[3] != 0:
            raise Broken(f"connection refused: {answer!r}")

    def take(self, size: int) -> bytes:
        """So many octets."""
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise Broken("the broker closed the connection")
            data += more
        return data

    def subscribe(self, filters: list[str], qos: int) -> None:
        """Subscribe to all of them in one packet."""
        body = b"\x00\x01" + b"".join(text(one) + bytes([qos]) for one in filters)
        self.socket.sendall(packet(0x82, body))
        if self.take(1) != b"\x90":
            raise Broken("no SUBACK")
        size = shift = 0
        while True:
            octet = self.take(1)[0]
            size |= (octet & 127) << shift
            shift += 7
            if octet < 128:
                break
        if any(code > 2 for code in self.take(size)[2:]):
            raise Broken("a subscription was refused")

    def close(self) -> None:
        """Say goodbye."""
        self.socket.setblocking(True)
        self.socket.sendall(b"\xe0\x00")
        self.socket.close()


class Link(Client):
    """A client of the load: non-blocking, with output that waits for the socket."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(port, name)
        self.received = b""
        self.waiting = bytearray()

    def start(self) -> None:
        """From now on the selector decides when to read."""
        self.socket.setblocking(False)

    def read(self) -> None:
        """Take what arrived."""
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise Broken("the broker closed the connection")
        self.received = self.act(self.received + data if self.received else data)

    def act(self, data: bytes) -> bytes:
        """Act on whole packets; returns the rest."""
        raise NotImplementedError

    def flush(self) -> None:
        """Write what the socket takes."""
        if self.waiting:
            try:
                sent = self.socket.send(self.waiting)
            except BlockingIOError:
                return
            del self.waiting[:sent]

    def answer(self, first: int, high: bytes, low: bytes) -> None:
        """A block of answers to these packet identifiers."""
        block = bytearray(bytes([first, 2, 0, 0]) * len(high))
        block[2::4] = high
        block[3::4] = low
        self.waiting += block


def run_of(data: bytes, offset: int, size: int, firsts: bytes) -> int:
    """How many whole packets of this size and kind follow one another."""
    column = data[offset : len(data) - (len(data) - offset) % size : size]
    return len(column) - len(column.lstrip(firsts))


class Producer(Link):
    """Publishes; knows how many of its messages are through with their handshake."""

    def __init__(self, port: int, name: str, topic: str, qos: int, number: int) -> None:
        super().__init__(port, name)
        self.qos: Final = qos
        self.sent = 0
        self.done = 0
        self._packet_id = 0
        head = text(topic) + (b"\x00\x00" if qos else b"")
        self._id_offset = 2 + len(text(topic))
        self._number_offset = 2 + len(head)
        self._template = packet(0x30 | qos << 1, head + bytes(4) + number.to_bytes(4, "big") + b"x" * (BODY_BYTES - 8))
        self.start()

    def publish(self, count: int, stamp: int | None = None) -> None:
        """Append a block; the body begins with the message's number, or with a time."""
        size = len(self._template)
        block = bytearray(self._template * count)
        first = range(self.sent, self.sent + count) if stamp is None else [stamp] * count
        numbers = pack(f">{count}I", *first)
        for column in range(4):
            block[self._number_offset + column :: size] = numbers[column::4]
        if self.qos:
            ids = pack(f">{count}H", *((self._packet_id + index) % MAX_PACKET_ID + 1 for index in range(count)))
            self._packet_id = (self._packet_id + count) % MAX_PACKET_ID
            block[self._id_offset :: size] = ids[0::2]
            block[self._id_offset + 1 :: size] = ids[1::2]
        self.waiting += block
        self.sent += count
        if not self.qos:
            self.done = self.sent

    def act(self, data: bytes) -> bytes:
        offset = 0
        while len(data) - offset >= 4:
            first = data[offset]
            count = run_of(data, offset, 4, bytes([first]))
            end = offset + 4 * count
            if first == PUBREC and self.qos == 2:
                self.answer(PUBREL, data[offset + 2 : end : 4], data[offset + 3 : end : 4])
            elif first == (PUBACK if self.qos == 1 else PUBCOMP):
                self.done += count
            else:
                raise Broken(f"a producer got a packet {first:#x}")
            offset = end
        return data[offset:]


class Consumer(Link):
    """Counts and acknowledges."""

    def __init__(self, port: int, name: str, topic: str, qos: int, is_ordered: bool) -> None:
        super().__init__(port, name)
        self.subscribe([topic], qos)
        self.qos: Final = qos
        self.got = 0
        self.late: list[int] | None = None
        """Microseconds on the way, when the bodies begin with times."""
        self._is_ordered = is_ordered
        self._id_offset = 2 + len(text(topic))
        self._number_offset = self._id_offset + (2 if qos else 0)
        self._size = self._number_offset + BODY_BYTES
        self._first = bytes([0x30 | qos << 1])
        self.start()

    def act(self, data: bytes) -> bytes:
        offset = 0
        while offset < len(data):
            if data[offset] == PUBREL:
                count = run_of(data, offset, 4, b"\x62")
                end = offset + 4 * count
                self.answer(PUBCOMP, data[offset + 2 : end : 4], data[offset + 3 : end : 4])
            elif data[offset : offset + 1] == self._first:
                count = run_of(data, offset, self._size, self._first)
                end = offset + self._size * count
                if count:
                    self.take_messages(data, offset, end, count)
            else:
                raise Broken(f"a consumer got a packet {data[offset]:#x}")
            if end == offset:
                break
            offset = end
        return data[offset:]

    def take_messages(self, data: bytes, offset: int, end: int, count: int) -> None:
        """A run of messages."""
        size = self._size
        if self.qos:
            high = data[offset + self._id_offset : end : size]
            low = data[offset + self._id_offset + 1 : end : size]
            self.answer(PUBACK if self.qos == 1 else PUBREC, high, low)
        start = offset + self._number_offset
        if self.late is not None:
            now = time.monotonic_ns() // 1000 & 0xFFFFFFFF
            columns = bytearray(4 * count)
            for column in range(4):
                columns[column::4] = data[start + column : end : size]
            self.late += [now - stamp for stamp in unpack(f">{count}I", columns)]
        elif self._is_ordered:
            number = int.from_bytes(data[start : start + 4], "big")
            last = start + size * (count - 1)
            if number != self.got or int.from_bytes(data[last : last + 4], "big") != self.got + count - 1:
                raise Broken(f"out of order: {number} where {self.got} was due")
        self.got += count


def cpu_s(pid: int) -> float:
    """User and system time of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """All clients of one run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options: Final = options
        name = f"load{os.getpid()}"
        topic = options.topic
        is_ordered = options.producers == 1
        self.consumers = [
            Consumer(options.port, f"{name}c{number}", topic, options.qos, is_ordered)
            for number in range(options.consumers)
        ]
        self.producers = [
            Producer(options.port, f"{name}p{number}", topic, options.qos, number)
            for number in range(options.producers)
        ]
        self._links: list[Link] = [*self.producers, *self.consumers]
        self._selector = selectors.DefaultSelector()
        for link in self._links:
            self._selector.register(link.socket, selectors.EVENT_READ, link)

    @property
    def delivered(self) -> int:
        """Messages at all consumers."""
        return sum(consumer.got for consumer in self.consumers)

    def turn(self, timeout: float | None) -> None:
        """Read and write what is possible."""
        for link in self._links:
            link.flush()
        is_stuck = any(link.waiting for link in self._links)
        for key, _ in self._selector.select(0.001 if is_stuck else timeout):
            key.data.read()

    def fill(self, most: int | None = None) -> None:
        """Blocks for producers that are not too far ahead of the slowest consumer, nor of their answers.

        `most`: messages that a producer sends in all.
        """
        slowest = min(consumer.got for consumer in self.consumers)
        ahead = sum(producer.sent for producer in self.producers) - slowest
        share = self.options.ahead // len(self.producers)
        for producer in self.producers:
            count = min(BLOCK, share)
            if most is not None:
                count = min(count, most - producer.sent)
            under_way = producer.sent - producer.done
            if not count or ahead + count > self.options.ahead or under_way + count > self.options.window:
                continue
            producer.publish(count)
            ahead += count

    def run(self) -> dict[str, float]:
        """As fast as it goes: CPU per delivered message and messages a second."""
        start = time.monotonic()
        while time.monotonic() - start < self.options.warm_up:
            self.fill()
            self.turn(1.0)
            time.sleep(GATHER_S)
        begin, cpu, delivered = time.monotonic(), cpu_s(self.options.pid), self.delivered
        own = time.process_time()
        while (elapsed := time.monotonic() - begin) < self.options.seconds:
            self.fill()
            self.turn(1.0)
            time.sleep(GATHER_S)
        cpu, own = cpu_s(self.options.pid) - cpu, time.process_time() - own
        delivered = max(self.delivered - delivered, 1)
        self.finish()
        return {"cpu_us": cpu / delivered * 1e6, "client_us": own / delivered * 1e6, "per_s": delivered / elapsed}

    def run_paced(self, rate: float) -> dict[str, float]:
        """So many messages a second: how long they are on the way, in milliseconds.

        That begins when messages are due. What the client itself takes from then until it has sent them is part of it,
        and grows with the rate and the number of producers: `client_p99_ms` says how long that is.
        """
        for consumer in self.consumers:
            consumer.late = []
        producers = self.producers
        count = len(producers)
        sent = first = 0
        own: list[int] = []
        start = time.monotonic()
        while (elapsed := time.monotonic() - start) < self.options.seconds:
            due = int(elapsed * rate) - sent
            began = time.monotonic_ns()
            stamp = began // 1000 & 0xFFFFFFFF
            # All producers take turns, also if less than one message of each is due.
            for number in range(min(due, count)):
                producer = producers[(first + number) % count]
                producer.publish(due // count + (number < due % count), stamp)
                producer.flush()
                own.append((time.monotonic_ns() - began) // 1000)
            first = (first + due) % count
            sent += due
            self.turn(0.001)
        self.finish()
        late = sorted(value for consumer in self.consumers for value in consumer.late or [])
        own.sort()
        delays = {name: late[int(len(late) * part)] / 1000 for name, part in PARTS.items()}
        return delays | {"client_p99_ms": own[int(len(own) * 0.99)] / 1000}

    def run_count(self, messages: int) -> dict[str, float]:
        """So many messages from each producer, as fast as it goes: their copies, and the seconds they took."""
        start = time.monotonic()
        while any(producer.sent < messages for producer in self.producers):
            self.fill(messages)
            self.turn(1.0)
            time.sleep(GATHER_S)
        self.finish()
        return {"delivered": self.delivered, "seconds": time.monotonic() - start}

    def finish(self) -> None:
        """Wait for everything that is on its way."""
        deadline, before = time.monotonic() + STALL_S, -1
        wanted = sum(producer.sent for producer in self.producers) * len(self.consumers)
        while self.delivered < wanted or any(producer.done < producer.sent for producer in self.producers):
            done = self.delivered + sum(producer.done for producer in self.producers)
            if done != before:
                deadline, before = time.monotonic() + STALL_S, done
            elif time.monotonic() > deadline:
                raise Broken(f"{self.delivered} of {wanted} messages were delivered")
            self.turn(0.1)
        if self.delivered != wanted:
            raise Broken("messages were doubled")
        for link in self._links:
            link.close()


def main() -> int:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True, help="the broker's process, for its CPU time")
    parser.add_argument("--qos", type=int, default=0)
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--consumers", type=int, default=1)
    parser.add_argument("--topic", default="plant/7/x/77")
    parser.add_argument("--ahead", type=int, default=2000, help="messages that may be on their way")
    parser.add_argument("--window", type=int, default=1000, help="messages of a producer without their answer")
    parser.add_argument("--rate", type=float, help="messages a second; measures latency")
    parser.add_argument("--messages", type=int, help="messages of each producer, instead of a time")
    parser.add_argument("--warm-up", type=float, default=0.5)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    try:
        load = Load(options)
        if options.messages:
            result = load.run_count(options.messages)
        else:
            result = load.run_paced(options.rate) if options.rate else load.run()
        print(json.dumps(result))
    except (Broken, OSError) as error:
        print(f"mqtt_load: {error!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
