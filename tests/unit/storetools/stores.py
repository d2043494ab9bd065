"""A store with something of everything, for the tests of what looks at it from outside."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.consumer import FAILED
from artemis_py.store import schema
from artemis_py.store.environment import Environment
from artemis_py.store.lmdb import LARGE_MESSAGES_NAME
from tests.core_harness import START_MS, attach, browse_all, settle_down
from tests.unit.store.world import SMALL_MAP_BYTES, World, multicast

BODY = bytes(range(256)) * 2000
"""Two and a half pieces of an export."""


def fill(folder: Path) -> None:
    """Three messages in a queue, one scheduled and one failed once; one in two subscriptions; a duplicate id."""
    with World(folder) as world:
        queue = world.queue()
        world.send("q", "a", "b")
        world.send("q", "later", delivery_time_ms=START_MS + 1000)
        multicast(world, "t", "t.a", "t.b")
        world.send("t", "shared")
        world.domain.duplicates.of(queue.address).add(b"id", durable=True, size=10)
        recorder, consumer = attach(world.domain, queue, credit=1)
        settle_down(world.domain)
        consumer.settle(recorder.take()[0], FAILED)
        world.stop()


def fill_large(folder: Path) -> None:
    """What `fill` makes, two large messages, one of them in two subscriptions, and records of a protocol."""
    fill(folder)
    with World(folder) as world:
        world.queue("big")
        multicast(world, "l", "l.a", "l.b")
        send_large(world, "big", BODY)
        send_large(world, "l", BODY[::-1])
        world.store.save_record("mqtt", b"\x00key", b"value")
        world.stop()


def send_large(world: World, address: str, body: bytes) -> None:
    """A durable message with a large body."""
    message = plain_message(address, MessageView(body="what stands before"), durable=True)
    large = message.large = world.store.create_large(durable=True)
    large.append(body)
    large.finish()
    world.domain.route(message, world.domain.addresses[address])
    large.release()


def body_file(folder: Path, id: int = 1) -> Path:
    """The file of a large body."""
    return folder / LARGE_MESSAGES_NAME / f"{id}.body"


def large_bodies(world: World, queue: str) -> list[bytes]:
    """Of all messages of a queue."""
    found = [reference.message.large for reference in browse_all(world.domain.queues[queue])]
    return [b"" if large is None else large.load() for large in found]


def leave_a_drop(folder: Path, drop: schema.Drop, number: int = 1) -> None:
    """What a crash leaves of a purge, or of the end of a queue, that was noted and not carried out."""
    with changed(folder) as (environment, transaction):
        key = schema.U64.pack(number)
        transaction.put(key, schema.drop_value(key, drop), db=environment.database(schema.DROPS))
        counts = transaction.cursor(db=environment.database(schema.COUNTS))
        prefix = schema.U32.pack(drop.queue_id)
        while counts.set_range(prefix) and bytes(counts.key()).startswith(prefix):
            counts.delete()


@contextmanager
def changed(folder: Path) -> Iterator[tuple[Environment, lmdb.Transaction]]:
    """Change a store by hand."""
    with Environment(folder, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        yield environment, transaction


def purge(folder: Path) -> None:
    """A broker whose consumers take everything, so that no large body is needed any more."""
    with World(folder) as world:
        for queue in world.domain.queues.values():
            queue.purge()
        world.stop()


def add_large(folder: Path) -> None:
    """A broker that gets another large message."""
    with World(folder) as world:
        send_large(world, "big", BODY)
        world.stop()


def in_another_process(function: str, folder: Path) -> None:
    """Run a function of this module: LMDB opens a store once in a process."""
    code = f"from pathlib import Path; from {__name__} import {function}; {function}(Path({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], check=True)
