"""The commands of the jobs: what they print, and what a failing broker makes of their exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from proton import Message

from artemis_py.cli import main
from tests.interop.broker_process import BrokerProcess
from tests.spark.conftest import message_count, receive, send
from tests.spark.test_jobs_dead_letters import kill


def run(*arguments: object) -> Result:
    """In this process, so that the session of the tests is used."""
    return CliRunner().invoke(main, ["spark", *map(str, arguments)])


@pytest.mark.timeout(400)
def test_archive_and_replay(spark: Any, broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    send(broker, name, [Message(body=str(i)) for i in range(3)])
    folder = tmp_path / "lake"

    archived = run("archive", "--url", broker.url, "--queue", name, "--out", folder, "--json")
    replayed = run(
        "replay", "--url", broker.url, "--in", folder, "--where", "sequence < 3", "--to", f"{name}.b", "--job-id", name
    )

    assert (archived.exit_code, replayed.exit_code) == (0, 0), archived.output + replayed.output
    assert json.loads(archived.stdout)["messages"] == 3
    assert replayed.stderr.startswith("replayed 2 messages in ")
    assert [message.body for message in receive(broker, f"{name}.b", 2)] == ["0", "1"]


@pytest.mark.timeout(400)
def test_report_and_redrive_by_group(spark: Any, broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    """The id that the report shows chooses the group."""
    send(broker, name, [Message(body="text"), Message(body='{"a": 1}')])
    kill(broker, name, 2)
    where = f"origin_address = '{name}'"
    page = tmp_path / "report.html"

    told = run("dlq", "report", "--url", broker.url, "--where", where, "--out", page, "--json")
    (group,) = [one["id"] for one in json.loads(told.stdout) if one["shape"] == "text"]
    sent = run("dlq", "redrive", "--url", broker.url, "--group", group, "--json")

    assert (told.exit_code, sent.exit_code) == (0, 0), told.output + sent.output
    assert group in page.read_text(encoding="utf-8")
    assert {key: json.loads(sent.stdout)[key] for key in ("selected", "sent", "removed")} == {
        "selected": 1,
        "sent": 1,
        "removed": 1,
    }
    assert message_count(broker, name) == 1


@pytest.mark.timeout(400)
def test_a_broker_that_is_away_and_one_that_refuses(spark: Any, broker: BrokerProcess, name: str) -> None:
    """3 and 1, with the connector's reason and no stack."""
    away = run("dlq", "redrive", "--url", "amqp://127.0.0.1:1", "--all")
    refused = run("dlq", "report", "--url", broker.url, "--queue", f"{name}.none")

    assert (away.exit_code, refused.exit_code) == (3, 1)
    assert away.stderr.startswith("Error: amqp://127.0.0.1:1: ")
    assert f"queue '{name}.none' does not exist" in refused.stderr
    assert "Traceback" not in away.output + refused.output


@pytest.mark.timeout(400)
def test_a_report_and_a_purge_say_what_they_left_out(spark: Any, broker: BrokerProcess, name: str) -> None:
    """Smaller groups; and a group that is not there, such as one with a typing error."""
    send(broker, name, [Message(body="text"), Message(body='{"a": 1}'), Message(body='{"b": 1}')])
    kill(broker, name, 3)
    where = f"origin_address = '{name}'"

    told = run("dlq", "report", "--url", broker.url, "--where", where, "--groups", "2")
    purged = run("dlq", "purge", "--url", broker.url, "--group", "0000000000")

    assert (told.exit_code, purged.exit_code) == (0, 0), told.output + purged.output
    assert "2 dead letters in the 2 largest groups\nthere are more groups: give --groups a larger number" in told.stderr
    assert "no dead letter matches" in purged.stderr
