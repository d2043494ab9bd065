"""Notifications: what each event is told as, to whom, how many, none causes another (docs/notifications.md)."""

from collections.abc import Callable
from typing import Any, Final

import pytest
from attrs import evolve

from artemis_py.core.messages.message import Message
from artemis_py.core.messages.widths import Int8, Int32
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.divert import create_divert, update_divert
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.runtime.event_facts import ClientFacts
from artemis_py.core.runtime.events import (
    AddressHasRoom,
    AddressIsFull,
    ConsumerOpened,
    ConsumerSlow,
    Denied,
    Dropped,
    Event,
    LimitReached,
    SessionOpened,
    StoreFailed,
    Unrouted,
)
from artemis_py.core.runtime.outer_events import AcceptorStarted, AcceptorStopped, DiskChanged, LoginFailed
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.divert_config import DivertConfig
from artemis_py.management.notifications import MOST_IN_PERIOD, MOST_VIOLATIONS, ROOM_BYTES, Notifications
from tests.core_harness import (
    START_MS,
    Recorder,
    browse_all,
    make_domain,
    make_queue,
    make_services,
    pass_time,
    send,
    settle_down,
)

ADDRESS: Final = "activemq.notifications"
NODE: Final = "-node"
MULTICAST: Final = frozenset((RoutingType.MULTICAST,))
ANN: Final = ClientFacts("ann", "c1", "AMQP", "192.0.2.1:5", "CN=ann")
SLOW: Final = ConsumerSlow(7, "q", "a", 3, 2, ANN, 4, 5000, "10 messages per second", False)


class World:
    """A domain with notifications, and usually a queue that gets all of them."""

    def __init__(
        self,
        settings: dict[str, AddressSettings] | None = None,
        options: BrokerSettings | None = None,
        listens: bool = True,
    ) -> None:
        self.domain: Final = make_domain(settings, options)
        self.services: Final = make_services(self.domain)
        self.plans = 0
        self.notifications: Final = Notifications(self.domain, NODE, self._plan)
        self.notifications.start()
        self.queue: Queue | None = self.listen("told") if listens else None

    def _plan(self) -> None:
        self.plans += 1

    def listen(self, name: str, address: str = ADDRESS, **options: Any) -> Queue:
        """A queue on the notification address."""
        return make_queue(self.domain, name, RoutingType.MULTICAST, address=address, **options)

    def messages(self) -> list[Message]:
        """What was told."""
        settle_down(self.domain)
        assert self.queue is not None
        return [each.message for each in browse_all(self.queue)]

    def told(self) -> list[tuple[str, dict[str, object]]]:
        """Types and properties of what was told, without the time."""
        found = []
        for message in self.messages():
            properties = dict(message.view.properties)
            assert properties.pop("_AMQ_NotifTimestamp") == self.domain.dispatcher.now_ms
            found.append((str(properties.pop("_AMQ_NotifType")), properties))
        return found

    def types(self) -> list[str]:
        """Types of what was told."""
        return [str(each.view.properties["_AMQ_NotifType"]) for each in self.messages()]

    def emit(self, *events: Event) -> None:
        """Events of parts that are not here."""
        for each in events:
            self.domain.events.emit(each)


def add_queue(world: World) -> None:
    world.domain.create_address("a", MULTICAST)
    make_queue(world.domain, "q", RoutingType.MULTICAST, address="a", filter="x = 1")


def remove_queue(world: World) -> None:
    world.domain.delete_queue("q")


def change_filter(world: World) -> None:
    world.domain.update_queue("q", {"filter": "x = 2"})


def change_divert(world: World) -> None:
    divert = create_divert(world.domain, DivertConfig(name="d", address="a", forwarding_address="b"))
    update_divert(world.domain, divert, evolve(divert.config, routing_name="r", filter="y = 1"))


def open_session(world: World) -> None:
    world.services.sessions.open(Subject("ann"), "c1", "192.0.2.1:5", "AMQP", certificate="CN=ann")


def close_session(world: World) -> None:
    next(iter(world.services.sessions.opened.values())).close(failed=True)


