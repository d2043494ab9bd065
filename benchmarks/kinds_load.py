"""What ring queues and last-value queues cost a broker, beside a plain queue of the same depth, with real connections.

    python benchmarks/kinds_load.py PYTHON [--rounds 5] [--seconds 1.5] [--depths 10,1000000] [--durable]

PYTHON is that of an environment with the broker installed. Each message has a header, properties and one application
property, the key. A producer sends as fast as its messages are settled: to a plain queue whose consumer takes and
accepts as many, to a ring that is full, and to a last-value queue with as many keys as the depth, in random order.
CPU is that of the broker's process, by the messages that were sent.
"""

import argparse
import json
import random
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from struct import pack
from typing import Final

import run
from load import BLOCK, CREDIT, HEADER, TRANSFER, U32, WINDOW, Consumer, Link, Producer, cpu_seconds

from artemis_amqp.engine.performatives import Flow, frame

DEPTHS: Final = (10, 1_000_000)
KEY: Final = "key"
DIGITS: Final = 7
"""Octets of a key."""
AHEAD: Final = 4000


class KeyedProducer(Producer):
    """Sends messages with keys."""

    def __init__(self, options: argparse.Namespace, address: str, keys: int) -> None:
        super().__init__(options, address, 0)
        shuffled = list(range(keys))
        random.Random(7).shuffle(shuffled)
        self._keys: Final = [f"{key:0{DIGITS}}".encode() for key in shuffled]
        to = address.encode("ascii")
        properties = bytes((3, 0x40, 0x40, 0xA1, len(to))) + to
        name = KEY.encode("ascii")
        items = b"\xa1" + bytes((len(name),)) + name + b"\xa1" + bytes((DIGITS,)) + bytes(DIGITS)
        size: int = options.body_bytes
        head = (
            HEADER + (b"\x41" if options.durable else b"\x42")
            + b"\x00\x53\x73\xc0" + bytes((len(properties),)) + properties
            + b"\x00\x53\x74\xc1" + bytes((len(items) + 1, 2)) + items
        )  # fmt: skip
        message = head + b"\x00\x53\x75\xa0" + bytes((size,)) + bytes(size)
        fields = b"\x43\x70\x00\x00\x00\x00\xa0\x04\x00\x00\x00\x00\x43\x42"
        performative = TRANSFER + bytes((len(fields) + 1, 5)) + fields
        self.frame_size = 4 + len(performative) + len(message)
        self.block = bytearray((U32.pack(self.frame_size) + performative + message) * BLOCK)
        id_offset = 4 + len(TRANSFER) + 2 + 2
        self.columns = (id_offset, id_offset + 6, self.frame_size - size + 4)
        self._key_offset: Final = 4 + len(performative) + len(head) - DIGITS

    def produce(self, limit: int) -> None:
        """Send what credit and window allow, with the next keys."""
        window_limit = self.remote_window if self.window_limit is None else self.window_limit
        limit = min(limit, self.credit_limit, window_limit)
        keys = self._keys
        while self.sent < limit and not len(self.waiting):
            count = min(BLOCK, limit - self.sent)
            numbers = pack(f">{count}I", *range(self.sent, self.sent + count))
            text = b"".join([keys[number % len(keys)] for number in range(self.sent, self.sent + count)])
            size = self.frame_size
            stop = count * size
            for column in self.columns:
                for index in range(4):
                    self.block[column + index : stop : size] = numbers[index::4]
            for index in range(DIGITS):
                self.block[self._key_offset + index : stop : size] = text[index::DIGITS]
            self.sent += count
            self.write(memoryview(self.block)[:stop])


class PacedConsumer(Consumer):
    """Takes no more than `limit` messages, so that the queue stays as deep as it is."""

    limit = 0

    def grant(self) -> None:
        """Give credit up to the limit."""
        credit = min(CREDIT, self.limit - self.delivered)
        if credit <= 0:
            return
        self.granted = self.delivered + credit
        flow = Flow(
            next_incoming_id=self.delivered,
            incoming_window=WINDOW,
            next_outgoing_id=0,
            outgoing_window=WINDOW,
            handle=0,
            delivery_count=self.delivered,
            link_credit=credit,
        )
        self.answer(frame(0, flow))

    def pace(self, limit: int) -> None:
        """Raise the limit."""
        self.limit = limit
        if self.granted - self.delivered <= CREDIT // 2 and limit > self.granted:
            self.grant()


