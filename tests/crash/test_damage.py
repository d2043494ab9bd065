"""A byte of the store's file changed while the broker was down: the start goes on, and the log names what is lost."""

from pathlib import Path

import lmdb
import pytest
from proton import Delivery

from tests.crash.plan import FRAGILE, NEWS, ONCE, RESULTS, WORK, make
from tests.crash.producers import protected
from tests.crash.run import CrashRun, kill
from tests.interop.proton.client import Client

COUNT = 10
FIRST = ("references", "messages", "attempts", "duplicates")
LAST = ("addresses", "queues")
"""Databases whose values have a checksum, by which value is damaged: the queue that goes is the last, RESULTS."""


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A store with messages that one queue has and that several share, with a failed attempt and duplicate ids."""
    folder = tmp_path / "run"
    run = CrashRun(folder, seed=1)
    run.prepare()
    broker = run.start()
    try:
        with Client(run.url) as client:
            client.send(FRAGILE, make("f/0"))
            client.receiver(FRAGILE).receive().modify(failed=True)
            client.send(WORK, *[make(f"w/{number}") for number in range(COUNT)])
            client.send(NEWS, *[make(f"n/{number}") for number in range(COUNT)], capabilities=["topic"])
            client.send(ONCE, *[protected(f"o/{number}") for number in range(COUNT)])
            client.send(RESULTS, make("r/0"))
    finally:
        kill(broker)
    return folder


def damage(folder: Path, database: str) -> str:
    """Change a byte of one of a database's values; returns its key as the log writes it."""
    with lmdb.open(str(folder), max_dbs=20) as environment:
        opened = environment.open_db(database.encode(), create=False)
        with environment.begin(write=True) as transaction:
            cursor = transaction.cursor(db=opened)
            assert cursor.last() if database in LAST else cursor.first()
            key, value = bytes(cursor.key()), bytearray(cursor.value())
            value[-1] ^= 1
            transaction.put(key, bytes(value), db=opened)
    return key.hex()


def read_everything(url: str) -> list[str]:
    """What a client still gets; a message under a duplicate id that is not damaged is dropped."""
    ids = []
    with Client(url) as client:
        client.send(ONCE, protected("o/1"))
        for queue in (WORK, ONCE, FRAGILE, f"{NEWS}::news.a", f"{NEWS}::news.b"):
            receiver = client.receiver(queue, ["topic"] if "::" in queue else [])
            while taken := receiver.drain():
                for received in taken:
                    ids.append(str(received.message.id))
                    received.delivery.update(Delivery.ACCEPTED)
                    received.delivery.settle()
        client.sync()
    return ids


def test_a_flipped_byte_in_each_database_costs_what_it_hit_and_is_named(filled: Path) -> None:
    """R8, P15: a queue, one message of the others, and no more; nothing wrong is served."""
    run = CrashRun(filled, seed=1)
    keys = {database: damage(run.folder / "data" / "journal", database) for database in (*FIRST, *LAST)}
    broker = run.start()
    try:
        ids = read_everything(run.url)
    finally:
        kill(broker)

    assert len(ids) == 4 * COUNT + 1 - 2  # the shared message is in no queue any more
    assert "Traceback" not in run.log()
    complaints = [line for line in run.log().splitlines() if " ERROR " in line]
    for database, key in keys.items():
        assert any(key in line or database.rstrip("es") in line for line in complaints), complaints
