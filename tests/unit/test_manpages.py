"""Manual pages for all commands, made of their help texts, that the tools of Unix can read."""

import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from artemis_py.cli import main
from artemis_py.cli.manpages import name_of, page, roff, walk, write


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name and text of each page."""
    return {path.name: path.read_text(encoding="utf-8") for path in write(tmp_path_factory.mktemp("man"))}


def test_every_command_has_a_page_with_all_of_its_options(pages: dict[str, str]) -> None:
    """Also those below others."""
    assert {"artemis-py.1", "artemis-py-queue.1", "artemis-py-queue-list.1", "artemis-py-spark-dlq-report.1"} <= set(
        pages
    )
    for command, context in walk(main, click.Context(main, info_name="artemis-py")):
        text = pages.pop(f"{name_of(context)}.1")
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert all(roff(name) in text for name in parameter.opts)
    assert pages == {}


def test_the_first_page_names_commands_and_variables() -> None:
    text = page(main, click.Context(main, info_name="artemis-py"))

    assert "\\fBartemis\\-py queue\\fR" in text
    assert "\\fBARTEMIS_PY_URL\\fR\nThe broker, amqp://host:port." in text


def test_a_text_is_no_request_of_roff() -> None:
    """A line that begins with a dot or a quote would vanish, and a dash would not be one that can be copied."""
    assert roff(".x\n'y\n--z a\\b") == "\\&.x\n\\&'y\n\\-\\-z a\\eb"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_complain_of(tmp_path: Path) -> None:
    """As `man -l` shows it."""
    paths = write(tmp_path)

    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", *map(str, paths)], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_a_program(tmp_path: Path) -> None:
    """As the manual has it."""
    command = [sys.executable, "-P", "-m", "artemis_py.cli.manpages", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == f"{len(list((tmp_path / 'man1').iterdir()))} pages written to {tmp_path}/man1\n"
    assert subprocess.run(command[:-1], capture_output=True).returncode == 1
