"""Addresses, routing and what happens to messages nobody takes (artemis-model §1.2, §3.8, §3.9, §3.15)."""

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import (
    AddressExists,
    AddressFull,
    InUse,
    InvalidRequest,
    NoSuchAddress,
    QueueExists,
    RoutingTypeMismatch,
)
from tests.core_harness import attach, make_domain, make_message, make_queue, pass_time, send, settle_down

ANYCAST = RoutingType.ANYCAST
MULTICAST = RoutingType.MULTICAST


def test_anycast_queues_of_an_address_take_turns() -> None:
    domain = make_domain()
    first = make_queue(domain, "one", address="a")
    second = make_queue(domain, "two", address="a")

    send(domain, "a", "1", "2", "3", "4")

    assert (first.message_count, second.message_count) == (2, 2)


def test_anycast_prefers_queues_with_a_consumer() -> None:
    domain = make_domain()
    without = make_queue(domain, "one", address="a")
    recorder, _ = attach(domain, make_queue(domain, "two", address="a"))

    send(domain, "a", "1", "2")

    assert (recorder.bodies(), without.message_count) == (["1", "2"], 0)


def test_a_queue_filter_removes_the_queue_from_the_rotation() -> None:
    domain = make_domain()
    red = make_queue(domain, "red", address="a", filter="colour = 'red'")
    rest = make_queue(domain, "rest", address="a")
    for _ in range(3):
        domain.route(make_message(colour="blue"), domain.addresses["a"])

    assert (red.message_count, rest.message_count) == (0, 3)


def test_multicast_gives_every_queue_the_same_message_object() -> None:
    """One body in memory, however many subscribers."""
    domain = make_domain()
    first, _ = attach(domain, make_queue(domain, "one", MULTICAST, address="a"))
    second, _ = attach(domain, make_queue(domain, "two", MULTICAST, address="a"))

    send(domain, "a", "m")

    assert first.take()[0].message is second.take()[0].message


def test_the_turn_is_kept_when_bindings_change() -> None:
    domain = make_domain()
    first = make_queue(domain, "one", address="a")
    make_queue(domain, "two", address="a")
    send(domain, "a", "1")
    third = make_queue(domain, "three", address="a")

    send(domain, "a", "2", "3")

    assert (first.message_count, third.message_count) == (1, 1)


def test_a_wildcard_queue_gets_messages_of_present_and_future_addresses() -> None:
    domain = make_domain()
    domain.create_address("news.eu", frozenset((MULTICAST,)))
    send(domain, "news.eu", "before")
    wild = make_queue(domain, "wild", MULTICAST, address="news.#")
    domain.create_address("news.us", frozenset((MULTICAST,)))

    send(domain, "news.eu", "1")
    send(domain, "news.us", "2")

    recorder, _ = attach(domain, wild)
    assert recorder.bodies() == ["1", "2"]


def test_a_deleted_wildcard_queue_gets_nothing_more() -> None:
    domain = make_domain()
    domain.create_address("news.eu", frozenset((MULTICAST,)))
    make_queue(domain, "wild", MULTICAST, address="news.#")
    send(domain, "news.eu", "1")
    domain.delete_queue("wild")

    assert domain.route(make_message(), domain.addresses["news.eu"]) == 0


def test_memory_behind_a_wildcard_counts_for_the_concrete_address() -> None:
    """artemis-model §1.7: a full concrete address affects the wildcard's subscribers only through that address."""
    domain = make_domain()
    domain.create_address("news.eu", frozenset((MULTICAST,)))
    make_queue(domain, "wild", MULTICAST, address="news.#")

    send(domain, "news.eu", "1")

    assert domain.addresses["news.eu"].message_count == 1
    assert domain.addresses["news.#"].message_count == 0


def test_an_fqqn_reaches_one_queue_of_either_type_and_its_filter_still_counts() -> None:
    domain = make_domain()
    make_queue(domain, "one", MULTICAST, address="a")
    two = make_queue(domain, "two", MULTICAST, address="a", filter="n = 1")
    address = domain.addresses["a"]

    counts = [domain.route(make_message(n=n), address, "two") for n in (1, 2)]

    assert (counts, two.message_count) == ([1, 0], 1)


def test_a_queue_name_is_unique_and_the_error_names_the_owner() -> None:
    domain = make_domain()
    make_queue(domain, "q", address="a")

    with pytest.raises(QueueExists, match="'q' exists already, on address 'a'"):
        make_queue(domain, "q", address="b")


def test_a_queue_may_not_be_named_like_a_queue_of_an_address() -> None:
    """`a::q` could mean two queues; one that was stored before this was refused comes back."""
    domain = make_domain()
    domain.create_address("a", frozenset((ANYCAST,)))
    for name in ("a::b", "::", "b::"):
        with pytest.raises(InvalidRequest, match="may not contain '::'"):
            domain.create_queue(QueueConfig(name=name, address="a", routing_type=ANYCAST))

    assert domain.create_queue(QueueConfig(name="a::b", address="a", routing_type=ANYCAST), id=5).name == "a::b"


