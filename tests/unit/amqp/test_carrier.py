"""AMQP as the carrier of the mesh: two brokers in memory (mesh §5.2, §5.3)."""

import pytest

from artemis_amqp.carrier.names import CONTROL_CREDIT, LANE_CREDIT, MESH
from artemis_amqp.engine.performatives import Attach, Begin, Close, Detach, Open, Source, Target, Transfer
from artemis_amqp.engine.types import Symbol
from artemis_py.core.runtime.carrier import Lane, PeerLimits, PeerLogin, PeerRefused
from tests.amqp_broker import Broker, Peer
from tests.amqp_harness import frame_with
from tests.mesh_peers import Notes, OneMesh, Pair

OPENED_HERE = ("opened", {"node": "server"})
OPENED_THERE = ("opened", {"node": "client"})


def opened(limits: PeerLimits | None = None) -> Pair:
    """Two brokers that have said hello."""
    pair = Pair(limits)
    pair.run()
    assert (pair.here.take(), pair.there.take()) == ([OPENED_HERE], [OPENED_THERE])
    return pair


def test_two_brokers_say_hello() -> None:
    """Login and open; each knows on which side it is, and the one that was dialled who has logged in."""
    pair = opened()

    assert pair.client.logged_in
    assert pair.server.logged_in
    assert [subject.user for subject in pair.mesh.subjects] == ["mesh"]
    assert (pair.here.there.is_dialled, pair.there.there.is_dialled) == (True, False)
    assert (pair.here.there.peer, pair.there.there.peer) == ("127.0.0.1:6", "127.0.0.1:5")


def test_hellos_keep_their_values() -> None:
    """Of all kinds that a hello may have."""
    hello = {"node": "n", "incarnation": 2**40, "scope": ["a", "!b"], "none": None, "is": True, "empty": []}
    pair = Pair(hello=hello)
    pair.run()

    assert pair.there.take() == [("opened", hello)]


def test_records_and_messages_pass_both_ways_in_order() -> None:
    """Each lane for itself, and under the numbers that they were sent with."""
    pair = opened()
    for index, (mine, theirs) in enumerate([(pair.here, pair.there), (pair.there, pair.here)]):
        mine.there.send_control(b"one")
        mine.there.send(Lane.HANDOVER, 7, b"x" * 10)
        mine.there.send(Lane.COPIES, 2**63 + index, b"")
        mine.there.send(Lane.HANDOVER, 8, b"y" * 300_000)
        mine.there.send(Lane.BULK, 1, b"z")
        mine.there.send_control(b"two")
        pair.run()

        heard = theirs.take()
        assert [each for each in heard if each[0] == "control"] == [("control", b"one"), ("control", b"two")]
        assert [each[1:] for each in heard if each[0] is Lane.HANDOVER] == [(7, b"x" * 10), (8, b"y" * 300_000)]
        assert [each for each in heard if each[0] is Lane.COPIES] == [(Lane.COPIES, 2**63 + index, b"")]
        assert [each for each in heard if each[0] is Lane.BULK] == [(Lane.BULK, 1, b"z")]


def test_what_is_said_at_once_is_not_lost() -> None:
    """The side that was dialled may speak before the other one has begun a session."""
    pair = Pair()
    while not pair.there.heard:
        pair.step()
    pair.there.there.send_control(b"first")
    pair.there.there.send(Lane.HANDOVER, 1, b"message")
    pair.run()

    assert pair.here.take() == [OPENED_HERE, ("control", b"first"), (Lane.HANDOVER, 1, b"message")]


def test_the_end_of_a_read_is_told_once() -> None:
    """After all of its messages, for the mark of the last one; records have none."""
    pair = opened()
    for number in range(1, 6):
        pair.here.there.send(Lane.HANDOVER, number, b"m")
    pair.run()
    assert len(pair.there.take()) == 5
    assert pair.there.reads == 1

    pair.here.there.send_control(b"record")
    pair.run()
    assert pair.there.reads == 1


