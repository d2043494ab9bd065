"""The conformance checklist (artemis-model §9.2), row by row, against the core's interface.

The number in a test's name is the row; docs/artemis-checklist.md shows the rows with their tests, and which are still
open. Row 14 is here for AMQP; its OpenWire half comes with that protocol. Rows 14 and 27 are tested on the wire as well
(tests/interop).
"""

from pathlib import Path

import pytest

from artemis_py.config.reader import parse
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.core.routing.divert import create_divert
from artemis_py.core.routing.duplicates import duplicate_id
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.divert_config import DivertConfig
from artemis_py.errors import InvalidRequest, NotAuthorized, Refusal, RoutingTypeMismatch
from artemis_py.management.endpoint import ManagementEndpoint
from artemis_py.management.facts import BrokerFacts
from artemis_py.security.permissions import AccessRules
from tests.conformance.world import ANYCAST, MULTICAST, NOW_MS, World
from tests.core_harness import browse_all

SCAN_MS = 30_000
"""Default `address-queue-scan-period`."""


# ---- 1. Anycast group key is the address; a queue on a wildcard address is a group of its own.


def test_row_1_anycast_queues_of_one_address_take_turns() -> None:
    """artemis-model §1.2: routing name of an anycast queue is its address."""
    world = World()
    world.address("a.b", ANYCAST)
    world.queue("one", "a.b")
    world.queue("two", "a.b")
    for number in range(4):
        world.send("a.b", number)

    assert len(world.bodies("one")) == len(world.bodies("two")) == 2
    assert sorted([*world.bodies("one"), *world.bodies("two")], key=str) == [0, 1, 2, 3]


def test_row_1_queue_on_a_wildcard_address_gets_every_message() -> None:
    """artemis-model §1.2, trap: `a.#` is a routing name of its own, so one queue of each group gets the message."""
    world = World()
    world.address("a.b", ANYCAST)
    world.address("a.#", ANYCAST)
    world.queue("exact one", "a.b")
    world.queue("exact two", "a.b")
    world.queue("wild", "a.#")
    for number in range(4):
        world.send("a.b", number)

    assert world.bodies("wild") == [0, 1, 2, 3]
    assert len(world.bodies("exact one")) == len(world.bodies("exact two")) == 2


def test_row_1_queue_without_a_matching_consumer_is_avoided() -> None:
    """artemis-model §1.2: high accept priority is a consumer whose filter accepts the message."""
    world = World()
    world.address("a", ANYCAST)
    world.queue("picky", "a")
    world.queue("idle", "a")
    inbox = world.consume("picky", selector="colour = 'red'")
    for _ in range(3):
        world.send("a", "red", colour="red")
    world.send("a", "blue", colour="blue")
    world.send("a", "blue", colour="blue")

    assert inbox.bodies == ["red", "red", "red"]
    assert world.domain.queue("idle").message_count == 1  # blue: no consumer anywhere takes it, so they take turns


def test_row_1_queue_filter_takes_a_queue_out_of_the_rotation() -> None:
    """artemis-model §1.2: a candidate must match."""
    world = World()
    world.address("a", ANYCAST)
    world.queue("red", "a", filter="colour = 'red'")
    world.queue("any", "a")
    for _ in range(3):
        world.send("a", "blue", colour="blue")

    assert world.bodies("red") == []
    assert world.bodies("any") == ["blue"] * 3


# ---- 2. Null routing type: no auto-creation, both kinds receive.


def test_row_2_untyped_message_goes_to_both_kinds() -> None:
    """artemis-model §1.2: null matches everything: one anycast queue and every multicast queue."""
    world = World()
    world.address("a", ANYCAST, MULTICAST)
    for name, kind in (("q1", ANYCAST), ("q2", ANYCAST), ("s1", MULTICAST), ("s2", MULTICAST)):
        world.queue(name, "a", kind)
    world.send("a")

    assert [world.bodies("s1"), world.bodies("s2")] == [["m"], ["m"]]
    assert sorted([*world.bodies("q1"), *world.bodies("q2")], key=str) == ["m"]


