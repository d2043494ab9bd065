"""How many addresses and queues one user may have created on demand."""

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.runtime.events import Event, LimitReached
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import LimitExceeded, NotAuthorized
from tests.core_harness import make_domain

ANYCAST, MULTICAST = RoutingType.ANYCAST, RoutingType.MULTICAST


class Heard:
    """Keeps what was said of limits."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __call__(self, event: Event) -> None:
        assert isinstance(event, LimitReached)
        self.lines.append((event.text, event.peer))


def limited(limit: int, listener: Heard | None = None) -> Domain:
    """A domain whose users may have so many."""
    domain = make_domain()
    if listener is not None:
        domain.events.subscribe(listener, LimitReached)
    domain.creations.limit = limit
    return domain


def session_of(domain: Domain, user: str | None = "anna") -> Session:
    """One of a user's clients."""
    return Session(domain, Subject(user), "client", "192.0.2.1:5")


def test_topics_and_queues_count_for_their_user_and_no_other() -> None:
    """An anycast destination is an address and a queue; all clients of a user count together."""
    domain = limited(4)
    session_of(domain).producer("topic", MULTICAST)
    session_of(domain).producer("queue", ANYCAST)
    session_of(domain, "bert").producer("other", ANYCAST)
    session_of(domain, None).producer("nobody", MULTICAST)

    assert [domain.creations.count(user) for user in ("anna", "bert", "")] == [3, 2, 1]


def test_the_next_one_is_refused_with_user_number_and_limit() -> None:
    """The client is told, and so is the operator."""
    heard = Heard()
    domain = limited(2, heard)
    session = session_of(domain)
    for name in ("one", "two"):
        session.producer(name, MULTICAST)

    with pytest.raises(LimitExceeded) as refusal:
        session.producer("three", MULTICAST)

    expected = "user 'anna' has 2 addresses and queues that were created on demand; max-auto-created-per-user allows 2"
    assert str(refusal.value) == expected
    assert heard.lines == [(expected, "192.0.2.1:5")]
    assert "three" not in domain.addresses
    session.producer("one", MULTICAST)


def test_no_address_is_left_over_for_want_of_its_queue() -> None:
    """There is room for one of the two only."""
    domain = limited(1)

    with pytest.raises(LimitExceeded):
        session_of(domain).producer("queue", ANYCAST)

    assert domain.addresses == {}


def test_what_is_deleted_makes_room() -> None:
    """By whomever it is deleted."""
    domain = limited(2)
    session = session_of(domain)
    session.producer("a", ANYCAST)
    domain.delete_address("a", force=True)

    session.producer("b", ANYCAST)

    assert domain.creations.count("anna") == 2


def test_what_is_created_by_name_and_what_is_temporary_does_not_count() -> None:
    """An operator needs a permission for the first; the second goes with its connection."""
    domain = limited(0)
    session = session_of(domain)
    session.create_address("a", frozenset((ANYCAST,)))
    session.create_queue(QueueConfig(name="a", address="a", routing_type=ANYCAST))
    session.create_temporary_queue(ANYCAST)

    assert domain.creations.count("anna") == 0


def test_without_a_limit_nobody_is_refused() -> None:
    domain = limited(-1)
    session = session_of(domain)
    for number in range(100):
        session.producer(f"t{number}", MULTICAST)

    assert domain.creations.count("anna") == 100


def test_a_refused_permission_counts_for_nothing() -> None:
    """Permissions come first: the text must not tell a stranger of limits."""

    class Closed:
        def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
            return permission is Permission.SEND

    domain = limited(0)
    domain.access = Closed()

    for routing_type in RoutingType:
        with pytest.raises(NotAuthorized):
            session_of(domain).producer("a", routing_type)

    assert domain.creations.count("anna") == 0
