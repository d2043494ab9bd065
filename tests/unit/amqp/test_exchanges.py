"""Links and relayed messages that go to an exchange (qpid-exchanges §13)."""

from typing import Any

import pytest

from artemis_amqp.broker.exchanges import KEYS
from artemis_amqp.broker.producers import read_message
from artemis_amqp.engine.codec import encode_value
from artemis_amqp.engine.extensions import STAGE
from artemis_amqp.engine.performatives import Accepted, Attach, Detach, Properties, Rejected, Target, encode
from artemis_amqp.engine.types import Symbol
from artemis_amqp.messages.arrival import split_sections
from artemis_py.core.settings.exchange_config import Unroutable
from artemis_py.errors import MalformedFrame
from tests.amqp_broker import Broker, Peer, only, value
from tests.unit.core.exchange_world import bind, make_exchange, make_queues, to_queue

DISCARD, REJECT = Symbol("DISCARD_UNROUTABLE"), Symbol("REJECT_UNROUTABLE")


def message(properties: dict[str, Any] | None = None, **fields: Any) -> bytes:
    """A message with these fields and application properties."""
    parts = encode(Properties(**fields)) if fields else b""
    if properties is not None:
        parts += b"\x00\x53\x74" + encode_value(properties)
    return parts + value(b"m")


def make_broker() -> Broker:
    """Queues a, b and c, bound to the exchange e under their names, and a queue that is called like it."""
    broker = Broker()
    make_queues(broker.domain, "a b c e")
    make_exchange(broker.domain, "e")
    for name in "abc":
        bind(broker.domain, "e", name, name)
    return broker


def counts(broker: Broker) -> dict[str, int]:
    """Messages of each queue that has any."""
    return {name: queue.message_count for name, queue in broker.domain.queues.items() if queue.message_count}


def outcome(peer: Peer, octets: bytes, handle: int = 0) -> object:
    """What becomes of a message."""
    (disposition,) = peer.dispositions(peer.say(peer.transfer(b"", handle, octets)))
    return disposition.state


ROUTING_KEYS: list[tuple[str, bytes, str]] = [
    ("e/a", message(subject="b"), "a"),
    ("e/a/b", message(subject="b"), "a/b"),
    ("e", message({"routing-key": "a", "routing_key": "b"}, subject="c"), "a"),
    ("e", message({"routing_key": "b"}, subject="c"), "b"),
    ("e", message({"routing-key": 7}, subject="c"), "c"),
    ("e", message(subject="c", to="a"), "c"),
    ("e", message(to="a"), "a"),
    ("e", message(to="e/a"), "a"),
    ("e", message({"routing-key": "e/b"}), "b"),
    ("e", message(to="e"), ""),
    ("e", message(), ""),
    ("e/", message(subject="b"), "b"),
]


@pytest.mark.parametrize(("address", "octets", "key"), ROUTING_KEYS)
def test_where_the_routing_key_comes_from(address: str, octets: bytes, key: str) -> None:
    """The address is stronger than the message; of the message the properties, the subject, then `to`."""
    broker = make_broker()
    for name in ("key-", "key-a", "key-b", "key-c", "key-a/b"):
        make_queues(broker.domain, name)
        bind(broker.domain, "e", name[4:], name)
    peer = broker.connect()
    peer.send(Target(address=address))

    assert isinstance(outcome(peer, octets), Accepted)
    assert {name for name in counts(broker) if name.startswith("key-")} == {f"key-{key}"}
    assert broker.count("e") == 0


def test_a_damaged_message_is_refused() -> None:
    """Its routing key cannot be read."""
    damaged = read_message(split_sections(message(subject="b")), 0, "")
    damaged.data = b"\x00\x53\x73\xc0\x05\x04\x40\x40\x40\xa1"

    with pytest.raises(MalformedFrame):
        KEYS.key_of(damaged, "e")


def test_an_address_that_could_mean_both_means_the_exchange() -> None:
    """Unless the client asks for a queue, by a fully qualified name or a capability."""
    broker = make_broker()
    peer = broker.connect()
    for handle, target in enumerate(
        (
            Target(address="e"),
            Target(address="e::e"),
            Target(address="e", capabilities=(Symbol("queue"),)),
            Target(address="e/a", capabilities=(Symbol("queue"),)),
            Target(address="e/a", capabilities=(Symbol("topic"),)),
        )
    ):
        peer.send(target, name=str(handle), handle=handle)
        peer.say(peer.transfer(b"m", handle))

    assert counts(broker) == {"e": 2, "a": 2}


