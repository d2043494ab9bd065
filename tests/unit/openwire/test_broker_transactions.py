"""Local and distributed transactions of OpenWire clients (openwire §14.7, §15.1, §15.2)."""

from pathlib import Path

import pytest

from artemis_openwire.engine.commands import (
    ConnectionError,
    DataArrayResponse,
    ExceptionResponse,
    IntegerResponse,
    RemoveInfo,
    TransactionInfo,
)
from artemis_openwire.engine.structures import ConnectionId, XATransactionId
from tests.openwire_site import Client, Site, connected, number_of, queue, text_of

ORDERS = queue("orders")
BEGIN, PREPARE, COMMIT, COMMIT_TWO, ROLLBACK, RECOVER, FORGET, END = 0, 1, 2, 3, 4, 5, 6, 7
XID = XATransactionId(format_id=7, global_transaction_id=b"global", branch_qualifier=b"1")
STANDARD, INDIVIDUAL = 2, 4


def begun(site: Site) -> Client:
    client = connected(site)
    client.tell(client.step(BEGIN))
    return client


def test_messages_are_visible_at_the_commit_in_order() -> None:
    client = begun(Site())
    client.consume(ORDERS)
    client.tell(client.text(ORDERS, "1", transaction_id=client.transaction()))
    client.tell(client.text(ORDERS, "2", transaction_id=client.transaction()))
    before = client.texts()
    client.done(client.step(COMMIT))

    assert (before, client.texts()) == ([], ["1", "2"])


def test_a_rollback_discards_messages() -> None:
    client = begun(Site())
    client.consume(ORDERS)
    client.tell(client.text(ORDERS, "1", transaction_id=client.transaction()))
    client.done(client.step(ROLLBACK))

    assert client.texts() == []


def test_a_commit_removes_what_was_received() -> None:
    client = begun(Site())
    client.consume(ORDERS, prefetch=2)
    client.send(ORDERS, "1", "2", "3")
    first, second = client.dispatches()
    client.ack(first, second, count=2, transaction=client.transaction())
    before = client.texts()
    client.done(client.step(COMMIT))

    assert (before, client.texts()) == ([], ["3"])
    assert client.site.domain.queue("orders").message_count == 1


def test_after_a_rollback_the_client_keeps_its_messages() -> None:
    """openwire §14.7: the client delivers them again by itself; nobody else gets them."""
    site = Site()
    client = begun(site)
    client.consume(ORDERS)
    client.send(ORDERS, "1")
    (first,) = client.dispatches()
    client.ack(first, first, transaction=client.transaction())
    client.done(client.step(ROLLBACK))
    other = connected(site, "c2")
    other.consume(ORDERS)

    assert (client.texts(), other.texts()) == ([], [])
    client.tell(client.step(BEGIN, 2))
    client.ack(first, first, transaction=client.transaction(2))
    client.done(client.step(COMMIT, 2))
    assert site.domain.queue("orders").message_count == 0


@pytest.mark.parametrize("way", ["consumer", "connection", "lost"])
def test_the_next_consumer_is_told_of_all_attempts(way: str) -> None:
    """An attempt that a rollback counted is not counted again when the consumer leaves."""
    site = Site()
    client = begun(site)
    client.consume(ORDERS)
    client.send(ORDERS, "1")
    (first,) = client.dispatches()
    for value in (1, 2):
        client.tell(client.step(BEGIN, value))
        client.ack(first, first, transaction=client.transaction(value))
        client.done(client.step(ROLLBACK, value))
    if way == "consumer":
        client.remove(client.consumer(), number_of(first))
    elif way == "connection":
        client.done(RemoveInfo(object_id=ConnectionId(value="c1"), last_delivered_sequence_id=number_of(first)))
    else:
        client.lose()
    other = connected(site, "c2")
    other.consume(ORDERS)

    assert [one.redelivery_counter for one in other.dispatches()] == [2]


def test_an_individual_acknowledgement_in_a_transaction_opens_the_window() -> None:
    """openwire §14.3."""
    client = begun(Site())
    client.consume(ORDERS, prefetch=1)
    client.send(ORDERS, "1", "2", "3")
    (first,) = client.dispatches()
    client.ack(None, first, kind=INDIVIDUAL, transaction=client.transaction())
    (second,) = client.dispatches()
    client.done(client.step(COMMIT))

    assert (text_of(second), client.texts()) == ("2", [])


def test_a_lost_connection_rolls_back() -> None:
    site = Site()
    client = begun(site)
    client.consume(ORDERS)
    client.send(ORDERS, "1")
    (first,) = client.dispatches()
    client.ack(first, first, transaction=client.transaction())
    client.tell(client.text(ORDERS, "2", transaction_id=client.transaction()))
    client.lose()
    other = connected(site, "c2")
    other.consume(ORDERS)

    assert other.texts() == ["1"]


