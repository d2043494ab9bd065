"""What a task of `replay` and `redrive` reports about the messages it sends, with a sender that only takes notes."""

from collections.abc import Iterable
from typing import Any

import pytest

from artemis_py.spark.encoding import Encoded
from artemis_py.spark.errors import Refused
from artemis_py.spark.jobs import resending
from artemis_py.spark.jobs.resending import Outcome, Resending, send_rows
from artemis_py.spark.options import WriteOptions, write_options
from artemis_py.spark.sending import StageName

TAKEN: list[tuple[str | None, bytes]] = []
OPEN: list[str] = []


class Notes:
    """Refuses what goes to `closed`, rejects every message that ends with `!`."""

    def __init__(self, options: WriteOptions, stage: StageName | None) -> None:
        OPEN.append("sender")
        assert len(OPEN) == 1
        self.stage = stage
        self.staged: dict[str, int] = {}
        self.number = self.dropped = 0
        self.rejected: set[int] = set()

    def send(self, messages: Iterable[Encoded]) -> None:
        for message in messages:
            if message.address == "closed":
                raise Refused("closed for today")
            self.number += 1
            if message.bare.endswith(b"!"):
                self.dropped += 1
                self.rejected.add(self.number)
                continue
            TAKEN.append((message.address, message.bare))
            if self.stage is not None:
                self.staged[self.stage.attempt] = self.staged.get(self.stage.attempt, 0) + 1

    def flush(self) -> None:
        """Everything was taken."""

    def close(self) -> None:
        OPEN.pop()


@pytest.fixture(autouse=True)
def notes(monkeypatch: pytest.MonkeyPatch) -> None:
    TAKEN.clear()
    OPEN.clear()
    monkeypatch.setattr(resending, "Sender", Notes)
    monkeypatch.setattr(resending, "CHUNK", 2)


def rows(*messages: tuple[str, str]) -> list[Any]:
    """Target and body of each."""
    rest = {"durable": True, "priority": 4, "annotations": {}, "mark": "DLQ", "redrives": 1, "id": "i", "queue": "DLQ"}
    return [
        {**rest, "target": target, "message": body.encode(), "sequence": number}
        for number, (target, body) in enumerate(messages, 1)
    ]


def test_only_what_was_accepted_is_told() -> None:
    """A dead letter goes by this list: a rejected one must not be in it, whichever of its chunk it was."""
    plan = Resending(options=write_options({}), tells_sequences=True)

    told = list(send_rows(plan, rows(("a", "1"), ("a", "2!"), ("a", "3!"), ("a", "4"), ("b", "5"))))

    assert [outcome.sequences for outcome in told] == [(("DLQ", 1),), (("DLQ", 4),), (("DLQ", 5),)]
    assert [(outcome.address, outcome.accepted, outcome.rejected) for outcome in told] == [
        ("a", 1, 1),
        ("a", 1, 1),
        ("b", 1, 0),
    ]


def test_an_address_that_refuses_leaves_the_others_alone() -> None:
    told = list(send_rows(Resending(options=write_options({})), rows(("a", "1"), *[("closed", "2")] * 5, ("z", "3"))))

    assert [outcome.address for outcome in told] == ["a", "closed", "z"]
    assert told[1] == Outcome(address="closed", problem="closed for today")
    assert TAKEN == [("a", b"1"), ("z", b"3")]


def test_each_address_has_a_stage_of_its_own() -> None:
    """The commit names every attempt with the number of its messages."""
    plan = Resending(options=write_options({}), writer="replay:x")

    told = list(send_rows(plan, rows(("a", "1"), ("a", "2"), ("a", "3"), ("b", "4"))))

    staged = [list(outcome.staged.values()) for outcome in told if outcome.staged]
    assert staged == [[3], [1]]
    assert len({attempt for outcome in told for attempt in outcome.staged}) == 2
    assert all(outcome.sequences == () for outcome in told)


def test_a_task_that_breaks_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Notes, messages: Iterable[Encoded]) -> None:
        raise ConnectionError

    monkeypatch.setattr(Notes, "send", broken)

    with pytest.raises(ConnectionError):
        list(send_rows(Resending(options=write_options({})), rows(("a", "1"))))
    assert OPEN == []
