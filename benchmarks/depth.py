"""A deep queue: memory, the rates at its two ends, and the start with it.

In one process, on the core and the store with its thread: what a protocol would add is the same at every depth.
Durable messages of 100 bytes; every one is checked to come out once and in order. Rates are measured at a depth of
10,000 and at the full depth, in the same way: so many messages in, so many out, several times. CPU seconds are those
of both threads.

The store has a write-ahead log in front of it, as a broker has; with `--no-log` each commit is one of LMDB.

    python depth.py [--messages 10000000] [--folder FOLDER] [--no-log]
"""

import argparse
import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import MatchHierarchy, WildcardSyntax
from artemis_py.core.queues.attaching import attach
from artemis_py.core.queues.consumer import ACCEPTED, Consumer, ConsumerOptions, Sink
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.broker_settings import DEFAULT_BROKER_SETTINGS, BrokerSettings
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.store.lmdb import LmdbStore
from artemis_py.store.log_start import LogSettings
from artemis_py.store.recovery import recover
from artemis_py.store.scratch import ScratchStore
from artemis_py.transport.worker import Worker

BODY_BYTES: Final = 100
BLOCK: Final = 500
"""Messages sent or settled at once, as a read of 64 KiB would bring them."""
AHEAD: Final = 8
"""Blocks that a producer sends before the first of them is confirmed."""
SHALLOW: Final = 10_000
ROUNDS: Final = 5


class Taker(Sink):
    """Keeps what it gets until it is settled, and checks that nothing is missing between."""

    def __init__(self, first: int) -> None:
        self.taken: list[Reference] = []
        self.next_number = first

    def deliver(self, reference: Reference) -> None:
        number = int(reference.message.data[:20])
        if number != self.next_number:
            raise AssertionError(f"message {number} came, {self.next_number} was next")
        self.next_number = number + 1
        self.taken.append(reference)


class Run:
    """One life of a broker's core on the folder."""

    def __init__(
        self, folder: Path, log: LogSettings | None, options: BrokerSettings = DEFAULT_BROKER_SETTINGS
    ) -> None:
        start = time.perf_counter()
        self.store = LmdbStore(folder, log=log)
        self.scratch = ScratchStore(folder)
        settings = SettingsRepository(MatchHierarchy(WildcardSyntax()), options)
        self.domain = Domain(settings, Dispatcher(self.store, self.scratch, options), options)
        self.domain.dispatcher.now_ms = int(time.time() * 1000)
        recover(self.store, self.domain, {PLAIN_FORMAT.name: PLAIN_FORMAT})
        self.start_s = time.perf_counter() - start
        loop = asyncio.get_running_loop()
        self.worker = Worker(loop, lambda: None)
        self.folding_worker = Worker(loop, lambda: None)
        self.store.start(loop, self.worker, self._fail, self.domain.dispatcher.stored, self.folding_worker)
        if "q" not in self.domain.queues:
            self.domain.create_address("q", frozenset((RoutingType.ANYCAST,)))
            self.domain.create_queue(QueueConfig(name="q", address="q", routing_type=RoutingType.ANYCAST))
        self.queue: Queue = self.domain.queues["q"]

    def _fail(self, reason: str) -> None:
        raise SystemExit(f"the store failed: {reason}")

    def stop(self) -> None:
        """In good order."""
        self.worker.stop()
        self.folding_worker.stop()
        self.store.close(list(self.domain.queues.values()))
        self.scratch.close()

    async def durable(self) -> None:
        """Wait for the commit of everything so far."""
        done = asyncio.get_running_loop().create_future()
        self.store.when_durable(lambda: done.set_result(None))
        await done

    async def fill(self, first: int, count: int) -> None:
        """Send messages numbered from `first`."""
        address = self.domain.addresses["q"]
        waiting: list[asyncio.Future[None]] = []
        for block in blocks(first, count):
            for number in block:
                message = Message(PLAIN_FORMAT, "q", b"%020d" % number + bytes(BODY_BYTES - 20), durable=True)
                self.domain.route(message, address)
            done = asyncio.get_running_loop().create_future()
            self.store.when_durable(lambda done=done: done.set_result(None))  # type: ignore[misc]
            waiting.append(done)
            if len(waiting) >= AHEAD:
                await waiting.pop(0)
        await self.durable()

    async def drain(self, first: int, count: int) -> None:
        """Consume so many, the first of them `first`."""
        taker = Taker(first)
        consumer = Consumer(1, self.queue, taker, ConsumerOptions(), "bench")
        attach(consumer)
        for block in blocks(first, count):
            consumer.grant(len(block))
            while self.domain.dispatcher.run():
                pass
            if len(taker.taken) != len(block):
                raise AssertionError(f"{len(taker.taken)} of {len(block)} messages came")
            for reference in taker.taken:
                consumer.settle(reference, ACCEPTED)
            taker.taken.clear()
            await asyncio.sleep(0)
        consumer.close()
        await self.durable()