@pytest.mark.parametrize(("kind", "queued", "published"), [(ANYCAST, ["m"], []), (MULTICAST, [], ["m"])])
def test_row_2_typed_message_goes_to_its_kind(kind: object, queued: list[str], published: list[str]) -> None:
    """artemis-model §1.2, the routing type gate."""
    world = World()
    world.address("a", ANYCAST, MULTICAST)
    world.queue("q", "a", ANYCAST)
    world.queue("s", "a", MULTICAST)
    world.send("a", routing_type=ANYCAST if kind is ANYCAST else MULTICAST)

    assert world.bodies("q") == queued
    assert world.bodies("s") == published


def test_row_2_nothing_is_created_for_a_null_type() -> None:
    """artemis-model §1.3: requested routing type null counts as existing."""
    world = World()
    world.address("a", ANYCAST, MULTICAST)
    world.send("a")

    assert world.domain.queues == {}


def test_row_2_unknown_address_carries_the_default_type_and_is_created() -> None:
    """artemis-model §1.3: an AMQP sender to an unknown address carries `default-address-routing-type`, not null."""
    world = World({"queue.#": AddressSettings(default_address_routing_type=ANYCAST)})
    world.send("queue.a")
    world.send("other.a")

    assert world.bodies("queue.a") == ["m"]
    assert world.domain.address("other.a").routing_types == {MULTICAST}
    assert "other.a" not in world.domain.queues


# ---- 3. Auto-creation can widen the routing types of an existing address.


@pytest.mark.parametrize(("have", "send"), [(ANYCAST, MULTICAST), (MULTICAST, ANYCAST)])
def test_row_3_sender_widens_an_existing_address(have: object, send: object) -> None:
    """artemis-model §1.3: the address is updated to have that type as well."""
    world = World()
    world.address("a", ANYCAST if have is ANYCAST else MULTICAST)
    world.send("a", routing_type=ANYCAST if send is ANYCAST else MULTICAST)

    assert world.domain.address("a").routing_types == {ANYCAST, MULTICAST}


def test_row_3_address_is_not_widened_when_auto_create_is_off() -> None:
    """artemis-model §1.3: …and auto-create off: not found."""
    world = World({"a": AddressSettings(auto_create_addresses=False)})
    world.address("a", ANYCAST)
    with pytest.raises(Refusal):
        world.send("a", routing_type=MULTICAST)

    assert world.domain.address("a").routing_types == {ANYCAST}


# ---- 5. An exclusive divert suppresses normal routing, even if its target drops the message.


@pytest.mark.parametrize("target", ["full", "missing"])
def test_row_5_exclusive_divert_takes_messages_that_its_target_drops(target: str) -> None:
    """artemis-model §1.2: ordinary bindings get nothing of what it accepts."""
    world = World({"full": AddressSettings(max_size_messages=0, address_full_policy=FullPolicy.DROP)})
    world.address("a", ANYCAST)
    world.queue("q", "a")
    world.address("full", ANYCAST)
    world.queue("full", "full")
    config = DivertConfig(name="d", address="a", forwarding_address=target, filter="colour = 'red'", exclusive=True)
    create_divert(world.domain, config)
    world.send("a", "red", colour="red")
    world.send("a", "blue", colour="blue")

    assert world.bodies("q") == ["blue"]
    assert world.bodies("full") == []


# ---- 6. DLA resolves on the queue's address, expiry on the message's address.


def wildcard_world() -> World:
    """A queue bound to `a.#`, and settings that differ between that text and `a.b`."""
    world = World(
        {
            "a.#": AddressSettings(dead_letter_address="dead.wild", expiry_address="old.wild", max_delivery_attempts=1),
            "a.b": AddressSettings(dead_letter_address="dead.exact", expiry_address="old.exact"),
        }
    )
    for name in ("dead.wild", "dead.exact", "old.wild", "old.exact"):
        world.address(name, ANYCAST)
        world.queue(name, name)
    world.address("a.#", MULTICAST)
    world.address("a.b", MULTICAST)
    world.queue("wild", "a.#", MULTICAST)
    return world


