"""Duplicate detection (artemis-model §3.13, artemis-model §9.2 row 30)."""

from uuid import UUID

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, REJECTED
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.duplicates import ID_BYTES, LONGEST_KEPT, duplicate_id, readable
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.events import Duplicate, Event
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.errors import AddressFull, TransactionRolledBack
from tests.core_harness import attach, browse_all, make_domain, make_message, make_queue, make_session, settle_down

ONE = duplicate_id("one")
TWO = duplicate_id("two")


class Told:
    """Remembers what it is told of duplicates."""

    def __init__(self) -> None:
        self.duplicates: list[tuple[str, str]] = []

    def __call__(self, event: Event) -> None:
        assert isinstance(event, Duplicate)
        self.duplicates.append((event.address, event.id))


class World:
    """An address with one queue, and a producer for it."""

    def __init__(self, settings: AddressSettings | None = None, options: BrokerSettings | None = None) -> None:
        self.told = Told()
        self.domain: Domain = make_domain({} if settings is None else {"q": settings}, options)
        self.domain.events.subscribe(self.told, Duplicate)
        self.queue = make_queue(self.domain)
        self.session: Session = make_session(self.domain)
        self.producer: Producer = self.session.producer("q")

    def send(self, body: str, id: bytes, transaction: Transaction | None = None) -> int:
        return self.producer.send(make_message(body), transaction, id)

    @property
    def bodies(self) -> list[str]:
        return [reference.message.data.decode() for reference in browse_all(self.queue)]


# -- ids -------------------------------------------------------------------------------------------------------


def test_text_and_octets_are_different_ids() -> None:
    """A false duplicate would lose a message."""
    assert duplicate_id("abc") != duplicate_id(b"abc")


@pytest.mark.parametrize("value", [UUID(int=7), 12345])
def test_uuids_and_numbers_are_their_text(value: object) -> None:
    assert duplicate_id(value) == duplicate_id(str(value))


@pytest.mark.parametrize("value", [None, "", b"", 1.5, [], {}])
def test_what_is_no_id_protects_nothing(value: object) -> None:
    assert duplicate_id(value) == b""


def test_long_ids_are_told_apart_and_kept_short() -> None:
    """What a client can make the broker keep is bounded."""
    values: list[object] = ["x" * 10_000 + "1", "x" * 10_000 + "2", b"x" * 10_000 + b"1", "x" * 65, "x" * 64]
    ids = [duplicate_id(value) for value in values]

    assert len(set(ids)) == len(values)
    assert max(len(id) for id in ids) <= LONGEST_KEPT + 1


@pytest.mark.parametrize(
    ("value", "text"), [("order-1", "'order-1'"), ("a\nb", r"'a\nb'"), ("ü", r"'\xfc'"), (b"\x00\xff", "0x00ff")]
)
def test_ids_can_be_read_in_the_log(value: object, text: str) -> None:
    """One line of ASCII, whatever the client chose."""
    assert readable(duplicate_id(value)) == text


def test_a_long_id_is_logged_as_its_digest() -> None:
    assert readable(duplicate_id("x" * 100)).startswith("sha256:")


# -- routing ---------------------------------------------------------------------------------------------------


def test_a_duplicate_is_not_routed_and_its_sender_need_not_know() -> None:
    """artemis-model §3.13: WARN, not routed, success to the sender."""
    world = World()
    first = world.send("1", ONE)

    second = world.send("again", ONE)

    assert (first, second) == (1, 0)
    assert world.bodies == ["1"]
    assert world.told.duplicates == [("q", "'one'")]


def test_ids_are_remembered_after_the_message_was_consumed() -> None:
    """The cache is of the address, not of what waits."""
    world = World()
    world.send("1", ONE)
    recorder, consumer = attach(world.domain, world.queue)
    settle_down(world.domain)
    consumer.settle(recorder.take()[0], ACCEPTED)

    world.send("again", ONE)

    assert world.bodies == []


def test_each_address_has_its_own_ids() -> None:
    """artemis-model §3.13: one cache per address."""
    world = World()
    world.send("1", ONE)
    other = make_queue(world.domain, "other")

    world.session.producer("other").send(make_message("1"), None, ONE)

    assert other.message_count == 1


def test_a_new_address_of_the_same_name_remembers_nothing() -> None:
    world = World()
    world.send("1", ONE)
    world.domain.delete_address("q", force=True)
    world.queue = make_queue(world.domain)

    world.send("new", ONE)

    assert world.bodies == ["new"]


def test_an_id_counts_although_no_queue_wanted_the_message() -> None:
    """The address took it; what it did with it is its business."""
    domain = make_domain()
    domain.create_address("a", frozenset((RoutingType.MULTICAST,)))
    producer = make_session(domain).producer("a")
    producer.send(make_message("1"), None, ONE)
    late = make_queue(domain, "late", RoutingType.MULTICAST, address="a")

    producer.send(make_message("again"), None, ONE)

    assert late.message_count == 0


def test_an_id_does_not_count_if_the_message_was_refused() -> None:
    """The sender will try again, and must succeed then."""
    world = World(AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.FAIL))
    world.send("1", ONE)
    with pytest.raises(AddressFull):
        world.send("2", TWO)
    world.queue.purge()

    world.send("2", TWO)

    assert world.bodies == ["2"]


