"""Addresses of RabbitMQ 4 on acceptors with `amqpAddresses=RABBITMQ` (qpid-exchanges §16.1, §16.2)."""

import pytest

from artemis_amqp.broker.rabbit_addresses import RabbitTarget, read_source, read_target
from artemis_amqp.engine.codec import read_value
from artemis_amqp.engine.performatives import (
    Accepted,
    Attach,
    Detach,
    Flow,
    Rejected,
    Released,
    Source,
    Target,
    Transfer,
)
from artemis_amqp.engine.types import Symbol
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.exchange_config import Unroutable
from artemis_py.errors import InvalidRequest
from artemis_py.wire.parameters import InvalidParameter
from tests.amqp_broker import Broker, Peer, only
from tests.unit.amqp.test_exchanges import DISCARD, REJECT, counts, message, outcome
from tests.unit.core.exchange_world import bind, make_exchange, make_queues

TARGETS: list[tuple[str, RabbitTarget | None]] = [
    ("/exchanges/e/k", RabbitTarget("e", "k")),
    ("/exchanges/e", RabbitTarget("e", "")),
    ("/exchanges/e/", RabbitTarget("e", "")),
    ("/exchanges/e%2Ff/a%20b%2Fc%25", RabbitTarget("e/f", "a b/c%")),
    ("/exchanges/%C3%A9/a.b.*", RabbitTarget("é", "a.b.*")),
    ("/queues/q", RabbitTarget(None, "q")),
    ("/queues/a%3A%3Ab%2f", RabbitTarget(None, "a::b/")),
    ("exchanges/e/k", None),
    ("q", None),
]


@pytest.mark.parametrize(("address", "wanted"), TARGETS)
def test_addresses_of_targets(address: str, wanted: RabbitTarget | None) -> None:
    """Each segment is percent-encoded; an address without a slash in front is none of them."""
    assert read_target(address) == wanted


BAD_TARGETS = [
    "/exchanges",
    "/exchanges/",
    "/exchanges//k",
    "/exchanges/amq.default/k",
    "/exchanges/e/k/l",
    "/queues/",
    "/queues/q/r",
    "/queue/q",
    "/topic/k",
    "/management",
    "/",
    "/queues/%",
    "/queues/%4",
    "/queues/%zz",
    "/queues/%+1",
    "/queues/%FF",
]


@pytest.mark.parametrize("address", BAD_TARGETS)
def test_addresses_that_no_target_has(address: str) -> None:
    """The default exchange, more segments than there are, addresses of version 1, what is not percent-encoded."""
    with pytest.raises(InvalidRequest, match=address.replace("+", r"\+")):
        read_target(address)


@pytest.mark.parametrize(
    ("address", "name"), [("/queues/q", "::q"), ("/queues/a%2Fb", "::a/b"), ("q", None), ("a::q", None)]
)
def test_addresses_of_sources(address: str, name: str | None) -> None:
    """Queues only."""
    assert read_source(address) == name


@pytest.mark.parametrize("address", ["/exchanges/e/k", "/queues/", "/queues/q/r", "/queue/q", "/queues/%zz"])
def test_addresses_that_no_source_has(address: str) -> None:
    """A client that subscribes to an exchange makes a queue and binds it."""
    with pytest.raises(InvalidRequest, match=r"source|hexadecimal"):
        read_source(address)


def make_broker(settings: dict[str, AddressSettings] | None = None, **parameters: str) -> Broker:
    """Queues a and b, bound to the exchange e under their names."""
    broker = Broker(settings, None, amqpAddresses="rabbitmq", **parameters)
    make_queues(broker.domain, "a b")
    make_exchange(broker.domain, "e")
    for name in "ab":
        bind(broker.domain, "e", name, name)
    return broker


def test_a_target_is_an_exchange_with_a_key_or_a_queue() -> None:
    """Whatever the message says: its subject is no routing key here. Other addresses mean what they always do."""
    broker = make_broker()
    bind(broker.domain, "e", "", "b")
    peer = broker.connect()
    for handle, address in enumerate(("/exchanges/e/a", "/exchanges/e", "/queues/a", "e/a", "e", "new")):
        answer = only(peer.send(Target(address=address), name=address, handle=handle), Attach)
        assert answer.target.address == address
        assert isinstance(outcome(peer, message(subject="b"), handle), Accepted)

    assert counts(broker) == {"a": 3, "b": 2}


def test_a_relayed_message_has_its_address_in_to() -> None:
    """The same addresses; each is refused for itself."""
    broker = make_broker()
    peer = broker.connect()
    peer.send(Target())

    states = [
        outcome(peer, message(to=address))
        for address in ("/exchanges/e/a", "/queues/b", "/exchanges/e/none", "/exchanges/none/a", "/queues/none", "/x/y")
    ]

    assert [type(state) for state in states] == [Accepted, Accepted, Released, Rejected, Released, Rejected]
    assert counts(broker) == {"a": 1, "b": 1}


POLICIES = [
    (Unroutable.DISCARD, (), Released),
    (Unroutable.REJECT, (), Rejected),
    (Unroutable.DISCARD, (REJECT,), Rejected),
    (Unroutable.REJECT, (DISCARD,), Accepted),
]


@pytest.mark.parametrize(("unroutable", "wish", "state"), POLICIES)
@pytest.mark.parametrize("is_relayed", [False, True])
def test_what_reaches_no_queue_is_released(
    unroutable: Unroutable, wish: tuple[Symbol, ...], state: type, is_relayed: bool
) -> None:
    """Unless the exchange or the client says that it is rejected, or the client that it is discarded."""
    broker = Broker(amqpAddresses="rabbitmq")
    make_exchange(broker.domain, "f", unroutable=unroutable)
    peer = broker.connect()
    address = None if is_relayed else "/exchanges/f/k"
    answer = only(peer.send(Target(address=address, capabilities=wish)), Attach)

    assert type(outcome(peer, message(to="/exchanges/f/k"))) is state
    assert answer.target.capabilities == wish


