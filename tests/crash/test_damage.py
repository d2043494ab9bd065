"""The store's file changed while the broker was down: the start goes on, and the log names what is lost."""

import subprocess
from pathlib import Path

import lmdb
import pytest
from proton import Delivery, Message

from artemis_py.store.page_file import PageFile
from artemis_py.store.structure import Walk
from artemis_py.storetools.unfolded import wait_until_folded
from tests.crash.plan import FRAGILE, NEWS, ONCE, RESULTS, WORK, make
from tests.crash.processes import command_of
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
        # With a log, LMDB's file gets it later, and these tests damage that file.
        wait_until_folded(folder / "data" / "journal")
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


def pages_of(folder: Path, database: str) -> list[int]:
    """The leaf pages of a database."""
    file = PageFile(folder / "data.mdb")
    walk = Walk(file, file.metas[0], {})
    walk.read_names()
    numbers = [int.from_bytes(page[:8], "little") for page in walk.leaves(database, walk.databases[database])]
    file.close()
    return numbers


def data_commands(run: CrashRun) -> dict[str, "subprocess.CompletedProcess[str]"]:
    """What every command says that only looks."""
    instance = str(run.folder)
    commands = {
        "stat": [instance],
        "check": [instance],
        "export": [instance, str(run.folder / "out.jsonl")],
        "backup": [instance, str(run.folder / "backup")],
        "compact": [instance],
    }
    return {
        name: subprocess.run(
            command_of("artemis_py.cli", "data", name, *arguments), capture_output=True, text=True, timeout=60
        )
        for name, arguments in commands.items()
    }


def test_a_zeroed_page_costs_its_messages_and_no_more(filled: Path) -> None:
    """The first consumer of the queue ended the broker at every start; now the log says what is lost, once."""
    run = CrashRun(filled, seed=1)
    journal = run.folder / "data" / "journal"
    page = pages_of(journal, "messages")[0]
    with (journal / "data.mdb").open("r+b") as file:
        file.seek(page * 4096)
        file.write(bytes(4096))
    said = data_commands(run)
    served = []
    for _ in range(2):
        broker = run.start()
        try:
            served.append(read_everything(run.url))
        finally:
            broker.terminate()
            broker.wait(60)

    for name, done in said.items():
        assert (name, done.returncode) == (name, 1), done.stderr
        assert f"page {page}" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
    exported = (run.folder / "out.jsonl").read_text(encoding="utf-8")
    assert exported.count('"queue":"work"') >= COUNT
    assert sorted(id for id in served[0] if not id.startswith("n/")) == sorted(
        ["f/0", *[f"w/{number}" for number in range(COUNT)], *[f"o/{number}" for number in range(COUNT)]]
    )
    assert 0 <= sum(id.startswith("n/") for id in served[0]) < 2 * COUNT
    assert served[1] == []
    log = run.log()
    assert log.count(f"damaged: messages: page {page} is no page") == 1
    assert "shared messages were damaged, some may be lost" in log
    assert "Traceback" not in log
    assert (journal / "data.mdb.damaged").stat().st_size > 0


def test_a_store_of_no_bytes_is_no_new_store(filled: Path) -> None:
    """Its large messages stay, whatever is started; what to do is said."""
    run = CrashRun(filled, seed=1)
    broker = run.start()
    with Client(run.url) as client:
        client.send(WORK, Message(body=b"x" * 300_000, durable=True))
    kill(broker)
    (run.folder / "data" / "journal" / "data.mdb").write_bytes(b"")
    bodies = sorted((run.folder / "data" / "large-messages").glob("*.body"))
    command = command_of("artemis_py.cli", "run", str(run.folder))
    started = subprocess.run(command, capture_output=True, text=True, timeout=60)

    for name, done in [("run", started), *data_commands(run).items()]:
        assert (name, done.returncode) == (name, 1), done.stderr
        assert "it has 0 bytes" in done.stderr
        assert "Put a backup in its place" in done.stderr
        assert "Traceback" not in done.stderr
    assert len(bodies) == 1
    assert sorted((run.folder / "data" / "large-messages").glob("*.body")) == bodies


def test_a_store_that_was_cut_ends_no_command_without_a_word(filled: Path) -> None:
    """To half its pages, as a copy that was interrupted leaves it."""
    run = CrashRun(filled, seed=1)
    path = run.folder / "data" / "journal" / "data.mdb"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    said = data_commands(run)
    command = command_of("artemis_py.cli", "run", str(run.folder), "--port-file", str(run.folder / "port"))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        assert broker.stderr is not None
        is_ready = any(line == "ready\n" for line in broker.stdout)
        broker.terminate()
        log = broker.stderr.read()

    for name, done in said.items():
        assert (name, done.returncode) == (name, 1), done.stderr
        # Which of the two depends on what was in the half that is gone.
        assert any(word in done.stdout + done.stderr for word in ("damaged", "beyond the end of the file"))
    assert "is damaged" in log
    assert broker.returncode == (0 if is_ready else 1)


def test_what_is_found_in_a_cut_store_is_exported_and_taken_in_again(filled: Path, tmp_path: Path) -> None:
    """Although nothing leads to it any more: messages, their queues, and nothing that was never sent."""
    run = CrashRun(filled, seed=1)
    path = run.folder / "data" / "journal" / "data.mdb"
    sound = PageFile(path)
    names = {meta.main.root for meta in sound.metas}
    sound.close()
    # All but the pages of the last two commits that say where each database begins.
    data = bytearray(path.read_bytes())
    for page in names:
        data[page * 4096 : (page + 1) * 4096] = bytes(4096)
    path.write_bytes(data)
    exported = tmp_path / "found.jsonl"
    export = command_of("artemis_py.cli", "data", "export", str(run.folder), str(exported))
    done = subprocess.run(export, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "nothing tells what is in it" in done.stdout
    assert "messages that were consumed" in done.stdout
    assert done.stderr.count("\n") == 1

    new = CrashRun(tmp_path / "new", seed=1)
    new.prepare()
    broker = new.start()
    broker.terminate()
    broker.wait(60)
    taken = command_of("artemis_py.cli", "data", "import", str(new.folder), str(exported))
    done = subprocess.run(taken, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    broker = new.start()
    try:
        ids = read_everything(new.url)
    finally:
        kill(broker)

    everything = [f"{queue}/{number}" for queue in "won" for number in range(COUNT)] + ["f/0"]
    assert set(ids) == set(everything)
