"""Links and relayed messages that go to an exchange (qpid-exchanges §13)."""

from typing import Any

import pytest

from artemis_amqp.broker.exchanges import KEYS
from artemis_amqp.engine.codec import encode_value
from artemis_amqp.engine.extensions import STAGE
from artemis_amqp.engine.performatives import (
    Accepted,
    Attach,
    Detach,
    End,
    Properties,
    Rejected,
    Source,
    Target,
    encode,
)
from artemis_amqp.engine.types import Described, Symbol, UInt, ULong
from artemis_amqp.messages.arrival import split_sections
from artemis_amqp.messages.incoming import read_message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.settings.exchange_config import Unroutable
from artemis_py.errors import MalformedFrame
from tests.amqp_broker import Broker, Peer, bodies, only, value
from tests.core_harness import make_queue, send, settle_down
from tests.unit.core.exchange_world import bind, make_exchange, make_queues, publish, to_queue

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


@pytest.mark.parametrize(("wish", "state"), [((), Accepted), ((REJECT,), Rejected), ((DISCARD,), Accepted)])
def test_an_anonymous_link_may_wish_for_unroutable_messages_too(wish: tuple[Symbol, ...], state: type) -> None:
    """For each exchange that its messages name."""
    peer = make_broker().connect()
    peer.send(Target(capabilities=wish))

    assert type(outcome(peer, message(to="e/none"))) is state


def test_senders_are_detached_when_their_exchange_is_deleted() -> None:
    """Those with a key, too; senders to a queue of that name, or to other exchanges, stay."""
    broker = make_broker()
    peer, other = broker.connect(), broker.connect("other")
    for handle, address in enumerate(("e", "e/a", "e::e", "amq.topic")):
        peer.send(Target(address=address), name=address, handle=handle)
    other.send(Target(address="e"))
    other.say(Detach(handle=0, closed=True))

    broker.domain.exchanges.delete(broker.domain.exchanges.exchange("e"))

    detached = [each for _, each, _ in peer.hear() if isinstance(each, Detach)]
    assert [(each.handle, each.closed, each.error.condition) for each in detached if each.error is not None] == [
        (0, True, "amqp:resource-deleted"),
        (1, True, "amqp:resource-deleted"),
    ]
    assert other.hear() == []
    assert isinstance(outcome(peer, message(), 2), Accepted)
    assert counts(broker) == {"e": 1}


def test_a_sender_that_left_is_forgotten_by_its_exchange() -> None:
    """However it left: nothing of it grows with the number of links that there were."""
    broker = make_broker()
    for ending in ("close", "session", "connection"):
        peer = broker.connect(ending)
        peer.send(Target(address="e/a"))
        assert len(broker.domain.exchanges.exchange("e").watchers) == 1
        if ending == "close":
            peer.say(Detach(handle=0, closed=True))
        elif ending == "session":
            peer.say(End())
        else:
            peer.connection.connection_lost()
        settle_down(broker.domain)
        assert not broker.domain.exchanges.exchange("e").watchers


def test_relayed_messages_for_an_exchange_that_was_deleted_are_refused() -> None:
    """They do not go to the queue of that name. The link stays, because its other messages are for something else;
    without the outcome rejected it is detached (amqp10 §15.1).
    """
    broker = make_broker()
    peer = broker.connect()
    peer.send(Target(), name="relay")
    peer.send(Target(), name="strict", handle=1, source=Source(outcomes=(Symbol("amqp:accepted:list"),)))
    for handle in (0, 1):
        peer.say(peer.transfer(b"", handle, message(to="e/a")))
    broker.domain.exchanges.delete(broker.domain.exchanges.exchange("e"))

    state = outcome(peer, message(to="e/a"))
    detach = only(peer.say(peer.transfer(b"", 1, message(to="e/a"))), Detach)

    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == detach.error.condition == "amqp:resource-deleted"
    assert isinstance(outcome(peer, message(to="b")), Accepted)
    assert counts(broker) == {"a": 2, "b": 1}


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


# -- sources ---------------------------------------------------------------------------------------------------

DIRECT_BINDING = Symbol("apache.org:legacy-amqp-direct-binding:string")
TOPIC_BINDING = Symbol("apache.org:legacy-amqp-topic-binding:string")
HEADERS_BINDING = Symbol("apache.org:legacy-amqp-headers-binding:map")

