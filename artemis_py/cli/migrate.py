"""`artemis-py migrate`: turn the configuration of another broker into an instance, and say what became of each line."""

from pathlib import Path

import click

from artemis_py.cli.check import examine
from artemis_py.cli.errors import Misconfigured
from artemis_py.config.reader import FILE_NAME, shipped_folder
from artemis_py.config.schema import SCHEMA_FILES
from artemis_py.errors import ConfigError
from artemis_py.logs import clean
from artemis_py.migrate.findings import Findings, Outcome
from artemis_py.migrate.sources import find
from artemis_py.migrate.sources_options import VIRTUAL_HOST
from artemis_py.migrate.writing import REPORT_FILE, settle, write

_LONGEST_LINE = 1000


def parse_definitions(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return the values of `-D NAME=VALUE`."""
    found = {}
    for text in values:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"{name!r} has no value; write NAME=VALUE")
        found[name] = value
    return found


def _check(file: Path) -> None:
    """Raise ConfigError if a broker would refuse what was made."""
    problems = examine(file).problems
    if problems:
        raise ConfigError(problems)


# Long because of its options.
@click.command()
@click.argument("place", metavar="FILE|DIR", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--to",
    "folder",
    metavar="DIR",
    default="migrated",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the new instance.",
)
@click.option("-D", "values", multiple=True, metavar="NAME=VALUE", callback=parse_definitions, help="Value of ${NAME}.")
@click.option("--virtual-host", "host", metavar="NAME", help="Which one to migrate, if there are several.")
@click.option("--force", is_flag=True, help="Replace the configuration of an existing instance; its data stays.")
@click.option("--quiet", is_flag=True, help="Print only what was dropped.")
@click.pass_context
def migrate(
    context: click.Context,
    place: Path,
    folder: Path,
    values: dict[str, str],
    host: str | None,
    force: bool,
    quiet: bool,
) -> None:
    """Make an instance from the configuration of another broker.

    It may be ActiveMQ Classic, Artemis, mosquitto, or Qpid Broker-J; from RabbitMQ it takes a file that
    `rabbitmqctl export_definitions` wrote.

    Prints what became of each line as "file:line: element: outcome: reason", and writes the same to
    etc/migration-report.txt. Exit code 0: nothing that has a meaning was dropped; 1: something was; 2: nothing was
    written.
    """
    if (folder / "etc" / FILE_NAME).exists() and not force:
        raise click.UsageError(f"{folder} already holds an instance; --force replaces its configuration")
    findings = Findings()
    try:
        source, file = find(place)
        if host is not None:
            values[VIRTUAL_HOST] = host
        target = source.read(file, values, findings)
        settle(target, findings, _check)
    except ConfigError as error:
        raise Misconfigured(error) from None
    schemas = {name: (shipped_folder() / name).read_bytes() for name in SCHEMA_FILES}
    try:
        write(folder, target, findings, schemas)
    except OSError as error:
        raise click.UsageError(f"{error.filename or folder}: {error.strerror}") from None
    for finding in findings.in_order():
        if not quiet or finding.outcome is Outcome.DROPPED:
            click.echo(clean(str(finding), limit=_LONGEST_LINE))
    counts = ", ".join(f"{findings.count(outcome)} {outcome.value}" for outcome in Outcome)
    click.echo(f"{source.name}: {counts}", err=True)
    click.echo(f"written: {folder / 'etc' / FILE_NAME}, {REPORT_FILE} beside it", err=True)
    click.echo(f"start it with: artemis-py run {folder}", err=True)
    if findings.count(Outcome.DROPPED):
        context.exit(1)