def test_row_6_dead_letter_address_is_the_queues() -> None:
    """artemis-model §3.8: for a queue bound to `a.#` the settings of that text, not of the concrete address."""
    world = wildcard_world()
    inbox = world.consume("wild")
    world.send("a.b", "poison")
    inbox.reject()

    assert world.bodies("dead.wild") == ["poison"]
    assert world.bodies("dead.exact") == []


def test_row_6_expiry_address_is_the_messages() -> None:
    """artemis-model §3.9: unlike dead letter, the settings of the message's address."""
    world = wildcard_world()
    world.send("a.b", "old", expires_ms=NOW_MS + 10)
    world.pass_time(20)
    world.reaper.expire_messages()

    assert world.bodies("old.exact") == ["old"]
    assert world.bodies("old.wild") == []


# ---- 7. Auto-created DLQ filter compares with the recorded original address.


def test_row_7_auto_created_dead_letter_queue_collects_one_origin() -> None:
    """artemis-model §3.8: filter `_AMQ_ORIG_ADDRESS = '<address>'`."""
    settings = AddressSettings(dead_letter_address="dead", auto_create_dead_letter_resources=True)
    world = World({"shop.#": settings, "#": AddressSettings(default_address_routing_type=ANYCAST)})
    for name in ("shop.one", "shop.two"):
        world.send(name, name)
        world.consume(name).reject()

    assert world.bodies("DLQ.shop.one") == ["shop.one"]
    assert world.bodies("DLQ.shop.two") == ["shop.two"]
    dead = world.domain.queue("DLQ.shop.one")
    assert dead.auto_created
    assert dead.filter is not None
    assert dead.filter.text == "_AMQ_ORIG_ADDRESS = 'shop.one'"
    assert dead.routing_type is MULTICAST


def test_row_7_recorded_original_address_is_overwritten_by_the_next_move() -> None:
    """artemis-model §3.8: a message that dies twice names the place of its last death."""
    dead = AddressSettings(dead_letter_address="dead", default_address_routing_type=ANYCAST)
    world = World({"shop": dead, "dead": AddressSettings(dead_letter_address="graveyard")})
    for name in ("dead", "graveyard"):
        world.address(name, ANYCAST)
        world.queue(name, name)
    world.send("shop")
    world.consume("shop").reject()
    first = browse_all(world.domain.queue("dead"))[0].message.lookup("_AMQ_ORIG_ADDRESS")
    world.consume("dead").reject()
    second = browse_all(world.domain.queue("graveyard"))[0].message.lookup("_AMQ_ORIG_ADDRESS")

    assert (first, second) == ("shop", "dead")


def test_row_7_prefix_and_suffix_are_settings() -> None:
    """artemis-model §2.1 `dead-letter-queue-prefix` and `-suffix`."""
    settings = AddressSettings(
        dead_letter_address="dead",
        auto_create_dead_letter_resources=True,
        dead_letter_queue_prefix="<",
        dead_letter_queue_suffix=">",
        default_address_routing_type=ANYCAST,
    )
    world = World({"#": settings})
    world.send("shop")
    world.consume("shop").reject()

    assert world.bodies("<shop>") == ["m"]


# ---- 8. Address settings merge field-wise; security settings do not.


def test_row_8_address_settings_merge_field_by_field() -> None:
    """artemis-model §1.8: each attribute still unset is filled from the next match."""
    world = World(
        {
            "#": AddressSettings(dead_letter_address="d", expiry_address="e", max_delivery_attempts=1),
            "a.*": AddressSettings(max_delivery_attempts=2, redelivery_delay=100),
            "a.b": AddressSettings(redelivery_delay=200),
        }
    )
    resolved = world.domain.settings.resolve("a.b")

    assert resolved.redelivery_delay == 200
    assert resolved.max_delivery_attempts == 2
    assert resolved.dead_letter_address == "d"
    assert resolved.expiry_address == "e"
    assert resolved.max_redelivery_delay == 2000