def consume(world: World) -> None:
    session = next(iter(world.services.sessions.opened.values()))
    session.consume(world.domain.queues["q"], Recorder())
    session.consume(world.domain.queues["q"], Recorder(), browse=True)


def stop_consuming(world: World) -> None:
    for session in world.services.sessions.opened.values():
        for consumer in list(session.consumers.values()):
            session.close_consumer(consumer)


def of(*events: Event) -> Callable[[World], None]:
    """What emits these events."""
    return lambda world: world.emit(*events)


def nothing(world: World) -> None:
    """Begin with an address alone."""


QUEUE: Final[dict[str, object]] = {
    "_AMQ_Address": "a",
    "_AMQ_ClusterName": "q" + NODE,
    "_AMQ_RoutingName": "q",
    "_AMQ_Distance": 0,
}
CONNECTION: Final[dict[str, object]] = {
    "_AMQ_ConnectionName": "S",
    "_AMQ_CertSubjectDN": "CN=ann",
    "_AMQ_RemoteAddress": "192.0.2.1:5",
    "_AMQ_User": "ann",
    "_AMQ_Client_ID": "c1",
    "_AMQ_Protocol_Name": "AMQP",
}
SESSION: Final[dict[str, object]] = {
    "_AMQ_ConnectionName": "S",
    "_AMQ_User": "ann",
    "_AMQ_SessionName": "S",
    "_AMQ_Client_ID": "c1",
    "_AMQ_Protocol_Name": "AMQP",
    "_AMQ_Address": ADDRESS,
    "_AMQ_Distance": 0,
}
CONSUMER: Final = QUEUE | {
    "_AMQ_User": "ann",
    "_AMQ_RemoteAddress": "192.0.2.1:5",
    "_AMQ_SessionName": "S",
    "_AMQ_Client_ID": "c1",
    "_AMQ_ConsumerName": "C",
}
BINDING: Final = QUEUE | {"_AMQ_Binding_Type": 0, "_AMQ_Binding_ID": "Q", "_AMQ_FilterString": "x = 1"}