def test_a_failed_message_fails_the_commit() -> None:
    """openwire §15.1: the client did not wait for an answer to the message."""
    client = begun(Site())
    client.consume(ORDERS)
    client.tell(client.text(ORDERS, "1", transaction_id=client.transaction()))
    client.tell(client.text(None, "lost", transaction_id=client.transaction()))
    (told,) = client.received()
    answer = client.ask(client.step(COMMIT))

    assert isinstance(told, ConnectionError)
    assert isinstance(answer, ExceptionResponse)
    assert answer.exception is not None
    assert answer.exception.class_name == "javax.jms.TransactionRolledBackException"
    assert client.texts() == []


@pytest.mark.parametrize("kind", [COMMIT, ROLLBACK])
def test_a_transaction_that_was_not_begun_cannot_end(kind: int) -> None:
    client = connected(Site())

    assert client.refused(client.step(kind)) == "JMSException"


def test_a_transaction_begins_once() -> None:
    client = begun(Site())
    client.tell(client.text(ORDERS, "1", transaction_id=client.transaction()))
    client.tell(client.step(BEGIN))
    client.done(client.step(COMMIT))

    assert client.site.domain.queue("orders").message_count == 1


def test_a_transaction_that_took_too_long_cannot_commit() -> None:
    client = begun(Site())
    client.consume(ORDERS)
    client.tell(client.text(ORDERS, "1", transaction_id=client.transaction()))
    exchange = client.handler.exchange
    assert exchange is not None
    for transaction in list(exchange.core.transactions.values()):
        exchange.core.rollback(transaction)
    answer = client.ask(client.step(COMMIT))

    assert isinstance(answer, ExceptionResponse)
    assert answer.exception is not None
    assert answer.exception.class_name == "javax.jms.TransactionRolledBackException"


# -- distributed ---------------------------------------------------------------------------------------------------


def branch(client: Client, kind: int, xid: XATransactionId | None = XID) -> TransactionInfo:
    return TransactionInfo(connection_id=ConnectionId(value=client.name), transaction_id=xid, type=kind)


def working(client: Client, *texts: str) -> None:
    """Begin a branch, send in it, and end it."""
    client.tell(branch(client, BEGIN))
    for text in texts:
        client.tell(client.text(ORDERS, text, transaction_id=XID))
    client.done(branch(client, END))


def code(client: Client, kind: int, xid: XATransactionId | None = XID) -> str:
    """The code that a transaction manager finds in the text of a refusal."""
    answer = client.ask(branch(client, kind, xid))
    assert isinstance(answer, ExceptionResponse), answer
    assert answer.exception is not None
    assert answer.exception.class_name == "javax.transaction.xa.XAException"
    return (answer.exception.message or "").rpartition("xaErrorCode:")[2]


def listed(client: Client) -> object:
    answer = client.ask(branch(client, RECOVER, None))
    assert isinstance(answer, DataArrayResponse)
    return answer.data


def test_two_phases() -> None:
    client = connected(Site())
    client.consume(ORDERS)
    working(client, "1", "2")
    prepared = client.ask(branch(client, PREPARE))
    before = listed(client), client.texts()
    client.done(branch(client, COMMIT_TWO))

    assert isinstance(prepared, IntegerResponse)
    assert (prepared.result, before, client.texts()) == (0, ((XID,), []), ["1", "2"])
    assert (listed(client), code(client, COMMIT_TWO)) == ((), "-4")


@pytest.mark.parametrize(("end", "left"), [(COMMIT_TWO, ["1", "2"]), (ROLLBACK, ["taken"])])
def test_a_branch_that_is_prepared_is_replayed_without_effect(end: int, left: list[str]) -> None:
    """The failover transport does it between the phases; the application would hear of any error."""
    site = Site()
    client = connected(site)
    client.send(ORDERS, "taken")
    client.consume(ORDERS)
    (taken,) = client.dispatches()
    working(client, "1", "2")
    client.ack(taken, taken, transaction=XID)
    client.done(branch(client, PREPARE))
    client.lose()
    again = Client(site).log_in(fault_tolerant=True, failover_reconnect=True)
    again.consume(ORDERS)
    again.text(ORDERS, "taken")
    working(again, "1", "2")
    again.ack(taken, taken, transaction=XID)
    again.tell(branch(again, END))
    prepared = again.ask(branch(again, PREPARE))
    errors = [one for one in again.received() if isinstance(one, ConnectionError)]
    listing = listed(again)
    again.done(branch(again, end))

    assert (errors, prepared.result, listing, again.texts()) == ([], 0, (XID,), left)
    working(again, "3")
    again.done(branch(again, COMMIT))
    assert again.texts() == ["3"]


def test_a_branch_that_is_prepared_takes_no_work_of_others() -> None:
    """Of clients that have not connected again."""
    client = connected(Site())
    working(client, "1")
    client.done(branch(client, PREPARE))

    assert code(client, BEGIN) == "-6"


