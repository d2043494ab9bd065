"""Queues as OpenWire clients use them: windows, acknowledgements, redelivery (openwire §13, §14)."""

from typing import Any

import pytest
from attrs import evolve

from artemis_openwire.engine.codec import write_nested
from artemis_openwire.engine.commands import (
    ConnectionError,
    ConsumerControl,
    ConsumerInfo,
    MessageAck,
    MessagePull,
    ProducerAck,
    ProducerInfo,
    RemoveInfo,
    Response,
)
from artemis_openwire.engine.structure import Throwable
from artemis_openwire.engine.structures import ActiveMQQueue, ConnectionId, MessageId, ProducerId, SessionId
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import set_clock, set_clocks
from tests.openwire_site import Client, Site, connected, id_of, number_of, queue, text_of, topic

DELIVERED, POISON, STANDARD, INDIVIDUAL = 0, 1, 2, 4
ORDERS = queue("orders")


@pytest.mark.parametrize("version", range(1, 13))
def test_what_is_sent_is_received_in_every_version(version: int) -> None:
    site = Site()
    client = connected(site, version=version)
    client.consume(ORDERS)
    client.send(ORDERS, "hello")

    (dispatch,) = client.dispatches()

    assert (text_of(dispatch), dispatch.destination, dispatch.redelivery_counter) == ("hello", ORDERS, 0)


def test_a_durable_message_is_answered_when_it_is_stored(tmp_path: Any) -> None:
    """openwire §13: the answer promises that the message survives."""
    site = Site(tmp_path)
    client = connected(site)
    client.done(ProducerInfo(producer_id=ProducerId(connection_id="c1", session_id=1, value=2), destination=ORDERS))
    client.tell(client.text(ORDERS), answered=True)

    before = client.received_before_commit()
    after = client.received()

    site.crash()
    assert (before, [type(one) for one in after]) == ([], [Response])


def test_a_message_survives_a_restart(tmp_path: Any) -> None:
    site = Site(tmp_path)
    connected(site).send(ORDERS, "kept")
    site.crash()
    again = Site(tmp_path)
    client = connected(again)
    client.consume(ORDERS)

    texts = client.texts()

    again.crash()
    assert texts == ["kept"]


def test_the_window_holds_back_and_acknowledgements_open_it() -> None:
    """openwire §14.3."""
    client = connected(Site())
    client.consume(ORDERS, prefetch=2)
    client.send(ORDERS, "1", "2", "3", "4")
    first, second = client.dispatches()
    client.ack(first, first)
    (third,) = client.dispatches()
    client.ack(second, third, count=2)

    assert client.texts() == ["4"]


def test_what_the_application_has_seen_opens_the_window() -> None:
    """openwire §14.3: without this a client that acknowledges many at once would wait for ever."""
    client = connected(Site())
    client.consume(ORDERS, prefetch=2)
    client.send(ORDERS, "1", "2", "3", "4", "5")
    first, second = client.dispatches()
    client.ack(first, second, kind=DELIVERED, count=2)
    third, fourth = client.dispatches()
    client.ack(first, fourth, count=4)

    assert [text_of(third), text_of(fourth), *client.texts()] == ["3", "4", "5"]


def test_a_client_cannot_open_its_window_beyond_what_it_has() -> None:
    client = connected(Site())
    client.consume(ORDERS, prefetch=1)
    client.send(ORDERS, *"123456")
    (first,) = client.dispatches()
    client.ack(first, first, kind=DELIVERED, count=1_000_000)

    assert client.texts() == ["2"]


def test_a_range_is_not_everything_up_to_its_end() -> None:
    """openwire §14.3: sessions of one consumer acknowledge in any order."""
    site = Site()
    client = connected(site)
    client.consume(ORDERS)
    client.send(ORDERS, "1", "2", "3")
    _, second, _ = client.dispatches()
    client.ack(second, second)
    client.lose()

    other = connected(site, "c2")
    other.consume(ORDERS)

    assert other.texts() == ["1", "3"]


