"""How many connections and queues one user may have (artemis-model §6.5: `resource-limit-settings`)."""

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.runtime.events import Event, LimitReached
from artemis_py.core.runtime.user_limits import UserLimits
from artemis_py.core.services.virtual_hosts import VirtualHosts
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.core.sessions.subscriptions import SubscriptionSpec
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.core.settings.virtual_host_config import VirtualHostConfig
from artemis_py.errors import LimitExceeded
from tests.core_harness import make_domain, make_hosts, make_queue, make_services, settle_down

ANYCAST, MULTICAST = RoutingType.ANYCAST, RoutingType.MULTICAST
ANN = Subject("ann")


def limited(max_connections: int = -1, max_queues: int = -1) -> Domain:
    """A domain in which ann has these limits, and nobody else."""
    domain = make_domain()
    domain.dispatcher.users.max_connections = {"ann": max_connections}
    domain.dispatcher.users.max_queues = {"ann": max_queues}
    return domain


def users(domain: Domain) -> UserLimits:
    """The counts."""
    return domain.dispatcher.users


class _NobodyManages:
    """Access control that lets everybody do everything but manage."""

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return permission is not Permission.MANAGE


# --- connections ---


def test_more_connections_than_a_user_may_have_are_refused() -> None:
    """Others, and those without a user, are not concerned; one that ends makes room."""
    sessions = Sessions(limited(max_connections=2))
    first, _ = sessions.open(ANN), sessions.open(ANN)

    with pytest.raises(LimitExceeded) as refusal:
        sessions.open(ANN)
    assert str(refusal.value) == "user 'ann' has 2 connections; its max-connections is 2"
    for other in ("bob", "Ann", "", None):
        sessions.open(Subject(other))

    first.close()
    first.close()
    sessions.open(ANN)
    assert users(sessions.domain).connections("ann") == 2


def test_no_connection_at_all() -> None:
    with pytest.raises(LimitExceeded):
        Sessions(limited(max_connections=0)).open(ANN)


def test_connections_count_in_all_virtual_hosts() -> None:
    hosts: VirtualHosts = make_hosts(make_services(limited(max_connections=1)))
    red = hosts.create(VirtualHostConfig(name="red")).services.sessions
    red.open(ANN)

    with pytest.raises(LimitExceeded):
        hosts.domains.default.sessions.open(ANN)


def test_an_earlier_connection_of_the_same_client_makes_room() -> None:
    """Its client has lost it, and the broker does not know yet; one of another user does not count here."""
    sessions = Sessions(limited(max_connections=1))
    mine, others = sessions.open(ANN), sessions.open(Subject("bob"))
    sessions.check_entry(ANN, replaced=mine)

    with pytest.raises(LimitExceeded):
        sessions.check_entry(ANN, replaced=others)
    mine.close()
    sessions.open(ANN)
    with pytest.raises(LimitExceeded):
        sessions.check_entry(ANN, replaced=mine)


def test_who_operates_the_broker_is_let_in_and_not_counted() -> None:
    """Others may claim to."""
    sessions = Sessions(limited(max_connections=1))
    sessions.open(ANN)
    sessions.open(ANN, is_operator=True).close()
    assert users(sessions.domain).connections("ann") == 1

    sessions.domain.access = _NobodyManages()
    with pytest.raises(LimitExceeded):
        sessions.open(ANN, is_operator=True)


def test_what_is_done_for_an_absent_client_is_no_connection() -> None:
    """Its will is published, for example."""
    sessions = Sessions(limited(max_connections=0))

    sessions.open_for_absent(ANN, "c", "will", "MQTT").close()


def test_a_limit_that_comes_later_counts_what_is_there() -> None:
    sessions = Sessions(limited())
    sessions.open(ANN)
    users(sessions.domain).max_connections = {"ann": 1}

    with pytest.raises(LimitExceeded):
        sessions.open(ANN)


# --- queues ---


def session_of(domain: Domain, user: str | None = "ann") -> Session:
    """A client."""
    return Session(domain, Subject(user), "client", "test")


def subscribe(session: Session) -> None:
    session.subscribe(SubscriptionSpec("news", ["subscription"], durable=True, user="ann"))


def subscribe_briefly(session: Session) -> None:
    session.subscribe(SubscriptionSpec("news"))


def make_temporary(session: Session) -> None:
    session.create_temporary_queue(ANYCAST)


def make_node(session: Session) -> None:
    session.create_node(ANYCAST)


def send(session: Session) -> None:
    session.producer("orders", ANYCAST)


def consume(session: Session) -> None:
    session.queue_to_consume("orders")


def create(session: Session) -> None:
    session.create_queue(QueueConfig(name="made", address="there"))


WAYS = [subscribe, subscribe_briefly, make_temporary, make_node, send, consume, create]


@pytest.mark.parametrize("way", WAYS)
def test_a_queue_counts_for_the_user_whose_client_creates_it(way: object) -> None:
    """However it is created; when it is deleted, it no longer counts."""
    domain = limited(max_queues=1)
    domain.create_address("there", frozenset(RoutingType))
    session = session_of(domain)
    way(session)  # type: ignore[operator]

    assert users(domain).queues("ann") == 1
    for name in list(domain.queues):
        domain.delete_queue(name, force=True)
    assert users(domain).queues("ann") == 0


@pytest.mark.parametrize("way", WAYS)
def test_one_queue_more_is_refused_and_nothing_is_left_of_it(way: object) -> None:
    """The operator is told, too."""
    domain = limited(max_queues=0)
    domain.create_address("there", frozenset(RoutingType))
    told: list[Event] = []
    domain.events.subscribe(told.append, LimitReached)

    with pytest.raises(LimitExceeded) as refusal:
        way(session_of(domain))  # type: ignore[operator]

    assert str(refusal.value) == "user 'ann' has created 0 queues; its max-queues is 0"
    assert told == [LimitReached(str(refusal.value), "test")]
    assert (list(domain.addresses), list(domain.queues)) == (["there"], [])
    way(session_of(domain, "bob"))  # type: ignore[operator]
    settle_down(domain)


def test_topics_are_no_queues() -> None:
    domain = limited(max_queues=0)

    session_of(domain).producer("news", MULTICAST)


def test_what_no_client_has_created_counts_for_nobody() -> None:
    domain = limited(max_queues=1)
    make_queue(domain, "declared", user="ann")

    assert users(domain).queues("ann") == 0
    assert users(domain).queues(None) == 0


def test_subscriptions_are_not_on_demand() -> None:
    """They count for `max-queues` only, as before."""
    domain = limited()
    domain.create_address("news", frozenset([MULTICAST]))
    subscribe(session_of(domain))

    assert domain.creations.count("ann") == 0
    assert users(domain).queues("ann") == 1
