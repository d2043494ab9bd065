"""docs/queue-kinds.md and its pictures say what the programs saw; the differences from Artemis are the wanted ones."""

import re
from typing import Final

from tests.kinds.instance import KINDS
from tests.kinds.page import PAGE, PICTURES, page
from tests.kinds.pictures import drawn
from tests.kinds.recorded import ARTEMIS, OURS, differences, load
from tests.kinds.scenario import FAILED, programs, title

TO_MEND: Final = "run `python -m tests.kinds.page`"


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
