"""Exchanges: bindings between them, alternates, limits, and when they and their bindings end."""

from typing import Any

import pytest
from attrs import evolve

from artemis_py.core.messages.message import ROUTING_KEY
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.routing.divert import create_divert
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.exchanges.exchange import Exchange
from artemis_py.core.routing.exchanges.passage import MAX_VISITS
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.divert_config import DivertConfig
from artemis_py.core.settings.exchange_config import Destination, ExchangeLifetime, Unroutable
from artemis_py.errors import (
    AddressFull,
    ExchangeExists,
    InUse,
    InvalidRequest,
    LimitExceeded,
    NoRoute,
    NoSuchExchange,
    NoSuchQueue,
)
from tests.core_harness import (
    START_MS,
    attach,
    make_domain,
    make_message,
    make_queue,
    make_services,
    make_session,
    send,
    settle_down,
)
from tests.unit.core.exchange_world import (
    bind,
    chain,
    make_exchange,
    make_queues,
    publish,
    reached,
    to_exchange,
    to_queue,
    unbind,
)

# -- names -----------------------------------------------------------------------------------------------------


def test_four_exchanges_are_always_there() -> None:
    """They cannot be deleted, and no other one has a name like theirs."""
    domain = make_domain()

    assert {each.name: each.config.type.value for each in domain.exchanges} == {
        "amq.direct": "direct",
        "amq.topic": "topic",
        "amq.fanout": "fanout",
        "amq.match": "headers",
    }
    with pytest.raises(InvalidRequest, match="predeclared"):
        domain.exchanges.delete(domain.exchanges.exchange("amq.topic"))


@pytest.mark.parametrize("name", ["amq.mine", "amq.direct", "qpid.x", "", "a/b", "a::b", "\ud800", "x" * 5000])
def test_names_that_an_exchange_may_not_have(name: str) -> None:
    """Reserved ones, and those that no address could name."""
    with pytest.raises(InvalidRequest):
        make_exchange(make_domain(), name)


def test_an_exchange_is_declared_once() -> None:
    """What a protocol makes of a second declaration is its own decision."""
    domain = make_domain()
    make_exchange(domain, "e")

    with pytest.raises(ExchangeExists, match="'e'"):
        make_exchange(domain, "e", "topic")


def test_a_queue_an_address_and_an_exchange_may_have_one_name() -> None:
    """They have nothing to do with each other."""
    domain = make_domain()
    make_exchange(domain, "celery")
    make_queues(domain, "celery other")
    bind(domain, "celery", "k", "other")

    send(domain, "celery", "direct")
    assert domain.queue("celery").message_count == 1
    assert reached(domain, "celery", "k") == {"other"}

    domain.delete_address("celery", force=True)
    assert domain.exchanges.find("celery") is not None


def test_an_address_text_means_an_exchange_and_perhaps_a_routing_key() -> None:
    """An exchange of the whole name; else one before the first slash, unless an address has the whole name."""
    domain = make_domain()
    exchange = make_exchange(domain, "e")

    assert domain.exchanges.named_in("e") == (exchange, None)
    assert domain.exchanges.named_in("e/") == (exchange, None)
    assert domain.exchanges.named_in("e/k") == (exchange, "k")
    assert domain.exchanges.named_in("e/k/l") == (exchange, "k/l")
    for text in ("", "/e", "f", "f/k", "/"):
        assert domain.exchanges.named_in(text) is None
    make_queue(domain, "e/k")
    assert domain.exchanges.named_in("e/k") is None


def test_a_destination_without_a_kind_is_an_exchange_first() -> None:
    """As in the reference."""
    domain = make_domain()
    make_queues(domain, "e q")
    make_exchange(domain, "e")

    assert domain.exchanges.destination("e") == to_exchange("e")
    assert domain.exchanges.destination("q") == to_queue("q")
    with pytest.raises(NoSuchQueue, match="neither"):
        domain.exchanges.destination("nothing")


# -- bindings --------------------------------------------------------------------------------------------------


