"""The command `artemis-py`: one module per command, loaded when it is called.

Exit codes: 0 done, 1 the broker refused or failed, 2 wrong usage or configuration, 3 no connection.
"""

import gc
import importlib
import io
import os
import sys
from collections.abc import Mapping
from typing import Final

import click

# Command -> its text in `--help`. The module has the same name, and so has the command in it; importing
# all of them for a help text would cost a quarter of a second.
COMMANDS: Final[Mapping[str, str]] = {
    "create": "Make an instance folder with its own configuration and data.",
    "run": "Start a broker.",
    "check": "Validate a configuration without starting anything.",
    "migrate": "Make an instance from a configuration of ActiveMQ, Artemis or mosquitto.",
    "producer": "Send messages.",
    "consumer": "Receive messages; list consumers.",
    "browse": "Show the messages of a queue and leave them there.",
    "message": "List, move, copy, retry, expire and remove messages.",
    "address": "Create, update, delete and show addresses.",
    "queue": "Create, update, delete, list, show, purge, pause and resume queues.",
    "connection": "List and close the connections of clients.",
    "mesh": "Show the brokers of a mesh and why messages wait, and take brokers out of it.",
    "divert": "Create, update, delete, list and show diverts.",
    "exchange": "Create, delete, bind, unbind, list and show exchanges.",
    "vhost": "Create, update, start, stop, delete, list and show virtual hosts.",
    "transaction": "List prepared transactions, and commit or roll them back.",
    "data": "Look at, check, copy and compact what a broker stores.",
    "spark": "Archive, replay, dead letters and telemetry with Apache Spark.",
    "user": "Add, remove and list users, set and hash passwords.",
    "token": "Make, list and revoke tokens for programs that ask over HTTP.",
    "perf": "Measure a broker under load.",
    "completion": "Print a completion script for a shell.",
    "version": "Print the version.",
}

MODULES: Final[Mapping[str, str]] = {"connection": "connection_list"}
"""Modules of commands whose names are taken by other modules."""


IMPORT_THRESHOLDS: Final = (20_000, 10, 100)
"""What a run of the garbage collector waits for, by generation."""


class CommandTable(click.Group):
    """A group whose commands are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        # Modules are no garbage: as often as Python does, the collector would visit them for a tenth of the time.
        gc.set_threshold(*IMPORT_THRESHOLDS)
        module = importlib.import_module(f"artemis_py.cli.{MODULES.get(cmd_name, cmd_name)}")
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; what goes wrong is told in words, whatever it is."""
        for stream in (sys.stdout, sys.stderr):
            # Not every terminal can show every character of a message.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise
        except OSError as error:
            what = f"{error.filename}: " if error.filename else ""
            raise click.ClickException(f"{what}{error.strerror or error}") from None
        except Exception as error:
            if os.environ.get("ARTEMIS_PY_TRACEBACK"):
                raise
            text = f"unexpected {type(error).__name__}: {error}; this is a mistake of artemis-py, please report it. "
            raise click.ClickException(f"{text}ARTEMIS_PY_TRACEBACK=1 shows where it happened") from None

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
