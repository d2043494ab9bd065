"""What goes because nobody uses it, and what that means (artemis-model §2.4)."""

import gc

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.destinations import ensure_destination
from artemis_py.core.routing.domain import Domain
from artemis_py.core.services.reaper import Reaper
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import make_domain, make_message, make_queue, make_services, make_session, send

ANYCAST, MULTICAST = RoutingType.ANYCAST, RoutingType.MULTICAST

SHIPPED = AddressSettings(
    default_address_routing_type=ANYCAST,
    default_queue_routing_type=ANYCAST,
    auto_delete_addresses_delay=1000,
    auto_delete_addresses_skip_usage_check=True,
    auto_delete_queues_delay=1000,
    auto_delete_queues_skip_usage_check=True,
)
"""As in the shipped broker.xml, with a shorter delay."""


def names(count: int) -> list[str]:
    """Of topics."""
    return [f"t{number}" for number in range(count)]


def turns_of(domain: Domain) -> int:
    """How many turns of the loop the work takes that is under way."""
    turns = 0
    while domain.dispatcher.slices.has_work:
        domain.dispatcher.run()
        turns += 1
    return turns


def reap(reaper: Reaper, domain: Domain, passes: int = 2) -> None:
    """Passes from beginning to end."""
    for _ in range(passes):
        reaper.reap()
        turns_of(domain)


def test_a_pass_over_many_addresses_is_spread_over_turns() -> None:
    """50,000 at a time would stop the loop for a second: no turn deletes more than some."""
    domain = make_domain({"#": SHIPPED})
    for name in names(1000):
        domain.create_address(name, frozenset((MULTICAST,)), auto_created=True)
    domain.dispatcher.steady_ms += 1000
    reaper = make_services(domain).reaper
    reap(reaper, domain, passes=1)

    reaper.reap()
    left = [len(domain.addresses)]
    while domain.dispatcher.slices.has_work:
        domain.dispatcher.run()
        left.append(len(domain.addresses))

    assert left[-1] == 0
    assert max(before - after for before, after in zip([1000, *left], left, strict=False)) <= 20


def test_a_pass_over_many_queues_is_spread_over_turns() -> None:
    domain = make_domain({"#": SHIPPED})
    for name in names(1000):
        make_queue(domain, name, auto_created=True)
    domain.dispatcher.steady_ms += 1000
    reaper = make_services(domain).reaper

    reaper.reap()
    first = turns_of(domain)
    reaper.reap()
    second = turns_of(domain)

    assert 3 <= first <= 5
    assert second >= 50
    assert domain.queues == {}


def test_no_pass_begins_before_the_last_has_ended() -> None:
    """Two passes have to agree, and one that is under way is not two."""
    domain = make_domain({"#": SHIPPED})
    for name in names(1000):
        domain.create_address(name, frozenset((MULTICAST,)), auto_created=True)
    domain.dispatcher.steady_ms += 1000
    reaper = make_services(domain).reaper

    for _ in range(10):
        reaper.reap()

    assert turns_of(domain) <= 2
    assert len(domain.addresses) == 1000


def test_what_is_used_while_a_pass_is_under_way_stays() -> None:
    """Each slice decides by what is true then."""
    domain = make_domain({"#": SHIPPED})
    for name in names(1000):
        domain.create_address(name, frozenset((MULTICAST,)), auto_created=True)
    domain.dispatcher.steady_ms += 1000
    reaper = make_services(domain).reaper
    reap(reaper, domain, passes=1)

    reaper.reap()
    make_queue(domain, "q", MULTICAST, address="t999")
    turns_of(domain)

    assert list(domain.addresses) == ["t999"]


def test_a_search_for_expired_messages_is_spread_over_turns() -> None:
    """200,000 queues would take a tenth of a second, every thirty."""
    domain = make_domain()
    for name in names(2000):
        make_queue(domain, name)

    make_services(domain).reaper.expire_messages()

    assert turns_of(domain) >= 3


def test_an_expired_message_is_found_in_a_later_slice() -> None:
    domain = make_domain({"#": AddressSettings(expiry_address="late")})
    late = make_queue(domain, "late")
    for name in names(1000):
        make_queue(domain, name)
    send(domain, "t999", "m")
    waiting = domain.queues["t999"].backlog.head()
    assert waiting is not None
    waiting.message.expires_ms = domain.dispatcher.now_ms + 1
    domain.queues["t999"].expiry.note(domain.dispatcher.now_ms + 1)
    domain.dispatcher.now_ms += 1

    make_services(domain).reaper.expire_messages()
    turns_of(domain)

    assert late.message_count == 1


def test_a_session_that_reaps_nothing_leaves_no_work_behind() -> None:
    domain = make_domain({"#": SHIPPED})
    make_session(domain).producer("a", ANYCAST)

    make_services(domain).reaper.reap()

    assert not domain.dispatcher.slices.has_work


def passes(domain: Domain, reaper: Reaper | None = None) -> list[str]:
    """Which addresses are left when nobody has come for longer than the delay."""
    reaper = make_services(domain).reaper if reaper is None else reaper
    # An address goes after its queue, when its own delay is over.
    for _ in range(3):
        reap(reaper, domain)
        domain.dispatcher.steady_ms += 2000
    reap(reaper, domain)
    return sorted(domain.addresses)


def test_what_a_client_created_and_left_goes() -> None:
    """With the shipped settings: a topic that had subscribers, one that had none, and a queue that had nothing."""
    domain = make_domain({"#": SHIPPED})
    session = make_session(domain)
    session.producer("topic", MULTICAST)
    ensure_destination(domain, session, "news", "", MULTICAST)
    domain.delete_queue(make_queue(domain, "subscription", MULTICAST, address="news").name)
    session.producer("queue", ANYCAST)

    assert passes(domain) == []


