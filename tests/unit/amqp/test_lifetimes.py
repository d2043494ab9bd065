"""Dynamic nodes and when they are deleted (AMQP 1.0 §3.5.10 to §3.5.13)."""

from typing import Any

import pytest

from artemis_amqp.broker.lifetimes import LIFETIME_POLICY, SUPPORTED_MODES
from artemis_amqp.engine.performatives import (
    Attach,
    Detach,
    End,
    Released,
    Source,
    Target,
    TransactionalState,
)
from artemis_amqp.engine.types import Described, Symbol, ULong
from tests.amqp_broker import Broker, Peer, bodies, in_transaction, only, settled
from tests.amqp_harness import Frame
from tests.core_harness import pass_time, set_clock, set_clocks

ON_CLOSE, NO_LINKS, NO_MESSAGES, NEITHER = range(0x2B, 0x2F)
ALL = {
    ON_CLOSE: "amqp:delete-on-close:list",
    NO_LINKS: "amqp:delete-on-no-links:list",
    NO_MESSAGES: "amqp:delete-on-no-messages:list",
    NEITHER: "amqp:delete-on-no-links-or-messages:list",
}


def lifetime(code: int) -> dict[Symbol, object]:
    """Node properties that ask for a policy."""
    return {LIFETIME_POLICY: Described(ULong(code), [])}


def dynamic(code: int | None, **fields: Any) -> Source:
    """A source that asks for a node."""
    return Source(dynamic=True, dynamic_node_properties=None if code is None else lifetime(code), **fields)


def address_in(frames: list[Frame]) -> str:
    """The node's name."""
    name = only(frames, Attach).source.address
    assert isinstance(name, str)
    return name


def refusal(frames: list[Frame]) -> str:
    """The condition with which an attach was refused."""
    assert only(frames, Attach).source is None
    condition = only(frames, Detach).error.condition
    assert isinstance(condition, str)
    return condition


def node(code: int | None, **fields: Any) -> tuple[Broker, Peer, str]:
    """A broker, a client with a receiver on a dynamic node, and its name."""
    broker = Broker()
    peer = broker.connect()
    return broker, peer, address_in(peer.receive(dynamic(code, **fields)))


def exists(broker: Broker, name: str) -> bool:
    """Whether a node is there, wholly or in part."""
    assert (name in broker.domain.addresses) == (name in broker.domain.queues)
    return name in broker.domain.addresses


CLOSE, DETACH = Detach(handle=0, closed=True), Detach(handle=0)

# -- what is asked and answered --------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [None, *ALL])
def test_the_answer_tells_the_policy(code: int | None) -> None:
    """AMQP 1.0 §2.6.3: the terminus as it is, the default (delete-on-close) included."""
    frames = Broker().connect().receive(dynamic(code))
    source = only(frames, Attach).source

    assert source.dynamic
    assert source.dynamic_node_properties == lifetime(ON_CLOSE if code is None else code)


@pytest.mark.parametrize("code", ALL)
def test_a_policy_may_come_by_its_name(code: int) -> None:
    """AMQP 1.0 §1.5: descriptors are numbers or names."""
    properties: dict[Symbol, object] = {LIFETIME_POLICY: Described(Symbol(ALL[code]), [])}
    frames = Broker().connect().receive(Source(dynamic=True, dynamic_node_properties=properties))

    assert only(frames, Attach).source.dynamic_node_properties == lifetime(code)


@pytest.mark.parametrize(
    "wanted",
    [
        Described(ULong(0x2F), []),
        Described(Symbol("amqp:delete-never:list"), []),
        Described(ULong(0x2B), ["more"]),
        Symbol("delete-on-close"),
        0x2B,
    ],
)
def test_a_policy_that_is_none_is_refused(wanted: object) -> None:
    """AMQP 1.0 §3.5.10 to §3.5.13: there are four."""
    broker = Broker()
    properties = {LIFETIME_POLICY: wanted}
    frames = broker.connect().receive(Source(dynamic=True, dynamic_node_properties=properties))

    assert refusal(frames) == "amqp:invalid-field"
    assert not broker.domain.addresses


