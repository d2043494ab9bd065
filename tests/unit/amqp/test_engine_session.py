"""Sessions: begin and end, windows, handles, delivery-ids and dispositions (AMQP 1.0 §2.5, §2.6, §2.7.6)."""

import pytest

from artemis_amqp.engine.hot_frames import ACCEPTED_CODE
from artemis_amqp.engine.limits import ERRANT_FRAMES, INCOMING_WINDOW, ConnectionLimits
from artemis_amqp.engine.performatives import (
    AmqpError,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Received,
    Rejected,
    Released,
    TransactionalState,
    Transfer,
    encode,
    frame,
)
from tests.amqp_harness import ACCEPTED, Conversation, kinds, read_frames, transfer


def opened(limits: ConnectionLimits | None = None) -> Conversation:
    """A conversation with one session on channel 0."""
    peer = Conversation(limits).open()
    peer.begin()
    return peer


def flows(frames: list[tuple[int, object, bytes]]) -> list[Flow]:
    return [one for _, one, _ in frames if isinstance(one, Flow)]


# -- begin and end (AMQP 1.0 §2.5)
# --------------------------------------------------------------------------------------


def test_begin_is_answered_with_the_peers_channel() -> None:
    """AMQP 1.0 §2.7.2: remote-channel names the channel that is answered; ours is our own choice."""
    peer = Conversation().open()

    ((channel, begin, _),) = peer.feed(Begin(next_outgoing_id=5, incoming_window=1, outgoing_window=1), channel=9)

    assert isinstance(begin, Begin)
    assert (channel, begin.remote_channel) == (0, 9)
    assert peer.handler.sessions[0].next_incoming_id == 5


def test_end_is_answered_and_ends_its_links() -> None:
    """AMQP 1.0 §2.5.5: links are detached with their session; the handler looks at them in `on_end`."""
    peer = opened()
    link = peer.attach_receiver("r", 0, credit=5)
    link.send(b"", b"x", "token", False)
    peer.output()

    assert kinds(peer.feed(End())) == [End]

    assert peer.calls == [("end", 0, None)]
    assert not link.is_attached
    assert not link.can_send
    assert link.unsettled() == []


def test_a_session_that_we_ended_ignores_everything_but_the_peers_end() -> None:
    """AMQP 1.0 §2.5.5, DISCARDING; other sessions go on."""
    peer = opened()
    peer.attach_sender("s", 0)
    other = peer.begin(1)
    peer.handler.sessions[0].end(AmqpError("amqp:not-allowed"))
    peer.output()
    peer.calls.clear()

    assert peer.feed(transfer(0), transfer(5), Detach(handle=9), Disposition(role=True, first=0)) == []
    assert peer.calls == []
    assert peer.feed(frame(1, peer.flow(echo=True))) != []
    assert peer.feed(End()) == []
    assert kinds(peer.feed(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))) == [Begin]
    assert not other.is_ended


def test_a_session_error_leaves_other_sessions_alone() -> None:
    """AMQP 1.0 §2.5.6: the scope of a session error is its session."""
    peer = opened()
    peer.begin(1)
    peer.attach_sender("s", 0, channel=1)

    frames = peer.feed(frame(0, Detach(handle=4)), transfer(0, b"fine", channel=1))

    assert peer.error_of(frames, End) == "amqp:session:unattached-handle"
    assert [call[0] for call in peer.calls] == ["end", "transfer"]
    assert not peer.engine.closed


# -- handles (AMQP 1.0 §2.6.2, §2.7.3)
# ----------------------------------------------------------------------------------


def attach(name: str, handle: int, role: bool = True) -> Attach:
    return Attach(name=name, handle=handle, role=role, initial_delivery_count=None if role else 0)


def test_handles_up_to_handle_max() -> None:
    """AMQP 1.0 §2.7.2: a higher one ends the connection."""
    peer = opened(ConnectionLimits(handle_max=1))

    assert kinds(peer.feed(attach("a", 0), attach("b", 1))) == [Attach, Attach]
    assert peer.error_of(peer.feed(attach("c", 2)), Close) == "amqp:connection:framing-error"


def test_the_peers_handle_max_binds_us() -> None:
    """AMQP 1.0 §2.7.2: its links need handles of ours."""
    peer = Conversation().open()
    peer.begin(handle_max=0)
    peer.feed(attach("a", 0))

    assert peer.error_of(peer.feed(attach("b", 1)), End) == "amqp:resource-limit-exceeded"