def test_the_cost_of_a_range_is_that_of_the_window() -> None:
    """Not of all deliveries that came and went while one stayed."""
    client = connected(Site())
    client.consume(ORDERS)
    client.send(ORDERS, "stays", "1", "2")
    first, second, third = map(id_of, client.dispatches())
    exchange = client.handler.exchange
    assert exchange is not None
    consumer = exchange.consumers.find(write_nested(client.consumer(), client.version))
    assert consumer is not None
    dispatched = consumer.dispatched
    far = third.broker_sequence_id + 1_000_000
    dispatched[far] = dispatched.pop(third.broker_sequence_id)
    before = client.site.host.meter.work
    last = evolve(third, broker_sequence_id=far)
    client.done(
        MessageAck(consumer_id=client.consumer(), ack_type=STANDARD, first_message_id=second, last_message_id=last)
    )

    assert client.site.host.meter.work - before < 10_000
    assert list(dispatched) == [first.broker_sequence_id]


def test_a_range_without_a_beginning_covers_all_before() -> None:
    site = Site()
    client = connected(site)
    client.consume(ORDERS)
    client.send(ORDERS, "1", "2", "3")
    _, second, _ = client.dispatches()
    client.ack(None, second, count=2)
    client.lose()

    other = connected(site, "c2")
    other.consume(ORDERS)

    assert other.texts() == ["3"]


def test_an_individual_acknowledgement_is_about_one_message() -> None:
    site = Site()
    client = connected(site)
    client.consume(ORDERS)
    client.send(ORDERS, "1", "2", "3")
    _, second, _ = client.dispatches()
    client.ack(None, second, kind=INDIVIDUAL)
    client.lose()

    other = connected(site, "c2")
    other.consume(ORDERS)

    assert other.texts() == ["1", "3"]


def test_an_acknowledgement_of_nothing_known_is_ignored() -> None:
    """openwire §14.3: it names a delivery of a connection that is gone."""
    client = connected(Site())
    client.consume(ORDERS)
    client.send(ORDERS, "1")
    (first,) = client.dispatches()
    unknown = MessageId(producer_id=ProducerId(connection_id="other"), producer_sequence_id=7, broker_sequence_id=7)
    client.done(MessageAck(consumer_id=client.consumer(), ack_type=STANDARD, last_message_id=unknown, message_count=1))
    client.done(MessageAck(consumer_id=client.consumer(9), ack_type=STANDARD, last_message_id=unknown))
    client.ack(first, first)

    assert client.site.domain.queue("orders").message_count == 0


def test_an_acknowledgement_by_the_id_of_the_message_counts() -> None:
    """openwire §15.7: after a reconnection a client acknowledges under the number of the old connection."""
    client = connected(Site())
    client.consume(ORDERS)
    client.send(ORDERS, "1", "2", "3")
    first, second, _ = client.dispatches()
    old = [MessageId(producer_id=id_of(one).producer_id, producer_sequence_id=id_of(one).producer_sequence_id)
           for one in (first, second)]  # fmt: skip
    client.done(
        MessageAck(
            consumer_id=client.consumer(), ack_type=2, first_message_id=old[0], last_message_id=old[1], message_count=2
        )
    )

    assert client.site.domain.queue("orders").message_count == 1


def test_messages_that_were_only_prefetched_are_not_redelivered() -> None:
    """openwire §14.7: the application has seen those up to the last that the client names."""
    site = Site()
    client = connected(site)
    client.consume(ORDERS)
    client.send(ORDERS, "1", "2", "3")
    _, second, _ = client.dispatches()
    client.remove(client.consumer(), number_of(second))

    other = connected(site, "c2")
    other.consume(ORDERS)

    found = [(text_of(one), one.redelivery_counter) for one in other.dispatches()]
    assert found == [("1", 1), ("2", 1), ("3", 0)]


@pytest.mark.parametrize(("last", "expected"), [(-1, [0, 0]), (-2, [1, 1])], ids=["none seen", "not known"])
def test_what_a_client_that_leaves_says_about_its_deliveries(last: int, expected: list[int]) -> None:
    site = Site()
    client = connected(site)
    client.consume(ORDERS)
    client.send(ORDERS, "1", "2")
    client.dispatches()
    client.done(RemoveInfo(object_id=SessionId(connection_id="c1", value=1), last_delivered_sequence_id=last))

    other = connected(site, "c2")
    other.consume(ORDERS)

    assert [one.redelivery_counter for one in other.dispatches()] == expected


def test_a_broken_connection_counts_as_an_attempt() -> None:
    site = Site()
    client = connected(site)
    client.consume(ORDERS)
    client.send(ORDERS, "1")
    client.dispatches()
    client.lose()

    other = connected(site, "c2")
    other.consume(ORDERS)

    assert [one.redelivery_counter for one in other.dispatches()] == [1]


