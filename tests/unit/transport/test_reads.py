"""The more connections send much at the same time, the less is read from each."""

import asyncio

import pytest

from artemis_py.transport.reads import LEAST_BYTES, MOST_BYTES, SHARED_BYTES, Reads
from artemis_py.transport.turn import Turn
from tests.unit.transport.doubles import ManualLoop
from tests.unit.transport.test_turn import ScriptedCore


class Socket:
    """A transport that has a size."""

    def __init__(self) -> None:
        self.max_size = MOST_BYTES


def read(reads: Reads, sockets: list[Socket]) -> None:
    """Each of them sends as much as is read, then the turn ends."""
    for each in sockets:
        reads.note(each, each.max_size)
    reads.end_turn()


@pytest.mark.parametrize(
    ("connections", "size"), [(1, MOST_BYTES), (2, SHARED_BYTES // 2), (4, SHARED_BYTES // 4), (100, LEAST_BYTES)]
)
def test_connections_share_what_is_read(connections: int, size: int) -> None:
    """A turn or two after they begin; nobody gets less than is worth a system call."""
    reads = Reads()
    sockets = [Socket() for _ in range(connections)]
    for _ in range(3):
        read(reads, sockets)

    assert {each.max_size for each in sockets} == {size}


def test_a_connection_that_is_left_reads_much_again() -> None:
    """The others have ended, or have nothing to send."""
    reads = Reads()
    sockets = [Socket() for _ in range(8)]
    for _ in range(3):
        read(reads, sockets)
    for _ in range(3):
        read(reads, sockets[:1])

    assert sockets[0].max_size == MOST_BYTES


def test_many_that_send_little_take_nothing_from_one_that_sends_much() -> None:
    """A thousand devices beside a bridge."""
    reads = Reads()
    bridge = Socket()
    for _ in range(3):
        for _ in range(1000):
            reads.note(Socket(), 100)
        read(reads, [bridge])

    assert bridge.max_size == MOST_BYTES


def test_a_transport_without_a_size_is_left_alone() -> None:
    """That of TLS has records, and other loops have other transports."""
    reads = Reads()
    reads.note(object(), MOST_BYTES)
    reads.note(None, MOST_BYTES)
    reads.end_turn()

    assert reads.size_bytes == SHARED_BYTES // 2


def test_a_turn_chooses_the_size_of_the_next() -> None:
    """After it, what was read before does not count any more."""
    loop = ManualLoop()
    turn = Turn(ScriptedCore(), loop, loop.wall_clock)
    for _ in range(4):
        turn.reads.note(Socket(), MOST_BYTES)
    turn.plan()
    loop.run()
    assert turn.reads.size_bytes == SHARED_BYTES // 4

    turn.plan()
    loop.run()
    assert turn.reads.size_bytes == MOST_BYTES


async def test_transports_of_asyncio_have_a_size() -> None:
    """Python does not promise that; without it every read is as large as asyncio wants."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    size = getattr(writer.transport, "max_size", None)
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()

    assert size == MOST_BYTES