SOURCES: list[tuple[str, dict[str, Described], dict[str, bytes], list[bytes], list[str]]] = [
    ("amq.direct/K", {}, {"K": b"1", "k": b"2"}, [b"1"], []),
    ("amq.direct", {"f": Described(DIRECT_BINDING, "F")}, {"F": b"1", "K": b"2"}, [b"1"], ["f"]),
    ("amq.direct/K", {"f": Described(DIRECT_BINDING, "F")}, {"F": b"1", "K": b"2"}, [b"1", b"2"], ["f"]),
    ("amq.topic", {}, {"": b"1", "a.b": b"2"}, [b"1", b"2"], []),
    ("amq.topic/a.#", {}, {"a": b"1", "a.b/c": b"2", "b": b"3"}, [b"1", b"2"], []),
    ("amq.topic", {"f": Described(TOPIC_BINDING, "a.*")}, {"a": b"1", "a.b": b"2"}, [b"2"], ["f"]),
    ("amq.topic", {"f": Described(ULong(0x468C00000001), "a")}, {"a": b"1", "b": b"2"}, [b"1"], ["f"]),
    ("amq.topic/a", {"f": Described(DIRECT_BINDING, "b")}, {"a": b"1", "b": b"2"}, [b"1"], []),
    ("amq.fanout", {}, {"": b"1", "a": b"2"}, [b"1", b"2"], []),
    ("amq.fanout/K", {}, {"": b"1", "a": b"2"}, [b"1", b"2"], []),
    ("amq.match/K", {}, {"": b"1"}, [b"1"], []),
]


@pytest.mark.parametrize(("address", "filters", "sent", "received", "applied"), SOURCES)
def test_what_a_source_binds(
    address: str, filters: dict[str, Described], sent: dict[str, bytes], received: list[bytes], applied: list[str]
) -> None:
    """By the key in the address and by filters for this type of exchange; the others are left out of the answer."""
    broker = Broker()
    peer = broker.connect()
    wanted: dict[Symbol, object] = {Symbol(key): value for key, value in filters.items()}
    answer = only(peer.receive(Source(address=address, filter=wanted)), Attach)
    sender = broker.connect("other")
    exchange = address.partition("/")[0]
    for number, (key, body) in enumerate(sent.items()):
        sender.send(Target(address=f"{exchange}/{key}"), name=str(number), handle=number)
        sender.say(sender.transfer(body, number))

    assert bodies(peer.hear()) == received
    assert sorted(answer.source.filter or {}) == applied
    assert (answer.source.address, answer.source.distribution_mode) == (address, "copy")
    assert answer.properties is None


def test_a_headers_exchange_is_subscribed_to_with_a_filter() -> None:
    """A map of headers, of which symbols and numbers are compared as in other bindings."""
    broker = Broker()
    peer = broker.connect()
    wanted = Described(HEADERS_BINDING, {"x-match": Symbol("any"), "A": UInt(1), "B": None})
    peer.receive(Source(address="amq.match", filter={Symbol("h"): wanted}))
    sender = broker.connect("other")
    sender.send(Target(address="amq.match"))
    headers: list[dict[str, Any]] = [{"A": 1}, {"A": 2}, {"B": "b"}, {}]
    for number, properties in enumerate(headers):
        sender.say(sender.transfer(b"", 0, message(properties).replace(b"\xa1\x01m", b"\xa1\x01%d" % number)))

    assert bodies(peer.hear()) == [b"0", b"2"]


def test_selectors_apply_where_the_queue_is_bound() -> None:
    """What they refuse never enters the queue; no-local counts as one."""
    broker = Broker()
    peer = broker.connect("me")
    filters: dict[Symbol, object] = {
        Symbol("s"): Described(Symbol("apache.org:selector-filter:string"), "colour = 'red'"),
        Symbol("n"): Described(Symbol("apache.org:no-local-filter:list"), []),
    }
    answer = only(peer.receive(Source(address="amq.fanout", filter=filters), credit=0), Attach)
    (queue,) = broker.domain.queues.values()
    for container in ("me", "other"):
        sender = broker.connect(container) if container != "me" else peer
        sender.send(Target(address="amq.fanout"), handle=1)
        for colour in ("red", "blue"):
            sender.say(sender.transfer(b"", 1, message({"colour": colour})))

    assert queue.message_count == 1
    assert sorted(answer.source.filter) == ["n", "s"]