@pytest.mark.parametrize(
    "source",
    [
        Source(dynamic=True, address="mine"),
        Source(address="q", dynamic_node_properties=lifetime(ON_CLOSE)),
        Source(address="q", expiry_policy="tomorrow"),
        Source(dynamic=True, dynamic_node_properties={SUPPORTED_MODES: Symbol("steal")}),
    ],
    ids=["address", "not dynamic", "expiry", "modes"],
)
def test_what_no_source_can_be_is_refused(source: Source) -> None:
    """AMQP 1.0 §3.5.3, §3.5.6: a dynamic address must not be set, the properties only with dynamic."""
    broker = Broker()

    assert refusal(broker.connect().receive(source)) == "amqp:invalid-field"
    assert not broker.domain.addresses


def test_what_no_target_can_be_is_refused() -> None:
    """AMQP 1.0 §3.5.4."""
    frames = Broker().connect().send(Target(dynamic=True, address="mine"))

    assert only(frames, Detach).error.condition == "amqp:invalid-field"


def test_the_modes_of_a_topic_are_copy() -> None:
    """AMQP 1.0 §3.5.9: what the node supports."""
    properties: dict[Symbol, object] = {SUPPORTED_MODES: Symbol("move")}
    source = Source(dynamic=True, dynamic_node_properties=properties, capabilities=(Symbol("temporary-topic"),))
    answer = only(Broker().connect().receive(source), Attach).source

    assert answer.dynamic_node_properties[SUPPORTED_MODES] == "copy"


# -- delete-on-close -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [None, ON_CLOSE])
def test_on_close_it_goes_with_its_link(code: int | None) -> None:
    """AMQP 1.0 §3.5.10: messages or not."""
    broker, peer, name = node(code)
    peer.send(Target(address=name), handle=1)
    peer.say(peer.transfer(b"m", handle=1))
    assert exists(broker, name)
    frames = peer.say(CLOSE)

    assert not exists(broker, name)
    assert any(isinstance(one, Detach) and one.error is None for _, one, _ in frames)


def test_on_close_it_outlives_a_detach() -> None:
    """AMQP 1.0 §3.5.10 with §3.5.6: the link is there until its terminus expires, here with the session."""
    broker, peer, name = node(ON_CLOSE)
    peer.say(DETACH)
    assert exists(broker, name)
    peer.receive(Source(address=name))
    assert exists(broker, name)
    peer.say(DETACH, End())

    assert not exists(broker, name)


def test_on_close_it_goes_when_the_attached_again_link_is_closed() -> None:
    """AMQP 1.0 §3.5.10: it is the link that made it, by its name."""
    broker, peer, name = node(ON_CLOSE)
    peer.say(DETACH)
    peer.receive(Source(address=name))
    peer.say(CLOSE)

    assert not exists(broker, name)


def test_link_detach_ends_it_at_the_detach() -> None:
    """AMQP 1.0 §3.5.6: what JMS clients ask for."""
    broker, peer, name = node(ON_CLOSE, expiry_policy="link-detach")
    peer.say(DETACH)

    assert not exists(broker, name)


@set_clocks
def test_a_timeout_ends_it_later(jump_ms: int) -> None:
    """AMQP 1.0 §3.5.6: the timer is stopped by an attach."""
    broker, peer, name = node(ON_CLOSE, expiry_policy="link-detach", timeout=5)
    peer.say(DETACH)
    pass_time(broker.domain, 4000)
    peer.receive(Source(address=name, expiry_policy="link-detach", timeout=5))
    pass_time(broker.domain, 4000)
    assert exists(broker, name)
    peer.say(DETACH)
    set_clock(broker.domain, jump_ms)
    pass_time(broker.domain, 4999)
    assert exists(broker, name)
    pass_time(broker.domain, 1)

    assert not exists(broker, name)


@pytest.mark.parametrize("lost", [False, True])
def test_on_close_it_goes_with_the_connection(lost: bool) -> None:
    """artemis-model §1.11, whatever the expiry policy."""
    broker, peer, name = node(ON_CLOSE, expiry_policy="never")
    if lost:
        peer.connection.connection_lost()
    else:
        peer.connection.shutdown("bye")

    assert not exists(broker, name)


# -- delete-on-no-links ----------------------------------------------------------------------------------------


