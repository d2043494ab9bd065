"""The tutorials, the first hour and the page about operations are run as printed; those of Java, Node.js and Spark have
environments of their own, with tests beside those of their clients."""

from pathlib import Path
from typing import Final

import pytest

from tests.interop.broker_process import REPOSITORY
from tests.tutorials.page import Command, steps
from tests.tutorials.reader import TUTORIALS, Reader, follow_whole, missing, programs_of_this_python

# A page has many commands, and each of them is a process.
pytestmark = pytest.mark.timeout(400)

HERE: Final = ("first-hour", "python", "mqtt", "tests")
ELSEWHERE: Final = {
    "java": "tests/interop/jms",
    "javascript": "tests/interop/node",
    "openwire": "tests/interop/openwire",
    "spark": "tests/spark",
}
OF_MOSQUITTO: Final = ("mosquitto_pub", "mosquitto_sub")


def test_every_tutorial_is_run_somewhere() -> None:
    """A page that is not here would go unnoticed when it breaks."""
    pages = {page.stem for page in TUTORIALS.glob("*.md")} - {"index"}

    assert pages == {*HERE, *ELSEWHERE}
    for name, folder in ELSEWHERE.items():
        assert f'"{name}.md"' in (REPOSITORY / folder / "test_tutorial.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*HERE, *ELSEWHERE, "../operations"])
def test_a_page_has_commands_that_every_reader_understands(name: str) -> None:
    """Each block is a file, a command or an output, by the rules of `page`."""
    commands = [step for step in steps(TUTORIALS / f"{name}.md") if isinstance(step, Command)]

    assert len(commands) >= 4
    assert any(command.output for command in commands)


@pytest.mark.parametrize("name", [*HERE, "../operations"])
def test_page_does_what_it_prints(name: str, tmp_path: Path) -> None:
    """Commands of programs that are not there are those of mosquitto, which have a test of their own."""
    page = TUTORIALS / f"{name}.md"
    absent = tuple(missing(page))
    assert set(absent) <= set(OF_MOSQUITTO)
    with Reader(tmp_path, programs_of_this_python(tmp_path / "bin")) as reader:
        reader.follow(page, without=absent)


def test_the_commands_of_mosquitto_do_what_is_printed(tmp_path: Path) -> None:
    """Where they are installed, the page about MQTT is run whole."""
    follow_whole("mqtt.md", tmp_path)
