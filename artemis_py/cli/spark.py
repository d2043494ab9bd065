"""`artemis-py spark`: the jobs of `artemis_py.spark.jobs` on a session of Spark.

PySpark is imported when a job starts, so that help works without it, and the lack of it, or of Java, is one clear line.
"""

import functools
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from attrs import asdict

from artemis_py.cli.client import Target, target_options
from artemis_py.cli.errors import Failed, NotConnected
from artemis_py.cli.render import Progress, print_json, print_table, summary
from artemis_py.spark import errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from artemis_py.spark.jobs.running import Progress as JobProgress

as_json = click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")
every = click.option("--every", type=float, metavar="SECONDS", help="Go on, a batch every so often, until Ctrl-C.")
checkpoint_option = click.option("--checkpoint", help="Folder of the checkpoint [default: _checkpoint in --out].")
rate_option = click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Messages a second at most.")

SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A failure is told once, by the command: not with the stacks of all that it went through.
    "spark.log.level": "FATAL",
    "spark.sql.session.timeZone": "UTC",
    # The engine's 200 are for a cluster: on one machine most of the time would go into starting empty tasks.
    "spark.sql.shuffle.partitions": "8",
}
"""Of the session; `--conf` changes them."""

GROUP_COLUMNS: Final = {
    "id": "GROUP",
    "count": "COUNT",
    "origin": "ORIGIN",
    "cause": "CAUSE",
    "shape": "BODY",
    "redrives": "SENT BACK",
    "last": "LAST",
}


def session_options(command: Callable[..., object]) -> Callable[..., object]:
    """The options of the broker and of the session; the command gets `spark`, started when it calls it."""

    @functools.wraps(command)
    def with_session(master: str | None, conf: tuple[str, ...], **arguments: Any) -> object:
        return command(start=lambda: _session(master, conf), **arguments)

    wrapped: Callable[..., object] = target_options(with_session)
    for option in (
        click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Setting of the session; repeatable."),
        click.option("--master", help="Where Spark runs [default: local[*], or that of spark-submit]."),
    ):
        wrapped = option(wrapped)
    return wrapped


Start = Callable[[], "SparkSession"]


@click.group()
def spark() -> None:
    """Archive, replay, dead letters and telemetry with Apache Spark (pip install 'artemis_py[spark]', Java 17)."""


@spark.command()
@session_options
@click.option("--address", help="Addresses, separated by commas; with --subscription.")
@click.option("--subscription", help="Name under which the broker keeps messages for this archive.")
@click.option("--queue", help="Queues instead; their messages stay where they are.")
@click.option("--selector", help="Only messages that it accepts.")
@click.option("--out", required=True, help="Folder of the archive.")
@checkpoint_option
@click.option("--partition-by", default="date,address", show_default=True, help="Of date, address, queue; or empty.")
@click.option("--columns", default="", help="Columns beside those a replay needs [default: all].")
@click.option("--max-messages", type=click.IntRange(min=1), help="Of one batch.")
@every
@as_json
def archive(
    target: Target,
    start: Start,
    address: str | None,
    subscription: str | None,
    queue: str | None,
    selector: str | None,
    out: str,
    checkpoint: str | None,
    partition_by: str,
    columns: str,
    max_messages: int | None,
    every: float | None,
    json_wanted: bool,
) -> None:
    """Append new messages to Parquet files, each once."""
    source = _source(target, address, subscription, queue, selector, max_messages)
    with _job("archived", start) as (session, progress):
        from artemis_py.spark.jobs import archive as job

        options = job.ArchiveOptions(
            path=out, checkpoint=checkpoint, partition_by=_names(partition_by), interval_s=every
        )
        if columns:
            options = job.ArchiveOptions(**{**asdict(options), "columns": _names(columns)})
        done = job.archive(session, source, options, progress)
    _done("archived", done.messages, progress.elapsed_s, {**asdict(done), "path": out}, json_wanted)


@spark.command()
@session_options
@click.option("--in", "path", required=True, help="Folder of the archive.")
@click.option("--where", help="SQL condition on the columns, such as \"address = 'orders' AND date >= '2027-01-01'\".")
@click.option("--to", help="An address for all [default: each where it came from].")
@click.option("--times", type=click.Choice(("original", "new")), default="original", show_default=True)
@rate_option
@click.option("--job-id", required=True, help="Name of the replay: under the same name nothing is sent twice.")
@click.option("--dry-run", is_flag=True, help="Count by address and day, and send nothing.")
@as_json
def replay(
    target: Target,
    start: Start,
    path: str,
    where: str | None,
    to: str | None,
    times: str,
    rate: float | None,
    job_id: str,
    dry_run: bool,
    json_wanted: bool,
) -> None:
    """Send archived messages again, as they were."""
    with _job("replayed", start) as (session, progress):
        from artemis_py.spark.jobs import replay as job
        from artemis_py.spark.options import write_options

        options = job.ReplayOptions(path=path, job=job_id, where=where, to=to, new_times=times == "new", rate=rate)
        if dry_run:
            rows = [
                {"address": name, "date": day, "count": count} for name, day, count in job.preview(session, options)
            ]
        else:
            done = job.replay(session, write_options(_connection(target)), options)
    if dry_run:
        print_json(rows) if json_wanted else print_table(rows, {"address": "ADDRESS", "date": "DATE", "count": "COUNT"})
        return
    _done("replayed", done.sent, progress.elapsed_s, asdict(done), json_wanted)
    if done.was_done_before:
        click.echo(f"a replay named {job_id} was done before: nothing was added", err=True)
    _tell(dict.fromkeys(done.problems, ""), done.rejected)


