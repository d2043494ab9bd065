"""Recorded differences between ActiveMQ Classic and Artemis are all decided, and the page tells them."""

import re
from typing import Final

import pytest

from artemis_py.config import parse
from tests.interop.openwire.expectations import (
    FOLDER,
    HERE,
    OWN,
    PAGE,
    RECORDED,
    Seen,
    Side,
    agrees,
    differences,
    disagreements,
    expected,
    page,
    recorded,
    side_of,
    sides,
)
from tests.interop.openwire.peers import ARTEMIS, CLASSIC_5
from tests.interop.openwire.record import merge, text

DECISIONS: Final = sides()


def test_every_difference_has_one_side() -> None:
    """A difference nobody decided would be one that nobody noticed."""
    undecided = [(one.scenario, one.observation) for one in differences() if len(side_of(one, DECISIONS)) != 1]

    assert undecided == []


@pytest.mark.parametrize("side", DECISIONS, ids=lambda side: " ".join((side.scenario, *side.observations)))
def test_every_side_is_about_a_difference(side: Side) -> None:
    """A decision outlives its difference when brokers change; its reason is a sentence."""
    about = {one.observation for one in differences() if side in side_of(one, [side])}

    assert about >= set(side.observations)
    assert about
    assert side.side in (*RECORDED, OWN)
    assert set(side.ours) == (about if side.side == OWN else set())
    assert side.why.endswith(".")


def test_this_broker_reads_the_configuration() -> None:
    """The one that Artemis ran with; only the acceptor asks for a protocol that is not here yet."""
    acceptor = re.compile(r"protocols=OPENWIRE;virtualTopicConsumerWildcards=[^<]*")
    text = (HERE / "broker.xml").read_text(encoding="utf-8").replace("{port}", "0")

    assert acceptor.search(text)
    config = parse(acceptor.sub("protocols=AMQP", text).encode(), "broker.xml", HERE)
    assert [one.name for one in config.acceptors] == ["openwire"]


def test_page_is_current() -> None:
    """`python -m tests.interop.openwire.expectations` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page(CLASSIC_5.version, ARTEMIS)


def test_ours_is_what_both_show_where_they_agree() -> None:
    """And one of the two or something else where they do not."""
    ours = expected("ours")
    decided = {(one.scenario, one.observation) for one in differences()}

    for scenario, seen in recorded("classic").items():
        for observation, value in seen.items():
            if (scenario, observation) not in decided:
                assert ours[scenario][observation] == value


def test_disagreements_name_what_is_wrong_missing_or_new() -> None:
    """Scenarios that did not run are no disagreement."""
    wanted: Seen = {"A.a": {"x": 1, "y": {"any of": [1, 2]}, "z": 3}, "A.b": {"x": 1}}

    assert disagreements(wanted, {"A.a": {"x": 1, "y": 2, "z": 3}}) == []
    assert disagreements(wanted, {"A.a": {"x": 2, "y": 3, "new": 0}}) == [
        "A.a, x: wanted 1, seen 2",
        "A.a, y: wanted {'any of': [1, 2]}, seen 3",
        "A.a, z: wanted 3, seen 'not observed'",
        "A.a, new: wanted 'not observed', seen 0",
    ]


@pytest.mark.parametrize("broker", RECORDED)
def test_a_record_is_written_as_it_is_read(broker: str) -> None:
    """One line for each observation, and what is marked as unsteady keeps its mark."""
    seen = recorded(broker)

    assert (FOLDER / f"{broker}.json").read_text(encoding="utf-8") == text(seen)
    assert merge({"A.a": {"x": {"any of": [1, 2]}, "y": 1}}, {"A.a": {"x": 2, "y": 2, "z": 3}}) == {
        "A.a": {"x": {"any of": [1, 2]}, "y": 2, "z": 3}
    }


def test_a_map_with_other_keys_is_compared_as_it_is() -> None:
    """Only `any of` alone is special."""
    assert agrees({"any of": [1], "b": 2}, {"any of": [1], "b": 2})
    assert not agrees({"any of": [1], "b": 2}, 1)