def test_row_8_security_settings_do_not_merge() -> None:
    """artemis-model §1.8: exactly the most specific match applies; roles of broader matches are not inherited."""
    role = frozenset(("r",))
    rules = AccessRules({"#": {Permission.SEND: role}, "a.#": {Permission.CONSUME: role}}, BrokerSettings())
    someone = Subject("u", role)

    assert rules.allows(someone, Permission.SEND, "other")
    assert not rules.allows(someone, Permission.SEND, "a.b")
    assert rules.allows(someone, Permission.CONSUME, "a.b")


# ---- 9. `#` only last in matches, anywhere in routing.


def test_row_9_any_words_is_last_in_a_match() -> None:
    """artemis-model §1.7, §1.8."""
    with pytest.raises(InvalidRequest):
        World({"a.#.z": AddressSettings()})


def test_row_9_any_words_stands_anywhere_in_routing() -> None:
    """artemis-model §1.7: `a.#.z`."""
    world = World()
    world.address("a.#.z", MULTICAST)
    world.queue("wild", "a.#.z", MULTICAST)
    for name in ("a.z", "a.b.z", "a.b.c.z", "a.b", "z.a"):
        world.send(name, name, routing_type=MULTICAST)

    assert world.bodies("wild") == ["a.z", "a.b.z", "a.b.c.z"]


def test_row_9_single_word_is_a_whole_word() -> None:
    """artemis-model §1.7: `a.b*` is a literal word."""
    syntax = WildcardSyntax()

    assert syntax.matches("a.*", "a.b")
    assert not syntax.matches("a.*", "a")
    assert not syntax.matches("a.*", "a.b.c")
    assert not syntax.matches("a.b*", "a.bc")


# ---- 10. XML queues ignore default-ring-size and default-purge-on-no-consumers.


def test_row_10_queue_of_broker_xml_ignores_default_purge_on_no_consumers() -> None:
    """artemis-model §2.2, XML trap: the attribute is false when missing; other defaults of the address do apply."""
    config = parse(
        b"""<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
          <persistence-enabled>false</persistence-enabled>
          <acceptors><acceptor name="amqp">tcp://127.0.0.1:0</acceptor></acceptors>
          <addresses><address name="a"><anycast><queue name="q"/></anycast></address></addresses>
          <address-settings><address-setting match="#">
            <default-purge-on-no-consumers>true</default-purge-on-no-consumers>
            <default-max-consumers>3</default-max-consumers>
          </address-setting></address-settings>
        </core></configuration>""",
        "broker.xml",
        Path(),
    )
    world = World(dict(config.address_settings))
    world.address("a", ANYCAST)
    declared = world.domain.create_queue(config.addresses[0].queues[0])
    created = world.queue("created", "a")

    assert not declared.purge_on_no_consumers
    assert created.purge_on_no_consumers
    assert declared.settings.max_consumers == created.settings.max_consumers == 3


# ---- 11. Reaper needs use + two passes; start-up pass is immediate for empty auto-delete queues.


def reaper_world() -> World:
    """An auto-created queue `a`, anycast."""
    world = World({"#": AddressSettings(default_address_routing_type=ANYCAST)})
    world.send("a")
    return world


def test_row_11_queue_that_was_never_used_stays() -> None:
    """artemis-model §2.4: a queue that only ever received messages is never reaped, even where their number does not
    matter.
    """
    settings = AddressSettings(default_address_routing_type=ANYCAST, auto_delete_queues_message_count=-1)
    world = World({"#": settings})
    world.send("a")
    world.send("used")
    inbox = world.consume("used")
    world.leave(inbox)
    for _ in range(5):
        world.domain.dispatcher.steady_ms += SCAN_MS
        world.reaper.reap()

    assert "a" in world.domain.queues
    assert "used" not in world.domain.queues


