"""The output of commands: tables for people, JSON for scripts, progress on a terminal only."""

import json
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final

import click

from artemis_py.logs import clean

WIDTH_WITHOUT_TERMINAL: Final = 10_000
"""Width of a table in a file or pipe: large enough that it is never cut or wrapped."""


def print_json(value: object) -> None:
    """Print one JSON document on standard output."""
    click.echo(json_text(value, indent=2))


def json_text(value: object, indent: int | None = None) -> str:
    """Return JSON in which all unprintable characters are written as JSON's own escapes.

    `json` escapes only the control characters of ASCII, and a terminal interprets others too.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def say(text: str, err: bool = False) -> None:
    """Print a line of text, with unprintable characters escaped: it may contain names chosen by clients."""
    click.echo(clean(text, limit=len(text)), err=err)


def print_table(rows: Sequence[Mapping[str, object]], columns: Mapping[str, str], title: str | None = None) -> None:
    """Print rows as a table; `columns` maps keys of a row to headings, in order. Numbers are aligned to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    table = Table(title=title, box=box.SIMPLE_HEAD if is_terminal else None, pad_edge=False, header_style="bold")
    for key, heading in columns.items():
        is_number = bool(rows) and all(_is_number(row.get(key)) for row in rows)
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(row.get(key))) for key in columns))
    Console(width=None if is_terminal else WIDTH_WITHOUT_TERMINAL, soft_wrap=not is_terminal).print(table)


def cell(value: object) -> str:
    """Format a value for people."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(cell(item) for item in value)
    # Names come from clients: control characters must not reach a terminal.
    return "".join(character if character.isprintable() else "\ufffd" for character in str(value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Progress:
    """A progress bar on standard error, if that is a terminal; otherwise nothing."""

    def __init__(self, label: str, total: int | None) -> None:
        self._label: Final = label
        self._total: Final = total
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            rate = TextColumn("{task.fields[rate]}")
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[done]}"),
                rate,
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(self._label, total=self._total, done="", rate="")
            self._bar.start()
        return self

    def show(self, count: int, elapsed_s: float, total: int | None = None) -> None:
        """Show the current state; give `total` if it was not known before or has changed."""
        if self._bar is not None:
            rate = f"{count / elapsed_s:,.0f}/s" if elapsed_s > 0 else ""
            total = total or self._total
            done = f"{count:,}" if total is None else f"{count:,}/{total:,}"
            self._bar.update(self._task, completed=count, done=done, rate=rate, total=total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def summary(verb: str, count: int, elapsed_s: float) -> str:
    """Return the last line of a command that sent or received messages."""
    rate = f", {count / elapsed_s:,.0f}/s" if elapsed_s > 0 and count else ""
    return f"{verb} {count} message{'' if count == 1 else 's'} in {elapsed_s:.2f} s{rate}"
