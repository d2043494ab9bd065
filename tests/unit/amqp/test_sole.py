"""One connection for a container (AMQP Enforcing Connection Uniqueness 1.0)."""

from typing import Any

import pytest

from artemis_amqp.broker.sole import SOLE_CONNECTION
from artemis_amqp.engine.performatives import Close, Open
from artemis_amqp.engine.types import Symbol, UInt
from tests.amqp_broker import Broker, Peer

POLICY, DETECTION = Symbol("sole-connection-enforcement-policy"), Symbol("sole-connection-detection-policy")
REFUSE, CLOSE, DEFAULT, NOTHING = "refuse", "close", "default", "nothing"


def opening(wish: str) -> dict[str, Any]:
    """Fields of an open."""
    if wish == NOTHING:
        return {}
    properties = {} if wish == DEFAULT else {POLICY: UInt(1 if wish == CLOSE else 0)}
    return {"desired_capabilities": (SOLE_CONNECTION,), "properties": properties}


def closed_because(peer: Peer) -> str | None:
    """Why the broker closed a connection; None: it did not."""
    for _, one, _ in [*peer.greeting, *peer.hear()]:
        if isinstance(one, Close):
            assert one.error is not None
            return one.error.condition
    return None


@pytest.mark.parametrize(
    ("there", "new", "refused", "closed"),
    [
        (NOTHING, NOTHING, False, False),
        (NOTHING, REFUSE, True, False),
        (NOTHING, DEFAULT, True, False),
        (NOTHING, CLOSE, False, True),
        (REFUSE, NOTHING, True, False),
        (DEFAULT, NOTHING, True, False),
        (CLOSE, NOTHING, False, True),
        (REFUSE, REFUSE, True, False),
        (CLOSE, CLOSE, False, True),
        (REFUSE, CLOSE, True, False),
        (CLOSE, REFUSE, False, True),
    ],
)
def test_a_second_connection(there: str, new: str, refused: bool, closed: bool) -> None:
    """Strong detection: one that asks is enough, and what the first one was promised holds."""
    broker = Broker()
    first = broker.connect("c", **opening(there))
    second = broker.connect("c", **opening(new))

    assert closed_because(second) == ("amqp:invalid-field" if refused else None)
    assert closed_because(first) == ("amqp:resource-locked" if closed else None)


@pytest.mark.parametrize("wish", [REFUSE, CLOSE, DEFAULT])
def test_the_answer_tells_how_it_is_enforced(wish: str) -> None:
    """Both policies, for who asked."""
    (answer,) = [one for _, one, _ in Broker().connect("c", **opening(wish)).greeting if isinstance(one, Open)]

    assert answer.properties is not None
    assert answer.properties[POLICY] == (1 if wish == CLOSE else 0)
    assert answer.properties[DETECTION] == 0


def test_another_container_is_no_matter() -> None:
    """The scope is the container-id."""
    broker = Broker()
    broker.connect("one", **opening(REFUSE))

    assert closed_because(broker.connect("two", **opening(REFUSE))) is None


def test_one_that_was_closed_is_in_nobodys_way() -> None:
    """Also while its own close is still to come."""
    broker = Broker()
    broker.connect("c", **opening(CLOSE))
    broker.connect("c", **opening(CLOSE))

    assert closed_because(broker.connect("c")) is None


@pytest.mark.parametrize(("there", "new"), [(NOTHING, CLOSE), (CLOSE, NOTHING), (CLOSE, CLOSE)])
def test_nobody_closes_the_connections_of_another_user(there: str, new: str) -> None:
    """A container-id is no secret."""
    broker = Broker()
    first = broker.connect("c", user="one", **opening(there))
    second = broker.connect("c", user="two", **opening(new))

    assert closed_because(first) is None
    assert closed_because(second) == "amqp:invalid-field"
