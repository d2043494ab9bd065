"""What the reader of tutorials notices: output that differs, commands that fail, blocks that no rule covers."""

from pathlib import Path

import pytest

from tests.tutorials.page import Command, File, Interrupt, Shown, Unclear, steps
from tests.tutorials.reader import Reader, pattern_of, programs_of_this_python, shown

FENCE = "```"


def page(folder: Path, text: str) -> Path:
    """A page of this text; `~~~` stands for a fence."""
    path = folder / "page.md"
    path.write_text(text.replace("~~~", FENCE), encoding="utf-8")
    return path


def follow(folder: Path, text: str) -> None:
    """Do all that a page of this text says."""
    with Reader(folder, programs_of_this_python(folder / "bin")) as reader:
        reader.follow(page(folder, text))


def test_steps_are_read_in_their_order(tmp_path: Path) -> None:
    text = """Save it as `a.py`:

~~~python
x = 1
~~~

In a terminal of its own:

~~~console
$ cat \\
  a.py
x = 1
$ true
~~~

The terminal of `cat` shows:

~~~text
more
~~~

Press Ctrl-C in the terminal of `cat`
and wait.
"""
    assert steps(page(tmp_path, text)) == [
        File(3, "a.py", "x = 1\n"),
        Command(9, "cat \\\n  a.py\n", "x = 1\n", True),
        Command(9, "true\n", "", True),
        Shown(18, "cat", "more\n"),
        Interrupt(22, "cat"),
    ]


@pytest.mark.parametrize("block", ["~~~python\nx\n~~~\n", "~~~text\nx\n~~~\n", "~~~console\nno prompt\n~~~\n"])
def test_a_block_that_no_rule_covers_is_an_error(tmp_path: Path, block: str) -> None:
    with pytest.raises(Unclear, match=r"page\.md:3"):
        steps(page(tmp_path, f"Some words.\n\n{block}"))


def test_a_page_that_is_right_passes(tmp_path: Path) -> None:
    follow(
        tmp_path,
        """Save as `a.py`:

~~~python
print("one", 2)
raise SystemExit("Error: three")
~~~

~~~console
$ python a.py
one ...
Error: three
$ echo 61616 | grep -c 61616
1
~~~
""",
    )


@pytest.mark.parametrize(
    "commands",
    ["$ echo one\ntwo\n", "$ echo one\n", "$ true\none\n", "$ false\n", "$ echo Error; true\nError\n"],
    ids=["other output", "more output", "less output", "failure", "success"],
)
def test_a_page_that_is_wrong_is_found(tmp_path: Path, commands: str) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:1"):
        follow(tmp_path, f"~~~console\n{commands}~~~\n")


def test_a_command_keeps_running_until_it_is_interrupted(tmp_path: Path) -> None:
    follow(
        tmp_path,
        """In a terminal of its own:

~~~console
$ trap 'echo gone > left; exit' INT; echo up; while true; do cat word 2>/dev/null && rm word; sleep 0.05; done
up
~~~

~~~console
$ echo hello > part; mv part word
~~~

The terminal of `echo up` shows:

~~~text
hello
~~~

Press Ctrl-C in the terminal of `echo up`

~~~console
$ cat left
gone
~~~
""",
    )


def test_what_a_terminal_shows_is_compared() -> None:
    """Colours, empty lines and progress that was overwritten are not what a reader compares."""
    assert shown("\x1b[1mbold\x1b[0m\r\n\r\n 10 %\r 20 %\rdone\r\n") == "bold\ndone\n"
    assert pattern_of("a...b\n\n...\nc.\n") == r"a.*b[ \t]*" + "\\n" + r"(?:.*\n)*?" + r"c\.[ \t]*" + "\\n"