def test_no_links_it_stays_for_others() -> None:
    """AMQP 1.0 §3.5.11: links of whatever connection, to and from it."""
    broker, peer, name = node(NO_LINKS)
    other = broker.connect("other")
    other.send(Target(address=name))
    peer.say(CLOSE)
    assert exists(broker, name)
    peer.receive(Source(address=name), name="again")
    other.say(CLOSE)
    assert exists(broker, name)
    peer.say(CLOSE)

    assert not exists(broker, name)


def test_no_links_it_goes_with_its_messages() -> None:
    """AMQP 1.0 §3.5.11: messages are no reason to stay."""
    broker, peer, name = node(NO_LINKS)
    peer.send(Target(address=name), handle=1)
    peer.say(peer.transfer(b"m", handle=1), Detach(handle=1, closed=True), CLOSE)

    assert not exists(broker, name)


def test_no_links_it_outlives_its_connection() -> None:
    """AMQP 1.0 §3.5.11: from then on whoever may consume from it."""
    broker, peer, name = node(NO_LINKS)
    other = broker.connect("other")
    other.send(Target(address=name))
    other.say(other.transfer(b"m"))
    assert refusal(other.receive(Source(address=name), handle=1)) == "amqp:unauthorized-access"
    peer.connection.connection_lost()
    assert exists(broker, name)
    assert bodies(other.receive(Source(address=name), handle=2)) == [b"m"]
    other.say(Detach(handle=2, closed=True), CLOSE)

    assert not exists(broker, name)


def test_a_link_that_moves_to_another_node_is_no_link_to_the_first() -> None:
    """AMQP 1.0 §2.6.3: an attach under the same name with another source."""
    broker, peer, name = node(NO_LINKS)
    broker.queue()
    peer.say(DETACH)
    assert exists(broker, name)
    peer.receive()

    assert not exists(broker, name)


def test_a_stolen_link_is_a_link_all_the_same() -> None:
    """AMQP 1.0 §2.6.1: the name goes on, in another session."""
    broker, peer, name = node(NO_LINKS)
    peer.begin(1)
    peer.say(Attach(name="r", handle=0, role=True, source=Source(address=name), target=Target()), channel=1)

    assert exists(broker, name)


# -- delete-on-no-messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [NO_MESSAGES, NEITHER])
def test_no_messages_it_goes_with_the_last(code: int) -> None:
    """AMQP 1.0 §3.5.12, §3.5.13: when it is settled; links are a reason to stay for the latter only."""
    broker, peer, name = node(code)
    peer.send(Target(address=name), handle=1)
    assert bodies(peer.say(peer.transfer(b"1", handle=1), peer.transfer(b"2", handle=1))) == [b"1", b"2"]
    peer.say(settled(0))
    assert exists(broker, name)
    frames = peer.say(settled(1))
    assert exists(broker, name) == (code == NEITHER)
    gone = [one.error.condition for _, one, _ in frames if isinstance(one, Detach) and one.error is not None]
    assert gone == (["amqp:resource-deleted"] if code == NO_MESSAGES else [])
    peer.say(CLOSE if code == NEITHER else Detach(handle=1, closed=True))
    peer.say(Detach(handle=1, closed=True) if code == NEITHER else b"")

    assert not exists(broker, name)


def test_released_it_is_there() -> None:
    """AMQP 1.0 §3.5.12: it comes back."""
    broker, peer, name = node(NO_MESSAGES)
    peer.send(Target(address=name), handle=1)
    peer.say(peer.transfer(b"1", handle=1))
    peer.say(settled(0, Released()))

    assert exists(broker, name)


def test_what_a_transaction_took_is_there_until_the_discharge() -> None:
    """AMQP 1.0 §4.4.2: provisional."""
    broker, peer, name = node(NO_MESSAGES)
    peer.send(Target(address=name), handle=1)
    peer.coordinator()
    peer.say(peer.transfer(b"1", handle=1))
    transaction = peer.declare()
    peer.say(in_transaction(0, transaction))
    assert exists(broker, name)
    peer.discharge(transaction)

    assert not exists(broker, name)