def test_a_queue_with_two_keys_gets_one_copy() -> None:
    """Two patterns that both match."""
    domain = make_domain()
    make_queue(domain, "q")
    bind(domain, "amq.topic", "a.*", "q")
    bind(domain, "amq.topic", "*.b", "q")

    assert reached(domain, "amq.topic", "a.b") == {"q"}


def test_arguments_are_not_part_of_the_identity() -> None:
    """A second binding changes nothing, unless it is to replace the first."""
    domain = make_domain()
    make_queue(domain, "q")
    red: dict[str, Any] = {"x-filter-jms-selector": "colour = 'red'"}

    assert bind(domain, "amq.direct", "k", "q", red)
    assert not bind(domain, "amq.direct", "k", "q")
    assert reached(domain, "amq.direct", "k", colour="blue") == set()
    assert bind(domain, "amq.direct", "k", "q", replace=True)
    assert reached(domain, "amq.direct", "k", colour="blue") == {"q"}
    assert bind(domain, "amq.direct", "k", "q", red, replace=True)
    assert reached(domain, "amq.direct", "k", colour="blue") == set()
    assert len(domain.exchanges.bindings_of(domain.queue("q"))) == 1


def test_replaced_headers_count_at_once() -> None:
    """In the reference they do after a restart."""
    domain = make_domain()
    make_queue(domain, "q")
    bind(domain, "amq.match", "", "q", {"A": 1})
    bind(domain, "amq.match", "", "q", {"A": 2}, replace=True)

    assert reached(domain, "amq.match", A=1) == set()
    assert reached(domain, "amq.match", A=2) == {"q"}


def test_binding_to_nothing_is_refused() -> None:
    """A queue or an exchange that does not exist."""
    domain = make_domain()
    exchange = make_exchange(domain)

    with pytest.raises(NoSuchQueue):
        bind(domain, "e", "k", "q")
    with pytest.raises(NoSuchExchange):
        chain(domain, "e", "k", "f")
    assert not exchange.bindings


def test_unbinding_tells_whether_there_was_a_binding() -> None:
    """The arguments do not matter."""
    domain = make_domain()
    make_queue(domain, "q")
    bind(domain, "amq.direct", "k", "q", {"x-filter-jms-selector": "a = 1"})

    assert not unbind(domain, "amq.direct", "K", "q")
    assert unbind(domain, "amq.direct", "k", "q")
    assert not unbind(domain, "amq.direct", "k", "q")
    assert reached(domain, "amq.direct", "k", a=1) == set()


def test_bindings_end_with_their_queue() -> None:
    """In every exchange; a new queue of that name has none."""
    domain = make_domain()
    make_queues(domain, "q r")
    for name in ("amq.direct", "amq.topic", "amq.fanout", "amq.match"):
        bind(domain, name, "k", "q")
        bind(domain, name, "k", "r")
    tables = domain.dispatcher.tables.size_bytes

    domain.delete_queue("q")
    make_queue(domain, "q")

    for name in ("amq.direct", "amq.topic", "amq.fanout", "amq.match"):
        assert reached(domain, name, "k") == {"r"}
    assert domain.dispatcher.tables.size_bytes < tables


def test_bindings_end_with_their_exchange() -> None:
    """Those from it and those to it; queues stay."""
    domain = make_domain()
    make_queue(domain, "q")
    empty = domain.dispatcher.tables.size_bytes
    for name in ("e", "f"):
        make_exchange(domain, name, "fanout")
    chain(domain, "e", "k", "f")
    chain(domain, "f", "k", "f")
    bind(domain, "f", "k", "q", {"x-filter-jms-selector": "a = 1", "x-replacement-routing-key": "longer"})

    domain.exchanges.delete(domain.exchanges.exchange("f"))

    assert domain.exchanges.exchange("e").bindings == {}
    assert domain.exchanges.bindings_of(domain.queue("q")) == []
    domain.exchanges.delete(domain.exchanges.exchange("e"))
    assert domain.dispatcher.tables.size_bytes == empty


