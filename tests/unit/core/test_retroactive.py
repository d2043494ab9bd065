"""Retroactive addresses: a new queue begins with the last messages of its address (artemis-model §3.11)."""

from collections.abc import Callable

import pytest

from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.routing.divert import create_divert
from artemis_py.core.routing.routes import NO_TYPE
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.events import Events, HistoryRefused
from artemis_py.core.services.services import Services
from artemis_py.core.sessions.subscriptions import SubscriptionSpec
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.divert_config import DivertConfig
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import MaxConsumersReached, NotAuthorized
from tests.core_harness import (
    START_MS,
    attach,
    browse_all,
    make_domain,
    make_message,
    make_services,
    make_session,
    pass_time,
    send,
    settle_down,
)
from tests.memory_harness import check_held
from tests.unit.core.retroactive_world import ANYCAST, BOTH, MULTICAST, PREFIX, THREE, bodies, create, route, world_of

# -- what belongs to a retroactive address -----------------------------------------------------------------------


def test_row_19_the_resources_have_the_names_of_artemis() -> None:
    domain, _services = world_of(5)

    assert set(domain.addresses) == {"a", f"{PREFIX}a.address.retro"}
    rings = [domain.queues[f"{PREFIX}a.queue.{kind}.retro"] for kind in ("multicast", "anycast")]
    assert [ring.routing_type for ring in rings] == [MULTICAST, ANYCAST]
    assert [(ring.settings.ring_size, ring.settings.max_consumers, ring.internal) for ring in rings] == [
        (5, 0, True)
    ] * 2
    assert {ring.address.name for ring in rings} == {f"{PREFIX}a.address.retro"}
    assert list(domain.others) == [f"{PREFIX}a.divert.retro"]
    assert domain.addresses[f"{PREFIX}a.address.retro"].internal


def test_another_prefix_is_used_for_all_names() -> None:
    domain = make_domain({"a": THREE}, BrokerSettings(internal_naming_prefix="own/"))
    services = make_services(domain)
    domain.create_address("a", BOTH)

    assert set(domain.addresses) == {"a", "own/a.address.retro"}
    assert all(name.startswith("own/a.") for name in [*domain.queues, *domain.others])
    with pytest.raises(NotAuthorized):
        make_session(domain).producer("own/a.address.retro")
    assert services.retroactive.history("a") is not None


@pytest.mark.parametrize("match", ["#", "a"])
def test_settings_of_broad_matches_do_not_change_the_rings(match: str) -> None:
    settings = AddressSettings(
        retroactive_message_count=2,
        default_exclusive_queue=True,
        default_purge_on_no_consumers=True,
        default_ring_size=1,
        default_max_consumers=7,
        max_delivery_attempts=1,
    )
    domain = make_domain({match: settings})
    make_services(domain)
    domain.create_address("a", BOTH)
    send(domain, "a", "1", "2", "3")

    assert bodies(domain.queues[f"{PREFIX}a.queue.multicast.retro"]) == ["2", "3"]
    assert not domain.queues[f"{PREFIX}a.queue.multicast.retro"].settings.exclusive


def test_internal_and_temporary_addresses_keep_no_history() -> None:
    domain = make_domain({"#": THREE})
    make_services(domain)
    domain.create_address("a", BOTH)
    domain.create_address("t", BOTH, temporary=True)
    domain.create_address("i", BOTH, internal=True)

    assert sorted(domain.addresses) == [f"{PREFIX}a.address.retro", "a", "i", "t"]


def test_everything_ends_with_the_address() -> None:
    domain, services = world_of()
    tables = make_domain().dispatcher.tables.size_bytes
    send(domain, "a", "1", "2")
    create(domain)

    domain.delete_address("a", force=True)
    settle_down(domain)

    assert (domain.addresses, domain.queues, domain.others) == ({}, {}, {})
    assert services.retroactive.history("a") is None
    assert (domain.account.size_bytes, domain.dispatcher.tables.size_bytes) == (0, tables)


