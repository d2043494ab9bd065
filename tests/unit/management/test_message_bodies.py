"""Bodies of messages, as management shows them."""

import base64
import json
from typing import Any
from uuid import UUID

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.queue import Queue
from artemis_py.core.runtime.access import Permission
from artemis_py.management.message_bodies import DEEPEST, SHOWN_BYTES, plain
from tests.core_harness import browse_all, make_queue
from tests.unit.management.world import Rules, World, consume


def with_body(body: object, *denied: tuple[Permission, str]) -> World:
    """A queue `q` with one message."""
    world = World(Rules(*denied))
    make_queue(world.domain, "q")
    world.session.producer("q").send(plain_message("q", MessageView(body=body, properties={"n": 1})))
    return world


def shown(body: object) -> Any:
    """What is shown of a body."""
    answer = json.loads(with_body(body).call("queue.q", "showMessage", 1))
    assert (answer["messageID"], answer["properties"]) == (1, {"n": 1})
    return answer["body"]


@pytest.mark.parametrize(
    ("body", "kind", "length", "text"),
    [
        (None, "none", 0, ""),
        ("", "text", 0, ""),
        ("grün 漢", "text", 6, "grün 漢"),
        (b"", "bytes", 0, ""),
        (b'{"a": 1}', "bytes", 8, '{"a": 1}'),
        (b"\xff\x00", "bytes", 2, None),
        (7, "structure", 1, "7"),
        ([1, "a"], "structure", 12, '[\n 1,\n "a"\n]'),
        ({"a": b"\x01"}, "structure", 14, '{\n "a": "01"\n}'),
    ],
)
def test_a_body_is_shown_by_its_kind(body: object, kind: str, length: int, text: str | None) -> None:
    found = shown(body)

    assert (found["kind"], found["length"], found["text"], found["isCut"]) == (kind, length, text, False)
    assert ("data" in found) == (kind == "bytes")
    if isinstance(body, bytes):
        assert base64.b64decode(found["data"]) == body


@pytest.mark.parametrize("body", ["ä" * (SHOWN_BYTES + 1), b"a" * (SHOWN_BYTES + 1), ["a" * SHOWN_BYTES]])
def test_what_is_too_long_is_cut(body: object) -> None:
    found = shown(body)

    assert (len(found["text"]), found["isCut"]) == (SHOWN_BYTES, True)
    assert found["length"] > SHOWN_BYTES
    assert len(base64.b64decode(found.get("data", ""))) in (0, SHOWN_BYTES)


def test_any_value_becomes_json() -> None:
    deep: Any = "end"
    for _ in range(DEEPEST + 5):
        deep = [deep]
    value = {1: float("nan"), b"k": UUID(int=5), "deep": deep, "list": (True, None)}

    found = json.loads(json.dumps(plain(value), allow_nan=False))

    assert (found["1"], found["6b"], found["list"]) == ("nan", str(UUID(int=5)), [True, None])
    assert json.dumps(found["deep"]).count("[") == DEEPEST + 5


def test_it_stays_as_it_was() -> None:
    world = with_body("x")
    queue: Queue = world.domain.queues["q"]
    world.call("queue.q", "showMessage", 1)
    (waiting,) = browse_all(queue)

    assert (queue.message_count, queue.delivering_count, queue.messages_added) == (1, 0, 1)
    assert waiting.delivery_count == 0


def test_a_message_that_does_not_wait_is_not_shown() -> None:
    world = with_body("x")
    assert world.call("queue.q", "showMessage", 2) is None
    consume(world, world.domain.queues["q"], 1)
    assert world.call("queue.q", "showMessage", 1) is None


def test_it_needs_the_permission_to_browse() -> None:
    world = with_body("x", (Permission.BROWSE, "q"))
    assert "lacks permission 'browse'" in world.refusal("queue.q", "showMessage", 1)
