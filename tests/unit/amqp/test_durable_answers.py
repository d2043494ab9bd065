"""Durable messages are accepted when they are stored: all of them, once, and as ranges of delivery-ids."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from artemis_amqp.broker.producers import Unstored
from artemis_amqp.engine.link import MASK
from artemis_amqp.engine.performatives import Attach, Disposition, Rejected, Source, Target, Transfer
from tests.amqp_harness import Frame, frame_with
from tests.unit.amqp.test_durable_links import MESSAGE, Client, producer

MALFORMED = b"\x00\x53\x99\x40"
"""A message that is refused at once: it has a section that no message has."""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A client with two sending links to queues on disk."""
    client = Client(tmp_path)
    for name in ("one", "two", "three"):
        client.world.queue(name)
    client.say(producer("one", 0), producer("two", 1))
    stored(client)
    yield client
    client.world.crash()


def stored(client: Client) -> list[Frame]:
    """What the broker says when everything is stored."""
    client.world.settle()
    return client.hear()


def sent(delivery_id: int, handle: int = 0, settled: bool = False, message: bytes = MESSAGE) -> bytes:
    """The transfer of a message, with its delivery-id as the tag."""
    tag = delivery_id.to_bytes(4, "big")
    return frame_with(0, Transfer(handle=handle, delivery_id=delivery_id, delivery_tag=tag, settled=settled), message)


def answers(frames: list[Frame]) -> list[tuple[int, int, bool]]:
    """First and last delivery-id of the dispositions, and whether they settle."""
    found = [performative for _, performative, _ in frames if isinstance(performative, Disposition)]
    return [(each.first, each.first if each.last is None else each.last, bool(each.settled)) for each in found]


def test_a_hundred_messages_are_answered_with_one_frame(client: Client) -> None:
    """Nothing is kept for each of them: a range is."""
    before = client.say(*[sent(number) for number in range(100)])

    assert answers(before) == []
    assert answers(stored(client)) == [(0, 99, True)]


def test_messages_of_two_links_are_each_answered_once(client: Client) -> None:
    """Delivery-ids count the deliveries of a session: those of one link have gaps."""
    handles = [0, 0, 1, 0, 1, 1, 0]
    client.say(*[sent(number, handle) for number, handle in enumerate(handles)])
    ids = [id for first, last, _ in answers(stored(client)) for id in range(first, last + 1)]

    assert sorted(ids) == list(range(7))


def test_what_was_answered_at_once_or_settled_is_left_out(client: Client) -> None:
    """A message that is refused, and one that was sent settled, between others."""
    transfers = [sent(0), sent(1, message=MALFORMED), sent(2), sent(3, settled=True), sent(4), sent(5)]
    before = client.say(*transfers)
    ((_, refusal, _),) = before

    assert isinstance(refusal, Disposition)
    assert isinstance(refusal.state, Rejected)
    assert answers(before) == [(1, 1, True)]
    assert answers(stored(client)) == [(0, 0, True), (2, 2, True), (4, 5, True)]


def test_a_client_that_settles_itself_is_told_and_remembered(client: Client) -> None:
    """rcv-settle-mode second (AMQP 1.0 §2.8.3): the outcome is kept until the client has settled, too."""
    attach = Attach(
        name="three",
        handle=2,
        role=False,
        rcv_settle_mode=1,
        source=Source(),
        target=Target(address="three"),
        initial_delivery_count=0,
    )
    client.say(attach)
    stored(client)
    client.say(sent(0, 2), sent(1), sent(2, 2))
    answered = stored(client)

    assert sorted(answers(answered)) == [(0, 0, False), (1, 1, True), (2, 2, False)]


def test_ranges_go_on_behind_the_last_delivery_id() -> None:
    """Delivery-ids are serial numbers of 32 bits (AMQP 1.0 §2.8.7)."""
    unstored = Unstored()
    for delivery_id in (MASK - 1, MASK, 0, 1, 5):
        unstored.add(delivery_id)

    assert (unstored.ranges, unstored.first, unstored.last, unstored.count) == ([(MASK - 1, 1)], 5, 5, 5)