def test_a_settled_message_that_reaches_no_queue_is_gone() -> None:
    """Its link stays."""
    broker = make_broker()
    peer = broker.connect()
    peer.send(Target(address="/exchanges/e/none"))

    assert not [each for _, each, _ in peer.say(peer.transfer(b"x", settled=True)) if isinstance(each, Detach)]
    assert isinstance(outcome(peer, message()), Released)


def test_a_queue_that_is_gone_releases() -> None:
    """It is not made again, and is found again if somebody makes it."""
    broker = make_broker()
    peer = broker.connect()
    peer.send(Target(address="/queues/a"))
    broker.domain.delete_queue("a")

    assert isinstance(outcome(peer, message()), Released)
    assert "a" not in broker.domain.queues
    make_queues(broker.domain, "a")
    assert isinstance(outcome(peer, message()), Accepted)
    assert counts(broker) == {"a": 1}


def test_a_queue_that_is_full_rejects() -> None:
    """With the limit as the reason, through an exchange as well."""
    broker = make_broker({"a": AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.FAIL)})
    peer = broker.connect()
    for handle, address in enumerate(("/queues/a", "/exchanges/e/a")):
        peer.send(Target(address=address), name=address, handle=handle)
    assert isinstance(outcome(peer, message()), Accepted)

    for handle in (0, 1):
        state = outcome(peer, message(), handle)
        assert isinstance(state, Rejected)
        assert state.error is not None
        assert state.error.condition == "amqp:resource-limit-exceeded"


def test_a_sender_to_a_full_queue_gets_no_credit() -> None:
    """With BLOCK, as at its address; credit comes when there is room."""
    blocking = AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.BLOCK)
    broker = make_broker({"a": blocking}, amqpCredits="2")
    peer = broker.connect()
    peer.send(Target(address="/queues/a"))
    frames = [*peer.say(peer.transfer(b"x")), *peer.say(peer.transfer(b"x"))]
    assert [each.link_credit for _, each, _ in frames if isinstance(each, Flow)] == [1]  # what is left

    broker.domain.queue("a").purge()
    assert [each.link_credit for _, each, _ in peer.hear() if isinstance(each, Flow)] == [2]


@pytest.mark.parametrize(
    ("address", "condition"),
    [
        ("/exchanges/none/k", "amqp:not-found"),
        ("/queues/none", "amqp:not-found"),
        ("/queues/$artemis.prepared", "amqp:not-found"),
        ("/exchanges/amq.default/k", "amqp:invalid-field"),
        ("/topic/k", "amqp:invalid-field"),
    ],
)
def test_links_that_are_refused(address: str, condition: str) -> None:
    """Nothing is created for them."""
    broker = make_broker()
    peer = broker.connect()

    assert only(peer.send(Target(address=address)), Detach).error.condition == condition
    assert set(broker.domain.queues) == {"a", "b"}


def delivered_names(peer: Peer) -> list[tuple[object, object]]:
    """Exchange and routing key in the annotations of what was delivered."""
    names = []
    for _, each, payload in peer.hear():
        if isinstance(each, Transfer):
            start = payload.index(b"\x00\x53\x72") + 3
            annotations = read_value(payload, start, len(payload))[0]
            assert isinstance(annotations, dict)
            names.append((annotations["x-exchange"], annotations["x-routing-key"]))
    return names


def test_deliveries_name_exchange_and_routing_key() -> None:
    """In annotations, as RabbitMQ does: the default exchange has no name, and the queue is its key."""
    broker = make_broker()
    reader = broker.connect()
    answer = only(reader.receive(Source(address="/queues/a")), Attach)
    sender = broker.connect()
    for handle, address in enumerate(("/exchanges/e/a", "/queues/a")):
        sender.send(Target(address=address), name=address, handle=handle)
        sender.say(sender.transfer(b"m", handle))

    assert answer.source.address == "/queues/a"
    assert delivered_names(reader) == [("e", "a"), ("", "a")]


@pytest.mark.parametrize(
    ("address", "condition"),
    [("/queues/none", "amqp:not-found"), ("/exchanges/e/a", "amqp:invalid-field")],
)
def test_receivers_that_are_refused(address: str, condition: str) -> None:
    """Receiving creates no queue."""
    broker = make_broker()

    assert only(broker.connect().receive(Source(address=address)), Detach).error.condition == condition
    assert set(broker.domain.queues) == {"a", "b"}


def test_other_acceptors_know_no_such_addresses() -> None:
    """There a name that begins with a slash is a name as any other; deliveries name no exchange."""
    broker = Broker()
    peer = broker.connect()
    peer.send(Target(address="/queues/q", capabilities=(Symbol("queue"),)))
    peer.say(peer.transfer(b"m"))
    frames = peer.receive(Source(address="/queues/q"), handle=1)
    (payload,) = [payload for _, each, payload in frames if isinstance(each, Transfer)]

    assert set(broker.domain.queues) == {"/queues/q"}
    assert b"x-exchange" not in payload


def test_the_parameter_has_two_values() -> None:
    """In upper or lower case; another one is named, with those that there are."""
    for text in ("RABBITMQ", "rabbitmq"):
        assert Broker(amqpAddresses=text).parameters == Broker(amqpAddresses="RabbitMQ").parameters
    assert Broker(amqpAddresses="artemis").parameters == Broker().parameters
    with pytest.raises(InvalidParameter, match='"rabbit" is not one of its values; write ARTEMIS or RABBITMQ'):
        Broker(amqpAddresses="rabbit")
