"""`data` as a process, beside a broker that runs and after it stopped."""

import signal
from pathlib import Path

from tests.cli.conftest import run_command
from tests.cli.test_run import created, read_ports, started


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
    assert (tmp_path / "copy" / "data.mdb").exists(), backup.err
    assert refused.code == 1
    assert "is used by another broker" in refused.err


def test_a_broker_starts_from_a_backup(tmp_path: Path) -> None:
    folder = created(tmp_path / "i")
    with started(str(folder), folder=tmp_path, signal_number=signal.SIGTERM) as process:
        url = f"amqp://127.0.0.1:{read_ports(process)[0][1]}"
        run_command("producer", "--url", url, "--destination", "orders", "--message", "first")
    run_command("data", "backup", str(folder), str(tmp_path / "other" / "data" / "journal"))
    run_command("data", "compact", str(folder))
    other = created(tmp_path / "other")
    with started(str(other), folder=tmp_path, signal_number=signal.SIGTERM) as process:
        url = f"amqp://127.0.0.1:{read_ports(process)[0][1]}"
        received = run_command("consumer", "--url", url, "--destination", "orders", "--message-count", "1")

    assert received.lines == ["first"]


def test_what_cannot_be_done_is_told_in_words(tmp_path: Path) -> None:
    folder = created(tmp_path / "i")

    for command in ("stat", "check", "compact"):
        outcome = run_command("data", command, str(folder))
        assert (outcome.code, outcome.out) == (1, "")
        assert "there is no store in" in outcome.err
