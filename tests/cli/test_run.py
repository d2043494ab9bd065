"""`run` and `check` as processes."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import run_command
from tests.interop.broker_process import STOP_TIMEOUT_S, Instance, launch, start_broker
from tests.interop.proton.client import Client

WRONG = Instance(core="<nonsense>1</nonsense><name></name><message-expiry-scan-period>x</message-expiry-scan-period>")


def created(folder: Path) -> Path:
    """An instance as `create` makes it, on ports of the system's choice."""
    outcome = run_command(
        *("create", str(folder), "--user", "u", "--port", "0", "--amqp-port", "0", "--mqtt-port", "0"),
        ARTEMIS_PY_PASSWORD="p",
    )
    assert outcome.code == 0, outcome.err
    return folder


@contextmanager
def started(*arguments: str, folder: Path, signal_number: int) -> "Iterator[subprocess.Popen[str]]":
    """A broker that is told to stop at the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "artemis_py.cli", "run", *arguments],
        cwd=folder,
        env=os.environ | {"ARTEMIS_PY_PORT": "0", "ARTEMIS_PY_AMQP_PORT": "0", "ARTEMIS_PY_MQTT_PORT": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal_number)
            process.wait(STOP_TIMEOUT_S)


def read_ports(process: "subprocess.Popen[str]") -> list[tuple[str, int]]:
    """Name and port of each acceptor, from what `run` prints until it is ready."""
    found: list[tuple[str, int]] = []
    assert process.stdout is not None
    for line in process.stdout:
        if line == "ready\n":
            return found
        word, name, where = line.split()
        assert word == "listening:"
        found.append((name, int(where.rpartition(":")[2])))
    raise AssertionError(f"the broker ended with code {process.wait()} before it was ready")


@pytest.mark.each_build
def test_an_instance_runs_serves_and_stops_in_good_order(tmp_path: Path) -> None:
    with started(str(created(tmp_path / "i")), folder=tmp_path, signal_number=signal.SIGTERM) as process:
        ports = read_ports(process)
        url = f"amqp://127.0.0.1:{ports[0][1]}"
        sent = run_command("producer", "--url", url, "--user", "u", "--password", "p")

    assert [name for name, _ in ports] == ["artemis", "amqp", "mqtt"]
    assert (sent.code, process.returncode) == (0, 0)


def test_a_broker_runs_in_another_event_loop(tmp_path: Path) -> None:
    """It stores, delivers and stops as in asyncio's own."""
    arguments = ("--event-loop", "uvloop", str(created(tmp_path / "i")))
    with started(*arguments, folder=tmp_path, signal_number=signal.SIGTERM) as process:
        login = ("--url", f"amqp://127.0.0.1:{read_ports(process)[0][1]}", "--user", "u", "--password", "p")
        sent = run_command("producer", "--message", "first", *login)
        taken = run_command("consumer", "--message-count", "1", *login)

    assert (sent.code, taken.lines, process.returncode) == (0, ["first"], 0)


@pytest.mark.each_build
def test_durable_messages_are_there_after_a_restart(tmp_path: Path) -> None:
    folder = created(tmp_path / "i")
    for command in (
        ("producer", "--message", "first"),
        ("consumer", "--message-count", "1"),
    ):
        with started(str(folder), folder=tmp_path, signal_number=signal.SIGTERM) as process:
            url = f"amqp://127.0.0.1:{read_ports(process)[0][1]}"
            outcome = run_command(command[0], "--url", url, "--destination", "orders", *command[1:])

    assert outcome.lines == ["first"]


def test_a_folder_in_use_is_told_in_words(tmp_path: Path) -> None:
    folder = created(tmp_path / "i")
    with started(str(folder), folder=tmp_path, signal_number=signal.SIGTERM) as process:
        read_ports(process)
        outcome = run_command("run", str(folder))

    assert outcome.code == 1
    assert f"is used by another broker (process {process.pid})" in outcome.err


def test_without_a_folder_the_shipped_configuration_runs_on_the_current_one(tmp_path: Path) -> None:
    for command in (("producer", "--message", "first"), ("consumer", "--message-count", "1")):
        with started(folder=tmp_path, signal_number=signal.SIGINT) as process:
            url = f"amqp://127.0.0.1:{read_ports(process)[0][1]}"
            outcome = run_command(command[0], "--url", url, "--destination", "orders", *command[1:])

    assert (outcome.lines, process.returncode) == (["first"], 0)
    assert (tmp_path / "data" / "journal").is_dir()


def test_a_wrong_configuration_starts_nothing_and_lists_every_mistake(tmp_path: Path) -> None:
    WRONG.write(tmp_path)
    outcomes = [run_command(command, str(tmp_path)) for command in ("run", "check")]

    for outcome in outcomes:
        assert outcome.code == 2
        assert outcome.out == ""
        assert all(text in outcome.err for text in ("broker.xml:", "nonsense", "message-expiry-scan-period"))
        assert "nothing was started" in outcome.err


def test_a_parameter_that_no_protocol_knows_is_a_mistake(tmp_path: Path) -> None:
    Instance(parameters="protocols=AMQP;nonsense=1").write(tmp_path)
    outcomes = [run_command(command, str(tmp_path)) for command in ("run", "check")]

    assert [outcome.code for outcome in outcomes] == [2, 2]
    assert all("nonsense" in outcome.err for outcome in outcomes)


