"""Answers that wait for a store, asked once for all of them."""

from collections.abc import Callable
from typing import Any

import pytest

from artemis_py.core.runtime.announcement import Announcement, Announcements
from artemis_py.wire.answers import Answers
from artemis_py.wire.outbox import Outbox


class Store:
    """Keeps what it is asked; the test says when that is durable."""

    def __init__(self) -> None:
        self.asked: list[tuple[Callable[[], None], Callable[[str], None]]] = []

    def when_durable(self, callback: Callable[[], None], failed: Callable[[str], None]) -> None:
        self.asked.append((callback, failed))


class Connection:
    """What a handler has of the kit."""

    def __init__(self) -> None:
        store: Any = Store()
        self.store: Store = store
        self.woken = 0
        self.is_over = False
        self.failures: list[str] = []
        self.outbox = Outbox(100, self.wake)
        self.announcements = Announcements()
        self.answers = Answers(store, self.outbox, lambda: self.is_over, self.failures.append, self.announcements)

    def wake(self) -> None:
        self.woken += 1

    def answer(self, text: bytes) -> None:
        self.answers.when_durable(lambda: self.outbox.write(text))


@pytest.fixture
def connection() -> Connection:
    return Connection()


def test_the_store_is_asked_once_and_answers_keep_their_order(connection: Connection) -> None:
    connection.answers.ask_store()
    connection.answer(b"1")
    connection.answer(b"2")
    connection.answers.ask_store()
    connection.answers.ask_store()
    connection.answer(b"3")
    connection.answers.ask_store()

    assert (len(connection.store.asked), connection.answers.asked, connection.outbox.take()) == (2, 2, b"")
    for durable, _ in connection.store.asked:
        durable()
    assert connection.outbox.take() == b"123"
    assert connection.woken > 0


def test_output_behind_an_answer_waits_with_it(connection: Connection) -> None:
    connection.outbox.write(b"before")
    connection.outbox.write(b"attached")
    connection.answers.hold_output_from(1)
    connection.answers.ask_store()
    connection.outbox.write(b"behind")

    assert connection.outbox.take() == b"before"
    connection.woken = 0
    connection.store.asked[0][0]()
    assert connection.outbox.take() == b"attachedbehind"
    assert connection.woken > 0


def test_nobody_hears_an_answer_after_the_end(connection: Connection) -> None:
    connection.answer(b"1")
    connection.answers.ask_store()
    connection.is_over = True
    durable, failed = connection.store.asked[0]
    durable()
    failed("disk full")

    assert (connection.outbox.take(), connection.failures) == (b"", [])


def test_a_failed_store_says_that_nobody_knows(connection: Connection) -> None:
    connection.answer(b"1")
    connection.answers.ask_store()
    connection.store.asked[0][1]("disk full")

    assert connection.failures == ["the store failed: disk full; what was not answered may be stored or not"]
    assert connection.outbox.take() == b""


def test_answers_wait_for_an_announcement_and_later_ones_behind_them(connection: Connection) -> None:
    """An answer that promises what other nodes must know waits for both, in any order, and keeps its place."""
    announcement = connection.announcements.fresh = Announcement()
    connection.answer(b"1")
    connection.answers.ask_store()
    connection.answer(b"2")
    connection.answers.ask_store()
    for durable, _ in connection.store.asked:
        durable()

    assert connection.announcements.fresh is None
    assert connection.outbox.take() == b""
    announcement.end()
    assert connection.outbox.take() == b"12"


def test_an_announcement_that_is_over_holds_nothing_up(connection: Connection) -> None:
    announcement = connection.announcements.fresh = Announcement()
    connection.answer(b"1")
    connection.answers.ask_store()
    announcement.end()

    ((durable, _),) = connection.store.asked
    durable()
    assert connection.outbox.take() == b"1"


def test_an_announcement_waits_for_the_first_connection_with_answers(connection: Connection) -> None:
    """One without answers leaves it to the next."""
    announcement = connection.announcements.fresh = Announcement()
    connection.answers.ask_store()

    assert connection.announcements.fresh is announcement
