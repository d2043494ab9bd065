"""`artemis-py spark` without a session: help, wrong usage, missing requirements, and errors in the engine's text."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from artemis_py.cli import main
from artemis_py.cli.client import Target
from artemis_py.cli.spark_job import connection_options, running_job
from artemis_py.errors import ArtemisError
from artemis_py.spark import requirements
from artemis_py.spark.errors import ConnectionLost, InvalidOption, MissingRequirement, Refused
from artemis_py.spark.options import connection_of

TELEMETRY = ("telemetry", "--address", "a", "--subscription", "s", "--out", "x")


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["spark", *arguments], env=environment)


def test_help_needs_no_spark() -> None:
    script = "import sys, artemis_py.cli.spark; sys.exit('pyspark' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    assert "telemetry" in run("--help").output


def test_a_lag_needs_no_spark() -> None:
    script = (
        "import sys; sys.modules.update(pyspark=None, pyarrow=None); from artemis_py.cli import main; "
        "main(['spark', 'lag', '--checkpoint', '/nowhere'])"
    )

    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)

    assert done.returncode == 2
    assert "/nowhere is no checkpoint of a query: it has no folder offsets" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("archive", "--out", "x"),
        ("archive", "--out", "x", "--address", "a"),
        ("archive", "--out", "x", "--address", "a", "--subscription", "s", "--queue", "q"),
        ("replay", "--in", "x"),
        ("replay", "--in", "x", "--job-id", "j", "--rate", "0"),
        ("dlq", "redrive"),
        ("dlq", "redrive", "--all", "--group", "x"),
        ("dlq", "export", "--all"),
        ("dlq", "export", "--out", "x"),
        ("dlq", "purge"),
        ("dlq", "purge", "--all", "--where", "x"),
        ("dlq", "purge", "--all", "--dry-run", "--export", "x"),
        ("lag",),
        ("lag", "--address", "a"),
        ("lag", "--queue", "a", "--checkpoint", "c"),
        ("telemetry", "--address", "a", "--out", "x"),
    ],
)
def test_wrong_usage_is_told_before_spark_is_started(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)

    assert result.exit_code == 2, result.output
    assert "Usage:" in result.output


@pytest.mark.parametrize(
    ("installed", "reason"),
    [
        ({}, "the amqp source needs pyspark: pip install 'artemis-py-broker[spark]'"),
        ({"pyspark": "4.3.0"}, "the amqp source needs pyarrow: pip install 'artemis-py-broker[spark]'"),
        (
            {"pyspark": "4.1.2", "pyarrow": "22.0"},
            "the amqp source needs PySpark 4.2 or later, this is 4.1.2: pip install 'artemis-py-broker[spark]'",
        ),
    ],
)
def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], reason: str) -> None:
    def version(package: str) -> str:
        if package not in installed:
            raise PackageNotFoundError(package)
        return installed[package]

    monkeypatch.setattr(requirements, "version", version)

    result = run("dlq", "report")

    assert (result.exit_code, result.output) == (1, f"Error: {reason}\n")


@pytest.mark.parametrize("command", [("dlq", "report", "--out"), (*TELEMETRY, "--report")])
def test_a_page_in_a_folder_that_does_not_exist_is_refused_before_the_job(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Not after it has read everything."""
    result = run(*command, str(tmp_path / "none" / "page.html"))

    assert result.exit_code == 2
    assert f"the folder {tmp_path / 'none'} does not exist" in result.output


def test_a_missing_java_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """None at all, none where JAVA_HOME says, and one that is too old for Spark."""
    monkeypatch.setattr(requirements, "version", lambda package: "4.3.0")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)

    results = [
        run("dlq", "report", PATH=str(tmp_path)),
        run("dlq", "report", JAVA_HOME=str(tmp_path / "none")),
        run("dlq", "report", JAVA_HOME=str(tmp_path)),
    ]

    assert [result.output for result in results] == [
        "Error: Spark needs Java 17 or later: there is no java on the path\n",
        f"Error: Spark needs Java 17 or later: JAVA_HOME is {tmp_path / 'none'}, and there is no Java in it\n",
        f"Error: Spark needs Java 17 or later, {old} is 11.0.2\n",
    ]
    assert {result.exit_code for result in results} == {1}


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [(ConnectionLost("away"), 3), (Refused("no"), 1), (InvalidOption("wrong"), 2), (MissingRequirement("Java"), 1)],
)
def test_errors_of_the_connector_have_their_exit_codes(error: ArtemisError, exit_code: int) -> None:
    def start() -> object:
        raise error

    with pytest.raises(click.ClickException, match=str(error)) as caught, running_job("x", start):
        pass
    assert caught.value.exit_code == exit_code


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("artemis_py.spark.errors.ConnectionLost: amqp://h:1: refused", (3, "amqp://h:1: refused")),
        ("ValueError: of somebody's function", (1, "ValueError: of somebody's function")),
        ("nobody knows", (1, "Job aborted")),
    ],
)
def test_the_reason_is_found_in_what_the_engine_says(reason: str, told: tuple[int, str]) -> None:
    """It wraps exceptions of Python code as text, with its own stack around it."""

    class EngineError(Exception):
        pass

    EngineError.__module__ = "pyspark.errors.exceptions.captured"
    text = f"Job aborted\n  File x\n{reason}\n\n\tat org.apache.spark.SparkException: x"

    def start() -> object:
        raise EngineError(text)

    with pytest.raises(click.ClickException) as caught, running_job("x", start):
        pass
    assert (caught.value.exit_code, caught.value.message) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            ": org.apache.hadoop.fs.ParentNotDirectoryException: Parent path is not a directory: file:/x\n\tat y",
            "ParentNotDirectoryException: Parent path is not a directory: file:/x",
        ),
        (
            ": org.apache.spark.SparkException: Job aborted.\n\tat y\nCaused by: java.io.IOException: No space left",
            "IOException: No space left",
        ),
        ("something else", "An error occurred while calling o31.parquet."),
    ],
)
def test_a_folder_that_cannot_be_written_is_told_as_java_tells_it(text: str, told: str) -> None:
    """The first line names a call of the bridge to Java, which no user has made."""

    class BridgeError(Exception):
        pass

    BridgeError.__module__ = "py4j.protocol"

    def start() -> object:
        raise BridgeError(f"An error occurred while calling o31.parquet.\n{text}")

    with pytest.raises(click.ClickException) as caught, running_job("x", start):
        pass
    assert caught.value.message == told


def test_a_time_limit_is_one_for_the_connection() -> None:
    target = Target(url="amqp://a", user=None, password=None, ca=None, timeout_s=2.5)

    assert connection_of(connection_options(target)).connect_timeout_s == 2.5
