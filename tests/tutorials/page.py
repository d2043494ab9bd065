"""What a reader of a tutorial does, step by step.

A page needs no markup for this: what the runner follows is what a reader follows.

- A fenced block after a paragraph with "as `name`:" is a file of this name.
- In a block `console`, a line that begins with `$ ` is a command, and the lines below it are what it prints. `...`
  stands for any text within a line, and alone on a line for any lines. A command whose output has a line that begins
  with `Error` fails, all others succeed. Empty lines do not count.
- After a paragraph with "terminal of its own", the command goes on running.
- A block `text` after a paragraph with "terminal of `x`" is what the running command that contains x prints next.
- A paragraph with "Ctrl-C in the terminal of `x`" ends that command.
- Indented lines are for the reader's machine: they install something, or want to be root.
"""

import re
from pathlib import Path
from typing import Final

from attrs import frozen

FENCE: Final = re.compile(r"^```(\w*)$")
FILE: Final = re.compile(r"\bas `([^`]+)`:$")
OWN_TERMINAL: Final = re.compile(r"\bterminal of its own\b")
TERMINAL_OF: Final = re.compile(r"\bterminal of `([^`]+)`")
CTRL_C: Final = re.compile(r"\bCtrl-C in the terminal of `([^`]+)`")
PROMPT: Final = "$ "


class Unclear(AssertionError):
    """A block that no rule covers: the reader would not know what to do with it either."""


@frozen
class File:
    """A file to be saved."""

    line: int
    name: str
    text: str


@frozen
class Command:
    """A command to be typed, with what it prints."""

    line: int
    text: str
    output: str
    keeps_running: bool

    @property
    def fails(self) -> bool:
        """Whether the reader is shown an error."""
        return re.search(r"^Error", self.output, re.MULTILINE) is not None


@frozen
class Shown:
    """What a command that is still running prints next."""

    line: int
    command: str
    output: str


@frozen
class Interrupt:
    """Ctrl-C for a command that is still running."""

    line: int
    command: str


Step = File | Command | Shown | Interrupt


def steps(page: Path) -> list[Step]:
    """Read a page. Raises Unclear for a block that no rule covers."""
    found: list[Step] = []
    paragraph: list[str] = []
    last = ""
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
    for number, line in lines:
        fence = FENCE.match(line)
        if fence is None:
            paragraph = [*paragraph, line] if line else []
            # A blank line may be between a paragraph and its block.
            if line:
                last = " ".join(paragraph)
                if (ended := CTRL_C.search(last)) is not None and ended.end() > len(last) - len(line):
                    found.append(Interrupt(number, ended[1]))
            continue
        block: list[str] = []
        for _, inside in lines:
            if inside == "```":
                break
            block.append(inside)
        found += _block(fence[1], "\n".join(block) + "\n", last, f"{page.name}:{number}", number)
        last = ""
        paragraph = []
    return found


def _block(language: str, text: str, before: str, where: str, line: int) -> list[Step]:
    if language == "console":
        return _commands(text, OWN_TERMINAL.search(before) is not None, where, line)
    if language == "text":
        if (shown := TERMINAL_OF.search(before)) is None:
            raise Unclear(f"{where}: the paragraph before this block names no terminal")
        return [Shown(line, shown[1], text)]
    if (name := FILE.search(before)) is None:
        raise Unclear(f"{where}: the paragraph before this block names no file")
    return [File(line, name[1], text)]


def _commands(text: str, keeps_running: bool, where: str, line: int) -> list[Step]:
    """Take a block of a terminal apart; a command that ends with a backslash continues on the next line."""
    begun, *commands = re.split(rf"^{re.escape(PROMPT)}", text, flags=re.MULTILINE)
    if begun or not commands:
        raise Unclear(f"{where}: a terminal begins with a command")
    found: list[Step] = []
    for command in commands:
        lines = command.splitlines(keepends=True)
        typed = 1
        while lines[typed - 1].endswith("\\\n"):
            typed += 1
        found.append(Command(line, "".join(lines[:typed]), "".join(lines[typed:]), keeps_running))
    return found
