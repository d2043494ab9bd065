"""Blocks: messages that go to a peer in one transfer are read as if each had come alone."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artemis_py.cluster.blocks import BLOCK_BYTES, Block, Run, read_block
from artemis_py.cluster.envelope import PATH, Envelope, encode_envelope
from artemis_py.cluster.hello import FEATURES
from artemis_py.cluster.peer import Peer
from artemis_py.cluster.records import Demand, Grant, Instance
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT, plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.runtime.carrier import Lane
from artemis_py.errors import ProtocolError
from tests.cluster.clients import send
from tests.cluster.simulation import Simulation
from tests.cluster.test_connections import HELLO, UP, open_wire
from tests.cluster.test_records import ENVELOPES

FORMATS = {PLAIN_FORMAT.name: PLAIN_FORMAT}


def made(drawn: list[tuple[Any, ...]]) -> list[Envelope]:
    """Envelopes around messages of their own."""
    envelopes = []
    for address, queue, count, was_acquired, path, is_shared, durable, body in drawn:
        message = plain_message("orders", MessageView(body=body))
        message.durable = durable
        envelopes.append(Envelope(message, address, queue, count, was_acquired, path, is_shared))
    return envelopes


def written(envelopes: list[Envelope]) -> bytes:
    """The block with these messages."""
    block = Block()
    for envelope in envelopes:
        block.surround(envelope)
        block.add(envelope.message)
    return block.octets()


def around(envelope: Envelope) -> tuple[object, ...]:
    """What stands around a message."""
    counts = envelope.delivery_count, envelope.was_acquired, envelope.is_shared
    return (envelope.address, envelope.queue, envelope.path, *counts)


def listed(runs: list[Run]) -> list[tuple[object, ...]]:
    """What each message of a block is."""
    return [(*around(run.envelope), each.durable, each.view.body) for run in runs for each in run.messages]


@given(ENVELOPES)
def test_block_is_read_as_it_was_written(drawn: list[tuple[Any, ...]]) -> None:
    envelopes = made(drawn)
    runs = read_block(written(envelopes), FORMATS)

    assert listed(runs) == [(*around(each), each.message.durable, each.message.view.body) for each in envelopes]


def test_messages_with_the_same_envelope_are_one_run() -> None:
    envelopes = made([("q", "q", 0, False, ("one",), False, True, body) for body in "abc"])
    other = made([("q", "q", 1, False, ("one",), False, True, "d")])

    assert [len(run.messages) for run in read_block(written(envelopes + other), FORMATS)] == [3, 1]


def test_single_envelope_is_read_as_a_block_of_one() -> None:
    """A broker of an earlier version sends nothing else."""
    [envelope] = made([("q", "q", 0, False, ("one",), False, True, "a")])

    assert listed(read_block(encode_envelope(envelope), FORMATS)) == listed(read_block(written([envelope]), FORMATS))


@given(st.binary(max_size=120))
def test_any_octets_are_a_block_or_refused(octets: bytes) -> None:
    with suppress(ProtocolError):
        read_block(b"\x02" + octets, FORMATS)


@given(ENVELOPES, st.data())
def test_block_with_changed_octets_is_read_or_refused(drawn: list[tuple[Any, ...]], data: st.DataObject) -> None:
    octets = bytearray(written(made(drawn)))
    for _ in range(data.draw(st.integers(1, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        read_block(bytes(octets), FORMATS)


@given(ENVELOPES, st.data())
def test_block_that_is_cut_off_is_refused(drawn: list[tuple[Any, ...]], data: st.DataObject) -> None:
    octets = written(made(drawn))
    with pytest.raises(ProtocolError):
        read_block(octets[: data.draw(st.integers(0, len(octets) - 1))], FORMATS)


@pytest.mark.parametrize("count", [0, 1, 3, 1 << 31])
def test_block_with_another_number_of_messages_is_refused(count: int) -> None:
    octets = bytearray(written(made([("q", "q", 0, False, ("one",), False, True, body) for body in "ab"])))
    octets[1:5] = count.to_bytes(4, "big")

    with pytest.raises(ProtocolError, match="another number of messages"):
        read_block(bytes(octets), FORMATS)


# -- at a node -------------------------------------------------------------------------------------------------------


def deliver(peer: Peer, number: int, bodies: str, queue: str = "q") -> None:
    """A block of a scripted peer, whose last message has this number."""
    content = written(made([("q", queue, 0, False, ("stranger",), False, True, body) for body in bodies]))
    peer.message(Lane.HANDOVER, number, content)


def test_block_has_the_number_of_its_last_message(sim: Simulation) -> None:
    node, wire, peer = open_wire(sim, *UP)
    node.run(node.generation, lambda: deliver(peer, 3, "abc"))
    sim.run_for(1_000)

    assert node.domain.queues["q"].waiting_count == peer.taken == node.mesh.taken == 3
    assert node.mesh.marks.get("stranger", 9) == 3
    assert wire.accepted == [3]


def test_messages_of_a_block_have_properties_of_their_own(sim: Simulation) -> None:
    """They come with the same ones, in one dict; what is noted of one of them concerns no other."""
    node, _, peer = open_wire(sim, *UP)
    node.run(node.generation, lambda: deliver(peer, 2, "ab"))
    [waiting] = [each for each in node.domain.queues["q"].backlog.lists if each.head is not None]
    assert waiting.head is not None
    assert waiting.tail is not None
    waiting.head.message.set_extra("noted", 1)

    assert waiting.head.message.extra == {PATH: "stranger", "noted": 1}
    assert waiting.tail.message.extra == {PATH: "stranger"}


@pytest.mark.parametrize(("number", "reason"), [(4, "message 2 came after 0"), (5, "message 3 came after 0")])
def test_block_behind_a_gap_ends_the_connection(sim: Simulation, number: int, reason: str) -> None:
    node, wire, peer = open_wire(sim, *UP)
    node.run(node.generation, lambda: deliver(peer, number, "abc"))

    assert wire.closed == reason
    assert "q" not in node.domain.queues


def test_block_that_was_taken_before_is_confirmed_only(sim: Simulation) -> None:
    node, wire, peer = open_wire(sim, *UP)
    node.run(node.generation, lambda: deliver(peer, 3, "abc"))
    node.run(node.generation, lambda: deliver(peer, 3, "bc"))
    sim.run_for(1_000)

    assert node.domain.queues["q"].waiting_count == 3
    assert wire.closed is None


def test_block_that_was_taken_in_part_ends_the_connection(sim: Simulation) -> None:
    """A peer that settles by our mark never sends one."""
    node, wire, peer = open_wire(sim, *UP)
    node.run(node.generation, lambda: deliver(peer, 2, "ab"))
    node.run(node.generation, lambda: deliver(peer, 3, "bc"))

    assert wire.closed == "messages 2 to 3 came after 2"


WANTS_Q = (*UP, Instance(1, "q", "q", 1, ""), Demand(1, (("", 1, 1),)), Grant(1, 1_000))


def numbers_sent(sim: Simulation, count: int, chars: int = 1) -> list[int]:
    """Numbers of the transfers by which a node hands over messages that were sent at once."""
    node, wire, _ = open_wire(sim, *WANTS_Q)

    def publish() -> None:
        for number in range(count):
            send(node, "q", f"{number:0{chars}}")

    node.run(node.generation, publish)
    sim.run_for(1_000)
    return wire.sent


@pytest.fixture
def with_blocks() -> Iterator[None]:
    HELLO["features"] = [*FEATURES]
    yield
    del HELLO["features"]


@pytest.mark.usefixtures("with_blocks")
def test_messages_that_are_claimed_together_go_together(sim: Simulation) -> None:
    assert numbers_sent(sim, 100) == [100]


@pytest.mark.usefixtures("with_blocks")
def test_block_is_complete_when_it_has_enough_octets(sim: Simulation) -> None:
    assert numbers_sent(sim, 5, BLOCK_BYTES // 2) == [2, 4, 5]


def test_broker_of_an_earlier_version_gets_one_message_at_a_time(sim: Simulation) -> None:
    assert numbers_sent(sim, 3) == [1, 2, 3]
