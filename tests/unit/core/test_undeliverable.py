"""What becomes of a message that nobody could use, whatever it was sent as (artemis-model §3.8, §3.9)."""

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import REJECTED
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.events import Dropped, Event
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import attach, make_message, make_office, make_queue, pass_time, settle_down

ANYCAST, MULTICAST = RoutingType.ANYCAST, RoutingType.MULTICAST

SHIPPED = AddressSettings(
    dead_letter_address="DLQ",
    expiry_address="ExpiryQueue",
    max_delivery_attempts=2,
    default_queue_routing_type=ANYCAST,
)
"""What the shipped broker.xml says of every address."""


def shipped_office(settings: AddressSettings = SHIPPED) -> Domain:
    """A post office with the shipped addresses: an anycast queue for each of the two kinds."""
    office = make_office({"#": settings})
    for name in ("DLQ", "ExpiryQueue"):
        office.create_address(name, frozenset((ANYCAST,)))
        make_queue(office, name)
    return office


def topic(office: Domain, name: str = "news") -> Queue:
    """A subscription on a topic of this name."""
    office.create_address(name, frozenset((MULTICAST,)))
    return make_queue(office, f"{name}.subscription", MULTICAST, address=name)


def publish(office: Domain, address: str, body: str = "m", **options: object) -> None:
    """Send as a client does that asked for a topic."""
    message = make_message(body, routing_type=MULTICAST, **options)  # type: ignore[arg-type]
    office.route(message, office.addresses[address])
    settle_down(office)


def die(office: Domain, queue: Queue) -> None:
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
    publish(office, "news", expires_ms=office.dispatcher.now_ms + 10)
    pass_time(office, 10)

    queue.expiry.expire_due()

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


def unusable(office: Domain, queue: Queue, *bodies: str) -> None:
    """Have messages rejected that were sent to a topic."""
    recorder, consumer = attach(office, queue)
    for body in bodies or ("m",):
        publish(office, queue.address.name, body)
        consumer.settle(recorder.take()[0], REJECTED)
    consumer.close()


def counts(office: Domain) -> dict[str, int]:
    """How many messages each queue has, where there are any."""
    return {name: queue.message_count for name, queue in office.queues.items() if queue.message_count}


def test_a_collector_gets_all_of_its_dead_letters() -> None:
    """It takes no turns with the anycast queue that the shipped file has for all others."""
    settings = SHIPPED.changed(auto_create_dead_letter_resources=True, auto_create_expiry_resources=True)
    office = shipped_office(settings)

    unusable(office, topic(office), "1", "2", "3")

    assert counts(office) == {"DLQ.news": 3}


def test_a_multicast_collector_leaves_the_other_queue_its_copy() -> None:
    """As in Artemis, whose default this is."""
    settings = SHIPPED.changed(auto_create_dead_letter_resources=True, default_queue_routing_type=MULTICAST)
    office = shipped_office(settings)

    unusable(office, topic(office), "1", "2")

    assert counts(office) == {"DLQ": 2, "DLQ.news": 2}


def test_an_expired_message_of_a_topic_goes_to_its_collector() -> None:
    """`auto-create-expiry-resources`, where the expiry address is made for it too."""
    office = make_office({"#": SHIPPED.changed(auto_create_expiry_resources=True, expiry_address="late")})
    queue = topic(office)
    publish(office, "news", expires_ms=office.dispatcher.now_ms + 10)
    pass_time(office, 10)

    queue.expiry.expire_due()

    assert counts(office) == {"EXP.news": 1}


def test_a_topic_without_subscribers_has_a_collector_too() -> None:
    """`send-to-dla-on-no-route` and `auto-create-dead-letter-resources`."""
    settings = SHIPPED.changed(send_to_dla_on_no_route=True, auto_create_dead_letter_resources=True)
    office = make_office({"#": settings})
    office.create_address("news", frozenset((MULTICAST,)))

    publish(office, "news")

    assert counts(office) == {"DLQ.news": 1}


