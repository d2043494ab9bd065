"""Consumers of a queue that keeps its messages (artemis-model §3.5)."""

import pytest
from attrs import evolve

from artemis_amqp.engine.performatives import Accepted, Attach, Detach, Modified, Rejected, Released, Source, Transfer
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.settings.address_settings import AddressSettings
from tests.amqp_broker import Broker, Peer, bodies, in_transaction, only, settled

KEEPS = {"#": AddressSettings(default_non_destructive=True, dead_letter_address="DLQ", max_delivery_attempts=1)}


def broker_with(*texts: bytes) -> Broker:
    broker = Broker(KEEPS)
    broker.queue()
    broker.queue("DLQ")
    producer = broker.connect("producer")
    producer.send()
    for text in texts:
        producer.say(producer.transfer(text))
    return broker


def received(peer: Peer, **options: object) -> list[bytes]:
    """What a new link gets."""
    return bodies(peer.receive(Source(address="q"), **options))  # type: ignore[arg-type]


def test_the_answer_says_that_messages_are_copies() -> None:
    """amqp10 §7: null leaves the choice to the node."""
    answer = only(broker_with().connect().receive(Source(address="q")), Attach)

    assert answer.source.distribution_mode == "copy"


def test_another_queue_leaves_it_open() -> None:
    broker = Broker()
    broker.queue()

    assert only(broker.connect().receive(Source(address="q")), Attach).source.distribution_mode is None


@pytest.mark.parametrize(
    "state", [Accepted(), Rejected(), Released(), Modified(delivery_failed=True, undeliverable_here=True)]
)
@pytest.mark.parametrize("is_settled", [False, True])
def test_every_outcome_is_settled_and_changes_nothing(state: object, is_settled: bool) -> None:
    broker = broker_with(b"a", b"b")
    peer = broker.connect()
    assert received(peer) == [b"a", b"b"]

    wanted = evolve(settled(0, state, last=1), settled=is_settled)
    answers = peer.dispositions(peer.say(wanted))

    if not is_settled:
        assert all(answer.settled for answer in answers)
        assert sum((answer.last or answer.first) - answer.first + 1 for answer in answers) == 2
    assert (broker.waiting(), broker.count(), broker.count("DLQ")) == (2, 2, 0)
    assert received(broker.connect("other")) == [b"a", b"b"]


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("is_settled", [False, True])
def test_a_transaction_settles_and_changes_nothing(fail: bool, is_settled: bool) -> None:
    broker = broker_with(b"a")
    peer = broker.connect()
    assert received(peer) == [b"a"]
    peer.coordinator()
    transaction = peer.declare()

    peer.say(in_transaction(0, transaction, Accepted(), is_settled))
    frames = peer.discharge(transaction, fail)

    if not is_settled and not fail:
        assert any(answer.settled for answer in peer.dispositions(frames))
    assert not any(isinstance(performative, Transfer) for _, performative, _ in frames)
    assert broker.waiting() == 1


def test_a_link_that_attaches_again_begins_again() -> None:
    broker = broker_with(b"a")
    peer = broker.connect()
    assert received(peer) == [b"a"]

    peer.say(Detach(handle=0))

    assert received(peer) == [b"a"]


class Only:
    """Grants one permission."""

    def __init__(self, permission: Permission) -> None:
        self.permission = permission

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return permission is self.permission


@pytest.mark.parametrize(("left", "is_detached"), [(Permission.CONSUME, False), (Permission.BROWSE, True)])
def test_its_consumers_need_the_permission_to_consume(left: Permission, is_detached: bool) -> None:
    """Also when the rights change: they are consumers, though they take nothing."""
    broker = broker_with(b"a")
    peer = broker.connect()
    received(peer)

    broker.domain.access = Only(left)
    peer.connection.rights_changed()

    assert any(isinstance(performative, Detach) for _, performative, _ in peer.hear()) == is_detached
