"""Annotations that consumers add to messages they give back (AMQP 1.0 §3.4.5, modified)."""

from pathlib import Path

import pytest

from artemis_amqp.engine import extensions
from artemis_amqp.engine.performatives import Detach, End, Modified, Source, Transfer
from artemis_amqp.engine.types import Symbol, UInt, ULong
from artemis_amqp.messages import arrival
from artemis_amqp.messages.amendments import ADDED_LIMIT
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.settings.address_settings import AddressSettings
from tests.amqp_broker import Broker, Peer, in_transaction, settled, value
from tests.amqp_harness import Frame, frame_with
from tests.core_harness import browse_all, send
from tests.unit.store.world import World

SETTINGS = {"#": AddressSettings(dead_letter_address="DLQ", max_delivery_attempts=2)}
WITH_ANNOTATION = (
    b"\x00\x53\x70\xc0\x02\x01\x41" + b"\x00\x53\x72\xc1\x1d\x04\xa3\x07x-opt-a\xa1\x03old\xa3\x07x-opt-b\xa1\x03old"
)
"""A durable header, and two annotations."""


def modified(failed: bool = False, **annotations: object) -> Modified:
    """Of annotations x-opt-<name>."""
    return Modified(
        delivery_failed=failed,
        message_annotations={Symbol(f"x-opt-{name}"): value for name, value in annotations.items()},
    )


def annotations(frames: list[Frame]) -> list[dict[str, object]]:
    """Of the deliveries among some frames, without the position."""
    found = []
    for _, performative, payload in frames:
        if isinstance(performative, Transfer):
            read = arrival.split_sections(payload).annotations or {}
            found.append({str(key): value for key, value in read.items() if key != extensions.SEQUENCE_NUMBER})
    return found


def posted(broker: Broker, target: str = "q", head: bytes = WITH_ANNOTATION) -> Peer:
    """A client that sent one message."""
    peer = broker.connect("producer")
    peer.send()
    peer.say(frame_with(0, Transfer(handle=0, delivery_id=0, delivery_tag=b"t"), head + value(b"m")))
    return peer


def broker_with_message() -> Broker:
    """One message in "q"."""
    broker = Broker(SETTINGS)
    broker.queue()
    broker.queue("DLQ")
    posted(broker)
    return broker


def test_the_next_delivery_has_them() -> None:
    """AMQP 1.0 §3.4.5: added, or in place of what was there; types are kept."""
    broker = broker_with_message()
    peer = broker.connect()
    peer.receive()
    frames = peer.say(settled(0, modified(b="new", c=UInt(7))))

    assert annotations(frames) == [{"x-opt-a": "old", "x-opt-b": "new", "x-opt-c": 7}]
    assert isinstance(annotations(frames)[0]["x-opt-c"], UInt)


def test_they_gather() -> None:
    """AMQP 1.0 §3.4.5: each consumer adds its own."""
    broker = broker_with_message()
    peer = broker.connect()
    peer.receive()
    peer.say(settled(0, modified(c="1")))
    frames = peer.say(settled(1, modified(c="2", d="3")))

    assert annotations(frames) == [{"x-opt-a": "old", "x-opt-b": "old", "x-opt-c": "2", "x-opt-d": "3"}]


def test_what_the_broker_says_itself_cannot_be_set() -> None:
    """As when a message arrives."""
    broker = broker_with_message()
    peer = broker.connect()
    peer.receive()
    wanted = Modified(message_annotations={Symbol("x-opt-sequence-number"): ULong(99), Symbol("x-opt-c"): "1"})
    frames = peer.say(settled(0, wanted))

    ((_, _, payload),) = [one for one in frames if isinstance(one[1], Transfer)]
    read = arrival.split_sections(payload).annotations
    assert read is not None
    assert read[Symbol("x-opt-sequence-number")] == 1
    assert read[Symbol("x-opt-c")] == "1"


def test_the_dead_letter_has_them() -> None:
    """The reason why it failed, where people look for it."""
    broker = broker_with_message()
    peer = broker.connect()
    peer.receive()
    peer.say(settled(0, modified(failed=True, why="first")))
    peer.say(settled(1, modified(failed=True, why="second")))
    (found,) = annotations(broker.connect().receive(Source(address="DLQ")))

    assert (found["x-opt-why"], found["x-opt-a"], found["x-opt-ORIG-ADDRESS"]) == ("second", "old", "q")