def test_what_a_transaction_sends_is_there_already() -> None:
    """AMQP 1.0 §4.4.1: else the node would be gone when it arrives."""
    broker, peer, name = node(NO_MESSAGES)
    peer.send(Target(address=name), handle=1)
    peer.coordinator()
    peer.say(peer.transfer(b"1", handle=1))
    transaction = peer.declare()
    peer.say(peer.transfer(b"2", handle=1, state=TransactionalState(txn_id=transaction)))
    peer.say(settled(0))
    assert exists(broker, name)
    assert bodies(peer.discharge(transaction)) == [b"2"]
    peer.say(settled(1))

    assert not exists(broker, name)


def test_expired_and_purged_it_is_gone() -> None:
    """AMQP 1.0 §3.5.12: however the last message left."""
    broker, peer, name = node(NO_MESSAGES)
    peer.say(CLOSE)
    assert not exists(broker, name)
    name = address_in(peer.receive(dynamic(NO_MESSAGES), credit=0))
    peer.send(Target(address=name), handle=1)
    peer.say(peer.transfer(b"1", handle=1))
    broker.domain.queue(name).purge()
    pass_time(broker.domain, 0)

    assert not exists(broker, name)


def test_no_messages_it_outlives_all_links() -> None:
    """AMQP 1.0 §3.5.12: until somebody has taken the last."""
    broker, peer, name = node(NO_MESSAGES)
    peer.send(Target(address=name), handle=1)
    peer.say(peer.transfer(b"1", handle=1))
    peer.connection.connection_lost()
    assert exists(broker, name)
    other = broker.connect("other")
    assert bodies(other.receive(Source(address=name))) == [b"1"]
    other.say(settled(0))

    assert not exists(broker, name)


def test_without_any_it_goes_with_its_maker() -> None:
    """AMQP 1.0 §3.5.12: there never was a last message, and nobody may ever know the node."""
    broker, peer, name = node(NO_MESSAGES)
    peer.say(CLOSE)

    assert not exists(broker, name)


def test_neither_it_goes_when_the_later_of_both_is_gone() -> None:
    """AMQP 1.0 §3.5.13: first the links, then the messages."""
    broker, peer, name = node(NEITHER)
    peer.send(Target(address=name), handle=1)
    peer.say(peer.transfer(b"1", handle=1))
    peer.say(DETACH, Detach(handle=1, closed=True))
    assert exists(broker, name)
    peer.say(settled(0))
    assert exists(broker, name)
    peer.say(End())

    assert not exists(broker, name)


def test_a_topic_has_the_messages_of_its_subscriptions() -> None:
    """AMQP 1.0 §3.5.12 on the address model: a topic has queues."""
    broker = Broker()
    peer = broker.connect()
    topic = (Symbol("temporary-topic"),)
    name = address_in(peer.receive(dynamic(NO_MESSAGES, capabilities=topic)))
    peer.receive(Source(address=name), name="second", handle=1)
    peer.send(Target(address=name), handle=2)
    assert bodies(peer.say(peer.transfer(b"1", handle=2))) == [b"1", b"1"]
    peer.say(settled(0))
    assert name in broker.domain.addresses
    peer.say(settled(1))

    assert name not in broker.domain.addresses
    assert not broker.domain.queues


# -- limits ----------------------------------------------------------------------------------------------------


def test_nodes_that_last_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may not fill the broker with what nobody will ever delete."""
    monkeypatch.setattr("artemis_amqp.broker.lifetimes.NODES_LIMIT", 2)
    broker = Broker()
    peer = broker.connect()
    for number in range(2):
        peer.receive(dynamic(NO_LINKS), name=str(number), handle=number)
    assert refusal(peer.receive(dynamic(NO_LINKS), name="2", handle=2)) == "amqp:resource-limit-exceeded"
    assert len(broker.domain.addresses) == 2
    peer.say(CLOSE)

    assert only(peer.receive(dynamic(NO_LINKS), name="3", handle=3), Attach).source is not None


def test_nothing_is_left_behind() -> None:
    """reliability §4."""
    broker = Broker()
    for number, code in enumerate(ALL):
        peer = broker.connect(str(number))
        peer.receive(dynamic(code))
        peer.say(DETACH)
        peer.connection.connection_lost()
    lifetimes = broker.manager.lifetimes

    assert (lifetimes._nodes, lifetimes._node_of, lifetimes._made_by, lifetimes._lasting) == ({}, {}, {}, 0)
    assert not broker.domain.addresses
