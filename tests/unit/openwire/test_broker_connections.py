"""Logins, client ids, temporary destinations and advisories (openwire §12, §15.4, §15.5)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from artemis_openwire.engine.commands import (
    ConnectionError,
    ConsumerInfo,
    DestinationInfo,
    ExceptionResponse,
    MessageDispatch,
    ProducerInfo,
    RemoveInfo,
    Response,
    SessionInfo,
)
from artemis_openwire.engine.structures import (
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ConnectionId,
    ProducerId,
    SessionId,
)
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.protocol import ConnectionContext, LoginOutcome, LoginResult, SaslExchange
from tests.openwire_site import Client, Site, connected, queue, topic

TEMPORARY = ActiveMQTempQueue(physical_name="ID:host-1:1:1")
WATCHED = topic("ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic")


class Passwords:
    """Admits every name whose password is the name again."""

    def mechanisms(self, context: ConnectionContext) -> tuple[str, ...]:
        return ("PLAIN",)

    def begin(self, mechanism: str, context: ConnectionContext) -> SaslExchange | None:
        return None

    def login(
        self, user: str | None, password: str | None, context: ConnectionContext, done: Callable[[LoginResult], None]
    ) -> None:
        if user is not None and user == password:
            done(LoginResult(LoginOutcome.OK, Subject(user)))
        else:
            done(LoginResult(LoginOutcome.BAD_CREDENTIALS))


class Only:
    """Allows some permissions."""

    def __init__(self, *permissions: Permission) -> None:
        self._permissions = permissions

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return permission in self._permissions


def logging_in(site: Site, name: str, **parameters: str) -> Client:
    client = Client(site, name, 12, Passwords(), **parameters)
    client.negotiate()
    return client


def create(client: Client, destination: ActiveMQTempQueue | ActiveMQTempTopic = TEMPORARY) -> DestinationInfo:
    return DestinationInfo(connection_id=ConnectionId(value=client.name), destination=destination, operation_type=0)


def remove(client: Client) -> DestinationInfo:
    return DestinationInfo(connection_id=ConnectionId(value=client.name), destination=TEMPORARY, operation_type=1)


def told(client: Client) -> list[tuple[str, str]]:
    """Topics and subjects of advisories."""
    return [
        ((one.destination.physical_name or "").rpartition("Advisory.")[2], type(one.message.data_structure).__name__)
        for one in client.received()
        if isinstance(one, MessageDispatch) and one.message and one.destination
    ]


# -- login ---------------------------------------------------------------------------------------------------------


def test_a_wrong_password_is_refused() -> None:
    client = logging_in(Site(), "c1")

    assert client.refused(client.info(user_name="alice", password="wrong")) == "SecurityException"
    assert not client.handler.logged_in


def test_a_client_that_has_only_negotiated_has_not_logged_in() -> None:
    """Otherwise anybody could keep a connection open without a password."""
    client = logging_in(Site(), "c1")
    before = client.handler.logged_in
    client.done(client.info(user_name="alice", password="alice"))

    assert (before, client.handler.logged_in) == (False, True)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({"client_id": None}, "InvalidClientIDException"), ({"connection_id": None}, "IllegalStateException")],
    ids=["client id", "connection id"],
)
def test_names_are_needed(fields: dict[str, object], expected: str) -> None:
    client = Client(Site())
    client.negotiate()

    assert client.refused(client.info(**fields)) == expected


def test_a_client_id_in_use_is_refused() -> None:
    site = Site()
    first = connected(site)
    second = Client(site, "c2")
    second.negotiate()

    assert second.refused(second.info(client_id="client c1")) == "InvalidClientIDException"
    first.lose()
    connected(site, "c3").handler.connection_lost()
    assert connected(site, "c1").handler.logged_in


def test_a_client_that_reconnects_replaces_its_old_connection() -> None:
    """openwire §12.1: the old socket may be half dead. What it had is delivered again."""
    site = Site()
    old = connected(site)
    old.consume(queue("q"))
    old.send(queue("q"), "m")
    old.dispatches()
    new = Client(site, "c1").log_in(failover_reconnect=True)
    new.consume(queue("q"))

    assert old.handler.closed
    assert [one.redelivery_counter for one in new.dispatches()] == [1]


def test_a_client_that_reconnects_waits_until_its_names_are_free() -> None:
    """What it had may be so much that it is given back in slices; it declares the same things again at once."""
    site = Site()
    old = connected(site)
    old.consume(queue("q"), prefetch=1000)
    for _ in range(600):
        old.tell(old.text(queue("q"), persistent=False))
    old.dispatches()
    old.consume(topic("t"), value=2, subscription_name="sub")
    old.done(create(old))
    new = Client(site, "c1")
    new.negotiate()
    new.tell(new.info(failover_reconnect=True), answered=True)
    at_once = new.handler.logged_in
    new.received()
    new.done(create(new))
    new.done(SessionInfo(session_id=SessionId(connection_id="c1", value=1)))

    assert (at_once, new.handler.logged_in) == (False, True)
    assert isinstance(new.consume(topic("t"), subscription_name="sub"), Response)
    assert not isinstance(new.consume(queue("q"), value=2), ExceptionResponse)


def test_a_client_waits_for_the_end_of_a_connection_that_broke() -> None:
    """Without failover as well: the client id is not in use any more."""
    site = Site()
    old = connected(site)
    old.consume(queue("q"), prefetch=1000)
    for _ in range(600):
        old.tell(old.text(queue("q"), persistent=False))
    old.dispatches()
    old.consume(queue("r"), value=2)
    old.handler.connection_lost()
    new = Client(site, "c2")
    new.negotiate()

    assert isinstance(new.ask(new.info(client_id="client c1")), Response)
    assert new.handler.logged_in


def test_nobody_replaces_the_connection_of_another_user() -> None:
    """A client id is no secret."""
    site = Site()
    alice = logging_in(site, "c1")
    alice.done(alice.info(user_name="alice", password="alice"))
    bob = logging_in(site, "c2", openwireAllowLinkStealing="true")
    stolen = bob.info(user_name="bob", password="bob", client_id="client c1", failover_reconnect=True)

    assert bob.refused(stolen) == "InvalidClientIDException"
    assert not alice.handler.closed


def test_link_stealing_as_configured() -> None:
    site = Site()
    first = connected(site)
    second = Client(site, "c2", 12, None, openwireAllowLinkStealing="true")
    second.log_in(client_id="client c1")

    assert (first.handler.closed, second.handler.logged_in) == (True, True)
    assert isinstance(first.received()[-1], ConnectionError)


def test_a_connection_may_be_removed_and_begin_again_on_the_same_socket() -> None:
    """openwire §12.3."""
    client = connected(Site())
    client.consume(queue("q"))
    client.done(RemoveInfo(object_id=ConnectionId(value="c1"), last_delivered_sequence_id=-1))
    after = client.site.domain.queue("q").consumers
    client.done(client.info())

    assert (after, client.handler.logged_in) == ([], True)


def test_a_shutdown_says_goodbye() -> None:
    client = connected(Site())
    client.handler.shutdown("maintenance")

    assert type(client.received()[-1]).__name__ == "ShutdownInfo"


def test_the_id_of_the_broker_outlives_a_restart(tmp_path: Path) -> None:
    """openwire §12.1: transaction managers recognise the broker by it."""
    site = Site(tmp_path)
    connected(site).send(queue("q"), "m")
    first = site.manager.info
    site.crash()
    again = Site(tmp_path)
    again.crash()

    assert again.manager.info.broker_id == first.broker_id


# -- permissions -----------------------------------------------------------------------------------------------------


def test_what_is_not_allowed_is_a_security_exception() -> None:
    client = connected(Site(access=Only()))
    consumer = ConsumerInfo(consumer_id=client.consumer(), destination=queue("q"), prefetch_size=1)
    producer = ProducerInfo(producer_id=ProducerId(connection_id="c1", session_id=1, value=7), destination=queue("q"))

    assert client.refused(consumer) == "SecurityException"
    assert client.refused(producer) == "SecurityException"
    assert client.refused(client.text(queue("q"))) == "SecurityException"
    assert client.refused(create(client)) == "SecurityException"


def test_the_advisories_that_a_client_library_needs_are_for_everybody() -> None:
    client = connected(Site(access=Only()))
    of_connections = ConsumerInfo(
        consumer_id=client.consumer(2), destination=topic("ActiveMQ.Advisory.Connection"), prefetch_size=1
    )

    assert isinstance(client.consume(WATCHED), Response)
    assert client.refused(of_connections) == "SecurityException"


def test_new_rights_close_consumers() -> None:
    client = connected(Site(access=Only(*Permission)))
    client.consume(queue("q"))
    client.handler.exchange.core.domain.access = Only()  # type: ignore[union-attr]
    client.handler.rights_changed()

    error, control = client.received()

    assert (type(error), control.close) == (ConnectionError, True)
    assert client.site.domain.queue("q").consumers == []


# -- temporary destinations ------------------------------------------------------------------------------------------


def test_request_and_reply() -> None:
    site = Site()
    asking, answering = connected(site), connected(site, "c2")
    asking.done(create(asking))
    asking.consume(TEMPORARY)
    answering.send(TEMPORARY, "answer")

    (reply,) = asking.dispatches()

    assert reply.destination == TEMPORARY


def test_a_temporary_topic() -> None:
    site = Site()
    client = connected(site)
    temporary = ActiveMQTempTopic(physical_name="ID:host-1:1:2")
    client.done(create(client, temporary))
    client.consume(temporary, value=1)
    client.consume(temporary, value=2)
    connected(site, "c2").send(temporary, "m")

    assert client.texts() == ["m", "m"]


def test_only_the_owner_receives_from_a_temporary_destination() -> None:
    site = Site()
    owner, other = connected(site), connected(site, "c2")
    owner.done(create(owner))
    consumer = ConsumerInfo(consumer_id=other.consumer(), destination=TEMPORARY, prefetch_size=1)

    assert other.refused(consumer) == "InvalidDestinationException"
    assert other.refused(remove(other)) == "InvalidDestinationException"


def test_a_temporary_destination_ends() -> None:
    site = Site()
    owner, other = connected(site), connected(site, "c2")
    owner.done(create(owner))
    other.send(TEMPORARY, "m")
    owner.consume(TEMPORARY)
    in_use = owner.refused(remove(owner))
    owner.remove(owner.consumer())
    owner.done(remove(owner))
    owner.done(remove(owner))

    assert in_use == "JMSException"
    assert other.refused(other.text(TEMPORARY)) == "InvalidDestinationException"


def test_temporary_destinations_end_with_their_connection() -> None:
    site = Site()
    owner, other = connected(site), connected(site, "c2")
    owner.done(create(owner))
    owner.lose()

    assert other.refused(other.text(TEMPORARY)) == "InvalidDestinationException"
    assert TEMPORARY.physical_name not in site.domain.addresses


@pytest.mark.parametrize("name", ["a.*", "#", "a::b", "taken"])
def test_names_that_no_temporary_destination_may_have(name: str) -> None:
    client = connected(Site())
    client.send(queue("taken"), "m")

    assert client.refused(create(client, ActiveMQTempQueue(physical_name=name))) == "InvalidDestinationException"
