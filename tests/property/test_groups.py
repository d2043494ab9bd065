"""Message groups keep their order and have one owner at a time, and nobody waits who could be served."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final
from zlib import crc32

import pytest
from attrs import define, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_amqp.broker.termini import SuspendedSource
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues import bulk
from artemis_py.core.queues.consumer import ACCEPTED, FAILED, RELEASED, Consumer, Sink
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.rules import group_lists
from artemis_py.core.queues.rules.groups import Groups
from artemis_py.core.routing.domain import Domain
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import make_domain, make_queue, make_session, settle_down
from tests.examples import examples
from tests.unit.store.world import World

NAMES: Final = ("a", "b", "c", "d", None)
COLOURS: Final = ("red", "green")
CLOSE: Final = 0xFFFFFFFF

OPERATIONS: Final = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 8), st.sampled_from(NAMES), st.integers(3, 5), st.booleans()),
    st.tuples(st.just("send"), st.integers(1, 8), st.sampled_from(NAMES), st.just(4), st.just(True)),
    st.tuples(st.just("close_group"), st.sampled_from(NAMES)),
    st.tuples(st.just("attach"), st.sampled_from((None, None, None, *COLOURS)), st.integers(0, 1)),
    st.tuples(st.just("credit"), st.integers(0, 4), st.integers(0, 6)),
    st.tuples(st.just("credit"), st.integers(0, 4), st.integers(1, 3)),
    st.tuples(st.just("settle"), st.integers(0, 4), st.sampled_from((ACCEPTED, ACCEPTED, RELEASED, FAILED))),
    st.tuples(st.just("settle"), st.integers(0, 4), st.sampled_from((ACCEPTED, RELEASED))),
    st.tuples(st.just("hide"), st.integers(0, 4)),
    st.tuples(st.just("detach"), st.integers(0, 4), st.booleans()),
    st.tuples(st.just("linger"), st.integers(0, 4)),
    st.tuples(st.just("unlinger"), st.integers(0, 1), st.booleans()),
    st.tuples(st.just("reset"), st.sampled_from((*NAMES, "*"))),
    st.tuples(st.just("change"), st.sampled_from(({"group_buckets": 2}, {"group_buckets": -1}))),
    st.tuples(st.just("change"), st.sampled_from(({"group_rebalance": True}, {"group_rebalance": False}))),
    st.tuples(st.just("change"), st.sampled_from(({"group_rebalance_pause_dispatch": True},))),
    st.tuples(st.just("purge"), st.sampled_from((None, *COLOURS))),
    st.tuples(st.just("cut")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("restart")),
)


def history(seed: int) -> list[tuple[object, ...]]:
    """A longer one, with deeper queues than hypothesis comes to by itself."""
    dice = Random(seed)
    often: list[Callable[[], tuple[object, ...]]] = [
        lambda: ("send", dice.randint(3, 12), dice.choice(NAMES), dice.choice((3, 4, 4, 4, 5)), dice.random() < 0.7),
        lambda: ("send", dice.randint(1, 3), dice.choice(NAMES), 4, True),
        lambda: ("credit", dice.randint(0, 4), dice.randint(1, 6)),
        lambda: ("settle", dice.randint(0, 4), dice.choice((ACCEPTED, ACCEPTED, RELEASED, FAILED))),
        lambda: ("settle", dice.randint(0, 4), ACCEPTED),
        lambda: ("attach", dice.choice((None, None, None, "red")), dice.randint(0, 1)),
        lambda: ("commit",),
    ]
    rare: list[Callable[[], tuple[object, ...]]] = [
        lambda: ("detach", dice.randint(0, 4), dice.random() < 0.5),
        lambda: ("linger", dice.randint(0, 4)),
        lambda: ("unlinger", dice.randint(0, 1), dice.random() < 0.5),
        lambda: ("close_group", dice.choice(NAMES)),
        lambda: ("hide", dice.randint(0, 4)),
        lambda: ("reset", dice.choice((*NAMES, "*"))),
        lambda: ("change", {"group_buckets": dice.choice((-1, 2))}),
        lambda: ("change", {"group_rebalance": dice.random() < 0.5}),
        lambda: ("change", {"group_rebalance_pause_dispatch": dice.random() < 0.5}),
        lambda: ("purge", dice.choice((None, "red"))),
        lambda: ("restart",),
    ]
    return [dice.choice(rare)() if dice.random() < 0.15 else dice.choice(often)() for _ in range(120)]


@define(eq=False)
class Sent:
    """A message that the test sent."""

    order: tuple[int, int]
    name: str | None
    colour: str
    durable: bool
    closes: bool
    holder: "Client | None" = None
    """The client that has it; None: it waits."""
    hidden_from: set[int] = field(factory=set)


class Client(Sink):
    """A consumer, checked with every message it gets."""

    def __init__(self, side: "Side", colour: str | None, priority: int) -> None:
        self.side = side
        self.colour = colour
        self.unsettled: list[Reference] = []
        self.terminus: SuspendedSource | None = None
        selector = None if colour is None else parse_filter(f"colour = '{colour}'")
        # Attached last: it may be asked for by then.
        self.consumer: Consumer = make_session(side.domain).consume(
            side.queue, self, filter=selector, priority=priority
        )

    def wants(self, sent: Sent) -> bool:
        return self.colour in (None, sent.colour) and self.consumer.id not in sent.hidden_from

    def deliver(self, reference: Reference) -> None:
        self.side.check_delivery(self, self.side.sent[str(reference.message.view.body)])
        self.unsettled.append(reference)

    def drained(self) -> None:
        raise AssertionError("nobody drains")

    def ended(self, reason: str) -> None:
        raise AssertionError(reason)


class Side:
    """A queue, its clients, and what the test knows of both."""

    def __init__(self, domain: Domain) -> None:
        self.sent: dict[str, Sent] = {}
        self.clients: list[Client] = []
        self.lingering: list[Client] = []
        self.owners: dict[str, Client] = {}
        self.buckets = -1
        self.rebalances = False
        self.pauses = False
        self.is_paused = False
        self.take_over(domain)

    def take_over(self, domain: Domain) -> None:
        self.domain = domain
        self.queue = domain.queues["q"] if "q" in domain.queues else make_queue(domain)

    # -- what must be true -------------------------------------------------------------------------------------

    def group(self, sent: Sent) -> str | None:
        if sent.name is None or self.buckets < 0:
            return sent.name
        return str(crc32(sent.name.encode()) % self.buckets)

    def waiting(self, group: str | None, client: Client) -> list[Sent]:
        found = [each for each in self.sent.values() if each.holder is None and self.group(each) == group]
        return sorted((each for each in found if client.wants(each)), key=lambda each: each.order)

    def holders(self, group: str) -> set[Client]:
        return {each.holder for each in self.sent.values() if each.holder is not None and self.group(each) == group}

    def check_delivery(self, client: Client, sent: Sent) -> None:
        """It is the first that waits of its group, and nobody else owns the group or has some of it."""
        group = self.group(sent)
        assert sent.holder is None
        assert not self.is_paused
        assert client.wants(sent)
        assert self.waiting(group, client)[0] is sent, "out of order"
        if group is not None:
            assert self.owners.get(group, client) is client, "not the owner"
            assert self.holders(group) <= {client}, "another consumer has some"
            assert group in self.owners or not self.holders(group), "the last owner has some"
            if sent.closes:
                self.owners.pop(group, None)
            else:
                self.owners[group] = client
        sent.holder = client

    def check_liveness(self) -> None:
        """Nobody with credit could be served; numbers agree."""
        counts = [each.holder is not None for each in self.sent.values()]
        assert (self.queue.waiting_count, self.queue.delivering_count) == (counts.count(False), counts.count(True))
        if self.is_paused:
            return
        for client in self.clients:
            if client.consumer.credit > 0:
                for group in {self.group(each) for each in self.sent.values() if each.holder is None}:
                    owner = None if group is None else self.owners.get(group)
                    if group is None or owner is client or (owner is None and not self.holders(group)):
                        assert not self.waiting(group, client), f"{group} waits in vain"

    # -- operations --------------------------------------------------------------------------------------------

    def apply(self, operation: tuple[object, ...], number: int) -> None:
        name, *arguments = operation
        getattr(self, str(name), lambda *_: None)(*arguments, number)
        settle_down(self.domain)
        self.check_liveness()

    def send(self, count: int, name: str | None, priority: int, durable: bool, number: int) -> None:
        for index in range(count):
            self._route(f"{number}.{index}", (9 - priority, number * 100 + index), name, durable, False)

    def close_group(self, name: str | None, number: int) -> None:
        self._route(f"{number}", (5, number * 100), name, True, True)

    def _route(self, body: str, order: tuple[int, int], name: str | None, durable: bool, closes: bool) -> None:
        colour = COLOURS[len(self.sent) % 2]
        self.sent[body] = Sent(order, name, colour, durable, closes and name is not None)
        view = MessageView(body=body, group_id=name, properties={"colour": colour})
        view.group_sequence = CLOSE if closes else None
        self.domain.route(plain_message("q", view, durable, 9 - order[0]), self.domain.addresses["q"])

    def attach(self, colour: str | None, priority: int, number: int) -> None:
        if len(self.clients) < 5:
            busy = any(each.holder is not None for each in self.sent.values())
            rule = self.queue.assignment
            # A rule comes with the first message of a group, and then knows of groups.
            knows_groups = isinstance(rule, Groups) and len(rule.table.groups) > 0
            self.clients.append(Client(self, colour, priority))
            if self.rebalances and knows_groups:
                if self.pauses and busy:
                    self.is_paused = True
                else:
                    self.owners.clear()

    def credit(self, index: int, credit: int, number: int) -> None:
        if index < len(self.clients):
            self.clients[index].consumer.grant(credit)

    def settle(self, index: int, outcome: int, number: int, here: bool = True) -> None:
        if index < len(self.clients) and self.clients[index].unsettled:
            self._settle(self.clients[index], self.clients[index].consumer, outcome, number, here)

    def _settle(self, client: Client, consumer: Consumer, outcome: int, number: int, here: bool) -> None:
        reference = client.unsettled.pop(number % len(client.unsettled))
        self._ended(reference, client, outcome, here)
        consumer.settle(reference, outcome, here)

    def _ended(self, reference: Reference, client: Client, outcome: int, here: bool) -> None:
        body = str(reference.message.view.body)
        sent = self.sent[body]
        sent.holder = None
        if outcome == ACCEPTED:
            del self.sent[body]
        elif not here:
            sent.hidden_from.add(client.consumer.id)
            if self.owners.get(self.group(sent) or "") is client:
                # Another consumer has to get the group.
                del self.owners[self.group(sent) or ""]
        if self.is_paused and not any(each.holder is not None for each in self.sent.values()):
            self.is_paused = False
            self.owners.clear()

    def hide(self, index: int, number: int) -> None:
        self.settle(index, RELEASED, number, False)

    def _depart(self, client: Client) -> None:
        self.owners = {group: owner for group, owner in self.owners.items() if owner is not client}

    def detach(self, index: int, failed: bool, number: int) -> None:
        if index < len(self.clients):
            client = self.clients.pop(index)
            self._depart(client)
            for reference in client.unsettled:
                self._ended(reference, client, RELEASED, True)
            client.consumer.close(failed)

    def linger(self, index: int, number: int) -> None:
        """The link is detached, and its session goes on."""
        if index < len(self.clients) and len(self.lingering) < 2:
            client = self.clients.pop(index)
            self._depart(client)
            tokens = {bytes([index]): reference for index, reference in enumerate(client.unsettled)}
            client.terminus = SuspendedSource(client.consumer, tokens)
            client.consumer.close()
            self.lingering.append(client)

    def unlinger(self, index: int, returns: bool, number: int) -> None:
        if index < len(self.lingering):
            client = self.lingering[index]
            assert client.terminus is not None
            if returns or not client.unsettled:
                self.lingering.remove(client)
                for reference in client.unsettled:
                    self._ended(reference, client, RELEASED, True)
                client.terminus.give_back()
            else:
                self._settle(client, client.terminus.holder, ACCEPTED, number, True)

    def reset(self, name: str | None, number: int) -> None:
        rule = self.queue.assignment
        if isinstance(rule, Groups) and name is not None:
            if name == "*":
                rule.reset_all()
                self.owners.clear()
            else:
                assert rule.reset(name) == (self.owners.pop(name, None) is not None)

    def change(self, attributes: dict[str, object], number: int) -> None:
        self.domain.update_queue("q", dict(attributes))
        settings = self.queue.settings
        self.rebalances, self.pauses = settings.group_rebalance, settings.group_rebalance_pause_dispatch
        if settings.group_buckets != self.buckets:
            self.buckets = settings.group_buckets
            if isinstance(self.queue.assignment, Groups):
                self.is_paused = False
                self.owners = {}
                for each in self.sent.values():
                    group = self.group(each)
                    if group is not None and each.holder in self.clients and len(self.holders(group)) == 1:
                        self.owners[group] = each.holder

    def purge(self, colour: str | None, number: int) -> None:
        if colour is None:
            self.queue.purge()
        else:
            self.domain.dispatcher.slices.start(bulk.remove(self.queue, parse_filter(f"colour = '{colour}'")))
            while self.domain.dispatcher.slices.has_work:
                self.domain.dispatcher.slices.run()
        for body, each in list(self.sent.items()):
            if each.holder is None and colour in (None, each.colour):
                del self.sent[body]

    def leave(self) -> None:
        while self.lingering:
            self.unlinger(0, True, 0)
        while self.clients:
            self.detach(0, False, 0)
        settle_down(self.domain)

    def drain(self) -> None:
        """Everything is delivered in the end, however little credit there is at a time."""
        self.leave()
        self.domain.update_queue("q", {"group_rebalance": False})
        self.is_paused = False
        first, second = Client(self, None, 0), Client(self, None, 0)
        self.clients += [first, second]
        for step in range(10_000):
            if not self.sent:
                break
            client = self.clients[step % 2]
            client.consumer.grant(2)
            settle_down(self.domain)
            self.check_liveness()
            while client.unsettled:
                self._settle(client, client.consumer, ACCEPTED, 0, True)
            settle_down(self.domain)
        assert not self.sent
        assert self.queue.message_count == 0
        self.leave()
        rule = self.queue.assignment
        if isinstance(rule, Groups):
            assert (len(rule.table.groups), rule.lists.count, len(rule._in_flight)) == (0, 0, 0)
        tables = self.domain.dispatcher.tables.size_bytes
        self.domain.delete_queue("q")
        settle_down(self.domain)
        assert self.domain.dispatcher.tables.size_bytes < tables

    def end(self) -> None:
        """Nothing is open."""


class PagedSide(Side):
    """On disk, with a window of two messages."""

    SETTINGS: Final = {"#": AddressSettings(max_read_page_messages=2, max_delivery_attempts=-1)}

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = World(folder, self.SETTINGS)
        super().__init__(self.world.domain)

    def apply(self, operation: tuple[object, ...], number: int) -> None:
        super().apply(operation, number)
        if operation[0] == "restart":
            self.world.settle()
            self.leave()
            self.world.settle()
            self.world.crash()
            self.world = World(self.folder, self.SETTINGS)
            self.take_over(self.world.domain)
            self.sent = {body: each for body, each in self.sent.items() if each.durable}
            self.owners = {}
            for each in self.sent.values():
                each.hidden_from.clear()

    def cut(self, number: int) -> None:
        self.world.hands.turn()

    def commit(self, number: int) -> None:
        self.world.settle()
        self.world.audit()

    def end(self) -> None:
        self.world.crash()


@pytest.fixture
def folder() -> Iterator[Path]:
    """One for all examples: hypothesis calls the test often."""
    path = Path(tempfile.mkdtemp())
    yield path
    shutil.rmtree(path, ignore_errors=True)


def run(side: Side, operations: list[tuple[object, ...]]) -> None:
    try:
        for number, operation in enumerate(operations):
            side.apply(operation, number)
        side.drain()
    finally:
        side.end()


def memory_side() -> Side:
    unlimited = AddressSettings(max_read_page_messages=-1, max_read_page_bytes=-1, max_delivery_attempts=-1)
    return Side(make_domain({"#": unlimited}))


@pytest.fixture(params=[False, True], ids=["usual", "short lists"])
def _lists(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With short lists, consumers fall behind the shared scan."""
    if request.param:
        if not group_lists.__file__.endswith(".py"):
            pytest.skip("constants are compiled in")
        monkeypatch.setattr(group_lists, "LISTED_PER_OWNER", 2)


@pytest.mark.usefixtures("_lists")
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS, min_size=12, max_size=40))
def test_groups_in_memory(operations: list[tuple[object, ...]]) -> None:
    run(memory_side(), operations)


@pytest.mark.usefixtures("_lists")
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS, min_size=12, max_size=40))
def test_groups_on_disk(folder: Path, operations: list[tuple[object, ...]]) -> None:
    """With a window of two messages, through commits and restarts."""
    shutil.rmtree(folder)
    run(PagedSide(folder), operations)


@pytest.mark.usefixtures("_lists")
@pytest.mark.parametrize("on_disk", [False, True])
def test_long_histories(folder: Path, on_disk: bool) -> None:
    """Always the same histories; hypothesis finds short ones."""
    for seed in range(40):
        shutil.rmtree(folder, ignore_errors=True)
        side = PagedSide(folder) if on_disk else memory_side()
        try:
            run(side, history(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
