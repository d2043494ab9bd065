"""Requests by message: how they are read, answered and refused (artemis-model §6.1)."""

import json
from collections.abc import Callable
from uuid import UUID

import pytest

from artemis_py.core.messages.view import MessageView
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.background import SLICE_MESSAGES
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.errors import InvalidRequest, NotAuthorized
from artemis_py.management import endpoint
from artemis_py.management.endpoint import MAX_REQUEST_CHARS, OPERATION, RESOURCE, SUCCEEDED
from artemis_py.store.memory import MemoryStore
from tests.core_harness import browse_all, make_queue, settle_down
from tests.unit.management.world import ANYCAST, MANAGEMENT, Rules, World, outcome

VERSION = {"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "getVersion"}


def test_an_operation_is_answered_with_a_json_array_of_one_element() -> None:
    reply = World().reply(properties=VERSION, body="[]")

    assert (reply.body, reply.properties) == ('["1.2.3"]', {"_AMQ_OperationSucceeded": True})


def test_an_attribute_is_read_by_name_whatever_the_case_of_its_first_letter() -> None:
    world = World()

    assert world.read("broker", "Version") == world.read("broker", "version") == "1.2.3"


def test_the_reply_carries_the_correlation_id_of_the_request() -> None:
    reply = World().reply(properties=VERSION, message_id="m", correlation_id=b"c")

    assert reply.correlation_id == b"c"


def test_without_a_correlation_id_the_reply_carries_the_message_id() -> None:
    reply = World().reply(properties=VERSION, message_id=UUID(int=5))

    assert reply.correlation_id == UUID(int=5)


@pytest.mark.parametrize("prefix", ["", "queue://", "topic://", "temp-queue://", "temp-topic://"])
def test_prefixes_of_the_reply_address_are_removed(prefix: str) -> None:
    world = World()

    assert outcome(world.reply(properties=VERSION, reply_to=prefix + world.replies.name)) == (True, "1.2.3")


def test_a_request_without_reply_address_is_performed() -> None:
    world = World()
    world.send(
        properties={"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "createAddress"}, body='["a", "ANYCAST"]'
    )

    assert "a" in world.domain.addresses


def test_a_reply_can_go_to_a_queue_of_an_address() -> None:
    """An FQQN names the one queue."""
    world = World()
    world.call("broker", "createAddress", "answers", "MULTICAST")
    for name in ("mine", "other"):
        world.call("broker", "createQueue", "answers", name, "MULTICAST")
    world.send(properties=VERSION, reply_to="answers::mine")

    assert [world.domain.queues[name].message_count for name in ("mine", "other")] == [1, 0]


def test_without_permission_to_manage_the_request_is_refused_and_not_performed() -> None:
    world = World(Rules((Permission.MANAGE, MANAGEMENT)))

    with pytest.raises(NotAuthorized, match=r"'admin' lacks permission 'manage' on 'activemq\.management'"):
        world.send(
            properties={"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "createAddress"}, body='["a","ANYCAST"]'
        )

    assert "a" not in world.domain.addresses


@pytest.mark.parametrize("limit", ["disk", "address", "broker"])
def test_requests_are_answered_whatever_limit_is_reached(limit: str) -> None:
    """They make the room that is missing."""
    world = World()
    make_queue(world.domain)
    world.publish("q", 3)
    if limit == "disk":
        world.domain.dispatcher.disk_changed(is_full=True, is_exhausted=True)
    elif limit == "address":
        full = AddressSettings(max_size_messages=0, address_full_policy=FullPolicy.FAIL)
        world.domain.settings.put(world.replies.name, full)
    else:
        world.domain.dispatcher.account.set_limits(1, -1)

    assert world.call("queue.q", "removeAllMessages") == 3


def test_replies_that_nobody_reads_end_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past all limits go a few of them only."""
    monkeypatch.setattr(endpoint, "REPLY_ROOM_BYTES", 2000)
    world = World()
    world.domain.dispatcher.disk_changed(is_full=True, is_exhausted=True)
    for _ in range(20):
        world.send(properties=VERSION, reply_to=world.replies.name)
    settle_down(world.domain)

    assert 2 <= len(browse_all(world.replies)) <= 4


def test_a_reply_that_finds_no_room_is_logged_and_holds_up_no_other_work(caplog: pytest.LogCaptureFixture) -> None:
    """Counting takes many turns; at its end nobody is there whom an error could reach."""
    world = World()
    make_queue(world.domain, "long")
    make_queue(world.domain, "answers")
    world.publish("long", 3 * SLICE_MESSAGES)
    full = AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.FAIL)
    world.domain.settings.put("answers", full)
    world.publish("answers")

    world.send(
        properties={"_AMQ_ResourceName": "queue.long", "_AMQ_OperationName": "countMessages"},
        body='["none = 1"]',
        reply_to="answers",
    )
    settle_down(world.domain)

    assert "management reply not sent" in caplog.text
    assert world.domain.queue("answers").message_count == 1


def test_a_reply_does_not_go_where_its_reader_may_not_send() -> None:
    """Management must not be a way around `send`; the work is not done either."""
    world = World(Rules((Permission.SEND, "closed")))
    world.domain.create_address("closed", ANYCAST)

    with pytest.raises(NotAuthorized, match="closed"):
        world.send(
            properties={"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "createAddress"},
            body='["a","ANYCAST"]',
            reply_to="closed",
        )

    assert "a" not in world.domain.addresses


@pytest.mark.parametrize("reply_to", [MANAGEMENT, f"queue://{MANAGEMENT}", f"{MANAGEMENT}::q"])
def test_a_reply_cannot_be_a_request(reply_to: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be a request"):
        World().send(properties=VERSION, reply_to=reply_to)


def test_creating_through_management_needs_the_permission_to_create() -> None:
    """`manage` alone opens the door, not every drawer."""
    world = World(Rules((Permission.CREATE_ADDRESS, "a"), (Permission.DELETE_ADDRESS, "b")))
    world.call("broker", "createAddress", "b", "ANYCAST")

    assert "'createAddress' on 'a'" in world.refusal("broker", "createAddress", "a", "ANYCAST")
    assert "'deleteAddress' on 'b'" in world.refusal("broker", "deleteAddress", "b")


@pytest.mark.parametrize(
    ("properties", "body", "reason"),
    [
        ({}, None, "needs the application property _AMQ_ResourceName"),
        ({"_AMQ_ResourceName": 5}, None, "must be text"),
        ({"_AMQ_ResourceName": "broker"}, None, "needs _AMQ_OperationName or _AMQ_Attribute"),
        ({**VERSION, "_AMQ_Attribute": "Version"}, None, "not both"),
        (
            {**VERSION, "_AMQ_ResourceName": "brokr"},
            None,
            "'brokr' is unknown; it is broker, reader, writer,",
        ),
        ({**VERSION, "_AMQ_ResourceName": "queue."}, None, "resource 'queue.' is unknown"),
        ({**VERSION, "_AMQ_ResourceName": "queue.none"}, None, "queue 'none' does not exist"),
        ({**VERSION, "_AMQ_ResourceName": "address.none"}, None, "address 'none' does not exist"),
        ({**VERSION, "_AMQ_ResourceName": "acceptor.mane"}, None, "acceptor 'mane' does not exist; did you mean main?"),
        ({"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "getVersoin"}, None, "did you mean getVersion?"),
        ({"_AMQ_ResourceName": "broker", "_AMQ_Attribute": "versoin"}, None, "did you mean Version?"),
        (VERSION, "[1]", "takes no parameters"),
        (VERSION, "[", "is not JSON"),
        (VERSION, "[NaN]", "NaN is not a JSON number"),
        (VERSION, "{}", "must be a JSON array"),
        (VERSION, "[" * 100_000, "nested too deeply"),
        (VERSION, b"\xff", "must be text"),
        (VERSION, 5, "must be text"),
        (VERSION, " " * (MAX_REQUEST_CHARS + 1), "characters"),
        ({"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "__class__"}, None, "has no operation"),
        ({"_AMQ_ResourceName": "broker", "_AMQ_Attribute": "__class__"}, None, "has no attribute"),
        ({"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "destroyQueue"}, "[1]", "it takes destroyQueue(name"),
        ({"_AMQ_ResourceName": "x" * 100_000, "_AMQ_OperationName": "x"}, None, "is unknown"),
    ],
)
def test_a_wrong_request_is_answered_with_the_reason(properties: dict[str, object], body: object, reason: str) -> None:
    succeeded, text = outcome(World().reply(properties=properties, body=body))

    assert not succeeded
    assert reason in text
    assert len(text) < 1000


def test_parameters_may_come_as_bytes_of_utf8() -> None:
    """Clients without text messages send a data section."""
    world = World()
    parameters = json.dumps(["ä", "ANYCAST"], ensure_ascii=False).encode()
    world.reply(properties={"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "createAddress"}, body=parameters)

    assert "ä" in world.domain.addresses


def test_acceptors_show_their_real_port() -> None:
    world = World()

    assert world.read("acceptor.main", "Port") == 5672
    assert world.call("broker", "getAcceptorNames") == ["main"]
    assert world.call("broker", "getDiskStoreUsage") == 0.25


def test_the_view_of_the_request_is_left_as_it_was() -> None:
    """Views are shared and read-only."""
    world = World()
    view = MessageView(properties=dict(VERSION), reply_to=f"queue://{world.replies.name}")
    before = MessageView(properties=dict(VERSION), reply_to=f"queue://{world.replies.name}")
    world.send(properties=view.properties, reply_to=view.reply_to)

    assert view == before


class SlowStore(MemoryStore):
    """A store whose commits end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], None], Callable[[str], None] | None]] = []

    def when_durable(self, callback: Callable[[], None], failed: Callable[[str], None] | None = None) -> None:
        self.waiting.append((callback, failed))


def test_a_change_is_confirmed_when_it_is_durable() -> None:
    """P10: a queue that was confirmed is there after a crash."""
    store = SlowStore()
    world = World(storage=store)
    world.send(
        reply_to=world.replies.name,
        properties={RESOURCE: "broker", OPERATION: "createAddress"},
        body='["news", "MULTICAST"]',
    )
    before = len(browse_all(world.replies))

    for callback, _ in store.waiting:
        callback()

    (reply,) = browse_all(world.replies)
    assert (before, reply.message.view.properties[SUCCEEDED]) == (0, True)


def test_a_change_whose_store_failed_is_not_confirmed() -> None:
    """P15: nothing is claimed that is not on disk."""
    store = SlowStore()
    world = World(storage=store)
    world.send(
        reply_to=world.replies.name,
        properties={RESOURCE: "broker", OPERATION: "createAddress"},
        body='["news", "MULTICAST"]',
    )
    for _, failed in store.waiting:
        assert failed is not None
        failed("disk full")

    (reply,) = browse_all(world.replies)
    assert reply.message.view.properties[SUCCEEDED] is False
    assert "the store failed: disk full" in str(reply.message.view.body)
