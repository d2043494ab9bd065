"""`artemis-py data`: the store of an instance, seen from outside."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
from attrs import asdict

from artemis_py.broker import journal_folder
from artemis_py.cli.errors import Failed, Misconfigured
from artemis_py.cli.instance import configuration_file
from artemis_py.cli.render import print_json, print_table
from artemis_py.config import load
from artemis_py.errors import ConfigError, StoreError
from artemis_py.store import inspection

T = TypeVar("T")

QUEUE_COLUMNS = {
    "name": "QUEUE",
    "address": "ADDRESS",
    "messages": "MESSAGES",
    "scheduled": "SCHEDULED",
}

instance_argument = click.argument("instance", metavar="DIR", type=click.Path(exists=True, path_type=Path))


@click.group()
def data() -> None:
    """What a broker stores, seen from outside. All but compact work while the broker runs."""


@data.command()
@instance_argument
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def stat(instance: Path, as_json: bool) -> None:
    """Count what the store of the instance in DIR holds."""
    found = _told(lambda: inspection.statistics(_journal_of(instance)))
    rows = [asdict(queue) for queue in found.queues]
    if as_json:
        print_json({**asdict(found), "queues": rows, "messages": found.messages})
        return
    print_table(rows, QUEUE_COLUMNS)
    click.echo(
        f"{found.messages} messages, {found.shared_messages} of them shared, in {len(rows)} queues and "
        f"{found.addresses} addresses; {found.damaged} damaged values set aside"
    )
    click.echo(f"{found.file_bytes} bytes on disk, {found.used_bytes} in use; format {found.format}")


@data.command()
@instance_argument
def check(instance: Path) -> None:
    """Read every value of the store and tell what is wrong; nothing is changed. Exit code 1 if something is."""
    findings = _told(lambda: inspection.check(_journal_of(instance)))
    for damaged in findings.damaged:
        click.echo(f"set aside earlier: {damaged}")
    for problem in findings.problems:
        click.echo(problem)
    if findings.problems:
        raise Failed(f"{len(findings.problems)} problems in {findings.values} values")
    click.echo(f"ok: {findings.values} values")


@data.command()
@instance_argument
@click.argument("target", metavar="TARGET", type=click.Path(file_okay=False, path_type=Path))
def backup(instance: Path, target: Path) -> None:
    """Copy the store, as it is at one moment, into the empty folder TARGET: a journal-directory to start from."""
    size = _told(lambda: inspection.back_up(_journal_of(instance), target))
    click.echo(f"{size} bytes written to {target}")


@data.command()
@instance_argument
def compact(instance: Path) -> None:
    """Give the free space of the store back to the disk. The broker must not run."""
    before, after = _told(lambda: inspection.compact(_journal_of(instance)))
    click.echo(f"{before} bytes before, {after} after")


def _journal_of(instance: Path) -> Path:
    try:
        return journal_folder(load(configuration_file(instance)))
    except ConfigError as error:
        raise Misconfigured(error) from None


def _told(action: Callable[[], T]) -> T:
    try:
        return action()
    except StoreError as error:
        raise Failed(str(error)) from None