TABLE: Final[list[tuple[str, list[Callable[[World], None]], Callable[[World], None], dict[str, object]]]] = [
    (
        "ADDRESS_ADDED",
        [],
        add_queue,
        {"_AMQ_Address": "a", "_AMQ_Routing_Type": 0, "artemis_py_RoutingTypes": "MULTICAST"},
    ),
    ("BINDING_ADDED", [], add_queue, BINDING),
    ("BINDING_REMOVED", [add_queue], remove_queue, BINDING),
    ("BINDING_UPDATED", [add_queue], change_filter, BINDING | {"_AMQ_FilterString": "x = 2"}),
    (
        "BINDING_UPDATED",
        [add_queue],
        change_divert,
        {
            "_AMQ_Address": "a",
            "_AMQ_ClusterName": "d" + NODE,
            "_AMQ_RoutingName": "r",
            "_AMQ_Distance": 0,
            "_AMQ_Binding_Type": 2,
            "_AMQ_Binding_ID": 0,
            "_AMQ_FilterString": "y = 1",
        },
    ),
    (
        "ADDRESS_REMOVED",
        [add_queue],
        lambda world: world.domain.delete_address("a", force=True, reason="why"),
        {"_AMQ_Address": "a", "_AMQ_Routing_Type": 0, "artemis_py_RoutingTypes": "MULTICAST", "_AMQ_Reason": "why"},
    ),
    ("CONNECTION_CREATED", [], open_session, CONNECTION),
    ("SESSION_CREATED", [], open_session, SESSION),
    ("SESSION_CLOSED", [open_session], close_session, SESSION),
    ("CONNECTION_DESTROYED", [open_session], close_session, CONNECTION | {"_AMQ_Reason": "connection lost"}),
    (
        "CONSUMER_CREATED",
        [add_queue, open_session],
        consume,
        CONSUMER | {"_AMQ_ConsumerCount": 1, "_AMQ_ValidatedUser": "ann", "_AMQ_CertSubjectDN": "CN=ann"},
    ),
    (
        "CONSUMER_CLOSED",
        [add_queue, open_session, consume],
        stop_consuming,
        CONSUMER | {"_AMQ_ConsumerCount": 1, "_AMQ_Reason": "closed"},
    ),
    (
        "CONSUMER_SLOW",
        [],
        of(SLOW),
        {
            "_AMQ_ConsumerCount": 2,
            "_AMQ_Address": "a",
            "_AMQ_RoutingName": "q",
            "_AMQ_RemoteAddress": "192.0.2.1:5",
            "_AMQ_ConnectionName": "3",
            "_AMQ_ConsumerName": 7,
            "_AMQ_SessionName": "3",
            "_AMQ_User": "ann",
            "_AMQ_Client_ID": "c1",
            "artemis_py_Acknowledged": 4,
            "artemis_py_SpanMillis": 5000,
            "artemis_py_Demanded": "10 messages per second",
        },
    ),
    (
        "SECURITY_AUTHENTICATION_VIOLATION",
        [],
        of(LoginFailed("ann", "192.0.2.1:5", "PLAIN", "wrong password")),
        {
            "_AMQ_User": "ann",
            "_AMQ_CertSubjectDN": "unavailable",
            "_AMQ_RemoteAddress": "192.0.2.1:5",
            "_AMQ_Reason": "wrong password",
            "artemis_py_Mechanism": "PLAIN",
        },
    ),
    (
        "SECURITY_PERMISSION_VIOLATION",
        [],
        of(Denied(Subject("ann"), Permission.CREATE_ADDRESS, "a", None, "192.0.2.1:5")),
        {
            "_AMQ_Address": "a",
            "_AMQ_CheckType": "CREATE_ADDRESS",
            "_AMQ_User": "ann",
            "_AMQ_RemoteAddress": "192.0.2.1:5",
        },
    ),
    (
        "ACCEPTOR_STARTED",
        [],
        of(AcceptorStarted("amqp", "127.0.0.1", 5672, ("AMQP",))),
        {"name": "amqp", "host": "127.0.0.1", "port": 5672},
    ),
    (
        "ACCEPTOR_STOPPED",
        [],
        of(AcceptorStopped("amqp", "127.0.0.1", 5672)),
        {"name": "amqp", "host": "127.0.0.1", "port": 5672},
    ),
    (
        "ADDRESS_FULL",
        [],
        of(AddressIsFull("a", "BLOCK", 99)),
        {"_AMQ_Address": "a", "artemis_py_Policy": "BLOCK", "artemis_py_Size": 99},
    ),
    ("ADDRESS_HAS_ROOM", [], of(AddressHasRoom("a")), {"_AMQ_Address": "a"}),
    ("DISK_FULL", [], of(DiskChanged(True, 0.99)), {"artemis_py_UsedPart": 0.99}),
    ("DISK_OK", [], of(DiskChanged(False, 0.5)), {"artemis_py_UsedPart": 0.5}),
    ("STORE_FAILED", [], of(StoreFailed("EIO")), {"_AMQ_Reason": "EIO"}),
    (
        "MESSAGES_DROPPED",
        [add_queue],
        of(Dropped("q", "expired", 3)),
        {"_AMQ_RoutingName": "q", "_AMQ_Address": "a", "_AMQ_Reason": "expired", "artemis_py_Count": 3},
    ),
    ("MESSAGE_UNROUTED", [], of(Unrouted("a")), {"_AMQ_Address": "a"}),
    (
        "LIMIT_REACHED",
        [],
        of(LimitReached("too many", "192.0.2.1:5")),
        {"_AMQ_Reason": "too many", "_AMQ_RemoteAddress": "192.0.2.1:5"},
    ),
]