def test_a_bound_queue_is_not_deleted_as_unused() -> None:
    """Somebody has bound it, so somebody wants what comes."""
    domain = make_domain()
    reaper = make_services(domain).reaper
    for name in ("bound", "alternate", "unused"):
        make_queue(domain, name, auto_created=True, auto_delete=True, auto_delete_delay_ms=0)
    bind(domain, "amq.direct", "k", "bound")
    make_exchange(domain, alternate=to_queue("alternate"))
    for name in ("bound", "alternate", "unused"):
        send(domain, name, "m")
        recorder, consumer = attach(domain, domain.queue(name))
        consumer.settle(recorder.take()[0], ACCEPTED)
        consumer.close(False)

    for _ in range(3):
        domain.dispatcher.now_ms += 100_000
        reaper.reap()
        while domain.dispatcher.slices.has_work:
            domain.dispatcher.run()

    assert set(domain.queues) == {"bound", "alternate"}


# -- from exchange to exchange ---------------------------------------------------------------------------------


def test_a_queue_reached_in_two_ways_gets_one_copy() -> None:
    """Directly, and through another exchange."""
    domain = make_domain()
    make_queue(domain, "q")
    make_exchange(domain, "f", "fanout")
    bind(domain, "amq.direct", "k", "q")
    chain(domain, "amq.direct", "k", "f")
    bind(domain, "f", "", "q")

    assert reached(domain, "amq.direct", "k") == {"q"}


def test_a_circle_ends() -> None:
    """And each queue on it gets one copy."""
    domain = make_domain()
    make_queues(domain, "q r")
    for name in ("e", "f"):
        make_exchange(domain, name, "fanout")
    chain(domain, "e", "", "f")
    chain(domain, "f", "", "e")
    chain(domain, "f", "", "f")
    bind(domain, "e", "", "q")
    bind(domain, "f", "", "r")

    assert reached(domain, "e") == reached(domain, "f") == {"q", "r"}


def test_an_exchange_is_entered_again_with_another_key() -> None:
    """Its own bindings lead on with a replaced key, which is then not replaced for ever."""
    domain = make_domain()
    make_queues(domain, "first second third")
    make_exchange(domain, "e")
    bind(domain, "e", "1", "first")
    chain(domain, "e", "1", "e", {"x-replacement-routing-key": "2"})
    bind(domain, "e", "2", "second")
    chain(domain, "e", "2", "e", {"x-replacement-routing-key": "3"})
    bind(domain, "e", "3", "third")
    chain(domain, "e", "3", "e", {"x-replacement-routing-key": "1"})

    assert reached(domain, "e", "2") == {"first", "second", "third"}


def test_two_keys_lead_to_one_exchange_in_two_ways() -> None:
    """It is entered with both."""
    domain = make_domain()
    make_queues(domain, "q r")
    make_exchange(domain, "e", "topic")
    chain(domain, "amq.topic", "a.*", "e", {"x-replacement-routing-key": "left"})
    chain(domain, "amq.topic", "*.b", "e", {"x-replacement-routing-key": "right"})
    bind(domain, "e", "left", "q")
    bind(domain, "e", "right", "r")

    assert reached(domain, "amq.topic", "a.b") == {"q", "r"}
    assert reached(domain, "amq.topic", "a.c") == {"q"}


def test_a_message_is_not_led_through_any_number_of_exchanges() -> None:
    """A chain may be long, and one beyond the limit is refused before any queue has the message."""
    domain = make_domain()
    make_queues(domain, "first last")
    make_exchange(domain, "0", "fanout")
    bind(domain, "0", "", "first")
    for number in range(1, MAX_VISITS):
        make_exchange(domain, str(number), "fanout")
        chain(domain, str(number - 1), "", str(number))
    bind(domain, str(MAX_VISITS - 1), "", "last")
    assert reached(domain, "0") == {"first", "last"}

    make_exchange(domain, "one more", "fanout")
    chain(domain, str(MAX_VISITS - 1), "", "one more")
    with pytest.raises(LimitExceeded, match="2000 exchanges"):
        publish(domain, "0")
    assert domain.queue("first").message_count == 1