def reap(services: Services) -> None:
    for _ in range(4):
        services.reaper.reap()
        settle_down(services.sessions.domain)


def test_an_address_with_a_history_is_not_deleted_by_itself() -> None:
    """It would lose what later subscribers are to get; an empty history does not keep it."""
    domain, services = world_of(auto_delete_addresses_skip_usage_check=True)
    domain.addresses["a"].auto_created = True
    route(domain, make_message("1", expires_ms=START_MS + 10))
    session = make_session(domain)
    session.delete_queue(create(domain).name)
    reap(services)
    services.reaper.reap_at_start()
    assert "a" in domain.addresses

    pass_time(domain, 10)
    services.reaper.expire_messages()
    reap(services)

    assert domain.addresses == {}


def test_a_history_does_not_stand_in_the_way_of_a_deletion_by_request() -> None:
    domain, _ = world_of()
    send(domain, "a", "1")

    domain.delete_address("a")

    assert (domain.addresses, domain.queues) == ({}, {})


def test_a_name_that_is_taken_is_reported_and_does_no_harm() -> None:
    told: list[object] = []
    events = Events()
    events.subscribe(told.append, HistoryRefused)
    domain = make_domain({"a": THREE}, events=events)
    make_services(domain)
    domain.create_address("x", BOTH)
    domain.create_queue(QueueConfig(name=f"{PREFIX}a.queue.anycast.retro", address="x", routing_type=ANYCAST))

    domain.create_address("a", BOTH)
    send(domain, "a", "1")

    assert len(told) == 1
    assert set(domain.addresses) == {"a", "x"}
    assert bodies(create(domain)) == []


# -- what a new queue gets ---------------------------------------------------------------------------------------


def test_row_19_a_new_queue_begins_with_the_last_messages() -> None:
    domain, _services = world_of()
    send(domain, "a", "1", "2", "3", "4")

    first = create(domain, "first")
    send(domain, "a", "5")
    second = create(domain, "second")

    assert (bodies(first), bodies(second)) == (["2", "3", "4", "5"], ["3", "4", "5"])
    assert {reference.message.address for reference in browse_all(second)} == {"a"}
    assert first.messages_added == 4
    check_held(domain)


def test_a_queue_gets_the_history_of_its_routing_type() -> None:
    domain, _ = world_of(9)
    for body, kind in (("any", NO_TYPE), ("topic", MULTICAST), ("queue", ANYCAST)):
        route(domain, make_message(body, routing_type=int(kind)))

    assert bodies(create(domain, "m", MULTICAST)) == ["any", "topic"]
    assert bodies(create(domain, "p", ANYCAST)) == ["any", "queue"]


def test_the_filter_of_the_queue_decides_and_priorities_are_kept() -> None:
    domain, _ = world_of(9)
    for body, colour, priority in (("1", "red", 1), ("2", "green", 5), ("3", "red", 9), ("4", "red", 1)):
        route(domain, make_message(body, priority, colour=colour))

    assert bodies(create(domain, filter="colour = 'red' AND AMQAddress = 'a'")) == ["3", "1", "4"]


def test_expired_messages_are_left_out_and_go_to_no_expiry_address() -> None:
    domain, services = world_of(9, expiry_address="expired")
    domain.create_address("expired", BOTH)
    letters = domain.create_queue(QueueConfig(name="expired", address="expired", routing_type=ANYCAST))
    route(
        domain,
        make_message("1", expires_ms=START_MS + 10),
        make_message("2"),
        make_message("3", expires_ms=START_MS + 10),
    )
    pass_time(domain, 10)

    late = create(domain)
    services.reaper.expire_messages()
    settle_down(domain)

    assert bodies(late) == ["2"]
    assert bodies(domain.queues[f"{PREFIX}a.queue.multicast.retro"]) == ["2"]
    assert bodies(letters) == []
    assert domain.discards.count == 0