@pytest.mark.parametrize("name", ["", "a::b", "x" * 5000, "\ud800"])
def test_impossible_address_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        make_domain().create_address(name, frozenset((ANYCAST,)))


def test_an_address_exists_once() -> None:
    domain = make_domain()
    domain.create_address("a", frozenset((ANYCAST,)))

    with pytest.raises(AddressExists):
        domain.create_address("a", frozenset((ANYCAST,)))


def test_a_routing_type_in_use_cannot_be_dropped() -> None:
    """artemis-model §1.1."""
    domain = make_domain()
    make_queue(domain, "q", ANYCAST)

    with pytest.raises(InUse, match="cannot drop ANYCAST"):
        domain.update_address("q", frozenset((MULTICAST,)))


def test_an_address_with_queues_is_deleted_only_by_force() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    recorder, _ = attach(domain, queue)
    with pytest.raises(InUse):
        domain.delete_address("q")

    domain.delete_address("q", force=True)

    assert (domain.addresses, domain.queues) == ({}, {})
    assert recorder.ended_because == "deleted by request"
    with pytest.raises(NoSuchAddress):
        domain.address("q")


def test_a_queue_needs_a_routing_type_its_address_has() -> None:
    domain = make_domain()
    domain.create_address("a", frozenset((MULTICAST,)))

    with pytest.raises(RoutingTypeMismatch, match="not configured for queue support"):
        make_queue(domain, "q", ANYCAST, address="a")


def test_deleting_a_queue_returns_the_memory_of_what_was_waiting_and_delivered() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a", "b")
    attach(domain, queue, credit=1)

    domain.delete_queue("q", force=True)

    assert domain.account.size_bytes == 0


def test_pausing_an_address_pauses_queues_that_come_later() -> None:
    domain = make_domain()
    make_queue(domain)
    domain.pause_address("q", True)
    late = make_queue(domain, "late", address="q")
    send(domain, "q", "a", "b")
    recorder, _ = attach(domain, late)
    while_paused = recorder.bodies()

    domain.pause_address("q", False)
    settle_down(domain)

    assert (while_paused, recorder.bodies()) == ([], ["b"])


# -- messages nobody takes -------------------------------------------------------------------------------------


def test_an_unrouted_message_goes_to_the_dead_letter_address_if_that_is_wanted() -> None:
    settings = AddressSettings(dead_letter_address="DLQ", send_to_dla_on_no_route=True)
    domain = make_domain({"a": settings})
    domain.create_address("a", frozenset((ANYCAST,)))
    dead_letters = make_queue(domain, "DLQ")

    send(domain, "a", "lost")

    assert (dead_letters.message_count, domain.addresses["a"].unrouted) == (1, 1)


def test_dead_letter_queues_are_made_per_origin() -> None:
    """artemis-model §3.8: `DLQ.orders` gets only messages of `orders`."""
    settings = AddressSettings(
        dead_letter_address="DLA",
        auto_create_dead_letter_resources=True,
        max_delivery_attempts=1,
        default_queue_routing_type=ANYCAST,
    )
    domain = make_domain({"#": settings})
    for name in ("orders", "bills"):
        queue = make_queue(domain, name)
        send(domain, name, name)
        _, consumer = attach(domain, queue)
        consumer.close(failed=True)

    recorder, _ = attach(domain, domain.queues["DLQ.orders"])

    assert recorder.bodies() == ["orders"]
    assert domain.queues["DLQ.orders"].auto_created
    assert domain.queues["DLQ.bills"].message_count == 1


def test_a_dead_letter_behind_a_wildcard_queue_is_not_lost() -> None:
    """Artemis loses it: the collector's filter compares with another address than the one recorded."""
    settings = AddressSettings(
        dead_letter_address="DLA", auto_create_dead_letter_resources=True, max_delivery_attempts=1
    )
    domain = make_domain({"#": settings})
    domain.create_address("news.eu", frozenset((MULTICAST,)))
    wild = make_queue(domain, "wild", MULTICAST, address="news.#")
    send(domain, "news.eu", "poison")
    _, consumer = attach(domain, wild)

    consumer.close(failed=True)

    assert domain.queues["DLQ.news.eu"].message_count == 1


@pytest.mark.parametrize(
    ("settings", "asked", "expected"),
    [
        (AddressSettings(no_expiry=True, expiry_delay=5), 100, 0),
        (AddressSettings(expiry_delay=5), 0, 5),
        (AddressSettings(expiry_delay=5), 100, 100),
        (AddressSettings(min_expiry_delay=10), 0, 10),
        (AddressSettings(min_expiry_delay=10), 5, 10),
        (AddressSettings(max_expiry_delay=50), 0, 50),
        (AddressSettings(max_expiry_delay=50), 100, 50),
        (AddressSettings(min_expiry_delay=10, max_expiry_delay=50), 0, 50),
        (AddressSettings(min_expiry_delay=10, max_expiry_delay=50), 20, 20),
    ],
)
def test_expiry_settings_have_their_precedence(settings: AddressSettings, asked: int, expected: int) -> None:
    """artemis-model §3.9: no-expiry, then expiry-delay, then the bounds. Times are relative to arrival; 0: never."""
    domain = make_domain({"a": settings})
    domain.create_address("a", frozenset((ANYCAST,)))
    message = make_message(expires_ms=domain.dispatcher.now_ms + asked if asked else 0)

    domain.route(message, domain.addresses["a"])

    assert message.expires_ms == (domain.dispatcher.now_ms + expected if expected else 0)