# -- alternates and unroutable messages ------------------------------------------------------------------------


def test_the_alternate_gets_what_reaches_no_queue() -> None:
    """An exchange or a queue, with the same routing key, and the alternate of an alternate as well."""
    domain = make_domain()
    make_queues(domain, "q spare last")
    make_exchange(domain, "third", alternate=to_queue("last"))
    make_exchange(domain, "second", alternate=to_exchange("third"))
    make_exchange(domain, "e", alternate=to_exchange("second"))
    bind(domain, "e", "k", "q")
    bind(domain, "second", "l", "spare")

    assert reached(domain, "e", "k") == {"q"}
    assert reached(domain, "e", "l") == {"spare"}
    assert reached(domain, "e", "m") == {"last"}


def test_the_alternate_is_for_messages_that_reach_no_queue_not_for_those_that_match_nothing() -> None:
    """A selector refused it, or the exchange that it was led to has no queue for it."""
    domain = make_domain()
    make_queues(domain, "q spare")
    make_exchange(domain, "dead end")
    make_exchange(domain, "e", alternate=to_queue("spare"))
    bind(domain, "e", "k", "q", {"x-filter-jms-selector": "colour = 'red'"})
    chain(domain, "e", "k", "dead end")

    assert reached(domain, "e", "k", colour="red") == {"q"}
    assert reached(domain, "e", "k", colour="blue") == {"spare"}


def test_a_divert_is_no_binding() -> None:
    """Neither one of an address that is called like the exchange nor one of a bound queue's address gets a message."""
    domain = make_domain()
    make_queues(domain, "q copied")
    make_exchange(domain, "e")
    bind(domain, "e", "k", "q")
    for number, address in enumerate(("e", "q")):
        create_divert(domain, DivertConfig(name=str(number), address=address, forwarding_address="copied"))

    assert reached(domain, "e", "k") == {"q"}
    send(domain, "q", "sent to its address")
    assert domain.queue("copied").message_count == 1


def test_a_circle_of_alternates_ends() -> None:
    """Nothing is reached."""
    domain = make_domain()
    e, f = make_exchange(domain, "e"), make_exchange(domain, "f", alternate=to_exchange("e"))
    domain.exchanges.update(e, evolve(e.config, alternate=to_exchange("f")))

    assert reached(domain, "e", "k") == reached(domain, "f", "k") == set()
    assert (e.address.unrouted, f.address.unrouted) == (1, 1)


def test_two_ways_to_one_exchange_agree_on_whether_it_has_a_queue() -> None:
    """The alternate of an exchange is not asked because the message had been where it leads to before."""
    for first, second in (("x", "y"), ("y", "x")):
        domain = make_domain()
        make_queues(domain, "q spare")
        make_exchange(domain, "y", "fanout")
        make_exchange(domain, "x", "fanout", alternate=to_queue("spare"))
        make_exchange(domain, "e", "fanout")
        bind(domain, "y", "", "q")
        chain(domain, "x", "", "y")
        chain(domain, "e", "", first)
        chain(domain, "e", "", second)

        assert reached(domain, "e") == {"q"}


@pytest.mark.parametrize(
    ("alternate", "error"),
    [
        (to_queue("nothing"), NoSuchQueue),
        (to_exchange("nothing"), NoSuchExchange),
        (to_exchange("e"), InvalidRequest),
        (to_queue("passing"), InvalidRequest),
        (to_exchange("passing"), InvalidRequest),
    ],
)
def test_alternates_that_an_exchange_may_not_have(alternate: Destination, error: type[Exception]) -> None:
    """One that does not exist, itself, and for a durable exchange one that is not."""
    domain = make_domain()
    make_queue(domain, "passing", durable=False)
    make_exchange(domain, "passing", durable=False)

    with pytest.raises(error):
        make_exchange(domain, "e", alternate=alternate)

    assert domain.exchanges.find("e") is None
    if error is InvalidRequest and alternate.name != "e":
        make_exchange(domain, "e", durable=False, alternate=alternate)