def test_row_11_used_queue_goes_in_the_second_pass() -> None:
    """artemis-model §2.4: marked in one pass, deleted in the next; then its address, again in two."""
    world = reaper_world()
    inbox = world.consume("a")
    inbox.accept()
    world.leave(inbox)
    seen = []
    for _ in range(5):
        world.domain.dispatcher.steady_ms += SCAN_MS
        world.reaper.reap()
        seen.append(("a" in world.domain.queues, "a" in world.domain.addresses))

    assert seen[0] == (True, True)
    assert not seen[1][0]
    assert seen[-1] == (False, False)


def test_row_11_consumer_between_two_passes_saves_the_queue() -> None:
    """artemis-model §2.4: attaching a consumer clears the mark."""
    world = reaper_world()
    first = world.consume("a")
    first.accept()
    world.leave(first)
    world.reaper.reap()
    second = world.consume("a")
    world.leave(second)
    world.reaper.reap()

    assert "a" in world.domain.queues


def test_row_11_queue_with_messages_or_consumers_stays() -> None:
    """artemis-model §2.4: both conditions hold in every pass."""
    world = reaper_world()
    inbox = world.consume("a", credit=0)
    world.reaper.reap()
    world.reaper.reap()
    with_consumer = "a" in world.domain.queues
    world.leave(inbox)
    world.reaper.reap()
    world.reaper.reap()

    assert with_consumer
    assert "a" in world.domain.queues  # its message was never taken


def test_row_11_start_up_pass_is_immediate() -> None:
    """artemis-model §2.4: no delay, no use, no mark: only empty and auto-delete."""
    world = World({"#": AddressSettings(default_address_routing_type=ANYCAST)})
    world.send("full")
    world.send("empty")
    world.domain.queue("empty").purge()
    world.address("kept", ANYCAST)
    world.queue("kept", "kept")
    world.reaper.start()

    assert "empty" not in world.domain.queues
    assert "empty" not in world.domain.addresses
    assert {"full", "kept"} <= set(world.domain.queues)


def test_row_11_periodic_passes_follow_the_clock() -> None:
    """artemis-model §2.4: `address-queue-scan-period`: deleted between one and two periods after the last use."""
    world = reaper_world()
    world.reaper.start()
    inbox = world.consume("a")
    inbox.accept()
    world.leave(inbox)
    world.pass_time(SCAN_MS)
    after_one = "a" in world.domain.queues
    world.pass_time(SCAN_MS)

    assert after_one
    assert "a" not in world.domain.queues


# ---- 14. Subscription selectors are queue filters; change = re-create (the wire half: tests/interop).


def test_row_14_queue_filter_decides_at_routing() -> None:
    """artemis-model §4.1.4: what does not match is never queued, so a later look with another eye cannot find it."""
    world = World()
    world.address("t", MULTICAST)
    subscription = world.queue("c.s", "t", MULTICAST, filter="n > 1")
    for number in (1, 2, 3):
        world.send("t", number, n=number)

    assert world.bodies("c.s") == [2, 3]
    assert subscription.message_count == 2


# ---- 17. max-delivery-attempts counts deliveries, not failures; checked only on failed endings.


def attempts_world(attempts: int) -> World:
    """Address `a` with a limit of attempts and a dead-letter queue."""
    settings = AddressSettings(
        max_delivery_attempts=attempts, dead_letter_address="dead", default_address_routing_type=ANYCAST
    )
    world = World({"a": settings})
    world.address("dead", ANYCAST)
    world.queue("dead", "dead")
    world.send("a")
    return world


def test_row_17_message_dies_at_the_end_of_its_last_attempt() -> None:
    """artemis-model §3.8: `deliveryCount >= max-delivery-attempts`."""
    world = attempts_world(3)
    inbox = world.consume("a")
    for _ in range(2):
        inbox.fail()
        world.run()
    before = world.bodies("dead")
    inbox.fail()
    world.run()

    assert before == []
    assert world.bodies("dead") == ["m"]
    assert inbox.references == []


