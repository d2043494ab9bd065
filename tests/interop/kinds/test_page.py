"""docs/queue-kinds.md and its pictures say what the programs saw; the differences from Artemis are the wanted ones."""

import json
import re
import shlex
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from artemis_py.cli import main
from artemis_py.config.reader import parse
from artemis_py.management.queue_request import queue_config
from tests.interop.broker_process import Instance
from tests.interop.kinds.instance import KINDS
from tests.interop.kinds.page import PAGE, PICTURES, page
from tests.interop.kinds.pictures import drawn
from tests.interop.kinds.recorded import ARTEMIS, OURS, differences, load
from tests.interop.kinds.scenario import FAILED, programs, title

TO_MEND: Final = "run `python -m tests.interop.kinds.page`"


def test_both_brokers_ran_all_programs_to_the_end() -> None:
    """A program that was added has to be recorded; one that failed shows nothing."""
    known = list(programs(KINDS))

    for path in (ARTEMIS, OURS):
        seen = load(path)
        assert list(seen) == known
        assert [program for program, facts in seen.items() if FAILED in facts] == []


def test_every_difference_has_a_reason_and_every_reason_a_difference() -> None:
    """What is not listed is a mistake of this broker; what is listed and is gone misleads."""
    artemis, ours = load(ARTEMIS), load(OURS)
    unlike = {
        (program, fact)
        for program in artemis
        for fact in {*artemis[program], *ours[program]}
        if artemis[program].get(fact) != ours[program].get(fact)
    }
    wanted = [(difference.program, difference.fact) for difference in differences()]

    assert sorted(unlike - {*wanted}) == []
    assert sorted({*wanted} - unlike) == []
    assert len(wanted) == len({*wanted})


def test_every_program_says_what_it_does() -> None:
    """The table quotes it."""
    assert [name for name, program in programs(KINDS).items() if not title(program).endswith(".")] == []


def test_the_table_of_the_page_is_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert text == page(text), TO_MEND


def test_the_pictures_are_those_of_the_recorded_facts() -> None:
    kept = {path.name: path.read_text(encoding="utf-8") for path in PICTURES.iterdir()}

    assert kept == drawn(load(OURS)), TO_MEND


def test_the_page_shows_every_picture() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert {*re.findall(r"\(pictures/([\w.-]+)\)", text)} == {*drawn(load(OURS))}


def test_the_example_for_management_is_valid() -> None:
    (example,) = _blocks("json")

    config = queue_config(json.loads(example))

    assert (config.name, config.last_value_key, config.non_destructive) == ("prices", "symbol", True)


def _blocks(language: str) -> list[str]:
    """The examples of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("example", _blocks("xml"), ids=lambda example: example.split()[0][1:])
def test_examples_of_the_page_are_valid_configuration(example: str, tmp_path: Path) -> None:
    """Each is put where it belongs in a `broker.xml`."""
    parts = dict.fromkeys(("core", "addresses", "settings"), "")
    if example.startswith("<queue"):
        parts["addresses"] = f'<address name="example"><anycast>{example}</anycast></address>'
    elif example.startswith("<address-setting"):
        parts["settings"] = example
    else:
        parts["addresses" if example.startswith("<addresses>") else "core"] = re.sub("</?addresses>", "", example)
    if example.startswith("<diverts>"):
        names = re.findall(r"<(?:forwarding-)?address>([^<]*)<", example)
        parts["addresses"] = "".join(f'<address name="{name}"><anycast/></address>' for name in dict.fromkeys(names))

    parse(Instance(**parts).configuration().encode(), "broker.xml", tmp_path)


@pytest.mark.parametrize("command", [line for block in _blocks("console") for line in block.splitlines()])
def test_examples_of_the_page_are_valid_commands(command: str) -> None:
    """With `--help` behind it, a command is parsed and not run."""
    program, *arguments = shlex.split(command)

    result = CliRunner().invoke(main, [*arguments, "--help"])

    assert (program, result.exit_code) == ("artemis-py", 0), result.output