def test_a_handle_in_use_ends_the_session() -> None:
    """AMQP 1.0 §2.8.17."""
    peer = opened()
    peer.feed(attach("a", 0))

    assert peer.error_of(peer.feed(attach("b", 0)), End) == "amqp:session:handle-in-use"


@pytest.mark.parametrize("first", [Detach(handle=3), transfer(0, handle=3), "flow"])
def test_an_unattached_handle_ends_the_session(first: object) -> None:
    """AMQP 1.0 §2.8.17."""
    peer = opened()
    if first == "flow":
        first = peer.flow(handle=3)

    assert peer.error_of(peer.feed(first), End) == "amqp:session:unattached-handle"


def test_a_transfer_on_a_link_of_ours_ends_the_session() -> None:
    """AMQP 1.0 §2.6: the peer is the receiver there."""
    peer = opened()
    peer.attach_receiver("r", 0)

    assert peer.error_of(peer.feed(transfer(0)), End) == "amqp:not-allowed"


def test_a_sender_must_give_its_delivery_count() -> None:
    """AMQP 1.0 §2.7.3: initial-delivery-count must not be null if the role is sender."""
    peer = opened()

    frames = peer.feed(Attach(name="s", handle=0, role=False))

    assert peer.error_of(frames, End) == "amqp:invalid-field"


def test_handles_are_free_again_after_detach() -> None:
    """AMQP 1.0 §2.6.4: on both sides, the lowest first."""
    peer = opened()
    for number in range(4):
        peer.feed(attach(f"l{number}", number))
    peer.feed(Detach(handle=1), Detach(handle=2))

    handles = [one.handle for _, one, _ in peer.feed(attach("x", 2), attach("y", 1)) if isinstance(one, Attach)]

    assert handles == [1, 2]


def test_frames_on_a_link_that_we_detached_are_ignored() -> None:
    """AMQP 1.0 §2.6.5, amqp10 §7.1: the peer did not know; its delivery-ids count all the same."""
    peer = opened()
    link = peer.attach_sender("s", 0)
    peer.attach_sender("t", 1)
    peer.feed(transfer(0))
    link.detach(AmqpError("amqp:resource-deleted"))
    assert peer.error_of(peer.output(), Detach) == "amqp:resource-deleted"
    peer.calls.clear()

    late = peer.flow(handle=0, next_outgoing_id=4)
    frames = peer.feed(transfer(1, more=True), transfer(None), transfer(2), late, transfer(3, handle=1))

    assert frames == []
    assert [call[:3] for call in peer.calls] == [("transfer", "t", 3)]
    assert peer.feed(Detach(handle=0, closed=True)) == []
    assert peer.error_of(peer.feed(Detach(handle=0)), End) == "amqp:session:unattached-handle"


def test_the_handle_of_a_detached_link_is_taken_until_the_peer_detached() -> None:
    """AMQP 1.0 §2.6.4."""
    peer = opened()
    peer.attach_sender("s", 0).detach()
    peer.output()

    assert peer.error_of(peer.feed(attach("t", 0)), End) == "amqp:session:handle-in-use"


def test_a_peer_that_never_stops_on_a_detached_link_is_errant() -> None:
    """AMQP 1.0 §2.8.17, errant-link."""
    peer = opened()
    peer.attach_sender("s", 0).detach()
    peer.output()
    for number in range(ERRANT_FRAMES):
        peer.feed(transfer(number))
    assert not peer.handler.sessions[0].is_ended

    frames = peer.feed(transfer(ERRANT_FRAMES))

    assert peer.error_of(frames, End) == "amqp:session:errant-link"


def test_a_flow_on_a_detached_link_still_opens_the_window() -> None:
    """AMQP 1.0 §2.5.6: the session's part of a flow always counts."""
    peer = Conversation().open()
    session = peer.begin(window=0)
    link = peer.attach_receiver("r", 0)
    other = peer.attach_receiver("o", 1, credit=1, channel=0)
    link.detach()
    session.remote_incoming_window = 0
    peer.output()
    peer.calls.clear()

    peer.feed(peer.flow(handle=0))

    assert ("credit", "o", 1, False) in peer.calls
    assert other.can_send


# -- windows (AMQP 1.0 §2.5.6)
# ------------------------------------------------------------------------------------------


