"""The command `artemis-py`: one module per command, loaded when it is called.

Exit codes: 0 done, 1 the broker refused or failed, 2 wrong usage or configuration, 3 no connection.
"""

import importlib
from collections.abc import Mapping
from typing import Final

import click

# Command -> its text in `--help`. The module has the same name, and so has the command in it; importing
# all of them for a help text would cost a quarter of a second.
COMMANDS: Final[Mapping[str, str]] = {
    "create": "Make an instance folder with its own configuration and data.",
    "run": "Start a broker.",
    "check": "Validate a configuration without starting anything.",
    "producer": "Send messages.",
    "consumer": "Receive messages.",
    "browse": "Show the messages of a queue and leave them there.",
    "address": "Create, update, delete and show addresses.",
    "queue": "Create, update, delete, list, purge, pause and resume queues.",
    "divert": "Create, update, delete, list and show diverts.",
    "transaction": "List prepared transactions, and commit or roll them back.",
    "data": "Look at, check, copy and compact what a broker stores.",
    "spark": "Archive, replay, dead letters and telemetry with Apache Spark.",
    "user": "Hash a password for the users file.",
    "perf": "Measure a broker under load.",
    "completion": "Print a completion script for a shell.",
    "version": "Print the version.",
}


class CommandTable(click.Group):
    """A group whose commands are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"artemis_py.cli.{cmd_name}")
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _tell_version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from artemis_py.cli.version import told

        click.echo(told())
        context.exit()


@click.command(cls=CommandTable, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_tell_version, help="Print the version."
)
def main() -> None:
    """A message broker, and the tools to use and administer it.

    "artemis-py run" starts a broker on this machine; every command explains itself with --help.
    """
