"""What `disk-full-policy` does to producers while the disk is nearly full; consumers go on."""

import pytest

from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.address_settings import AddressSettings, DiskFullPolicy, FullPolicy
from artemis_py.errors import AddressFull
from tests.core_harness import attach, make_domain, make_queue, send


def domain_with(policy: DiskFullPolicy | None = None, **settings: object) -> Domain:
    """One queue `q` with a message in it."""
    domain = make_domain({"q": AddressSettings(disk_full_policy=policy, **settings)})
    make_queue(domain)
    send(domain, "q", "before")
    return domain


@pytest.mark.parametrize("full_policy", FullPolicy)
def test_producers_get_no_more_credit_whatever_the_policy_for_memory(full_policy: FullPolicy) -> None:
    """The default is BLOCK; what is out is honoured."""
    domain = domain_with(address_full_policy=full_policy)
    address = domain.addresses["q"]

    domain.dispatcher.disk_changed(is_full=True, is_exhausted=False)
    send(domain, "q", "on credit")

    assert address.must_wait
    assert domain.queues["q"].message_count == 2


def test_producers_that_wait_are_told_when_there_is_room() -> None:
    """Once, and not by a consumer that makes room in memory meanwhile."""
    domain = domain_with()
    told: list[bool] = []
    domain.dispatcher.disk_changed(is_full=True, is_exhausted=False)
    domain.addresses["q"].when_room(lambda: told.append(domain.addresses["q"].must_wait))
    recorder, consumer = attach(domain, domain.queues["q"])
    consumer.settle(recorder.take()[0], ACCEPTED)
    told_too_early = list(told)
    domain.dispatcher.disk_changed(is_full=False, is_exhausted=False)
    send(domain, "q", "after")

    assert told_too_early == []
    assert told == [False]
    assert recorder.bodies() == ["after"]


def test_messages_are_refused_when_little_is_left() -> None:
    """Whatever the policy: those who have credit would fill what consumers need."""
    domain = domain_with()
    domain.dispatcher.disk_changed(is_full=True, is_exhausted=True)

    with pytest.raises(AddressFull, match="the broker's disk is nearly full"):
        send(domain, "q", "too much")
    assert domain.queues["q"].message_count == 1


def test_drop_discards_and_gives_credit() -> None:
    """`disk-full-policy` DROP."""
    domain = domain_with(DiskFullPolicy.DROP)
    domain.dispatcher.disk_changed(is_full=True, is_exhausted=True)
    send(domain, "q", "dropped")

    assert not domain.addresses["q"].must_wait
    assert domain.queues["q"].message_count == 1


def test_fail_refuses_and_gives_credit() -> None:
    """`disk-full-policy` FAIL."""
    domain = domain_with(DiskFullPolicy.FAIL)
    domain.dispatcher.disk_changed(is_full=True, is_exhausted=False)

    assert not domain.addresses["q"].must_wait
    with pytest.raises(AddressFull, match="nearly full"):
        send(domain, "q", "refused")


def test_limits_of_memory_count_beside_it() -> None:
    """A full address stays full when the disk has room again."""
    domain = domain_with(max_size_messages=1, address_full_policy=FullPolicy.BLOCK)
    domain.dispatcher.disk_changed(is_full=True, is_exhausted=False)
    domain.dispatcher.disk_changed(is_full=False, is_exhausted=False)

    assert domain.addresses["q"].must_wait


def test_internal_addresses_go_on() -> None:
    """The broker's own messages are few, and some of them make room."""
    domain = domain_with()
    domain.create_address("own", domain.addresses["q"].routing_types, internal=True)
    make_queue(domain, "own")
    domain.dispatcher.disk_changed(is_full=True, is_exhausted=True)
    send(domain, "own", "taken")

    assert not domain.addresses["own"].must_wait
    assert domain.queues["own"].message_count == 1