def test_an_alternate_cannot_be_deleted() -> None:
    """Unless that is forced: the exchange then has none. Or after it was given another one."""
    domain = make_domain()
    make_queues(domain, "q r")
    f = make_exchange(domain, "f")
    for name, alternate in (("a", to_queue("q")), ("b", to_exchange("f")), ("c", to_queue("r"))):
        make_exchange(domain, name, alternate=alternate)

    with pytest.raises(InUse, match="queue 'q' is the alternate of exchange 'a'"):
        domain.delete_queue("q")
    with pytest.raises(InUse, match="exchange 'f' is the alternate of exchange 'b'"):
        domain.exchanges.delete(f)
    domain.delete_queue("q", force=True)
    domain.exchanges.delete(f, force=True)
    c = domain.exchanges.exchange("c")
    domain.exchanges.update(c, evolve(c.config, alternate=None))
    domain.delete_queue("r")

    assert [domain.exchanges.exchange(name).config.alternate for name in "abc"] == [None, None, None]
    assert [domain.exchanges.exchange(name).has_alternate for name in "abc"] == [False, False, False]


def test_a_message_without_a_queue_is_discarded_or_refused() -> None:
    """The caller decides; both are counted, and a refused message is nowhere."""
    domain = make_domain({"e": AddressSettings(send_to_dla_on_no_route=True, dead_letter_address="dlq")})
    make_queue(domain, "dlq")
    exchange = make_exchange(domain, "e", unroutable=Unroutable.REJECT)

    with pytest.raises(NoRoute, match="exchange 'e' with routing key 'k'"):
        domain.publishing.publish(make_message(), exchange, "k", None, exchange.rejects)
    assert domain.queue("dlq").message_count == 0
    assert domain.publishing.publish(make_message(), exchange, "k") == 0

    assert exchange.address.unrouted == 2
    assert domain.queue("dlq").message_count == 1


def test_what_becomes_of_unroutable_messages_can_change() -> None:
    """The rest of an exchange cannot."""
    domain = make_domain()
    exchange = make_exchange(domain)

    domain.exchanges.update(exchange, evolve(exchange.config, unroutable=Unroutable.REJECT))
    assert exchange.rejects
    with pytest.raises(InvalidRequest, match="only"):
        domain.exchanges.update(exchange, evolve(exchange.config, durable=False))


# -- limits ----------------------------------------------------------------------------------------------------

FULL = AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.FAIL)


def test_a_queue_that_refuses_refuses_for_all() -> None:
    """One of three is full: none gets the message, and there is no alternate for that."""
    domain = make_domain({"b": FULL})
    make_queues(domain, "a b c spare")
    make_exchange(domain, "e", "fanout", alternate=to_queue("spare"))
    for name in "abc":
        bind(domain, "e", "", name)
    send(domain, "b", "fills it")

    with pytest.raises(AddressFull, match="'b'"):
        publish(domain, "e")

    assert [domain.queue(name).message_count for name in ("a", "b", "c", "spare")] == [0, 1, 0, 0]
    domain.queue("b").purge()
    assert reached(domain, "e") == {"a", "b", "c"}


def test_a_queue_that_drops_drops_its_own_copy() -> None:
    """With DROP, its address says that nobody is to be told."""
    domain = make_domain({"b": AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.DROP)})
    make_queues(domain, "a b")
    for name in "ab":
        bind(domain, "amq.fanout", "", name)
    send(domain, "b", "fills it")

    assert reached(domain, "amq.fanout") == {"a"}


