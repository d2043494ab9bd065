"""A queue that consists of inherited ranges behaves as one to which the same messages were sent."""

import shutil
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.runtime.access import Subject
from artemis_py.core.sessions.session import Session
from artemis_py.store import schema
from artemis_py.store.format import read_format
from artemis_py.store.inherited import INHERITED
from artemis_py.storetools.check import check_folder
from tests.examples import examples
from tests.property.test_paging import OPERATIONS, PagedSide, check_accounts, compare, folder, history
from tests.property.test_span import BELOW, RANGES, Numbered, NumberedInMemory

__all__ = ["folder"]


class _Holder:
    def stolen(self) -> None: ...


class InheritingSide(Numbered, PagedSide):
    """On disk; what is durable and sent together is staged and committed."""

    epoch = -1

    def send(self, count: int, priority: int, colour: str, durable: bool, number: int) -> None:
        if not durable:
            super().send(count, priority, colour, durable, number)
            return
        # Nothing is shown before the store has it, as what is sent is.
        self.world.settle()
        staging = self.world.services.staging
        staging.epochs.inherited_messages = 1
        session = Session(self.domain, Subject("job"), "job")
        self.epoch = staging.last_epoch("job", "w") + 1
        stage = staging.open("job", "w", self.epoch, "a", "q", _Holder())
        producer = session.producer("q")
        staging.plug(stage, producer)
        for index in range(count):
            message = plain_message("q", MessageView(body=f"{number}.{index}", properties={"colour": colour}), True)
            message.priority = priority
            producer.send(message)
        if number % 2:
            self.world.settle()
        answers: list[object] = []
        self.domain.dispatcher.slices.start(staging.commit(session, "w", self.epoch, {"a": count}), answers.append)
        assert len(self.world.store._gathering.moves) == 1
        self.world.settle()
        assert answers == [True]

    def restart(self, number: int) -> None:
        super().restart(number)
        self.world.services.staging.restore()

    def end(self) -> None:
        """Whatever is left, the sizes that were counted are right as well."""
        self.world.settle()
        super().end()
        assert check_folder(self.folder / "journal") == []


def check_nothing_left(side: InheritingSide) -> None:
    """An empty queue has no ranges, and earlier releases may open its store."""
    side.world.settle()
    side.world.audit()
    environment = side.world.environment
    assert not environment.inherited.by_source
    assert not environment.inherited.targets
    assert not side.world.store.load_records(INHERITED)
    with environment.begin() as transaction:
        assert not read_format(environment.databases, transaction) - schema.FORMAT_VERSION & schema.INHERITING


STEPS: Final = OPERATIONS | st.tuples(
    st.just("send"), st.integers(1, 12), st.integers(3, 5), st.just("red"), st.just(True)
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(STEPS | RANGES | BELOW, max_size=30))
def test_inherited_messages_are_as_sent_ones(folder: Path, operations: list[tuple[object, ...]]) -> None:
    """Delivered, refused, selected, counted, read and acknowledged by numbers, purged, and through restarts."""
    shutil.rmtree(folder)
    side = InheritingSide(folder, False)
    try:
        compare(operations, NumberedInMemory(), side)
        check_accounts(side)
        check_nothing_left(side)
    finally:
        side.end()


@pytest.mark.parametrize("spills", [False, True])
def test_long_histories_are_the_same_as_well(folder: Path, spills: bool) -> None:
    """Always the same histories; hypothesis finds short ones."""
    for seed in range(25):
        shutil.rmtree(folder)
        side = InheritingSide(folder, spills)
        compare(history(seed), NumberedInMemory(), side)
        side.world.settle()
        check_accounts(side)
        check_nothing_left(side)
        side.end()