def test_row_17_releases_never_kill() -> None:
    """artemis-model §3.8: checked only when a delivery ends badly."""
    world = attempts_world(2)
    inbox = world.consume("a")
    for _ in range(10):
        inbox.release()
        world.run()

    assert inbox.references[0].delivery_count == 0
    assert world.bodies("dead") == []


def test_row_17_clean_close_never_counts() -> None:
    """artemis-model §3.8: clean consumer close never counts as failure."""
    world = attempts_world(2)
    for _ in range(5):
        world.leave(world.consume("a"))

    assert world.bodies("a") == ["m"]
    assert world.bodies("dead") == []


def test_row_17_last_attempt_may_succeed() -> None:
    """artemis-model §3.8: the limit is looked at after a failure, not before a delivery."""
    world = attempts_world(2)
    inbox = world.consume("a")
    inbox.fail()
    world.run()
    inbox.accept()

    assert world.bodies("dead") == []
    assert world.domain.queue("a").message_count == 0


@pytest.mark.parametrize("attempts", [0, -1])
def test_row_17_no_limit(attempts: int) -> None:
    """artemis-model §2.1: zero or less is unlimited."""
    world = attempts_world(attempts)
    inbox = world.consume("a")
    for _ in range(30):
        inbox.fail()
        world.run()

    assert inbox.references[0].delivery_count == 30
    assert world.bodies("dead") == []


def test_row_17_rejected_message_dies_at_once() -> None:
    """artemis-model §3.8: regardless of counts."""
    world = attempts_world(-1)
    world.consume("a").reject()

    assert world.bodies("dead") == ["m"]


# ---- 18. Expiry has four settings with precedence no-expiry > expiry-delay > min/max.


@pytest.mark.parametrize(
    ("settings", "given", "expected"),
    [
        ({}, 0, 0),
        ({}, 500, 500),
        ({"expiry_delay": 100}, 0, 100),
        ({"expiry_delay": 100}, 500, 500),
        ({"min_expiry_delay": 100}, 0, 100),
        ({"max_expiry_delay": 300}, 0, 300),
        ({"min_expiry_delay": 100, "max_expiry_delay": 300}, 0, 300),
        ({"min_expiry_delay": 100, "max_expiry_delay": 300}, 500, 300),
        ({"min_expiry_delay": 100, "max_expiry_delay": 300}, 50, 100),
        ({"min_expiry_delay": 100, "max_expiry_delay": 300}, 200, 200),
        ({"expiry_delay": 100, "min_expiry_delay": 200, "max_expiry_delay": 300}, 0, 100),
        ({"expiry_delay": 100, "min_expiry_delay": 200, "max_expiry_delay": 300}, 500, 500),
        ({"no_expiry": True}, 500, 0),
        ({"no_expiry": True, "expiry_delay": 100}, 0, 0),
        ({"no_expiry": True, "expiry_delay": 100, "max_expiry_delay": 300}, 500, 0),
    ],
)
def test_row_18_expiry_precedence(settings: dict[str, int], given: int, expected: int) -> None:
    """artemis-model §3.9; times relative to the arrival, 0 is never."""
    world = World({"a": AddressSettings(default_address_routing_type=ANYCAST, **settings)})
    message = world.send("a", expires_ms=NOW_MS + given if given else 0)

    assert message.expires_ms == (NOW_MS + expected if expected else 0)


def test_row_18_expired_message_is_found_at_dispatch() -> None:
    """artemis-model §3.9: also without the scanner."""
    world = World({"a": AddressSettings(default_address_routing_type=ANYCAST, expiry_address="old")})
    world.address("old", ANYCAST)
    world.queue("old", "old")
    world.send("a", expires_ms=NOW_MS + 10)
    world.domain.dispatcher.now_ms += 20
    inbox = world.consume("a")

    assert inbox.bodies == []
    assert world.bodies("old") == ["m"]


