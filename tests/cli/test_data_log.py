"""`data` beside a broker with a write-ahead log that is under load, and after it was killed."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from attrs import evolve
from proton import Message

from artemis_py.config import load
from artemis_py.storetools.check import check_folder
from artemis_py.storetools.copies import back_up
from artemis_py.storetools.export import FileFormat, export_folder
from artemis_py.storetools.intake import import_file
from artemis_py.storetools.statistics import statistics
from tests.cli.conftest import run_command
from tests.cli.test_run import created, read_ports, started
from tests.crash.power_cut import read_state
from tests.interop.proton.client import Client

CORE = '<core xmlns="urn:activemq:core">'
OPTIONS = """
    <write-ahead-log>true</write-ahead-log>
    <write-ahead-log-max-age>50</write-ahead-log-max-age>
    <journal-file-size>65536</journal-file-size>
"""
"""So small and fast that files are used again all the time."""
WINDOW = 20
BACKUPS = 2


def logged(folder: Path) -> Path:
    """An instance with a log."""
    file = created(folder) / "etc" / "broker.xml"
    text = file.read_text().replace(CORE, CORE + OPTIONS)
    assert OPTIONS in text
    file.write_text(text)
    return folder


def folders(instance: Path) -> tuple[Path, Path]:
    """Those of the journal and of large messages."""
    return instance / "data" / "journal", instance / "data" / "large-messages"


class Producer(Thread):
    """Sends numbers, window after window; some messages are large."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.confirmed = 0
        """How many messages were accepted."""
        self.stopping = Event()
        self._url = url

    def run(self) -> None:
        """Until the broker is gone, or `stopping`."""
        with Client(self._url) as client:
            while not self.stopping.is_set():
                window = [self._message(self.confirmed + index) for index in range(WINDOW)]
                try:
                    client.send("orders", *window)
                except Exception:  # whatever Proton says when the broker was killed
                    return
                self.confirmed += WINDOW

    def _message(self, number: int) -> Message:
        size = 150_000 if number % 50 == 7 else 1000
        return Message(body=b"x" * size, inferred=True, id=str(number), durable=True)

    def wait_for(self, count: int) -> None:
        """Until so many messages were accepted."""
        while self.confirmed < count:
            assert self.is_alive()
            self.stopping.wait(0.01)


@contextmanager
def loaded(folder: Path, signal_number: signal.Signals) -> Iterator[Producer]:
    """A broker with a producer."""
    with started(str(folder), folder=folder, signal_number=signal_number) as process:
        producer = Producer(f"amqp://127.0.0.1:{read_ports(process)[0][1]}")
        producer.start()
        try:
            producer.wait_for(3 * WINDOW)
            yield producer
        finally:
            if signal_number == signal.SIGTERM:
                producer.stopping.set()
                producer.join()
    producer.join()


def numbers_in(instance: Path, journal: Path, bodies: Path) -> list[int]:
    """What a broker finds in a store that is sound."""
    assert check_folder(journal, bodies) == []
    config = load(instance / "etc" / "broker.xml")
    config = evolve(config, large_messages_directory=str(bodies), security_enabled=False)
    return [int(id) for id in asyncio.run(read_state(config, journal)).messages["orders"]]


def test_backups_and_exports_of_a_broker_under_load_are_each_one_moment(tmp_path: Path) -> None:
    """All that was accepted before is there, and nothing is missing in between."""
    instance = tmp_path / "i"
    counts = []
    with loaded(logged(instance), signal.SIGTERM) as producer:
        journal, bodies = folders(instance)
        for number in range(BACKUPS):
            producer.wait_for(producer.confirmed + 5 * WINDOW)
            counts.append(producer.confirmed)
            back_up(journal, tmp_path / str(number), large_messages_folder=bodies)
        before = producer.confirmed
        export_folder(journal, tmp_path / "all.jsonl", FileFormat.JSONL, {}, large_messages_folder=bodies)
        accepted = producer.confirmed
        assert statistics(journal, bodies).messages >= accepted
        assert check_folder(journal, bodies) == []
    for number, count in enumerate(counts):
        found = numbers_in(instance, tmp_path / str(number) / "journal", tmp_path / str(number) / "large-messages")
        assert len(found) >= count
        assert found == list(range(len(found)))
    import_file(tmp_path / "other" / "journal", tmp_path / "all.jsonl", FileFormat.JSONL, {})
    found = numbers_in(instance, tmp_path / "other" / "journal", tmp_path / "other" / "journal" / "large-messages")
    assert len(found) >= before
    assert found == list(range(len(found)))


def test_a_broker_that_was_killed_is_counted_backed_up_and_exported(tmp_path: Path) -> None:
    """With what is in its log only."""
    instance = tmp_path / "i"
    with loaded(logged(instance), signal.SIGKILL) as producer:
        producer.wait_for(producer.confirmed + 5 * WINDOW)
    stat = run_command("data", "stat", str(instance))
    journal, bodies = folders(instance)
    assert "are not counted above" in stat.out, stat.err
    assert check_folder(journal, bodies) == []
    export_folder(journal, tmp_path / "all.jsonl", FileFormat.JSONL, {}, large_messages_folder=bodies)
    import_file(tmp_path / "other", tmp_path / "all.jsonl", FileFormat.JSONL, {})
    back_up(journal, tmp_path / "copy", large_messages_folder=bodies)

    found = numbers_in(instance, journal, bodies)
    assert len(found) >= producer.confirmed
    assert found == list(range(len(found)))
    assert numbers_in(instance, tmp_path / "other", tmp_path / "other" / "large-messages") == found
    assert numbers_in(instance, tmp_path / "copy" / "journal", tmp_path / "copy" / "large-messages") == found
