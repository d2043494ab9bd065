"""What `disk-full-policy` does to producers while the disk is nearly full; consumers go on."""

import pytest

from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.address_settings import AddressSettings, DiskFullPolicy, FullPolicy
from artemis_py.errors import AddressFull
from tests.core_harness import attach, make_office, make_queue, send


def office_with(policy: DiskFullPolicy | None = None, **settings: object) -> Domain:
    """One queue `q` with a message in it."""
    office = make_office({"q": AddressSettings(disk_full_policy=policy, **settings)})
    make_queue(office)
    send(office, "q", "before")
    return office


@pytest.mark.parametrize("full_policy", FullPolicy)
def test_producers_get_no_more_credit_whatever_the_policy_for_memory(full_policy: FullPolicy) -> None:
    """The default is BLOCK; what is out is honoured."""
    office = office_with(address_full_policy=full_policy)
    address = office.addresses["q"]

    office.dispatcher.disk_changed(is_full=True, is_exhausted=False)
    send(office, "q", "on credit")

    assert address.must_wait
    assert office.queues["q"].message_count == 2


def test_producers_that_wait_are_told_when_there_is_room() -> None:
    """Once, and not by a consumer that makes room in memory meanwhile."""
    office = office_with()
    told: list[bool] = []
    office.dispatcher.disk_changed(is_full=True, is_exhausted=False)
    office.addresses["q"].when_room(lambda: told.append(office.addresses["q"].must_wait))
    recorder, consumer = attach(office, office.queues["q"])
    consumer.settle(recorder.take()[0], ACCEPTED)
    told_too_early = list(told)
    office.dispatcher.disk_changed(is_full=False, is_exhausted=False)
    send(office, "q", "after")

    assert told_too_early == []
    assert told == [False]
    assert recorder.bodies() == ["after"]


def test_messages_are_refused_when_little_is_left() -> None:
    """Whatever the policy: those who have credit would fill what consumers need."""
    office = office_with()
    office.dispatcher.disk_changed(is_full=True, is_exhausted=True)

    with pytest.raises(AddressFull, match="the broker's disk is nearly full"):
        send(office, "q", "too much")
    assert office.queues["q"].message_count == 1


def test_drop_discards_and_gives_credit() -> None:
    """`disk-full-policy` DROP."""
    office = office_with(DiskFullPolicy.DROP)
    office.dispatcher.disk_changed(is_full=True, is_exhausted=True)
    send(office, "q", "dropped")

    assert not office.addresses["q"].must_wait
    assert office.queues["q"].message_count == 1


def test_fail_refuses_and_gives_credit() -> None:
    """`disk-full-policy` FAIL."""
    office = office_with(DiskFullPolicy.FAIL)
    office.dispatcher.disk_changed(is_full=True, is_exhausted=False)

    assert not office.addresses["q"].must_wait
    with pytest.raises(AddressFull, match="nearly full"):
        send(office, "q", "refused")


def test_limits_of_memory_count_beside_it() -> None:
    """A full address stays full when the disk has room again."""
    office = office_with(max_size_messages=1, address_full_policy=FullPolicy.BLOCK)
    office.dispatcher.disk_changed(is_full=True, is_exhausted=False)
    office.dispatcher.disk_changed(is_full=False, is_exhausted=False)

    assert office.addresses["q"].must_wait


def test_internal_addresses_go_on() -> None:
    """The broker's own messages are few, and some of them make room."""
    office = office_with()
    office.create_address("own", office.addresses["q"].routing_types, internal=True)
    make_queue(office, "own")
    office.dispatcher.disk_changed(is_full=True, is_exhausted=True)
    send(office, "own", "taken")

    assert not office.addresses["own"].must_wait
    assert office.queues["own"].message_count == 1