@pytest.mark.parametrize(
    ("type", "before", "act", "expected"), TABLE, ids=[f"{row[0]}-{n}" for n, row in enumerate(TABLE)]
)
def test_what_an_event_is_told_as(
    type: str, before: list[Callable[[World], None]], act: Callable[[World], None], expected: dict[str, object]
) -> None:
    """The names of Artemis, and the facts as they were at the moment of the event."""
    world = World()
    for each in before:
        each(world)
    sessions = list(world.services.sessions.opened.values())
    consumers = [id for session in sessions for id in session.consumers]
    queue = world.domain.queues.get("q")
    settle_down(world.domain)
    assert world.queue is not None
    world.queue.purge()

    act(world)

    # Numbers that the broker has chosen stand for what they name in the table.
    sessions += list(world.services.sessions.opened.values())
    consumers += [id for session in sessions for id in session.consumers]
    queue = queue or world.domain.queues.get("q")
    names: dict[object, object] = {"S": str(sessions[0].id) if sessions else "", "C": min(consumers, default=0)}
    names["Q"] = 0 if queue is None else queue.id
    wanted = {name: names.get(value, value) for name, value in expected.items()}
    assert [properties for told, properties in world.told() if told == type] == [wanted]


def test_numbers_have_the_width_of_artemis() -> None:
    """Its clients ask for an int where Artemis sends one; a long would be refused (JMS 2.0 §3.5.4)."""
    world = World()
    add_queue(world)
    open_session(world)
    consume(world)

    kinds = {
        (told, name): type(value)
        for told, properties in world.told()
        for name, value in properties.items()
        if isinstance(value, int)
    }
    assert kinds == {
        ("ADDRESS_ADDED", "_AMQ_Routing_Type"): Int8,
        ("BINDING_ADDED", "_AMQ_Binding_Type"): Int32,
        ("BINDING_ADDED", "_AMQ_Binding_ID"): int,
        ("BINDING_ADDED", "_AMQ_Distance"): Int32,
        ("SESSION_CREATED", "_AMQ_Distance"): Int32,
        ("CONSUMER_CREATED", "_AMQ_Distance"): Int32,
        ("CONSUMER_CREATED", "_AMQ_ConsumerCount"): Int32,
        ("CONSUMER_CREATED", "_AMQ_ConsumerName"): int,
    }


def test_messages_are_as_those_of_artemis() -> None:
    """MULTICAST, without a body, at the time of the event, in its order."""
    world = World()

    add_queue(world)

    messages = world.messages()
    assert world.types() == ["ADDRESS_ADDED", "BINDING_ADDED"]
    assert [each.routing_type for each in messages] == [int(RoutingType.MULTICAST)] * 2
    assert [each.view.body for each in messages] == [None, None]
    assert [each.view.creation_time_ms for each in messages] == [START_MS, START_MS]


# -- who is told ---------------------------------------------------------------------------------------------------


def test_the_address_is_there_from_the_start() -> None:
    """Whoever may only consume can subscribe."""
    world = World(listens=False)

    assert world.domain.addresses[ADDRESS].routing_types == MULTICAST


def test_an_address_of_the_configuration_gets_the_type_that_is_missing() -> None:
    domain = make_domain()
    domain.create_address(ADDRESS, frozenset((RoutingType.ANYCAST,)))

    Notifications(domain, NODE, lambda: None).start()

    assert domain.addresses[ADDRESS].routing_types == frozenset(RoutingType)


def test_nothing_is_made_while_nobody_listens() -> None:
    """Not even an event that nobody else wants."""
    world = World(listens=False)
    assert not world.domain.events.wants(SessionOpened)
    assert not world.domain.events.wants(ConsumerOpened)

    queue = world.listen("told")
    assert world.domain.events.wants(SessionOpened)

    world.domain.delete_queue(queue.name)
    assert not world.domain.events.wants(SessionOpened)


def test_it_has_another_name_if_the_configuration_says_so() -> None:
    world = World(options=BrokerSettings(management_notification_address="reports"), listens=False)
    world.queue = world.listen("told", "reports")

    add_queue(world)

    assert world.types() == ["ADDRESS_ADDED", "BINDING_ADDED"]
    assert ADDRESS not in world.domain.addresses


@pytest.mark.parametrize(
    ("pattern", "hears"), [("activemq.#", True), ("activemq.*", True), ("#", False), ("*.*", False)]
)
def test_wildcards_in_the_first_word_do_not_cover_the_address(pattern: str, hears: bool) -> None:
    """A client that asks for everything does not mean reports of the broker."""
    world = World(listens=False)
    world.queue = world.listen("told", pattern)

    add_queue(world)

    assert (len(world.messages()) > 0) is hears
    assert world.domain.events.wants(SessionOpened) is hears