def test_a_removed_connection_gives_back_what_was_seen() -> None:
    """openwire §12.3: Java closes a connection without closing its consumers."""
    site = Site()
    client = connected(site)
    client.consume(ORDERS)
    client.send(ORDERS, "1", "2")
    first, _ = client.dispatches()
    client.done(RemoveInfo(object_id=ConnectionId(value="c1"), last_delivered_sequence_id=number_of(first)))

    other = connected(site, "c2")
    other.consume(ORDERS)

    assert [one.redelivery_counter for one in other.dispatches()] == [1, 0]


@pytest.mark.parametrize("kind", [3, 5, 9], ids=["redelivered", "unmatched", "unknown"])
def test_other_kinds_of_acknowledgements_change_nothing(kind: int) -> None:
    """openwire §14.3: a client that tries again by itself says so; others are not for clients to send."""
    client = connected(Site())
    client.consume(ORDERS, prefetch=1)
    client.send(ORDERS, "1", "2")
    (first,) = client.dispatches()
    client.ack(first, first, kind=kind)
    found = client.texts(), client.site.domain.queue("orders").message_count
    client.ack(first, first)

    assert found == ([], 2)
    assert (client.texts(), client.site.domain.queue("orders").message_count) == (["2"], 1)


def test_a_message_that_the_client_gives_up_is_a_dead_letter() -> None:
    site = Site(settings=AddressSettings(dead_letter_address="DLQ"))
    client = connected(site)
    client.consume(queue("DLQ"), value=2)
    client.consume(ORDERS)
    client.send(ORDERS, "bad", "good")
    bad, _ = client.dispatches()
    client.ack(bad, bad, kind=POISON, poison_cause=Throwable("java.lang.Exception", "why"))

    (dead,) = client.dispatches()

    assert (text_of(dead), dead.destination) == ("bad", queue("DLQ"))
    assert site.domain.queue("orders").message_count == 1


def test_a_message_that_the_client_finds_expired_goes_to_the_expiry_address() -> None:
    site = Site(settings=AddressSettings(expiry_address="expired"))
    client = connected(site)
    client.consume(queue("expired"), value=2)
    client.consume(ORDERS)
    client.send(ORDERS, "late")
    (late,) = client.dispatches()
    client.ack(late, late, kind=6)

    assert client.texts() == ["late"]
    assert site.domain.queue("orders").messages_expired == 1


def test_a_browser_sees_all_and_then_the_end() -> None:
    """openwire §14.6."""
    client = connected(Site())
    client.send(ORDERS, "1", "2", "3")
    client.consume(ORDERS, browser=True, prefetch=2)
    first, second = client.dispatches()
    client.ack(first, second, count=2)

    third, end = client.dispatches()

    assert (text_of(third), end.message, end.destination) == ("3", None, None)
    assert client.site.domain.queue("orders").message_count == 3


@set_clocks
def test_pulls(jump_ms: int) -> None:
    """openwire §14.5: now or never, within a time, or whenever there is one."""
    site = Site()
    client = connected(site)
    client.consume(ORDERS, prefetch=0)

    def pull(timeout: int) -> list[str]:
        client.tell(MessagePull(consumer_id=client.consumer(), destination=ORDERS, timeout=timeout))
        return client.texts()

    assert pull(-1) == [""]
    assert pull(500) == []
    set_clock(site.domain, jump_ms)
    site.pass_time(0.4)
    assert client.texts() == []
    site.pass_time(0.2)
    assert client.texts() == [""]
    client.send(ORDERS, "1", "2", "3", "4")
    assert client.texts() == []
    assert pull(-1) == ["1"]
    assert pull(500) == ["2"]
    site.pass_time(1)
    assert client.texts() == []
    assert pull(0) == ["3"]
    client.tell(MessagePull(consumer_id=client.consumer(), destination=ORDERS, timeout=0))
    assert client.texts() == ["4"]
    assert pull(0) == []
    client.send(ORDERS, "5")
    assert client.texts() == ["5"]