def test_row_18_moved_message_does_not_expire_again() -> None:
    """artemis-model §3.9: the copy has expiration 0 and tells when it expired."""
    world = World({"a": AddressSettings(default_address_routing_type=ANYCAST, expiry_address="old")})
    world.address("old", ANYCAST)
    world.queue("old", "old")
    world.send("a", expires_ms=NOW_MS + 10)
    world.pass_time(20)
    world.reaper.expire_messages()
    moved = browse_all(world.domain.queue("old"))[0].message

    assert moved.expires_ms == 0
    assert moved.lookup("_AMQ_ACTUAL_EXPIRY") == NOW_MS + 20
    assert moved.lookup("_AMQ_ORIG_ADDRESS") == "a"
    assert moved.lookup("_AMQ_ORIG_QUEUE") == "a"


# ---- 27. Management reply addresses may carry prefixes; ordinary addresses may not.


@pytest.mark.parametrize("prefix", ["", "queue://", "temp-queue://"])
def test_row_27_management_reply_address_may_have_a_prefix(prefix: str) -> None:
    """artemis-model §6.1: what JMS clients put before a reply address is taken off."""
    world = World()
    world.address("replies", ANYCAST)
    world.queue("replies", "replies")
    facts = BrokerFacts(version="1", node_id="n", started_steady_ms=0, acceptors=list, disk_usage=lambda: -1.0)
    world.services.sessions.register_endpoint("activemq.management", ManagementEndpoint(world.services, facts))
    properties = {"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "getAddressNames"}
    request = MessageView(reply_to=f"{prefix}replies", properties=dict(properties), body="[]")
    world.session.producer("activemq.management").send(plain_message("activemq.management", request))

    assert world.domain.queue("replies").message_count == 1


def test_row_27_ordinary_address_keeps_its_prefix() -> None:
    """artemis-model §1.6: there are no default prefixes; `queue://` is part of the name."""
    world = World()
    world.send("queue://a", routing_type=ANYCAST)

    assert "queue://a" in world.domain.addresses
    assert "a" not in world.domain.addresses


# ---- 29. Security: FQQN exact match first, address match next, nothing inherited.


def test_row_29_exact_queue_match_comes_first() -> None:
    """artemis-model §1.5: an exact match of `a::q` takes precedence for that queue."""
    rules = AccessRules(
        {
            "a": {Permission.CONSUME: frozenset(("everybody",)), Permission.SEND: frozenset(("everybody",))},
            "a::q": {Permission.CONSUME: frozenset(("chosen",))},
        },
        BrokerSettings(),
    )
    chosen, other = Subject("c", frozenset(("chosen",))), Subject("o", frozenset(("everybody",)))

    assert rules.allows(chosen, Permission.CONSUME, "a", "q")
    assert not rules.allows(other, Permission.CONSUME, "a", "q")
    assert rules.allows(other, Permission.CONSUME, "a", "another")
    assert not rules.allows(chosen, Permission.CONSUME, "a", "another")
    assert not rules.allows(other, Permission.SEND, "a", "q")
    assert rules.allows(other, Permission.SEND, "a")


def test_row_29_wildcards_do_not_cross_the_separator() -> None:
    """artemis-model §1.5: no wildcards across `::`: the address part decides."""
    rules = AccessRules({"a.*": {Permission.CONSUME: frozenset(("r",))}}, BrokerSettings())

    assert rules.allows(Subject("u", frozenset(("r",))), Permission.CONSUME, "a.b", "q.with.many.words")


def test_row_29_what_no_rule_grants_is_denied() -> None:
    """artemis-model §1.8: and the session says so for every operation."""
    world = World(access=AccessRules({"a": {Permission.SEND: frozenset(("r",))}}, BrokerSettings()))
    world.address("a", ANYCAST)
    world.queue("q", "a")
    writer = world.login("writer", "r")
    writer.producer("a::q").send(plain_message("a", MessageView(body="m")))
    with pytest.raises(NotAuthorized):
        world.consume("q", session=writer)
    with pytest.raises(NotAuthorized):
        writer.producer("b")
    with pytest.raises(NotAuthorized):
        writer.delete_queue("q")

    assert world.bodies("q") == ["m"]


# ---- 30. Duplicate id: duplicates look successful to the sender.


def test_row_30_duplicates_look_successful_to_the_sender() -> None:
    """artemis-model §3.13: no error, and not routed."""
    world = World()
    world.address("a", ANYCAST)
    world.queue("q", "a")
    producer = world.session.producer("a")
    for body in ("1", "again"):
        producer.send(plain_message("a", MessageView(body=body)), None, duplicate_id("id"))

    assert world.bodies("q") == ["1"]


# ---- Neighbours of the rows: the rest of the matrix artemis-model §9.3 that belongs to this issue and is easily missed
# too.


def test_capability_of_a_receiver_never_widens() -> None:
    """artemis-model §1.4, asymmetry: creating a queue of a type the address lacks is refused."""
    world = World()
    world.address("a", MULTICAST)
    with pytest.raises(RoutingTypeMismatch):
        world.queue("q", "a", ANYCAST)


def test_disabled_queue_is_passed_over_silently() -> None:
    """artemis-model §2.3: not added, no error."""
    world = World()
    world.address("a", ANYCAST)
    world.queue("q", "a", enabled=False)
    world.send("a")

    assert world.domain.queue("q").message_count == 0


def test_purge_on_no_consumers_keeps_nothing() -> None:
    """artemis-model §2.3: neither before the first consumer nor after the last."""
    world = World()
    world.address("a", ANYCAST)
    world.queue("q", "a", purge_on_no_consumers=True)
    world.send("a", "early")
    inbox = world.consume("q", credit=1)
    world.send("a", "1")
    world.send("a", "2")
    got = inbox.bodies
    world.leave(inbox)

    assert got == ["1"]
    assert world.domain.queue("q").message_count == 0


def test_consumers_before_dispatch_hold_messages() -> None:
    """artemis-model §2.3: until n consumers are there; reset when none is left."""
    world = World()
    world.address("a", ANYCAST)
    world.queue("q", "a", consumers_before_dispatch=2)
    world.send("a", "1")
    first = world.consume("q")
    alone = list(first.bodies)
    second = world.consume("q")
    together = first.bodies + second.bodies

    assert alone == []
    assert together == ["1"]


def test_delay_before_dispatch_ends_the_wait() -> None:
    """artemis-model §2.3: or after the delay since the first consumer."""
    world = World()
    world.address("a", ANYCAST)
    world.queue("q", "a", consumers_before_dispatch=2, delay_before_dispatch_ms=1000)
    world.send("a", "1")
    inbox = world.consume("q")
    before = list(inbox.bodies)
    world.pass_time(1000)

    assert before == []
    assert inbox.bodies == ["1"]


def test_redelivery_delay_grows_and_is_capped() -> None:
    """artemis-model §3.10: delay times multiplier^(n-1), at most max-redelivery-delay."""
    settings = AddressSettings(
        default_address_routing_type=ANYCAST,
        redelivery_delay=100,
        redelivery_delay_multiplier=2.0,
        max_redelivery_delay=300,
        max_delivery_attempts=-1,
    )
    world = World({"a": settings})
    world.send("a")
    inbox = world.consume("a")
    for delay in (100, 200, 300, 300):
        inbox.fail()
        world.pass_time(delay - 1)
        assert inbox.bodies == []
        world.pass_time(1)
        assert inbox.bodies == ["m"]


def test_unroutable_message_goes_to_the_dead_letter_address_when_told_to() -> None:
    """artemis-model §1.2 step 6, and the counter."""
    world = World({"a": AddressSettings(send_to_dla_on_no_route=True, dead_letter_address="dead")})
    world.address("dead", ANYCAST)
    world.queue("dead", "dead")
    world.address("a", MULTICAST)
    world.send("a")

    assert world.bodies("dead") == ["m"]
    assert world.domain.address("a").unrouted == 1
