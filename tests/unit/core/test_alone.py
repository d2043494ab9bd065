"""A consumer that is alone in its ring, and does not stay so during a visit."""

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.queues.reference import Reference
from tests.core_harness import Recorder, attach, make_domain, make_queue, make_session, send, settle_down


class Busy(Recorder):
    """A sink whose connection is full after each delivery, and which lets another consumer go on."""

    def __init__(self) -> None:
        super().__init__()
        self.own: Consumer | None = None
        self.other: Consumer | None = None

    def deliver(self, reference: Reference) -> None:
        super().deliver(reference)
        if self.own is not None:
            self.own.block()
        if self.other is not None:
            self.other.unblock()


def test_a_consumer_that_blocks_hands_over_to_one_that_becomes_free_in_the_same_visit() -> None:
    """The visit goes on with whoever is in the ring."""
    domain = make_domain()
    queue = make_queue(domain, "q", RoutingType.ANYCAST)
    busy = Busy()
    busy.own = make_session(domain).consume(queue, busy)
    busy.own.grant(10)
    free, other = attach(domain, queue)
    other.block()
    settle_down(domain)
    send(domain, "q", "a")
    assert busy.bodies() == ["a"]
    busy.own.unblock()
    busy.other = other
    send(domain, "q", "b", "c")

    assert (busy.bodies(), free.bodies()) == (["b"], ["c"])


def test_a_consumer_alone_stops_when_its_credit_is_used() -> None:
    """The rest waits, and goes to it when there is more credit."""
    domain = make_domain()
    queue = make_queue(domain, "q", RoutingType.ANYCAST)
    got, consumer = attach(domain, queue, credit=2)
    send(domain, "q", "a", "b", "c")
    first = got.bodies()
    consumer.grant(1)
    settle_down(domain)

    assert (first, got.bodies(), queue.waiting_count) == (["a", "b"], ["c"], 0)