@spark.group()
def dlq() -> None:
    """Dead letters: what they are, and back to where they came from."""


@dlq.command()
@session_options
@click.option("--queue", default="DLQ", show_default=True, help="Dead-letter queues, separated by commas.")
@click.option("--where", help="SQL condition on columns and facts.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="HTML file to write.")
@click.option("--groups", "limit", type=click.IntRange(min=1), default=200, show_default=True, help="Largest ones.")
@as_json
def report(
    target: Target, start: Start, queue: str, where: str | None, out: Path | None, limit: int, json_wanted: bool
) -> None:
    """Group dead letters by origin, cause and fingerprint; they stay where they are."""
    with _job("grouped", start) as (session, _):
        from artemis_py.spark.jobs import dead_letter_report, dead_letters

        frame = dead_letters.dead_letters(session, {**_connection(target), "queue": queue})
        found = dead_letters.groups(frame if where is None else frame.where(where), limit)
    rows = [{**asdict(group), "origin": dead_letter_report.origin(group)} for group in found]
    if out is not None:
        out.write_text(dead_letter_report.render(_names(queue), found, datetime.now(UTC)), encoding="utf-8")
    if json_wanted:
        print_json([{**row, "first": _iso(row["first"]), "last": _iso(row["last"])} for row in rows])
    else:
        print_table([{**row, "last": _iso(row["last"])} for row in rows], GROUP_COLUMNS)
        click.echo(f"{sum(group.count for group in found)} dead letters in {len(found)} groups", err=True)


@dlq.command()
@session_options
@click.option("--queue", default="DLQ", show_default=True, help="Dead-letter queues, separated by commas.")
@click.option("--group", "groups", multiple=True, help="Id of a group in a report; repeatable.")
@click.option("--where", help="SQL condition, such as \"cause = 'expired' AND origin_address = 'orders'\".")
@click.option("--all", "all_wanted", is_flag=True, help="All of them; instead of --group or --where.")
@click.option("--to", help="An address for all [default: the queue each died in].")
@click.option(
    "--limit", type=click.IntRange(min=1), default=3, show_default=True, help="Sent back so often, a message stays."
)
@rate_option
@click.option("--dry-run", is_flag=True, help="Count, and send nothing.")
@as_json
def redrive(
    target: Target,
    start: Start,
    queue: str,
    groups: tuple[str, ...],
    where: str | None,
    all_wanted: bool,
    to: str | None,
    limit: int,
    rate: float | None,
    dry_run: bool,
    json_wanted: bool,
) -> None:
    """Send dead letters back to where they came from; each goes from the queue when its copy was accepted."""
    if all_wanted == bool(groups or where):
        raise click.UsageError("say which: --group or --where; or --all")
    with _job("redriven", start) as (session, progress):
        from artemis_py.spark.jobs import redrive as job
        from artemis_py.spark.options import write_options

        options = job.RedriveOptions(
            where=where, groups=groups, to=to, max_redrives=limit, rate=rate, is_rehearsal=dry_run
        )
        connection = _connection(target)
        done = job.redrive(session, {**connection, "queue": queue}, write_options(connection), options, progress)
    _done("redriven", done.sent, progress.elapsed_s, asdict(done), json_wanted)
    if not json_wanted:
        click.echo(
            f"selected {done.selected}, removed {done.removed}; stayed: {done.looping} sent back {limit} times, "
            f"{done.homeless} without an origin",
            err=True,
        )
    _tell(done.problems, done.rejected)


@spark.command()
@session_options
@click.option("--address", required=True, help="Addresses, separated by commas.")
@click.option("--subscription", required=True, help="Name under which the broker keeps messages for this job.")
@click.option("--selector", help="Only messages that it accepts.")
@click.option("--device", default="address", show_default=True, help="$.path, property:NAME, address or address:N.")
@click.option("--value", default="$.value", show_default=True, help="Path of the number in the body.")
@click.option("--time", "time_path", help="Path of the moment in the body [default: when the message came].")
@click.option("--window", default="1 minute", show_default=True)
@click.option("--slide", help="[default: the window]")
@click.option("--watermark", default="2 minutes", show_default=True, help="How late a measurement may be.")
@click.option("--alert", "rules", multiple=True, help="NAME=CONDITION on count, min, max, avg, device; repeatable.")
@click.option("--alert-to", help="Address of alerts.")
@click.option("--out", required=True, help="Folder of the windows.")
@checkpoint_option
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="HTML file to write at the end.")
@every
@as_json
def telemetry(
    target: Target,
    start: Start,
    address: str,
    subscription: str,
    selector: str | None,
    device: str,
    value: str,
    time_path: str | None,
    window: str,
    slide: str | None,
    watermark: str,
    rules: tuple[str, ...],
    alert_to: str | None,
    out: str,
    checkpoint: str | None,
    report: Path | None,
    every: float | None,
    json_wanted: bool,
) -> None:
    """Aggregate measurements in windows, to Parquet files and, as alerts, to an address."""
    source = _source(target, address, subscription, None, selector, None)
    with _job("aggregated", start) as (session, progress):
        from artemis_py.spark.jobs import telemetry as job
        from artemis_py.spark.jobs import telemetry_report

        options = job.TelemetryOptions(
            path=out,
            checkpoint=checkpoint,
            device=device,
            value=value,
            time=time_path,
            window=window,
            slide=slide,
            watermark=watermark,
            alerts=job.rules(rules),
            alert_address=alert_to,
            interval_s=every,
        )
        done = job.telemetry(session, source, _connection(target), options, progress)
        if report is not None:
            found = telemetry_report.overview(job.read_windows(session, out), options.alerts)
            text = telemetry_report.render(f"Telemetry of {address}", found, datetime.now(UTC))
            report.write_text(text, encoding="utf-8")
    _done("aggregated", done.messages, progress.elapsed_s, {**asdict(done), "path": out}, json_wanted)


