"""A client that costs next to nothing, to see what a broker costs.

It speaks just enough AMQP 1.0 to keep producers and consumers busy, and avoids work per message: transfers are
written as blocks of ready-made frames in which only the numbers are patched, column by column; arriving transfers
of one size are checked the same way. Nothing here is specific to one broker, and nothing is assumed of a frame that
is not checked: other shapes are read one by one, and what is no transfer goes to the real decoder.

One process plays all clients: a producer stays at most a fixed number of messages ahead of the consumers, so that
every message that is counted was both received and delivered by the broker, and no backlog builds up.

Verified while it runs: each consumer sees each producer's messages in order and, in the end, every message has been
delivered exactly once (per consumer of a topic).

    python load.py --port 5672 --pid 1234 --producers 1 --consumers 1 [--settled] [--topic]
"""

import argparse
import json
import os
import selectors
import socket
import sys
import time
from pathlib import Path
from struct import Struct, pack, unpack, unpack_from
from typing import Final

from artemis_amqp.engine.performatives import (
    Attach,
    Begin,
    Close,
    Flow,
    Open,
    SaslInit,
    SaslOutcome,
    Source,
    Target,
    frame,
    read_performative,
)
from artemis_amqp.engine.types import Symbol

BLOCK: Final = 500
"""Transfers written at once; a broker's read of 64 KiB holds about as many."""
READ_BYTES: Final = 1024 * 1024
MAX_FRAME_BYTES: Final = 1024 * 1024
CREDIT: Final = 4000
"""What a consumer may be sent ahead; topped up at half."""
WINDOW: Final = 0x7FFFFFFF
PARTS: Final = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
"""Delays that are reported, by the part of the messages that took no longer."""

TRANSFER: Final = b"\x02\x00\x00\x00\x00\x53\x14\xc0"
"""What follows the size in the frame of a transfer on channel 0, in the encoding that all brokers use."""
DISPOSITION: Final = b"\x00\x53\x15\xc0"
ACCEPTED: Final = b"\x00\x53\x24"
HEADER: Final = b"\x00\x53\x70\xc0\x02\x01"
"""A message header with one field, durable, which follows."""

U16: Final = Struct(">H")
U32: Final = Struct(">I")


class Broken(Exception):
    """The broker did what it must not: order, count, settlement or framing."""


def read_uint(data: bytes, offset: int) -> tuple[int | None, int]:
    """The ubyte-to-uint sized number, boolean or null at `offset`; and the offset behind it."""
    code = data[offset]
    if code == 0x70:
        number: int = U32.unpack_from(data, offset + 1)[0]
        return number, offset + 5
    if code == 0x52:
        return data[offset + 1], offset + 2
    if code in (0x43, 0x42):
        return 0, offset + 1
    if code == 0x41:
        return 1, offset + 1
    if code == 0x40:
        return None, offset + 1
    raise Broken(f"unexpected format code {code:#x} in a frame")