@pytest.mark.parametrize("ends", ["close", "connection", "session"])
def test_a_subscription_ends_with_its_link(ends: str) -> None:
    """Nothing of it is left: no queue, no address, no binding."""
    broker = Broker()
    peer = broker.connect()
    peer.receive(Source(address="amq.topic/a.*"))
    assert len(broker.domain.exchanges.exchange("amq.topic").bindings) == 1

    match ends:
        case "close":
            peer.say(Detach(handle=0, closed=True))
        case "session":
            peer.say(End())
        case _:
            peer.connection.connection_lost()
    settle_down(broker.domain)

    assert not broker.domain.queues
    assert not broker.domain.addresses
    assert not broker.domain.exchanges.exchange("amq.topic").bindings


REFUSED: list[tuple[Source, str, str]] = [
    (Source(address="amq.direct"), "amqp:invalid-field", "needs a key"),
    (Source(address="amq.match"), "amqp:invalid-field", "needs a filter"),
    (Source(address="amq.direct", durable=2), "amqp:invalid-field", "needs a key"),
    (
        Source(address="amq.topic", durable=2, filter={Symbol("t"): Described(TOPIC_BINDING, "a" + ".a" * 300)}),
        "amqp:invalid-field",
        "256",
    ),
    (
        Source(address="amq.match", filter={Symbol("h"): Described(HEADERS_BINDING, {"a": [1]})}),
        "amqp:invalid-field",
        "may be",
    ),
]


@pytest.mark.parametrize(("source", "condition", "text"), REFUSED)
def test_subscriptions_that_are_refused(source: Source, condition: str, text: str) -> None:
    """Those that would get nothing, and those that are not supported; nothing is left behind."""
    broker = Broker()
    detach = only(broker.connect().receive(source), Detach)

    assert detach.error.condition == condition
    assert text in detach.error.description
    assert not broker.domain.queues
    assert not broker.domain.addresses


SHARED, GLOBAL = Symbol("shared"), Symbol("global")

NAMES: list[tuple[int, tuple[Symbol, ...], str]] = [
    (2, (), "me.sub"),
    (1, (), "me.sub"),
    (2, (SHARED,), "me.sub"),
    (0, (SHARED,), "me.sub:shared-volatile"),
    (2, (SHARED, GLOBAL), "sub:global"),
    (0, (SHARED, GLOBAL), "sub:shared-volatile:global"),
]


def subscribe(peer: Peer, address: str = "amq.topic/a.*", name: str = "sub", handle: int = 0, **fields: Any) -> Any:
    """Attach to a durable subscription through an exchange; the answer of the broker."""
    options: dict[str, Any] = {"durable": 2, "expiry_policy": Symbol("never"), **fields}
    frames = peer.receive(Source(address=address, **options), name=name, handle=handle, credit=0)
    return [each for _, each, _ in frames if isinstance(each, Attach | Detach)][-1]


@pytest.mark.parametrize(("durable", "capabilities", "name"), NAMES)
def test_a_subscription_has_the_name_that_one_to_an_address_has(
    durable: int, capabilities: tuple[Symbol, ...], name: str
) -> None:
    """Its address is below the name of the exchange, which leads there."""
    broker = Broker()
    peer = broker.connect("me")
    link = "sub|volatile1" if SHARED in capabilities else "sub"
    answer = subscribe(peer, name=link, durable=durable, capabilities=capabilities)

    (queue,) = broker.domain.queues.values()
    assert (queue.name, queue.address.name, queue.durable) == (name, f"amq.topic.{name}", durable > 0)
    assert (answer.source.address, answer.source.durable) == ("amq.topic/a.*", durable)
    assert (answer.source.capabilities, answer.source.distribution_mode) == (capabilities, "copy")
    assert [binding.key for binding in broker.domain.exchanges.bindings_of(queue)] == ["a.*"]


def test_a_durable_subscription_collects_while_its_client_is_away() -> None:
    """It is found again by its name, and ends when the client closes the link: queue, address and binding."""
    broker = Broker()
    subscribe(broker.connect("me"))
    (queue,) = broker.domain.queues.values()
    for ending in (Detach(handle=0), End(), None):
        peer = broker.connect("me")
        answer = subscribe(peer)
        assert broker.domain.queue("me.sub") is queue
        if ending is not None:
            peer.say(ending)
        peer.connection.connection_lost()
        settle_down(broker.domain)
        publish(broker.domain, "amq.topic", "a.b")

    assert isinstance(answer, Attach)
    assert queue.message_count == 3
    peer = broker.connect("me")
    assert len(bodies([*peer.receive(Source(address="amq.topic/a.*", durable=2), name="sub")])) == 3
    peer.say(Detach(handle=0, closed=True))
    assert not broker.domain.queues
    assert not broker.domain.addresses
    assert not broker.domain.exchanges.exchange("amq.topic").bindings