def test_a_duplicate_for_a_full_address_is_no_failure() -> None:
    """Its message is there: a refusal would have the sender repeat it until there is room."""
    world = World(AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.FAIL))
    world.send("1", ONE)

    assert world.send("again", ONE) == 0


def test_dead_letters_do_not_meet_the_ids() -> None:
    """artemis-model §3.13: moves do not reject, also if the dead-letter address took the same id before."""
    domain = make_domain({"q": AddressSettings(dead_letter_address="DLQ")})
    queue, dead = make_queue(domain), make_queue(domain, "DLQ")
    session = make_session(domain)
    session.producer("DLQ").send(make_message("sent there"), None, ONE)
    session.producer("q").send(make_message("moved"), None, ONE)
    recorder, consumer = attach(domain, queue)
    settle_down(domain)

    consumer.settle(recorder.take()[0], REJECTED)
    settle_down(domain)

    assert dead.message_count == 2


# -- size ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (AddressSettings(id_cache_size=2), BrokerSettings()),
        (None, BrokerSettings(id_cache_size=2)),
        (AddressSettings(id_cache_size=2), BrokerSettings(id_cache_size=50)),
        (AddressSettings(id_cache_size=-1), BrokerSettings(id_cache_size=2)),
    ],
)
def test_the_oldest_id_gives_way(settings: AddressSettings | None, options: BrokerSettings) -> None:
    """artemis-model §3.13: a circular cache of `id-cache-size`; the address' setting beats the broker's."""
    world = World(settings, options)
    for number in range(3):
        world.send(str(number), duplicate_id(str(number)))

    world.send("0 again", duplicate_id("0"))
    world.send("2 again", duplicate_id("2"))

    assert world.bodies == ["0", "1", "2", "0 again"]


def test_a_duplicate_does_not_make_its_id_younger() -> None:
    """Circular, not least recently used."""
    world = World(AddressSettings(id_cache_size=2))
    world.send("1", ONE)
    world.send("2", TWO)
    world.send("1 again", ONE)
    world.send("3", duplicate_id("three"))

    world.send("1 again", ONE)

    assert world.bodies == ["1", "2", "3", "1 again"]


def test_size_0_detects_nothing() -> None:
    world = World(AddressSettings(id_cache_size=0))

    assert [world.send("m", ONE) for _ in range(3)] == [1, 1, 1]


def test_a_smaller_size_holds_from_the_next_id_on() -> None:
    world = World(AddressSettings(id_cache_size=10))
    for number in range(10):
        world.send("m", duplicate_id(number))
    world.domain.settings.put("q", AddressSettings(id_cache_size=2))

    world.send("m", ONE)

    assert len(world.domain.duplicates.of(world.domain.address("q"))) == 2


# -- transactions ----------------------------------------------------------------------------------------------


def test_a_duplicate_makes_its_transaction_rollback_only() -> None:
    """artemis-model §3.13: one id in a transaction protects all of it."""
    world = World()
    for attempt in ("first", "second"):
        transaction = world.session.begin()
        world.send(f"{attempt} with id", ONE, transaction)
        world.send(f"{attempt} without", b"", transaction)
        if attempt == "first":
            world.session.commit(transaction)
        else:
            with pytest.raises(TransactionRolledBack, match="same id"):
                world.session.commit(transaction)

    assert world.bodies == ["first with id", "first without"]
    assert world.told.duplicates == [("q", "'one'")]


def test_the_same_id_twice_in_a_transaction_fails_it() -> None:
    world = World()
    transaction = world.session.begin()
    world.send("1", ONE, transaction)
    world.send("2", ONE, transaction)

    with pytest.raises(TransactionRolledBack, match="same id"):
        world.session.commit(transaction)

    assert world.bodies == []
    assert world.send("3", ONE) == 1


def test_a_rolled_back_transaction_leaves_no_ids() -> None:
    """artemis-model §3.13: its messages were never taken."""
    world = World()
    transaction = world.session.begin()
    world.send("lost", ONE, transaction)
    world.session.rollback(transaction)

    world.send("kept", ONE)

    assert world.bodies == ["kept"]


def test_whoever_commits_first_has_the_id() -> None:
    """An open transaction may yet be rolled back, so it drops nobody else's message; one of both fails."""
    world = World()
    slow, fast = world.session.begin(), world.session.begin()
    world.send("slow", ONE, slow)
    world.send("fast", ONE, fast)
    world.session.commit(fast)

    with pytest.raises(TransactionRolledBack, match="in the meantime"):
        world.session.commit(slow)

    assert world.bodies == ["fast"]
    assert world.told.duplicates == [("q", "'one'")]


def test_an_address_deleted_before_the_commit_is_no_obstacle() -> None:
    world = World()
    transaction = world.session.begin()
    world.send("lost with its queue", ONE, transaction)
    world.domain.delete_address("q", force=True)
    world.session.commit(transaction)
    world.queue = make_queue(world.domain)

    world.send("new", ONE)

    assert world.bodies == ["new"]


def test_ids_are_counted_until_they_give_way_or_their_address_goes() -> None:
    """Each address may remember 20,000 of them."""
    world = World(AddressSettings(id_cache_size=3))
    account = world.domain.account
    for number in range(5):
        world.send("m", duplicate_id(f"id{number}"))
    world.queue.purge()
    settle_down(world.domain)
    remembered = account.size_bytes
    world.domain.delete_address("q", force=True)

    assert remembered == 3 * ID_BYTES
    assert account.size_bytes == 0
