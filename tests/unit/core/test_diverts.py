"""Diverts: copies of what an address gets, sent through another one (artemis-model §3.2)."""

from typing import Any

import pytest
from attrs import evolve

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.divert import Divert, create_divert, remove_divert, update_divert
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.divert_config import DivertConfig, DivertType
from artemis_py.errors import InUse, InvalidFilter, InvalidRequest, QueueExists
from tests.core_harness import attach, make_domain, make_message, make_queue, make_session, send


def divert(domain: Domain, name: str = "d", source: str = "a", to: str = "b", **values: object) -> Divert:
    """A divert from `a` to `b`."""
    return create_divert(
        domain,
        DivertConfig(name=name, address=source, forwarding_address=to, **values),  # type: ignore[arg-type]
    )


def two_queues(domain: Domain) -> tuple[Queue, Queue]:
    """One on `a`, one on `b`."""
    return make_queue(domain, "a"), make_queue(domain, "b")


def counts(*queues: Queue) -> list[int]:
    """How many messages each has."""
    return [queue.message_count for queue in queues]


def test_a_divert_copies_and_the_queues_of_the_address_get_the_message_too() -> None:
    """Not exclusive: as if the other address had been sent to as well."""
    domain = make_domain()
    queues = two_queues(domain)
    the_divert = divert(domain)

    send(domain, "a", "m")

    assert counts(*queues) == [1, 1]
    assert the_divert.forwarded == 1


def test_an_exclusive_divert_takes_the_message() -> None:
    """The queues of the address get nothing."""
    domain = make_domain()
    queues = two_queues(domain)
    divert(domain, exclusive=True)

    send(domain, "a", "m")

    assert counts(*queues) == [0, 1]


def test_all_exclusive_diverts_get_the_message() -> None:
    """They take it from the queues and the other diverts, not from each other."""
    domain = make_domain()
    queues = [*two_queues(domain), make_queue(domain, "c"), make_queue(domain, "x")]
    divert(domain, "first", exclusive=True)
    divert(domain, "second", to="c", exclusive=True)
    divert(domain, "other", to="x")

    send(domain, "a", "m")

    assert counts(*queues) == [0, 1, 1, 0]


def test_what_the_filter_does_not_want_stays() -> None:
    """Also with an exclusive divert."""
    domain = make_domain()
    queues = two_queues(domain)
    divert(domain, exclusive=True, filter="colour = 'red'")

    for colour in ("red", "blue", "blue"):
        domain.route(make_message(colour=colour), domain.addresses["a"])

    assert counts(*queues) == [2, 1]


def test_the_copy_says_where_it_comes_from() -> None:
    """As a dead letter does; its queue is the divert."""
    domain = make_domain()
    make_queue(domain, "a")
    sink, _ = attach(domain, make_queue(domain, "b"))
    divert(domain)
    message = make_message("m", expires_ms=domain.dispatcher.now_ms + 5000)

    domain.route(message, domain.addresses["a"])
    domain.dispatcher.run()

    copy = sink.take()[0].message
    assert copy.extra == {"_AMQ_ORIG_ADDRESS": "a", "_AMQ_ORIG_QUEUE": "d", "_AMQ_ORIG_MESSAGE_ID": message.id}
    assert (copy.address, copy.data, copy.expires_ms) == ("b", b"m", message.expires_ms)
    assert copy.id != message.id


@pytest.mark.parametrize(
    ("kind", "sent", "expected"),
    [
        (DivertType.STRIP, 1, [1, 1]),
        (DivertType.PASS, 1, [1, 0]),
        (DivertType.PASS, 0, [0, 1]),
        (DivertType.PASS, -1, [1, 1]),
        (DivertType.ANYCAST, 0, [1, 0]),
        (DivertType.MULTICAST, 1, [0, 1]),
    ],
)
def test_the_routing_type_of_the_copy(kind: DivertType, sent: int, expected: list[int]) -> None:
    """A divert gets messages of any type; what the copy asks for decides which queues get it."""
    domain = make_domain()
    domain.create_address("a", frozenset(RoutingType))
    queues = (
        make_queue(domain, "any", RoutingType.ANYCAST, address="b"),
        make_queue(domain, "multi", RoutingType.MULTICAST, address="b"),
    )
    divert(domain, routing_type=kind)

    domain.route(make_message(routing_type=sent), domain.addresses["a"])

    assert counts(*queues) == expected


def test_a_full_forwarding_address_costs_the_copy_and_nothing_else() -> None:
    """It is discarded, and counted."""
    domain = make_domain({"b": AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.FAIL)})
    queues = two_queues(domain)
    divert(domain)

    send(domain, "a", "m", "m", "m")

    assert counts(*queues) == [3, 1]
    assert domain.discards.count == 2


def test_a_forwarding_address_that_is_not_there_costs_the_copy() -> None:
    """If it may not be created on demand. Counted as well; the divert works when somebody makes the address."""
    domain = make_domain({"b": AddressSettings(auto_create_addresses=False)})
    make_queue(domain, "a")
    divert(domain)
    send(domain, "a", "m")
    assert domain.discards.count == 1

    queue = make_queue(domain, "b")
    send(domain, "a", "m")

    assert queue.message_count == 1


