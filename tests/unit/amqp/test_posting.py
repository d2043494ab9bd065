"""What becomes of deliveries that clients send, where the standard has a rule for it."""

from typing import Any

import pytest

from artemis_amqp.engine.performatives import (
    Detach,
    Disposition,
    Rejected,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from artemis_amqp.engine.types import Symbol
from tests.amqp_broker import Broker, Peer, only
from tests.amqp_harness import Frame, frame_with


def empty(peer: Peer, **fields: Any) -> list[Frame]:
    """A delivery of no octets."""
    transfer = Transfer(handle=0, delivery_id=0, delivery_tag=b"t", **fields)
    return peer.say(frame_with(0, transfer, b""))


def sender(**fields: Any) -> tuple[Broker, Peer]:
    """A client that may send to "q"."""
    broker = Broker()
    broker.queue()
    peer = broker.connect()
    peer.send(**fields)
    return broker, peer


# -- no message --------------------------------------------------------------------------------------------------


def test_a_delivery_without_any_section_is_rejected() -> None:
    """AMQP 1.0 §3.2: it is no message, and what it is worth nobody could say."""
    broker, peer = sender()
    answer = only(empty(peer), Disposition)

    assert (answer.settled, answer.state.error.condition) == (True, "amqp:decode-error")
    assert broker.count() == 0


def test_without_any_section_in_frames_it_is_rejected_as_well() -> None:
    """AMQP 1.0 §2.7.5: the last frame of a delivery may be empty, all of them may not."""
    broker, peer = sender()
    assert not any(isinstance(one, Disposition) for _, one, _ in empty(peer, more=True))
    answer = only(peer.rest(None), Disposition)

    assert answer.state.error.condition == "amqp:decode-error"
    assert broker.count() == 0


@pytest.mark.parametrize("fields", [{"settled": True}, {}], ids=["settled", "outcomes"])
def test_without_any_section_and_no_way_to_say_so_the_link_ends(fields: dict[str, Any]) -> None:
    """AMQP 1.0 §2.6.12: settled, or the source does not know rejected."""
    broker, peer = sender(source=Source(outcomes=(Symbol("amqp:accepted:list"),)))
    error = only(empty(peer, **fields), Detach).error

    assert error.condition == "amqp:decode-error"
    assert broker.count() == 0


# -- the anonymous terminus ---------------------------------------------------------------------------------------


def relay(**fields: Any) -> tuple[Broker, Peer]:
    """A sender whose messages say where they go."""
    return sender(target=Target(), **fields)


def test_a_relays_rejection_names_the_delivery() -> None:
    """AMQP Anonymous Terminus 1.0: error info `delivery-tag`, the link stays."""
    _, peer = relay()
    error = only(peer.say(peer.transfer(b"m", delivery_tag=b"tag")), Disposition).state.error

    assert error.condition == "amqp:precondition-failed"
    assert error.info == {Symbol("delivery-tag"): b"tag"}


def test_a_relays_detach_names_the_delivery() -> None:
    """AMQP Anonymous Terminus 1.0: settled, so there is no outcome."""
    _, peer = relay()
    error = only(peer.say(peer.transfer(b"m", delivery_tag=b"tag", settled=True)), Detach).error

    assert error.info == {Symbol("delivery-tag"): b"tag"}


def test_a_relays_rejection_in_a_transaction_names_the_delivery() -> None:
    """AMQP 1.0 §4.4.1: within the transactional state."""
    _, peer = relay()
    peer.coordinator()
    state = TransactionalState(txn_id=peer.declare())
    answer = only(peer.say(peer.transfer(b"m", delivery_tag=b"tag", state=state)), Disposition).state

    assert isinstance(answer.outcome, Rejected)
    assert answer.outcome.error is not None
    assert answer.outcome.error.info == {Symbol("delivery-tag"): b"tag"}


def test_an_ordinary_rejection_names_none() -> None:
    """The client knows to which address the link goes."""
    _, peer = sender()

    assert only(empty(peer), Disposition).state.error.info is None


@pytest.mark.parametrize("is_settled", [False, True])
def test_what_cannot_be_posted_fails_its_transaction(is_settled: bool) -> None:
    """AMQP 1.0 §4.4.1: the rest is not committed without it, even if nothing could be said of the message itself."""
    broker, peer = sender()
    peer.coordinator()
    transaction = peer.declare()
    state = TransactionalState(txn_id=transaction)
    peer.say(peer.transfer(b"good", state=state))
    peer.say(peer.transfer(b"", octets=b"", state=state, settled=is_settled))
    outcome = [one.state for one in peer.dispositions(peer.discharge(transaction))]

    assert [type(one) for one in outcome] == [Rejected]
    assert broker.count() == 0
