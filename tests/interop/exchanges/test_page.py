"""docs/exchange-peers.md says what the programs saw; the differences between the brokers are the wanted ones."""

from typing import Final

import pytest

from tests.interop.exchanges.brokers import MODULES
from tests.interop.exchanges.page import PAGE, cell, page
from tests.interop.exchanges.recorded import EVERY_FACT, LACKING, OURS, PEERS, differences, missing, recorded, unlike
from tests.interop.exchanges.site import Missing, Peer
from tests.interop.kinds.recorded import load
from tests.interop.kinds.scenario import FAILED, Restarting, Seen, programs, title

OWN: Final[dict[str, Seen]] = {"a.one": {"x": 1, "y": 2}, "a.two": {"z": []}}


def test_all_brokers_ran_all_programs_to_the_end() -> None:
    """A program that was added has to be recorded; one that failed shows nothing."""
    known = list(programs(MODULES))

    for seen in (load(OURS), *recorded().values()):
        assert list(seen) == known
        assert [program for program, facts in seen.items() if FAILED in facts] == []


def test_this_broker_lacks_nothing_that_a_program_needs() -> None:
    assert [program for program, facts in load(OURS).items() if LACKING in facts] == []


@pytest.mark.parametrize("peer", PEERS)
def test_every_difference_has_a_reason_and_every_reason_a_difference(peer: str) -> None:
    """What is not listed is a mistake of this broker; what is listed and is gone misleads."""
    found = unlike(recorded()[peer], load(OURS))
    wanted = [
        (difference.program, fact)
        for difference in differences()
        if peer in difference.peers
        for fact in difference.facts
    ]

    assert sorted(found - {*wanted}) == []
    assert sorted({*wanted} - found) == []
    assert len(wanted) == len({*wanted})


def test_reasons_are_about_known_brokers_and_facts() -> None:
    own = load(OURS)

    for difference in differences():
        assert {*difference.peers} <= {*PEERS}
        assert {*difference.facts} <= {*own[difference.program], EVERY_FACT}
        assert difference.why.endswith(".")


def test_every_program_says_what_it_does() -> None:
    """The tables quote it."""
    assert [name for name, program in programs(MODULES).items() if not title(program).endswith(".")] == []


def test_the_tables_of_the_page_are_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert text == page(text), "run `python -m tests.interop.exchanges.page`"


@pytest.mark.parametrize(
    ("theirs", "found"),
    [
        (OWN, set()),
        ({**OWN, "a.one": {"x": 1, "y": 3}}, {("a.one", "y")}),
        ({**OWN, "a.one": {"x": 1}}, {("a.one", "y")}),
        ({**OWN, "a.two": {"z": [], "more": None, "other": 1}}, {("a.two", "other")}),
        ({**OWN, "a.one": {LACKING: "exchanges"}}, {("a.one", EVERY_FACT)}),
    ],
    ids=["same", "another value", "fact missing", "more facts", "lacking"],
)
def test_each_fact_that_differs_is_found(theirs: dict[str, Seen], found: set[tuple[str, str]]) -> None:
    assert unlike(theirs, OWN) == found


def test_a_program_says_what_a_broker_lacks_before_and_after_a_restart() -> None:
    def at_once(site: Peer) -> Seen:
        raise Missing("exchanges")

    def later(site: Peer) -> Restarting:
        yield
        raise Missing("bindings")

    site = Peer("amqp://nowhere")
    rest = missing(later)(site)
    assert not isinstance(rest, dict)
    next(rest)
    with pytest.raises(StopIteration) as ended:
        next(rest)

    assert missing(at_once)(site) == {LACKING: "exchanges"}
    assert ended.value.value == {LACKING: "bindings"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "-"),
        (["a.*", ""], "`a.*`, `''`"),
        (["accepted", 1], "`accepted`, `1`"),
        ([[], ["a"]], "(-), (`a`)"),
        ("accepted", "accepted"),
        (True, "yes"),
        (None, "none"),
    ],
)
def test_values_are_shown_so_that_nothing_and_the_empty_text_differ(value: object, text: str) -> None:
    assert cell(value) == text