def test_a_client_that_reconnects_opens_its_window_later() -> None:
    """openwire §15.7: consumers are declared with no window, and get theirs with ConsumerControl."""
    client = connected(Site())
    client.send(ORDERS, "1")
    client.consume(ORDERS, prefetch=0)
    before = client.texts()
    client.done(ConsumerControl(consumer_id=client.consumer(), destination=ORDERS, prefetch=10))

    assert (before, client.texts()) == ([], ["1"])


def test_a_higher_priority_of_a_consumer_is_served_first() -> None:
    client = connected(Site())
    client.consume(ORDERS, value=1, priority=0)
    client.consume(ORDERS, value=2, priority=5, prefetch=2)
    client.send(ORDERS, "1", "2", "3")

    got = [one.consumer_id.value for one in client.dispatches() if one.consumer_id is not None]

    assert got == [2, 2, 1]


def test_an_exclusive_consumer_gets_everything() -> None:
    client = connected(Site())
    client.consume(ORDERS, value=1)
    client.consume(ORDERS, value=2, exclusive=True)
    client.consume(ORDERS, value=3, exclusive=True)
    client.send(ORDERS, "1", "2", "3")
    before = [one.consumer_id.value for one in client.dispatches() if one.consumer_id is not None]
    client.remove(client.consumer(2))
    client.remove(client.consumer(3))
    after = [one.consumer_id.value for one in client.dispatches() if one.consumer_id is not None]

    assert (before, set(after[-3:])) == ([2, 2, 2], {1})


def test_the_first_message_of_a_group_says_so() -> None:
    client = connected(Site())
    client.consume(ORDERS, value=1)
    client.consume(ORDERS, value=2)
    client.send(ORDERS, "1", "2", group_id="g")

    found = client.dispatches()

    assert len({one.consumer_id for one in found}) == 1
    assert [one.message.jmsx_group_first_for_consumer for one in found if one.message] == [True, False]


def test_a_producer_window_is_given_back() -> None:
    """openwire §13: a producer without answers may have so many octets on their way."""
    client = connected(Site())
    windowed = ProducerId(connection_id="c1", session_id=1, value=5)
    client.done(ProducerInfo(producer_id=windowed, destination=ORDERS, window_size=2000))
    client.tell(client.text(ORDERS, "abcd", producer_id=windowed))

    (ack,) = client.received()

    assert isinstance(ack, ProducerAck)
    assert (ack.producer_id, ack.size) == (windowed, 1024 + 8)


def test_what_was_declared_twice_is_there_once() -> None:
    """openwire §12.2: clients that reconnect declare what may still be there."""
    client = connected(Site())
    client.done(ProducerInfo(producer_id=client.producer))
    client.consume(ORDERS)
    client.consume(ORDERS)

    assert len(client.site.domain.queue("orders").consumers) == 1


@pytest.mark.parametrize(
    ("destination", "name"), [(queue("a"), ActiveMQQueue), (topic("a"), type(topic("a")))], ids=["queue", "topic"]
)
def test_a_name_may_be_a_queue_and_a_topic(destination: Any, name: type) -> None:
    client = connected(Site())
    client.consume(topic("a"), value=1)
    client.consume(queue("a"), value=2)
    client.send(destination, "m")

    assert [type(one.destination) for one in client.dispatches()] == [name]


def test_a_refused_one_way_message_becomes_a_connection_error() -> None:
    """openwire §11: an ExceptionResponse that nobody waits for would be dropped."""
    client = connected(Site())
    client.tell(client.text(None))

    (told,) = client.received()

    assert isinstance(told, ConnectionError)
    assert told.exception is not None
    assert told.exception.class_name == "javax.jms.InvalidDestinationException"


def test_a_consumer_is_closed_with_its_queue() -> None:
    client = connected(Site())
    client.consume(ORDERS)
    client.site.domain.delete_queue("orders", force=True)

    error, control = client.received()

    assert isinstance(error, ConnectionError)
    assert (control.consumer_id, control.close) == (client.consumer(), True)


def test_sessions_are_checked() -> None:
    client = connected(Site())

    unknown = ConsumerInfo(consumer_id=client.consumer(session=7), destination=ORDERS, prefetch_size=1)

    assert client.refused(unknown) == "IllegalStateException"


def test_a_closed_session_takes_its_consumers_along() -> None:
    client: Client = connected(Site())
    client.consume(ORDERS)
    client.done(RemoveInfo(object_id=SessionId(connection_id="c1", value=1)))

    assert client.site.domain.queue("orders").consumers == []
