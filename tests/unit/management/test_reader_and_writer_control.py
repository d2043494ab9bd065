"""The resources `reader` and `writer`: what clients without the permission to manage may ask."""

import json

import pytest
from attrs import evolve

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.acknowledging import acknowledge_numbers
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.queue_config import QueueConfig
from tests.core_harness import browse_all, set_clock, set_clocks
from tests.unit.management.world import ANYCAST, MANAGEMENT, Rules, World


def fill(world: World, name: str, count: int) -> None:
    """A queue of this name on an address of this name."""
    world.domain.create_address(name, ANYCAST)
    routing_type = next(iter(ANYCAST))
    world.domain.create_queue(QueueConfig(name=name, address=name, routing_type=routing_type))
    for number in range(count):
        message: Message = plain_message(name, MessageView(body=str(number)))
        world.domain.route(message, world.domain.addresses[name])


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
    address = world.domain.addresses["orders"]
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


@set_clocks
def test_a_lease_ends_when_it_is_not_renewed(jump_ms: int) -> None:
    world = World()
    fill(world, "q", 1)
    world.call("reader", "heads", leased("one"))
    world.domain.dispatcher.steady_ms += 30_000
    world.call("reader", "heads", leased("one"))
    set_clock(world.domain, jump_ms)
    world.domain.dispatcher.steady_ms += 59_999
    assert "for 1 s" in world.refusal("reader", "heads", leased("two"))
    world.domain.dispatcher.steady_ms += 1

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
    ids = {name: world.domain.queues[name].id for name in ("open", "closed")}
    both = {"queues": [["open", ids["open"], 3], ["closed", ids["closed"], 3]]}

    assert "consume" in world.refusal("reader", "acknowledgeUpTo", both)
    assert world.domain.queues["open"].message_count == 2


def test_what_was_never_given_cannot_be_acknowledged() -> None:
    """A number above the end comes from another life of the store: what it will be given to, nobody has read."""
    world = World()
    fill(world, "q", 3)
    id = world.domain.queues["q"].id

    assert "ends before 4: there is no 5" in world.refusal("reader", "acknowledgeUpTo", {"queues": [["q", id, 5]]})
    assert world.domain.queues["q"].message_count == 3
    assert json.loads(world.call("reader", "acknowledgeUpTo", {"queues": [["q", id, 4]]}))["acknowledged"] == {"q": 3}


def test_the_queue_of_another_broker_is_not_acknowledged() -> None:
    """It may have the same name and the same id."""
    world = World()
    fill(world, "q", 3)
    id = world.domain.queues["q"].id
    numbers = {"queue": "q", "queueId": id, "sequences": [1]}

    there = {"queues": [["q", id, 3]], "node": "node-2"}
    assert json.loads(world.call("reader", "acknowledgeUpTo", there)) == {"acknowledged": {}, "complete": True}
    assert world.call("reader", "acknowledge", {**numbers, "node": "node-2"}) == 0
    assert world.domain.queues["q"].message_count == 3
    assert json.loads(world.call("reader", "acknowledgeUpTo", {**there, "node": "node-1"}))["acknowledged"] == {"q": 2}
    assert world.call("reader", "acknowledge", {**numbers, "sequences": [3], "node": "node-1"}) == 1


def test_what_is_below_the_number_to_begin_at_stays() -> None:
    world = World()
    fill(world, "q", 6)
    queue = world.domain.queues["q"]

    assert json.loads(world.call("reader", "acknowledgeUpTo", {"queues": [["q", queue.id, 6, 3]]}))["acknowledged"] == {
        "q": 3
    }
    assert [reference.sequence for reference in browse_all(queue)] == [1, 2, 6]


def finding(world: World, ranges: object, **more: object) -> dict[str, object]:
    queue = world.domain.queues["q"]
    request = {"queue": "q", "queueId": queue.id, "ranges": ranges, **more}
    answer: dict[str, object] = json.loads(world.call("reader", "find", request))
    return answer