class Client:
    """A connection that is logged in and open; blocking until its subclass says otherwise."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        self.remote_window = 0
        self.name = f"load-{os.getpid()}-{id(self)}"
        self._login()
        opening = Open(container_id=self.name, max_frame_size=MAX_FRAME_BYTES, hostname="127.0.0.1")
        self.socket.sendall(b"AMQP\x00\x01\x00\x00" + frame(0, opening))
        if self._take(8) != b"AMQP\x00\x01\x00\x00":
            raise Broken("no AMQP header")
        while not isinstance(performative := self._read_frame(), Open):
            self.on_rare(performative)

    def attach(self, address: str, is_producer: bool, is_settled: bool, is_topic: bool | None) -> None:
        """Begin a session and attach a link; both get number 0. An address is a topic, a queue, or (None) as it is."""
        capabilities = () if is_topic is None else (Symbol("topic" if is_topic else "queue"),)
        attach = Attach(
            name=self.name,
            handle=0,
            role=not is_producer,
            snd_settle_mode=1 if is_settled else 0,
            source=Source(address="" if is_producer else address, capabilities=() if is_producer else capabilities),
            target=Target(address=address if is_producer else "", capabilities=capabilities if is_producer else ()),
            initial_delivery_count=0 if is_producer else None,
        )
        begin = Begin(next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=WINDOW)
        self.socket.sendall(frame(0, begin) + frame(0, attach))
        while not isinstance(performative := self._read_frame(), Attach):
            self.on_rare(performative)

    def _login(self) -> None:
        self.socket.sendall(b"AMQP\x03\x01\x00\x00")
        if self._take(8) != b"AMQP\x03\x01\x00\x00":
            raise Broken("no SASL header")
        self._read_frame()
        self.socket.sendall(frame(0, SaslInit(mechanism=Symbol("ANONYMOUS"), initial_response=b"load"), 1))
        outcome = self._read_frame()
        if not isinstance(outcome, SaslOutcome) or outcome.code != 0:
            raise Broken(f"login refused: {outcome}")

    def _take(self, size: int) -> bytes:
        while len(self.received) < size:
            more = self.socket.recv(65536)
            if not more:
                raise Broken("the broker closed the connection")
            self.received += more
        data, self.received = self.received[:size], self.received[size:]
        return data

    def _read_frame(self) -> object:
        size: int = U32.unpack(self._take(4))[0]
        body = self._take(size - 4)
        return self._decode(body, body[0] * 4 - 4)

    def _decode(self, data: bytes, offset: int) -> object:
        if offset >= len(data):
            return None  # a heartbeat
        performative, _ = read_performative(data, offset, len(data))
        return performative

    def on_rare(self, performative: object) -> None:
        """Anything but a transfer or disposition."""
        if isinstance(performative, Begin):
            self.remote_window = performative.incoming_window
        elif performative is not None and not isinstance(performative, Open | Flow):
            raise Broken(f"the broker said {performative}")

    def close(self) -> None:
        """Say goodbye."""
        self.socket.setblocking(True)
        self.socket.sendall(frame(0, Close()))
        self.socket.close()


class Link(Client):
    """A connection with one session and one link, non-blocking once it is attached."""

    def __init__(self, port: int, address: str, is_producer: bool, is_settled: bool, is_topic: bool | None) -> None:
        super().__init__(port)
        self.waiting: memoryview = memoryview(b"")
        """Output the socket has not taken yet."""
        self.attach(address, is_producer, is_settled, is_topic)
        self.socket.setblocking(False)

    def read(self) -> None:
        """Take what arrived; a frame that is not complete waits for the rest."""
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise Broken("the broker closed the connection")
        self.take(data)

    def take(self, data: bytes) -> None:
        """Act on what arrived."""
        data = self.received + data
        end = len(data)
        offset = self.take_run(data, end)
        while offset + 4 <= end:
            size = U32.unpack_from(data, offset)[0]
            if offset + size > end:
                break
            if not self.take_frame(data, offset, offset + size):
                self.on_rare(self._decode(data[offset : offset + size], data[offset + 4] * 4))
            offset += size
        self.received = data[offset:]
        self.after_read()

    def take_run(self, data: bytes, end: int) -> int:
        """Take leading frames of one shape at once; returns the offset behind them."""
        return 0

    def take_frame(self, data: bytes, offset: int, end: int) -> bool:
        """Take a transfer or disposition; False for another frame."""
        return False

    def after_read(self) -> None:
        """Answer what was read."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send, or keep what the socket does not take: only allowed when nothing is kept."""
        view = memoryview(data)
        try:
            sent = self.socket.send(view)
        except BlockingIOError:
            sent = 0
        self.waiting = view[sent:]

    def flush(self) -> None:
        """Go on with what was kept."""
        if len(self.waiting):
            self.write(self.waiting)


