"""Manual pages in roff, from the texts that the commands have for `--help`: one for each command and subcommand.

    python -m artemis_py.cli.manpages FOLDER      # writes FOLDER/man1/artemis-py.1 and so on

They are made where they are installed, so they are always those of this release.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from artemis_py.cli import COMMANDS, main
from artemis_py.release import installed_version

PROGRAM: Final = "artemis-py"
EXIT_CODES: Final = (
    ("0", "done"),
    ("1", "the broker refused or could not do it"),
    ("2", "wrong usage, or a configuration with mistakes"),
    ("3", "no connection"),
)
SEE_ALSO: Final = (
    "The manual of the broker explains the ideas behind the commands: docs/index.md of its sources, or the site that "
    "tox run -e docs makes of it."
)


def roff(text: str) -> str:
    """Escape a text: backslashes, dashes that somebody may copy, and a beginning that would be a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)


def walk(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Yield a command and all below it, each with the context that its help needs."""
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from walk(found, click.Context(found, parent=context, info_name=name))


def name_of(context: click.Context) -> str:
    """The name of a page: the words of the command with dashes between them."""
    return context.command_path.replace(" ", "-")


def paragraphs(command: click.Command) -> list[str]:
    """The text of a command, without the line breaks of the source."""
    return [" ".join(each.split()) for each in inspect.cleandoc(command.help or "").replace("\b", "").split("\n\n")]


def page(command: click.Command, context: click.Context) -> str:
    """Return the manual page of one command."""
    name, texts = name_of(context), paragraphs(command)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        # Left-aligned, and no word is hyphenated: names of commands have dashes of their own.
        ".ad l",
        ".nh",
        f'.TH {roff(name).upper()} 1 "" "artemis_py {installed_version()}" "artemis_py"',
        ".SH NAME",
        f"{roff(name)} \\- {roff(re.split(r'[.;]( |$)', texts[0])[0])}",
        ".SH SYNOPSIS",
        f".B {roff(context.command_path)}",
        roff(usage),
        ".SH DESCRIPTION",
    ]
    for text in texts:
        lines += [".PP", roff(text)]
    records = [each.get_help_record(context) for each in command.get_params(context)]
    lines += _list("OPTIONS", [record for record in records if record is not None])
    if isinstance(command, click.Group):
        below = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
        lines += _list(
            "COMMANDS",
            [
                (f"{context.command_path} {name}", _short(name, found, context))
                for name, found in below
                if found is not None and not found.hidden
            ],
        )
    if context.parent is None:
        lines += _list("ENVIRONMENT", variables(command, context))
    lines += _list("EXIT STATUS", list(EXIT_CODES))
    lines += [".SH SEE ALSO"]
    if context.parent is not None:
        lines += [f".BR {roff(name_of(context.parent))} (1)", ".PP"]
    return "\n".join([*lines, roff(SEE_ALSO), ""])


def variables(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """The environment variables that options of any command read, and what these options mean."""
    found = {
        option.envvar: option.help.replace(f" [env: {option.envvar}]", "")
        for each, _ in walk(command, context)
        for option in each.params
        if isinstance(option, click.Option) and isinstance(option.envvar, str) and option.help
    }
    return sorted(found.items())


def _short(name: str, command: click.Command, context: click.Context) -> str:
    return COMMANDS[name] if context.parent is None else command.get_short_help_str(200)


def _list(title: str, items: list[tuple[str, str]]) -> list[str]:
    """A section with a list of terms; no lines if it is empty."""
    lines = [f".SH {title}"] if items else []
    for term, text in items:
        # A line may break between the values that an option takes.
        lines += [".TP", f"\\fB{roff(term)}\\fR".replace("|", "|\\:"), roff(" ".join(text.split()))]
    return lines


def write(folder: Path) -> list[Path]:
    """Write all pages to `folder/man1`; return their paths."""
    target = folder / "man1"
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for command, context in walk(main, click.Context(main, info_name=PROGRAM, help_option_names=["-h", "--help"])):
        path = target / f"{name_of(context)}.1"
        path.write_text(page(command, context), encoding="utf-8")
        written.append(path)
    return written


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m artemis_py.cli.manpages FOLDER")
    print(f"{len(write(Path(sys.argv[1])))} pages written to {sys.argv[1]}/man1")
