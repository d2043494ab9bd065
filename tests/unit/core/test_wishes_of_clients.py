"""What clients of some protocols ask of queues and names: expiry by the client, exclusive consumers, chosen names."""

from typing import Any

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import EXPIRED, Consumer
from artemis_py.core.queues.queue import Queue
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.errors import AddressExists, NotAuthorized, QueueExists
from tests.core_harness import Recorder, make_domain, make_message, make_queue, make_session


def attached(session: Session, queue: Queue, exclusive: bool = False, priority: int = 0) -> tuple[Consumer, Recorder]:
    recorder = Recorder()
    consumer = session.consume(queue, recorder, priority=priority, exclusive=exclusive)
    consumer.grant(100)
    return consumer, recorder


def fill(queue: Queue, *bodies: str, group: str | None = None) -> None:
    for body in bodies:
        properties: dict[str, Any] = {} if group is None else {"JMSXGroupID": group}
        message = make_message(body, **properties)
        message.has_group = group is not None
        queue.take(message)


def test_a_delivery_that_its_consumer_finds_expired_goes_to_the_expiry_address() -> None:
    domain = make_domain({"#": AddressSettings(expiry_address="expired")})
    queue, expired = make_queue(domain), make_queue(domain, "expired")
    consumer, recorder = attached(make_session(domain), queue)
    fill(queue, "late")
    domain.dispatcher.run()
    (reference,) = recorder.take()
    consumer.settle(reference, EXPIRED)

    assert (queue.message_count, queue.messages_expired, expired.message_count) == (0, 1, 1)


def test_an_exclusive_consumer_gets_all_and_the_next_one_follows() -> None:
    domain = make_domain()
    queue, session = make_queue(domain), make_session(domain)
    _, ordinary = attached(session, queue, priority=9)
    first, of_first = attached(session, queue, exclusive=True)
    second, of_second = attached(session, queue, exclusive=True)
    fill(queue, "1", "2")
    domain.dispatcher.run()
    got = of_first.bodies(), of_second.bodies(), ordinary.bodies()
    session.close_consumer(first)
    domain.dispatcher.run()
    then = of_second.bodies(), ordinary.bodies()
    session.close_consumer(second)
    domain.dispatcher.run()

    assert got == (["1", "2"], [], [])
    assert then == (["1", "2"], [])
    assert ordinary.bodies() == ["1", "2"]
    assert queue.assignment is None


def test_an_exclusive_consumer_waits_for_what_others_have() -> None:
    """Otherwise an older message could come back behind newer ones."""
    domain = make_domain()
    queue, session = make_queue(domain), make_session(domain)
    consumer, ordinary = attached(session, queue)
    fill(queue, "1")
    domain.dispatcher.run()
    (reference,) = ordinary.take()
    _, exclusive = attached(session, queue, exclusive=True)
    fill(queue, "2")
    domain.dispatcher.run()
    before = exclusive.bodies()
    consumer.settle(reference, 0)
    domain.dispatcher.run()

    assert (before, exclusive.bodies(), ordinary.bodies()) == ([], ["2"], [])


def test_an_exclusive_consumer_ends_groups_for_the_time() -> None:
    domain = make_domain()
    queue, session = make_queue(domain), make_session(domain)
    _, first = attached(session, queue)
    exclusive, of_exclusive = attached(session, queue, exclusive=True)
    fill(queue, "1", group="a")
    fill(queue, "2", group="b")
    domain.dispatcher.run()
    got = of_exclusive.bodies(), first.bodies()
    session.close_consumer(exclusive)
    domain.dispatcher.run()

    assert (got, first.bodies()) == ((["1", "2"], []), ["1", "2"])


def test_the_first_message_of_a_group_is_marked_for_its_consumer() -> None:
    domain = make_domain()
    queue, session = make_queue(domain), make_session(domain)
    marks: list[bool] = []

    class Marking(Recorder):
        def deliver(self, reference: object) -> None:
            marks.append(consumer.is_first_of_group)

    consumer = session.consume(queue, Marking())
    consumer.grant(10)
    fill(queue, "1", "2", group="g")
    domain.dispatcher.run()

    assert marks == [True, False]


@pytest.mark.parametrize("routing_type", RoutingType)
def test_a_client_may_choose_the_name_of_a_temporary_node(routing_type: RoutingType) -> None:
    domain = make_domain()
    session = make_session(domain)
    node = session.create_node(routing_type, "mine")
    owned = session.owns_temporary("mine"), make_session(domain).owns_temporary("mine"), session.owns_temporary("no")
    with pytest.raises((AddressExists, QueueExists)):
        session.create_node(routing_type, "mine")
    session.close()

    assert (node.name, owned, "mine" in domain.addresses) == ("mine", (True, False, None), False)


def test_names_of_the_broker_itself_are_no_names_for_temporary_nodes() -> None:
    domain = make_domain()
    name = domain.options.internal_naming_prefix + "x"

    with pytest.raises(NotAuthorized):
        make_session(domain).create_node(RoutingType.MULTICAST, name)


def test_the_queue_of_a_name_is_not_that_of_a_subscriber() -> None:
    """An address may be a topic as well, with subscribers that came first."""
    domain = make_domain()
    session = make_session(domain)
    subscriber = make_queue(domain, "sub", RoutingType.MULTICAST, address="both")
    queue = session.anycast_queue("both")
    session.producer("both", RoutingType.ANYCAST).send(make_message())

    assert (queue.name, queue.message_count, subscriber.message_count) == ("both", 1, 0)


def test_a_sender_creates_the_queue_beside_subscribers() -> None:
    domain = make_domain()
    make_queue(domain, "sub", RoutingType.MULTICAST, address="both")
    make_session(domain).producer("both", RoutingType.ANYCAST).send(make_message())

    assert domain.queue("both").message_count == 1


def test_a_queue_of_another_address_has_a_full_name() -> None:
    domain = make_domain()
    make_queue(domain, "sub", RoutingType.MULTICAST, address="topic")
    session = make_session(domain)

    assert [session.full_name(name) for name in ("sub", "topic", "new")] == ["topic::sub", "topic", "new"]


@pytest.mark.parametrize("selector", ["JMSRedelivered = FALSE", "JMSXDeliveryCount = 1", "JMSXDeliveryCount < 2"])
def test_a_message_that_enters_a_queue_was_not_delivered_before(selector: str) -> None:
    """The filter of a subscription is asked before the queue has the message."""
    domain = make_domain()
    queue = make_queue(domain, "sub", RoutingType.MULTICAST, address="topic", filter=selector)
    make_session(domain).producer("topic", RoutingType.MULTICAST).send(make_message())

    assert queue.message_count == 1