class Producer(Link):
    """Sends blocks of transfers; at most `ahead` not yet settled (or, settled ones, not yet delivered)."""

    def __init__(self, options: argparse.Namespace, address: str, number: int) -> None:
        self.sent = 0
        self.settled = 0
        self.is_settled: bool = options.settled
        size: int = options.body_bytes
        self.credit_limit = 0
        """Delivery number up to which the broker gave credit."""
        self.window_limit: int | None = None
        """Transfer number up to which the session's window is open."""
        super().__init__(options.port, address, True, self.is_settled, None if options.target else options.topic)
        to = address.encode("ascii")
        properties = bytes((3, 0x40, 0x40, 0xA1, len(to))) + to
        body = pack(">HHI", number, 0, 0) + bytes(size - 8)
        message = (
            HEADER + (b"\x41" if options.durable else b"\x42")
            + b"\x00\x53\x73\xc0" + bytes((len(properties),)) + properties
            + b"\x00\x53\x75" + (b"\xa0" + bytes((size,)) if size < 256 else b"\xb0" + U32.pack(size)) + body
        )  # fmt: skip
        # handle 0, delivery-id, delivery-tag of 4 octets, message-format 0, settled
        fields = b"\x43\x70\x00\x00\x00\x00\xa0\x04\x00\x00\x00\x00\x43" + (b"\x41" if self.is_settled else b"\x42")
        performative = TRANSFER + bytes((len(fields) + 1, 5)) + fields
        self.frame_size = 4 + len(performative) + len(message)
        self.block = bytearray((U32.pack(self.frame_size) + performative + message) * BLOCK)
        id_offset = 4 + len(TRANSFER) + 2 + 2
        self.columns = (id_offset, id_offset + 6, self.frame_size - size + 4)
        """Where delivery-id, delivery-tag and the body's sequence are: all three the same number."""

    def on_rare(self, performative: object) -> None:
        """Credit and window come with flow."""
        if isinstance(performative, Flow):
            self.window_limit = (performative.next_incoming_id or 0) + performative.incoming_window
            if performative.handle is not None:
                self.credit_limit = (performative.delivery_count or 0) + (performative.link_credit or 0)
        super().on_rare(performative)

    def take_frame(self, data: bytes, offset: int, end: int) -> bool:
        """Settlements."""
        if data[offset + 8 : offset + 12] != DISPOSITION:
            return False
        role, offset = read_uint(data, offset + 14)
        first, offset = read_uint(data, offset)
        last, offset = read_uint(data, offset)
        is_settled, offset = read_uint(data, offset)
        if not role or not is_settled or first is None or data[offset : offset + 3] != ACCEPTED:
            raise Broken(f"a producer's delivery was not accepted: {data[offset - 20 : end].hex()}")
        self.settled += (first if last is None else last) - first + 1
        return True

    def produce(self, limit: int) -> None:
        """Send what credit and window allow, up to message number `limit`."""
        window_limit = self.remote_window if self.window_limit is None else self.window_limit
        limit = min(limit, self.credit_limit, window_limit)
        while self.sent < limit and not len(self.waiting):
            count = min(BLOCK, limit - self.sent)
            size = self.frame_size
            numbers = pack(f">{count}I", *range(self.sent, self.sent + count))
            stop = count * size
            for column in self.columns:
                for index in range(4):
                    self.block[column + index : stop : size] = numbers[index::4]
            self.sent += count
            # The socket may keep a view on the block: hence one block at a time.
            self.write(memoryview(self.block)[:stop])


