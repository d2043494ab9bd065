"""Several diverts together: lists, turns, chains, circles, and what becomes of a message that is refused on the way."""

from collections import Counter
from typing import Any

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.divert import Divert, create_divert
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.forwarding import MAX_COPIES
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.runtime.events import DivertLoop, Event, Events
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.divert_config import DivertConfig, DivertType
from artemis_py.errors import AddressFull, LimitExceeded, NoSuchAddress, NotAuthorized, RoutingTypeMismatch
from tests.core_harness import make_domain, make_message, make_queue, make_session, send

ANYCAST, MULTICAST = RoutingType.ANYCAST, RoutingType.MULTICAST
CLOSED = AddressSettings(auto_create_addresses=False, auto_create_queues=False)


class Rules:
    """Denies these permissions on these addresses."""

    def __init__(self, *denied: tuple[Permission, str]) -> None:
        self.denied = set(denied)

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return (permission, address) not in self.denied


def divert(domain: Domain, name: str, source: str, to: str, **values: Any) -> Divert:
    return create_divert(domain, DivertConfig(name=name, address=source, forwarding_address=to, **values))


def queues(domain: Domain, *names: str) -> list[Queue]:
    return [make_queue(domain, name) for name in names]


def counts(*of: Queue) -> list[int]:
    return [queue.message_count for queue in of]


def client_sends(domain: Domain, address: str, *bodies: str, **values: Any) -> None:
    """As a client does, which is told of refusals."""
    producer = make_session(domain).producer(address)
    for body in bodies:
        producer.send(make_message(body, **values))


# Lists, turns, chains.


def test_each_address_of_a_list_gets_a_copy_with_an_id_of_its_own() -> None:
    domain = make_domain()
    found = queues(domain, "a", "b", "c")
    the_divert = divert(domain, "d", "a", "b, c")

    client_sends(domain, "a", "m")

    assert counts(*found) == [1, 1, 1]
    assert the_divert.forwarded == 2
    assert domain.dispatcher.numbers.message_id == 4


def test_settings_of_one_address_of_a_list_do_not_reach_the_copies_for_the_others() -> None:
    domain = make_domain({"b": AddressSettings(no_expiry=True)})
    _, b, c = queues(domain, "a", "b", "c")
    divert(domain, "d", "a", "b,c")
    expires_ms = domain.dispatcher.now_ms + 1000

    client_sends(domain, "a", "m", expires_ms=expires_ms)

    found = [queue.backlog.oldest() for queue in (b, c)]
    assert [None if each is None else each.message.expires_ms for each in found] == [0, expires_ms]


def test_diverts_with_the_same_routing_name_take_turns() -> None:
    """artemis-model §1.2; one without a routing name has its own."""
    domain = make_domain()
    found = queues(domain, "a", "b", "c", "x")
    divert(domain, "one", "a", "b", routing_name="r")
    divert(domain, "two", "a", "c", routing_name="r")
    divert(domain, "alone", "a", "x")

    client_sends(domain, "a", *"123456")

    assert counts(*found) == [6, 3, 3, 6]


def test_a_turn_passes_what_the_filter_does_not_want() -> None:
    domain = make_domain()
    _, b, c = queues(domain, "a", "b", "c")
    divert(domain, "one", "a", "b", routing_name="r", filter="colour = 'red'")
    divert(domain, "two", "a", "c", routing_name="r")

    client_sends(domain, "a", *"1234", colour="blue")
    client_sends(domain, "a", *"1234", colour="red")

    assert counts(b, c) == [2, 6]


def test_turns_go_on_when_bindings_change() -> None:
    domain = make_domain()
    found = queues(domain, "a", "b", "c")
    divert(domain, "one", "a", "b", routing_name="r")
    divert(domain, "two", "a", "c", routing_name="r")
    for number in range(4):
        client_sends(domain, "a", "m")
        make_queue(domain, f"more{number}", MULTICAST, address="a")

    assert counts(*found) == [4, 2, 2]


def test_exclusive_diverts_take_no_turns() -> None:
    """artemis-model §1.2: all of them get the message."""
    domain = make_domain()
    found = queues(domain, "a", "b", "c")
    for name in "bc":
        divert(domain, f"to {name}", "a", name, exclusive=True, routing_name="r")

    client_sends(domain, "a", "1", "2")

    assert counts(*found) == [0, 2, 2]


