"""What every store does: the same tests for the one that keeps nothing and the one on disk."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.syntax import MatchHierarchy
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, REJECTED
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.page import Place
from artemis_py.core.queues.storage import Storage
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.store.memory import MemoryStore
from tests.core_harness import START_MS, attach, make_queue, settle_down
from tests.unit.store.world import World


class Rig:
    """A domain on the store under test, and how its commits are made to happen."""

    def __init__(self, domain: Domain, settle: Callable[[], None]) -> None:
        self.domain = domain
        self.storage: Storage = domain.storage
        self.settle = settle

    def send(self, address: str, body: str) -> None:
        message = plain_message(address, MessageView(body=body))
        message.durable = True
        self.domain.route(message, self.domain.addresses[address])


@pytest.fixture(params=["memory", "lmdb"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """One for each store."""
    if request.param == "memory":
        hierarchy: MatchHierarchy[AddressSettings] = MatchHierarchy(BrokerSettings().wildcards)
        domain = Domain(SettingsRepository(hierarchy), Dispatcher(MemoryStore()))
        domain.dispatcher.now_ms = START_MS
        yield Rig(domain, lambda: None)
    else:
        with World(tmp_path) as world:
            yield Rig(world.domain, world.settle)


def test_callbacks_keep_their_order(rig: Rig) -> None:
    """What was put first is confirmed first."""
    make_queue(rig.domain)
    told: list[int] = []

    for number in range(3):
        rig.send("q", str(number))
        rig.storage.when_durable(lambda number=number: told.append(number))  # type: ignore[misc]
    rig.settle()

    assert told == [0, 1, 2]


def test_with_nothing_to_wait_for_the_callback_runs_at_once(rig: Rig) -> None:
    """A message that no durable queue takes is answered without a commit."""
    rig.settle()
    told: list[bool] = []

    rig.storage.when_durable(lambda: told.append(True))

    assert told == [True]


def test_a_callback_may_ask_again(rig: Rig) -> None:
    """An answer that leads to the next question does not disturb the order."""
    make_queue(rig.domain)
    rig.settle()
    told: list[str] = []

    def first() -> None:
        told.append("first")
        rig.send("q", "two")
        rig.storage.when_durable(lambda: told.append("second"))

    rig.send("q", "one")
    rig.storage.when_durable(first)
    rig.settle()

    assert told == ["first", "second"]


@pytest.mark.parametrize("outcome", [ACCEPTED, FAILED, REJECTED])
def test_every_outcome_is_taken_whatever_was_committed_before(rig: Rig, outcome: int) -> None:
    """Settling races with the commit of the message: both orders are ordinary."""
    queue = make_queue(rig.domain)
    recorder, consumer = attach(rig.domain, queue)
    for body in ("before", "after"):
        rig.send("q", body)
        settle_down(rig.domain)
        (reference,) = recorder.take()
        if body == "after":
            rig.settle()
        consumer.grant(0)
        consumer.settle(reference, outcome)
        rig.settle()
        queue.purge()
        consumer.grant(10)

    rig.settle()

    assert queue.message_count == 0


def test_resources_come_and_go(rig: Rig) -> None:
    """Creating and deleting in one turn, or with a commit between, is the same to the core."""
    for between in (rig.settle, lambda: None):
        make_queue(rig.domain, "a")
        rig.send("a", "m")
        between()
        rig.domain.queue("a").pause()
        rig.domain.pause_address("a", True)
        between()
        rig.domain.delete_address("a", force=True)
        rig.settle()

    assert not rig.domain.queues


def test_records_come_and_go(rig: Rig) -> None:
    """A record is saved, replaced and forgotten; one that never was may be forgotten as well."""
    rig.storage.save_record("space", b"key", b"one")
    rig.storage.save_record("space", b"key", b"two")
    rig.settle()
    rig.storage.save_record("space", b"key", None)
    rig.storage.save_record("space", b"other", None)
    told: list[bool] = []
    rig.storage.when_durable(lambda: told.append(True))
    rig.settle()

    assert told == [True]
    assert rig.storage.load_records("space") == []


def test_last_values_are_found_or_in_memory(rig: Rig) -> None:
    """Whatever a store shows of a key, the queue keeps one message of it, and the store none that is gone."""
    queue = make_queue(rig.domain, last_value_key="key")
    for number in range(40):
        view = MessageView(body=f"m{number}", properties={"key": str(number % 10)})
        rig.domain.route(plain_message("q", view, durable=True), rig.domain.addresses["q"])
        if number % 7 == 0:
            rig.settle()
    rig.settle()

    assert (queue.message_count, queue.messages_replaced) == (10, 30)
    shown = [rig.storage.find_last(queue, b"%d" % number) for number in range(10)]
    for number, place in enumerate(shown):
        if place is not None:
            assert place.sequence == 31 + number
    assert rig.storage.find_last(queue, b"unknown") is None

    queue.purge()
    settle_down(rig.domain)
    rig.settle()

    assert [rig.storage.find_last(queue, b"%d" % number) for number in range(10)] == [None] * 10


def test_a_place_is_removed_without_its_message(rig: Rig) -> None:
    """For the store alone: the queue is not asked. A store that keeps nothing has no places."""
    queue = make_queue(rig.domain, last_value_key="key")
    view = MessageView(body="m", properties={"key": "a"})
    rig.domain.route(plain_message("q", view, durable=True), rig.domain.addresses["q"])
    rig.settle()
    place = rig.storage.find_last(queue, b"a")
    assert (place is not None) == rig.storage.is_durable

    rig.storage.remove_at(queue, place or Place(5, 1, 0), b"a")
    rig.settle()

    assert rig.storage.find_last(queue, b"a") is None
