"""Whose turn it is: the ring of a queue's consumers beside a deque, through any history."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.queues.dispatch import Ring
from tests.core_harness import attach, make_domain, make_queue

STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "turn", "leave", "remove", "prefer", "arrange", "use"]), st.integers(0, 7)),
    max_size=40,
)

CONSUMERS = 8


def consumers() -> list[Consumer]:
    """Some that are in no ring."""
    domain = make_domain()
    queue = make_queue(domain, "q")
    return [attach(domain, queue)[1] for _ in range(CONSUMERS)]


@given(steps=STEPS)
def test_it_is_a_deque_that_rotates(steps: list[tuple[str, int]]) -> None:
    everybody = consumers()
    ring, model = Ring(4), deque[Consumer]()
    for name, number in steps:
        consumer = everybody[number]
        if name == "append" and consumer not in model:
            ring.append(consumer)
            model.append(consumer)
        elif name == "turn" and model:
            ring.turn()
            model.rotate(-1)
        elif name == "leave" and model:
            ring.leave()
            model.popleft()
        elif name == "remove" and consumer in model:
            ring.remove(consumer)
            model.remove(consumer)
        elif name == "prefer" and consumer in model:
            ring.prefer(consumer)
            model.remove(consumer)
            model.appendleft(consumer)
        elif name == "arrange":
            ring.arrange(everybody[:number])
            model = deque(everybody[:number])
        elif name == "use" and model:
            # What consumers with a credit of one do: the places they leave are given up some time later.
            for _ in range(20 * number):
                first = ring.first()
                ring.leave()
                ring.append(first)
                model.rotate(-1)
        assert ring.count == len(model)
        order = []
        for _ in range(ring.count):
            order.append(ring.first())
            ring.turn()
        assert order == list(model)