SELECTOR_FILTER = Symbol("apache.org:selector-filter:string")

CHANGES: list[tuple[str, str, dict[Symbol, object], bool]] = [
    ("amq.topic/a.*", "amq.topic/a.*", {}, False),
    ("amq.topic/a.*", "amq.topic", {Symbol("k"): Described(TOPIC_BINDING, "a.*")}, False),
    ("amq.topic/a.*", "amq.topic/a.#", {}, True),
    ("amq.topic/a.*", "amq.topic", {}, True),
    ("amq.topic/a.*", "amq.fanout/a.*", {}, True),
    ("amq.topic/a.*", "amq.topic/a.*", {Symbol("s"): Described(SELECTOR_FILTER, "a = 1")}, True),
    ("amq.topic/a.*", "some.address", {}, True),
    ("some.address", "amq.topic/a.*", {}, True),
    ("amq.match", "amq.match", {Symbol("h"): Described(HEADERS_BINDING, {"a": UInt(1)})}, False),
    ("amq.match", "amq.match", {Symbol("h"): Described(HEADERS_BINDING, {"a": True})}, True),
    ("amq.match", "amq.match", {Symbol("h"): Described(HEADERS_BINDING, {"a": 1, "b": 1})}, True),
]


@pytest.mark.parametrize(("before", "after", "filters", "is_changed"), CHANGES)
def test_a_subscription_that_has_changed_is_made_again(
    before: str, after: str, filters: dict[Symbol, object], is_changed: bool
) -> None:
    """As one to an address: its messages are gone, and what it was bound to. Used by a client, it is refused."""
    broker = Broker()
    first = broker.connect("me")
    topic = () if before.startswith("amq") else (Symbol("topic"),)
    headers = {Symbol("h"): Described(HEADERS_BINDING, {"a": 1})} if before == "amq.match" else None
    subscribe(first, before, capabilities=topic, filter=headers)
    queue = broker.domain.queue("me.sub")
    first.connection.connection_lost()
    topic = () if after.startswith("amq") else (Symbol("topic"),)

    peer = broker.connect("me")
    assert isinstance(subscribe(peer, after, capabilities=topic, filter=filters), Attach)

    assert (broker.domain.queue("me.sub") is not queue) is is_changed
    assert queue.is_deleted is is_changed
    assert len(broker.domain.exchanges.bindings_of(broker.domain.queue("me.sub"))) == (after != "some.address")
    assert not broker.domain.exchanges.bindings_of(queue) or not is_changed


def test_a_subscription_in_use_is_not_changed() -> None:
    """The second client of a global subscription that wants another key is refused."""
    broker = Broker()
    subscribe(broker.connect("one"), capabilities=(SHARED, GLOBAL))
    refused = subscribe(broker.connect("two"), "amq.topic/b", capabilities=(SHARED, GLOBAL))

    assert (refused.error.condition, "in use" in refused.error.description) == ("amqp:illegal-state", True)
    assert [each.key for each in broker.domain.exchanges.exchange("amq.topic").bindings.values()] == ["a.*"]


def test_bindings_that_an_administrator_added_stay_when_a_client_comes_back() -> None:
    """What the client asked for is there, so nothing has changed for it, and no message is lost."""
    broker = Broker()
    subscribe(broker.connect("me"))
    queue = broker.domain.queue("me.sub")
    bind(broker.domain, "amq.topic", "b", "me.sub")
    publish(broker.domain, "amq.topic", "b")

    subscribe(broker.connect("me"))

    assert broker.count("me.sub") == 1
    assert {each.key for each in broker.domain.exchanges.bindings_of(queue)} == {"a.*", "b"}