def test_other_queues_have_the_message_as_it_was() -> None:
    """It is one consumer's word about its own queue."""
    broker = Broker()
    broker.domain.create_address("news", frozenset((RoutingType.MULTICAST,)))
    source = Source(address="news", capabilities=(Symbol("topic"),))
    one, two = broker.connect("one"), broker.connect("two")
    one.receive(source)
    two.receive(source, credit=0)
    message = Message(AMQP_FORMAT, "", value(b"m"))
    broker.domain.route(message, broker.domain.address("news"))
    one.hear()
    assert annotations(one.say(settled(0, modified(c="1")))) == [{"x-opt-c": "1"}]

    assert annotations(two.say(two.credit(0, 1))) == [{}]
    one.say(settled(1))
    two.say(settled(0))
    account = broker.domain.address("news").account
    assert (account.message_count, account.size_bytes) == (0, 0)


def test_a_selector_sees_them() -> None:
    """amqp10 §11.1: `m.` and the name."""
    broker = broker_with_message()
    peer = broker.connect()
    peer.receive()
    peer.say(settled(0, modified(c="1")), Detach(handle=0, closed=True))
    queue = broker.domain.queue("q")
    (reference,) = browse_all(queue)

    assert reference.lookup("m.x-opt-c") == "1"


def test_in_a_transaction_they_count_from_the_commit_on() -> None:
    """AMQP 1.0 §4.4.2: provisional until then, and nothing after a rollback."""
    broker = broker_with_message()
    peer = broker.connect()
    peer.receive()
    peer.coordinator()
    first = peer.declare()
    peer.say(in_transaction(0, first, modified(c="undone")))
    undone = annotations(peer.discharge(first, fail=True))
    second = peer.declare()
    peer.say(in_transaction(1, second, modified(c="done")))
    done = annotations(peer.discharge(second))

    assert [one.get("x-opt-c") for one in (*undone, *done)] == [None, "done"]


def test_after_a_detach_they_count_as_well() -> None:
    """AMQP 1.0 §2.7.6."""
    broker = broker_with_message()
    peer = broker.connect()
    peer.receive()
    peer.say(Detach(handle=0), settled(0, modified(c="1")))

    assert annotations(broker.connect("other").receive())[0]["x-opt-c"] == "1"


def test_a_browser_changes_nothing() -> None:
    """AMQP 1.0 §3.5.3: outcomes of a copy only settle."""
    broker = broker_with_message()
    peer = broker.connect()
    peer.receive(Source(address="q", distribution_mode="copy"))
    peer.say(settled(0, modified(c="1")))

    assert "x-opt-c" not in annotations(broker.connect("other").receive())[0]


def test_a_message_of_another_protocol_takes_them() -> None:
    """Texts, numbers and truth values; there is no room for more."""
    broker = Broker()
    broker.queue()
    send(broker.domain, "q", "m")
    peer = broker.connect()
    peer.receive()
    frames = peer.say(settled(0, modified(c="1", d=UInt(2), e=True, f=b"octets")))

    assert annotations(frames) == [{"x-opt-c": "1", "x-opt-d": 2, "x-opt-e": True}]
    peer.say(Detach(handle=0, closed=True))
    (reference,) = browse_all(broker.domain.queue("q"))
    assert reference.lookup("m.x-opt-c") == "1"


@pytest.mark.parametrize("foreign", [False, True])
def test_there_is_a_limit(foreign: bool) -> None:
    """They are not counted for the address: a consumer that adds too much is detached, the message stays as it was."""
    broker = Broker()
    broker.queue()
    if foreign:
        send(broker.domain, "q", "m")
    else:
        posted(broker)
    peer = broker.connect()
    peer.receive()
    (detach,) = [
        one for _, one, _ in peer.say(settled(0, modified(c="x" * (ADDED_LIMIT + 1)))) if isinstance(one, Detach)
    ]

    assert detach.error is not None
    assert detach.error.condition == "amqp:resource-limit-exceeded"
    assert "x-opt-c" not in annotations(broker.connect("other").receive())[0]


