"""The resources `reader` and `writer`: what clients without the permission to manage may ask."""

import json

import pytest
from attrs import evolve

from artemis_py.core.access import Permission
from artemis_py.core.message import Message
from artemis_py.core.plain import plain_message
from artemis_py.core.settings import QueueConfig
from artemis_py.core.view import MessageView
from tests.unit.management.world import ANYCAST, MANAGEMENT, Rules, World


def fill(world: World, name: str, count: int) -> None:
    """A queue of this name on an address of this name."""
    world.postoffice.create_address(name, ANYCAST)
    routing_type = next(iter(ANYCAST))
    world.postoffice.create_queue(QueueConfig(name=name, address=name, routing_type=routing_type))
    for number in range(count):
        message: Message = plain_message(name, MessageView(body=str(number)))
        world.postoffice.route(message, world.postoffice.addresses[name])


def names(answer: str) -> list[str]:
    return [queue["queue"] for queue in json.loads(answer)["queues"]]


def test_heads_by_pattern_leave_out_what_may_not_be_browsed() -> None:
    world = World(access=Rules((Permission.BROWSE, "a.secret"), (Permission.MANAGE, MANAGEMENT)))
    for name in ("a.b", "a.secret", "c"):
        fill(world, name, 1)

    assert names(world.call("reader", "heads", {"addresses": ["a.#"]})) == ["a.b"]
    assert names(world.call("reader", "heads", {"queues": ["c", "a.b::a.b"]})) == ["c", "a.b"]
    assert "browse" in world.refusal("reader", "heads", {"queues": ["a.secret"]})


def test_a_queue_that_is_not_there_is_named_with_the_nearest() -> None:
    world = World()
    fill(world, "orders", 0)

    assert "did you mean orders" in world.refusal("reader", "heads", {"queues": ["order"]})


def test_a_time_is_searched_for_where_times_are_noted() -> None:
    world = World()
    fill(world, "orders", 3)
    assert "enable-ingress-timestamp" in world.refusal("reader", "heads", {"queues": ["orders"], "time": 5})
    address = world.postoffice.addresses["orders"]
    address.apply_settings(evolve(address.settings, enable_ingress_timestamp=True))

    (head,) = json.loads(world.call("reader", "heads", {"queues": ["orders"], "time": 5}))["queues"]

    assert head["since"] == head["next"]
    assert "whole number" in world.refusal("reader", "heads", {"queues": ["orders"], "time": "5"})
    assert "100" in world.refusal("reader", "heads", {"queues": ["orders"] * 101, "time": 5})


def leased(holder: object, seconds: object = 60, *queues: str) -> dict[str, object]:
    return {"queues": list(queues or ("q",)), "lease": {"holder": holder, "seconds": seconds}}


def test_a_queue_is_leased_to_one_reader_at_a_time() -> None:
    """All queues of a request or none; the holder renews, and comes back under its name at once."""
    world = World()
    for queue in ("q", "r"):
        fill(world, queue, 1)
    world.call("reader", "heads", leased("one"))
    assert "leased to reader one of user 'admin' at 127.0.0.1:4000, for 60 s" in world.refusal(
        "reader", "heads", leased("two", 60, "r", "q")
    )

    assert names(world.call("reader", "heads", leased("three", 60, "r"))) == ["r"]
    assert names(world.call("reader", "heads", leased("one"))) == ["q"]
    assert names(world.call("reader", "heads", {"queues": ["q", "r"]})) == ["q", "r"]


def test_a_lease_ends_when_it_is_not_renewed() -> None:
    world = World()
    fill(world, "q", 1)
    world.call("reader", "heads", leased("one"))
    world.postoffice.now_ms += 30_000
    world.call("reader", "heads", leased("one"))
    world.postoffice.now_ms += 59_999
    assert "for 1 s" in world.refusal("reader", "heads", leased("two"))
    world.postoffice.now_ms += 1

    assert names(world.call("reader", "heads", leased("two"))) == ["q"]


def test_a_lease_is_released_by_its_holder() -> None:
    world = World()
    fill(world, "q", 1)
    world.call("reader", "heads", leased("one"))

    assert world.call("reader", "release", {"queues": ["q", "gone"], "holder": "two"}) == 0
    assert world.refusal("reader", "heads", leased("two"))
    assert world.call("reader", "release", {"queues": ["q", "gone"], "holder": "one"}) == 1
    assert names(world.call("reader", "heads", leased("two"))) == ["q"]


def test_a_lease_needs_the_permission_to_consume() -> None:
    world = World(access=Rules((Permission.CONSUME, "q")))
    fill(world, "q", 1)

    assert "consume" in world.refusal("reader", "heads", leased("one"))


@pytest.mark.parametrize(
    ("holder", "seconds"),
    [(1, 60), ("", 60), (201 * "x", 60), ("one", 0), ("one", "60"), ("one", 86_401), ("one", True)],
)
def test_what_is_no_lease_is_refused(holder: object, seconds: object) -> None:
    world = World()
    fill(world, "q", 1)

    assert "lease" in world.refusal("reader", "heads", leased(holder, seconds))
    assert world.refusal("reader", "release", {"queues": ["q"], "holder": 1})


def test_acknowledging_needs_the_permission_to_consume() -> None:
    world = World(access=Rules((Permission.CONSUME, "closed"), (Permission.MANAGE, MANAGEMENT)))
    for name in ("open", "closed"):
        fill(world, name, 2)
    ids = {name: world.postoffice.queues[name].id for name in ("open", "closed")}
    both = {"queues": [["open", ids["open"], 3], ["closed", ids["closed"], 3]]}

    assert "consume" in world.refusal("reader", "acknowledgeUpTo", both)
    assert world.postoffice.queues["open"].message_count == 2


@pytest.mark.parametrize("positions", [{}, {"queues": 1}, {"queues": [["q", 1]]}, {"queues": [[1, 2, 3]]}])
def test_what_is_no_position_is_refused(positions: dict[str, object]) -> None:
    assert World().refusal("reader", "acknowledgeUpTo", positions)


@pytest.mark.parametrize("wanted", [{"queues": "q"}, {"addresses": [1]}])
def test_what_names_no_queues_is_refused(wanted: dict[str, object]) -> None:
    assert "must be an array of texts" in World().refusal("reader", "heads", wanted)


def test_attempts_need_numbers() -> None:
    assert "needs the number" in World().refusal("writer", "commitEpoch", "w", 0, {"a": "1"})


def test_a_writer_needs_no_permission_to_manage() -> None:
    world = World(access=Rules((Permission.MANAGE, MANAGEMENT)))

    assert world.call("writer", "lastEpoch", "w") == -1
    assert world.call("writer", "commitEpoch", "w", 4, {}) is True
    assert world.call("writer", "lastEpoch", "w") == 4
    assert world.call("writer", "abortEpoch", "w", 9) == 0
    assert world.call("writer", "abortEpoch", "w", 9, ["a"]) == 0


def test_everything_else_needs_it() -> None:
    """The message is refused, not answered."""
    world = World(access=Rules((Permission.MANAGE, MANAGEMENT)))

    with pytest.raises(Exception, match="lacks permission 'manage'"):
        world.ask("broker", "getVersion")
