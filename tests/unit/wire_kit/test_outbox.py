"""Bounded output: room, pauses, and what waits behind a gate."""

import pytest

from artemis_py.wire.outbox import Outbox


class World:
    """An outbox, and how often it woke its transport."""

    def __init__(self) -> None:
        self.woken = 0
        self.outbox = Outbox(10, self.wake)

    def wake(self) -> None:
        self.woken += 1


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def outbox(world: World) -> Outbox:
    return world.outbox


def test_output_leaves_in_one_piece_and_wakes_once(world: World, outbox: Outbox) -> None:
    outbox.write(b"ab")
    outbox.write(memoryview(b"cd"))

    assert (world.woken, outbox.size) == (1, 4)
    assert outbox.take() == b"abcd"
    assert (outbox.take(), outbox.size, world.woken) == (b"", 0, 1)


def test_deliveries_stop_at_the_limit_and_answers_do_not(outbox: Outbox) -> None:
    outbox.write(b"x" * 10)

    assert (outbox.has_room, outbox.was_full) == (False, False)
    assert not outbox.ask_for_room()
    assert outbox.was_full
    outbox.write(b"answer")
    assert outbox.take() == b"x" * 10 + b"answer"
    assert (outbox.has_room, outbox.was_full) == (True, False)


def test_a_pause_leaves_no_room(outbox: Outbox) -> None:
    assert not outbox.resume()
    outbox.pause()

    assert (outbox.has_room, outbox.ask_for_room()) == (False, False)
    assert outbox.resume()
    assert (outbox.has_room, outbox.was_full) == (True, False)


def test_output_behind_a_gate_waits_for_it(world: World, outbox: Outbox) -> None:
    outbox.write(b"1")
    outbox.put_gate(1)
    outbox.write(b"2")
    outbox.put_gate(2)
    outbox.write(b"3")

    assert (outbox.take(), outbox.take(), outbox.size) == (b"1", b"", 2)
    outbox.open_gate()
    assert (outbox.take(), outbox.size, world.woken) == (b"2", 1, 2)
    outbox.open_gate()
    assert (outbox.take(), outbox.size) == (b"3", 0)
    outbox.open_gate()
    assert outbox.take() == b""


def test_a_sign_of_life_goes_before_a_gate(outbox: Outbox) -> None:
    outbox.put_gate(0)
    outbox.write(b"later")

    assert outbox.write_before_gates(b"!")
    assert (outbox.take(), outbox.size) == (b"!", 5)
    assert outbox.write_before_gates(b"!")
    assert not outbox.write_before_gates(b"!"), "there is output already"
    assert outbox.take() == b"!"
    outbox.open_gate()
    assert outbox.take() == b"later"


def test_what_is_not_true_yet_is_dropped_at_the_end(outbox: Outbox) -> None:
    outbox.write(b"true")
    assert not outbox.drop_gated()
    outbox.put_gate(1)
    outbox.write(b"promised")

    assert outbox.drop_gated()
    outbox.write(b"bye")
    outbox.close()
    outbox.write(b"late")
    outbox.put_gate(0)
    assert (outbox.take(), outbox.size) == (b"truebye", 0)
