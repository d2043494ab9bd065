"""`artemis-py data`: tools for the store of an instance."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import click
from attrs import asdict

from artemis_py.broker import Broker
from artemis_py.cli.errors import Failed, Misconfigured
from artemis_py.cli.instance import configuration_file
from artemis_py.cli.render import Progress, print_json, print_table, say
from artemis_py.config import BrokerConfig, load
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.messages.message import MessageFormat
from artemis_py.deployment.protocols import installed_protocols
from artemis_py.deployment.storage import journal_folder, large_messages_folder
from artemis_py.errors import ConfigError, StoreError
from artemis_py.storetools.check import check as check_store
from artemis_py.storetools.copies import back_up
from artemis_py.storetools.copies import compact as compact_store
from artemis_py.storetools.export import FileFormat, export_folder
from artemis_py.storetools.intake import import_file
from artemis_py.storetools.snapshot import Progress as Watcher
from artemis_py.storetools.statistics import statistics

T = TypeVar("T")

QUEUE_COLUMNS = {
    "name": "QUEUE",
    "address": "ADDRESS",
    "messages": "MESSAGES",
    "scheduled": "SCHEDULED",
    "size_bytes": "BYTES IN MEMORY",
}

SHOWN_EACH_S = 0.1
"""Shortest time between two updates of a progress bar, in seconds."""

instance_argument = click.argument("instance", metavar="DIR", type=click.Path(exists=True, path_type=Path))


format_option = click.option(
    "--format",
    "name",
    type=click.Choice([each.value for each in FileFormat]),
    help="jsonl: everything, byte for byte; xml: as Artemis exports and imports it. Default: by the ending of FILE.",
)


@click.group()
def data() -> None:
    """Look at, check, copy and compact what a broker stores. All but import and compact work while the broker runs."""


@data.command()
@instance_argument
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def stat(instance: Path, as_json: bool) -> None:
    """Count what the store of the instance in DIR holds. Exit code 1 if it is damaged; then what can be read."""
    found = _told(lambda: statistics(*_folders_of(instance)))
    rows = [asdict(queue) for queue in found.queues]
    if as_json:
        print_json({**asdict(found), "queues": rows, "messages": found.messages})
    else:
        hosts = {"host": "VIRTUAL HOST"} if any(row["host"] for row in rows) else {}
        print_table(rows, hosts | QUEUE_COLUMNS)
        click.echo(
            f"{found.messages} messages, {found.shared_messages} of them shared, in {len(rows)} queues and "
            f"{found.addresses} addresses; {found.damaged} damaged values set aside"
        )
        click.echo(f"{found.large_messages} large bodies, {found.large_bytes} bytes in files of their own")
        click.echo(f"{found.file_bytes} bytes on disk, {found.used_bytes} in use; format {found.format}")
        if found.log_file_bytes:
            click.echo(
                f"{found.log_file_bytes} bytes of write-ahead log; {found.log_batches} commits in it, "
                f"{found.log_bytes} bytes, are not counted above"
            )
    if found.problems:
        raise Failed(
            f"the store is damaged: {found.problems[0]} ({len(found.problems)} problems, `data check` names them all); "
            "`data export` saves what can be read, and the next start continues with it"
        )


@data.command()
@instance_argument
def check(instance: Path) -> None:
    """Read every value of the store and report what is wrong; nothing is changed. Exit code 1 if something is."""
    journal, bodies = _folders_of(instance)
    with Progress("checking", None) as bar:
        findings = _told(lambda: check_store(journal, _watcher(bar), bodies))
    for damaged in findings.damaged:
        say(f"set aside earlier: {damaged}")
    if findings.unreferenced_files:
        click.echo(
            f"note: {findings.unreferenced_files} files of large messages, {findings.unreferenced_bytes} bytes, that "
            "no stored message refers to: arriving, not durable, or removed by the next start"
        )
    if findings.log_batches:
        click.echo(
            f"note: {findings.log_batches} commits, {findings.log_bytes} bytes, are in the write-ahead log only; their "
            "checksums are right, what they change is not checked"
        )
    for problem in findings.problems:
        say(str(problem))
    if findings.problems:
        raise Failed(f"{len(findings.problems)} problems in {findings.values} values")
    click.echo(f"ok: {findings.values} values")


@data.command()
@instance_argument
@click.argument("target", metavar="TARGET", type=click.Path(file_okay=False, path_type=Path))
def backup(instance: Path, target: Path) -> None:
    """Copy the store, as it is at one moment, into the empty folder TARGET: the data folder of an instance."""
    journal, bodies = _folders_of(instance)
    with Progress("copying", None) as bar:
        size = _told(lambda: back_up(journal, target, _watcher(bar), bodies))
    click.echo(f"{size} bytes written to {target}")


@data.command()
@instance_argument
def compact(instance: Path) -> None:
    """Give the free space of the store back to the disk. The broker must not run."""
    with Progress("copying", None) as bar:
        before, after = _told(lambda: compact_store(_folders_of(instance)[0], _watcher(bar)))
    click.echo(f"{before} bytes before, {after} after")


@data.command("export")
@instance_argument
@click.argument("target", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@format_option
def export(instance: Path, target: Path, name: str | None) -> None:
    """Write addresses, queues and messages to the new FILE, as they are at one moment.

    Exit code 1 if something had to be left out, because it is damaged or FILE's format cannot hold it; it is named.
    """
    file_format = _file_format(target, name)
    config = _configuration_of(instance)
    with Progress("exporting", None) as bar:
        exported = _told(
            lambda: export_folder(
                journal_folder(config),
                target,
                file_format,
                _formats(config),
                _watcher(bar),
                large_messages_folder(config),
            )
        )
    for line in exported.left_out:
        say(line)
    if exported.left_out:
        raise Failed(f"{len(exported.left_out)} values were left out of {target}")
    click.echo(f"{exported.entries} entries written to {target}")


@data.command("import")
@instance_argument
@click.argument("source", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@format_option
def take_in(instance: Path, source: Path, name: str | None) -> None:
    """Import what `export` or Artemis wrote, after what is already stored. The broker must not run.

    FILE is checked as a whole first. If something interrupts the import, the same command continues from there, and a
    file that was imported is not imported twice. Exit code 1 if something had to be left out; it is named.
    """
    file_format = _file_format(source, name)
    config = _configuration_of(instance)
    with Progress("importing", None) as bar:
        imported = _told(
            lambda: import_file(
                journal_folder(config),
                source,
                file_format,
                _formats(config),
                _watcher(bar),
                large_messages_folder(config),
            )
        )
    for line in imported.left_out:
        say(line)
    if imported.left_out:
        raise Failed(f"{source} was imported, except for what is named above")
    if imported.resumed_at == imported.entries:
        click.echo(f"{source} was imported before; nothing was changed")
    elif imported.resumed_at:
        click.echo(f"{imported.entries} entries, {imported.resumed_at} of them by an earlier run")
    else:
        click.echo(f"{imported.entries} entries imported")


def _file_format(file: Path, name: str | None) -> FileFormat:
    name = file.suffix.removeprefix(".") if name is None else name
    if name not in [each.value for each in FileFormat]:
        raise click.UsageError(f"{file} ends neither in .jsonl nor in .xml: give its --format")
    return FileFormat(name)


def _formats(config: BrokerConfig) -> Mapping[str, MessageFormat]:
    """Return the message formats of the installed protocols, by name."""
    host = Broker(config).host
    managers = [factory(host) for factory in installed_protocols()]
    return {PLAIN_FORMAT.name: PLAIN_FORMAT} | {each.name: each for one in managers for each in one.formats}


def _watcher(bar: Progress) -> Watcher:
    """Return a function that shows progress; a total of 0 means that it is not known yet."""
    started = shown = time.monotonic()

    def watch(done: int, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= SHOWN_EACH_S:
            shown = now
            bar.show(done, now - started, total or None)

    return watch


def _configuration_of(instance: Path) -> BrokerConfig:
    try:
        return load(configuration_file(instance))
    except ConfigError as error:
        raise Misconfigured(error) from None


def _folders_of(instance: Path) -> tuple[Path, Path]:
    """Return the folders of the journal and of large messages."""
    config = _configuration_of(instance)
    return journal_folder(config), large_messages_folder(config)


def _told(action: Callable[[], T]) -> T:
    try:
        return action()
    except StoreError as error:
        raise Failed(str(error)) from None
