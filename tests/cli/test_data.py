"""`data` as a process, beside a broker that runs and after it stopped."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from proton import Message, symbol

from tests.cli.conftest import run_command
from tests.cli.test_run import created, read_ports, started
from tests.interop.proton.client import Client

MESSAGES = (
    Message(body="grüße", id=UUID(int=5), properties={"a": 1, "b": None, "c": b"\x00"}, priority=7, durable=True),
    Message(body={"k": [1, {"n": 2.5}]}, annotations={symbol("x-opt-a"): "v"}, correlation_id="c", durable=True),
    Message(body=b"\xff" * 70_000, inferred=True, durable=True),
    Message(body=None, subject="s", durable=True),
    Message(body=bytes(range(256)) * 2000, inferred=True, properties={"large": True}, durable=True),
)


@contextmanager
def served(instance: Path) -> Iterator[Client]:
    """A client of a broker that runs on an instance."""
    with (
        started(str(instance), folder=instance, signal_number=signal.SIGTERM) as process,
        Client(f"amqp://127.0.0.1:{read_ports(process)[0][1]}") as client,
    ):
        yield client


def taken(client: Client, queue: str) -> list[tuple[bytes, dict[str, object], int]]:
    """Bare octets, annotations and sequence of all messages of a queue."""
    found = client.receiver(queue).drain()
    return [(each.bare, each.annotations, each.sequence) for each in found]


def test_the_store_of_a_running_broker_is_counted_checked_and_copied(tmp_path: Path) -> None:
    folder = created(tmp_path / "i")
    with started(str(folder), folder=tmp_path, signal_number=signal.SIGTERM) as process:
        url = f"amqp://127.0.0.1:{read_ports(process)[0][1]}"
        run_command("producer", "--url", url, "--destination", "orders", "--message-count", "3")
        stat = run_command("data", "stat", str(folder), "--json").json()
        check = run_command("data", "check", str(folder))
        backup = run_command("data", "backup", str(folder), str(tmp_path / "copy"))
        refused = run_command("data", "compact", str(folder))

    assert {queue["name"]: queue["messages"] for queue in stat["queues"]} == {"DLQ": 0, "ExpiryQueue": 0, "orders": 3}
    assert check.out.startswith("ok: ")
    assert (tmp_path / "copy" / "journal" / "data.mdb").exists(), backup.err
    assert refused.code == 1
    assert "is used by another broker" in refused.err


def test_a_broker_starts_from_a_backup(tmp_path: Path) -> None:
    folder = created(tmp_path / "i")
    with started(str(folder), folder=tmp_path, signal_number=signal.SIGTERM) as process:
        url = f"amqp://127.0.0.1:{read_ports(process)[0][1]}"
        run_command("producer", "--url", url, "--destination", "orders", "--message", "first")
    run_command("data", "backup", str(folder), str(tmp_path / "other" / "data"))
    run_command("data", "compact", str(folder))
    other = created(tmp_path / "other")
    with started(str(other), folder=tmp_path, signal_number=signal.SIGTERM) as process:
        url = f"amqp://127.0.0.1:{read_ports(process)[0][1]}"
        received = run_command("consumer", "--url", url, "--destination", "orders", "--message-count", "1")

    assert received.lines == ["first"]


def test_a_backup_of_a_running_broker_has_its_large_messages(tmp_path: Path) -> None:
    """Its folder becomes the data folder of another instance as it is."""
    first = created(tmp_path / "a")
    with served(first) as client:
        client.send("orders", *MESSAGES)
        check = run_command("data", "check", str(first))
        backup = run_command("data", "backup", str(first), str(tmp_path / "b" / "data"))
        expected = taken(client, "orders")
    with served(created(tmp_path / "b")) as client:
        found = taken(client, "orders")

    assert (check.code, backup.code) == (0, 0), check.out + backup.err
    assert found == expected
    assert len(found) == len(MESSAGES)


def test_what_cannot_be_done_is_told_in_words(tmp_path: Path) -> None:
    folder = created(tmp_path / "i")

    for command in (["stat"], ["check"], ["compact"], ["backup", "b"], ["export", "e.jsonl"]):
        outcome = run_command("data", command[0], str(folder), *(str(tmp_path / name) for name in command[1:]))
        assert (outcome.code, outcome.out) == (1, "")
        assert "there is no store in" in outcome.err


def test_what_is_exported_from_a_running_broker_is_what_another_serves(tmp_path: Path) -> None:
    """Every octet, every annotation, every sequence, in the same order."""
    first, second = created(tmp_path / "a"), created(tmp_path / "b")
    file = tmp_path / "a.jsonl"
    with served(first) as client:
        client.send("orders", *MESSAGES)
        exported = run_command("data", "export", str(first), str(file))
        expected = taken(client, "orders")
    imported = [run_command("data", "import", str(second), str(file)) for _ in range(2)]
    check = run_command("data", "check", str(second))
    with served(second) as client:
        running = run_command("data", "import", str(second), str(file))
        found = taken(client, "orders")

    assert exported.out == f"14 entries written to {file}\n", exported.err
    assert imported[0].out == "14 entries imported\n", imported[0].err
    assert imported[1].out == f"{file} was imported before; nothing was changed\n"
    assert check.code == 0
    assert found == expected
    assert len(found) == len(MESSAGES)
    assert (running.code, "is used by another broker" in running.err) == (1, True)


def test_what_artemis_exported_is_served(tmp_path: Path) -> None:
    """And what its format cannot hold is named when it goes back."""
    folder = created(tmp_path / "a")
    sample = Path(__file__).parents[1] / "unit" / "storetools" / "artemis-2.40-export.xml"
    imported = run_command("data", "import", str(folder), str(sample))
    with served(folder) as client:
        bodies = [each.body for each in client.receiver("orders2::q1").drain()]
        client.send("nested", Message(body={"k": {"n": 1}}, durable=True))
    exported = run_command("data", "export", str(folder), str(tmp_path / "back.xml"))

    assert imported.code == 0, imported.err
    assert bodies == ["grüße", b"\x00\x01bytes", {"k": 1, "n": "t"}, [1, "two", 2.5], b"", b"raw"]
    assert exported.code == 1
    assert "left out: message 1 of queue 'nested': its body has a list or map inside of another" in exported.out


@pytest.mark.parametrize("command", ["export", "import"])
def test_a_file_must_say_what_it_is(tmp_path: Path, command: str) -> None:
    """By its name, or in words."""
    folder = created(tmp_path / "i")
    (tmp_path / "e.txt").touch()

    outcome = run_command("data", command, str(folder), str(tmp_path / "e.txt"))

    assert outcome.code == 2
    assert "--format" in outcome.err
