"""What clients are told about the broker: temporary destinations, other clients, its end (openwire §12.4, §15.5)."""

from artemis_openwire.engine.commands import (
    ConnectionControl,
    ConnectionInfo,
    ConsumerInfo,
    ExceptionResponse,
    MessageDispatch,
    ProducerInfo,
    RemoveInfo,
    ShutdownInfo,
)
from artemis_openwire.engine.structures import ProducerId
from artemis_openwire.engine.values import read_map
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.events import ConsumerOpened, RemoteTemporaryAdded, RemoteTemporaryRemoved
from artemis_py.core.sessions.session import Session
from tests.core_harness import Recorder
from tests.openwire_site import Client, Site, connected, queue, topic
from tests.unit.openwire.test_broker_connections import WATCHED, create, remove, told


def test_clients_are_told_of_temporary_destinations() -> None:
    """openwire §15.5: a client refuses to send to one that it was not told of."""
    site = Site()
    early, owner = connected(site), connected(site, "c2")
    early.consume(WATCHED)
    owner.done(create(owner))
    of_early = told(early)
    late = connected(site, "c3")
    late.consume(WATCHED)
    owner.done(remove(owner))

    expected = [("TempQueue", "DestinationInfo")]
    assert (of_early, told(late), told(early)) == (expected, expected * 2, expected)


def test_clients_are_told_of_temporary_destinations_at_other_brokers() -> None:
    """In a mesh, as of those here: when they come, when they go, and of all that there are when a client comes."""
    site = Site()
    early = connected(site)
    early.consume(WATCHED)
    for number in range(2):
        site.domain.events.emit(RemoteTemporaryAdded(f"ID:host-1:1:{number}", is_queue=number == 0))
    of_early = told(early)
    late = connected(site, "c3")
    late.consume(WATCHED)
    site.domain.events.emit(RemoteTemporaryRemoved("ID:host-1:1:0", is_queue=True))

    expected = [("TempQueue", "DestinationInfo"), ("TempTopic", "DestinationInfo")]
    assert of_early == expected
    assert told(early) == expected[:1]
    assert told(late) == [*expected, expected[0]]


def test_the_form_of_an_advisory() -> None:
    site = Site()
    client = connected(site)
    client.consume(topic("ActiveMQ.Advisory.Consumer.Queue.q"))
    client.consume(queue("q"), value=2)

    (dispatch,) = client.dispatches()
    message = dispatch.message
    assert message is not None

    assert (message.type, message.persistent, message.destination) == ("Advisory", False, dispatch.destination)
    assert read_map(message.marshalled_properties) == {
        "originBrokerId": site.manager.info.broker_id.value if site.manager.info.broker_id else None,
        "originBrokerName": "localhost",
        "originBrokerURL": "",
        "consumerCount": 1,
    }


def test_consumers_producers_and_connections_come_and_go() -> None:
    site = Site()
    watching = connected(site)
    watching.consume(
        topic(
            "ActiveMQ.Advisory.Connection,ActiveMQ.Advisory.Consumer.Topic.t,ActiveMQ.Advisory.Producer.Queue.q,"
            "ActiveMQ.Advisory.Queue"
        )
    )
    told(watching)
    other = connected(site, "c2")
    other.consume(topic("t"))
    producer = ProducerId(connection_id="c2", session_id=1, value=9)
    other.done(ProducerInfo(producer_id=producer, destination=queue("q")))
    other.done(RemoveInfo(object_id=producer))
    other.lose()

    assert told(watching) == [
        ("Connection", "ConnectionInfo"),
        ("Consumer.Topic.t", "ConsumerInfo"),
        ("Queue", "DestinationInfo"),
        ("Producer.Queue.q", "ProducerInfo"),
        ("Producer.Queue.q", "RemoveInfo"),
        ("Consumer.Topic.t", "RemoveInfo"),
        ("Connection", "RemoveInfo"),
    ]


CLIENTS = topic("ActiveMQ.Advisory.Connection,ActiveMQ.Advisory.Consumer.>,ActiveMQ.Advisory.Producer.>")


def foreign(site: Site) -> Session:
    """A client of another protocol, with a consumer and a producer."""
    session = site.host.sessions.open(Subject("bob"), "device", "peer", "MQTT")
    session.producer("q", RoutingType.ANYCAST).hold()
    session.consume(site.host.sessions.domain.queue("q"), Recorder())
    return session


