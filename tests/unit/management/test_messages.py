"""Operations on the messages of a queue: all that match, one, or part of the queue at a time."""

import json
from typing import Any

import pytest

from artemis_py.core.queues.consumer import FAILED, REJECTED
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.undeliverable import ORIGIN_NOTES
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.events import DeadLettered, Event
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.management import message_control
from tests.core_harness import Recorder, attach, browse_all, make_queue, send
from tests.unit.management.world import NOW_MS, Rules, World

SETTINGS = AddressSettings(dead_letter_address="DLQ", expiry_address="EXP", max_delivery_attempts=2)


def make_world(*denied: tuple[Permission, str]) -> World:
    """Queues q, other, DLQ and EXP; ten messages in q, n counts them from 1."""
    world = World(Rules(*denied))
    world.domain.settings.put("q", SETTINGS)
    for name in ("q", "other", "DLQ", "EXP"):
        make_queue(world.domain, name)
    for number in range(1, 11):
        world.publish("q", 1, n=number)
    return world


@pytest.fixture
def world() -> World:
    return make_world()


def numbers(world: World, name: str) -> list[object]:
    """The messages of a queue by their property n."""
    return [reference.lookup("n") for reference in browse_all(world.domain.queues[name])]


def part(world: World, operation: str, **wanted: object) -> Any:
    """What the form with an object answers."""
    return json.loads(world.call("queue.q", operation, wanted))


@pytest.mark.parametrize("parameters", [("n > 7", "other"), ("n > 7", "other", False), (500, "n > 7", "other", False)])
def test_messages_that_match_are_moved(world: World, parameters: tuple[object, ...]) -> None:
    assert world.call("queue.q", "moveMessages", *parameters) == 3
    assert (numbers(world, "q"), numbers(world, "other")) == ([1, 2, 3, 4, 5, 6, 7], [8, 9, 10])


def test_as_many_are_moved_as_the_request_says(world: World) -> None:
    assert world.call("queue.q", "moveMessages", 500, "", "other", False, 2) == 2
    assert numbers(world, "other") == [1, 2]


def test_a_moved_message_says_where_it_was(world: World) -> None:
    world.call("queue.q", "moveMessage", 4, "other")
    (moved,) = browse_all(world.domain.queues["other"])

    assert (moved.lookup("_AMQ_ORIG_ADDRESS"), moved.lookup("_AMQ_ORIG_QUEUE"), moved.lookup("n")) == ("q", "q", 4)


def test_copies_leave_the_messages_where_they_are(world: World) -> None:
    assert world.call("queue.q", "copyMessages", "n < 3", "other") == 2
    assert world.call("queue.q", "copyMessage", 10, "other") is True
    assert (len(numbers(world, "q")), numbers(world, "other")) == (10, [1, 2, 10])


@pytest.mark.parametrize(
    ("operation", "target"),
    [("expireMessage", "EXP"), ("sendMessageToDeadLetterAddress", "DLQ"), ("removeMessage", None)],
)
def test_one_message_is_ended(world: World, operation: str, target: str | None) -> None:
    done = [world.call("queue.q", operation, number) for number in (5, 5, 77)]

    assert done == [True, False, False]
    assert 5 not in numbers(world, "q")
    assert [numbers(world, name) for name in ("EXP", "DLQ")] == [
        [5] if target == name else [] for name in ("EXP", "DLQ")
    ]


@pytest.mark.parametrize(
    ("operation", "target"), [("expireMessages", "EXP"), ("sendMessagesToDeadLetterAddress", "DLQ")]
)
def test_messages_that_match_are_ended(world: World, operation: str, target: str) -> None:
    assert world.call("queue.q", operation, "n BETWEEN 2 AND 4") == 3
    assert numbers(world, target) == [2, 3, 4]


def test_dead_letters_return_to_their_queue(world: World) -> None:
    """As they were: without the notes of their death, which the next one writes again."""
    world.call("queue.q", "sendMessagesToDeadLetterAddress", "n > 8")
    returned = world.call("queue.DLQ", "retryMessages")
    last = browse_all(world.domain.queues["q"])[-1]

    assert (returned, numbers(world, "q")[-2:], numbers(world, "DLQ")) == (2, [9, 10], [])
    assert [last.lookup(name) for name in ORIGIN_NOTES] == [None] * len(ORIGIN_NOTES)