def test_diverts_in_a_circle_end() -> None:
    """What went through a divert once passes it by."""
    domain = make_domain()
    queues = two_queues(domain)
    divert(domain, "there", "a", "b", exclusive=True)
    divert(domain, "back", "b", "a", exclusive=True)

    send(domain, "a", "m")

    assert counts(*queues) == [1, 0]
    assert domain.discards.count == 0


def test_a_divert_of_a_wildcard_address_may_lead_to_one_that_it_matches() -> None:
    """Its own copies stay in the queues there."""
    domain = make_domain()
    make_queue(domain, "a")
    queue = make_queue(domain, "b")
    divert(domain, source="#", exclusive=True)

    send(domain, "a", "m")
    send(domain, "b", "m")

    assert queue.message_count == 2


def test_a_transaction_diverts_when_it_commits() -> None:
    """A rollback leaves no copy."""
    domain = make_domain()
    queues = two_queues(domain)
    divert(domain)
    session = make_session(domain)
    for ends in (session.rollback, session.commit):
        transaction = session.begin()
        domain.route(make_message(), domain.addresses["a"], transaction=transaction)
        assert counts(*queues) == [0, 0]
        ends(transaction)

    assert counts(*queues) == [1, 1]


def test_names_are_shared_with_queues() -> None:
    """Both are bindings."""
    domain = make_domain()
    two_queues(domain)
    divert(domain)

    with pytest.raises(QueueExists):
        divert(domain)
    with pytest.raises(QueueExists):
        divert(domain, "a")
    with pytest.raises(QueueExists):
        make_queue(domain, "d")


def test_an_address_with_a_divert_is_deleted_by_force_only() -> None:
    """The divert goes with it, and its name is free."""
    domain = make_domain()
    make_queue(domain, "b")
    the_divert = divert(domain)

    with pytest.raises(InUse):
        domain.delete_address("a")
    domain.delete_address("a", force=True)

    assert the_divert.is_deleted
    divert(domain)


def test_a_divert_can_be_unbound() -> None:
    """The fast way through one queue is there again."""
    domain = make_domain()
    queues = two_queues(domain)
    the_divert = divert(domain, exclusive=True)
    send(domain, "a", "m")

    domain.unbind(the_divert)
    send(domain, "a", "m")

    assert counts(*queues) == [1, 1]


# Changes.


def test_a_bound_divert_is_changed_in_place() -> None:
    """The way of the next message is another one."""
    domain = make_domain()
    queues = [*two_queues(domain), make_queue(domain, "c")]
    the_divert = divert(domain, filter="colour = 'red'")
    send(domain, "a", "m")
    assert counts(*queues) == [1, 0, 0]

    config = evolve(the_divert.config, filter=None, exclusive=True, forwarding_address="c")
    update_divert(domain, the_divert, config)
    send(domain, "a", "m")

    assert counts(*queues) == [1, 0, 1]
    assert domain.others["d"] is the_divert
    assert the_divert.config == config


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"exclusive": False, "forwarding_address": "c"}, [0, 1, 0]),
        ({"address": "c"}, [0, 1, 0]),
        (None, [0, 1, 0]),
    ],
)
def test_what_a_transaction_has_sent_is_diverted_whatever_becomes_of_the_divert(
    change: dict[str, Any] | None, expected: list[int]
) -> None:
    """Changed in place, moved, removed: where a message goes is decided when it is sent."""
    domain = make_domain()
    queues = [*two_queues(domain), make_queue(domain, "c")]
    the_divert = divert(domain, exclusive=True)
    session = make_session(domain)
    transaction = session.begin()
    domain.route(make_message(), domain.addresses["a"], transaction=transaction)

    if change is None:
        remove_divert(domain, the_divert)
    else:
        update_divert(domain, the_divert, evolve(the_divert.config, **change))
    session.commit(transaction)

    assert counts(*queues) == expected


def test_a_divert_moves_to_another_address() -> None:
    """Which is made if it does not exist; the old address has its way through one queue again."""
    domain = make_domain()
    queues = two_queues(domain)
    the_divert = divert(domain, exclusive=True)

    update_divert(domain, the_divert, evolve(the_divert.config, address="new"))
    send(domain, "a", "m")
    send(domain, "new", "m")

    assert counts(*queues) == [1, 1]
    assert domain.others["d"].address is domain.addresses["new"]


@pytest.mark.parametrize(
    ("change", "error"), [({"filter": "a ="}, InvalidFilter), ({"address": "a::b"}, InvalidRequest)]
)
def test_a_change_that_is_refused_changes_nothing(change: dict[str, Any], error: type[Exception]) -> None:
    """Whether in place or not."""
    domain = make_domain()
    queues = two_queues(domain)
    the_divert = divert(domain, exclusive=True)
    before = the_divert.config

    with pytest.raises(error):
        update_divert(domain, the_divert, evolve(before, exclusive=False, **change))
    send(domain, "a", "m")

    assert counts(*queues) == [0, 1]
    assert the_divert.config == before