def test_turns_include_diverts_of_wildcard_addresses() -> None:
    domain = make_domain()
    found = queues(domain, "a.b", "x", "y")
    divert(domain, "exact", "a.b", "x", routing_name="r")
    divert(domain, "wild", "a.#", "y", routing_name="r")

    client_sends(domain, "a.b", *"1234")

    assert counts(*found) == [4, 2, 2]


def test_a_chain_of_any_length_is_followed() -> None:
    domain = make_domain()
    (last,) = queues(domain, "1500")
    for number in range(1500):
        divert(domain, f"d{number}", str(number), str(number + 1), exclusive=True)

    client_sends(domain, "0", "m", routing_type=0)

    assert last.message_count == 1


def test_the_diverts_of_an_address_apply_to_what_is_for_one_queue() -> None:
    """artemis-model §1.5: a fully qualified name chooses among the queues only."""
    domain = make_domain()
    a, b = queues(domain, "a", "b")
    other = make_queue(domain, "other", address="a")
    divert(domain, "d", "a", "b", filter="colour = 'red'")
    client_sends(domain, "a::a", "m", colour="red")
    client_sends(domain, "a::a", "m", colour="blue")
    assert counts(a, other, b) == [2, 0, 1]

    divert(domain, "e", "a", "b", exclusive=True)
    client_sends(domain, "a::a", "m", colour="blue")

    assert counts(a, other, b) == [2, 0, 2]


# Circles.


def heard(*diverts: tuple[str, str, str], exclusive: bool = False) -> tuple[Domain, list[Event]]:
    """A domain with these diverts, and the circles that it reports."""
    events: list[Event] = []
    told = Events()
    told.subscribe(events.append, DivertLoop)
    domain = make_domain(events=told)
    for name, source, to in diverts:
        divert(domain, name, source, to, exclusive=exclusive)
    return domain, events


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_circle_is_reported_once_with_its_names(exclusive: bool) -> None:
    domain, events = heard(("in", "x", "a"), ("there", "a", "b"), ("back", "b", "a"), exclusive=exclusive)
    found = queues(domain, "b")

    client_sends(domain, "x", "1", "2", routing_type=0)
    domain.route(make_message("3"), domain.addresses["x"])

    assert events == [DivertLoop("there", ("there", "back", "there"))]
    assert counts(*found) == [0 if exclusive else 3]


def test_a_change_of_the_divert_has_its_circle_reported_again() -> None:
    domain, events = heard(("self", "a", "a"))
    queues(domain, "a")
    client_sends(domain, "a", "1")
    the_divert = domain.others["self"]
    assert isinstance(the_divert, Divert)

    the_divert.configure(the_divert.config)
    client_sends(domain, "a", "2")

    assert events == [DivertLoop("self", ("self", "self"))] * 2
    assert domain.queues["a"].message_count == 4


def test_ways_that_meet_are_no_circle() -> None:
    """Each of two copies goes through the divert behind the place where they meet."""
    domain, events = heard(("left", "a", "b"), ("right", "a", "c"), ("l", "b", "d"), ("r", "c", "d"), ("on", "d", "e"))
    (last,) = queues(domain, "e")

    client_sends(domain, "a", "m", routing_type=0)

    assert last.message_count == 2
    assert events == []


def test_a_circle_through_the_dead_letter_address_ends() -> None:
    """What no queue wants goes there, and a divert brings it back."""
    domain = make_domain({"a": AddressSettings(dead_letter_address="dead", send_to_dla_on_no_route=True)})
    domain.create_address("a", frozenset(RoutingType))
    (dead,) = queues(domain, "dead")
    divert(domain, "again", "dead", "a")

    send(domain, "a", "m")
    session = make_session(domain)
    transaction = session.begin()
    session.producer("a").send(make_message(routing_type=0), transaction)
    session.commit(transaction)

    assert dead.message_count == 4
    assert domain.addresses["a"].unrouted == 4


def test_copies_of_one_message_are_limited() -> None:
    """Two diverts at each address of a chain make 2, 4, 8 … copies."""
    domain = make_domain()
    found = queues(domain, "0", "1", "12")
    for number in range(12):
        for side in "lr":
            divert(domain, f"{side}{number}", str(number), str(number + 1))

    with pytest.raises(LimitExceeded, match=f"more than {MAX_COPIES} copies"):
        client_sends(domain, "0", "m")
    assert counts(*found) == [0, 0, 0]
    domain.route(make_message(), domain.addresses["0"])

    assert found[0].message_count == 1
    assert domain.discards.count > 0
    assert sum(queue.message_count for queue in domain.queues.values()) <= MAX_COPIES + 1


