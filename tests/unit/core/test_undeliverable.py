"""What becomes of a message that nobody could use, whatever it was sent as (artemis-model §3.8, §3.9)."""

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import REJECTED
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.events import Dropped, Event
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import attach, make_domain, make_message, make_queue, pass_time, settle_down

ANYCAST, MULTICAST = RoutingType.ANYCAST, RoutingType.MULTICAST

SHIPPED = AddressSettings(
    dead_letter_address="DLQ",
    expiry_address="ExpiryQueue",
    max_delivery_attempts=2,
    default_queue_routing_type=ANYCAST,
)
"""What the shipped broker.xml says of every address."""


def shipped_domain(settings: AddressSettings = SHIPPED) -> Domain:
    """A domain with the shipped addresses: an anycast queue for each of the two kinds."""
    domain = make_domain({"#": settings})
    for name in ("DLQ", "ExpiryQueue"):
        domain.create_address(name, frozenset((ANYCAST,)))
        make_queue(domain, name)
    return domain


def topic(domain: Domain, name: str = "news") -> Queue:
    """A subscription on a topic of this name."""
    domain.create_address(name, frozenset((MULTICAST,)))
    return make_queue(domain, f"{name}.subscription", MULTICAST, address=name)


def publish(domain: Domain, address: str, body: str = "m", **options: object) -> None:
    """Send as a client does that asked for a topic."""
    message = make_message(body, routing_type=MULTICAST, **options)  # type: ignore[arg-type]
    domain.route(message, domain.addresses[address])
    settle_down(domain)


def die(domain: Domain, queue: Queue) -> None:
    """Let the first message of a queue be delivered until it is a dead letter."""
    for _ in range(2):
        recorder, consumer = attach(domain, queue, credit=1)
        assert len(recorder.deliveries) == 1
        consumer.close(failed=True)


def test_a_dead_letter_of_a_topic_goes_to_an_anycast_queue() -> None:
    """It is sent to the dead-letter address without a routing type, and says which one it had."""
    domain = shipped_domain()
    queue = topic(domain)
    publish(domain, "news")

    die(domain, queue)

    recorder, _ = attach(domain, domain.queues["DLQ"])
    (dead,) = recorder.take()
    assert dead.message.routing_type == -1
    assert dead.message.extra is not None
    assert dead.message.extra["_AMQ_ORIG_ROUTING_TYPE"] == MULTICAST


def test_a_rejected_message_of_a_topic_is_a_dead_letter() -> None:
    """At once, whatever the number of attempts."""
    domain = shipped_domain()
    queue = topic(domain)
    publish(domain, "news")
    recorder, consumer = attach(domain, queue)

    consumer.settle(recorder.take()[0], REJECTED)

    assert domain.queues["DLQ"].message_count == 1


def test_an_expired_message_of_a_topic_goes_to_an_anycast_queue() -> None:
    """As a dead letter."""
    domain = shipped_domain()
    queue = topic(domain)
    publish(domain, "news", expires_ms=domain.dispatcher.now_ms + 10)
    pass_time(domain, 10)

    queue.expiry.expire_due()

    assert domain.queues["ExpiryQueue"].message_count == 1


def test_a_topic_without_subscribers_has_dead_letters_if_that_is_wanted() -> None:
    """`send-to-dla-on-no-route`: nobody subscribed, the dead-letter queue is anycast."""
    settings = AddressSettings(dead_letter_address="DLQ", send_to_dla_on_no_route=True)
    domain = shipped_domain(settings)
    domain.create_address("news", frozenset((MULTICAST,)))

    publish(domain, "news")

    assert domain.queues["DLQ"].message_count == 1


def test_what_an_earlier_move_wrote_of_the_routing_type_is_gone_after_the_next() -> None:
    """The origin of a dead letter is one place: its address, queue and routing type belong together."""
    domain = shipped_domain()
    queue = topic(domain)
    publish(domain, "news")
    die(domain, queue)

    die(domain, domain.queues["DLQ"])

    recorder, _ = attach(domain, domain.queues["DLQ"])
    extra = recorder.take()[0].message.extra
    assert extra is not None
    assert extra["_AMQ_ORIG_ADDRESS"] == "DLQ"
    assert "_AMQ_ORIG_ROUTING_TYPE" not in extra


def unusable(domain: Domain, queue: Queue, *bodies: str) -> None:
    """Have messages rejected that were sent to a topic."""
    recorder, consumer = attach(domain, queue)
    for body in bodies or ("m",):
        publish(domain, queue.address.name, body)
        consumer.settle(recorder.take()[0], REJECTED)
    consumer.close()


def counts(domain: Domain) -> dict[str, int]:
    """How many messages each queue has, where there are any."""
    return {name: queue.message_count for name, queue in domain.queues.items() if queue.message_count}


def test_a_collector_gets_all_of_its_dead_letters() -> None:
    """It takes no turns with the anycast queue that the shipped file has for all others."""
    settings = SHIPPED.changed(auto_create_dead_letter_resources=True, auto_create_expiry_resources=True)
    domain = shipped_domain(settings)

    unusable(domain, topic(domain), "1", "2", "3")

    assert counts(domain) == {"DLQ.news": 3}


def test_a_multicast_collector_leaves_the_other_queue_its_copy() -> None:
    """As in Artemis, whose default this is."""
    settings = SHIPPED.changed(auto_create_dead_letter_resources=True, default_queue_routing_type=MULTICAST)
    domain = shipped_domain(settings)

    unusable(domain, topic(domain), "1", "2")

    assert counts(domain) == {"DLQ": 2, "DLQ.news": 2}


