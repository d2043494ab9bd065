"""Failures of a command: each kind has its exit code, and a text without a traceback."""

import click

from artemis_py.errors import ConfigError
from artemis_py.logs import clean


class _Told(click.ClickException):
    """An error whose text may contain names chosen by clients."""

    def format_message(self) -> str:
        return "\n".join(clean(line, limit=len(line)) for line in self.message.split("\n"))


class Failed(_Told):
    """The broker refused a request or could not perform it."""

    exit_code = 1


class NotConnected(_Told):
    """There is no broker at the given URL, or the connection to it broke."""

    exit_code = 3


class Misconfigured(click.ClickException):
    """A configuration that no broker can start with; each problem has its own line."""

    exit_code = 2

    def __init__(self, error: ConfigError) -> None:
        super().__init__(str(error))
        self.count = len(error.problems)

    def show(self, file: object = None) -> None:
        """Print all problems as `file:line: element: text`, then their number."""
        click.echo(self.message, err=True)
        click.echo(f"{self.count} problem{'' if self.count == 1 else 's'} found; nothing was started", err=True)
