"""`artemis-py spark` without a session: help, wrong usage, missing requirements, and errors in the engine's text."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner, Result

from artemis_py.cli import main
from artemis_py.cli.spark_job import running_job
from artemis_py.errors import ArtemisError
from artemis_py.spark.errors import ConnectionLost, InvalidOption, MissingRequirement, Refused


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["spark", *arguments], env=environment)


def test_help_needs_no_spark() -> None:
    script = "import sys, artemis_py.cli.spark; sys.exit('pyspark' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    assert "telemetry" in run("--help").output


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
        ("telemetry", "--address", "a", "--out", "x"),
    ],
)
def test_wrong_usage_is_told_before_spark_is_started(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)

    assert result.exit_code == 2, result.output
    assert "Usage:" in result.output


def test_missing_requirements_are_one_line() -> None:
    """Without the extra it is that, otherwise the Java that is not where JAVA_HOME says."""
    result = run("dlq", "report", JAVA_HOME="/nonexistent")

    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert "artemis_py[spark]" in result.output or "Java" in result.output
    assert result.output.count("\n") == 1


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
