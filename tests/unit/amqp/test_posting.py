"""What becomes of deliveries that clients send, where the standard has a rule for it."""

from typing import Any

import pytest

from artemis_amqp.performatives import Detach, Disposition, Source, Transfer
from artemis_amqp.types import Symbol
from tests.amqp_broker import Broker, Peer, only
from tests.amqp_harness import Frame, frame_with

REJECTED = Symbol("amqp:rejected:list")


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
    """§3.2: it is no message, and what it is worth nobody could say."""
    broker, peer = sender()
    answer = only(empty(peer), Disposition)

    assert (answer.settled, answer.state.error.condition) == (True, "amqp:decode-error")
    assert broker.count() == 0


def test_without_any_section_in_frames_it_is_rejected_as_well() -> None:
    """§2.7.5: the last frame of a delivery may be empty, all of them may not."""
    broker, peer = sender()
    assert not any(isinstance(one, Disposition) for _, one, _ in empty(peer, more=True))
    answer = only(peer.rest(None), Disposition)

    assert answer.state.error.condition == "amqp:decode-error"
    assert broker.count() == 0


@pytest.mark.parametrize("fields", [{"settled": True}, {}], ids=["settled", "outcomes"])
def test_without_any_section_and_no_way_to_say_so_the_link_ends(fields: dict[str, Any]) -> None:
    """§2.6.12: settled, or the source does not know rejected."""
    broker, peer = sender(source=Source(outcomes=(Symbol("amqp:accepted:list"),)))
    error = only(empty(peer, **fields), Detach).error

    assert error.condition == "amqp:decode-error"
    assert broker.count() == 0