@pytest.mark.parametrize(("is_committed", "expected"), [(True, ["2"]), (False, [])])
def test_an_administrator_that_ends_a_branch_opens_the_window(is_committed: bool, expected: list[str]) -> None:
    """What was rolled back stays with the client, which delivers it again by itself."""
    site = Site()
    client = connected(site)
    client.send(ORDERS, "1", "2")
    client.consume(ORDERS, prefetch=1)
    (first,) = client.dispatches()
    client.tell(branch(client, BEGIN))
    client.ack(first, first, transaction=XID)
    client.done(branch(client, END))
    client.ask(branch(client, PREPARE))
    before = client.texts()
    (prepared,) = site.host.branches.prepared()
    site.host.branches.complete(prepared.xid, is_committed)
    site.pass_time(0.001)

    assert (before, client.texts()) == ([], expected)


def test_one_phase() -> None:
    client = connected(Site())
    client.consume(ORDERS)
    working(client, "1")
    client.done(branch(client, COMMIT))

    assert client.texts() == ["1"]


def test_a_branch_without_work_needs_no_second_phase() -> None:
    client = connected(Site())
    working(client)
    answer = client.ask(branch(client, PREPARE))

    assert isinstance(answer, IntegerResponse)
    assert (answer.result, code(client, COMMIT_TWO)) == (3, "-4")


def test_deliveries_leave_the_window_at_the_end_of_the_branch() -> None:
    client = connected(Site())
    client.consume(ORDERS, prefetch=1)
    client.send(ORDERS, "1", "2")
    (first,) = client.dispatches()
    client.tell(branch(client, BEGIN))
    client.ack(first, first, transaction=XID)
    client.done(branch(client, END))
    client.ask(branch(client, PREPARE))
    before = client.texts()
    client.done(branch(client, COMMIT_TWO))

    assert (before, client.texts()) == ([], ["2"])


def test_a_branch_may_be_finished_on_another_connection() -> None:
    """And the window of the consumer whose deliveries it acknowledged opens."""
    site = Site()
    client, other = connected(site), connected(site, "c2")
    client.consume(ORDERS, prefetch=1)
    client.send(ORDERS, "1", "2")
    (first,) = client.dispatches()
    client.tell(branch(client, BEGIN))
    client.ack(first, first, transaction=XID)
    client.ask(branch(client, PREPARE))
    other.done(branch(other, COMMIT_TWO))

    assert client.texts() == ["2"]


def test_after_a_rollback_of_a_prepared_branch_the_client_keeps_its_messages() -> None:
    site = Site()
    client = connected(site)
    client.consume(ORDERS)
    client.send(ORDERS, "1")
    (first,) = client.dispatches()
    client.tell(branch(client, BEGIN))
    client.ack(first, first, transaction=XID)
    client.ask(branch(client, PREPARE))
    client.done(branch(client, ROLLBACK))
    again = client.texts()
    client.ack(first, first)

    assert (again, site.domain.queue("orders").message_count) == ([], 0)


def test_a_branch_that_was_not_prepared_ends_with_its_connection() -> None:
    site = Site()
    client = connected(site)
    working(client, "1")
    client.lose()
    other = connected(site, "c2")

    assert (listed(other), code(other, COMMIT)) == ((), "-4")


def test_a_prepared_branch_survives_a_restart(tmp_path: Path) -> None:
    site = Site(tmp_path)
    client = connected(site)
    working(client, "kept")
    client.ask(branch(client, PREPARE))
    site.crash()
    again = Site(tmp_path)
    other = connected(again)
    before = listed(other)
    other.done(branch(other, COMMIT_TWO))
    other.consume(ORDERS)
    texts = other.texts()
    again.crash()

    assert (before, texts) == ((XID,), ["kept"])


@pytest.mark.parametrize(("kind", "expected"), [(COMMIT_TWO, "-6"), (FORGET, "-6")], ids=["commit", "forget"])
def test_steps_that_a_branch_is_not_ready_for(kind: int, expected: str) -> None:
    client = connected(Site())
    working(client, "1")

    assert code(client, kind) == expected


@pytest.mark.parametrize("kind", [PREPARE, COMMIT, COMMIT_TWO, ROLLBACK, FORGET, END])
def test_an_unknown_branch(kind: int) -> None:
    assert code(connected(Site()), kind) == "-4"


def test_an_id_that_is_too_long() -> None:
    client = connected(Site())
    long = XATransactionId(format_id=7, global_transaction_id=bytes(65), branch_qualifier=b"")

    assert code(client, ROLLBACK, long) == "-5"


def test_a_failed_message_fails_the_prepare() -> None:
    client = connected(Site())
    client.tell(branch(client, BEGIN))
    client.tell(client.text(None, "lost", transaction_id=XID))
    client.received()

    assert code(client, PREPARE) == "100"
