"""Counters never fall, whatever is created and deleted, even during a scrape; in the end they are those of a model."""

from collections import Counter
from collections.abc import Callable
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.queues.outcomes import ACCEPTED
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.transaction import Transaction
from artemis_py.management.metrics import broker_metrics
from tests.core_harness import Recorder, make_queue, make_session, send
from tests.examples import examples
from tests.unit.management.metrics.world import MetricsWorld

# A queue `a1` is bound to address `a`. Names are few, so that most steps find what they are about.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "send", "send", "attach", "settle", "claim", "commit", "delete", "delete address"]),
        st.sampled_from("ab"),
        st.integers(0, 1),
    ),
    min_size=10,
    max_size=60,
)
COUNTERS = ("messages_added", "messages_acknowledged", "messages_killed", "messages_routed", "messages_unrouted")


class History:
    """Does the steps in a broker, and counts in the simplest way what should be counted."""

    def __init__(self) -> None:
        self.world = MetricsWorld()
        self.model: Counter[str] = Counter()
        self.consumers: list[Consumer] = []
        self.transactions: list[Transaction] = []

    def step(self, what: str, name: str, number: int) -> None:
        """Do one step, or nothing if it makes no sense now."""
        domain, queue = self.world.domain, f"{name}{number}"
        match what:
            case "create" if queue not in domain.queues:
                make_queue(domain, queue, address=name, routing_type=RoutingType.MULTICAST)
                self.model["queues_created"] += 1
                if number == 0:
                    self.attach(queue, 3)
            case "send" if name in domain.addresses:
                takers = sum(each.address.name == name for each in domain.queues.values())
                send(domain, name, "x")
                self.model["messages_added"] += takers
                self.model["messages_routed" if takers else "messages_unrouted"] += 1
            case "attach" if queue in domain.queues:
                self.attach(queue, number + 1)
            case "settle":
                for consumer, reference in self.deliveries():
                    consumer.settle(reference, ACCEPTED)
                    self.model["messages_acknowledged"] += 1
            case "claim":
                transaction = Transaction(1, domain.dispatcher.steady_ms)
                for _, reference in self.deliveries():
                    transaction.settle(reference, ACCEPTED)
                self.transactions.append(transaction)
            case "commit":
                for transaction in self.transactions:
                    self.model["messages_acknowledged"] += len(transaction.settlements)
                    transaction.commit()
                self.transactions.clear()
            case "delete" if queue in domain.queues:
                self.delete(queue)
            case "delete address" if name in domain.addresses:
                for each in [queue for queue in domain.queues if queue.startswith(name)]:
                    self.delete(each)
                domain.delete_address(name, force=True)
            case _:
                pass

    def attach(self, name: str, credit: int) -> None:
        """Attach a consumer to a queue."""
        consumer = make_session(self.world.domain).consume(self.world.domain.queues[name], Recorder())
        consumer.grant(credit)
        self.world.settle_down()
        self.consumers.append(consumer)

    def deliveries(self) -> list[tuple[Consumer, Reference]]:
        """What consumers have and have not settled, of queues that exist."""
        return [
            (consumer, reference)
            for consumer in self.consumers
            if not consumer.queue.is_deleted
            for reference in list(consumer.outstanding.all())
        ]

    def delete(self, name: str) -> None:
        """Delete a queue with its messages; those that somebody has are given back later, and not killed."""
        queue = self.world.domain.queues[name]
        self.model["messages_killed"] += queue.waiting_count
        self.model["queues_deleted"] += 1
        self.world.domain.delete_queue(name, force=True)

    def scrape(self, between: Callable[[], object]) -> Counter[str]:
        """Return the counters of a scrape."""
        found: Counter[str] = Counter()
        for family in self.world.scrape(between):
            if family.name in (*COUNTERS, "queues_created", "queues_deleted"):
                found[family.name] = int(family.samples[0].value)
        return found


@settings(max_examples=examples(100), deadline=None)
@given(STEPS)
def test_counters_never_fall_and_miss_nothing(steps: list[tuple[str, str, int]]) -> None:
    """A scrape begins before each step that is not done yet; the next ones are done between its slices of one queue."""
    history = History()
    waiting = iter(steps)

    def do_one() -> bool:
        step = next(waiting, None)
        if step is not None:
            history.step(*step)
        return step is not None

    before: Counter[str] = Counter()
    with patch.object(broker_metrics, "PER_STEP", 1):
        while do_one():
            now = history.scrape(do_one)
            assert all(now[name] >= count for name, count in before.items())
            before = now
        last = history.scrape(lambda: None)

    assert all(last[name] >= count for name, count in before.items())
    assert +last == +history.model