def test_a_message_that_is_not_due_yet_is_scheduled_in_the_new_queue() -> None:
    domain, _ = world_of(9)
    route(domain, make_message("1", delivery_time_ms=START_MS + 50, colour="red"), make_message("2"))

    early = create(domain, "early")
    counted = (bodies(early), early.scheduled_count)
    pass_time(domain, 60)
    late = create(domain, "late", filter="_AMQ_RETRO_DUE IS NULL")

    assert counted == (["2"], 1)
    assert (bodies(early), bodies(late)) == (["2", "1"], ["1", "2"])
    check_held(domain)


def test_row_19_an_existing_queue_gets_nothing_again() -> None:
    domain, _ = world_of()
    send(domain, "a", "1", "2")
    session = make_session(domain)
    spec = SubscriptionSpec("a", names=["sub"], durable=True, recreates=True)
    queue = session.subscribe(spec).queue
    recorder, consumer = attach(domain, queue)
    for reference in recorder.take():
        consumer.settle(reference, ACCEPTED)
    consumer.close()

    again = session.subscribe(spec)

    assert (again.queue, again.is_new) == (queue, False)
    assert bodies(queue) == []
    assert bodies(create(domain)) == ["1", "2"]


def test_temporary_subscriptions_get_the_history_too() -> None:
    domain, _ = world_of()
    send(domain, "a", "1", "2")

    assert bodies(make_session(domain).subscribe(SubscriptionSpec("a")).queue) == ["1", "2"]


def test_a_queue_of_a_wildcard_address_has_its_own_history() -> None:
    """A queue on `a.#` is created on another address than `a.b`."""
    domain = make_domain({"a.b": THREE})
    make_services(domain)
    for name in ("a.b", "a.#"):
        domain.create_address(name, BOTH)
    route(domain, make_message("1"), address="a.b")
    config = QueueConfig(name="all", address="a.#", routing_type=MULTICAST)
    assert bodies(domain.create_queue(config)) == []

    domain.settings.put("a.#", THREE)
    route(domain, make_message("2"), address="a.b")
    late = domain.create_queue(QueueConfig(name="late", address="a.#", routing_type=MULTICAST))

    assert bodies(late) == ["2"]
    assert [reference.message.address for reference in browse_all(late)] == ["a.b"]


def test_a_message_to_a_queue_by_name_and_one_that_an_exclusive_divert_takes_are_in_no_history() -> None:
    domain, _ = world_of()
    create(domain, "one")
    domain.route(make_message("named"), domain.addresses["a"], "one")
    domain.create_address("b", BOTH)
    create_divert(
        domain, DivertConfig(name="d", address="a", forwarding_address="b", filter="kind = 'x'", exclusive=True)
    )
    route(domain, make_message("diverted", kind="x"), make_message("plain"))

    assert bodies(create(domain, "late")) == ["plain"]


def test_a_transaction_fills_the_history_at_its_commit() -> None:
    domain, _ = world_of()
    transaction = Transaction(1, START_MS)
    domain.route(make_message("late"), domain.addresses["a"], transaction=transaction)
    send(domain, "a", "early")
    assert bodies(create(domain, "before")) == ["early"]

    domain.commit(transaction)

    assert bodies(create(domain, "after")) == ["early", "late"]


def test_a_full_address_is_not_full_of_its_history() -> None:
    """The history counts at the internal address: nobody could make room in it."""
    domain, _ = world_of(9, max_size_messages=2, address_full_policy=FullPolicy.FAIL)
    queue = create(domain)
    recorder, consumer = attach(domain, queue)
    for number in range(6):
        send(domain, "a", str(number))
        for reference in recorder.take():
            consumer.settle(reference, ACCEPTED)

    assert len(bodies(create(domain, "late"))) == 6
    assert domain.addresses["a"].message_count == 0