def test_a_collector_whose_name_would_be_too_long_is_done_without() -> None:
    """The message goes where it would go without collectors; nothing is raised in the middle of a settlement."""
    office = shipped_office(SHIPPED.changed(auto_create_dead_letter_resources=True))
    queue = make_queue(office, "subscription", MULTICAST, address="n" * 4096)

    unusable(office, queue)

    assert counts(office) == {"DLQ": 1}


@pytest.mark.parametrize("target", ["DLQ::second", "::second"])
def test_a_dead_letter_address_may_name_a_queue(target: str) -> None:
    """An FQQN means one queue, whatever others its address has (artemis-model §1.5)."""
    office = shipped_office(SHIPPED.changed(dead_letter_address=target))
    make_queue(office, "second", address="DLQ")

    unusable(office, topic(office), "1", "2", "3")

    assert counts(office) == {"second": 3}
    recorder, _ = attach(office, office.queues["second"])
    assert {reference.message.address for reference in recorder.take()} == {"DLQ"}


def test_a_queue_of_a_wildcard_address_takes_dead_letters() -> None:
    """Also if nobody made the dead-letter address itself."""
    office = make_office({"#": SHIPPED.changed(dead_letter_address="dead.letters")})
    make_queue(office, "all", MULTICAST, address="dead.#")

    unusable(office, topic(office))

    assert counts(office) == {"all": 1}


class Heard:
    """Keeps what was said of discarded messages."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, int]] = []

    def __call__(self, event: Event) -> None:
        assert isinstance(event, Dropped)
        self.lines.append((event.queue, event.reason, event.count))


def listening_office(settings: AddressSettings) -> tuple[Domain, Heard]:
    """A post office, and what it says."""
    heard = Heard()
    office = make_office({"#": settings})
    office.events.subscribe(heard, Dropped)
    return office, heard


NOWHERE = SHIPPED.changed(dead_letter_address="nowhere", expiry_address="nowhere")
NO_QUEUE = "dead-letter address 'nowhere' has no queue that takes it"


@pytest.mark.parametrize(
    "options", [{"enabled": False}, {"purge_on_no_consumers": True}, {"filter": "colour = 'red'"}, None]
)
def test_every_discarded_dead_letter_is_counted(options: dict[str, object] | None) -> None:
    """There is no queue, or it would throw the message away."""
    office, heard = listening_office(NOWHERE)
    if options is not None:
        make_queue(office, "nowhere", **options)  # type: ignore[arg-type]

    unusable(office, topic(office))

    assert office.discards.count == 1
    assert heard.lines == [("news.subscription", NO_QUEUE, 1)]


def test_what_no_queue_wanted_and_no_dead_letter_queue_takes_is_counted() -> None:
    """`send-to-dla-on-no-route` without a dead-letter queue."""
    office, heard = listening_office(NOWHERE.changed(send_to_dla_on_no_route=True))
    office.create_address("news", frozenset((MULTICAST,)))

    publish(office, "news")

    assert office.discards.count == 1
    assert heard.lines == [("news", f"no queue wanted it, and {NO_QUEUE}", 1)]


def test_a_flood_of_discarded_messages_is_a_line_for_each_queue_every_ten_seconds() -> None:
    """The first is told at once; the numbers add up to all."""
    office, heard = listening_office(NOWHERE)
    first, second = topic(office, "first"), topic(office, "second")

    unusable(office, first, *["m"] * 100)
    unusable(office, second, *["m"] * 30)
    at_once = list(heard.lines)
    pass_time(office, 10_000)
    then = heard.lines[1:]
    pass_time(office, 10_000)
    unusable(office, first)

    assert at_once == [("first.subscription", NO_QUEUE, 1)]
    assert then == [("first.subscription", NO_QUEUE, 99), ("second.subscription", NO_QUEUE, 30)]
    assert heard.lines[3:] == [("first.subscription", NO_QUEUE, 1)]


def test_the_lines_about_discarded_messages_are_bounded() -> None:
    """A client makes as many queues as it likes."""
    office, heard = listening_office(NOWHERE)

    for number in range(50):
        unusable(office, topic(office, f"t{number}"))
    office.discards.tell()

    assert len(heard.lines) == 1 + 20 + 1
    assert heard.lines[-1] == ("(others)", "various", 29)
    assert sum(count for _, _, count in heard.lines) == office.discards.count == 50