def test_a_moved_dead_letter_can_still_be_sent_back(world: World) -> None:
    world.call("queue.q", "sendMessagesToDeadLetterAddress", "n = 1")
    world.call("queue.DLQ", "moveMessages", None, "other")

    assert world.call("queue.other", "retryMessages") == 1
    assert numbers(world, "q")[-1] == 1


def test_a_message_without_origin_is_left_alone(world: World) -> None:
    """So is one whose queue and address are gone."""
    world.call("queue.q", "sendMessagesToDeadLetterAddress", "n > 9")
    world.publish("DLQ", 1, n=0)
    world.call("broker", "deleteAddress", "q", True)
    answer = json.loads(world.call("queue.DLQ", "retryMessages", {}))

    assert (answer["count"], answer["leftAlone"], answer["next"]) == (0, 2, None)
    assert numbers(world, "DLQ") == [10, 0]


def test_a_message_that_a_consumer_has_is_left_alone(world: World) -> None:
    recorder, _ = attach(world.domain, world.domain.queues["q"], credit=3)

    assert len(recorder.deliveries) == 3
    assert world.call("queue.q", "moveMessages", None, "other") == 7


@pytest.mark.parametrize("operation", ["moveMessages", "removeMessages", "countMessages", "retryMessages"])
def test_a_queue_is_treated_in_parts(world: World, operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer says where to continue; what arrives in between is left alone, and no message counts twice."""
    monkeypatch.setattr(message_control, "EXAMINED", 4)
    monkeypatch.setattr("artemis_py.core.queues.treating.SLICE_MESSAGES", 2)
    wanted: dict[str, object] = {"filter": "n > 3"}
    if operation == "moveMessages":
        wanted["queue"] = "other"
    count = examined = left_alone = requests = 0
    place = None
    while requests == 0 or place is not None:
        answer = part(world, operation, **wanted, **({} if place is None else {"from": place}))
        count, examined = count + answer["count"], examined + answer["examined"]
        left_alone += answer["leftAlone"]
        place = answer["next"]
        requests += 1
        world.publish("q", 1, n=100)

    assert (count + left_alone, examined) == (7, 10)
    assert requests > 1


def test_a_limit_ends_the_last_part(world: World) -> None:
    answer = part(world, "expireMessages", messageCount=3)

    assert (answer["count"], answer["next"], numbers(world, "EXP")) == (3, None, [1, 2, 3])


def test_a_full_queue_stops_a_move_and_says_how_far_it_came(world: World) -> None:
    """Nothing is lost: what did not fit is where it was."""
    world.domain.settings.put("other", AddressSettings(max_size_messages=4, address_full_policy=FullPolicy.BLOCK))
    reason = world.refusal("queue.q", "moveMessages", None, "other")

    assert "address 'other' is full" in reason
    assert "done with 4 messages before that" in reason
    assert (len(numbers(world, "q")), len(numbers(world, "other"))) == (6, 4)


def test_a_queue_that_takes_nothing_gets_nothing(world: World) -> None:
    world.call("broker", "createQueue", {"name": "picky", "address": "other", "filter-string": "n = 2"})
    moved = world.call("queue.q", "moveMessages", None, "picky")

    assert (moved, numbers(world, "picky"), len(numbers(world, "q"))) == (1, [2], 9)


@pytest.mark.parametrize(
    ("denied", "operation", "parameters"),
    [
        ((Permission.SEND, "other"), "moveMessages", (None, "other")),
        ((Permission.SEND, "other"), "copyMessage", (1, "other")),
        ((Permission.BROWSE, "q"), "copyMessages", (None, "other")),
        ((Permission.BROWSE, "q"), "listMessagesAsJSON", ()),
    ],
)
def test_management_is_no_way_around_permissions(
    denied: tuple[Permission, str], operation: str, parameters: tuple[object, ...]
) -> None:
    world = make_world(denied)

    assert f"lacks permission '{denied[0].value}'" in world.refusal("queue.q", operation, *parameters)


def test_dead_letters_return_only_where_their_sender_may_send() -> None:
    world = make_world((Permission.SEND, "closed"))
    world.domain.settings.put("closed", SETTINGS)
    queue = make_queue(world.domain, "closed")
    send(world.domain, "closed", "m")
    world.call("queue.closed", "sendMessagesToDeadLetterAddress", None)

    assert "lacks permission 'send'" in world.refusal("queue.DLQ", "retryMessages")
    assert queue.message_count == 0


@pytest.mark.parametrize(
    ("operation", "parameters", "reason"),
    [
        ("moveMessages", (None, "q"), "is the queue itself"),
        ("moveMessages", (None, "othr"), "did you mean other?"),
        ("moveMessages", ({"filter": None},), "queue must be the name of the other queue"),
        ("retryMessages", ({"queue": "other"},), "queue means nothing here"),
        ("expireMessages", ({"fliter": "x = 1"},), "no member 'fliter'"),
        ("expireMessages", ({"from": [10, 0, 5]},), "from must be what next was"),
        ("expireMessages", ({"messageID": 0},), "messageID must be the number"),
        ("expireMessages", ({"filter": "n ="},), "selector, character 4"),
        ("listMessagesAsJSON", ({"messageCount": 1001},), "up to 1000"),
    ],
)
def test_mistakes_are_told(world: World, operation: str, parameters: tuple[object, ...], reason: str) -> None:
    assert reason in world.refusal("queue.q", operation, *parameters)


def test_messages_are_listed_with_their_properties_and_without_their_bodies(world: World) -> None:
    rows = json.loads(world.call("queue.q", "listMessagesAsJSON", "n = 3"))
    (answer,) = part(world, "listMessagesAsJSON", messageID=3)["messages"]

    assert rows == [answer]
    assert (answer["messageID"], answer["address"], answer["properties"]) == (3, "q", {"n": 3})
    assert "body" not in answer


def test_a_list_goes_on_where_it_was_cut(world: World) -> None:
    seen: list[int] = []
    place = None
    while True:
        answer = part(world, "listMessagesAsJSON", messageCount=2, **({} if place is None else {"from": place}))
        seen += [row["messageID"] for row in answer["messages"]]
        place = answer["next"]
        if place is None:
            break

    assert seen == [row["messageID"] for row in json.loads(world.call("queue.q", "listMessagesAsJSON"))]
    assert len(seen) > 2


# -- dead letters ------------------------------------------------------------------------------------------------


def die(queue: Queue, world: World, *outcomes: int) -> None:
    """Let the first message fail in these ways, one attempt after the other."""
    for outcome in outcomes:
        recorder, consumer = attach(world.domain, queue, credit=1)
        assert isinstance(recorder, Recorder)
        (delivery,) = recorder.take()
        consumer.settle(delivery, outcome)
        consumer.close(False)


@pytest.mark.parametrize(
    ("outcomes", "cause", "attempts"),
    [
        ((FAILED, FAILED), "2 attempts to deliver it failed", 2),
        ((REJECTED,), "rejected by its consumer", 0),
        ((FAILED, REJECTED), "rejected by its consumer", 1),
    ],
)
def test_a_dead_letter_carries_its_cause_time_and_attempts(
    world: World, outcomes: tuple[int, ...], cause: str, attempts: int
) -> None:
    events: list[Event] = []
    world.domain.events.subscribe(events.append, DeadLettered)
    die(world.domain.queues["q"], world, *outcomes)
    (dead,) = browse_all(world.domain.queues["DLQ"])
    notes = [dead.lookup(f"_AMQ_DEATH_{name}") for name in ("CAUSE", "TIME", "ATTEMPTS")]

    assert notes == [cause, NOW_MS, attempts]
    assert events == [DeadLettered("q", cause, 1)]


def test_the_log_of_dead_letters_is_bounded(world: World) -> None:
    """One line at once, and one for the rest of ten seconds."""
    events: list[Event] = []
    world.domain.events.subscribe(events.append, DeadLettered)
    world.call("queue.q", "sendMessagesToDeadLetterAddress", None)
    world.domain.dead_letters.tell()

    assert [event.count for event in events if isinstance(event, DeadLettered)] == [1, 9]