# Refusals: all or none.


def refusing(access: Rules | None = None) -> Domain:
    """A domain in which a message for `a` is copied to `b`, `full` and on to `c`."""
    domain = make_domain({"full": AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.FAIL)})
    if access is not None:
        domain.access = access
    queues(domain, "a", "b", "full", "c")
    divert(domain, "list", "a", "b,full")
    divert(domain, "chain", "full", "c")
    return domain


def held(domain: Domain) -> dict[str, int]:
    return {name: queue.message_count for name, queue in domain.queues.items()}


def test_a_client_is_told_of_a_copy_that_is_refused_and_nothing_was_sent() -> None:
    domain = refusing()
    client_sends(domain, "a", "1")

    with pytest.raises(AddressFull, match="divert 'list': address 'full' is full"):
        client_sends(domain, "a", "2")

    assert held(domain) == {"a": 1, "b": 1, "full": 1, "c": 1}
    assert domain.addresses["a"].routed == 1
    assert domain.discards.count == 0


def test_a_transaction_with_a_refused_copy_can_only_be_rolled_back() -> None:
    domain = refusing()
    client_sends(domain, "a", "1")
    before = held(domain)
    session = make_session(domain)
    transaction = session.begin()
    producer = session.producer("a")
    session.producer("b").send(make_message(), transaction)
    with pytest.raises(AddressFull):
        producer.send(make_message(), transaction)

    with pytest.raises(Exception, match="rolled back"):
        session.commit(transaction)

    assert held(domain) == before
    assert domain.account.message_count == 4


def test_what_the_broker_moves_loses_only_the_copy_that_is_refused() -> None:
    """Nobody can be told. The other addresses of the list get theirs."""
    domain = refusing()
    for body in "12":
        domain.route(make_message(body), domain.addresses["a"])

    assert held(domain) == {"a": 2, "b": 2, "full": 1, "c": 1}
    assert domain.discards.count == 1


def test_a_policy_that_drops_drops_the_copy_only() -> None:
    domain = make_domain({"b": AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.DROP)})
    found = queues(domain, "a", "b", "c")
    the_divert = divert(domain, "d", "a", "b,c")

    client_sends(domain, "a", "1", "2")

    assert counts(*found) == [2, 1, 2]
    assert the_divert.forwarded == 3


# What is created on demand.


@pytest.mark.parametrize(
    ("kind", "default", "types", "queue"),
    [
        (DivertType.ANYCAST, MULTICAST, {ANYCAST}, True),
        (DivertType.MULTICAST, ANYCAST, {MULTICAST}, False),
        (DivertType.PASS, MULTICAST, {ANYCAST}, True),
        (DivertType.STRIP, MULTICAST, {MULTICAST}, False),
        (DivertType.STRIP, ANYCAST, {ANYCAST}, True),
    ],
)
def test_a_forwarding_address_is_created_as_for_any_sender(
    kind: DivertType, default: RoutingType, types: set[RoutingType], queue: bool
) -> None:
    """artemis-model §1.3, with the type that the copy has; without one the default of the address decides."""
    domain = make_domain({"b": AddressSettings(default_address_routing_type=default)})
    queues(domain, "a")
    divert(domain, "d", "a", "b", routing_type=kind)

    client_sends(domain, "a", "m", routing_type=1)

    assert domain.addresses["b"].routing_types == types
    assert domain.addresses["b"].auto_created
    assert [each.name for each in domain.queues.values() if each.address.name == "b"] == (["b"] if queue else [])
    assert held(domain) == ({"a": 1, "b": 1} if queue else {"a": 1})
    assert domain.creations.count("tester") == len(types) + queue


def test_a_routing_type_that_the_address_lacks_is_added() -> None:
    domain = make_domain()
    queues(domain, "a")
    domain.create_address("b", frozenset((MULTICAST,)))
    divert(domain, "d", "a", "b", routing_type=DivertType.ANYCAST)

    client_sends(domain, "a", "m")

    assert held(domain) == {"a": 1, "b": 1}
    assert domain.addresses["b"].routing_types == {ANYCAST, MULTICAST}