def test_a_virtual_topic_that_is_wrong_is_named(tmp_path: Path) -> None:
    """artemis-model §4.3.4: each pair has a number of words."""
    Instance(parameters="protocols=OPENWIRE;virtualTopicConsumerWildcards=Consumer.*.%3E%3B2,Reader.%3E").write(
        tmp_path
    )
    outcomes = [run_command(command, str(tmp_path)) for command in ("run", "check")]

    for outcome in outcomes:
        assert outcome.code == 2
        assert all(text in outcome.err for text in ("broker.xml:", '"Reader.>"', "number of words"))


def test_a_users_file_that_cannot_be_read_is_a_mistake(tmp_path: Path) -> None:
    folder = created(tmp_path / "i")
    (folder / "etc" / "artemis-users.properties").write_text("no equals sign\n")
    outcomes = [run_command(command, str(folder)) for command in ("run", "check")]

    assert [outcome.code for outcome in outcomes] == [2, 2]
    assert all("artemis-users.properties:1:" in outcome.err for outcome in outcomes)


def test_a_start_reports_the_same_mistakes_as_a_check(tmp_path: Path) -> None:
    """Not only those of the first part that cannot be used."""
    folder = created(tmp_path / "i")
    (folder / "etc" / "artemis-users.properties").write_text("no equals sign\n")
    file = folder / "etc" / "broker.xml"
    file.write_text(file.read_text().replace("<name>", "<nmae/><name>").replace("protocols=MQTT", "protocols=MOTT"))
    outcomes = [run_command(command, str(folder)) for command in ("run", "check")]

    for outcome in outcomes:
        assert outcome.code == 2
        assert [found in outcome.err for found in ("properties:1:", "nmae", "MOTT", "3 problems found")] == [True] * 4


def test_a_port_that_is_taken_is_told_in_words(tmp_path: Path) -> None:
    first = start_broker(Instance(), tmp_path / "first")
    folder = created(tmp_path / "i")
    outcome = run_command("run", str(folder), ARTEMIS_PY_PORT=str(first.port))
    first.stop()

    assert outcome.code == 2
    assert str(first.port) in outcome.err
    assert outcome.out == ""


def test_a_good_configuration_passes_the_check_by_folder_and_by_file(tmp_path: Path) -> None:
    folder = created(tmp_path / "i")
    outcomes = [run_command("check", str(place)) for place in (folder, folder / "etc" / "broker.xml")]

    assert [outcome.code for outcome in outcomes] == [0, 0]
    assert all(outcome.out.startswith("ok: ") for outcome in outcomes)


def test_without_an_argument_the_shipped_configuration_is_checked() -> None:
    assert run_command("check").code == 0


def test_a_folder_without_configuration_is_exit_code_2(tmp_path: Path) -> None:
    outcomes = [run_command(command, str(tmp_path)) for command in ("run", "check")]

    assert [outcome.code for outcome in outcomes] == [2, 2]


def test_instances_can_be_moved(tmp_path: Path) -> None:
    """Nothing in an instance names its place."""
    shutil.move(created(tmp_path / "i"), tmp_path / "moved")

    assert run_command("check", str(tmp_path / "moved")).code == 0


NOWHERE = Instance(
    settings="""<address-setting match="lost.#">
        <dead-letter-address>nowhere</dead-letter-address>
        <expiry-address>DLQ::other</expiry-address>
      </address-setting>"""
)


def test_a_dead_letter_address_without_a_queue_does_not_pass_the_strict_check(tmp_path: Path) -> None:
    """Nor does an expiry address; both are named with the line of their match."""
    NOWHERE.write(tmp_path)
    outcome = run_command("check", "--strict", str(tmp_path))
    line = (tmp_path / "etc" / "broker.xml").read_text().splitlines().index(
        '      <address-setting match="lost.#">'
    ) + 1

    assert outcome.code == 2
    assert run_command("check", str(tmp_path)).code == 0
    assert f'broker.xml:{line}: address-setting: match "lost.#": dead-letter-address "nowhere" has no' in outcome.err
    assert f'broker.xml:{line}: address-setting: match "lost.#": expiry-address "DLQ::other" is no' in outcome.err


def test_a_dead_letter_address_without_a_queue_is_a_warning_at_the_start(tmp_path: Path) -> None:
    """The queue may come, so the broker starts; and it says what it discards."""
    broker = start_broker(NOWHERE, tmp_path)
    with Client(broker.url) as client:
        client.send("lost.q", "1", "2", "3")
        receiver = client.receiver("lost.q")
        for _ in range(3):
            receiver.receive().reject()
        client.sync()
    broker.stop()
    log = broker.log_text()
    counts = re.findall(r"discarded: queue=lost.q count=(\d) reason=dead-letter address 'nowhere' has no", log)

    assert (
        "WARNING artemis_py.deployment.apply: dead-letter-address has no queue, messages are discarded: match=lost.#"
        in log
    )
    assert (
        "WARNING artemis_py.deployment.apply: expiry-address has no queue, messages are discarded: match=lost.#" in log
    )
    assert "match=#" not in log
    assert counts == ["1", "2"]


def test_a_queue_that_a_client_made_earlier_serves_a_dead_letter_address(tmp_path: Path) -> None:
    """A start knows what is stored, a file does not."""
    lost = """<address-setting match="lost.#"><dead-letter-address>later</dead-letter-address></address-setting>"""
    first = start_broker(Instance(settings=lost, persistence="true"), tmp_path)
    with Client(first.url) as client:
        client.receiver("later")
    first.stop()
    second = launch(tmp_path)
    second.stop()

    assert "has no queue" not in second.log_text()