def test_messages_for_one_queue_count_at_its_address() -> None:
    """So that its limit is that of the queue, wherever its messages come from."""
    domain = make_domain({"a": FULL})
    make_queue(domain, "a")
    bind(domain, "amq.direct", "k", "a")
    publish(domain, "amq.direct", "k")

    with pytest.raises(AddressFull):
        publish(domain, "amq.direct", "k")

    assert domain.addresses["a"].account.message_count == 1
    assert domain.exchanges.exchange("amq.direct").address.account.message_count == 0


def test_messages_for_several_queues_count_for_the_exchange() -> None:
    """Once, with its settings; when the last queue is rid of a message it counts no more."""
    domain = make_domain({"e": FULL})
    exchange = make_exchange(domain, "e", "fanout")
    for queue in make_queues(domain, "a b"):
        bind(domain, "e", "", queue.name)
    publish(domain, "e")

    with pytest.raises(AddressFull, match="'e'"):
        publish(domain, "e")
    assert exchange.address.account.message_count == 1
    domain.queue("a").purge()
    assert exchange.address.account.message_count == 1
    domain.queue("b").purge()
    assert exchange.address.size_bytes == 0
    assert domain.account.size_bytes == 0
    assert reached(domain, "e") == {"a", "b"}


def test_changed_settings_apply_to_exchanges() -> None:
    """They are those of its name."""
    domain = make_domain()
    exchange = make_exchange(domain, "e")

    domain.settings.add("e", FULL)

    assert exchange.address.settings.max_size_messages == 1


def test_a_message_expires_as_its_queue_says() -> None:
    """Not as the settings of the exchange do: what is read from disk would not know them."""
    domain = make_domain({"e": AddressSettings(expiry_address="wrong"), "a": AddressSettings(expiry_address="expired")})
    make_exchange(domain, "e", "fanout")
    for queue in make_queues(domain, "a b expired wrong"):
        if queue.name in "ab":
            bind(domain, "e", "", queue.name)
    publish(domain, "e", expires_ms=START_MS + 10)
    domain.dispatcher.now_ms += 1000
    for name in "ab":
        domain.queue(name).expiry.expire_due()

    assert domain.queue("expired").message_count == 1
    assert domain.queue("wrong").message_count == 0


def test_a_message_has_its_routing_key() -> None:
    """For selectors, for the clients of other protocols, and for dead letters."""
    domain = make_domain()
    make_queue(domain, "q", filter=f"{ROUTING_KEY} = 'k'")
    bind(domain, "amq.fanout", "", "q")
    recorder, _ = attach(domain, domain.queue("q"))

    publish(domain, "amq.fanout", "k")
    settle_down(domain)

    message = recorder.take()[0].message
    assert (message.address, message.lookup(ROUTING_KEY)) == ("amq.fanout", "k")


# -- transactions and duplicates -------------------------------------------------------------------------------


def test_a_transaction_publishes_at_its_commit() -> None:
    """To the queues that were bound when the message was sent."""
    domain = make_domain()
    make_queues(domain, "a b")
    bind(domain, "amq.fanout", "", "a")
    session = make_session(domain)
    transaction = session.begin()
    exchange = domain.exchanges.exchange("amq.fanout")

    domain.publishing.publish(make_message(), exchange, "", transaction)
    bind(domain, "amq.fanout", "", "b")
    assert domain.queue("a").message_count == 0
    session.commit(transaction)

    assert [domain.queue(name).message_count for name in "ab"] == [1, 0]


def test_duplicate_ids_of_an_exchange_are_its_own() -> None:
    """An address of the same name has others."""
    domain = make_domain()
    make_queues(domain, "e q")
    exchange = make_exchange(domain, "e")
    bind(domain, "e", "k", "q")

    counts = [domain.publishing.publish_once(make_message(), exchange, "k", None, False, b"1") for _ in range(2)]
    assert counts == [1, 0]
    assert domain.route_once(make_message(), domain.addresses["e"], "", None, b"1") == 1
    domain.exchanges.delete(exchange)
    exchange = make_exchange(domain, "e")
    bind(domain, "e", "k", "q")
    assert domain.publishing.publish_once(make_message(), exchange, "k", None, False, b"1") == 1


