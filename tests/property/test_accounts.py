"""Accounts of memory say what is held, after every step of any history."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues import bulk
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, REJECTED, RELEASED, Consumer
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.errors import AddressFull
from artemis_py.store.scratch import ScratchStore
from tests.core_harness import Recorder, attach, make_queue, make_session, pass_time, settle_down
from tests.examples import examples
from tests.memory_harness import check_held
from tests.unit.store.world import SMALL_MAP_BYTES, World

# Two durable queues and one that is not on one address, a wildcard that gets the same, and where dead letters go.
QUEUES: Final = {"t.1": ("a", "b", "volatile"), "t.#": ("wild",), "DLQ": ("DLQ",), "gone": ("gone",)}

OPERATIONS: Final = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 8), st.booleans(), st.sampled_from((0, 0, 5, 20))),
    st.tuples(st.just("send"), st.integers(1, 8), st.booleans(), st.just(0)),
    st.tuples(st.just("later"), st.integers(1, 6), st.integers(1, 30), st.booleans()),
    st.tuples(st.just("sent_in_transaction"), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("settle_in_transaction"), st.integers(0, 5)),
    st.tuples(st.just("end_transaction"), st.booleans()),
    st.tuples(st.just("attach"), st.sampled_from(("a", "b", "volatile", "wild", "DLQ")), st.booleans()),
    st.tuples(st.just("credit"), st.integers(0, 5), st.integers(1, 6)),
    st.tuples(st.just("settle"), st.integers(0, 5), st.sampled_from((ACCEPTED, RELEASED, FAILED, REJECTED))),
    st.tuples(st.just("detach"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("purge"), st.sampled_from(("a", "wild", "volatile"))),
    st.tuples(st.just("remove"), st.sampled_from(("a", "wild", "volatile"))),
    st.tuples(st.just("recreate"), st.sampled_from(("a", "b", "wild", "volatile"))),
    st.tuples(st.just("expire"), st.integers(1, 20)),
    st.tuples(st.just("cut")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("restart")),
)

SETTINGS: Final = {
    "#": AddressSettings(max_delivery_attempts=2, dead_letter_address="DLQ", expiry_address="DLQ"),
    "t.#": AddressSettings(max_read_page_messages=3, redelivery_delay=5),
}


class Broker:
    """One domain and its clients."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self.options = BrokerSettings(global_max_size_bytes=limit_bytes)
        self.now_ms = 0
        self.start()

    def start(self) -> None:
        self.scratch = ScratchStore(self.folder / "scratch", SMALL_MAP_BYTES)
        self.world = World(self.folder / "journal", SETTINGS, self.options, scratch=self.scratch)
        self.domain = self.world.domain
        self.domain.dispatcher.now_ms = max(self.now_ms, self.domain.dispatcher.now_ms)
        self.session: Session = make_session(self.domain)
        self.transaction: Transaction | None = None
        self.consumers: list[tuple[Recorder, Consumer, list[Reference]]] = []
        for address, names in QUEUES.items():
            for name in names:
                self.make(name, address)

    def make(self, name: str, address: str) -> None:
        if name not in self.domain.queues:
            kind = RoutingType.ANYCAST if name == address else RoutingType.MULTICAST
            queue = make_queue(self.domain, name, kind, address=address, durable=name != "volatile")
            queue.schedule.window_messages = 2

    def apply(self, operation: tuple[object, ...]) -> None:
        name, *arguments = operation
        getattr(self, str(name))(*arguments)
        settle_down(self.domain)
        for recorder, _, unsettled in self.consumers:
            unsettled += recorder.take()

    def message(self, durable: bool) -> Message:
        return plain_message("t.1", MessageView(body="some text"), durable)

    def route(self, message: Message, transaction: Transaction | None = None) -> None:
        with suppress(AddressFull):
            self.domain.route(message, self.domain.addresses["t.1"], "", transaction)

    def send(self, count: int, durable: bool, expires_ms: int) -> None:
        for _ in range(count):
            message = self.message(durable)
            message.expires_ms = self.domain.dispatcher.now_ms + expires_ms if expires_ms else 0
            self.route(message)

    def later(self, count: int, delay_ms: int, durable: bool) -> None:
        for _ in range(count):
            message = self.message(durable)
            message.delivery_time_ms = self.domain.dispatcher.now_ms + delay_ms
            self.route(message)

    def sent_in_transaction(self, count: int, durable: bool) -> None:
        if self.transaction is None:
            self.transaction = self.session.begin()
        for _ in range(count):
            self.route(self.message(durable), self.transaction)

    def settle_in_transaction(self, index: int) -> None:
        if self.transaction is not None and index < len(self.consumers) and self.consumers[index][2]:
            self.transaction.settle(self.consumers[index][2].pop(), ACCEPTED)

    def end_transaction(self, commits: bool) -> None:
        transaction, self.transaction = self.transaction, None
        if transaction is not None:
            (self.session.commit if commits else self.session.rollback)(transaction)

    def attach(self, name: str, picks: bool) -> None:
        if len(self.consumers) < 6:
            wanted = parse_filter("AMQPriority = 4") if picks else None
            recorder, consumer = attach(self.domain, self.domain.queues[name], 1, filter=wanted)
            self.consumers.append((recorder, consumer, []))

    def credit(self, index: int, credit: int) -> None:
        if index < len(self.consumers):
            self.consumers[index][1].grant(credit)

    def settle(self, index: int, outcome: int) -> None:
        if index < len(self.consumers) and self.consumers[index][2]:
            _, consumer, unsettled = self.consumers[index]
            consumer.settle(unsettled.pop(), outcome)

    def detach(self, index: int, failed: bool) -> None:
        if index < len(self.consumers):
            self.consumers.pop(index)[1].close(failed)

    def purge(self, name: str) -> None:
        self.domain.queues[name].purge()

    def remove(self, name: str) -> None:
        steps = bulk.remove(self.domain.queues[name], parse_filter("AMQPriority = 4"))
        self.domain.dispatcher.slices.start(steps, lambda result: None)

    def recreate(self, name: str) -> None:
        address = self.domain.queues[name].address.name
        self.consumers = [each for each in self.consumers if each[1].queue.name != name]
        if self.transaction is not None:
            self.end_transaction(False)
        self.domain.delete_queue(name, force=True)
        settle_down(self.domain)
        self.make(name, address)

    def expire(self, milliseconds: int) -> None:
        pass_time(self.domain, milliseconds)
        for queue in list(self.domain.queues.values()):
            queue.expiry.expire_due()

    def cut(self) -> None:
        self.world.hands.turn()

    def commit(self) -> None:
        self.world.settle()

    def restart(self) -> None:
        self.session.close()
        self.world.settle()
        self.now_ms = self.domain.dispatcher.now_ms
        self.end()
        self.start()
        pass_time(self.domain, 0)

    def end(self) -> None:
        self.world.crash()
        self.scratch.close()

    def empty(self) -> None:
        """Everything goes."""
        self.session.close()
        for _, consumer, _ in self.consumers:
            consumer.close()
        settle_down(self.domain)
        for queue in self.domain.queues.values():
            queue.purge()
        self.world.settle()


