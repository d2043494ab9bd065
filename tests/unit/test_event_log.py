"""What the core decides, as the operator reads it."""

import logging

import pytest

from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.runtime.events import (
    AddressAdded,
    AddressRemoved,
    Denied,
    Dropped,
    Duplicate,
    QueueAdded,
    QueueRemoved,
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

    assert caplog.records == []


def test_a_duplicate_names_address_and_id(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    """artemis-model §3.13: WARN."""
    log.write(Duplicate("orders", "'order-1'"))

    expected = "duplicate not routed: address=orders id='order-1'"
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(logging.WARNING, expected)]


def test_a_flood_of_duplicates_does_not_fill_the_log(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    """A client that sends its whole backlog again."""
    for number in range(1000):
        log.write(Duplicate("orders", f"'{number}'"))

    assert len(caplog.records) == LINES_OF_SOURCE