def test_what_became_of_numbers_is_told() -> None:
    world = World()
    fill(world, "q", 8)
    queue = world.domain.queues["q"]
    acknowledge_numbers(queue, {2, 3})
    message = plain_message("q", MessageView(body="short"))
    message.expires_ms = world.domain.dispatcher.now_ms + 1
    world.domain.route(message, world.domain.addresses["q"])
    world.domain.dispatcher.now_ms += 1

    answer = finding(world, [[1, 3], [3, 4], [5, 6], [8, 12]])

    assert answer["there"] == [[1, "waiting"], [5, "waiting"], [8, "waiting"]]
    assert (answer["count"], answer["expired"], answer["next"]) == (3, 1, 10)
    assert (answer["node"], answer["queueId"], answer["skipped"]) == ("node-1", queue.id, [])
    assert answer["left"] == {"acknowledged": 2, "expired": 0, "killed": 0, "replaced": 0}


def test_what_is_found_is_named_up_to_a_limit_and_counted_beyond() -> None:
    world = World()
    fill(world, "q", 1500)

    answer = finding(world, [[1, 2000]])

    assert answer["there"] == [[number, "waiting"] for number in range(1, 101)]
    assert answer["count"] == 1500


def test_only_what_a_selector_wants_is_found() -> None:
    world = World()
    fill(world, "q", 0)
    for number in range(4):
        view = MessageView(body="x", properties={"n": number})
        world.domain.route(plain_message("q", view), world.domain.addresses["q"])

    assert finding(world, [[1, 9]], selector="n > 1")["there"] == [[3, "waiting"], [4, "waiting"]]


def test_a_queue_that_was_made_anew_has_none_of_the_numbers() -> None:
    world = World()
    fill(world, "q", 1)

    for request in (
        {"queue": "q", "queueId": 999},
        {"queue": "r", "queueId": 1},
        {"queue": "q", "queueId": world.domain.queues["q"].id, "node": "node-2"},
    ):
        answer = json.loads(world.call("reader", "find", {**request, "ranges": [[1, 2]]}))
        assert answer == {"node": "node-1", "queueId": None}


def test_finding_needs_the_permission_to_browse() -> None:
    world = World(access=Rules((Permission.BROWSE, "q"), (Permission.MANAGE, MANAGEMENT)))
    fill(world, "q", 1)
    wanted = {"queue": "q", "queueId": world.domain.queues["q"].id, "ranges": [[1, 2]]}

    assert "browse" in world.refusal("reader", "find", wanted)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"queue": 1}, "queue, queueId and ranges"),
        ({"ranges": []}, "array of arrays"),
        ({"ranges": [[2, 1]]}, "from and to"),
        ({"ranges": [[1, True]]}, "from and to"),
        ({"ranges": [[1, 2]] * 1001}, "1000"),
        ({"selector": 1}, "selector must be text"),
        ({"selector": "n >"}, "end of the selector"),
    ],
)
def test_what_cannot_be_looked_for_is_refused(more: dict[str, object], reason: str) -> None:
    world = World()
    fill(world, "q", 1)
    wanted = {"queue": "q", "queueId": world.domain.queues["q"].id, "ranges": [[1, 2]], **more}

    assert reason in world.refusal("reader", "find", wanted)


@pytest.mark.parametrize(
    "positions",
    [{}, {"queues": 1}, {"queues": [["q", 1]]}, {"queues": [[1, 2, 3]]}, {"queues": [["q", 1, 2, "3"]]}],
)
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


@pytest.mark.parametrize(
    ("operation", "parameter", "stays"),
    [
        ("heads", {"queues": ["q"]}, False),
        ("heads", {"queues": ["q"], "lease": {"holder": "one", "seconds": 60}}, True),
        ("acknowledgeUpTo", {"queues": [["q", 1, 1]]}, True),
        ("acknowledge", {"queue": "q", "queueId": 1, "sequences": [1]}, True),
    ],
)
def test_a_queue_whose_numbers_somebody_counts_on_is_not_deleted_for_being_unused(
    operation: str, parameter: dict[str, object], stays: bool
) -> None:
    """A reader that was stopped for the night goes on where it stood; one made again would begin with other numbers."""
    world = World()
    world.domain.create_address("q", ANYCAST)
    routing_type = next(iter(ANYCAST))
    config = QueueConfig(name="q", address="q", routing_type=routing_type, auto_created=True)
    queue = world.domain.create_queue(config, id=1)
    assert queue.settings.auto_delete

    world.call("reader", operation, parameter)

    assert queue.settings.auto_delete is not stays
