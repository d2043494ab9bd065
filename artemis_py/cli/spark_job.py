"""Shared parts of the commands of `artemis-py spark`: session, progress, and the connector's errors in one line.

PySpark is imported when a job starts, so help works without it, and one clear line says if it or Java is missing.
"""

import functools
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

import artemis_py.spark
from artemis_py.cli.client import Target, default_host_options
from artemis_py.cli.errors import Failed, NotConnected
from artemis_py.cli.render import Progress, print_json, summary
from artemis_py.spark import errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from artemis_py.spark.jobs.running import Progress as JobProgress

as_json = click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")
every = click.option("--every", type=float, metavar="SECONDS", help="Run until Ctrl-C, a batch at each interval.")
checkpoint_option = click.option("--checkpoint", help="Folder of the checkpoint [default: _checkpoint in --out].")
rate_option = click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="At most this many messages per second."
)

SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # The engine's default of 200 is for a cluster: on one machine it would spend most of the time on empty tasks.
    "spark.sql.shuffle.partitions": "8",
}
"""Settings of the session; `--conf` overrides them."""
LOGGING: Final = Path(artemis_py.spark.__file__).with_name("log4j2.properties")
"""Logging settings of the JVM: the command reports a failure once, without the stack traces of every layer."""

PAGE: Final = click.Path(dir_okay=False, writable=True, path_type=Path)
"""Type of an option that names an HTML file."""

Start = Callable[[], "SparkSession"]


def in_a_folder(context: click.Context, parameter: click.Parameter, file: Path | None) -> Path | None:
    """Refuse a file whose folder does not exist, before a job has worked for minutes to fill it."""
    if file is not None and not file.absolute().parent.is_dir():
        raise click.BadParameter(f"the folder {file.parent} does not exist", context, parameter)
    return file


def session_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the options of the broker and of the session; the command gets `spark`, which starts the session."""

    @functools.wraps(command)
    def with_session(master: str | None, conf: tuple[str, ...], **arguments: Any) -> object:
        return command(start=lambda: _session(master, conf), **arguments)

    wrapped: Callable[..., object] = default_host_options(with_session)
    for option in (
        click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Setting of the session; repeatable."),
        click.option("--master", help="Where Spark runs [default: local[*], or that of spark-submit]."),
    ):
        wrapped = option(wrapped)
    return wrapped


def _session(master: str | None, conf: tuple[str, ...]) -> "SparkSession":
    settings = dict(SETTINGS)
    for item in conf:
        key, separator, value = item.partition("=")
        if not separator:
            raise click.UsageError(f"--conf {item}: use KEY=VALUE")
        settings[key] = value
    if master is not None:
        settings["spark.master"] = master
    # Workers beside the driver would otherwise use the first python3 on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Read when a JVM is started; a JVM that spark-submit has started keeps its own logging.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-Dlog4j2.configurationFile={LOGGING.as_uri()}")
    from artemis_py.spark.session import session

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    return session("artemis-py", settings)


def connection_options(target: Target) -> dict[str, str]:
    """Return the connector's options for the broker and the login."""
    given = {"url": target.url, "user": target.user, "password": target.password, "tls.ca": target.ca}
    # An answer may wait for the broker to delete thousands of messages: it has the connector's own limit.
    given["connectTimeout"] = f"{target.timeout_s}s"
    return {name: value for name, value in given.items() if value is not None}


def source_options(
    target: Target,
    address: str | None,
    subscription: str | None,
    queue: str | None,
    selector: str | None,
    max_messages: int | None,
) -> dict[str, str]:
    if (queue is None) == (address is None) or (address is None) != (subscription is None):
        raise click.UsageError("give --address with --subscription, or --queue")
    given = {
        "mode": "browse" if address is None else "subscription",
        "address": address,
        "subscription": subscription,
        "queue": queue,
        "selector": selector,
        "maxMessagesPerTrigger": None if max_messages is None else str(max_messages),
    }
    return connection_options(target) | {name: value for name, value in given.items() if value is not None}


class _Shown:
    """Shows the progress of a job on the terminal."""

    def __init__(self, bar: Progress) -> None:
        self._bar: Final = bar
        self._began: Final = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the session was ready: starting Spark does not count toward a job's rate."""
        return time.monotonic() - self._began

    def __call__(self, progress: "JobProgress") -> None:
        self._bar.show(progress.done, self.elapsed_s, progress.total)


@contextmanager
def connector_errors() -> Iterator[None]:
    """Raise the connector's errors as those of the command line."""
    try:
        yield
    except errors.SparkError as error:
        raise _failure(type(error).__name__, str(error)) from None


@contextmanager
def running_job(label: str, start: Start) -> "Iterator[tuple[SparkSession, _Shown]]":
    """Provide a session and a progress bar, and raise the connector's errors as those of the command line."""
    try:
        with connector_errors():
            with Progress("starting Spark", None):
                session = start()
            with Progress(label, None) as bar:
                yield session, _Shown(bar)
    except click.ClickException:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        found = _OURS.findall(str(error))
        if found:
            raise _failure(*found[-1]) from None
        first = str(error).strip().partition("\n")[0]
        causes = _PYTHONS.findall(str(error)) or (_JAVAS.findall(str(error)) if first.startswith(_CALLED) else [])
        raise Failed((causes or [first])[-1]) from None


# For any other exception in a task, the engine's text is the whole traceback, with this at the end.
_PYTHONS: Final = re.compile(r"^[A-Z]\w*(?:Error|Exception): [^\n]+", re.MULTILINE)
# Errors of the engine itself, such as those of a folder that cannot be written, have a first line that says nothing,
# then the exception and its causes.
_CALLED: Final = "An error occurred while calling"
_JAVAS: Final = re.compile(r"^(?:Caused by)?: (?:[\w$]+\.)*([\w$]+: [^\n]+)", re.MULTILINE)
# The engine passes our exceptions on as text within its own: `artemis_py.spark.errors.Refused: reason`.
_OURS: Final = re.compile(r"artemis_py\.spark\.errors\.(\w+): ([^\n]*)")


def _failure(kind: str, text: str) -> click.ClickException:
    if kind in (errors.InvalidOption.__name__, errors.InvalidOffset.__name__):
        return click.UsageError(text)
    return NotConnected(text) if kind == errors.ConnectionLost.__name__ else Failed(text)


def tell_done(verb: str, count: int, elapsed_s: float, facts: dict[str, Any], json_wanted: bool) -> None:
    if json_wanted:
        print_json({**facts, "seconds": round(elapsed_s, 3)})
    else:
        click.echo(summary(verb, count, elapsed_s), err=True)


def tell_problems(problems: dict[str, str], rejected: int) -> None:
    """Print problems and exit with code 1 if not everything succeeded."""
    lines = [f"{address}: {reason}" if reason else address for address, reason in problems.items()]
    if rejected:
        lines.append(f"the broker rejected {rejected} messages")
    if lines:
        raise Failed("; ".join(lines))


def names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