def test_the_incoming_window_is_replenished_at_half() -> None:
    """AMQP 1.0 §2.5.6: so that the peer never waits."""
    peer = opened()
    peer.attach_sender("s", 0).grant(5000)
    peer.output()
    for number in range(INCOMING_WINDOW // 2 - 1):
        assert peer.feed(transfer(number)) == []

    (flow,) = flows(peer.feed(transfer(INCOMING_WINDOW // 2 - 1)))

    assert (flow.next_incoming_id, flow.incoming_window) == (INCOMING_WINDOW // 2, INCOMING_WINDOW)
    assert flow.handle is None


def test_a_window_is_replenished_once_per_read() -> None:
    """Work per batch: one flow, however many transfers."""
    peer = opened()
    peer.attach_sender("s", 0).grant(5000)
    peer.output()

    frames = peer.feed(*[transfer(number) for number in range(INCOMING_WINDOW)])

    assert len(frames) == 1
    assert len(peer.calls) == INCOMING_WINDOW


def test_a_transfer_beyond_the_window_ends_the_session() -> None:
    """AMQP 1.0 §2.8.17, window-violation."""
    peer = opened()
    peer.attach_sender("s", 0).grant(5000)
    peer.output()

    frames = peer.feed(*[transfer(number) for number in range(INCOMING_WINDOW + 1)])

    assert peer.error_of(frames, End) == "amqp:session:window-violation"


def test_a_held_session_announces_no_window_but_takes_what_is_under_way() -> None:
    """AMQP 1.0 §2.5.6: what was announced before may be used up, no frame more."""
    peer = opened()
    peer.attach_sender("s", 0).grant(5000)
    peer.output()
    session = peer.handler.sessions[0]

    session.hold(True)
    (flow,) = flows(peer.output())
    silent = peer.feed(*[transfer(number) for number in range(INCOMING_WINDOW)])

    assert flow.incoming_window == 0
    assert silent == []
    assert len(peer.calls) == INCOMING_WINDOW
    assert peer.error_of(peer.feed(transfer(INCOMING_WINDOW)), End) == "amqp:session:window-violation"


def test_a_session_that_is_let_go_announces_its_window() -> None:
    """AMQP 1.0 §2.5.6."""
    peer = opened()
    session = peer.handler.sessions[0]
    session.hold(True)
    peer.output()

    session.hold(False)

    assert [flow.incoming_window for flow in flows(peer.output())] == [INCOMING_WINDOW]


def test_holding_twice_says_so_once() -> None:
    """A change of nothing is not written."""
    peer = opened()
    session = peer.handler.sessions[0]
    session.hold(False)
    assert peer.output() == []


@pytest.mark.parametrize("fields", [{"next_incoming_id": 1}, {"next_outgoing_id": 2**32 - 1}])
def test_a_flow_that_cannot_be_ends_the_session(fields: dict[str, int]) -> None:
    """AMQP 1.0 §2.5.6: ahead of what we sent, or behind what we received."""
    peer = opened()

    assert peer.error_of(peer.feed(peer.flow(**fields)), End) == "amqp:session:window-violation"


def test_a_flow_before_our_begin_arrived_has_no_next_incoming_id() -> None:
    """AMQP 1.0 §2.5.6: null stands for our initial next-outgoing-id."""
    peer = opened()
    session = peer.handler.sessions[0]
    link = peer.attach_receiver("r", 0, credit=5)
    link.send(b"", b"x", 1, True)
    peer.output()

    peer.feed(peer.flow(next_incoming_id=None, incoming_window=10))

    assert session.remote_incoming_window == 9


@pytest.mark.parametrize(
    ("window", "left"), [(0, 0), (2, 0), (3, 0), (4, 1), (2**31, 2**31 - 3), (2**32 - 1, 2**32 - 4)]
)
def test_the_peers_window_counts_from_what_it_had_seen(window: int, left: int) -> None:
    """AMQP 1.0 §2.5.6: what was under way when it wrote the flow is taken off, never below nothing; any size is a
    window.
    """
    peer = opened()
    session = peer.handler.sessions[0]
    link = peer.attach_receiver("r", 0, credit=5)
    for _ in range(3):
        link.send(b"", b"x", 1, True)
    peer.output()

    peer.feed(peer.flow(next_incoming_id=0, incoming_window=window))

    assert session.remote_incoming_window == left


def test_window_arithmetic_wraps_around() -> None:
    """AMQP 1.0 §2.5.6: transfer-ids are serial numbers."""
    peer = Conversation().open()
    session = peer.begin(next_outgoing_id=2**32 - 1)
    peer.attach_sender("s", 0)
    link = peer.attach_receiver("r", 1, credit=0)
    session.next_outgoing_id = 2**32 - 1
    session.remote_incoming_window = 5
    link.credit = 5

    peer.feed(transfer(2**32 - 1), transfer(0), transfer(1))
    link.send(b"", b"a", 1, True)
    link.send(b"", b"b", 1, True)
    peer.output()
    (flow,) = flows(peer.feed(peer.flow(next_incoming_id=2**32 - 1, incoming_window=3, echo=True)))

    assert len(peer.calls) == 3
    assert (flow.next_incoming_id, flow.next_outgoing_id) == (2, 1)
    assert session.remote_incoming_window == 1


def test_an_echo_is_answered_without_an_echo() -> None:
    """AMQP 1.0 §2.7.4: several may be answered by one flow."""
    peer = opened()

    (flow,) = flows(peer.feed(peer.flow(echo=True), peer.flow(echo=True)))

    assert not flow.echo
    assert (flow.next_incoming_id, flow.next_outgoing_id, flow.handle) == (0, 0, None)


def test_a_window_that_opens_wakes_every_sender() -> None:
    """AMQP 1.0 §2.5.6."""
    peer = Conversation().open()
    peer.begin(window=0)
    for name, handle in (("a", 0), ("b", 1)):
        peer.feed(attach(name, handle))
        peer.feed(peer.flow(handle=handle, delivery_count=0, link_credit=1, incoming_window=0))
    peer.calls.clear()

    peer.feed(peer.flow(incoming_window=1))

    assert peer.calls == [("credit", "a", 1, False), ("credit", "b", 1, False)]


# -- delivery-ids (AMQP 1.0 §2.6.12, §2.7.5)
# ----------------------------------------------------------------------------


def test_delivery_ids_count_across_links() -> None:
    """AMQP 1.0 §2.7.5: one sequence per session and direction, starting anywhere."""
    peer = opened()
    peer.attach_sender("a", 0)
    peer.attach_sender("b", 1)

    peer.feed(transfer(2**32 - 1, handle=0), transfer(0, handle=1), transfer(1, handle=0))

    assert [(call[1], call[2]) for call in peer.calls] == [("a", 2**32 - 1), ("b", 0), ("a", 1)]


@pytest.mark.parametrize("second", [0, 2, 2**31])
def test_a_gap_in_delivery_ids_ends_the_session(second: int) -> None:
    """AMQP 1.0 §2.7.5: something was lost, or somebody cannot count."""
    peer = opened()
    peer.attach_sender("a", 0)
    peer.attach_sender("b", 1)

    frames = peer.feed(transfer(0, handle=0), transfer(second, handle=1))

    assert peer.error_of(frames, End) == "amqp:invalid-field"


# -- dispositions (AMQP 1.0 §2.7.6)
# -------------------------------------------------------------------------------------


def test_what_is_written_while_output_is_taken_plans_no_other_turn() -> None:
    """An answer is collected, and becomes a frame when the transport asks for the output: one wake-up is enough."""
    peer = opened()
    peer.attach_sender("a", 0)
    peer.engine.receive_data(transfer(0), 0.0)
    before = peer.handler.woken
    peer.handler.sessions[0].settle_incoming(0, 0, ACCEPTED, True)
    assert peer.handler.woken == before + 1
    assert kinds(peer.output()) == [Disposition]
    assert peer.handler.woken == before + 1
    peer.handler.sessions[0].write(Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1))
    assert peer.handler.woken == before + 2


def sent(count: int, first: int = 0) -> Conversation:
    """A conversation in which this many deliveries of two links wait for their outcome."""
    peer = opened()
    one = peer.attach_receiver("a", 0, credit=count)
    two = peer.attach_receiver("b", 1, credit=count)
    peer.handler.sessions[0].next_delivery_id = first
    for number in range(count):
        (two if number % 2 else one).send(b"", b"x", number, False)
    peer.output()
    return peer


def outcomes(peer: Conversation) -> list[object]:
    """Tokens of the deliveries that got one."""
    return [call[3] for call in peer.calls]


def test_a_range_covers_all_links_and_passes_unknown_ids() -> None:
    """AMQP 1.0 §2.7.6."""
    peer = sent(6)
    peer.feed(Disposition(role=True, first=2, last=3, settled=True))
    peer.calls.clear()

    assert peer.feed(Disposition(role=True, first=1, last=100, settled=True, state=Released())) == []

    assert peer.calls == [
        ("disposition", "b", 1, 1, Released(), True),
        ("disposition", "a", 4, 4, Released(), True),
        ("disposition", "b", 5, 5, Released(), True),
    ]
    assert [sent.delivery_id for sent in peer.handler.sessions[0].unsettled.all()] == [0]


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, 2**31 - 1, [0, 1, 2, 3]),
        (2**31, 3, [0, 1, 2, 3]),
        (2**31, 2**32 - 1, []),
        (4, 2**32 - 1, []),
        (3, 0, [0, 3]),
        (2, 1, [0, 1, 2, 3]),
        (2**32 - 5, 1, [0, 1]),
    ],
)
def test_a_range_may_be_as_wide_as_it_likes(first: int, last: int, expected: list[int]) -> None:
    """AMQP 1.0 §2.7.6, amqp10 §8.2: serial order, and the cost is that of what is there."""
    peer = sent(4)

    peer.feed(Disposition(role=True, first=first, last=last, settled=True))

    assert sorted(str(token) for token in outcomes(peer)) == [str(token) for token in expected]


def test_ranges_wrap_around() -> None:
    """AMQP 1.0 §2.7.6: delivery-numbers are serial."""
    peer = sent(6, first=2**32 - 3)

    peer.feed(Disposition(role=True, first=2**32 - 2, last=1, settled=True))

    assert outcomes(peer) == [1, 2, 3, 4]
    assert [sent.delivery_id for sent in peer.handler.sessions[0].unsettled.all()] == [2**32 - 3, 2]


def test_wide_ranges_cost_nothing_where_nothing_is() -> None:
    """reliability §4, 12: per-turn work is bounded. This would run for hours otherwise."""
    peer = sent(4000)
    wide = frame(0, Disposition(role=True, first=4000, last=2**32 - 1, settled=True))

    peer.feed(wide * 4000)

    assert peer.calls == []


def test_accepted_is_reported_as_its_code() -> None:
    """The usual state is no object; both ways of reading a disposition agree."""
    peer = sent(4)
    usual = Disposition(role=True, first=0, settled=True, state=None)
    peer.feed(usual)
    for number, octets in enumerate(("00532445", "00800000000000000024d00000000400000000", "00532445")):
        fields = f"41 52{number + 1:02x} 40 41 {octets}" + (" 41" if number == 2 else "")
        body = bytes.fromhex(fields)
        data = b"\0\x53\x15\xc0" + bytes((len(body) + 1, 6 if number == 2 else 5)) + body
        peer.feed((8 + len(data)).to_bytes(4, "big") + b"\x02\0\0\0" + data)

    assert [call[4] for call in peer.calls] == [None, ACCEPTED_CODE, ACCEPTED_CODE, ACCEPTED_CODE]


def test_an_unsettled_outcome_waits_for_our_settlement() -> None:
    """AMQP 1.0 §2.7.6, amqp10 §8.2: we answer as sender, once; then the delivery is forgotten."""
    peer = sent(2)
    link = peer.handler.links["a"]
    peer.feed(Disposition(role=True, first=0, state=Rejected()))
    assert peer.calls == [("disposition", "a", 0, 0, Rejected(), False)]

    link.settle(0, ACCEPTED)  # type: ignore[attr-defined]
    link.settle(0, ACCEPTED)  # type: ignore[attr-defined]

    ((_, answer, _),) = peer.output()
    assert isinstance(answer, Disposition)
    assert (answer.role, answer.first, answer.last, answer.settled) == (False, 0, 0, True)
    peer.feed(Disposition(role=True, first=0, settled=True))
    assert len(peer.calls) == 1


def test_nothing_said_is_nothing_done() -> None:
    """AMQP 1.0 §2.7.6: neither a state nor settled."""
    peer = sent(3)

    peer.feed(Disposition(role=True, first=0, last=2), Disposition(role=False, first=0, last=9, settled=True))

    assert peer.calls == []


def test_states_of_a_transaction_and_received_are_passed_on() -> None:
    """AMQP 1.0 §2.7.6: states that are not final may be followed by others."""
    peer = sent(2)
    state = TransactionalState(txn_id=b"t")

    peer.feed(
        Disposition(role=True, first=0, last=1, state=Received(0, 0)),
        Disposition(role=True, first=0, last=1, state=state),
    )

    assert [call[4] for call in peer.calls] == [Received(0, 0), Received(0, 0), state, state]


def test_answers_to_neighbours_become_one_disposition() -> None:
    """AMQP 1.0 §2.7.6: ranges, also across 2**32; another state or a gap starts a new one."""
    peer = opened()
    session = peer.handler.sessions[0]
    released = encode(Released())
    for number in (2**32 - 2, 2**32 - 1, 0, 1):
        session.settle_incoming(number, number, ACCEPTED, True)
    session.settle_incoming(2, 2, released, True)
    session.settle_incoming(4, 4, released, True)
    session.settle_incoming(5, 5, released, False)

    ranges = [
        (one.first, one.last, one.settled) for _, one, _ in peer.output() if isinstance(one, Disposition) and one.role
    ]

    assert ranges == [(2**32 - 2, 1, True), (2, 2, True), (4, 4, True), (5, 5, False)]


def test_answers_go_out_before_the_end() -> None:
    """AMQP 1.0 §2.5.5: what was decided is said."""
    peer = opened()
    session = peer.handler.sessions[0]
    session.settle_incoming(0, 0, ACCEPTED, True)
    session.end()
    session.settle_incoming(1, 1, ACCEPTED, True)

    assert kinds(peer.output()) == [Disposition, End]


def test_a_long_reason_needs_the_large_list() -> None:
    """AMQP 1.0 §1.4: more than 255 octets."""
    peer = opened()
    error = AmqpError("amqp:not-allowed", "because " * 100)

    peer.handler.sessions[0].settle_incoming(7, 9, encode(Rejected(error=error)), True)

    assert [one for _, one, _ in peer.output()] == [
        Disposition(role=True, first=7, last=9, settled=True, state=Rejected(error=error))
    ]


# -- frames that do not fit (AMQP 1.0 §2.8.15, frame-size-too-small)
# ----------------------------------------------------


def narrow() -> Conversation:
    peer = Conversation().open(Open(container_id="c", max_frame_size=512))
    peer.begin()
    return peer


def sizes(data: bytes) -> list[int]:
    found = []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(size)
        data = data[size:]
    return found


def test_errors_are_cut_to_the_peers_frames() -> None:
    """AMQP 1.0 §2.7.1: no frame is larger than the peer's max-frame-size."""
    peer = narrow()
    error = AmqpError("amqp:not-allowed", "\u20ac" * 1000)
    session = peer.handler.sessions[0]
    link = peer.attach_receiver("r", 0)
    session.settle_incoming(0, 0, encode(Rejected(error=error)), True)
    session.settle_incoming(1, 1, encode(TransactionalState(txn_id=b"t", outcome=Rejected(error=error))), True)
    link.detach(error)
    session.end(error)
    peer.engine.close(error)

    data = peer.engine.data_to_send()

    assert len(sizes(data)) == 5
    assert max(sizes(data)) <= 512


def test_an_attach_whose_answer_does_not_fit_is_refused() -> None:
    """AMQP 1.0 §2.7.3: the link fails with frame-size-too-small, the session goes on."""
    peer = narrow()

    frames = peer.feed(Attach(name="n" * 500, handle=0, role=True), attach("small", 1))

    assert peer.error_of(frames, Detach) == "amqp:frame-size-too-small"
    assert not peer.handler.sessions[0].is_ended
    assert isinstance(frames[-1][1], Attach)


def test_a_large_delivery_is_cut_to_the_peers_frames() -> None:
    """AMQP 1.0 §2.6.14: only the payload is split, and only the first frame names the delivery."""
    peer = narrow()
    link = peer.attach_receiver("r", 0, credit=1)

    link.send(b"h" * 700, b"b" * 1500, 0, False)
    data = peer.engine.data_to_send()

    assert max(sizes(data)) == 512
    frames = read_frames(data)
    assert b"".join(payload for _, _, payload in frames) == b"h" * 700 + b"b" * 1500
    transfers = [one for _, one, _ in frames if isinstance(one, Transfer)]
    assert [one.more for one in transfers] == [True] * (len(transfers) - 1) + [False]
    assert [one.delivery_id for one in transfers] == [0] + [None] * (len(transfers) - 1)
