"""The output of commands: tables for people, JSON for scripts, progress on a terminal only."""

import json
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final

import click

from artemis_py.logs import clean

UNBROKEN: Final = 40
"""Characters of a value above which it may take more than one line."""
NO_BREAK: Final = "\u00a0"
IDLE: Final = ("", "0", "no")
"""Values of a column that says nothing."""


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
    """Print rows as a table; `columns` maps keys of a row to headings, in order. Numbers are aligned to the right.

    In a file or pipe a table is as wide as it needs to be. On a terminal it fits: columns that tell nothing are left
    out and named below, and if that is not enough, each row becomes a paragraph. No value is ever cut.
    """
    if title is not None:
        click.echo(title)
    table = _Table(rows, columns)
    if not sys.stdout.isatty():
        table.print()
        return
    width = shutil.get_terminal_size().columns
    if table.width > width:
        dropped = table.drop_idle()
        if table.width <= width:
            table.print()
        else:
            table.print_paragraphs(width)
        if dropped:
            click.echo(wrapped(f"Left out, because they are 0, no, empty or repeated: {', '.join(dropped)}", width))
    else:
        table.print()


class _Table:
    """The cells of a table."""

    def __init__(self, rows: Sequence[Mapping[str, object]], columns: Mapping[str, str]) -> None:
        self._columns = [
            _Column(heading, [cell(row.get(key)) for row in rows], bool(rows) and all(map(_is_number, _of(rows, key))))
            for key, heading in columns.items()
        ]

    @property
    def width(self) -> int:
        """Width with two spaces between columns."""
        return sum(column.width + 2 for column in self._columns) - 2

    def drop_idle(self) -> list[str]:
        """Drop columns that say nothing, apart from the first; return their headings."""
        first = self._columns[0]
        idle = [
            column
            for column in self._columns[1:]
            if all(text in IDLE for text in column.cells) or column.cells == first.cells
        ]
        self._columns = [column for column in self._columns if column not in idle]
        return [column.heading for column in idle]

    def print(self) -> None:
        """Print the heading and a line for each row."""
        heading = "  ".join(column.padded(column.heading) for column in self._columns).rstrip()
        click.echo(click.style(heading, bold=True) if sys.stdout.isatty() else heading)
        for index in range(len(self._columns[0].cells)):
            click.echo("  ".join(column.padded(column.cells[index]) for column in self._columns).rstrip())

    def print_paragraphs(self, width: int) -> None:
        """Print the first value of each row on a line of its own, and the others below it with their headings."""
        first, *others = self._columns
        for index, text in enumerate(first.cells):
            click.echo(click.style(text, bold=True))
            pairs = [each.pair(index) for each in others if each.cells[index]]
            click.echo(wrapped("  ".join(pairs), width, "  "))


class _Column:
    """One column."""

    def __init__(self, heading: str, cells: list[str], is_number: bool) -> None:
        self.heading = heading
        self.cells = cells
        self._is_number = is_number
        self.width = max(map(len, (heading, *cells)))

    def pair(self, index: int) -> str:
        """Return the heading and a value; they stay on one line, and so do the words of a short value."""
        text = self.cells[index]
        text = text.replace(" ", NO_BREAK) if len(text) < UNBROKEN else text
        return f"{self.heading.lower()}{NO_BREAK}{text}"

    def padded(self, text: str) -> str:
        """Return a text with spaces up to the width of the column."""
        return text.rjust(self.width) if self._is_number else text.ljust(self.width)


def _of(rows: Sequence[Mapping[str, object]], key: str) -> list[object]:
    return [row.get(key) for row in rows]


def wrapped(text: str, width: int, indent: str = "") -> str:
    """Return a text in lines of at most this width, broken between words only."""
    lines = textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines).replace(NO_BREAK, " ")


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
