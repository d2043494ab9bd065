"""A toy engine on the kit: packets of a length and that many octets; `!` asks for three steps of work."""

from collections.abc import Iterator

import pytest

from artemis_py.core.runtime.meter import Meter
from artemis_py.wire.inbox import Inbox


class Engine:
    """Reads packets as the engines of real protocols do."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.inbox = Inbox(self.meter, 1)
        self.packets: list[bytes] = []
        self.looked = 0
        self.waits = False

    def receive_data(self, data: bytes) -> None:
        whole = self.inbox.add(data, self.waits)
        if whole:
            self._work(whole)

    def work(self) -> None:
        self.meter.end = self.meter.work + 1
        self._work(self.inbox.take())

    def _work(self, data: bytes) -> None:
        offset = self._read(data)
        if offset < len(data):
            self.inbox.keep(data[offset:])

    def _read(self, data: bytes) -> int:
        inbox, meter, offset = self.inbox, self.meter, 0
        self.looked += 1
        if inbox.steps is not None and not inbox.step():
            return 0
        while offset < len(data) and not self.waits:
            if meter.work >= meter.end:
                inbox.is_cut_short = True
                break
            end = offset + 1 + data[offset]
            if end > len(data):
                inbox.needed = end - offset
                return offset
            meter.work += 1
            self.packets.append(data[offset + 1 : end])
            offset = end
            if self.packets[-1] == b"!":
                inbox.steps = self._steps()
            if inbox.steps is not None and not inbox.step():
                break
        inbox.needed = 1
        return offset

    def _steps(self) -> Iterator[None]:
        for name in (b"one", b"two", b"three"):
            self.meter.work += 1
            self.packets.append(name)
            yield


@pytest.fixture
def engine() -> Engine:
    return Engine()


def test_whole_packets_are_never_kept(engine: Engine) -> None:
    engine.receive_data(b"\x01a\x02bc")

    assert engine.packets == [b"a", b"bc"]
    assert (engine.inbox.size, engine.inbox.has_rest) == (0, False)


def test_a_long_packet_is_looked_at_twice_however_it_is_cut(engine: Engine) -> None:
    """Otherwise a packet that arrives octet by octet costs the square of its length."""
    packet = bytes((200,)) + b"x" * 200
    for index in range(len(packet)):
        engine.receive_data(packet[index : index + 1])

    assert engine.packets == [b"x" * 200]
    assert engine.looked == 2


def test_what_is_kept_is_counted(engine: Engine) -> None:
    engine.receive_data(b"\x09abc")

    assert engine.inbox.size == 4
    engine.inbox.drop()
    assert (engine.inbox.size, engine.inbox.has_rest) == (0, False)


def test_input_behind_the_share_of_a_turn_waits_for_the_next(engine: Engine) -> None:
    engine.meter.end = 1
    engine.receive_data(b"\x01a\x01b")
    engine.receive_data(b"\x01c")

    assert engine.packets == [b"a"]
    assert engine.inbox.is_cut_short
    engine.work()
    assert engine.packets == [b"a", b"b"]
    engine.work()
    assert engine.packets == [b"a", b"b", b"c"]
    assert not engine.inbox.has_rest


def test_nothing_is_read_while_the_engine_waits(engine: Engine) -> None:
    engine.waits = True
    engine.receive_data(b"\x01a")
    engine.receive_data(b"\x01b")

    assert engine.looked == 0
    engine.waits = False
    assert engine.inbox.take() == b"\x01a\x01b"


def test_steps_are_done_before_anything_else_is_read(engine: Engine) -> None:
    engine.meter.end = 2
    engine.receive_data(b"\x01!\x01z")

    assert engine.packets == [b"!", b"one"]
    assert engine.inbox.has_rest
    for _ in range(4):
        engine.work()
    assert engine.packets == [b"!", b"one", b"two", b"three", b"z"]


def test_steps_may_end_the_conversation(engine: Engine) -> None:
    def steps() -> Iterator[None]:
        engine.inbox.drop()
        yield
        raise AssertionError("nothing is done behind the end")

    engine.inbox.steps = steps()

    assert engine.inbox.step()
    assert engine.inbox.steps is None
