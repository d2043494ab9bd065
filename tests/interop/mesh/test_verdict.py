"""The verdict over a storm finds what it looks for."""

from itertools import count
from typing import Final

import pytest

from tests.crash.ledger import Line
from tests.interop.mesh.verdict import Verdict, judge

SENT: Final = (("attempted", "p/1", "q"), ("acknowledged", "p/1", "q"))
TAKEN: Final = (("delivered", "p/1", "q"), ("settling", "p/1", "q"), ("confirmed", "p/1", "q"))
MARKED: Final = ("delivered again", "p/1", "q")


def verdict(*facts: tuple[str, str, str]) -> Verdict:
    """Of these lines, one after the other; `again` in a delivery stands for its mark."""
    times = count(1)
    lines = [
        Line(what=what.partition(" ")[0], id=id, queue=queue, marked=what.endswith(" again"), at=next(times))
        for what, id, queue in facts
    ]
    return judge(lines, {"q": ["q"], "t": ["s"]}, ["s"])


@pytest.mark.parametrize(
    "facts",
    [
        (*SENT, *TAKEN),
        (("attempted", "p/1", "q"),),
        (("attempted", "p/1", "q"), *TAKEN),
        (*SENT, *TAKEN[:2], MARKED, *TAKEN[1:]),
        (*SENT, TAKEN[0], ("released", "p/1", "q"), *TAKEN),
        (*SENT, ("again", "p/1", "q"), *TAKEN, *TAKEN),
    ],
    ids=["once", "never answered", "came though not answered", "marked", "given back", "sent again"],
)
def test_what_a_client_must_expect_is_no_violation(facts: tuple[tuple[str, str, str], ...]) -> None:
    found = verdict(*facts)

    assert (found.missing, found.violations) == ([], [])


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ((*SENT, *TAKEN[:2], *TAKEN), "came again without a mark, at q: p/1"),
        ((*SENT, *TAKEN, MARKED), "came after its settlement was confirmed, at q: p/1"),
        ((*SENT, TAKEN[0], MARKED, TAKEN[2], TAKEN[2]), "settled 2 times, at q: p/1"),
        ((*SENT, *TAKEN, ("delivered", "p/2", "q")), "never sent, at q: p/2"),
        (
            (
                *(("attempted", "p/1", "t"), ("attempted", "p/2", "t")),
                *(("delivered", "p/2", "s"), ("delivered", "p/1", "s")),
            ),
            "behind number 2, at s: p/1",
        ),
    ],
    ids=["unmarked", "after the end", "settled twice", "invented", "out of order"],
)
def test_each_violation_is_found(facts: tuple[tuple[str, str, str], ...], text: str) -> None:
    found = verdict(*facts)

    assert text in found.violations
    assert text in str(found)


def test_what_was_confirmed_and_never_came_is_missing() -> None:
    """A delivery that was not settled does not count: its message belongs to the queue."""
    assert verdict(*SENT, TAKEN[0]).missing == [("p/1", "q")]