def test_links_share_a_subscription() -> None:
    """One that is not durable ends with the last of them."""
    broker = Broker()
    one, two = broker.connect("me"), broker.connect("me")
    for number, peer in enumerate((one, two)):
        source = Source(address="amq.topic/a.*", capabilities=(SHARED,))
        peer.receive(source, name=f"sub|volatile{number}")
    for key in ("a.1", "a.2", "a.3", "b.4"):
        publish(broker.domain, "amq.topic", key)

    assert sorted((len(bodies(one.hear())), len(bodies(two.hear())))) == [1, 2]
    one.say(Detach(handle=0, closed=True))
    assert "me.sub:shared-volatile" in broker.domain.queues
    two.say(Detach(handle=0, closed=True))
    assert not broker.domain.queues
    assert not broker.domain.exchanges.exchange("amq.topic").bindings


def test_a_client_asks_for_a_subscription_and_ends_it() -> None:
    """With an attach that has no source, as JMS clients unsubscribe: the answer names the exchange."""
    broker = Broker()
    peer = broker.connect("me")
    subscribe(peer)
    peer.say(Detach(handle=0))
    attach = Attach(name="sub", handle=0, role=True, source=None, target=Target())

    answer = only(peer.say(attach), Attach)
    peer.say(Detach(handle=0, closed=True))

    assert (answer.source.address, answer.source.durable) == ("amq.topic", 2)
    assert not broker.domain.queues


def test_a_receiver_is_detached_when_its_queue_is_deleted_and_not_with_its_exchange() -> None:
    """What waits in the queue is still delivered; nothing more comes, because the binding is gone."""
    broker = Broker()
    make_exchange(broker.domain, "e", "fanout")
    peer = broker.connect("me")
    peer.receive(Source(address="e", durable=2), name="sub", credit=1)
    publish(broker.domain, "e")
    publish(broker.domain, "e")
    broker.domain.exchanges.delete(broker.domain.exchanges.exchange("e"))

    frames = [*peer.hear(), *peer.say(peer.credit(0, 10, delivery_count=1))]
    assert len(bodies(frames)) == 2
    assert not [each for _, each, _ in frames if isinstance(each, Detach)]
    broker.domain.delete_queue("me.sub", force=True)
    assert only(peer.hear(), Detach).error.condition == "amqp:resource-deleted"


def test_the_address_of_a_subscription_is_no_wildcard() -> None:
    """Whatever the client calls its link: otherwise the queue would collect what is sent to other addresses."""
    broker = Broker()
    subscribe(broker.connect("me"), name="#")
    queue = broker.domain.queue("me.#")
    assert queue.address.name == r"amq.topic.me.\#"
    make_queue(broker.domain, "amq.topic.me.x")
    send(broker.domain, "amq.topic.me.x", "not for it")
    publish(broker.domain, "amq.topic", "a.b")
    assert queue.message_count == 1

    peer = broker.connect("me")
    assert isinstance(subscribe(peer, name="#"), Attach)
    assert broker.domain.queue("me.#") is queue
    peer.say(Detach(handle=0, closed=True))
    assert "me.#" not in broker.domain.queues
    assert r"amq.topic.me.\#" not in broker.domain.addresses


def test_the_name_of_a_subscription_may_be_taken() -> None:
    """By an address for queues: the client is told, and nothing is left behind."""
    broker = Broker()
    broker.domain.create_address("amq.topic.me.sub", frozenset((RoutingType.ANYCAST,)))

    refused = subscribe(broker.connect("me"))

    assert (refused.error.condition, "for queues" in refused.error.description) == ("amqp:illegal-state", True)
    assert not broker.domain.queues
    assert not broker.domain.exchanges.exchange("amq.topic").bindings


def test_consuming_from_a_name_that_could_mean_both_means_the_queue() -> None:
    """And so does the capability queue, for a queue that does not exist yet; with topic it is the exchange."""
    broker = make_broker()
    make_exchange(broker.domain, "f", "fanout")
    peer = broker.connect()
    peer.receive(Source(address="e"))
    peer.receive(Source(address="f", capabilities=(Symbol("queue"),)), name="f", handle=1)
    send(broker.domain, "e", "waiting")

    assert bodies(peer.hear()) == [b"waiting"]
    assert set(broker.domain.queues) == {"a", "b", "c", "e", "f"}
    peer.receive(Source(address="e/k", capabilities=(Symbol("topic"),)), name="t", handle=2)
    make_queue(broker.domain, "amq.fanout")
    peer.receive(Source(address="amq.fanout", capabilities=(Symbol("topic"),)), name="u", handle=3)
    assert len(broker.domain.exchanges.exchange("e").bindings) == 4
    assert len(broker.domain.exchanges.exchange("amq.fanout").bindings) == 1
    assert not broker.domain.exchanges.exchange("f").bindings
