"""The job `telemetry` as it is meant: devices speak MQTT, the command aggregates, AMQP consumers get the alerts."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from proton import Message

from artemis_py.cli import main
from artemis_py.spark.jobs.telemetry import read_windows
from artemis_py.spark.jobs.telemetry_report import overview, render
from artemis_py.spark.options import read_options
from artemis_py.spark.planning import Planner
from tests.interop.broker_process import BrokerProcess
from tests.interop.mqtt.paho_client import Paho
from tests.spark.conftest import message_count, receive, send

NOON = 1_800_000_000
"""A moment at which a minute begins."""
RULES = {"hot": "max > 90", "silent": "count < 2"}

Job = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the windows go."""
    return tmp_path / "windows"


@pytest.fixture
def job(spark: Any, broker: BrokerProcess, name: str, folder: Path) -> Job:
    """Runs the command in this process, so that the session of the tests is used; its summary."""
    Planner(read_options({"url": broker.url, "address": name, "subscription": "telemetry"})).heads()

    def run(*more: object) -> dict[str, Any]:
        told = (word for rule, condition in RULES.items() for word in ("--alert", f"{rule}={condition}"))
        arguments = (
            *("--url", broker.url, "--address", name, "--subscription", "telemetry", "--out", folder),
            *("--device", "$.device", "--time", "$.at", "--watermark", "30 seconds"),
            *(*told, "--alert-to", f"{name}.alerts", "--json"),
        )
        done = CliRunner().invoke(main, ["spark", "telemetry", *map(str, (*arguments, *more))])
        assert done.exit_code == 0, done.output
        summary: dict[str, Any] = json.loads(done.stdout)
        return summary

    return run


def publish(broker: BrokerProcess, topic: str, *measurements: tuple[str, int, float]) -> None:
    """A client for each device, as QoS 1: when this returns the broker has them."""
    for device, second, value in measurements:
        with Paho(broker, f"{topic}-{device}") as client:  # type: ignore[arg-type]
            client.publish(topic, json.dumps({"device": device, "at": NOON + second, "value": value}), qos=1)


def windows_of(spark: Any, folder: Path) -> list[tuple[str, int, float, float, float]]:
    rows = read_windows(spark, str(folder)).orderBy("window_start", "device").collect()
    return [(row["device"], row["count"], row["min"], row["max"], row["avg"]) for row in rows]


def test_devices_speak_mqtt_and_operators_get_alerts_by_amqp(
    spark: Any, broker: BrokerProcess, name: str, folder: Path, job: Job
) -> None:
    """Each window once, also over two runs. What is no measurement is counted; a map of AMQP does as well as JSON."""
    publish(broker, name, ("a", 0, 10), ("b", 59, 1), ("a", 600, 0))
    with Paho(broker, f"{name}-broken") as client:  # type: ignore[arg-type]
        for rubbish in (b"{", b"\xff\xfe\x00", b"", b'{"device": "a", "at": "soon", "value": 1}'):
            client.publish(name, rubbish, qos=1)
        for number in ("NaN", "-Infinity"):
            client.publish(name, json.dumps({"device": "a", "at": NOON, "value": number}), qos=1)
    send(broker, name, [Message(body={"device": "a", "at": NOON + 20, "value": 95}), Message(body=None)])

    first = job("--agg", "p50=percentile_approx(value, 0.5)", "--alert", "low=p50 < 2")
    publish(broker, name, ("a", 61, 5), ("a", 1200, 0))
    second = job("--agg", "p50=percentile_approx(value, 0.5)")

    assert windows_of(spark, folder) == [("a", 2, 10.0, 95.0, 52.5), ("b", 1, 1.0, 1.0, 1.0), ("a", 1, 0.0, 0.0, 0.0)]
    assert {key: first[key] for key in ("messages", "unusable", "late", "windows", "alerts")} == {
        "messages": 11,
        "unusable": 7,
        "late": 0,
        "windows": 2,
        "alerts": 3,
    }
    assert (second["late"], second["windows"], second["alerts"]) == (1, 1, 1)
    told = [json.loads(message.body) for message in receive(broker, f"{name}.alerts", 4)]
    assert {(one["rule"], one["device"], one["p50"]) for one in told} == {
        ("hot", "a", 10.0),
        ("silent", "b", 1.0),
        ("low", "b", 1.0),
        ("silent", "a", 0.0),
    }
    assert message_count(broker, f"{name}.alerts") == 0
    shown = overview(read_windows(spark, str(folder)), RULES)
    assert (shown.device_count, shown.measurement_count, shown.window_count) == (2, 4, 3)
    assert [len(device.points) for device in shown.devices] == [2, 1]
    assert "hot" in render("Telemetry", shown, datetime(2027, 1, 1, tzinfo=UTC))


def test_a_report_shows_the_device_that_alerted(spark: Any) -> None:
    """Although a dozen others measure more."""
    text = (
        "device string, window_start timestamp, window_end timestamp, count bigint, min double, max double, avg double"
    )
    start, end = datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, 0, 1, tzinfo=UTC)
    rows = [(f"d{number:02}", start, end, 100 + number, 1.0, 2.0, 1.5) for number in range(12)]
    windows = spark.createDataFrame([*rows, ("hot one", start, end, 1, 95.0, 95.0, 95.0)], text)

    found = overview(windows, {"hot": "max > 90", "cold": "min < 0"})

    assert (found.devices[0].name, found.devices[0].alerts) == ("hot one", 1)
    assert [device.name for device in found.devices if device.points][:2] == ["hot one", "d11"]
    page = render("Telemetry", found, start)
    assert "<title>hot one</title><polyline" in page
    assert page.index("<title>d11: 111") < page.index("<title>d00: 100")


def test_a_batch_that_is_repeated_alerts_nobody_twice(
    spark: Any, broker: BrokerProcess, name: str, folder: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run fails when its alerts are out and its batch is not in the commit log."""
    publish(broker, name, ("a", 0, 99), ("a", 1, 99), ("a", 600, 0))

    def killed(batch: Any) -> None:
        if batch.count():
            raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("pyspark.sql.classic.dataframe.DataFrame.unpersist", killed)
        with pytest.raises(AssertionError, match="killed"):
            job()
    assert message_count(broker, f"{name}.alerts") == 1
    again = job()

    assert again["windows"] == 1
    assert message_count(broker, f"{name}.alerts") == 1
    assert windows_of(spark, folder) == [("a", 2, 99.0, 99.0, 99.0)]


def test_a_report_without_a_window_says_that_there_is_nothing(
    spark: Any, broker: BrokerProcess, name: str, folder: Path, tmp_path: Path, job: Job
) -> None:
    publish(broker, name, ("a", 0, 1))
    page = tmp_path / "report.html"

    done = job("--report", page)

    assert (done["messages"], done["windows"]) == (1, 0)
    assert "There is nothing to show." in page.read_text(encoding="utf-8")