def test_a_queue_is_created_again_when_it_is_gone() -> None:
    domain = make_domain()
    queues(domain, "a")
    divert(domain, "d", "a", "b", routing_type=DivertType.ANYCAST)
    client_sends(domain, "a", "m")
    domain.delete_queue("b")

    client_sends(domain, "a", "m")

    assert held(domain) == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("kind", "error"), [(DivertType.ANYCAST, RoutingTypeMismatch), (DivertType.STRIP, NoSuchAddress)]
)
def test_settings_that_forbid_creation_have_the_message_refused(kind: DivertType, error: type[Exception]) -> None:
    domain = make_domain({"b": CLOSED})
    queues(domain, "a")
    if kind is DivertType.ANYCAST:
        domain.create_address("b", frozenset((MULTICAST,)))
    divert(domain, "d", "a", "b", routing_type=kind)

    with pytest.raises(error, match="divert 'd': address 'b'"):
        client_sends(domain, "a", "m")

    assert held(domain) == {"a": 0}


def test_an_address_that_only_wildcard_bindings_serve_is_there_for_diverts() -> None:
    """As it is for dead letters, even where clients may create nothing."""
    domain = make_domain({"b": CLOSED})
    queues(domain, "a")
    wild = make_queue(domain, "wild", MULTICAST, address="#")
    divert(domain, "d", "a", "b", exclusive=True)

    client_sends(domain, "a", "m")

    assert wild.message_count == 1


@pytest.mark.parametrize("permission", [Permission.CREATE_ADDRESS, Permission.CREATE_DURABLE_QUEUE])
def test_what_is_created_needs_the_rights_of_the_sender(permission: Permission) -> None:
    domain = refusing(Rules((permission, "new")))
    divert(domain, "more", "c", "new", routing_type=DivertType.ANYCAST)

    with pytest.raises(NotAuthorized, match=f"divert 'more': user 'tester' lacks permission '{permission.value}'"):
        client_sends(domain, "a", "m")

    assert set(held(domain).values()) == {0}
    assert "new" not in domain.queues


def test_the_broker_needs_no_rights() -> None:
    """Dead letters, and what it has staged."""
    domain = refusing(Rules(*[(permission, "new") for permission in Permission]))
    divert(domain, "more", "c", "new", routing_type=DivertType.ANYCAST)

    domain.route(make_message(), domain.addresses["a"])

    assert held(domain)["new"] == 1
    assert domain.creations.count("tester") == 0


def test_sending_through_a_divert_needs_no_permission_to_send_at_its_end() -> None:
    """As in Artemis: whoever made the divert decided that. A client that may only send to `a` is audited in `b`."""
    domain = refusing(Rules((Permission.SEND, "b"), (Permission.SEND, "full"), (Permission.SEND, "c")))

    client_sends(domain, "a", "m")

    assert set(held(domain).values()) == {1}


def test_what_a_divert_created_is_deleted_when_nobody_uses_it_and_comes_back() -> None:
    domain = make_domain({"#": AddressSettings(auto_delete_addresses_skip_usage_check=True)})
    queues(domain, "a")
    divert(domain, "d", "a", "b")
    client_sends(domain, "a", "m")
    domain.delete_address("b")

    client_sends(domain, "a", "m")

    assert domain.addresses["b"].auto_created


# Accounts.


def test_copies_count_at_the_address_they_go_to_also_in_a_transaction() -> None:
    domain = make_domain()
    a, b, c = queues(domain, "a", "b", "c")
    divert(domain, "d", "a", "b,c", exclusive=True)
    session = make_session(domain)
    transaction = session.begin()
    session.producer("a").send(make_message(), transaction)
    assert [domain.addresses[name].account.message_count for name in "abc"] == [0, 1, 1]

    session.rollback(transaction)

    assert [domain.addresses[name].account.message_count for name in "abc"] == [0, 0, 0]
    assert counts(a, b, c) == [0, 0, 0]
    assert domain.account.size_bytes == 0


def test_what_only_a_divert_took_is_routed_and_its_copy_counts_where_it_went() -> None:
    """The message counts as routed at its own address, where a divert took it: it is no dead letter there."""
    settings = AddressSettings(dead_letter_address="dead", send_to_dla_on_no_route=True)
    domain = make_domain({"a": settings})
    (dead,) = queues(domain, "dead")
    divert(domain, "d", "a", "b")

    client_sends(domain, "a", "m", routing_type=0)

    assert dead.message_count == 0
    found = Counter({name: address.unrouted for name, address in domain.addresses.items()})
    assert (domain.addresses["a"].routed, found) == (1, Counter({"b": 1, "a": 0, "dead": 0}))
