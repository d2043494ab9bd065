"""Memory of a broker's core under clients that would fill it.

    unsettled   a consumer with credit for everything that never settles anything
    unread      a consumer whose connection takes no output, of messages that are not durable
    scheduled   messages for tomorrow, in no order
    idle        queues that nobody reads, ten messages in each (a hundredth of --messages is their number)

Each in a process of its own, with a limit of 64 MiB for messages (`global-max-size`), and with a write-ahead log in
front of the store, as a broker has, unless `--no-log` says otherwise.

    python memory.py [--messages 1000000] [--scenario unsettled] [--no-log]
"""

import argparse
import asyncio
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from depth import Run, Watch, add_log_option, blocks, rss_mib

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.attaching import attach
from artemis_py.core.queues.consumer import Consumer, ConsumerOptions, Sink
from artemis_py.core.queues.reference import Reference
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.store.log_start import LogSettings

LIMIT_BYTES: Final = 64 << 20
BODY: Final = bytes(100)


class Keeper(Sink):
    """Takes, and never settles."""

    def deliver(self, reference: Reference) -> None:
        pass


def greedy_consumer(run: Run) -> Consumer:
    """A consumer that wants everything."""
    consumer = Consumer(1, run.queue, Keeper(), ConsumerOptions(), "bench")
    attach(consumer)
    consumer.grant(1 << 40)
    return consumer


async def unsettled(run: Run, messages: int) -> None:
    greedy_consumer(run)
    for block in blocks(0, messages):
        await run.fill(block.start, len(block))
        while run.domain.dispatcher.run():
            await asyncio.sleep(0)


async def unread(run: Run, messages: int) -> None:
    greedy_consumer(run).block()
    for block in blocks(0, messages):
        for _ in block:
            run.domain.route(Message(PLAIN_FORMAT, "q", BODY), run.queue.address)
        run.domain.dispatcher.run()
        await asyncio.sleep(0)


async def scheduled(run: Run, messages: int) -> None:
    moments = random.Random(1)
    tomorrow_ms = run.domain.dispatcher.now_ms + 86_400_000
    for block in blocks(0, messages):
        for _ in block:
            message = Message(PLAIN_FORMAT, "q", BODY, durable=True)
            message.delivery_time_ms = tomorrow_ms + moments.randrange(1_000_000)
            run.domain.route(message, run.queue.address)
        await run.durable()


async def idle(run: Run, messages: int) -> None:
    for number in range(messages // 100):
        name = f"idle.{number}"
        run.domain.create_address(name, frozenset((RoutingType.ANYCAST,)))
        run.domain.create_queue(QueueConfig(name=name, address=name, routing_type=RoutingType.ANYCAST))
        for _ in range(10):
            run.domain.route(Message(PLAIN_FORMAT, name, BODY, durable=True), run.domain.addresses[name])
        if number % 50 == 0:
            await run.durable()


SCENARIOS: Final[dict[str, Callable[[Run, int], Awaitable[None]]]] = {
    "unsettled": unsettled,
    "unread": unread,
    "scheduled": scheduled,
    "idle": idle,
}


async def measure(folder: Path, scenario: str, messages: int, log: LogSettings | None) -> dict[str, object]:
    """One scenario."""
    watch = Watch()
    watching = asyncio.create_task(watch.run())
    run = Run(folder, log, BrokerSettings(global_max_size_bytes=LIMIT_BYTES))
    before = rss_mib()
    await SCENARIOS[scenario](run, messages)
    await run.durable()
    count = sum(queue.message_count for queue in run.domain.queues.values())
    watching.cancel()
    run.stop()
    return {
        "scenario": scenario,
        "log": log is not None,
        "messages": count,
        "rss_before_mib": round(before, 1),
        "rss_highest_mib": round(max(watch.highest_mib, rss_mib()), 1),
        "own_highest_mib": round(watch.highest_own_mib, 1),
        "accounted_mib": round(run.domain.account.size_bytes / (1 << 20), 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--scenario", choices=SCENARIOS, help="this one only")
    add_log_option(parser)
    arguments = parser.parse_args()
    if arguments.scenario is None:
        for name in SCENARIOS:
            command = [sys.executable, __file__, "--messages", str(arguments.messages), "--scenario", name]
            command += ["--no-log"] if arguments.log is None else []
            subprocess.run(command, check=True)
        return
    folder = Path(tempfile.mkdtemp(prefix="memory-"))
    try:
        print(json.dumps(asyncio.run(measure(folder, arguments.scenario, arguments.messages, arguments.log))))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
