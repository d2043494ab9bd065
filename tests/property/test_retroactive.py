"""A queue that is created on a retroactive address begins with exactly the history that a simple model has.

The model copies at once. The broker copies two messages in a turn, has windows of two messages, and crashes.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, Consumer
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.services import catching_up, retroactive
from artemis_py.core.services.services import Services
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import AddressFull
from artemis_py.store import schema
from artemis_py.store.scratch import ScratchStore
from tests.core_harness import Recorder, attach, browse_all, make_domain, make_services, make_session, settle_down
from tests.examples import examples
from tests.property.retroactive_histories import OPERATIONS, history
from tests.property.retroactive_model import Model, ModelQueue, Sent, body_of, is_alive
from tests.unit.store.world import SMALL_MAP_BYTES, World


class Pair:
    """A broker and the model; every operation is done to both."""

    def __init__(self) -> None:
        self.model = Model()
        self.number = 0
        self.sent: dict[str, Sent] = {}
        """All messages that may be in a history."""
        self.eager: dict[str, tuple[Recorder, Consumer, list[str]]] = {}
        """Queues whose consumer takes and accepts everything at once, and what it got."""
        self.transaction: Transaction | None = None
        self.kept_back: list[tuple[Sent, int, list[ModelQueue]]] = []
        """What the open transaction has, in the model."""

    @property
    def domain(self) -> Domain:
        raise NotImplementedError

    @property
    def services(self) -> Services:
        raise NotImplementedError

    @property
    def now_ms(self) -> int:
        return self.domain.dispatcher.now_ms

    def apply(self, operation: tuple[object, ...]) -> None:
        name, *arguments = operation
        getattr(self, str(name).replace(" ", "_"))(*arguments)

    def begin_with(self) -> None:
        self.domain.create_address("a", frozenset(RoutingType))

    def settings(self) -> AddressSettings:
        return AddressSettings(max_read_page_messages=2, retroactive_message_count=self.model.size)

    # -- what clients do ----------------------------------------------------------------------------------------

    def send(self, count: int, kind: int, colour: str, priority: int, durable: bool, ttl_ms: int) -> None:
        for _ in range(count):
            self.number += 1
            expires_ms = self.now_ms + ttl_ms if ttl_ms else 0
            sent = Sent(f"m{self.number}", kind, colour, priority, durable, expires_ms)
            self.sent[sent.body] = sent
            message = plain_message("a", MessageView(body=sent.body, properties={"colour": colour}), durable, priority)
            message.expires_ms = expires_ms
            message.routing_type = kind
            try:
                self.domain.route(message, self.domain.addresses["a"], transaction=self.transaction)
            except AddressFull:
                continue  # Memory is full with what the transaction keeps.
            if self.transaction is None:
                self.model.take(sent, *self.model.route(sent))
            else:
                self.kept_back.append((sent, *self.model.route(sent)))
        self.take()

    def rush(self, before: int, after: int, durable: bool) -> None:
        """Create a queue between messages, so that more come while it is catching up."""
        self.send(before, 0, "red", 4, durable, 0)
        self.create(RoutingType.MULTICAST, None, True, False)
        self.send(after, 0, "red", 4, durable, 0)

    def later(self, kind: int, durable: bool, delay_ms: int) -> None:
        """Send a message with a delivery time."""
        self.number += 1
        due_ms = self.now_ms + delay_ms
        sent = self.sent[f"later{self.number}"] = Sent(f"later{self.number}", kind, "red", 4, durable, 0, due_ms)
        message = plain_message("a", MessageView(body=sent.body, properties={"colour": "red"}), durable, 4)
        message.delivery_time_ms = due_ms
        message.routing_type = kind
        with suppress(AddressFull):
            self.domain.route(message, self.domain.addresses["a"])
            self.model.take(sent, *self.model.route(sent))

    def begin(self) -> None:
        if self.transaction is None:
            self.transaction = Transaction(self.domain.new_id(), self.now_ms)

    def end(self, commits: bool) -> None:
        """End the transaction: its messages go where they were routed to, at the commit."""
        transaction, self.transaction = self.transaction, None
        kept_back, self.kept_back = self.kept_back, []
        if transaction is not None and not commits:
            transaction.rollback()
        elif transaction is not None:
            self.domain.commit(transaction)
            for sent, history, queues in kept_back:
                self.model.take(sent, history, queues)

    def to_one(self, index: int) -> None:
        """Send to a fully qualified name: the message is in no history."""
        name = f"q{index}"
        if name in self.model.queues:
            self.number += 1
            queue = self.model.queues[name]
            sent = Sent(f"m{self.number}", -1, queue.colour or "red", 4, True, 0)
            message = plain_message("a", MessageView(body=sent.body, properties={"colour": sent.colour}), True, 4)
            with suppress(AddressFull):
                self.domain.route(message, self.domain.addresses["a"], name)
                queue.waiting.append(sent)

    def create(self, kind: RoutingType, colour: str | None, durable: bool, is_eager: bool) -> None:
        free = [name for name in (f"q{index}" for index in range(6)) if name not in self.model.queues]
        # Anycast queues of one address take turns, which the model does not follow.
        if not free or (kind is RoutingType.ANYCAST and self._anycast()):
            return
        name = free[0]
        text = None if colour is None else f"colour = '{colour}'"
        queue = self.domain.create_queue(
            QueueConfig(name=name, address="a", routing_type=kind, filter=text, durable=durable)
        )
        self.model.create(name, kind, colour, durable, self.now_ms)
        if is_eager:
            recorder = Recorder()
            consumer = attach_quietly(self.domain, queue, recorder)
            self.eager[name] = (recorder, consumer, [])

    def _anycast(self) -> bool:
        return any(queue.routing_type is RoutingType.ANYCAST for queue in self.model.queues.values())

    def resize(self, size: int) -> None:
        if size > self.model.size:
            # While queues copy, a ring has more messages than its size: when it grows then, some come back.
            self.settle()
        self.model.resize(size)
        self.domain.settings.put("a", self.settings())

    def delete(self, index: int) -> None:
        name = f"q{index}"
        if self.model.queues.pop(name, None) is not None:
            self.eager.pop(name, None)
            self.domain.delete_queue(name, force=True)

    def drain(self, index: int) -> None:
        """Consume everything that a queue has, in its order."""
        name = f"q{index}"
        if name in self.model.queues and name not in self.eager:
            self.check()
            recorder, consumer = attach(self.domain, self.domain.queues[name])
            bodies: list[str] = []
            while found := recorder.take():
                for reference in found:
                    bodies.append(body_of(reference))
                    assert reference.message.address == "a"
                    consumer.settle(reference, ACCEPTED)
                # While memory is full a consumer gets the next message when it has settled the one before.
                settle_down(self.domain)
            consumer.close()
            self.compare(name, bodies)
            waiting = self.model.queues[name].waiting
            waiting[:] = [sent for sent in waiting if sent.due_ms > self.now_ms]

    def take(self) -> int:
        """Accept what eager consumers have; return how many messages that were."""
        count = 0
        for recorder, consumer, got in self.eager.values():
            for reference in recorder.take():
                got.append(body_of(reference))
                consumer.settle(reference, ACCEPTED)
                count += 1
        return count

    # -- what the broker does ---------------------------------------------------------------------------------

    def wait(self, milliseconds: int) -> None:
        self.domain.dispatcher.now_ms += milliseconds

    def scan(self) -> None:
        for queue in list(self.domain.queues.values()):
            queue.expiry.expire_due()
            while not queue.expiry.sweep(2):
                pass
        self.model.expire(self.now_ms)

    def turn(self) -> None:
        """Run one iteration of the loop: one slice of a copy."""
        self.domain.dispatcher.run()
        self.take()

    def commit(self) -> None:
        self.turn()

    def restart(self) -> None:
        self.check()

    def crash(self) -> None:
        self.check()

    def check_empty(self) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        settle_down(self.domain)
        self.domain.dispatcher.handle_deadlines()
        settle_down(self.domain)
        while self.take():
            settle_down(self.domain)

    def compare(self, name: str, bodies: list[str]) -> None:
        """Check what a queue delivers: everything in order, but for messages with a delivery time.

        They come when they are due: in the model behind all others.
        """
        waiting = [sent for sent in self.model.queues[name].waiting if is_alive(sent, self.now_ms)]
        ordered = [sent.body for sent in sorted(waiting, key=lambda sent: -sent.priority) if not sent.due_ms]
        assert [body for body in bodies if not body.startswith("later")] == ordered, name
        due = [sent.body for sent in waiting if 0 < sent.due_ms <= self.now_ms]
        assert sorted(body for body in bodies if body.startswith("later")) == sorted(due), name

    def check(self) -> None:
        """Let everything be copied; then each queue has what the model has, in that order."""
        self.settle()
        assert self.services.retroactive.catching_up == 0
        for name, wanted in self.model.queues.items():
            if name in self.eager:
                self._check_eager(name, wanted)
            else:
                waiting = [each.message for each in browse_all(self.domain.queues[name])]
                alive = [each for each in waiting if not 0 < each.expires_ms <= self.now_ms]
                self.compare(name, [str(each.view.body) for each in alive])
                assert {each.address for each in waiting} <= {"a"}
        self._check_histories()

    def _check_eager(self, name: str, wanted: ModelQueue) -> None:
        """Compare what a consumer got, which took messages while they were copied: the order within a priority.

        A message that expired in time may have been consumed before.
        """
        got = self.eager[name][2]
        due = {sent.body for sent in wanted.waiting if 0 < sent.due_ms <= self.now_ms}
        assert due <= set(got)
        sure = [sent for sent in wanted.waiting if sent.expires_ms == 0 and sent.due_ms == 0]
        bodies = {sent.body for sent in sure}
        for priority in range(10):
            mine = [sent.body for sent in sure if sent.priority == priority]
            assert [body for body in got if body in set(mine)] == mine, (name, priority)
        assert len(got) == len(set(got))
        assert bodies <= set(got)

    def _check_histories(self) -> None:
        """The rings have what the model has, and there is nothing else below the prefix."""
        prefix = self.domain.options.internal_naming_prefix
        names = {name for name in self.domain.queues if name.startswith(prefix)}
        if self.model.size == 0:
            assert names == set()
            assert [name for name in self.domain.addresses if name.startswith(prefix)] == []
            return
        history = self.services.retroactive.history("a")
        assert history is not None
        assert names == {history.multicast.name, history.anycast.name}
        for kind, ring in self.model.rings.items():
            found = [each.message.view.body for each in browse_all(history.ring(kind))]
            assert found == [sent.body for sent in ring], kind


def attach_quietly(domain: Domain, queue: Queue, recorder: Recorder) -> Consumer:
    """A consumer with credit; nothing is delivered yet."""
    consumer = make_session(domain).consume(queue, recorder)
    consumer.grant(1000)
    return consumer


class InMemory(Pair):
    """Without a store; what exceeds the limit of memory goes to scratch files."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.scratch = ScratchStore(folder, SMALL_MAP_BYTES)
        self._domain = make_domain({"a": self.settings()}, scratch=self.scratch)
        self._domain.dispatcher.account.set_limits(6000, -1)
        self._services = make_services(self._domain)
        self.begin_with()

    @property
    def domain(self) -> Domain:
        return self._domain

    @property
    def services(self) -> Services:
        return self._services

    def check_empty(self) -> None:
        """Nothing is left of the address in any account."""
        self.domain.delete_address("a", force=True)
        settle_down(self.domain)
        assert (self.domain.addresses, self.domain.queues, self.domain.others) == ({}, {}, {})
        assert (self.domain.account.size_bytes, self.domain.account.message_count) == (0, 0)

    def close(self) -> None:
        self.scratch.close()


