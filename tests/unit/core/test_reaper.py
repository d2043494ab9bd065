"""What goes because nobody uses it, and what that means (reference §2.4)."""

from artemis_py.core.message import RoutingType
from artemis_py.core.postoffice import PostOffice
from artemis_py.core.reaper import Reaper
from artemis_py.core.settings import AddressSettings
from tests.core_harness import make_office, make_queue, make_session, send

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


def turns_of(office: PostOffice) -> int:
    """How many turns of the loop the work takes that is under way."""
    turns = 0
    while office.hub.slices.has_work:
        office.run()
        turns += 1
    return turns


def reap(reaper: Reaper, office: PostOffice, passes: int = 2) -> None:
    """Passes from beginning to end."""
    for _ in range(passes):
        reaper.reap()
        turns_of(office)


def test_a_pass_over_many_addresses_is_spread_over_turns() -> None:
    """50,000 at a time would stop the loop for a second: no turn deletes more than some."""
    office = make_office({"#": SHIPPED})
    for name in names(1000):
        office.create_address(name, frozenset((MULTICAST,)), auto_created=True)
    office.now_ms += 1000
    reaper = Reaper(office)
    reap(reaper, office, passes=1)

    reaper.reap()
    left = [len(office.addresses)]
    while office.hub.slices.has_work:
        office.run()
        left.append(len(office.addresses))

    assert left[-1] == 0
    assert max(before - after for before, after in zip([1000, *left], left, strict=False)) <= 20


def test_a_pass_over_many_queues_is_spread_over_turns() -> None:
    office = make_office({"#": SHIPPED})
    for name in names(1000):
        make_queue(office, name, auto_created=True)
    office.now_ms += 1000
    reaper = Reaper(office)

    reaper.reap()
    first = turns_of(office)
    reaper.reap()
    second = turns_of(office)

    assert 3 <= first <= 5
    assert second >= 50
    assert office.queues == {}


def test_no_pass_begins_before_the_last_has_ended() -> None:
    """Two passes have to agree, and one that is under way is not two."""
    office = make_office({"#": SHIPPED})
    for name in names(1000):
        office.create_address(name, frozenset((MULTICAST,)), auto_created=True)
    office.now_ms += 1000
    reaper = Reaper(office)

    for _ in range(10):
        reaper.reap()

    assert turns_of(office) <= 2
    assert len(office.addresses) == 1000


def test_what_is_used_while_a_pass_is_under_way_stays() -> None:
    """Each slice decides by what is true then."""
    office = make_office({"#": SHIPPED})
    for name in names(1000):
        office.create_address(name, frozenset((MULTICAST,)), auto_created=True)
    office.now_ms += 1000
    reaper = Reaper(office)
    reap(reaper, office, passes=1)

    reaper.reap()
    make_queue(office, "q", MULTICAST, address="t999")
    turns_of(office)

    assert list(office.addresses) == ["t999"]


def test_a_search_for_expired_messages_is_spread_over_turns() -> None:
    """200,000 queues would take a tenth of a second, every thirty."""
    office = make_office()
    for name in names(2000):
        make_queue(office, name)

    Reaper(office).expire_messages()

    assert turns_of(office) >= 3


def test_an_expired_message_is_found_in_a_later_slice() -> None:
    office = make_office({"#": AddressSettings(expiry_address="late")})
    late = make_queue(office, "late")
    for name in names(1000):
        make_queue(office, name)
    send(office, "t999", "m")
    waiting = office.queues["t999"].backlog.head()
    assert waiting is not None
    waiting.message.expires_ms = office.now_ms + 1
    office.queues["t999"].note_expiry(office.now_ms + 1)
    office.now_ms += 1

    Reaper(office).expire_messages()
    turns_of(office)

    assert late.message_count == 1


def test_a_session_that_reaps_nothing_leaves_no_work_behind() -> None:
    office = make_office({"#": SHIPPED})
    make_session(office).producer("a", ANYCAST)

    Reaper(office).reap()

    assert not office.hub.slices.has_work