def counts(client: Client) -> list[tuple[str, object]]:
    """Last words of topics, and counts, of advisories."""
    found = []
    for one in client.received():
        if isinstance(one, MessageDispatch) and one.message and one.destination:
            properties = read_map(one.message.marshalled_properties)
            name = (one.destination.physical_name or "").rpartition("Advisory.")[2]
            found.append((name, properties.get("consumerCount", properties.get("producerCount"))))
    return found


def test_clients_of_other_protocols_come_and_go() -> None:
    site = Site()
    watching = connected(site)
    watching.consume(CLIENTS)
    told(watching)
    session = foreign(site)
    came = told(watching)
    session.close()

    assert came == [
        ("Connection", "ConnectionInfo"),
        ("Producer.Queue.q", "ProducerInfo"),
        ("Consumer.Queue.q", "ConsumerInfo"),
    ]
    assert sorted(told(watching)) == [
        ("Connection", "RemoveInfo"),
        ("Consumer.Queue.q", "RemoveInfo"),
        ("Producer.Queue.q", "RemoveInfo"),
    ]


def test_counts_are_of_clients_of_all_protocols() -> None:
    """Applications start and stop their producers by these counts."""
    site = Site()
    watching = connected(site)
    session = foreign(site)
    connected(site, "c2").consume(queue("q"))
    watching.consume(CLIENTS)
    there = counts(watching)
    foreign(site)
    session.close()

    assert [one for one in there if one[0] == "Consumer.Queue.q"] == [("Consumer.Queue.q", 2)] * 2
    assert [one for one in counts(watching) if one[0] == "Consumer.Queue.q"] == [
        ("Consumer.Queue.q", 3),
        ("Consumer.Queue.q", 2),
    ]


def test_nobody_is_followed_for_a_client_library() -> None:
    """Every Java client watches temporary destinations; that must cost other protocols nothing."""
    site = Site()
    watching = connected(site)
    watching.consume(WATCHED)
    assert not site.host.events.wants(ConsumerOpened)
    watching.consume(CLIENTS, value=2)
    assert site.host.events.wants(ConsumerOpened)
    watching.remove(watching.consumer(2))
    foreign(site)
    assert not site.host.events.wants(ConsumerOpened)
    watching.consume(CLIENTS, value=3)

    assert ("Consumer.Queue.q", "ConsumerInfo") in told(watching)


def test_a_client_that_wants_it_is_told_that_there_is_no_other_broker() -> None:
    """openwire §12.1: behind the answer to its login, with nothing to connect to."""
    client = Client(Site())
    client.negotiate()
    client.done(client.info(manageable=True, fault_tolerant=True))

    assert client.received() == [ConnectionControl(connected_brokers="", reconnect_to="")]


def test_a_broker_that_stops_says_goodbye() -> None:
    """openwire §12.4: a failover client connects again, and its application sees no error."""
    client = connected(Site())
    client.handler.shutdown("the broker stops")

    assert [type(one) for one in client.received()] == [ShutdownInfo]
    assert client.handler.closed


def test_a_password_is_told_to_nobody() -> None:
    site = Site()
    watching = connected(site)
    watching.consume(topic("ActiveMQ.Advisory.Connection"))
    Client(site, "c2").log_in(user_name="bob", password="secret")

    infos = [
        one.message.data_structure
        for one in watching.received()
        if isinstance(one, MessageDispatch) and one.message and isinstance(one.message.data_structure, ConnectionInfo)
    ]

    assert {info.password for info in infos} == {None}
    assert "bob" in {info.user_name for info in infos}


def test_advisories_can_be_switched_off() -> None:
    site = Site()
    watching = connected(site, supportAdvisory="false")
    watching.consume(WATCHED)
    other = connected(site, "c2")
    other.done(create(other))

    assert told(watching) == []


def test_a_slow_watcher_is_told_when_it_reads_again() -> None:
    site = Site()
    watching, other = connected(site), connected(site, "c2")
    watching.consume(WATCHED)
    watching.handler.pause()
    other.done(create(other))
    before = told(watching)
    watching.handler.resume()

    assert (before, told(watching)) == ([], [("TempQueue", "DestinationInfo")])


def test_a_consumer_of_advisories_has_no_selector() -> None:
    client = connected(Site())
    info = ConsumerInfo(consumer_id=client.consumer(), destination=WATCHED, selector="a = 1", prefetch_size=1)

    answer = client.ask(info)

    assert isinstance(answer, ExceptionResponse)


def test_a_list_has_advisories_or_other_destinations() -> None:
    client = connected(Site())
    destination = topic("ActiveMQ.Advisory.TempQueue,queue://q")

    answer = ConsumerInfo(consumer_id=client.consumer(), destination=destination, prefetch_size=1)

    assert client.refused(answer) == "InvalidDestinationException"