def test_a_confirmation_is_for_all_messages_up_to_a_number() -> None:
    """And for those of its lane only; the mesh hears once of many."""
    pair = opened()
    for number in range(1, 5):
        pair.here.there.send(Lane.HANDOVER, number, b"h")
        pair.here.there.send(Lane.COPIES, number, b"c")
    pair.run()
    pair.there.there.accept(Lane.HANDOVER, 3)
    pair.run()
    assert pair.here.take() == [("accepted", Lane.HANDOVER, 3)]

    pair.there.there.accept(Lane.HANDOVER, 4)
    pair.there.there.accept(Lane.COPIES, 4)
    pair.run()
    assert sorted(pair.here.take(), key=str) == [("accepted", Lane.COPIES, 4), ("accepted", Lane.HANDOVER, 4)]


def send_numbers(pair: Pair, lane: Lane, count: int) -> list[bool]:
    """Send messages with numbers from 0, some at a time, because a session has a window; whether there was room."""
    answers: list[bool] = []
    for number in range(count):
        if number % 500 == 0:
            pair.run()
        answers.append(pair.here.there.send(lane, number, b"m"))
    return answers


def test_messages_that_nobody_confirms_stop_the_lane_and_not_the_records() -> None:
    """Credit is the limit; what has no room waits, and the mesh is told to stop and to go on."""
    pair = opened(PeerLimits(window_bytes=-1))
    credit = LANE_CREDIT[Lane.HANDOVER]
    answers = send_numbers(pair, Lane.HANDOVER, credit + 2)
    pair.here.there.send_control(b"record")
    pair.run()

    assert answers == [True] * credit + [False] * 2
    heard = pair.there.take()
    assert len([each for each in heard if each[0] is Lane.HANDOVER]) == credit
    assert ("control", b"record") in heard
    assert pair.here.take() == []

    pair.there.there.accept(Lane.HANDOVER, credit // 2)
    pair.run()
    assert [each[1] for each in pair.there.take()] == [credit, credit + 1]
    assert pair.here.take() == [("accepted", Lane.HANDOVER, credit // 2), ("room",)]


@pytest.mark.parametrize("lane", [Lane.HANDOVER, Lane.COPIES])
def test_a_lane_has_many_messages_on_their_way(lane: Lane) -> None:
    """A commit of the taker takes milliseconds: with a thousand of them nothing would move meanwhile.

    So many are credited when it is known how small they are.
    """
    pair = opened()
    answers = send_numbers(pair, lane, 4000)
    pair.run()

    assert answers == [True] * 4000
    assert len(pair.there.take()) == 4000


def test_bytes_that_nobody_confirms_stop_the_lane() -> None:
    """`producer-window-size`: few large messages must not fill the memory of the taker."""
    pair = opened(PeerLimits(window_bytes=10_000))
    for number in range(20):
        pair.here.there.send(Lane.COPIES, number, b"m" * 4_000)
        pair.run()
    assert [each[1] for each in pair.there.take()] == [0, 1, 2]

    arrived = [0, 1, 2]
    for number in range(20):
        pair.there.there.accept(Lane.COPIES, number)
        pair.run()
        arrived += [each[1] for each in pair.there.take()]
        assert len(arrived) - number - 1 <= 3, "12,000 bytes are the first size above the window"

    assert arrived == list(range(20))


def test_more_records_than_credit_follow_by_themselves() -> None:
    """The other side grants again as it reads: records need no confirmation."""
    pair = opened()
    for number in range(3 * CONTROL_CREDIT):
        pair.here.there.send_control(b"%d" % number)
    pair.run()

    assert pair.there.take() == [("control", b"%d" % number) for number in range(3 * CONTROL_CREDIT)]
    assert pair.here.take() == [("room",)]


def test_output_waits_for_a_side_that_does_not_read() -> None:
    """No more than the limit of the output is in memory as frames, and all of it arrives in the end."""
    pair = opened(PeerLimits(window_bytes=-1))
    pair.client.pause()
    for number in range(100):
        pair.here.there.send(Lane.HANDOVER, number, b"m" * 50_000)
    pair.run()
    assert pair.there.take() == []

    pair.client.resume()
    pair.run()
    assert [each[1] for each in pair.there.take()] == list(range(100))
    assert pair.here.take() == [("room",)]


@pytest.mark.parametrize("is_duplicate", [False, True])
def test_a_broker_that_may_not_join_is_told_why(is_duplicate: bool) -> None:
    """Both sides have the reason, and the side that refused keeps nothing."""
    pair = Pair()
    pair.mesh.refusal = PeerRefused("another cluster: a and b", is_duplicate)
    pair.run()

    assert pair.here.take() == [("lost", "closed by the peer: another cluster: a and b")]
    assert pair.there.take() == []
    assert pair.client.closed


@pytest.mark.parametrize("is_duplicate", [False, True])
def test_either_side_may_refuse_the_other_after_its_hello(is_duplicate: bool) -> None:
    """Of two connections between the same brokers one is closed when both are known."""
    pair = Pair()
    pair.here.refusal = PeerRefused("second connection", is_duplicate)
    pair.run()

    assert pair.here.take() == [OPENED_HERE, ("lost", "second connection")]
    assert pair.there.take() == [OPENED_THERE, ("lost", "closed by the peer: second connection")]
    assert pair.client.closed
    assert pair.server.closed


def test_a_broker_without_a_mesh_lets_no_broker_in() -> None:
    """The one that dials has the reason."""
    pair = Pair(mesh=False)
    pair.run()

    assert pair.here.take() == [("lost", "closed by the peer: this broker belongs to no mesh")]


def test_a_login_that_fails_is_the_end() -> None:
    """Without credentials there is no mechanism but ANONYMOUS, which no broker uses."""
    pair = Pair(login=PeerLogin())
    pair.run()

    ((what, reason),) = pair.here.take()
    assert what == "lost"
    assert "the server offers only" in reason
    assert pair.mesh.subjects == []


def test_a_hello_that_is_too_long_is_not_sent() -> None:
    """The first frame is limited; the other side would close without a word of the reason."""
    pair = Pair(hello={"scope": ["prefix" * 10] * 100})
    pair.run()

    ((what, reason),) = pair.here.take()
    assert what == "lost"
    assert "does not fit into the first frame" in reason


def test_the_end_of_one_side_is_told_once_to_each() -> None:
    """However it came: here by the word of the mesh."""
    pair = opened()
    pair.here.there.close("the broker stops")
    pair.run()
    pair.client.connection_lost()
    pair.server.connection_lost()

    assert pair.here.take() == [("lost", "the broker stops")]
    assert pair.there.take() == [("lost", "closed by the peer: the broker stops")]


def test_nothing_is_sent_or_heard_after_the_end() -> None:
    """The mesh may be in the middle of something when it hears of it."""
    pair = opened()
    connection = pair.here.there
    pair.server.connection_lost()
    pair.client.connection_lost()
    connection.send_control(b"x")
    connection.send(Lane.BULK, 1, b"x")
    connection.accept(Lane.BULK, 1)
    connection.close("again")

    assert pair.here.take() == [("lost", "connection lost")]
    assert pair.there.take() == [("lost", "connection lost")]


def test_a_silent_broker_is_given_up() -> None:
    """After `connection-ttl`; heartbeats keep the connection before."""
    pair = opened(PeerLimits(idle_timeout_ms=1000))
    for tick in range(1, 41):
        pair.now = tick / 10
        for side in (pair.client, pair.server):
            deadline = side.next_deadline()
            if deadline is not None and deadline <= pair.now:
                side.handle_deadline(pair.now)
        pair.run()
    assert pair.here.take() == pair.there.take() == []

    for side in (pair.client, pair.server):
        side.handle_deadline(pair.now + 1.1)
    assert pair.here.take() == pair.there.take() == [("lost", "nothing was heard for 1 s")]


# -- a peer that does not keep to the rules ------------------------------------------------------------------------


def raw(mesh: OneMesh | None = None, **opening: object) -> tuple[Peer, Notes]:
    """A client that asks for the mesh, with one session."""
    broker = Broker()
    notes = Notes()
    broker.host.mesh = mesh or OneMesh(notes)
    values = {"desired_capabilities": (MESH,), "properties": {MESH: {"node": "x"}}} | opening
    return broker.connect("c", user="u", **values), notes


def control(handle: int = 0, address: str = "$artemis.mesh.control", name: str = "a") -> Attach:
    """An attach as of a broker."""
    target = Target(address=address)
    return Attach(name=name, handle=handle, role=False, source=Source(), target=target, initial_delivery_count=0)


def conditions(frames: list[tuple[int, object, bytes]]) -> list[str]:
    """Errors of closes and detaches."""
    ends = [one for _, one, _ in frames if isinstance(one, (Close, Detach))]
    return [end.error.condition for end in ends if end.error is not None]


@pytest.mark.parametrize("properties", [{}, {MESH: "text"}, {MESH: None}, {Symbol("other"): {"node": "x"}}])
def test_a_client_without_a_hello_is_refused(properties: dict[Symbol, object]) -> None:
    """Anyone may ask for a capability."""
    peer, notes = raw(properties=properties)

    assert conditions(peer.greeting) == ["amqp:not-allowed"]
    assert notes.take() == []


def test_what_the_mesh_says_of_a_refused_one_is_not_told() -> None:
    """Names of nodes and prefixes are for members only."""
    mesh = OneMesh(Notes())
    mesh.refusal = PeerRefused("no")
    peer, _ = raw(mesh)

    (answer,) = [one for _, one, _ in peer.greeting if isinstance(one, Open)]
    assert MESH not in (answer.properties or {})
    assert MESH not in answer.offered_capabilities


@pytest.mark.parametrize(
    "attach",
    [
        control(address="queue"),
        control(address="$artemis.mesh.handover"),
        Attach(name="a", handle=0, role=True, source=Source(address="$artemis.mesh.control"), target=Target()),
    ],
)
def test_other_links_are_refused(attach: Attach) -> None:
    """A peer has no rights of a client: neither queues, nor messages in the session of the records."""
    peer, _ = raw()

    assert conditions(peer.say(attach)) == ["amqp:not-allowed"]


def test_a_second_link_for_the_same_is_refused() -> None:
    """Records in two sequences would have no order."""
    peer, _ = raw()
    peer.say(control())

    assert conditions(peer.say(control(handle=1, name="b"))) == ["amqp:not-allowed"]


def test_the_end_of_a_link_is_the_end_of_the_connection() -> None:
    """A peer that cannot be told anything is not there."""
    peer, notes = raw()
    peer.say(control())
    notes.take()
    frames = peer.say(Detach(handle=0, closed=True))

    assert conditions(frames) == ["amqp:not-allowed"]
    assert [what for what, *_ in notes.take()] == ["lost"]


def test_a_third_session_is_the_end_of_the_connection() -> None:
    """One for records, one for messages."""
    peer, notes = raw()
    notes.take()
    peer.begin(1)
    peer.say(Begin(next_outgoing_id=0, incoming_window=9, outgoing_window=9), channel=2)

    assert notes.take() == [("lost", "a third session")]


@pytest.mark.parametrize(("payload", "settled"), [(b"short", False), (b"", False), (bytes(9), True)])
def test_a_message_without_a_number_or_settled_ends_the_connection(payload: bytes, settled: bool) -> None:
    """It could not be confirmed."""
    peer, notes = raw()
    peer.begin(1)
    peer.say(control(address="$artemis.mesh.handover"), channel=1)
    notes.take()
    transfer = Transfer(handle=0, delivery_id=0, delivery_tag=b"t", message_format=0, settled=settled)
    peer.say(frame_with(1, transfer, payload))

    assert notes.take() == [("lost", "a message without a number, or sent settled")]