def live(broker: Broker, operations: list[tuple[object, ...]]) -> None:
    """Hold the accounts against what is held, from step to step and at the end."""
    try:
        for operation in operations:
            broker.apply(operation)
            check_held(broker.domain, sessions=(broker.session,))
        broker.empty()
        check_held(broker.domain, sessions=(broker.session,))
        assert broker.domain.account.size_bytes == 0
        for address in broker.domain.addresses.values():
            assert (address.size_bytes, address.message_count) == (0, 0)
            assert (address.paged_bytes, address.paged_count) == (0, 0)
    finally:
        broker.end()


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done to all of a queue takes many turns."""
    monkeypatch.setattr(bulk, "SLICE_MESSAGES", 3)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One for all examples: hypothesis calls the test often."""
    path = Path(tempfile.mkdtemp())
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("limit_bytes", [-1, 6_000], ids=["roomy", "tight"])
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS, min_size=12, max_size=40))
def test_accounts_say_what_is_held(folder: Path, limit_bytes: int, operations: list[tuple[object, ...]]) -> None:
    """Through paging, expiry, purging, deletion, transactions, redelivery, dead letters and restarts."""
    shutil.rmtree(folder)
    live(Broker(folder, limit_bytes), operations)


@pytest.mark.parametrize("limit_bytes", [-1, 6_000, 20_000])
def test_accounts_say_what_is_held_in_long_histories(folder: Path, limit_bytes: int) -> None:
    """Always the same histories, of a hundred steps."""
    for seed in range(30):
        dice = Random(seed)
        operations: list[tuple[object, ...]] = []
        for _ in range(100):
            operations.append(dice.choice(EXAMPLES)(dice))
        shutil.rmtree(folder)
        live(Broker(folder, limit_bytes), operations)


EXAMPLES: Final = (
    lambda dice: ("send", dice.randint(1, 12), dice.random() < 0.6, dice.choice((0, 0, 0, 5))),
    lambda dice: ("send", dice.randint(1, 12), dice.random() < 0.6, 0),
    lambda dice: ("later", dice.randint(1, 6), dice.randint(1, 30), dice.random() < 0.6),
    lambda dice: ("sent_in_transaction", dice.randint(1, 4), dice.random() < 0.6),
    lambda dice: ("settle_in_transaction", dice.randint(0, 5)),
    lambda dice: ("end_transaction", dice.random() < 0.6),
    lambda dice: ("attach", dice.choice(("a", "b", "volatile", "wild", "DLQ")), dice.random() < 0.3),
    lambda dice: ("credit", dice.randint(0, 5), dice.randint(1, 6)),
    lambda dice: ("credit", dice.randint(0, 5), dice.randint(1, 6)),
    lambda dice: ("settle", dice.randint(0, 5), dice.choice((ACCEPTED, ACCEPTED, RELEASED, FAILED, REJECTED))),
    lambda dice: ("settle", dice.randint(0, 5), dice.choice((ACCEPTED, RELEASED, FAILED))),
    lambda dice: ("expire", dice.randint(1, 20)),
    lambda dice: ("cut",),
    lambda dice: ("commit",),
    lambda dice: dice.choice(
        [("purge", "a"), ("remove", "wild"), ("recreate", "b"), ("restart",), ("detach", 0, True), ("detach", 1, False)]
    ),
)
