"""What deleted queues and addresses had counted stays in the sums of their domain."""

from artemis_py.core.queues.outcomes import ACCEPTED
from artemis_py.core.routing.departed import LEAST_LEAVING
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.transaction import Transaction
from tests.core_harness import attach, make_domain, make_queue, send
from tests.unit.core.exchange_world import make_exchange, publish


def test_counts_of_a_deleted_queue_are_kept() -> None:
    domain = make_domain()
    queue = make_queue(domain)
    send(domain, "q", "a", "b", "c")
    recorder, consumer = attach(domain, queue, credit=1)
    consumer.settle(recorder.take()[0], ACCEPTED)
    domain.delete_queue("q", force=True)

    # The two that are left go with the queue.
    departed = domain.departed
    assert (departed.queues, departed.added, departed.acknowledged, departed.killed) == (1, 3, 1, 2)
    assert departed.leaving() == []


def settled_in_transaction(domain: Domain, name: str) -> Transaction:
    """A transaction in which the only message of a new queue is settled; the queue is deleted before it ends."""
    queue = make_queue(domain, name)
    send(domain, name, "a")
    recorder, _ = attach(domain, queue)
    transaction = Transaction(1, domain.dispatcher.steady_ms)
    transaction.settle(recorder.take()[0], ACCEPTED)
    domain.delete_queue(name, force=True)
    return transaction


def test_a_delivery_that_is_settled_after_the_deletion_counts() -> None:
    domain = make_domain()
    transaction = settled_in_transaction(domain, "q")
    departed = domain.departed
    before = ([queue.name for queue in departed.leaving()], departed.acknowledged)
    transaction.commit()
    after = (departed.leaving(), departed.acknowledged)

    assert (before, after) == ((["q"], 0), ([], 1))


def test_queues_that_have_ended_do_not_pile_up() -> None:
    """Nobody need ever ask for the sums."""
    domain = make_domain()
    for number in range(3 * LEAST_LEAVING):
        settled_in_transaction(domain, f"q{number}").commit()

    assert domain.departed.acknowledged >= 2 * LEAST_LEAVING


def test_counts_of_deleted_addresses_are_kept() -> None:
    domain = make_domain()
    make_queue(domain)
    send(domain, "q", "a", "b")
    domain.create_address("empty", domain.addresses["q"].routing_types)
    send(domain, "empty", "c")
    domain.delete_address("q", force=True)
    domain.delete_address("empty")

    departed = domain.departed
    assert (departed.addresses, departed.routed, departed.unrouted) == (2, 2, 1)


def test_counts_of_deleted_exchanges_are_kept() -> None:
    domain = make_domain()
    make_exchange(domain)
    publish(domain, "e", "nobody")
    domain.exchanges.delete(domain.exchanges.exchange("e"))

    assert (domain.departed.addresses, domain.departed.unrouted) == (0, 1)
