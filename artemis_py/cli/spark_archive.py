"""`artemis-py spark archive` and `replay`: write messages to files, and send them again."""

import click
from attrs import asdict

from artemis_py.cli.client import Target
from artemis_py.cli.render import print_json, print_table
from artemis_py.cli.spark_job import (
    Start,
    as_json,
    checkpoint_option,
    connection_options,
    every,
    names,
    rate_option,
    running_job,
    session_options,
    source_options,
    tell_done,
    tell_problems,
)


@click.command()
@session_options
@click.option("--address", help="Addresses, separated by commas; with --subscription.")
@click.option("--subscription", help="Name under which the broker keeps messages for this archive.")
@click.option("--queue", help="Queues to read instead; their messages stay in them.")
@click.option("--selector", help="Only messages that match.")
@click.option("--out", required=True, help="Folder of the archive.")
@checkpoint_option
@click.option(
    "--partition-by", default="date,address", show_default=True, help="Any of date, address and queue; or empty."
)
@click.option("--columns", default="", help="Columns to keep besides those that a replay needs [default: all].")
@click.option("--max-messages", type=click.IntRange(min=1), help="Largest number of messages in one batch.")
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
    source = source_options(target, address, subscription, queue, selector, max_messages)
    with running_job("archived", start) as (session, progress):
        from artemis_py.spark.jobs import archive as job

        options = job.ArchiveOptions(
            path=out, checkpoint=checkpoint, partition_by=names(partition_by), interval_s=every
        )
        if columns:
            options = job.ArchiveOptions(**{**asdict(options), "columns": names(columns)})
        done = job.archive(session, source, options, progress)
    tell_done("archived", done.messages, progress.elapsed_s, {**asdict(done), "path": out}, json_wanted)


@click.command()
@session_options
@click.option("--in", "path", required=True, help="Folder of the archive.")
@click.option("--where", help="SQL condition on the columns, such as \"address = 'orders' AND date >= '2027-01-01'\".")
@click.option("--to", help="Send all to this address [default: each to its own].")
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
    with running_job("replayed", start) as (session, progress):
        from artemis_py.spark.jobs import replay as job
        from artemis_py.spark.options import write_options

        options = job.ReplayOptions(path=path, job=job_id, where=where, to=to, new_times=times == "new", rate=rate)
        if dry_run:
            rows = [
                {"address": name, "date": day, "count": count} for name, day, count in job.preview(session, options)
            ]
        else:
            done = job.replay(session, write_options(connection_options(target)), options)
    if dry_run:
        print_json(rows) if json_wanted else print_table(rows, {"address": "ADDRESS", "date": "DATE", "count": "COUNT"})
        return
    tell_done("replayed", done.sent, progress.elapsed_s, asdict(done), json_wanted)
    if done.was_done_before:
        click.echo(f"a replay named {job_id} was done before: nothing was added", err=True)
    tell_problems(dict.fromkeys(done.problems, ""), done.rejected)
