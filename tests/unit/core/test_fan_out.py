"""One message for many queues: each keeps its copy as it would by itself, and all copies are counted."""

import pytest

from artemis_py.core.messages.message import REFERENCE_BYTES
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from tests.core_harness import make_domain, make_message, make_queue, make_session, settle_down
from tests.unit.core.test_unlisted import Subscriber


def attached(name: str, domain: Domain, **options: object) -> tuple[Queue, Subscriber]:
    """A queue at the address, and its consumer."""
    queue = make_queue(domain, name, RoutingType.MULTICAST, address="fan", durable=False, **options)
    sink = Subscriber()
    sink.consumer = make_session(domain, name).consume(queue, sink)
    sink.consumer.grant(100)
    return queue, sink


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2), (1, 0, 3, 2)])
def test_queues_of_all_kinds_get_a_message_in_their_own_way(order: tuple[int, ...]) -> None:
    """Whatever comes before an unusual one in the list, and behind it; in the end nothing is counted any more."""
    domain = make_domain({})
    kinds: list[dict[str, object]] = [{}, {"ring_size": 1}, {"enabled": False}, {"filter": "a = 1"}]
    names = ["plain", "ring", "disabled", "filtered"]
    world = {names[index]: attached(names[index], domain, **kinds[index]) for index in order}
    plain = attached("last", domain)
    settle_down(domain)
    for body in "abc":
        domain.route(make_message(body, durable=True), domain.addresses["fan"])
    waiting = [world[name][0].waiting_count for name in names]
    unlisted = [world[name][0].backlog.is_unlisted for name in names]
    references = domain.account.message_count
    settle_down(domain)
    bodies = [[one.message.data for one in world[name][1].got] for name in names]
    for queue in [*(world[name][0] for name in names), plain[0]]:
        for consumer in queue.consumers:
            for reference in consumer.unsettled():
                consumer.settle(reference, 0)

    assert waiting == [3, 1, 0, 0]
    assert unlisted == [True, False, False, False]
    assert references == 3
    assert bodies == [[b"a", b"b", b"c"], [b"c"], [], []]
    assert [one.message.data for one in plain[1].got] == [b"a", b"b", b"c"]
    assert [world[name][0].messages_added for name in names] == [3, 3, 0, 0]
    assert (domain.account.size_bytes, domain.account.message_count) == (0, 0)


def test_copies_are_counted_as_if_one_by_one() -> None:
    """A message once, and each further queue as one more reference."""
    domain = make_domain({})
    queues = [attached(f"q{number}", domain)[0] for number in range(5)]
    settle_down(domain)
    sizes: list[int] = []
    messages = [make_message("a", durable=True), make_message("a", durable=True)]
    for message in messages:
        domain.route(message, domain.addresses["fan"])
        sizes.append(domain.account.size_bytes)

    assert [message.references for message in messages] == [5, 5]
    one = messages[0].size + 4 * REFERENCE_BYTES
    assert sizes == [one, 2 * one]
    assert [queue.backlog.memory_bytes for queue in queues] == [2 * messages[0].size] * 5
