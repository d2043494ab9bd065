"""Listeners of the core's events, as a part outside of this repository adds one."""

from collections.abc import Callable

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.runtime.event_facts import BindingFacts, ClientFacts
from artemis_py.core.runtime.events import (
    AddressAdded,
    AddressRemoved,
    BindingAdded,
    BindingRemoved,
    BindingUpdated,
    ConsumerClosed,
    ConsumerOpened,
    Denied,
    Event,
    Events,
    ExchangeAdded,
    ExchangeBound,
    ExchangeRemoved,
    ExchangeUnbound,
    ListenerFailed,
    QueueAdded,
    QueueRemoved,
    SessionClosed,
    SessionOpened,
    StoreFailed,
    Unrouted,
)
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.exchange_config import ExchangeLifetime
from tests.core_harness import Recorder, make_domain, make_queue, make_session, send
from tests.unit.core.exchange_world import bind, chain, make_exchange

NEWS = Unrouted("news")


class Notifications:
    """A listener of its own making: it keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.told.append(event)


def test_a_listener_from_outside_is_told_of_a_queues_life() -> None:
    """In the order in which it happened, after the fact."""
    domain = make_domain()
    notifications = Notifications()
    domain.events.subscribe(notifications)

    queue = make_queue(domain, "orders", address="sales", filter="x = 1")
    domain.update_queue("orders", {"filter": "x = 2"})
    domain.update_queue("orders", {"enabled": False})
    domain.delete_address("sales", force=True, reason="closed")

    facts = BindingFacts(queue.id, "orders", "x = 1", False, False)
    changed = BindingFacts(queue.id, "orders", "x = 2", False, False)

    assert notifications.told == [
        AddressAdded("sales", False),
        QueueAdded("orders", "sales", False),
        BindingAdded("orders", "sales", RoutingType.ANYCAST, facts),
        BindingUpdated("orders", "sales", RoutingType.ANYCAST, changed),
        QueueRemoved("orders", "sales", "closed"),
        BindingRemoved("orders", "sales", RoutingType.ANYCAST, changed),
        AddressRemoved("sales", "closed", frozenset(RoutingType)),
    ]


def test_a_listener_is_told_of_exchanges_and_their_bindings() -> None:
    """Predeclared ones have always been there. A replaced binding ends, and what ends with another one is told too."""
    domain = make_domain()
    make_queue(domain, "q")
    notifications = Notifications()
    domain.events.subscribe(notifications, ExchangeAdded, ExchangeRemoved, ExchangeBound, ExchangeUnbound)

    make_exchange(domain, "e", "topic", lifetime=ExchangeLifetime.LAST_BINDING)
    bind(domain, "e", "a.*", "q")
    bind(domain, "e", "a.*", "q")
    bind(domain, "e", "a.*", "q", {"x-filter-jms-selector": "a = 1"}, replace=True)
    chain(domain, "amq.fanout", "k", "e")
    domain.delete_queue("q")

    assert notifications.told == [
        ExchangeAdded("e", "topic"),
        ExchangeBound("e", "a.*", "q", True),
        ExchangeUnbound("e", "a.*", "q", True),
        ExchangeBound("e", "a.*", "q", True),
        ExchangeBound("amq.fanout", "k", "e", False),
        ExchangeUnbound("e", "a.*", "q", True),
        ExchangeUnbound("amq.fanout", "k", "e", False),
        ExchangeRemoved("e", "its last binding was removed"),
    ]


def test_sessions_and_consumers_are_events() -> None:
    """What advisories and redistribution need; a consumer that is closed twice left once."""
    domain = make_domain()
    queue = make_queue(domain)
    notifications = Notifications()
    domain.events.subscribe(notifications, SessionOpened, SessionClosed, ConsumerOpened, ConsumerClosed)

    session = make_session(domain, "c1")
    consumer = session.consume(queue, Recorder(), parse_filter("x = 1"))
    session.close_consumer(consumer)
    session.close_consumer(consumer)
    browser = session.consume(queue, Recorder(), browse=True)
    session.close()
    session.close()

    who = ClientFacts("tester", "c1", "", "test")
    assert notifications.told == [
        SessionOpened(session.id, who),
        ConsumerOpened(consumer.id, "q", "q", session.id, False, "x = 1", 1, who),
        ConsumerClosed(consumer.id, "q", "q", session.id, False, "x = 1", 0, who, "closed"),
        ConsumerOpened(browser.id, "q", "q", session.id, True, None, 1, who),
        ConsumerClosed(browser.id, "q", "q", session.id, True, None, 0, who, "closed"),
        SessionClosed(session.id, who, "closed"),
    ]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda domain, session: session.close(failed=True), "connection lost"),
        (lambda domain, session: domain.delete_queue("q", force=True), "its queue was deleted"),
    ],
)
def test_why_a_consumer_has_left_is_told(end: Callable[[Domain, Session], None], reason: str) -> None:
    """An operator asks for it first."""
    domain = make_domain()
    session = make_session(domain)
    consumer = session.consume(make_queue(domain), Recorder())
    told = Notifications()
    domain.events.subscribe(told, ConsumerClosed)

    end(domain, session)
    session.close_consumer(consumer)

    assert [getattr(each, "reason", None) for each in told.told] == [reason]


def test_messages_are_no_events() -> None:
    """Whatever listens, the way of a message does not get longer."""
    domain = make_domain()
    make_queue(domain)
    notifications = Notifications()
    domain.events.subscribe(notifications)

    send(domain, "q", "1", "2", "3")

    assert notifications.told == []


def test_a_listener_names_the_kinds_it_wants() -> None:
    """`wants` is what saves the making of an event that nobody would hear."""
    events = Events()
    assert not events.wants(Unrouted)
    denials = Notifications()
    events.subscribe(denials, Denied)
    assert (events.wants(Denied), events.wants(Unrouted)) == (True, False)
    denial = Denied(Subject("ann"), Permission.SEND, "q", None, "peer")

    events.emit(NEWS)
    events.emit(denial)

    assert denials.told == [denial]


def test_a_listener_that_raises_harms_nobody() -> None:
    """Not the core in the middle of its work, nor the listeners behind it; those that ask are told of it."""
    domain = make_domain()
    error = ValueError("planted")

    def fails(event: Event) -> None:
        raise error

    notifications = Notifications()
    domain.events.subscribe(fails)
    domain.events.subscribe(notifications)

    domain.create_address("a", frozenset((RoutingType.ANYCAST,)))

    added = AddressAdded("a", False)
    name = f"{__name__}.{fails.__qualname__}"
    assert notifications.told == [ListenerFailed(name, added, error), added]


def test_a_listener_may_leave_while_it_is_told() -> None:
    """The others hear the event all the same."""
    events = Events()
    heard = Notifications()

    def leaves(event: Event) -> None:
        events.unsubscribe(leaves)
        heard(event)

    events.subscribe(leaves)
    events.subscribe(heard)

    events.emit(NEWS)
    events.emit(NEWS)

    assert heard.told == [NEWS, NEWS, NEWS]


def test_the_end_of_the_store_is_an_event() -> None:
    """Monitoring need not read the log."""
    domain = make_domain()
    notifications = Notifications()
    domain.events.subscribe(notifications, StoreFailed)

    domain.storage_failed("disk full")

    assert notifications.told == [StoreFailed("disk full")]
