"""Attaches and detaches that make or delete something durable are answered when that is durable (reliability P10)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from artemis_amqp.broker.manager import AmqpProtocolManager
from artemis_amqp.engine.limits import LINK_BYTES
from artemis_amqp.engine.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    Flow,
    Open,
    Source,
    Target,
    Transfer,
    frame,
)
from artemis_amqp.engine.states import AMQP_HEADER
from artemis_amqp.engine.types import Symbol
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.services.domains import Domains
from artemis_py.protocol import ConnectionContext, Host
from artemis_py.security.authenticator import OpenAuthenticator
from tests.amqp_harness import Frame, frame_with, kinds, read_frames
from tests.core_harness import settle_down
from tests.unit.store.world import World

MESSAGE = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x77\xa1\x01m"
"""A durable message with the body "m"."""


class Client:
    """One connection to a broker on a store whose commits end when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.woken = 0
        manager = AmqpProtocolManager(Host(Domains(self.world.services)))
        context = ConnectionContext(
            connection_id=1, peer="peer", is_loopback=True, authenticator=OpenAuthenticator(), wake=self.wake
        )
        self.connection = manager.connect(context)
        begin = Begin(next_outgoing_id=0, incoming_window=1000, outgoing_window=1000)
        self.say(AMQP_HEADER, Open(container_id="c", idle_time_out=8000), begin)

    def wake(self) -> None:
        """There is output."""
        self.woken += 1

    def say(self, *parts: bytes | object) -> list[Frame]:
        """Send frames in one piece, and take what is answered before anything is committed."""
        data = b"".join(part if isinstance(part, bytes) else frame(0, part) for part in parts)
        self.connection.receive_data(data, 0.0)
        return self.hear()

    def hear(self) -> list[Frame]:
        """What the broker says now."""
        settle_down(self.world.domain)
        return read_frames(self.connection.data_to_send())

    def commit(self) -> list[Frame]:
        """Finish one commit, and a fold of the log if one has begun, and take what is said then."""
        if not self.world.hands.jobs:
            self.world.hands.turn()
        assert self.world.hands.jobs
        for _ in range(len(self.world.hands.jobs)):
            self.world.hands.work()
        return self.hear()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A connection with a session, and the multicast address "news"."""
    client = Client(tmp_path)
    client.world.domain.create_address("news", frozenset((RoutingType.MULTICAST,)))
    client.world.settle()
    yield client
    client.world.crash()


def subscription(name: str = "s", handle: int = 0) -> Attach:
    """A durable subscription of "news"."""
    source = Source(address="news", durable=2, expiry_policy="never", capabilities=(Symbol("topic"),))
    return Attach(name=name, handle=handle, role=True, source=source, target=Target())


def producer(address: str, handle: int) -> Attach:
    """A sending link."""
    target = Target(address=address)
    return Attach(name=address, handle=handle, role=False, source=Source(), target=target, initial_delivery_count=0)


def flow(handle: int, credit: int, next_outgoing_id: int = 0) -> Flow:
    """Credit for a link."""
    return Flow(
        next_incoming_id=0,
        incoming_window=1000,
        next_outgoing_id=next_outgoing_id,
        outgoing_window=1000,
        handle=handle,
        delivery_count=0,
        link_credit=credit,
    )


def test_a_durable_subscription_is_confirmed_when_it_is_durable(client: Client) -> None:
    """P10: whoever saw the attach finds the subscription after a crash; AMQP 1.0 §2.6.3."""
    before = client.say(subscription())
    after = client.commit()

    assert kinds(before) == []
    assert kinds(after) == [Attach]
    assert client.woken > 0
    client.world.crash()
    with World(client.world.store.folder) as again:
        assert "c.s" in again.domain.queues


def test_a_queue_made_by_a_sender_is_confirmed_when_it_is_durable(client: Client) -> None:
    """P10: the attach first, then the credit."""
    client.world.domain.create_address("orders", frozenset((RoutingType.ANYCAST,)))
    client.world.settle()

    before = client.say(producer("orders::mine", 0), producer("orders::mine", 1))

    assert kinds(before) == []
    assert kinds(client.commit())[:1] == [Attach]


def test_what_is_there_already_is_answered_at_once(client: Client) -> None:
    """Nothing was made, so there is nothing to wait for."""
    client.say(subscription())
    client.commit()
    client.say(Detach(handle=0, closed=False))

    assert kinds(client.say(subscription())) == [Attach]


def test_credit_given_before_the_answer_counts(client: Client) -> None:
    """AMQP 1.0 §2.6.7: a client may send its flow right behind its attach."""
    client.say(subscription(), flow(0, 10))
    client.world.send("news", "m")

    assert kinds(client.hear()) == []
    assert kinds(client.commit()) == [Attach, Transfer]


def test_other_links_wait_and_nothing_overtakes(client: Client) -> None:
    """Output of the connection keeps its order: an outcome that is due meanwhile comes behind the attach."""
    client.say(producer("news", 1))
    plain = MESSAGE.replace(b"\x41", b"\x42")
    transfer = frame_with(0, Transfer(handle=1, delivery_id=0, delivery_tag=b"t"), plain)

    before = client.say(subscription(), transfer)

    assert kinds(before) == []
    assert [kind for kind in kinds(client.commit()) if kind is not Flow] == [Attach, Disposition]


def test_each_answer_waits_for_its_own_commit(client: Client) -> None:
    """Two subscriptions, of which the second is asked for while the first is being committed."""
    client.say(subscription("one", 0))
    client.world.hands.turn()
    client.say(subscription("two", 1))
    first, second = client.commit(), client.commit()

    assert [performative.name for _, performative, _ in first if isinstance(performative, Attach)] == ["one"]
    assert [performative.name for _, performative, _ in second if isinstance(performative, Attach)] == ["two"]


def test_a_subscription_is_gone_for_good_when_its_end_is_confirmed(client: Client) -> None:
    """P10: no phantom queue: the answer to a closing detach waits as well."""
    client.say(subscription())
    client.commit()

    before = client.say(Detach(handle=0, closed=True))

    assert kinds(before) == []
    assert kinds(client.commit()) == [Detach]


def test_a_client_that_leaves_before_the_answer_is_let_go(client: Client) -> None:
    """AMQP 1.0 §2.4.3: the close does not wait; what is not durable is not confirmed any more."""
    assert kinds(client.say(subscription(), Close())) == [Close]
    assert client.connection.closed
    assert kinds(client.commit()) == []


def test_a_store_that_fails_confirms_nothing(client: Client) -> None:
    """P15: the connection is closed with the reason, without the attach."""
    client.say(subscription())
    client.world.hands.turn()
    client.world.hands.work(failure="disk full")
    ((_, close, _),) = client.hear()

    assert isinstance(close, Close)
    assert close.error is not None
    assert "disk full" in (close.error.description or "")


def test_heartbeats_do_not_wait_for_the_disk(client: Client) -> None:
    """AMQP 1.0 §2.4.5: a slow commit does not make us look dead."""
    client.say(subscription())
    heard: list[object] = []
    while (deadline := client.connection.next_deadline() or 0.0) < 8.0:
        client.connection.handle_deadline(deadline)
        heard += [performative for _, performative, _ in client.hear()]

    assert set(heard) == {None}
    assert kinds(client.commit()) == [Attach]


def test_links_are_counted_and_one_too_many_is_refused(client: Client) -> None:
    """A connection may have 256 sessions of 1024 links: memory ends before that, and other links go on."""
    tables = client.world.domain.dispatcher.tables
    before = tables.size_bytes
    client.say(producer("news", 0))
    taken = tables.size_bytes - before
    tables.set_limits(tables.size_bytes, -1)
    refusal = client.say(producer("other", 1))
    client.say(Detach(handle=1, closed=True), Detach(handle=0, closed=True))

    assert taken == LINK_BYTES
    assert kinds(refusal) == [Attach, Detach]
    detach = refusal[1][1]
    assert isinstance(detach, Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:resource-limit-exceeded"
    assert tables.size_bytes == before


def test_deliveries_that_never_end_are_counted_and_refused(client: Client) -> None:
    """256 MiB may be on their way on a connection: what there is of them counts."""
    account = client.world.domain.account
    client.say(producer("news", 0))
    part = frame_with(0, Transfer(handle=0, delivery_id=0, delivery_tag=b"1", more=True), MESSAGE + b"x" * 30_000)
    client.say(part)
    counted = account.size_bytes
    account.set_limits(40_000, -1)
    more = frame_with(0, Transfer(handle=0, more=True), b"x" * 60_000)
    ((_, close, _),) = client.say(more)
    client.connection.connection_lost()

    assert 30_000 < counted < 31_000
    assert isinstance(close, Close)
    assert close.error is not None
    assert close.error.condition == "amqp:resource-limit-exceeded"
    assert account.size_bytes == 0