def test_an_expired_message_of_a_topic_goes_to_its_collector() -> None:
    """`auto-create-expiry-resources`, where the expiry address is made for it too."""
    domain = make_domain({"#": SHIPPED.changed(auto_create_expiry_resources=True, expiry_address="late")})
    queue = topic(domain)
    publish(domain, "news", expires_ms=domain.dispatcher.now_ms + 10)
    pass_time(domain, 10)

    queue.expiry.expire_due()

    assert counts(domain) == {"EXP.news": 1}


def test_a_topic_without_subscribers_has_a_collector_too() -> None:
    """`send-to-dla-on-no-route` and `auto-create-dead-letter-resources`."""
    settings = SHIPPED.changed(send_to_dla_on_no_route=True, auto_create_dead_letter_resources=True)
    domain = make_domain({"#": settings})
    domain.create_address("news", frozenset((MULTICAST,)))

    publish(domain, "news")

    assert counts(domain) == {"DLQ.news": 1}


def test_a_collector_whose_name_would_be_too_long_is_done_without() -> None:
    """The message goes where it would go without collectors; nothing is raised in the middle of a settlement."""
    domain = shipped_domain(SHIPPED.changed(auto_create_dead_letter_resources=True))
    queue = make_queue(domain, "subscription", MULTICAST, address="n" * 4096)

    unusable(domain, queue)

    assert counts(domain) == {"DLQ": 1}


@pytest.mark.parametrize("target", ["DLQ::second", "::second"])
def test_a_dead_letter_address_may_name_a_queue(target: str) -> None:
    """An FQQN means one queue, whatever others its address has (artemis-model §1.5)."""
    domain = shipped_domain(SHIPPED.changed(dead_letter_address=target))
    make_queue(domain, "second", address="DLQ")

    unusable(domain, topic(domain), "1", "2", "3")

    assert counts(domain) == {"second": 3}
    recorder, _ = attach(domain, domain.queues["second"])
    assert {reference.message.address for reference in recorder.take()} == {"DLQ"}


def test_a_queue_of_a_wildcard_address_takes_dead_letters() -> None:
    """Also if nobody made the dead-letter address itself."""
    domain = make_domain({"#": SHIPPED.changed(dead_letter_address="dead.letters")})
    make_queue(domain, "all", MULTICAST, address="dead.#")

    unusable(domain, topic(domain))

    assert counts(domain) == {"all": 1}


class Heard:
    """Keeps what was said of discarded messages."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, int]] = []

    def __call__(self, event: Event) -> None:
        assert isinstance(event, Dropped)
        self.lines.append((event.queue, event.reason, event.count))


def listening_domain(settings: AddressSettings) -> tuple[Domain, Heard]:
    """A domain, and what it says."""
    heard = Heard()
    domain = make_domain({"#": settings})
    domain.events.subscribe(heard, Dropped)
    return domain, heard


NOWHERE = SHIPPED.changed(dead_letter_address="nowhere", expiry_address="nowhere")
NO_QUEUE = "dead-letter address 'nowhere' has no queue that takes it"


@pytest.mark.parametrize(
    "options", [{"enabled": False}, {"purge_on_no_consumers": True}, {"filter": "colour = 'red'"}, None]
)
def test_every_discarded_dead_letter_is_counted(options: dict[str, object] | None) -> None:
    """There is no queue, or it would throw the message away."""
    domain, heard = listening_domain(NOWHERE)
    if options is not None:
        make_queue(domain, "nowhere", **options)  # type: ignore[arg-type]

    unusable(domain, topic(domain))

    assert domain.discards.count == 1
    assert heard.lines == [("news.subscription", NO_QUEUE, 1)]


def test_what_no_queue_wanted_and_no_dead_letter_queue_takes_is_counted() -> None:
    """`send-to-dla-on-no-route` without a dead-letter queue."""
    domain, heard = listening_domain(NOWHERE.changed(send_to_dla_on_no_route=True))
    domain.create_address("news", frozenset((MULTICAST,)))

    publish(domain, "news")

    assert domain.discards.count == 1
    assert heard.lines == [("news", f"no queue wanted it, and {NO_QUEUE}", 1)]


def test_a_flood_of_discarded_messages_is_a_line_for_each_queue_every_ten_seconds() -> None:
    """The first is told at once; the numbers add up to all."""
    domain, heard = listening_domain(NOWHERE)
    first, second = topic(domain, "first"), topic(domain, "second")

    unusable(domain, first, *["m"] * 100)
    unusable(domain, second, *["m"] * 30)
    at_once = list(heard.lines)
    pass_time(domain, 10_000)
    then = heard.lines[1:]
    pass_time(domain, 10_000)
    unusable(domain, first)

    assert at_once == [("first.subscription", NO_QUEUE, 1)]
    assert then == [("first.subscription", NO_QUEUE, 99), ("second.subscription", NO_QUEUE, 30)]
    assert heard.lines[3:] == [("first.subscription", NO_QUEUE, 1)]


def test_the_lines_about_discarded_messages_are_bounded() -> None:
    """A client makes as many queues as it likes."""
    domain, heard = listening_domain(NOWHERE)

    for number in range(50):
        unusable(domain, topic(domain, f"t{number}"))
    domain.discards.tell()

    assert len(heard.lines) == 1 + 20 + 1
    assert heard.lines[-1] == ("(others)", "various", 29)
    assert sum(count for _, _, count in heard.lines) == domain.discards.count == 50