# --- what the commands share ---


def _session(master: str | None, conf: tuple[str, ...]) -> "SparkSession":
    settings = dict(SETTINGS)
    for item in conf:
        key, separator, value = item.partition("=")
        if not separator:
            raise click.UsageError(f"--conf {item}: use KEY=VALUE")
        settings[key] = value
    if master is not None:
        settings["spark.master"] = master
    # Workers beside the driver would take the first python3 on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from artemis_py.spark.session import session

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    return session("artemis-py", settings)


def _connection(target: Target) -> dict[str, str]:
    """The connector's options for the broker and the login."""
    given = {"url": target.url, "user": target.user, "password": target.password, "tls.ca": target.ca}
    return {name: value for name, value in given.items() if value is not None}


def _source(
    target: Target,
    address: str | None,
    subscription: str | None,
    queue: str | None,
    selector: str | None,
    max_messages: int | None,
) -> dict[str, str]:
    if (queue is None) == (address is None) or (address is None) != (subscription is None):
        raise click.UsageError("say what to read: --address with --subscription, or --queue")
    given = {
        "mode": "browse" if address is None else "subscription",
        "address": address,
        "subscription": subscription,
        "queue": queue,
        "selector": selector,
        "maxMessagesPerTrigger": None if max_messages is None else str(max_messages),
    }
    return _connection(target) | {name: value for name, value in given.items() if value is not None}


class _Shown:
    """Progress of a job on the terminal."""

    def __init__(self, bar: Progress) -> None:
        self._bar: Final = bar
        self._began: Final = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the session was there: starting Spark is no part of a job's rate."""
        return time.monotonic() - self._began

    def __call__(self, progress: "JobProgress") -> None:
        self._bar.show(progress.done, self.elapsed_s, progress.total)


@contextmanager
def _job(label: str, start: Start) -> "Iterator[tuple[SparkSession, _Shown]]":
    """A session and a progress bar, and the connector's errors as those of the command line."""
    try:
        session = start()
        with Progress(label, None) as bar:
            yield session, _Shown(bar)
    except errors.SparkError as error:
        raise _failure(type(error).__name__, str(error)) from None
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        found = _OURS.findall(str(error))
        if found:
            raise _failure(*found[-1]) from None
        raise Failed((_PYTHONS.findall(str(error)) or [str(error).strip().partition("\n")[0]])[-1]) from None


# Of any other exception in a task it has the whole traceback, with this at the end.
_PYTHONS: Final = re.compile(r"^[A-Z]\w*(?:Error|Exception): [^\n]+", re.MULTILINE)
# The engine hands our exceptions on as text within its own: `artemis_py.spark.errors.Refused: reason`.
_OURS: Final = re.compile(r"artemis_py\.spark\.errors\.(\w+): ([^\n]*)")


def _failure(kind: str, text: str) -> click.ClickException:
    if kind in (errors.InvalidOption.__name__, errors.InvalidOffset.__name__):
        return click.UsageError(text)
    return NotConnected(text) if kind == errors.ConnectionLost.__name__ else Failed(text)


def _done(verb: str, count: int, elapsed_s: float, facts: dict[str, Any], json_wanted: bool) -> None:
    if json_wanted:
        print_json({**facts, "seconds": round(elapsed_s, 3)})
    else:
        click.echo(summary(verb, count, elapsed_s), err=True)


def _tell(problems: dict[str, str], rejected: int) -> None:
    """Exit code 1 if not everything went."""
    lines = [f"{address}: {reason}" if reason else address for address, reason in problems.items()]
    if rejected:
        lines.append(f"the broker rejected {rejected} messages")
    if lines:
        raise Failed("; ".join(lines))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(sep=" ", timespec="seconds")