# -- lifetimes -------------------------------------------------------------------------------------------------

LAST = ExchangeLifetime.LAST_BINDING


def test_an_exchange_ends_with_its_last_binding() -> None:
    """Not before it had any, and not with another one."""
    domain = make_domain()
    make_queues(domain, "a b")
    exchange = make_exchange(domain, lifetime=LAST)
    bind(domain, "e", "1", "a")
    bind(domain, "e", "2", "a")

    unbind(domain, "e", "1", "a")
    assert not exchange.is_deleted
    bind(domain, "e", "2", "a", {"x-filter-jms-selector": "a = 1"}, replace=True)
    assert not exchange.is_deleted
    unbind(domain, "e", "2", "a")
    assert exchange.is_deleted
    with pytest.raises(NoSuchExchange):
        domain.exchanges.exchange("e")


def test_a_chain_of_exchanges_ends_with_the_queue_at_its_end() -> None:
    """Each of them when its only destination is gone, however long the chain."""
    domain = make_domain()
    make_queue(domain, "q")
    for number in range(3000):
        make_exchange(domain, str(number), lifetime=LAST)
        if number:
            chain(domain, str(number), "", str(number - 1))
    bind(domain, "0", "", "q")

    domain.delete_queue("q")

    assert len(list(domain.exchanges)) == 4


def test_an_alternate_does_not_end_by_itself() -> None:
    """As it may not be deleted by a client either."""
    domain = make_domain()
    make_queue(domain, "q")
    exchange = make_exchange(domain, "f", lifetime=LAST)
    make_exchange(domain, "e", alternate=to_exchange("f"))
    bind(domain, "f", "", "q")

    unbind(domain, "f", "", "q")

    assert not exchange.is_deleted


def test_an_exchange_in_use_is_not_deleted_if_that_is_asked_for() -> None:
    """Producers do not count, bindings do."""
    domain = make_domain()
    make_queue(domain, "q")
    exchange = make_exchange(domain)
    bind(domain, "e", "", "q")

    with pytest.raises(InUse, match="1 bindings"):
        domain.exchanges.delete(exchange, if_unused=True)
    unbind(domain, "e", "", "q")
    domain.exchanges.delete(exchange, if_unused=True)
    domain.exchanges.delete(exchange)

    assert exchange.is_deleted


def test_nothing_is_left_of_what_was_bound_and_unbound() -> None:
    """Accounts and tables are as they were, whatever the type."""
    domain = make_domain()
    queues = make_queues(domain, "a b c")
    before = domain.dispatcher.tables.size_bytes
    for name in ("direct", "topic", "fanout", "headers"):
        exchange: Exchange = make_exchange(domain, name, name)
        for queue in queues:
            for key in ("x", "x.#", "#.y"):
                bind(domain, name, key, queue.name, {"x-filter-jms-selector": "a = 1", "b": 2})
        publish(domain, name, "x.y")
        for queue in queues:
            for key in ("x", "x.#", "#.y"):
                assert unbind(domain, name, key, queue.name)
        assert exchange.router.find("x.y", make_message(a=1, b=2)).others == []
        domain.exchanges.delete(exchange)

    assert domain.dispatcher.tables.size_bytes == before
    assert not domain.exchanges.leads_to("a")


def test_the_filter_of_a_queue_counts_whatever_its_messages_come_through() -> None:
    """Also one that it gets or loses later; what it refuses goes to the alternate."""
    domain = make_domain()
    make_queues(domain, "spare")
    make_queue(domain, "q", filter="colour = 'red'")
    make_exchange(domain, "e", alternate=to_queue("spare"))
    bind(domain, "e", "k", "q")

    assert reached(domain, "e", "k", colour="red") == {"q"}
    assert reached(domain, "e", "k", colour="blue") == {"spare"}
    domain.update_queue("q", {"filter": None})
    assert reached(domain, "e", "k", colour="blue") == {"q"}
    domain.update_queue("q", {"filter": "colour = 'red'"})
    assert reached(domain, "e", "k", colour="blue") == {"spare"}
    domain.exchanges.update(e := domain.exchanges.exchange("e"), evolve(e.config, alternate=to_queue("q")))
    assert reached(domain, "e", "other", colour="blue") == set()


