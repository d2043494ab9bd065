"""Commands that a page names exist, with the options that it gives them."""

import re
import shlex
from configparser import ConfigParser
from pathlib import Path
from typing import Final

import click
import pytest

from artemis_py.cli import main

REPOSITORY: Final = Path(__file__).resolve().parents[2]
DOCS: Final = REPOSITORY / "docs"
PAGES: Final = [REPOSITORY / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "tutorials").glob("*.md"))]
UNIT: Final = REPOSITORY / "examples" / "systemd" / "artemis-py.service"

INLINE: Final = re.compile(r"`artemis-py ([^`]+)`")
TYPED: Final = re.compile(r"^(?:    |\$ )(?:[\w./]*/)?artemis-py ([^#\n]+)", re.MULTILINE)
END_OF_COMMAND: Final = {"&&", "||", "|", ">", "2>", ";"}


def commands(text: str) -> list[str]:
    """What follows `artemis-py` in the text of a page."""
    joined = text.replace("\\\n", " ")
    return [re.sub(r"\s+", " ", found).strip() for found in [*INLINE.findall(joined), *TYPED.findall(joined)]]


def complaint(command: str) -> str | None:
    """What is wrong with the words after `artemis-py`; None if they can be typed."""
    try:
        words = shlex.split(command)
    except ValueError:
        return f"{command}: no command of a shell"
    at: click.Command = main
    descending = True
    for word in words:
        if word in END_OF_COMMAND or word == "…":
            return None
        if descending and isinstance(at, click.Group) and not word.startswith("-"):
            found = at.get_command(click.Context(at), word)
            if found is None:
                return f"{command}: no command {word}"
            at = found
        elif word.startswith("--") and word != "--help":
            known = {name for parameter in at.params for name in parameter.opts}
            if word.split("=")[0] not in known:
                return f"{command}: no option {word}"
            # A group may be a command as well: `consumer --destination x` and `consumer list`.
            descending = False
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_commands_on_a_page_exist(page: Path) -> None:
    assert [each for each in map(complaint, commands(page.read_text(encoding="utf-8"))) if each is not None] == []


def test_commands_are_found() -> None:
    """A test that finds none proves nothing."""
    assert len(commands((DOCS / "operations.md").read_text(encoding="utf-8"))) > 20
    assert len(commands((DOCS / "cli.md").read_text(encoding="utf-8"))) > 10


@pytest.mark.parametrize(
    "wrong", ["queues list", "queue lost", "queue list --sorted x", "run --log-file x", "message move 'x"]
)
def test_a_wrong_command_is_found(wrong: str) -> None:
    assert complaint(wrong) is not None


def test_the_unit_of_systemd_runs_what_exists() -> None:
    """The page about operations says to install it."""
    unit = ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT, encoding="utf-8")

    for key in ("ExecStartPre", "ExecStart"):
        program, _, arguments = unit["Service"][key].partition(" ")
        assert program == "/opt/artemis-py/bin/artemis-py"
        assert complaint(arguments) is None