def blocks(first: int, count: int) -> Iterator[range]:
    """The numbers in blocks."""
    for start in range(first, first + count, BLOCK):
        yield range(start, min(start + BLOCK, first + count))


def rss_mib() -> float:
    """Memory of this process, pages of files included."""
    return memory_mib()[0]


def memory_mib() -> tuple[float, float]:
    """Memory of this process, and how much of it is pages of files: the system can take those back."""
    fields = Path("/proc/self/statm").read_text().split()
    page_mib = os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    return int(fields[1]) * page_mib, int(fields[2]) * page_mib


class Watch:
    """Notes memory all along."""

    def __init__(self) -> None:
        self.highest_mib = 0.0
        self.highest_own_mib = 0.0
        """Without pages of files."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            all_mib, file_mib = memory_mib()
            self.highest_mib = max(self.highest_mib, all_mib)
            self.highest_own_mib = max(self.highest_own_mib, all_mib - file_mib)
            await asyncio.sleep(0.05)


async def rates(run: Run, first: int, last: int, count: int) -> tuple[dict[str, float], int, int]:
    """Messages a second in and out at this depth; and the numbers of the first and behind the last."""
    spent = {"enqueue": 0.0, "dequeue": 0.0, "enqueue_cpu": 0.0, "dequeue_cpu": 0.0}
    for _ in range(ROUNDS):
        for name in ("enqueue", "dequeue"):
            wall, cpu = time.perf_counter(), time.process_time()
            if name == "enqueue":
                await run.fill(last, count)
                last += count
            else:
                await run.drain(first, count)
                first += count
            spent[name] += time.perf_counter() - wall
            spent[name + "_cpu"] += time.process_time() - cpu
    return {name: round(ROUNDS * count / seconds) for name, seconds in spent.items()}, first, last


async def measure(folder: Path, messages: int, log: LogSettings | None) -> dict[str, object]:
    """Everything."""
    watch = Watch()
    watching = asyncio.create_task(watch.run())
    run = Run(folder, log)
    count = min(20_000, messages // 50)
    await run.fill(0, SHALLOW)
    await rates(run, 0, SHALLOW, 1000)
    shallow, first, last = await rates(run, ROUNDS * 1000, SHALLOW + ROUNDS * 1000, count)
    start = time.perf_counter()
    await run.fill(last, messages - SHALLOW)
    fill_s = time.perf_counter() - start
    last += messages - SHALLOW
    deep, first, last = await rates(run, first, last, count)
    depth = run.queue.message_count
    full_mib = watch.highest_mib
    run.stop()
    again = Run(folder, log)
    if again.queue.message_count != depth:
        raise AssertionError(f"{again.queue.message_count} messages came back of {depth}")
    start = time.perf_counter()
    await again.drain(first, last - first)
    drain_s = time.perf_counter() - start
    if again.queue.message_count:
        raise AssertionError(f"{again.queue.message_count} messages are left")
    again.stop()
    watching.cancel()
    return {
        "log": log is not None,
        "messages": depth,
        "rate_at_10000": shallow,
        "rate_at_depth": deep,
        "fill_per_s": round((messages - SHALLOW) / fill_s) if fill_s and messages > SHALLOW else 0,
        "drain_per_s": round(depth / drain_s),
        "start_s": round(again.start_s, 3),
        "rss_filled_mib": round(full_mib, 1),
        "rss_highest_mib": round(watch.highest_mib, 1),
        "own_highest_mib": round(watch.highest_own_mib, 1),
        "file_mib": round((folder / "data.mdb").stat().st_size / (1 << 20)),
    }


def add_log_option(parser: argparse.ArgumentParser) -> None:
    """Add `--no-log`; the option `log` is then None, and otherwise the settings that a broker has by default."""
    parser.add_argument("--no-log", dest="log", action="store_const", const=None, default=LogSettings())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="where the store is made; a temporary folder")
    add_log_option(parser)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="depth-", dir=arguments.folder))
    try:
        print(json.dumps(asyncio.run(measure(folder, arguments.messages, arguments.log)), indent=2))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
