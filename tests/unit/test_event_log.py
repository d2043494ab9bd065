"""What the core decides, as the operator reads it."""

import logging

import pytest

from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.runtime.event_facts import ClientFacts
from artemis_py.core.runtime.events import (
    AddressAdded,
    AddressRemoved,
    ConnectionClosed,
    ConnectionOpened,
    ConnectionRefused,
    ConsumerSlow,
    Denied,
    DivertLoop,
    Dropped,
    Duplicate,
    ExchangeAdded,
    ExchangeBound,
    ExchangeRemoved,
    ExchangeUnbound,
    QueueAdded,
    QueueRemoved,
    RefusalCause,
    TransformerFailed,
    Unrouted,
)
from artemis_py.logs import LINES_OF_KIND, LINES_OF_SOURCE
from artemis_py.management.event_log import EventLog


@pytest.fixture
def log() -> EventLog:
    return EventLog(lambda: 0.0)


def test_denial_names_user_operation_and_address(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    """The issue: denials are logged with user, operation and address."""
    log.write(Denied(Subject("alice"), Permission.SEND, "orders", None, "192.0.2.1:5"))

    expected = "permission denied: user=alice permission=send address=orders peer=192.0.2.1:5"
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(logging.WARNING, expected)]


def test_repeated_denials_do_not_fill_the_log(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    """A client decides how often it asks."""
    for _ in range(1000):
        log.write(Denied(Subject(None), Permission.CONSUME, "orders", "q", "192.0.2.1:5"))

    assert len(caplog.records) == LINES_OF_SOURCE


def test_denials_of_one_user_do_not_hide_those_of_another(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    """Each is a fact of its own, up to a number that a client cannot push against."""
    for number in range(1000):
        log.write(Denied(Subject(f"user{number}"), Permission.SEND, "orders", None, "192.0.2.1:5"))

    assert [record.getMessage().split()[2] for record in caplog.records] == [
        f"user=user{i}" for i in range(LINES_OF_KIND)
    ]


def test_discarded_messages_are_told(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing vanishes without a word."""
    log.write(Unrouted("news"))
    log.write(Dropped("q", "expired, and its address has no expiry-address", 3))

    assert [record.getMessage() for record in caplog.records] == [
        "message reached no queue: address=news; an anycast queue would have kept it for later consumers",
        "messages discarded: queue=q count=3 reason=expired, and its address has no expiry-address",
    ]


def test_what_is_created_on_demand_is_for_debugging_only(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    """Clients create at will; a busy broker's log stays readable."""
    caplog.set_level(logging.INFO)
    log.write(AddressAdded("a", True))
    log.write(QueueAdded("q", "a", True))
    log.write(QueueRemoved("q", "a", "unused"))
    log.write(AddressRemoved("a", "unused"))
    exchange = (ExchangeAdded("e", "topic"), ExchangeBound("e", "k", "q", True), ExchangeUnbound("e", "k", "f", False))
    for event in (*exchange, ExchangeRemoved("e", "unused")):
        log.write(event)

    assert caplog.records == []
    caplog.set_level(logging.DEBUG)
    for event in (*exchange, ExchangeRemoved("e", "unused")):
        log.write(event)
    assert [record.getMessage() for record in caplog.records] == [
        "exchange created: name=e type=topic",
        "bound: exchange=e key=k queue=q",
        "unbound: exchange=e key=k exchange=f",
        "exchange deleted: name=e reason=unused",
    ]


@pytest.mark.parametrize(
    ("is_disconnected", "what"), [(False, "consumer is slow"), (True, "slow consumer is disconnected")]
)
def test_a_slow_consumer_is_a_line_with_both_numbers(
    log: EventLog, caplog: pytest.LogCaptureFixture, is_disconnected: bool, what: str
) -> None:
    """An operator sees whose it is, what it did and what was demanded; a client cannot fill the log with it."""
    client = ClientFacts(None, "c1", "AMQP", "192.0.2.1:5")
    for number in range(100):
        log.write(ConsumerSlow(number, "q", "a", 3, 2, client, 4, 5000, "10 messages per second", is_disconnected))

    facts = "queue=q user=anonymous client=c1 peer=192.0.2.1:5 acknowledged=4 seconds=5.0"
    assert {record.getMessage() for record in caplog.records} == {f"{what}: {facts} demanded=10 messages per second"}
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * LINES_OF_SOURCE


def test_a_duplicate_names_address_and_id(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    """artemis-model §3.13: WARN."""
    log.write(Duplicate("orders", "'order-1'"))

    expected = "duplicate not routed: address=orders id='order-1'"
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(logging.WARNING, expected)]


def test_what_is_wrong_with_diverts_is_a_line_each(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    """The core reports each once."""
    log.write(DivertLoop("d", ("d", "e", "d")))
    log.write(TransformerFailed("d", "ZeroDivisionError()"))

    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "diverts form a circle, a message is not diverted again: divert=d way=d -> e -> d"),
        (logging.WARNING, "transformer failed, messages are not diverted: divert=d reason=ZeroDivisionError()"),
    ]


def test_a_flood_of_duplicates_does_not_fill_the_log(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    """A client that sends its whole backlog again."""
    for number in range(1000):
        log.write(Duplicate("orders", f"'{number}'"))

    assert len(caplog.records) == LINES_OF_SOURCE


def test_connections_are_for_debugging_and_under_the_name_of_the_transport(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    """The protocols have lines of their own, with the user; these are there before it is known."""
    caplog.set_level(logging.DEBUG)
    log.write(ConnectionOpened(7, "AMQP", "artemis", "192.0.2.1:5"))
    log.write(ConnectionClosed(7, "AMQP", "artemis", "192.0.2.1:5", "closed by peer"))

    name = "artemis_py.transport.driver"
    assert caplog.record_tuples == [
        (name, logging.DEBUG, "connection opened: id=7 peer=192.0.2.1:5 protocol=AMQP"),
        (name, logging.DEBUG, "connection closed: id=7 peer=192.0.2.1:5 reason=closed by peer"),
    ]


def refused(cause: RefusalCause, detail: str, acceptor: str = "artemis", host: str = "192.0.2.1") -> ConnectionRefused:
    return ConnectionRefused(7, "", acceptor, f"{host}:5", cause, detail)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (refused(RefusalCause.NO_ROOM, "9 are open"), "connection refused: peer=192.0.2.1:5 reason=9 are open"),
        (refused(RefusalCause.DISPLACED, "9 are open"), "stranger displaced: peer=192.0.2.1:5 reason=9 are open"),
        (refused(RefusalCause.TLS_FAILED, "bad record"), "TLS failed: peer=192.0.2.1:5 reason=bad record"),
        (
            refused(RefusalCause.UNKNOWN_PROTOCOL, "47455420"),
            "connection speaks no protocol of this acceptor: peer=192.0.2.1:5 first_bytes=47455420",
        ),
        (refused(RefusalCause.LOGIN_TIMEOUT, "10"), "login took too long: peer=192.0.2.1:5 seconds=10"),
    ],
)
def test_each_refusal_has_a_line_of_its_own(
    log: EventLog, caplog: pytest.LogCaptureFixture, event: ConnectionRefused, line: str
) -> None:
    """WARN: an operator should know which limit, and whom it met."""
    log.write(event)

    assert caplog.record_tuples == [("artemis_py.transport.driver", logging.WARNING, line)]


def test_a_flood_of_refusals_does_not_fill_the_log(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the ports that one address comes from; refusals of another cause are still told."""
    for _ in range(1000):
        log.write(refused(RefusalCause.NO_ROOM, "9 are open"))
    log.write(refused(RefusalCause.TLS_FAILED, "bad record"))

    assert len(caplog.records) == LINES_OF_SOURCE + 1


def test_a_flood_at_one_acceptor_hides_no_line_of_another(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    """Each has its own limit of lines: what happens at the public port says nothing of the internal one."""
    for number in range(1000):
        log.write(refused(RefusalCause.NO_ROOM, "9 are open", "public", f"192.0.{number >> 8}.{number & 255}"))
    log.write(refused(RefusalCause.NO_ROOM, "9 are open", "internal"))

    assert len(caplog.records) == LINES_OF_KIND + 1