class OnDisk(Pair):
    """With a store, windows of two messages, and crashes."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self._open(0)
        self.begin_with()
        self.commit()

    def _open(self, now_ms: int) -> None:
        self.world = World(self.folder / "journal", {"a": self.settings()})
        self.world.domain.dispatcher.now_ms = max(now_ms, self.world.domain.dispatcher.now_ms)
        self.world.services.retroactive.restore()

    @property
    def domain(self) -> Domain:
        return self.world.domain

    @property
    def services(self) -> Services:
        return self.world.services

    def commit(self) -> None:
        """Make durable what happened so far, in the middle of whatever is being copied."""
        hands = self.world.hands
        while hands.planned or hands.jobs:
            hands.turn()
            while hands.jobs:
                hands.work()
        self.take()
        while hands.planned or hands.jobs:
            hands.turn()
            while hands.jobs:
                hands.work()
        self.kept = self.model.copy()
        self.was_copying = self.services.retroactive.catching_up > 0
        self.kept_got = {name: list(got) for name, (_, _, got) in self.eager.items()}

    def restart(self) -> None:
        self.commit()
        self.crash()

    def crash(self) -> None:
        """Go back to the last commit, without what is not durable."""
        now_ms = self.now_ms
        self.world.crash()
        self.transaction, self.kept_back = None, []
        self.model = self.kept.copy()
        self.model.lose()
        # The settings are those of the configuration, whatever was in force at the last commit.
        self._open(now_ms)
        if self.was_copying and self.model.size:
            self._follow_histories()
        self.eager = {}
        for name, got in self.kept_got.items():
            if name in self.model.queues:
                recorder = Recorder()
                consumer = attach_quietly(self.domain, self.domain.queues[name], recorder)
                self.eager[name] = (recorder, consumer, list(got))

    def _follow_histories(self) -> None:
        """Take over what the rings have in front of what the model has.

        While queues copy, nothing that they need is evicted. If the newer messages do not survive a restart, older
        ones take their places.
        """
        history = self.services.retroactive.history("a")
        if history is None:
            return
        settle_down(self.domain)
        for kind, ring in self.model.rings.items():
            found = [self.sent[body_of(each)] for each in browse_all(history.ring(kind))]
            assert found[len(found) - len(ring) :] == ring
            ring[:] = found[-self.model.size :]

    def settle(self) -> None:
        self.world.settle()
        super().settle()
        self.world.settle()
        self.commit()

    def check_empty(self) -> None:
        """Nothing is left of the address in the store."""
        self.world.audit()
        self.domain.delete_address("a", force=True)
        self.world.settle()
        self.world.audit()
        for database in (schema.REFERENCES, schema.MESSAGES, schema.ADDRESSES, schema.QUEUES):
            assert self.world.count(database) == 0
        assert self.world.store.load_records(catching_up.SPACE) == []

    def close(self) -> None:
        self.world.crash()


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying any history takes many turns."""
    monkeypatch.setattr(retroactive, "AT_ONCE", 1)
    for name, value in (("SLICE", 1), ("AT_A_TIME", 2), ("PER_ARRIVAL", 1), ("UNSTORED_MESSAGES", 3)):
        monkeypatch.setattr(catching_up, name, value)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One for all examples: hypothesis calls the test often."""
    path = Path(tempfile.mkdtemp())
    yield path
    shutil.rmtree(path, ignore_errors=True)


def follow(pair: Pair, operations: list[tuple[object, ...]]) -> None:
    """Do everything, and check what is there in the end."""
    for operation in operations:
        pair.apply(operation)
    pair.end(False)
    pair.check()
    pair.check_empty()


def fresh(folder: Path) -> Path:
    """The folder, empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS, min_size=8, max_size=30))
def test_a_new_queue_begins_with_the_history_in_memory(folder: Path, operations: list[tuple[object, ...]]) -> None:
    """Without a store, and with messages in scratch files."""
    pair = InMemory(fresh(folder))
    try:
        follow(pair, operations)
    finally:
        pair.close()


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS, min_size=8, max_size=30))
def test_a_new_queue_begins_with_the_history_on_disk(folder: Path, operations: list[tuple[object, ...]]) -> None:
    """Whatever is committed, crashes and comes back, each queue has each message once."""
    pair = OnDisk(fresh(folder))
    try:
        follow(pair, operations)
    finally:
        pair.close()


@pytest.mark.parametrize("kind", [InMemory, OnDisk])
def test_longer_histories_are_exact_as_well(folder: Path, kind: type[InMemory] | type[OnDisk]) -> None:
    """Always the same ones; hypothesis finds short ones."""
    for seed in range(250):
        pair = kind(fresh(folder))
        try:
            follow(pair, history(seed))
        finally:
            pair.close()
