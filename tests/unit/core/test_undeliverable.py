"""What becomes of a message that nobody could use, whatever it was sent as (reference §3.8, §3.9)."""

from artemis_py.core.consumer import REJECTED
from artemis_py.core.message import RoutingType
from artemis_py.core.postoffice import PostOffice
from artemis_py.core.queue import Queue
from artemis_py.core.settings import AddressSettings
from tests.core_harness import attach, make_message, make_office, make_queue, pass_time, settle_down

ANYCAST, MULTICAST = RoutingType.ANYCAST, RoutingType.MULTICAST

SHIPPED = AddressSettings(
    dead_letter_address="DLQ",
    expiry_address="ExpiryQueue",
    max_delivery_attempts=2,
    default_queue_routing_type=ANYCAST,
)
"""What the shipped broker.xml says of every address."""


def shipped_office(settings: AddressSettings = SHIPPED) -> PostOffice:
    """A post office with the shipped addresses: an anycast queue for each of the two kinds."""
    office = make_office({"#": settings})
    for name in ("DLQ", "ExpiryQueue"):
        office.create_address(name, frozenset((ANYCAST,)))
        make_queue(office, name)
    return office


def topic(office: PostOffice, name: str = "news") -> Queue:
    """A subscription on a topic of this name."""
    office.create_address(name, frozenset((MULTICAST,)))
    return make_queue(office, f"{name}.subscription", MULTICAST, address=name)


def publish(office: PostOffice, address: str, body: str = "m", **options: object) -> None:
    """Send as a client does that asked for a topic."""
    message = make_message(body, routing_type=MULTICAST, **options)  # type: ignore[arg-type]
    office.route(message, office.addresses[address])
    settle_down(office)


def die(office: PostOffice, queue: Queue) -> None:
    """Let the first message of a queue be delivered until it is a dead letter."""
    for _ in range(2):
        recorder, consumer = attach(office, queue, credit=1)
        assert len(recorder.deliveries) == 1
        consumer.close(failed=True)


def test_a_dead_letter_of_a_topic_goes_to_an_anycast_queue() -> None:
    """It is sent to the dead-letter address without a routing type, and says which one it had."""
    office = shipped_office()
    queue = topic(office)
    publish(office, "news")

    die(office, queue)

    recorder, _ = attach(office, office.queues["DLQ"])
    (dead,) = recorder.take()
    assert dead.message.routing_type == -1
    assert dead.message.extra is not None
    assert dead.message.extra["_AMQ_ORIG_ROUTING_TYPE"] == MULTICAST


def test_a_rejected_message_of_a_topic_is_a_dead_letter() -> None:
    """At once, whatever the number of attempts."""
    office = shipped_office()
    queue = topic(office)
    publish(office, "news")
    recorder, consumer = attach(office, queue)

    consumer.settle(recorder.take()[0], REJECTED)

    assert office.queues["DLQ"].message_count == 1


def test_an_expired_message_of_a_topic_goes_to_an_anycast_queue() -> None:
    """As a dead letter."""
    office = shipped_office()
    queue = topic(office)
    publish(office, "news", expires_ms=office.now_ms + 10)
    pass_time(office, 10)

    queue.expire_due()

    assert office.queues["ExpiryQueue"].message_count == 1


def test_a_topic_without_subscribers_has_dead_letters_if_that_is_wanted() -> None:
    """`send-to-dla-on-no-route`: nobody subscribed, the dead-letter queue is anycast."""
    settings = AddressSettings(dead_letter_address="DLQ", send_to_dla_on_no_route=True)
    office = shipped_office(settings)
    office.create_address("news", frozenset((MULTICAST,)))

    publish(office, "news")

    assert office.queues["DLQ"].message_count == 1


def test_what_an_earlier_move_wrote_of_the_routing_type_is_gone_after_the_next() -> None:
    """The origin of a dead letter is one place: its address, queue and routing type belong together."""
    office = shipped_office()
    queue = topic(office)
    publish(office, "news")
    die(office, queue)

    die(office, office.queues["DLQ"])

    recorder, _ = attach(office, office.queues["DLQ"])
    extra = recorder.take()[0].message.extra
    assert extra is not None
    assert extra["_AMQ_ORIG_ADDRESS"] == "DLQ"
    assert "_AMQ_ORIG_ROUTING_TYPE" not in extra