def test_arrival_is_stamped_where_the_settings_say_so() -> None:
    """artemis-model §2.1 `enable-ingress-timestamp`; the stamp can be selected by."""
    domain = make_domain({"a": AddressSettings(enable_ingress_timestamp=True)})
    stamped, plain = make_message(), make_message()
    for name, message in (("a", stamped), ("b", plain)):
        domain.create_address(name, frozenset((ANYCAST,)))
        domain.route(message, domain.addresses[name])

    assert stamped.lookup("_AMQ_INGRESS_TIMESTAMP") == domain.dispatcher.now_ms
    assert plain.lookup("_AMQ_INGRESS_TIMESTAMP") is None


# -- full addresses --------------------------------------------------------------------------------------------


def test_fail_refuses_when_the_limit_is_reached() -> None:
    domain = make_domain({"q": AddressSettings(max_size_messages=2, address_full_policy=FullPolicy.FAIL)})
    make_queue(domain)
    send(domain, "q", "1", "2")

    with pytest.raises(AddressFull, match="'q' is full"):
        send(domain, "q", "3")


def test_drop_discards_silently() -> None:
    domain = make_domain({"q": AddressSettings(max_size_messages=2, address_full_policy=FullPolicy.DROP)})
    queue = make_queue(domain)

    send(domain, "q", "1", "2", "3")

    assert queue.message_count == 2


def test_block_lets_producers_wait_and_tells_them_when_there_is_room() -> None:
    domain = make_domain({"q": AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.BLOCK)})
    queue = make_queue(domain)
    send(domain, "q", "1")
    address = domain.addresses["q"]
    told = []
    assert address.must_wait
    address.when_room(lambda: told.append(True))

    queue.purge()

    assert (told, address.must_wait) == ([True], False)


def test_block_refuses_beyond_the_reject_threshold() -> None:
    settings = AddressSettings(
        max_size_bytes=1, max_size_bytes_reject_threshold=1000, address_full_policy=FullPolicy.BLOCK
    )
    domain = make_domain({"q": settings})
    queue = make_queue(domain)
    send(domain, "q", "1", "2")

    with pytest.raises(AddressFull):
        send(domain, "q", "3")
    assert queue.message_count == 2


def test_the_global_limit_holds_producers_of_every_address() -> None:
    domain = make_domain(options=BrokerSettings(global_max_size_bytes=600))
    make_queue(domain, "one")
    make_queue(domain, "two")
    send(domain, "one", "x" * 200)

    assert (domain.addresses["one"].must_wait, domain.addresses["two"].must_wait) == (True, True)


def test_far_above_the_global_limit_everything_is_refused() -> None:
    domain = make_domain(options=BrokerSettings(global_max_size_bytes=600))
    make_queue(domain)
    send(domain, "q", "x" * 200, "x" * 200)

    with pytest.raises(AddressFull):
        send(domain, "q", "x" * 200)


def test_changed_settings_reach_addresses_that_are_there() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    domain.settings.put("q", AddressSettings(max_delivery_attempts=1))
    send(domain, "q", "a")
    _, consumer = attach(domain, queue)

    consumer.close(failed=True)

    assert queue.message_count == 0


def test_a_fixed_queue_attribute_cannot_be_changed() -> None:
    domain = make_domain()
    make_queue(domain)

    with pytest.raises(InvalidRequest, match="'durable' of queue 'q' cannot be changed"):
        domain.update_queue("q", {"durable": False})


def test_max_consumers_cannot_go_below_those_attached() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    attach(domain, queue)
    attach(domain, queue)

    with pytest.raises(InvalidRequest, match="has 2 consumers"):
        domain.update_queue("q", {"max_consumers": 1})


def test_messages_wait_for_their_scheduled_time_across_a_paused_address() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    recorder, _ = attach(domain, queue)
    domain.route(make_message("later", delivery_time_ms=domain.dispatcher.now_ms + 10), domain.addresses["q"])
    domain.pause_address("q", True)
    pass_time(domain, 10)
    while_paused = recorder.bodies()

    domain.pause_address("q", False)
    settle_down(domain)

    assert (while_paused, recorder.bodies()) == ([], ["later"])


def test_a_filter_given_later_counts_at_once() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    domain.route(make_message(n=1), domain.addresses["q"])

    domain.update_queue("q", {"filter": "n = 2"})
    for number in (1, 2):
        domain.route(make_message(n=number), domain.addresses["q"])

    assert queue.message_count == 2
