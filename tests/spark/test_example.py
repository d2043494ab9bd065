"""The examples do what they say, started by Python and by spark-submit."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from proton import Message

from tests.interop.broker_process import REPOSITORY, BrokerProcess
from tests.spark.conftest import send

EXAMPLES = REPOSITORY / "examples" / "spark"
TIMEOUT_S = 300


def submit(*arguments: str) -> str:
    """What PySpark's own spark-submit prints on its standard output."""
    from pyspark.find_spark_home import _find_spark_home

    command = [str(Path(_find_spark_home()) / "bin" / "spark-submit"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_archive_grows_by_what_came(
    spark: Any,
    broker: BrokerProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Run again, it archives what came since, and nothing twice. The source is found without a word in the program."""
    program = str(EXAMPLES / "archive.py")

    def archive() -> str:
        command = [sys.executable, program, str(tmp_path), broker.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=dict(os.environ))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def archive_here() -> str:
        """Use the session of the tests: to start another one takes as long as all the rest."""
        monkeypatch.setattr(type(spark), "stop", lambda _: None)
        runpy.run_path(program)["main"](str(tmp_path), broker.url)
        monkeypatch.undo()
        return capsys.readouterr().out

    first = submit(program, str(tmp_path), broker.url)
    send(broker, "orders", [Message(id=str(number), body=f"order {number}", durable=True) for number in range(5)])

    # What spark-submit prints may begin with warnings.
    assert first.endswith("archived: 0\n")
    assert (archive(), archive_here()) == ("archived: 5\n", "archived: 0\n")
    rows = spark.read.parquet(str(tmp_path / "orders")).orderBy("sequence").collect()
    assert [(row.message_id, row.body) for row in rows] == [(str(number), f"order {number}") for number in range(5)]


def test_spark_submit_runs_a_job(spark: Any, broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    """Master and settings are those of spark-submit; Spark's own log goes elsewhere."""
    send(broker, name, [Message(body=str(number)) for number in range(3)])
    folder = str(tmp_path / "lake")

    told = submit(
        *("--master", "local[1]", str(EXAMPLES / "job.py"), "archive", "--url", broker.url, "--queue", name),
        *("--out", folder, "--json"),
    )

    assert json.loads(told[told.index("{\n") :])["messages"] == 3
    assert spark.read.parquet(folder).count() == 3