def test_multicast_queues_can_be_bound_too() -> None:
    """A queue is a queue, whatever address it is on."""
    domain = make_domain()
    make_queue(domain, "subscription", RoutingType.MULTICAST, address="topic")
    bind(domain, "amq.direct", "k", "subscription")

    assert reached(domain, "amq.direct", "k") == {"subscription"}


def count_work(domain: Domain, exchange: str, key: str, **properties: Any) -> int:
    """Units of work that publishing a message takes."""
    before = domain.meter.work
    publish(domain, exchange, key, **properties)
    return domain.meter.work - before


@pytest.mark.parametrize("count", [10, 3000])
def test_the_work_does_not_grow_with_bindings_that_do_not_match(count: int) -> None:
    """Counted, not timed; `benchmarks/exchanges.py` measures."""
    domain = make_domain()
    make_queue(domain, "q")
    for number in range(count):
        bind(domain, "amq.direct", f"k{number}", "q")
        bind(domain, "amq.topic", f"a.*.{number}.#", "q")
        bind(domain, "amq.match", str(number), "q", {"format": "pdf", "customer": number})

    assert count_work(domain, "amq.direct", "k7") == 1
    assert count_work(domain, "amq.topic", "a.b.7.c") <= 4
    assert count_work(domain, "amq.topic", "a.b.7.c") == 1
    assert count_work(domain, "amq.match", "", format="pdf", customer=7) <= 4


def test_the_cache_of_a_topic_exchange_has_a_limit() -> None:
    """Clients choose the keys; what is found is right before and after."""
    from artemis_py.core.routing.exchanges import matching

    domain = make_domain()
    make_queue(domain, "q")
    bind(domain, "amq.topic", "a.*", "q")
    router = domain.exchanges.exchange("amq.topic").router
    assert isinstance(router, matching.TopicTable)
    most = matching.CACHED_SLOTS // (matching.SLOTS_PER_KEY + 1)
    message = make_message()

    sizes = []
    for number in range(2 * most + 5):
        for key in (f"a.{number}", f"a.{number}" + "x" * matching.CACHED_KEY_CHARS):
            assert [queue.name for queue in router.find(key, message).queues] == ["q"]
        sizes.append(len(router._matches))

    assert max(sizes) == most
    assert sizes[-1] <= 5


def test_each_word_of_a_pattern_counts() -> None:
    """It may be a node of its own; elsewhere dots are ordinary characters."""
    domain = make_domain()
    make_queue(domain, "q")
    tables = domain.dispatcher.tables
    taken: list[int] = []
    for exchange in ("amq.topic", "amq.direct"):
        before = tables.size_bytes
        bind(domain, exchange, "x." * 200, "q")
        taken.append(tables.size_bytes - before)
        assert unbind(domain, exchange, "x." * 200, "q")
        assert tables.size_bytes == before

    assert taken[0] > 200 * 400
    assert taken[1] < 4000


def test_a_key_of_a_topic_exchange_has_a_limit_of_words() -> None:
    """Each pattern and each routing key; other exchanges do not look at words."""
    domain = make_domain()
    make_queue(domain, "q")
    bind(domain, "amq.topic", ".".join(["a"] * 256), "q")
    bind(domain, "amq.direct", "." * 256, "q")

    with pytest.raises(InvalidRequest, match="binding key has 257 words"):
        bind(domain, "amq.topic", ".".join(["a"] * 257), "q")
    with pytest.raises(InvalidRequest, match="routing key has 257 words"):
        publish(domain, "amq.topic", "." * 256)
    assert reached(domain, "amq.topic", ".".join(["a"] * 256)) == {"q"}
    assert reached(domain, "amq.direct", "." * 256) == {"q"}
