"""Transactions where a client does something that the standard has a rule for (AMQP 1.0 part 4)."""

import pytest

from artemis_amqp.engine.performatives import Detach, Disposition, TransactionalState
from artemis_amqp.engine.types import Symbol
from tests.amqp_broker import Broker, Peer, bodies, only
from tests.amqp_harness import kinds
from tests.core_harness import send

# -- a delivery that was sent in part ---------------------------------------------------------------------------


def posting() -> tuple[Broker, Peer, bytes]:
    """A client with an open transaction and a sending link."""
    broker = Broker()
    broker.queue()
    peer = broker.connect()
    peer.coordinator()
    peer.send()
    return broker, peer, peer.declare()


@pytest.mark.parametrize("fail", [False, True])
def test_a_discharge_with_a_half_sent_delivery_ends_the_control_link(fail: bool) -> None:
    """AMQP 1.0 §4.4.1: with transaction-rollback, and the transaction is rolled back."""
    broker, peer, transaction = posting()
    state = TransactionalState(txn_id=transaction)
    peer.say(peer.transfer(b"whole", state=state), peer.transfer(b"half", state=state, more=True))
    detach = only(peer.discharge(transaction, fail), Detach)

    assert (detach.closed, detach.error.condition) == (True, "amqp:transaction:rollback")
    assert broker.count() == 0
    assert not peer.connection.core_session.transactions


def test_a_half_sent_delivery_of_another_transaction_is_no_matter() -> None:
    """AMQP 1.0 §4.4.1: only its own."""
    broker, peer, transaction = posting()
    other = peer.declare()
    peer.send(name="t", handle=1)
    peer.say(peer.transfer(b"whole", state=TransactionalState(txn_id=transaction)))
    peer.say(peer.transfer(b"half", handle=1, state=TransactionalState(txn_id=other), more=True))

    assert Disposition in kinds(peer.discharge(transaction))
    assert broker.count() == 1


@pytest.mark.parametrize("ending", ["complete", "aborted", "detached"])
def test_a_delivery_that_ended_does_not_hinder_the_discharge(ending: str) -> None:
    """AMQP 1.0 §4.4.1: complete, aborted, or gone with its link."""
    broker, peer, transaction = posting()
    state = TransactionalState(txn_id=transaction)
    first = peer.transfer(b"m", state=state, more=True)
    peer.say(first)
    if ending == "detached":
        peer.say(Detach(handle=0))
    else:
        peer.rest(state, aborted=ending == "aborted")

    assert Disposition in kinds(peer.discharge(transaction))
    assert broker.count() == (1 if ending == "complete" else 0)


def test_the_frames_of_a_delivery_belong_to_one_transaction() -> None:
    """AMQP 1.0 §4.4.1: all frames must be associated with the same one."""
    _, peer, transaction = posting()
    other = peer.declare()
    peer.say(peer.transfer(b"m", state=TransactionalState(txn_id=transaction), more=True))
    detach = only(peer.rest(TransactionalState(txn_id=other)), Detach)

    assert detach.error.condition == "amqp:invalid-field"


# -- acquiring -------------------------------------------------------------------------------------------------


def test_acquiring_in_a_transaction_is_refused() -> None:
    """AMQP 1.0 §4.4.3: what would be sent in no transaction is not sent at all."""
    broker = Broker()
    broker.queue()
    send(broker.domain, "q", "1")
    peer = broker.connect()
    peer.coordinator()
    transaction = peer.declare()
    peer.receive(credit=0)
    frames = peer.say(peer.credit(0, 1, properties={Symbol("txn-id"): transaction}))

    assert kinds(frames) == [Detach]
    assert only(frames, Detach).error.condition == "amqp:not-implemented"
    assert broker.waiting() == 1


def test_other_properties_of_a_flow_mean_nothing() -> None:
    """AMQP 1.0 §2.7.4: they are the extensions' business."""
    broker = Broker()
    broker.queue()
    send(broker.domain, "q", "1")
    peer = broker.connect()
    peer.receive(credit=0)

    assert bodies(peer.say(peer.credit(0, 1, properties={Symbol("rabbitmq:x"): True}))) == [b"1"]
