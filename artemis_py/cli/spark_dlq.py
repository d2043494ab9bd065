"""`artemis-py spark dlq`: analyse dead letters, return them to where they came from, export and remove them."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from attrs import asdict

from artemis_py.cli.client import Target
from artemis_py.cli.render import print_json, print_table
from artemis_py.cli.spark_job import (
    PAGE,
    Start,
    as_json,
    connection_options,
    in_a_folder,
    names,
    rate_option,
    running_job,
    session_options,
    tell_done,
    tell_problems,
)

if TYPE_CHECKING:
    from artemis_py.spark.jobs.dead_letters import Group

GROUP_COLUMNS: Final = {
    "id": "GROUP",
    "count": "COUNT",
    "origin": "ORIGIN",
    "cause": "CAUSE",
    "attempts": "ATTEMPTS",
    "shape": "BODY",
    "redrives": "SENT BACK",
    "last": "LAST",
}


@click.group()
def dlq() -> None:
    """Report dead letters, send them back to where they came from, export and remove them."""


@dlq.command()
@session_options
@click.option("--queue", default="DLQ", show_default=True, help="Dead-letter queues, separated by commas.")
@click.option("--where", help="SQL condition on columns and facts.")
@click.option("--out", type=PAGE, callback=in_a_folder, help="HTML file to write.")
@click.option(
    "--groups",
    "limit",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="Number of groups, largest first.",
)
@as_json
def report(
    target: Target, start: Start, queue: str, where: str | None, out: Path | None, limit: int, json_wanted: bool
) -> None:
    """Group dead letters by origin, cause and fingerprint; they stay where they are."""
    with running_job("grouped", start) as (session, _):
        from artemis_py.spark.jobs import dead_letter_report, dead_letters

        frame = dead_letters.dead_letters(session, {**connection_options(target), "queue": queue})
        # One more, to see whether there are more.
        found = dead_letters.groups(frame if where is None else frame.where(where), limit + 1)
    has_more = len(found) > limit
    del found[limit:]
    rows = [{**asdict(group), "origin": dead_letter_report.origin(group)} for group in found]
    if out is not None:
        text = dead_letter_report.render(names(queue), found, datetime.now(UTC), has_more)
        out.write_text(text, encoding="utf-8")
    if json_wanted:
        print_json([{**row, **_times(group)} for row, group in zip(rows, found, strict=True)])
    else:
        print_table([{**row, "last": _shown(row["last"])} for row in rows], GROUP_COLUMNS)
        which = f"the {limit} largest" if has_more else str(len(found))
        click.echo(f"{sum(group.count for group in found)} dead letters in {which} groups", err=True)
    if has_more:
        click.echo("there are more groups: give --groups a larger number", err=True)


def selection_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the options that select dead letters."""
    for option in (
        click.option("--all", "all_wanted", is_flag=True, help="All dead letters; instead of --group or --where."),
        click.option("--where", help="SQL condition, such as \"cause = 'expired' AND origin_address = 'orders'\"."),
        click.option("--group", "groups", multiple=True, help="Id of a group in a report; repeatable."),
        click.option("--queue", default="DLQ", show_default=True, help="Dead-letter queues, separated by commas."),
    ):
        command = option(command)
    return command


@dlq.command()
@session_options
@selection_options
@click.option("--to", help="Send all to this address [default: each to the queue it came from].")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="A message that was sent back this often stays.",
)
@click.option(
    "--max-messages", type=click.IntRange(min=1), help="Send at most this many, the oldest first [default: all]."
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
    max_messages: int | None,
    rate: float | None,
    dry_run: bool,
    json_wanted: bool,
) -> None:
    """Send dead letters back to where they came from; each leaves the queue once its copy is accepted."""
    _check_selection(groups, where, all_wanted)
    with running_job("redriven", start) as (session, progress):
        from artemis_py.spark.jobs import redrive as job
        from artemis_py.spark.options import write_options

        options = job.RedriveOptions(
            where=where,
            groups=groups,
            to=to,
            max_redrives=limit,
            max_messages=max_messages,
            rate=rate,
            is_rehearsal=dry_run,
        )
        connection = connection_options(target)
        done = job.redrive(session, {**connection, "queue": queue}, write_options(connection), options, progress)
    tell_done("redriven", done.sent, progress.elapsed_s, asdict(done), json_wanted)
    if not json_wanted:
        click.echo(
            f"selected {done.selected}, removed {done.removed}; stayed: {done.looping} sent back {limit} times, "
            f"{done.homeless} without an origin",
            err=True,
        )
    tell_problems(done.problems, done.rejected)


@dlq.command()
@session_options
@selection_options
@click.option("--out", required=True, help="Folder of Parquet files, to which they are appended.")
@as_json
def export(
    target: Target,
    start: Start,
    queue: str,
    groups: tuple[str, ...],
    where: str | None,
    all_wanted: bool,
    out: str,
    json_wanted: bool,
) -> None:
    """Write dead letters to files that `spark replay` can send again; they stay where they are."""
    _check_selection(groups, where, all_wanted)
    _clear(target, start, queue, {"where": where, "groups": groups, "path": out}, json_wanted)


@dlq.command()
@session_options
@selection_options
@click.option("--export", "out", help="Folder of Parquet files, to which they are appended before they are removed.")
@click.option("--dry-run", is_flag=True, help="Count, and remove nothing.")
@as_json
def purge(
    target: Target,
    start: Start,
    queue: str,
    groups: tuple[str, ...],
    where: str | None,
    all_wanted: bool,
    out: str | None,
    dry_run: bool,
    json_wanted: bool,
) -> None:
    """Remove dead letters for good."""
    _check_selection(groups, where, all_wanted)
    if dry_run and out is not None:
        raise click.UsageError("--dry-run writes nothing: leave out --export")
    chosen = {"where": where, "groups": groups, "path": out, "removes": not dry_run}
    _clear(target, start, queue, chosen, json_wanted)


def _clear(target: Target, start: Start, queue: str, chosen: dict[str, Any], json_wanted: bool) -> None:
    label = "purged" if chosen.get("removes") else "exported" if chosen["path"] is not None else "selected"
    with running_job(label, start) as (session, progress):
        from artemis_py.spark.jobs import clearing as job

        source = {**connection_options(target), "queue": queue}
        done = job.clear(session, source, job.ClearingOptions(**chosen), progress)
    number = {"purged": done.removed, "exported": done.exported, "selected": done.selected}[label]
    tell_done(label, number, progress.elapsed_s, asdict(done), json_wanted)
    if not done.selected:
        click.echo("no dead letter matches", err=True)
    if done.removed < done.selected and label == "purged":
        click.echo(f"{done.selected - done.removed} dead letters were taken by others in the meantime", err=True)


def _check_selection(groups: tuple[str, ...], where: str | None, all_wanted: bool) -> None:
    if all_wanted == bool(groups or where):
        raise click.UsageError("give --group, --where or --all")


def _times(group: "Group") -> dict[str, object]:
    """Return the times of a group as JSON has them."""
    hours = [{"hour": _iso(hour), "count": count} for hour, count in group.hours]
    return {"first": _iso(group.first), "last": _iso(group.last), "hours": hours}


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(sep=" ", timespec="seconds")


def _shown(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%d %H:%M}"
