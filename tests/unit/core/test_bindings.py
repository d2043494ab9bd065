"""Bindings and routers from outside: kinds that this repository does not have, plugged in without a change in it."""

import pytest

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.addresses.router import Router
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.events import BindingAdded, BindingRemoved, Event, Events
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.errors import NoSuchAddress, QueueExists
from tests.core_harness import make_domain, make_message, make_queue, make_session, send


class Tap(Binding):
    """Keeps the bodies of what it gets: the start of a remote queue, or of an exchange's binding."""

    def __init__(self, name: str, address: Address, routing_type: RoutingType = RoutingType.MULTICAST) -> None:
        super().__init__(name, address, routing_type)
        self.bodies: list[str] = []

    def take(self, message: Message) -> None:
        self.bodies.append(message.data.decode())


class Keyed(Router):
    """A direct exchange: the binding whose name is the key that the producer gave behind the address."""

    def __init__(self, bindings: list[Binding]) -> None:
        super().__init__()
        self.by_name = {binding.name: binding for binding in bindings}

    def select(self, message: Message) -> list[Binding]:
        binding = self.by_name.get(message.address.partition("/")[2])
        return [] if binding is None else [binding]


def make_keyed(bound: list[list[Binding]], previous: Router | None) -> Router:
    """The maker of such a router."""
    return Keyed([binding for bindings in bound for binding in bindings])


def tap(domain: Domain, name: str = "tap", address: str = "a", kind: RoutingType = RoutingType.MULTICAST) -> Tap:
    """A tap on an address, bound."""
    made = Tap(name, domain.addresses[address], kind)
    domain.bind(made)
    return made


def test_a_binding_gets_what_its_address_gets() -> None:
    """Beside a queue."""
    domain = make_domain()
    queue = make_queue(domain, "a")
    the_tap = tap(domain)

    send(domain, "a", "m")

    assert the_tap.bodies == ["m"]
    assert queue.message_count == 1


def test_the_only_binding_of_an_address_gets_it_the_fast_way() -> None:
    """What every message to a single queue takes."""
    domain = make_domain()
    domain.create_address("a", frozenset(RoutingType))
    the_tap = tap(domain, kind=RoutingType.ANYCAST)

    send(domain, "a", "1", "2")

    assert the_tap.bodies == ["1", "2"]
    router = domain.addresses["a"].router
    assert router is not None
    assert router.only is the_tap


def test_an_anycast_binding_takes_turns_with_queues() -> None:
    """It is one of their group."""
    domain = make_domain()
    queue = make_queue(domain, "a")
    the_tap = tap(domain, kind=RoutingType.ANYCAST)

    send(domain, "a", "1", "2", "3", "4")

    assert queue.message_count + len(the_tap.bodies) == 4
    assert the_tap.bodies


def test_its_filter_counts() -> None:
    """The table asks before it gives."""
    domain = make_domain()
    make_queue(domain, "a")
    the_tap = Tap("tap", domain.addresses["a"])
    the_tap.filter = parse_filter("colour = 'red'")
    domain.bind(the_tap)

    for colour in ("red", "blue"):
        domain.route(make_message(colour, colour=colour), domain.addresses["a"])

    assert the_tap.bodies == ["red"]


def test_a_binding_may_take_what_it_accepts_from_all_others() -> None:
    """As an exclusive divert does."""
    domain = make_domain()
    queue = make_queue(domain, "a")
    the_tap = Tap("tap", domain.addresses["a"])
    the_tap.supersedes = True
    domain.bind(the_tap)

    send(domain, "a", "m")

    assert the_tap.bodies == ["m"]
    assert queue.message_count == 0


def test_a_binding_of_a_wildcard_address_gets_what_matches() -> None:
    """Made known to addresses that have routed before."""
    domain = make_domain()
    make_queue(domain, "a.b")
    send(domain, "a.b", "before")
    domain.create_address("a.#", frozenset(RoutingType))
    the_tap = tap(domain, address="a.#")

    send(domain, "a.b", "m")

    assert the_tap.bodies == ["m"]


def test_a_transaction_gives_to_it_at_its_commit() -> None:
    """And not after it was unbound."""
    domain = make_domain()
    make_queue(domain, "a")
    stays, goes = tap(domain, "stays"), tap(domain, "goes")
    session = make_session(domain)
    transaction = session.begin()
    domain.route(make_message("m"), domain.addresses["a"], transaction=transaction)
    domain.unbind(goes)
    assert stays.bodies == []

    session.commit(transaction)

    assert stays.bodies == ["m"]
    assert goes.bodies == []


def test_an_unbound_binding_gets_nothing() -> None:
    """Unbinding twice is harmless."""
    domain = make_domain()
    make_queue(domain, "a")
    the_tap = tap(domain)

    domain.unbind(the_tap)
    domain.unbind(the_tap)
    send(domain, "a", "m")

    assert the_tap.bodies == []
    assert the_tap.is_deleted


def test_names_of_bindings_are_unique() -> None:
    """Those of queues are names of bindings too."""
    domain = make_domain()
    make_queue(domain, "a")
    tap(domain)

    for name in ("a", "tap"):
        with pytest.raises(QueueExists):
            tap(domain, name)


def test_a_binding_of_an_address_that_is_gone_is_refused() -> None:
    """Its address may have come back under the same name: that is another one."""
    domain = make_domain()
    make_queue(domain, "a")
    old = domain.addresses["a"]
    domain.delete_address("a", force=True)
    with pytest.raises(NoSuchAddress):
        domain.bind(Tap("tap", old))
    make_queue(domain, "a")

    with pytest.raises(NoSuchAddress):
        domain.bind(Tap("tap", old))


def test_listeners_are_told_of_bindings() -> None:
    """Of those that are no queues as well."""
    events = Events()
    heard: list[Event] = []
    events.subscribe(heard.append, BindingAdded, BindingRemoved)
    domain = make_domain(events=events)
    make_queue(domain, "a")
    the_tap = tap(domain)
    domain.unbind(the_tap)

    assert [type(event).__name__ for event in heard] == ["BindingAdded", "BindingAdded", "BindingRemoved"]


def test_an_address_may_have_another_kind_of_router() -> None:
    """An exchange: the key is what the producer addressed, and survives routing."""
    domain = make_domain()
    domain.create_address("ex", frozenset(RoutingType))
    red, blue = tap(domain, "red", "ex"), tap(domain, "blue", "ex")
    domain.routers.replace(domain.addresses["ex"], make_keyed)
    message = make_message("m")
    message.address = "ex/red"

    domain.route(message, domain.addresses["ex"])

    assert (red.bodies, blue.bodies) == (["m"], [])
    assert message.address == "ex/red"


def test_such_a_router_learns_of_new_bindings() -> None:
    """It is made again, like the usual kind."""
    domain = make_domain()
    domain.create_address("ex", frozenset(RoutingType))
    domain.routers.replace(domain.addresses["ex"], make_keyed)
    for name in ("red", "blue"):
        the_tap = tap(domain, name, "ex")
        message = make_message("m")
        message.address = f"ex/{name}"
        domain.route(message, domain.addresses["ex"])
        assert the_tap.bodies == ["m"]