def test_nothing_goes_before_the_delay_is_over() -> None:
    domain = make_domain({"#": SHIPPED})
    session = make_session(domain)
    session.producer("topic", MULTICAST)
    session.producer("queue", ANYCAST)
    domain.dispatcher.steady_ms += 999

    reap(make_services(domain).reaper, domain, passes=5)

    assert sorted(domain.addresses) == ["queue", "topic"]


def test_an_address_whose_message_waits_is_in_use() -> None:
    """Somebody sent it, and nobody came yet."""
    domain = make_domain({"#": SHIPPED})
    make_session(domain).producer("a", ANYCAST).send(make_message(durable=True))

    assert passes(domain) == ["a"]


def test_an_address_that_a_producer_is_attached_to_is_in_use() -> None:
    """It may lack the permission to create the queue again; when it is gone, they go."""
    domain = make_domain({"#": SHIPPED})
    session = make_session(domain)
    first, second = session.producer("a", ANYCAST), session.producer("b", ANYCAST)
    for producer in (first, first, second):
        producer.hold()
    reaper = make_services(domain).reaper

    held = passes(domain, reaper)
    first.let_go()
    first.let_go()
    one = passes(domain, reaper)
    session.close()
    none = passes(domain, reaper)

    assert (held, one, none) == (["a", "b"], ["b"], [])


def test_a_producer_takes_its_hold_to_the_address_that_is_made_again() -> None:
    """Somebody deleted the address by force while it was attached."""
    domain = make_domain({"#": SHIPPED})
    producer = make_session(domain).producer("a", ANYCAST)
    producer.hold()
    domain.delete_address("a", force=True)
    producer.prepare()

    assert (passes(domain), domain.addresses["a"].producers) == (["a"], 1)
    producer.let_go()
    assert domain.addresses["a"].producers == 0


def test_an_address_that_is_sent_to_is_in_use() -> None:
    """Subscribers with wildcards have no queue of it, and get what is sent."""
    domain = make_domain({"#": SHIPPED})
    make_queue(domain, "all", MULTICAST, address="news.#")
    domain.create_address("news.eu", frozenset((MULTICAST,)), auto_created=True)
    reaper = make_services(domain).reaper

    for _ in range(5):
        domain.dispatcher.steady_ms += 2000
        send(domain, "news.eu", "m")
        reap(reaper, domain, passes=1)
    used = sorted(domain.addresses)

    assert (used, passes(domain, reaper)) == (["news.#", "news.eu"], ["news.#"])


def test_a_queue_that_a_session_comes_back_to_is_in_use() -> None:
    """An MQTT session that shares an anycast queue, and is away."""
    domain = make_domain({"#": SHIPPED})
    make_session(domain).producer("a", ANYCAST)
    domain.queues["a"].subscriber_count += 1

    assert passes(domain) == ["a"]


def test_what_an_operator_paused_is_in_use() -> None:
    domain = make_domain({"#": SHIPPED})
    session = make_session(domain)
    for name in ("address", "queue"):
        session.producer(name, ANYCAST)
    ensure_destination(domain, session, "topic", "", MULTICAST)
    domain.pause_address("address", True)
    domain.pause_address("topic", True)
    domain.queues["queue"].pause()

    assert passes(domain) == ["address", "queue", "topic"]


def test_an_address_that_remembers_duplicate_ids_is_in_use() -> None:
    """Otherwise a message that was taken could be taken again a few minutes later."""
    domain = make_domain({"#": SHIPPED})
    session = make_session(domain)
    session.producer("a", ANYCAST).send(make_message(), duplicate_id=b"tid")
    session.producer("b", ANYCAST)
    domain.queues["a"].purge()
    reaper = make_services(domain).reaper

    kept = passes(domain, reaper)
    domain.duplicates.of(domain.addresses["a"]).clear()

    assert (kept, passes(domain, reaper)) == (["a"], [])


def test_a_delay_begins_with_the_start() -> None:
    """When somebody used it last is not known then."""
    domain = make_domain({"#": SHIPPED.changed(auto_delete_queues_skip_usage_check=False)})
    session = make_session(domain)
    session.producer("queue", ANYCAST)
    ensure_destination(domain, session, "topic", "", MULTICAST)
    reaper = make_services(domain).reaper

    reaper.reap_at_start()
    at_start = sorted(domain.addresses)

    assert (at_start, passes(domain, reaper)) == (["queue", "topic"], [])


def test_deleted_addresses_leave_no_garbage_to_collect() -> None:
    """50,000 of them in circles of references would stop the loop for a second, whenever Python comes to it."""
    domain = make_domain({"#": SHIPPED})
    for name in names(1000):
        domain.create_address(name, frozenset((MULTICAST,)), auto_created=True)
        send(domain, name, "m")
    gc.collect()
    gc.disable()

    left = passes(domain)
    collected = gc.collect()
    gc.enable()

    assert left == []
    assert collected < 100


def test_a_service_keeps_the_addresses_that_it_needs() -> None:
    """A service from outside says so; the reaper knows none of them by name."""
    domain = make_domain({"#": SHIPPED})
    for name in ("kept", "unused"):
        domain.create_address(name, frozenset((MULTICAST,)), auto_created=True)
    domain.in_use.append(lambda name: name == "kept")
    domain.dispatcher.steady_ms += 1000

    reap(make_services(domain).reaper, domain)

    assert list(domain.addresses) == ["kept"]