def test_beyond_the_limit_after_a_detach_the_session_ends() -> None:
    """There is no link that could be detached."""
    broker = Broker()
    broker.queue()
    posted(broker)
    peer = broker.connect()
    peer.receive()
    frames = peer.say(Detach(handle=0), settled(0, modified(c="x" * (ADDED_LIMIT + 1))))

    assert any(isinstance(one, End) for _, one, _ in frames)
    assert broker.waiting() == 1


# -- restart ---------------------------------------------------------------------------------------------------


class Durable(World):
    """A store that knows AMQP's messages after a restart, too."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SETTINGS, formats={AMQP_FORMAT.name: AMQP_FORMAT})


def amended_and_restarted(folder: Path, *queues: str, failed: bool = False) -> Durable:
    """A durable message in these queues of one address, that a consumer of the first gave back with an annotation."""
    with Durable(folder) as world:
        broker = Broker(domain=world.domain)
        for name in queues:
            broker.queue(name, address="a")
        posted_to_address(broker, queues)
        world.settle()
        peer = broker.connect()
        peer.receive(Source(address=f"a::{queues[0]}"))
        peer.say(settled(0, modified(failed, b="new")))
        world.settle()
    return Durable(folder)


def posted_to_address(broker: Broker, queues: tuple[str, ...]) -> None:
    """Send to several queues at once, as a multicast message is."""
    read = arrival.split_sections(WITH_ANNOTATION + value(b"m"))
    message = Message(AMQP_FORMAT, "a", read.bare, read.annotations_raw, durable=True)
    message.origin = broker.domain.address("a")
    message.id = 1
    for name in queues:
        broker.domain.queue(name).take(message)


@pytest.mark.parametrize("failed", [False, True])
def test_they_survive_a_restart(tmp_path: Path, failed: bool) -> None:
    """As durable as the message; whether the attempt counts or not."""
    with amended_and_restarted(tmp_path, "q", failed=failed) as world:
        broker = Broker(domain=world.domain)
        frames = broker.connect().receive(Source(address="a::q"))

        assert annotations(frames) == [{"x-opt-a": "old", "x-opt-b": "new"}]


def test_after_a_restart_other_queues_have_the_message_as_it_was(tmp_path: Path) -> None:
    """The message is stored once for all of them."""
    with amended_and_restarted(tmp_path, "q", "r") as world:
        broker = Broker(domain=world.domain)
        first = broker.connect().receive(Source(address="a::q"))
        second = broker.connect().receive(Source(address="a::r"))

        assert [one[0]["x-opt-b"] for one in (annotations(first), annotations(second))] == ["new", "old"]


def test_nothing_of_them_is_left_when_the_message_is_gone(tmp_path: Path) -> None:
    """The store is as empty as before, and its counts are right."""
    with amended_and_restarted(tmp_path, "q", "r") as world:
        broker = Broker(domain=world.domain)
        for queue in ("q", "r"):
            peer = broker.connect()
            peer.receive(Source(address=f"a::{queue}"))
            peer.say(settled(0))
        world.settle()

        assert [world.count(name) for name in (b"attempts", b"references", b"messages", b"shares")] == [0, 0, 0, 0]
        world.audit()


def test_one_that_was_never_committed_as_it_was(tmp_path: Path) -> None:
    """A message that is shared and given back before the first commit: each queue finds its own after it."""
    with Durable(tmp_path) as world:
        broker = Broker(domain=world.domain)
        for name in ("q", "r"):
            broker.queue(name, address="a")
        world.settle()
        posted_to_address(broker, ("q", "r"))
        peer = broker.connect()
        peer.receive(Source(address="a::q"))
        peer.say(settled(0, modified(b="new")), Detach(handle=0, closed=True))
        world.settle()
    with Durable(tmp_path) as world:
        broker = Broker(domain=world.domain)
        first = broker.connect().receive(Source(address="a::q"))
        second = broker.connect().receive(Source(address="a::r"))

        assert [one[0]["x-opt-b"] for one in (annotations(first), annotations(second))] == ["new", "old"]