def test_a_selector_that_wants_nothing_leaves_no_trace() -> None:
    """No dead letter, no complaint about messages without a queue: nobody had asked for them."""
    settings = {"#": AddressSettings(dead_letter_address="DLQ", send_to_dla_on_no_route=True)}
    world = World(settings, listens=False)
    letters = make_queue(world.domain, "DLQ")
    world.queue = world.listen("told", filter="_AMQ_NotifType = 'DISK_FULL'")
    heard: list[Event] = []
    world.domain.events.subscribe(heard.append, Unrouted)

    add_queue(world)
    world.emit(DiskChanged(True, 0.9))

    assert world.types() == ["DISK_FULL"]
    assert (heard, letters.message_count, world.domain.addresses[ADDRESS].unrouted) == ([], 0, 0)


@pytest.mark.parametrize("durable", [True, False])
def test_messages_are_durable_if_a_queue_is(durable: bool) -> None:
    world = World(listens=False)
    world.queue = world.listen("told", durable=durable)

    add_queue(world)

    assert {each.durable for each in world.messages()} == {durable}


def test_what_the_broker_has_for_itself_is_not_told() -> None:
    """Histories of retroactive addresses, queues of services, sessions of requests and of absent clients."""
    world = World({"kept": AddressSettings(retroactive_message_count=5)})

    world.domain.create_address("kept", MULTICAST)
    world.domain.create_address("$artemis.x", MULTICAST, internal=True)
    world.services.sessions.open(Subject("ann"), "", "192.0.2.1:5", "HTTP")
    world.services.sessions.open_for_absent(Subject("ann"), "c1", "will", "MQTT")

    assert [(type, properties["_AMQ_Address"]) for type, properties in world.told()] == [("ADDRESS_ADDED", "kept")]


def test_sessions_can_be_left_out() -> None:
    """`suppress-session-notifications`, also while the broker runs."""
    world = World(options=BrokerSettings(suppress_session_notifications=True))
    open_session(world)
    assert world.types() == ["CONNECTION_CREATED"]

    world.domain.set_options(evolve(world.domain.options, suppress_session_notifications=False))
    close_session(world)

    assert world.types() == ["CONNECTION_CREATED", "SESSION_CLOSED", "CONNECTION_DESTROYED"]


def test_a_slow_consumer_that_is_ended_is_told_by_its_end() -> None:
    """As in Artemis, where KILL sends no CONSUMER_SLOW."""
    world = World()

    world.emit(evolve(SLOW, is_disconnected=True))

    assert world.types() == []


def test_nothing_changes_in_the_turn_of_the_event() -> None:
    """A listener is called in the middle of the core's work; a turn that comes sends what waits."""
    world = World()
    assert world.queue is not None
    plans = world.plans

    add_queue(world)

    assert world.queue.message_count == 0
    assert world.plans > plans
    assert len(world.messages()) == 2


def test_after_the_end_nothing_is_told() -> None:
    """What happened before is: a broker that stops sends what waits."""
    world = World()
    add_queue(world)

    world.notifications.stop()
    remove_queue(world)

    assert world.types() == ["ADDRESS_ADDED", "BINDING_ADDED"]


def test_a_full_address_refuses_them_and_nobody_else_notices() -> None:
    """The limits of its settings apply; whoever caused the event has nothing to do with it."""
    settings = {ADDRESS: AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.FAIL)}
    world = World(settings)

    add_queue(world)
    open_session(world)

    assert world.types() == ["ADDRESS_ADDED"]


def test_a_full_broker_still_reports() -> None:
    """Nothing else is accepted: whoever is to help has to hear of it. There is some room for that, and no more."""
    world = World(listens=False)
    world.queue = world.listen("told", durable=True)
    world.domain.dispatcher.disk_changed(True, True)

    world.emit(DiskChanged(True, 0.99))

    (message,) = world.messages()
    assert (world.types(), message.durable) == (["DISK_FULL"], False)
    big = ROOM_BYTES // 10
    for number in range(20):
        world.emit(StoreFailed(f"{number}" + "x" * big))
    assert 5 < len(world.types()) < 12


