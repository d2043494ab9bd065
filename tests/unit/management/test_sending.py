"""Messages that management sends: Artemis' form, and the one that takes a JSON object."""

import base64
import json
from typing import Any, Final

import pytest

from artemis_py.core.messages.message import LATEST_MS, Message
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.management.sending import MAX_PROPERTIES
from tests.core_harness import browse_all, make_queue, pass_time
from tests.unit.management.world import MANAGEMENT, NOW_MS, Rules, World

OCTETS: Final = b"\x00\xff"
IN_BASE64: Final = base64.b64encode(OCTETS).decode()


def make_world(*denied: tuple[Permission, str]) -> World:
    """Queues one and two of address a."""
    world = World(Rules(*denied))
    for name in ("one", "two"):
        make_queue(world.domain, name, address="a")
    return world


@pytest.fixture
def world() -> World:
    return make_world()


def messages(world: World, name: str) -> list[Message]:
    """What is in a queue."""
    return [reference.message for reference in browse_all(world.domain.queues[name])]


@pytest.mark.parametrize("more", [(), (True,), (False,)])
@pytest.mark.parametrize(("kind", "body", "content"), [(3, "hé", "hé"), (0, IN_BASE64, OCTETS), (4, IN_BASE64, OCTETS)])
def test_message_of_artemis_form(world: World, kind: int, body: str, content: object, more: tuple[bool, ...]) -> None:
    headers = {"colour": "red", "size": 3, "is": True, "part": 0.5}
    id = world.call("queue.two", "sendMessage", headers, kind, body, True, None, None, *more)
    (message,) = messages(world, "two")

    assert (message.view.body, message.view.properties, message.durable) == (content, headers, True)
    assert (message.view.message_id, message.view.creation_time_ms) == (id, NOW_MS)
    assert messages(world, "one") == []


def test_what_is_left_out_is_empty(world: World) -> None:
    """Headers may also be text with an object, as some clients of Jolokia send them."""
    world.call("queue.one", "sendMessage", None, 3, None, False, "", "")
    world.call("queue.one", "sendMessage", '{"n": 1}', 3, "x", False, "admin", "whatever")
    first, second = messages(world, "one")

    assert (first.view.body, first.view.properties, first.durable) == ("", {}, False)
    assert second.view.properties == {"n": 1}


def test_message_to_an_address_reaches_its_queues(world: World) -> None:
    """Anycast queues take turns, as for any producer."""
    answers = [json.loads(world.call("address.a", "sendMessage", {"body": f"m{number}"})) for number in range(2)]

    assert sorted(str(message.view.body) for name in ("one", "two") for message in messages(world, name)) == [
        "m0",
        "m1",
    ]
    assert [each["queueCount"] for each in answers] == [1, 1]
    assert len({each["messageID"] for each in answers}) == 2


def test_all_that_an_object_says_is_in_the_message(world: World) -> None:
    wanted = {
        "bodyBase64": IN_BASE64,
        "contentType": "application/octet-stream",
        "correlationID": "c-1",
        "groupID": "g",
        "replyTo": "answers",
        "subject": "news",
        "properties": {"none": None, "_AMQ_DUPL_ID": "once"},
        "durable": False,
        "priority": 7,
        "timeToLive": 60_000,
        "delay": 1_000,
    }
    first, again = (json.loads(world.call("queue.one", "sendMessage", wanted)) for _ in range(2))
    queue = world.domain.queues["one"]

    assert (queue.scheduled_count, first["queueCount"], again["queueCount"]) == (1, 1, 0)
    pass_time(world.domain, 1_000)
    (message,) = messages(world, "one")
    view = message.view
    assert (view.body, view.content_type, view.correlation_id) == (OCTETS, "application/octet-stream", "c-1")
    assert (view.group_id, view.reply_to, view.subject) == ("g", "answers", "news")
    assert (message.durable, message.priority, message.expires_ms) == (False, 7, NOW_MS + 60_000)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ((None, 5, "", True, None, None), "type 5 of messages cannot be sent here"),
        ((None, 4, "?", True, None, None), "'body' must be octets in base64"),
        ((None, 3, "x", True, "somebody", "secret"), "not by user 'somebody'"),
        (({"a": [1]}, 3, "x", True, None, None), "property 'a' must be"),
        (({"": 1}, 3, "x", True, None, None), "a property needs a name"),
        (({"n": 1 << 63}, 3, "x", True, None, None), "more than 64 bits"),
        (({str(n): n for n in range(MAX_PROPERTIES + 1)}, 3, "x", True, None, None), "properties at most"),
        (({"text": "x"},), "a message has no 'text'; it may have body, "),
        (({"body": {"a": 1}},), "'body' must be a text"),
        (({"body": "x", "bodyBase64": ""},), "not both"),
        (({"bodyBase64": 5},), "'bodyBase64' must be a text"),
        (({"subject": 5},), "'subject' must be a text"),
        (({"properties": []},), "'properties' must be a JSON object"),
        (({"durable": "yes"},), "'durable' must be true or false"),
        (({"priority": 10},), "'priority' must be a whole number from 0 to 9"),
        (({"delay": True},), "'delay' must be a whole number"),
        (({"delay": LATEST_MS + 1},), "'delay' must be a whole number"),
        (({"body": "\ud800"},), "half of a surrogate pair"),
        (({"subject": "\ud800"},), "half of a surrogate pair"),
        (({"\ud800": 1}, 3, "x", True, None, None), "half of a surrogate pair"),
        (({"a": "\ud800"}, 3, "x", True, None, None), "half of a surrogate pair"),
    ],
)
def test_message_that_makes_no_sense_is_refused(world: World, parameters: tuple[Any, ...], reason: str) -> None:
    assert reason in world.refusal("queue.one", "sendMessage", *parameters)
    assert messages(world, "one") == []


@pytest.mark.parametrize("resource", ["queue.one", "address.a"])
def test_permission_to_send_is_needed(resource: str) -> None:
    world = make_world((Permission.SEND, "a"))

    assert "send" in world.refusal(resource, "sendMessage", {"body": "x"})
    assert messages(world, "one") == []


def test_requests_to_the_broker_are_no_messages(world: World) -> None:
    """One request would cause another, which nobody hears the answer of."""
    make_queue(world.domain, "asked", address=MANAGEMENT)

    assert "takes requests" in world.refusal(f"address.{MANAGEMENT}", "sendMessage", {"body": "[]"})


def test_full_address_takes_nothing(world: World) -> None:
    """Also with BLOCK, where a client would get no credit."""
    world.domain.settings.put("a", AddressSettings(max_size_bytes=1, address_full_policy=FullPolicy.BLOCK))
    world.call("queue.one", "sendMessage", {"body": "x"})

    assert "no message goes to 'a' now" in world.refusal("queue.one", "sendMessage", {"body": "x"})
    assert len(messages(world, "one")) == 1
