"""What is concluded from what the queue says of numbers that did not come."""

import logging

import pytest

from artemis_py.spark.errors import DataLoss, Gone, Withheld
from artemis_py.spark.management import Found
from artemis_py.spark.missing import Missing, gaps_of
from artemis_py.spark.options import ReadOptions, read_options
from artemis_py.spark.receiving import Range

PART = Range(address="a", queue="q", queue_id=7, start=100, stop=120)
NOTHING = Found(exists=True, left="3 were acknowledged")


def options(**more: str) -> ReadOptions:
    return read_options({"url": "amqp://h", "address": "a", "subscription": "s", **more})


def browsing(**more: str) -> ReadOptions:
    return read_options({"url": "amqp://h", "queue": "q", "mode": "browse", **more})


@pytest.mark.parametrize(
    ("expected", "sequences", "gaps"),
    [
        (1, [1, 2, 3], []),
        (1, [2, 3], [(1, 2)]),
        (1, [1, 5, 6, 9], [(2, 5), (7, 9)]),
        (4, [9], [(4, 9)]),
    ],
)
def test_gaps_are_what_lies_between(expected: int, sequences: list[int], gaps: list[tuple[int, int]]) -> None:
    assert gaps_of(expected, sequences) == gaps


@pytest.mark.parametrize("given", [options(), options(failOnDataLoss="false"), options(selector="n > 1"), browsing()])
def test_what_is_in_the_queue_is_to_be_read_again(given: ReadOptions) -> None:
    """Whatever the options say of losses: it is none."""
    found = Found(exists=True, count=9, there=tuple((number, "waiting") for number in range(101, 110)))

    with pytest.raises(Withheld, match=r"9 messages .* are in the queue: 101 \(waiting\), .* 105 \(waiting\) and more"):
        Missing(given, PART).note([(101, 110)], found, False)


def test_only_a_reader_that_removes_nothing_passes_it_over(caplog: pytest.LogCaptureFixture) -> None:
    found = Found(exists=True, count=1, there=((101, "in a transaction"),))
    missing = Missing(browsing(failOnDataLoss="false"), PART, is_lenient=True)

    with caplog.at_level(logging.WARNING):
        missing.note([(101, 110)], found, False)
    missing.conclude()

    assert "passed over, nothing is removed" in caplog.text
    assert "101 (in a transaction)" in caplog.text


def test_a_queue_that_is_another_one_has_none_of_it() -> None:
    with pytest.raises(Gone, match="created again"):
        Missing(options(), PART).note([(101, 110)], Found(exists=False), False)


def test_a_loss_names_numbers_and_what_the_queue_counted() -> None:
    missing = Missing(options(), PART)
    missing.note([(100, 101), (103, 106)], NOTHING, False)
    missing.note([(118, 120)], Found(exists=True, expired=1, left="4 were acknowledged"), False)

    with pytest.raises(DataLoss) as caught:
        missing.conclude()

    assert str(caught.value) == (
        "6 of 20 messages of a::q (queue id 7) [100, 120) are gone: asked for 100, 103 to 105, 118 to 119, the queue "
        "no longer has them (1 are there, but have expired); of this queue's messages 4 were acknowledged since the "
        "broker started (failOnDataLoss=false continues without them; what is in the queue stays there)"
    )


@pytest.mark.parametrize("given", [options(failOnDataLoss="false"), browsing(), options(selector="n > 1")])
def test_a_loss_that_is_no_error_is_none(given: ReadOptions) -> None:
    """With a selector nobody knows whether it would have been wanted."""
    missing = Missing(given, PART)
    missing.note([(100, 101)], NOTHING, False)

    missing.conclude()


@pytest.mark.parametrize(
    ("gap", "skipped", "is_more_behind", "lost"),
    [
        ((110, 115), ((105, 200),), False, 5),  # 115 came, which was given: so were those before it
        ((110, 120), ((105, 200),), False, 0),  # nothing is behind them: a crash may have skipped all of them
        ((110, 120), ((105, 200),), True, 10),  # something is, under a number that was given after them
        ((102, 120), ((105, 200),), False, 3),
        ((110, 120), ((105, 120),), False, 0),
        ((110, 120), (), False, 10),
    ],
)
def test_numbers_that_a_crash_skipped_are_not_lost(
    gap: tuple[int, int], skipped: tuple[tuple[int, int], ...], is_more_behind: bool, lost: int
) -> None:
    missing = Missing(options(), PART)

    missing.note([gap], Found(exists=True, skipped=skipped), is_more_behind)

    assert missing.count == lost