# -- no loops, and limits ------------------------------------------------------------------------------------------


def test_nothing_is_told_about_the_address_and_where_its_messages_go() -> None:
    """Through diverts, wildcards and to the end of a chain."""
    world = World()
    domain = world.domain
    make_queue(domain, "alarms", RoutingType.MULTICAST)
    make_queue(domain, "pager", RoutingType.MULTICAST, address="pager.a")
    make_queue(domain, "wild", RoutingType.MULTICAST, address="pager.#")
    create_divert(domain, DivertConfig(name="first", address=ADDRESS, forwarding_address="alarms"))
    divert = create_divert(domain, DivertConfig(name="second", address="alarms", forwarding_address="x"))
    update_divert(domain, divert, evolve(divert.config, forwarding_address="pager.a"))
    settle_down(domain)
    assert world.queue is not None
    world.queue.purge()
    session = world.services.sessions.open(Subject("ann"), "", "192.0.2.1:5", "HTTP")

    for name in ("told", "alarms", "pager", "wild"):
        consumer = session.consume(domain.queues[name], Recorder())
        session.close_consumer(consumer)
        world.emit(Dropped(name, "why", 1))
    for address in (ADDRESS, "alarms", "pager.a", "pager.#"):
        world.emit(AddressIsFull(address, "DROP", 1), Unrouted(address))
    domain.delete_queue("wild")
    assert world.types() == []

    world.emit(AddressIsFull("other", "DROP", 1))
    assert world.types() == ["ADDRESS_FULL"]


def test_a_client_that_may_not_listen_is_told() -> None:
    """It is no consequence of a notification, and somebody should know."""
    world = World()

    world.emit(Denied(Subject("eve"), Permission.CONSUME, ADDRESS, None, "192.0.2.9:1"))

    assert world.types() == ["SECURITY_PERMISSION_VIOLATION"]


def test_a_flood_of_sessions_is_counted() -> None:
    """10,000 clients come and go: so many notifications in a second, then the number of the others."""
    world = World()
    clients = 10_000

    for number in range(clients):
        world.services.sessions.open(Subject("ann"), f"c{number}", "192.0.2.1:5", "MQTT").close()

    assert len(world.types()) == MOST_IN_PERIOD
    pass_time(world.domain, 1000)
    last = world.messages()[-1].view.properties
    assert last["_AMQ_NotifType"] == "NOTIFICATIONS_DROPPED"
    assert last["artemis_py_Count"] == 4 * clients - MOST_IN_PERIOD
    assert len(world.messages()) == MOST_IN_PERIOD + 1

    # The flood is over: the next second is as any other, and nothing more is counted.
    add_queue(world)
    pass_time(world.domain, 1000)
    assert world.types()[MOST_IN_PERIOD + 1 :] == ["ADDRESS_ADDED", "BINDING_ADDED"]


def test_violations_are_told_once_and_then_counted() -> None:
    """Somebody guesses passwords: the first few, each once; and they do not take the place of other notifications."""
    world = World()

    for number in range(50):
        for _ in range(3):
            world.emit(LoginFailed(f"user-{number}", "192.0.2.9:1", "PLAIN", "wrong password"))
    world.emit(Denied(Subject("eve"), Permission.SEND, "a", None, "192.0.2.9:1"))

    assert world.types() == ["SECURITY_AUTHENTICATION_VIOLATION"] * MOST_VIOLATIONS + ["SECURITY_PERMISSION_VIOLATION"]
    pass_time(world.domain, 10_000)
    last = world.messages()[-1].view.properties
    assert last["_AMQ_NotifType"] == "NOTIFICATIONS_DROPPED"
    assert last["artemis_py_NotifType"] == "SECURITY_AUTHENTICATION_VIOLATION"
    assert last["artemis_py_Count"] == 150 - MOST_VIOLATIONS


def test_messages_are_no_notifications() -> None:
    """However much is sent and consumed, nothing is told."""
    world = World()
    make_queue(world.domain, "q")
    open_session(world)
    consume(world)
    before = len(world.messages())

    send(world.domain, "q", *["m"] * 100)

    assert len(world.messages()) == before