def test_an_address_with_a_slash_may_be_one() -> None:
    """If an address has the whole name, or nothing before the slash is an exchange."""
    broker = make_broker()
    make_queues(broker.domain, "e/x f/x")
    peer = broker.connect()
    for handle, address in enumerate(("e/x", "f/x")):
        peer.send(Target(address=address), name=address, handle=handle)
        peer.say(peer.transfer(b"m", handle))

    assert counts(broker) == {"e/x": 1, "f/x": 1}


@pytest.mark.parametrize(
    ("unroutable", "wish", "answer"),
    [
        (Unroutable.DISCARD, (), DISCARD),
        (Unroutable.DISCARD, (REJECT,), REJECT),
        (Unroutable.REJECT, (), REJECT),
        (Unroutable.REJECT, (DISCARD,), DISCARD),
    ],
)
def test_what_becomes_of_unroutable_messages_is_agreed_on(
    unroutable: Unroutable, wish: tuple[Symbol, ...], answer: Symbol
) -> None:
    """The capabilities of the answer tell it; other capabilities stay."""
    broker = Broker()
    make_exchange(broker.domain, "e", unroutable=unroutable)
    peer = broker.connect()

    attach = only(peer.send(Target(address="e", capabilities=(Symbol("topic"), *wish))), Attach)
    state = outcome(peer, message())

    assert attach.target.capabilities == (Symbol("topic"), answer)
    if answer == DISCARD:
        assert isinstance(state, Accepted)
    else:
        assert isinstance(state, Rejected)
        assert state.error is not None
        assert state.error.condition == "amqp:not-found"


def test_the_alternate_of_an_exchange_is_asked_before_a_message_is_rejected() -> None:
    """It is for what reaches no queue."""
    broker = make_broker()
    make_exchange(broker.domain, "f", unroutable=Unroutable.REJECT, alternate=to_queue("c"))
    peer = broker.connect()
    peer.send(Target(address="f"))

    assert isinstance(outcome(peer, message(subject="nothing")), Accepted)
    assert counts(broker) == {"c": 1}


def test_a_relayed_message_names_its_exchange() -> None:
    """With a routing key or not; a queue is found as before."""
    broker = make_broker()
    peer = broker.connect()
    peer.send(Target())

    for octets in (
        message(to="e/a"),
        message(to="e", subject="b"),
        message({"routing-key": "c"}, to="e"),
        message(to="e::e"),
        message(to="c"),
    ):
        assert isinstance(outcome(peer, octets), Accepted)

    assert counts(broker) == {"a": 1, "b": 1, "c": 2, "e": 1}


def test_messages_for_an_exchange_that_is_gone_are_rejected() -> None:
    """They do not go to the queue of that name."""
    broker = make_broker()
    peer = broker.connect()
    peer.send(Target(address="e"))
    peer.send(Target(), name="relay", handle=1)
    peer.say(peer.transfer(b"", 1, message(to="e/a")))
    broker.domain.exchanges.delete(broker.domain.exchanges.exchange("e"))

    for handle, octets in ((0, message()), (1, message(to="e/a"))):
        state = outcome(peer, octets, handle)
        assert isinstance(state, Rejected)
        assert state.error is not None
        assert state.error.condition == "amqp:not-found"
    assert counts(broker) == {"a": 1}


def test_an_exchange_has_no_stages() -> None:
    """They would send to the address of its name at their commit."""
    broker = make_broker()
    answer = broker.connect().send(Target(address="e"), properties={STAGE: ["writer", 1, "attempt"]})

    assert only(answer, Detach).error.condition == "amqp:invalid-field"


def test_addresses_of_the_broker_are_not_affected() -> None:
    """Those that no exchange is called like are created as before."""
    broker = Broker()
    peer = broker.connect()
    peer.send(Target(address="new/address", capabilities=(Symbol("queue"),)))
    peer.say(peer.transfer(b"m"))

    assert counts(broker) == {"new/address": 1}