class Consumer(Link):
    """Receives, verifies and accepts."""

    def __init__(self, options: argparse.Namespace, address: str) -> None:
        super().__init__(options.consumer_port or options.port, address, False, options.settled, options.topic)
        self.is_settled: bool = options.settled
        self.body_bytes: int = options.body_bytes
        self.delivered = 0
        self.granted = 0
        self.expected = [0] * options.producers
        """Per producer the lowest number that may come next."""
        self.checksum = 0
        self.last_id = -1
        self.accepted_id = -1
        self.due_ns: list[list[int]] = []
        """Per producer when each of its messages was due, if delays are measured."""
        self.late_us: list[int] = []
        self.grant()

    def grant(self) -> None:
        """Top the credit up."""
        self.granted = self.delivered + CREDIT
        flow = Flow(
            next_incoming_id=self.delivered,
            incoming_window=WINDOW,
            next_outgoing_id=0,
            outgoing_window=WINDOW,
            handle=0,
            delivery_count=self.delivered,
            link_credit=CREDIT,
        )
        self.answer(frame(0, flow))

    def answer(self, data: bytes) -> None:
        """Send now or behind what is kept."""
        if len(self.waiting):
            self.waiting = memoryview(bytes(self.waiting) + data)
        else:
            self.write(data)

    def take_run(self, data: bytes, end: int) -> int:
        """All leading transfers with the size of the first one, if they are alike column by column."""
        if end < 4:
            return 0
        size: int = U32.unpack_from(data, 0)[0]
        count = end // size if size > self.body_bytes else 0
        if count < 8 or data[4:12] != TRANSFER:
            return 0
        stop = count * size
        for column in range(14):
            if data[column:stop:size] != data[column : column + 1] * count:
                return 0
        numbers = bytearray(8 * count)
        for column in range(8):
            numbers[column::8] = data[size - self.body_bytes + column : stop : size]
        self.take_numbers(unpack(f">{count}Q", numbers))
        self.take_id(data, 14, 1)
        self.take_id(data, stop - size + 14, count - 1)
        return stop

    def take_frame(self, data: bytes, offset: int, end: int) -> bool:
        """One transfer."""
        if data[offset + 4 : offset + 12] != TRANSFER:
            return False
        self.take_numbers(unpack_from(">Q", data, end - self.body_bytes))
        self.take_id(data, offset + 14, 1)
        return True

    def take_id(self, data: bytes, offset: int, step: int) -> None:
        """Read a transfer's delivery-id, which must be `step` behind the last one."""
        _, offset = read_uint(data, offset)
        number, _ = read_uint(data, offset)
        if number != self.last_id + step and self.last_id >= 0:
            raise Broken(f"delivery-id {number} after {self.last_id}")
        if number is not None:
            if self.last_id < 0:
                self.accepted_id = number - 1
            self.last_id = number

    def take_numbers(self, numbers: tuple[int, ...]) -> None:
        """Check the order of what came."""
        expected = self.expected
        self.delivered += len(numbers)
        if len(expected) == 1:
            # One producer: nothing may be missing, unless another consumer got it.
            first, last = numbers[0], numbers[-1]
            if first < expected[0] or (last - first + 1 != len(numbers) and sorted(set(numbers)) != list(numbers)):
                raise Broken(f"out of order: {first} when {expected[0]} was expected")
            if last - first + 1 == len(numbers) and numbers != tuple(range(first, last + 1)):
                raise Broken(f"out of order between {first} and {last}")
            expected[0] = last + 1
        else:
            for number in numbers:
                producer = number >> 48
                sequence = number & 0xFFFFFFFF
                if sequence < expected[producer]:
                    raise Broken(f"producer {producer}: {sequence} when {expected[producer]} was expected")
                expected[producer] = sequence + 1
        self.checksum += sum(numbers)
        if self.due_ns:
            now = time.monotonic_ns()
            self.late_us += [(now - self.due_ns[number >> 48][number & 0xFFFFFFFF]) // 1000 for number in numbers]

    def after_read(self) -> None:
        """Accept the range that came, and top up the credit."""
        if not self.is_settled and self.last_id > self.accepted_id:
            first, last = U32.pack(self.accepted_id + 1), U32.pack(self.last_id)
            fields = b"\x41\x70" + first + b"\x70" + last + b"\x41\x00\x53\x24\x45"
            body = b"\x02\x00\x00\x00" + DISPOSITION + bytes((len(fields) + 1, 5)) + fields
            self.answer(U32.pack(len(body) + 4) + body)
        self.accepted_id = self.last_id
        if self.granted - self.delivered <= CREDIT // 2:
            self.grant()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """A scenario against one broker."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        name = f"{'topic.' if options.topic else ''}load-{os.getpid()}"
        source, target = options.source or name, options.target or name
        self.consumers = [Consumer(options, source) for _ in range(options.consumers)]
        self.producers = [Producer(options, target, number) for number in range(options.producers)]
        self.copies = options.consumers if options.topic else 1
        self.selector = selectors.DefaultSelector()
        self.writers: set[Link] = set()
        for link in [*self.consumers, *self.producers]:
            self.selector.register(link.socket, selectors.EVENT_READ, link)
            link.take(b"")  # what came right behind the broker's attach

    @property
    def delivered(self) -> int:
        """Messages that all consumers got."""
        return sum(consumer.delivered for consumer in self.consumers)

    def turn(self, is_sending: bool) -> None:
        """Produce, then read and write."""
        if is_sending:
            # Slowest consumer of a topic, or sum of a queue's consumers: how far the broker is.
            if self.options.topic:
                done = min(consumer.delivered for consumer in self.consumers)
            else:
                done = self.delivered // len(self.producers)
            for producer in self.producers:
                limit = done + self.options.ahead
                if not self.options.settled:
                    limit = min(limit, producer.settled + self.options.ahead)
                producer.produce(limit)
        self.exchange(5.0)

    def exchange(self, timeout: float) -> None:
        """Wait for the sockets, read and write."""
        for link in [*self.consumers, *self.producers]:
            wants_write = len(link.waiting) > 0
            if wants_write != (link in self.writers):
                self.writers.symmetric_difference_update((link,))
                mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if wants_write else 0)
                self.selector.modify(link.socket, mask, link)
        for key, events in self.selector.select(timeout):
            ready: Link = key.data
            if events & selectors.EVENT_WRITE:
                ready.flush()
            if events & selectors.EVENT_READ:
                ready.read()

    def run(self) -> dict[str, float]:
        """Warm up, measure, finish, verify."""
        options = self.options
        self.until(time.monotonic() + options.warm_up)
        pids = [options.pid] if options.consumer_pid is None else [options.pid, options.consumer_pid]
        before = [cpu_seconds(pid) for pid in pids]
        own_cpu, start, delivered = time.process_time(), time.monotonic(), self.delivered
        self.until(start + options.seconds)
        elapsed = time.monotonic() - start
        delivered = self.delivered - delivered
        each_cpu = [cpu_seconds(pid) - other for pid, other in zip(pids, before, strict=True)]
        cpu = sum(each_cpu)
        own_cpu = time.process_time() - own_cpu
        self.finish()
        return {
            "messages": delivered,
            "all_messages": self.delivered,
            "messages_per_s": delivered / elapsed,
            "broker_cpu_us": cpu / delivered * 1e6,
            "broker_load": cpu / elapsed,
            "busier_broker_cpu_us": max(each_cpu) / delivered * 1e6,
            "client_cpu_us": own_cpu / delivered * 1e6,
        }

    def run_paced(self, rate: float) -> dict[str, float]:
        """Send so many messages a second in all, and verify: how long they are on the way from when they are due."""
        producers = self.producers
        due_ns: list[list[int]] = [[] for _ in producers]
        for consumer in self.consumers:
            consumer.due_ns = due_ns
        sent = first = 0
        start = time.monotonic()
        while (elapsed := time.monotonic() - start) < self.options.seconds:
            due = int(elapsed * rate) - sent
            now = time.monotonic_ns()
            for number in range(min(due, len(producers))):
                times = due_ns[(first + number) % len(producers)]
                times += [now] * (due // len(producers) + (number < due % len(producers)))
            first = (first + due) % len(producers)
            sent += due
            for producer, times in zip(producers, due_ns, strict=True):
                producer.produce(len(times))
            self.exchange(0.001)
        for producer, times in zip(producers, due_ns, strict=True):
            while producer.sent < len(times):
                producer.produce(len(times))
                self.exchange(0.001)
        self.finish()
        late = sorted(value for consumer in self.consumers for value in consumer.late_us)
        return {name: late[int(len(late) * part)] / 1000 for name, part in PARTS.items()}

    def until(self, moment: float) -> None:
        """Full load up to a moment."""
        while time.monotonic() < moment:
            self.turn(True)

    def finish(self) -> None:
        """Let everything arrive. Raises Broken if something is missing, twice, or not settled."""
        deadline = time.monotonic() + 20.0
        wanted = sum(producer.sent for producer in self.producers) * self.copies
        while self.delivered < wanted or any(self.is_unfinished(producer) for producer in self.producers):
            if time.monotonic() > deadline:
                raise Broken(f"{self.delivered} of {wanted} messages were delivered")
            self.turn(False)
        checksum = sum(
            producer.sent * (producer.sent - 1) // 2 + (number << 48) * producer.sent
            for number, producer in enumerate(self.producers)
        )
        if self.delivered != wanted or sum(consumer.checksum for consumer in self.consumers) != checksum * self.copies:
            raise Broken("messages were lost or doubled")
        for link in [*self.producers, *self.consumers]:
            link.close()

    def is_unfinished(self, producer: Producer) -> bool:
        """Whether a producer still has to send or to hear of something."""
        return len(producer.waiting) > 0 or (not producer.is_settled and producer.settled < producer.sent)


def main() -> int:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True, help="the broker's process, for its CPU time")
    parser.add_argument("--consumer-port", type=int, help="another broker of a mesh, for the consumers")
    parser.add_argument("--consumer-pid", type=int, help="its process, whose CPU time is added")
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--consumers", type=int, default=1)
    parser.add_argument("--settled", action="store_true")
    parser.add_argument("--topic", action="store_true", help="every consumer gets every message")
    parser.add_argument("--durable", action="store_true", help="messages ask to be stored")
    parser.add_argument("--source", help="the queue of the consumers, instead of one of its own")
    parser.add_argument("--target", help="the address of the producers, such as an exchange that leads to the queue")
    parser.add_argument("--body-bytes", type=int, default=100, help="at least 8")
    parser.add_argument("--ahead", type=int, default=4000, help="messages a producer may be ahead of the consumers")
    parser.add_argument("--rate", type=float, help="messages a second; measures the delay")
    parser.add_argument("--warm-up", type=float, default=0.5)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    try:
        load = Load(options)
        print(json.dumps(load.run_paced(options.rate) if options.rate else load.run()))
    except Broken as error:
        print(f"load: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