# -- settings that change ------------------------------------------------------------------------------------------


def test_row_19_the_rings_follow_the_setting() -> None:
    domain, _services = world_of(2)
    send(domain, "a", "1", "2", "3")

    domain.settings.put("a", AddressSettings(retroactive_message_count=4))
    send(domain, "a", "4", "5")
    grown = bodies(create(domain, "grown"))
    domain.settings.put("a", AddressSettings(retroactive_message_count=1))
    settle_down(domain)
    shrunk = bodies(create(domain, "shrunk"))

    assert (grown, shrunk) == (["2", "3", "4", "5"], ["5"])
    assert domain.queues[f"{PREFIX}a.queue.anycast.retro"].settings.ring_size == 1


def test_a_setting_that_comes_later_applies_to_addresses_that_exist() -> None:
    """In Artemis it does not."""
    domain, _services = world_of(0)
    send(domain, "a", "1")
    domain.settings.put("#", THREE)
    domain.settings.put("a", AddressSettings(retroactive_message_count=3))
    send(domain, "a", "2")

    assert bodies(create(domain)) == ["2"]

    domain.settings.put("a", AddressSettings(retroactive_message_count=0))
    settle_down(domain)

    assert set(domain.addresses) == {"a"}
    assert set(domain.queues) == {"q"}
    assert domain.others == {}
    assert bodies(create(domain, "late")) == []
    check_held(domain)


def test_many_addresses_follow_a_setting_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = make_domain()
    services = make_services(domain)
    for number in range(60):
        domain.create_address(f"a.{number}", BOTH)
    domain.settings.put("#", THREE)
    first = sum(services.retroactive.history(f"a.{number}") is not None for number in range(60))
    settle_down(domain)

    assert 0 < first < 60
    assert all(services.retroactive.history(f"a.{number}") is not None for number in range(60))


# -- who may touch it ----------------------------------------------------------------------------------------------


def test_clients_can_only_browse_what_is_internal() -> None:
    domain, _ = world_of()
    send(domain, "a", "1", "2")
    session = make_session(domain)
    ring = domain.queues[f"{PREFIX}a.queue.multicast.retro"]
    attempts: list[Callable[[], object]] = [
        lambda: session.producer(f"{PREFIX}a.address.retro"),
        lambda: session.producer(f"{PREFIX}a.address.retro::{ring.name}"),
        lambda: session.check_consumer(ring),
        lambda: session.create_address(f"{PREFIX}b.address.retro", BOTH),
        lambda: session.update_address(f"{PREFIX}a.address.retro", BOTH),
        lambda: session.delete_address(f"{PREFIX}a.address.retro", True),
        lambda: session.create_queue(QueueConfig(name=f"{PREFIX}x", address="a", routing_type=ANYCAST)),
        lambda: session.create_queue(QueueConfig(name="x", address=ring.address.name, routing_type=ANYCAST)),
        lambda: session.create_temporary_queue(MULTICAST, ring.address.name),
        lambda: session.update_queue(ring.name, {"ring_size": 1}),
        lambda: session.delete_queue(ring.name, True),
        lambda: session.subscribe(SubscriptionSpec(ring.address.name, names=["s"])),
    ]
    for attempt in attempts:
        with pytest.raises((NotAuthorized, MaxConsumersReached)):
            attempt()
    recorder, _ = attach(domain, ring, browse=True)

    assert recorder.bodies() == ["1", "2"]
    assert bodies(ring) == ["1", "2"]


def test_wildcards_do_not_reach_the_internal_addresses() -> None:
    domain, _ = world_of()
    domain.create_address("#", BOTH)
    everything = domain.create_queue(QueueConfig(name="all", address="#", routing_type=MULTICAST))
    send(domain, "a", "1")

    assert bodies(everything) == ["1"]
    assert WildcardSyntax().matches("#", "a")