class KindLoad:
    """One queue: a producer, and for a plain queue a consumer."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options: Final = options
        self._producer: Final = KeyedProducer(options, options.address, options.depth)
        self._consumer: PacedConsumer | None = None
        self._selector: Final = selectors.DefaultSelector()
        self._writers: Final[set[Link]] = set()
        self._add(self._producer)

    def _add(self, link: Link) -> None:
        self._selector.register(link.socket, selectors.EVENT_READ, link)
        link.take(b"")

    def run(self) -> dict[str, float]:
        """Fill the queue, warm up, and measure."""
        options, producer = self._options, self._producer
        while producer.settled < options.depth:
            self._turn(min(options.depth, producer.settled + AHEAD))
        if options.consumes:
            self._consumer = PacedConsumer(options, options.address)
            self._add(self._consumer)
        self._until(time.monotonic() + options.warm_up)
        cpu, settled, start = cpu_seconds(options.pid), producer.settled, time.monotonic()
        self._until(start + options.seconds)
        elapsed = time.monotonic() - start
        settled = producer.settled - settled
        cpu = cpu_seconds(options.pid) - cpu
        return {"messages_per_s": settled / elapsed, "broker_cpu_us": cpu / settled * 1e6}

    def _until(self, moment: float) -> None:
        while time.monotonic() < moment:
            limit = self._producer.settled + AHEAD
            if self._consumer is not None:
                limit = min(limit, self._consumer.delivered + self._options.depth + AHEAD)
                self._consumer.pace(self._producer.settled - self._options.depth)
            self._turn(limit)

    def _turn(self, limit: int) -> None:
        self._producer.produce(limit)
        links: list[Link] = [self._producer] if self._consumer is None else [self._producer, self._consumer]
        for link in links:
            wants_write = len(link.waiting) > 0
            if wants_write != (link in self._writers):
                self._writers.symmetric_difference_update((link,))
                mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if wants_write else 0)
                self._selector.modify(link.socket, mask, link)
        for key, events in self._selector.select(5.0):
            ready: Link = key.data
            if events & selectors.EVENT_WRITE:
                ready.flush()
            if events & selectors.EVENT_READ:
                ready.read()


SETTINGS: Final = {
    "plain": "",
    "ring": "<default-ring-size>{depth}</default-ring-size>",
    "last-value": f"<default-last-value-key>{KEY}</default-last-value-key>",
}


def once(python: Path, kind: str, depth: int, is_durable: bool, seconds: float) -> float:
    """CPU per message of one run against a broker of its own, in microseconds."""
    setting = f'<address-setting match="kind">{SETTINGS[kind].format(depth=depth)}</address-setting>'
    with tempfile.TemporaryDirectory(prefix="kinds-") as name:
        broker = run.Broker("compiled", python, Path(name) / "broker", is_durable, setting)
        try:
            command = [sys.executable, __file__, "--client", "--port", broker.port, "--pid", broker.process.pid]
            command += ["--depth", depth, "--seconds", seconds]
            command += ["--durable"] * is_durable + ["--consumes"] * (kind == "plain")
            done = subprocess.run([*map(str, command)], capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{kind}: {done.stderr}\n{(broker.folder / 'log').read_text()}")
            figures: dict[str, float] = json.loads(done.stdout)
        finally:
            broker.stop()
    return figures["broker_cpu_us"]


def compare(options: argparse.Namespace) -> None:
    """Print a line of JSON for each depth and kind."""
    for depth in map(int, options.depths.split(",")):
        times: dict[str, list[float]] = {kind: [] for kind in SETTINGS}
        for _ in range(options.rounds):
            for kind, values in times.items():
                values.append(once(options.python, kind, depth, options.durable, options.seconds))
        for kind, values in times.items():
            ratios = [value / base for value, base in zip(values, times["plain"], strict=True)]
            line = {"depth": depth, "durable": options.durable, "kind": kind, "us": round(median(values), 2)}
            line |= {"ratio": [round(value, 2) for value in (min(ratios), median(ratios), max(ratios))]}
            print(json.dumps(line), flush=True)


def main() -> None:
    """Compare, or be the client of one run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--depths", default=",".join(map(str, DEPTHS)))
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--durable", action="store_true")
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    for name in ("--port", "--pid", "--depth"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--consumes", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        fixed = {"settled": False, "topic": False, "body_bytes": 100, "producers": 1, "warm_up": 0.5, "address": "kind"}
        print(json.dumps(KindLoad(argparse.Namespace(**vars(options), **fixed)).run()))
    elif options.python is None:
        parser.error("PYTHON is missing")
    else:
        options.python = options.python.absolute()
        compare(options)


if __name__ == "__main__":
    main()
