"""Links: attach and detach, credit, transfers in one and in many frames, settlement (AMQP 1.0 §2.6, §2.7.5)."""

import pytest

from artemis_amqp.engine import receiver as receiver_module
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.performatives import (
    Accepted,
    AmqpError,
    Attach,
    Detach,
    Disposition,
    End,
    Flow,
    Modified,
    Open,
    Released,
    Source,
    Target,
    Transfer,
    encode,
    frame,
)
from artemis_amqp.engine.sender import SenderLink, tag_after
from artemis_amqp.engine.types import Symbol
from tests.amqp_harness import ACCEPTED, Conversation, Frame, kinds, read_frames, transfer


def opened(limits: ConnectionLimits | None = None) -> Conversation:
    """A conversation with one session on channel 0."""
    peer = Conversation(limits).open()
    peer.begin()
    return peer


def flows(frames: list[Frame]) -> list[Flow]:
    return [one for _, one, _ in frames if isinstance(one, Flow)]


def transfers(frames: list[Frame]) -> list[Transfer]:
    return [one for _, one, _ in frames if isinstance(one, Transfer)]


def assert_only_link_failed(peer: Conversation, frames: list[Frame], condition: str) -> None:
    """The link is detached with this condition, everything else goes on."""
    assert peer.error_of(frames, Detach) == condition
    assert [call[0] for call in peer.calls].count("detach") == 1
    assert not peer.handler.sessions[0].is_ended
    assert not peer.engine.closed


# -- attach and detach (AMQP 1.0 §2.6.3, §2.6.4)
# ------------------------------------------------------------------------


def test_an_attach_is_answered_before_anything_else() -> None:
    """AMQP 1.0 §2.6.3: credit follows the answer, in the same read."""
    peer = opened()

    frames = peer.feed(Attach(name="s", handle=0, role=False, initial_delivery_count=2**32 - 1, target=Target()))

    assert kinds(frames) == [Attach, Flow]
    (flow,) = flows(frames)
    assert (flow.handle, flow.delivery_count, flow.link_credit) == (0, 2**32 - 1, 10)


def test_a_refused_attach_gets_a_null_terminus_and_the_reason() -> None:
    """AMQP 1.0 §2.6.3: attach first, then detach with closed and the error."""
    peer = opened()
    peer.handler.answers_attach = False
    peer.feed(Attach(name="r", handle=4, role=True, source=Source(address="q"), target=Target()))

    peer.handler.links["r"].refuse(AmqpError("amqp:not-found", "no q"))

    (_, attach, _), (_, detach, _) = peer.output()
    assert isinstance(attach, Attach)
    assert (attach.name, attach.role, attach.source) == ("r", False, None)
    assert detach == Detach(handle=attach.handle, closed=True, error=AmqpError("amqp:not-found", "no q"))
    assert peer.feed(Detach(handle=4, closed=True)) == []


@pytest.mark.parametrize("modes", [{"snd_settle_mode": 3}, {"rcv_settle_mode": 2}])
def test_a_settle_mode_that_does_not_exist_is_refused(modes: dict[str, int]) -> None:
    """AMQP 1.0 §2.8.2, §2.8.3."""
    peer = opened()
    given = {"snd_settle_mode": 2, "rcv_settle_mode": 0, **modes}

    frames = peer.feed(
        Attach(
            name="r",
            handle=0,
            role=True,
            snd_settle_mode=given["snd_settle_mode"],
            rcv_settle_mode=given["rcv_settle_mode"],
        )
    )

    assert peer.error_of(frames, Detach) == "amqp:invalid-field"
    assert peer.calls == []


@pytest.mark.parametrize("closed", [True, False])
def test_a_detach_is_answered_in_kind(closed: bool) -> None:
    """AMQP 1.0 §2.6.4: closed demands closed."""
    peer = opened()
    peer.attach_sender("s", 7)

    assert peer.feed(Detach(handle=7, closed=closed)) == [(0, Detach(handle=0, closed=closed), b"")]
    assert peer.calls == [("detach", "s", closed, None)]


def test_a_detached_link_says_nothing_more() -> None:
    """AMQP 1.0 §2.6.4: credit, drain and detach of a link that is gone are void."""
    peer = opened()
    sender = peer.attach_sender("s", 0)
    receiver = peer.attach_receiver("r", 1, credit=1)
    peer.feed(Detach(handle=0), Detach(handle=1))

    sender.grant(5)
    sender.detach()
    receiver.drained()
    receiver.detach()

    assert peer.output() == []


def test_one_name_may_be_used_in_both_directions() -> None:
    """AMQP 1.0 §2.6.1: the direction is part of a link's identity."""
    peer = opened()

    frames = peer.feed(
        Attach(name="l", handle=0, role=False, initial_delivery_count=0), Attach(name="l", handle=1, role=True)
    )

    assert [(one.handle, one.role) for _, one, _ in frames if isinstance(one, Attach)] == [(0, True), (1, False)]


# -- credit we have (AMQP 1.0 §2.6.7)
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delivery_count", "credit", "left"),
    [(0, 5, 2), (3, 5, 5), (0, 3, 0), (0, 0, 0), (2, 0, 0), (None, 4, 1), (3, 2**31, 2**31), (0, 2**32 - 1, 2**32 - 4)],
)
def test_credit_counts_from_the_receivers_view(delivery_count: int | None, credit: int, left: int) -> None:
    """AMQP 1.0 §2.6.7: what it had not seen yet is taken off; credit of any size is credit."""
    peer = opened()
    link = peer.attach_receiver("r", 0, credit=3)
    for _ in range(3):
        link.send(b"", b"x", 0, True)
    peer.output()

    peer.feed(peer.flow(handle=0, delivery_count=delivery_count, link_credit=credit))

    assert link.credit == left
    assert peer.calls == [("credit", "r", left, False)]


def test_credit_arithmetic_wraps_around() -> None:
    """AMQP 1.0 §2.6.7: delivery-count is a serial number."""
    peer = opened()
    link = peer.attach_receiver("r", 0)
    link.delivery_count = 1

    peer.feed(peer.flow(handle=0, delivery_count=2**32 - 2, link_credit=10))

    assert link.credit == 7


def test_a_drain_gives_the_credit_back() -> None:
    """AMQP 1.0 §2.6.7: delivery-count goes ahead by the credit, and the flow says that it drains."""
    peer = opened()
    link = peer.attach_receiver("r", 0, credit=5)
    link.send(b"", b"x", 0, True)
    link.drain = True

    link.drained()

    (flow,) = flows(peer.output())
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (5, 0, True)


def test_a_drain_without_credit_is_answered_too() -> None:
    """AMQP 1.0 §2.6.7, amqp10 §7.2: receivers wait for it."""
    peer = opened()
    peer.attach_receiver("r", 0)

    (flow,) = flows(peer.feed(peer.flow(handle=0, delivery_count=0, link_credit=0, drain=True)))

    assert (flow.handle, flow.delivery_count, flow.link_credit, flow.drain) == (0, 0, 0, True)


def test_a_link_echo_is_answered_with_the_links_state() -> None:
    """AMQP 1.0 §2.7.4."""
    peer = opened()
    peer.attach_receiver("r", 0)
    peer.attach_sender("s", 1)

    frames = peer.feed(
        peer.flow(handle=0, delivery_count=0, link_credit=4, echo=True),
        peer.flow(handle=1, delivery_count=0, echo=True),
    )

    assert [(flow.handle, flow.link_credit, flow.echo) for flow in flows(frames)] == [(0, 4, False), (1, 10, False)]


def test_the_answer_to_a_drain_comes_behind_the_deliveries_it_counts() -> None:
    """AMQP 1.0 §2.6.7: a flow ahead of a delivery would take the credit away that the delivery needs."""
    peer = opened()
    peer.handler.sessions[0].remote_incoming_window = 0
    link = peer.attach_receiver("r", 0)
    peer.feed(peer.flow(handle=0, delivery_count=0, link_credit=5, drain=True, incoming_window=0))
    link.send(b"", b"x" * 10, 0, True)
    link.drained()
    assert peer.output() == []

    frames = peer.feed(peer.flow(incoming_window=1))

    assert kinds(frames) == [Transfer, Flow]
    assert [(flow.delivery_count, flow.link_credit) for flow in flows(frames)] == [(5, 0)]


@pytest.mark.parametrize(
    "why_not",
    ["credit", "window", "paused", "output", "waiting", "detached"],
)
def test_when_a_link_cannot_send(why_not: str) -> None:
    """Credit, window, room and an open link: all four."""
    peer = opened()
    link = peer.attach_receiver("r", 0, credit=2)
    assert link.can_send
    if why_not == "credit":
        peer.feed(peer.flow(handle=0, delivery_count=0, link_credit=0))
    elif why_not == "window":
        peer.feed(peer.flow(incoming_window=0))
    elif why_not == "paused":
        peer.engine.pause()
    elif why_not == "output":
        peer.engine.outbox.write(b"\0" * peer.engine.outbox.limit)
    elif why_not == "waiting":
        peer.engine.pause()
        link.send(b"", b"x" * 2**18, 0, True)
        peer.engine.outbox.is_paused = False
    else:
        peer.feed(Detach(handle=0))

    assert not link.can_send


# -- credit the peer has ---------------------------------------------------------------------------------------


def test_a_delivery_without_credit_detaches() -> None:
    """AMQP 1.0 §2.8.18, transfer-limit-exceeded."""
    peer = opened()
    peer.handler.credit = 2
    peer.attach_sender("s", 0)

    frames = peer.feed(transfer(0), transfer(1), transfer(2))

    assert_only_link_failed(peer, frames, "amqp:link:transfer-limit-exceeded")


def test_credit_counts_deliveries_not_frames() -> None:
    """AMQP 1.0 §2.6.7."""
    peer = opened()
    peer.handler.credit = 1
    link = peer.attach_sender("s", 0)

    peer.feed(transfer(0, more=True), transfer(None, more=True), transfer(None))

    assert (link.credit, link.delivery_count) == (0, 1)
    assert len(peer.calls) == 1


def test_credit_that_was_taken_back_may_still_be_used_by_what_is_under_way() -> None:
    """AMQP 1.0 §2.6.7, amqp10 §7.2: the peer could not know; but no delivery beyond the most we ever allowed."""
    peer = opened()
    link = peer.attach_sender("s", 0)
    link.grant(3)
    assert [flow.link_credit for flow in flows(peer.output())] == [3]

    assert peer.feed(*[transfer(number) for number in range(10)]) == []

    assert [call[0] for call in peer.calls] == ["transfer"] * 10
    assert_only_link_failed(peer, peer.feed(transfer(10)), "amqp:link:transfer-limit-exceeded")


def test_a_new_grant_starts_from_where_the_peer_is() -> None:
    """AMQP 1.0 §2.6.7: credit is absolute."""
    peer = opened()
    link = peer.attach_sender("s", 0)
    peer.feed(transfer(0), transfer(1))
    link.grant(4)

    (flow,) = flows(peer.output())

    assert (flow.delivery_count, flow.link_credit) == (2, 4)


def test_credit_counts_from_the_flow_that_grants_it() -> None:
    """AMQP 1.0 §2.6.7: what arrives before it is written uses what was granted before."""
    peer = opened()
    link = peer.attach_sender("s", 0)
    link.grant(100)
    peer.engine.receive_data(transfer(0), 0.0)

    (flow,) = flows(peer.output())

    assert (flow.delivery_count, flow.link_credit) == (1, 100)
    assert link.credit == 100


def test_a_peer_that_drained_has_used_its_credit() -> None:
    """AMQP 1.0 §2.6.7: its delivery-count went ahead."""
    peer = opened()
    link = peer.attach_sender("s", 0)

    peer.feed(peer.flow(handle=0, delivery_count=10, link_credit=0, available=4, drain=True))

    assert (link.credit, link.delivery_count, link.available) == (0, 10, 4)
    assert_only_link_failed(peer, peer.feed(transfer(0)), "amqp:link:transfer-limit-exceeded")


def test_a_peer_may_give_credit_back_in_the_middle_of_a_delivery() -> None:
    """AMQP 1.0 §2.6.7: delivery-count moves with the first frame, so that what is given back and what arrives are two
    things.
    """
    peer = opened()
    link = peer.attach_sender("s", 0)
    link.grant(10, drain=True)
    peer.output()

    peer.feed(transfer(0, b"ab", more=True), transfer(None, b"c", more=True))
    before = (link.arriving, link.returned, link.delivery_count)
    peer.feed(peer.flow(handle=0, delivery_count=10, link_credit=0, drain=True))
    between = (link.arriving, link.returned, link.delivery_count)
    peer.feed(transfer(None, b"d"))

    assert before == (3, 0, 1)
    assert between == (3, 9, 10)
    assert (link.arriving, link.returned, link.delivery_count) == (-1, 9, 10)
    assert [call[4] for call in peer.calls] == [b"abcd"]


def test_an_aborted_delivery_leaves_a_drain_a_drain() -> None:
    """Its credit is given back from where the peer is then, with the drain that it belonged to."""
    peer = opened()
    link = peer.attach_sender("s", 0)
    link.grant(4, drain=True)
    peer.output()

    frames = peer.feed(transfer(0), transfer(1, more=True), transfer(None, aborted=True), transfer(2))

    assert [(flow.delivery_count, flow.link_credit, flow.drain) for flow in flows(frames)] == [(3, 2, True)]
    assert link.returned == 0


# -- deliveries that arrive ------------------------------------------------------------------------------------


def test_a_delivery_in_one_frame() -> None:
    """AMQP 1.0 §2.7.5: fields as given, format 0 if there is none."""
    peer = opened()
    peer.attach_sender("s", 0)

    peer.feed(
        transfer(0, b"abc"),
        transfer(1, b"", settled=True, message_format=7),
        transfer(2, state=Released(), resume=True),
    )

    assert peer.calls == [
        ("transfer", "s", 0, b"0", b"abc", False, 0, None, False),
        ("transfer", "s", 1, b"1", b"", True, 7, None, False),
        ("transfer", "s", 2, b"2", b"x", False, 0, Released(), True),
    ]


def test_the_frames_of_a_delivery_are_put_together() -> None:
    """AMQP 1.0 §2.6.14: later frames may repeat what the first said; settled and state may come late; the last may be
    empty.
    """
    peer = opened()
    peer.attach_sender("s", 0)

    peer.feed(
        transfer(0, b"ab", more=True, message_format=0),
        transfer(0, b"cd", more=True, message_format=0, settled=True),
        transfer(None, b"", state=Released()),
    )

    assert peer.calls == [("transfer", "s", 0, b"0", b"abcd", True, 0, Released(), False)]


def test_deliveries_of_different_links_may_interleave() -> None:
    """AMQP 1.0 §2.6.14."""
    peer = opened()
    peer.attach_sender("a", 0)
    peer.attach_sender("b", 1)

    peer.feed(
        transfer(0, b"a", more=True), transfer(1, b"b", 1, more=True), transfer(None, b"A"), transfer(None, b"B", 1)
    )

    assert [(call[1], call[4]) for call in peer.calls] == [("a", b"aA"), ("b", b"bB")]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(transfer(1, b"x"), id="interleaved"),
        pytest.param(transfer(0, b"x", delivery_tag=b"other"), id="another tag"),
        pytest.param(transfer(None, b"x", message_format=1), id="another format"),
        pytest.param(transfer(None, b"x", settled=False), id="unsettled again"),
    ],
)
def test_the_frames_of_a_delivery_must_agree(second: bytes) -> None:
    """AMQP 1.0 §2.7.5."""
    peer = opened()
    peer.attach_sender("s", 0)

    frames = peer.feed(transfer(0, b"a", more=True, settled=True), second)

    assert_only_link_failed(peer, frames, "amqp:invalid-field")


@pytest.mark.parametrize("first", [transfer(None, delivery_tag=b"t"), transfer(0, delivery_tag=None)])
def test_the_first_frame_names_the_delivery(first: bytes) -> None:
    """AMQP 1.0 §2.7.5: delivery-id and delivery-tag must be set."""
    peer = opened()
    peer.attach_sender("s", 0)

    assert_only_link_failed(peer, peer.feed(first), "amqp:invalid-field")


def test_an_aborted_delivery_is_dropped_and_its_credit_given_back() -> None:
    """AMQP 1.0 §2.7.5: in the first frame or later; the id is used up."""
    peer = opened()
    link = peer.attach_sender("s", 0)

    frames = peer.feed(
        transfer(0, more=True), transfer(None, aborted=True), transfer(1, aborted=True), transfer(2, b"z")
    )

    assert [call[4] for call in peer.calls] == [b"z"]
    assert [(flow.delivery_count, flow.link_credit) for flow in flows(frames)] == [(3, link.credit)]
    assert link.credit >= 9
    assert peer.engine.incomplete_bytes == 0


def test_a_message_above_max_message_size_detaches() -> None:
    """AMQP 1.0 §2.7.3: found at the frame that goes beyond, in whatever pieces it comes."""
    for parts in (
        [transfer(0, b"x" * 101)],
        [transfer(0, b"x" * 101, more=True)],
        [transfer(0, b"x" * 60, more=True), transfer(None, b"x" * 41, more=True)],
        [transfer(0, b"x" * 60, more=True), transfer(None, b"x" * 41)],
    ):
        peer = opened()
        peer.handler.max_message_size = 100
        peer.attach_sender("s", 0)

        assert_only_link_failed(peer, peer.feed(*parts), "amqp:link:message-size-exceeded")
        assert peer.engine.incomplete_bytes == 0


def test_a_message_of_exactly_max_message_size_is_fine() -> None:
    """AMQP 1.0 §2.7.3: the limit itself is allowed."""
    peer = opened()
    peer.handler.max_message_size = 100
    peer.attach_sender("s", 0)

    peer.feed(transfer(0, b"x" * 100), transfer(1, b"x" * 60, more=True), transfer(None, b"x" * 40))

    assert [call[0] for call in peer.calls] == ["transfer", "transfer"]


def test_a_delivery_has_a_limit_of_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """amqp10 §8.1: empty frames do not count as bytes."""
    if not receiver_module.__file__.endswith(".py"):
        pytest.skip("constants are compiled in")
    monkeypatch.setattr(receiver_module, "MAX_DELIVERY_FRAMES", 3)
    peer = opened()
    peer.attach_sender("s", 0)

    frames = peer.feed(transfer(0, b"", more=True), *[transfer(None, b"", more=True) for _ in range(3)])

    assert_only_link_failed(peer, frames, "amqp:link:transfer-limit-exceeded")


def test_unfinished_deliveries_of_all_links_share_a_limit() -> None:
    """amqp10 §21: many links must not add up; finished ones make room."""
    peer = opened(ConnectionLimits(max_incomplete_bytes=1000))
    peer.attach_sender("a", 0)
    peer.attach_sender("b", 1)
    assert peer.feed(transfer(0, b"x" * 400, more=True), transfer(None, b"x" * 400)) == []
    assert peer.feed(transfer(1, b"x" * 400, more=True)) == []
    peer.calls.clear()

    frames = peer.feed(transfer(2, b"x" * 600, 1, more=True))

    assert_only_link_failed(peer, frames, "amqp:resource-limit-exceeded")
    assert peer.engine.incomplete_bytes == 464
    peer.feed(End())
    assert peer.engine.incomplete_bytes == 0


@pytest.mark.parametrize("more", [False, True])
def test_a_sender_that_settles_all_must_settle_each(more: bool) -> None:
    """AMQP 1.0 §2.8.2, snd-settle-mode settled: by its last frame."""
    peer = opened()
    peer.attach_sender("s", 0, snd_settle_mode=1)
    parts = [transfer(0, more=True), transfer(None)] if more else [transfer(0)]

    assert_only_link_failed(peer, peer.feed(*parts), "amqp:invalid-field")


# -- rcv-settle-mode (AMQP 1.0 §2.8.3)
# ----------------------------------------------------------------------------------


def test_in_the_second_mode_the_sender_settles() -> None:
    """AMQP 1.0 §2.8.3: we answer unsettled; the peer's disposition ends it."""
    peer = opened()
    link = peer.attach_sender("s", 0, rcv_settle_mode=1)
    peer.feed(transfer(0), transfer(1, more=True), transfer(None), transfer(2, settled=True))
    assert [link.settles_at_once(number) for number in range(3)] == [False, False, True]
    peer.calls.clear()

    peer.feed(Disposition(role=False, first=0, last=2**31, state=Released()))
    assert peer.calls == []
    peer.feed(Disposition(role=False, first=0, last=2**31, settled=True))

    assert peer.calls == [("settled", "s", 0, b"0"), ("settled", "s", 1, b"1")]
    assert peer.handler.sessions[0].unsettled_in == {}
    assert link.settles_at_once(0)


def test_in_the_first_mode_the_peers_settlement_means_nothing() -> None:
    """AMQP 1.0 §2.8.3: our answer was the last word."""
    peer = opened()
    peer.attach_sender("s", 0)
    peer.feed(transfer(0))
    peer.calls.clear()

    assert peer.feed(Disposition(role=False, first=0, settled=True)) == []
    assert peer.calls == []


def test_an_answer_of_ours_that_settles_ends_the_delivery() -> None:
    """AMQP 1.0 §2.7.6: nothing is remembered that nobody will settle."""
    peer = opened()
    peer.attach_sender("s", 0, rcv_settle_mode=1)
    session = peer.handler.sessions[0]
    peer.feed(transfer(0), transfer(1))

    session.settle_incoming(0, 0, ACCEPTED, True)
    session.settle_incoming(1, 1, ACCEPTED, False)

    assert list(session.unsettled_in) == [1]


@pytest.mark.parametrize("more", [False, True])
def test_a_delivery_may_lower_the_mode_for_itself(more: bool) -> None:
    """AMQP 1.0 §2.7.5: from second to first."""
    peer = opened()
    link = peer.attach_sender("s", 0, rcv_settle_mode=1)
    first = transfer(0, rcv_settle_mode=0, more=more)

    peer.feed(first, *([transfer(None)] if more else []), transfer(1))

    assert [link.settles_at_once(number) for number in range(2)] == [True, False]


@pytest.mark.parametrize("mode", [1, 2])
def test_a_delivery_may_not_raise_the_mode(mode: int) -> None:
    """AMQP 1.0 §2.7.5: illegal on a link of the first mode."""
    peer = opened()
    peer.attach_sender("s", 0)

    assert_only_link_failed(peer, peer.feed(transfer(0, rcv_settle_mode=mode)), "amqp:invalid-field")
    assert peer.feed(transfer(1)) == []


# -- deliveries that leave -------------------------------------------------------------------------------------


def test_a_delivery_of_ours_in_one_frame() -> None:
    """AMQP 1.0 §2.7.5: id, tag, format 0 and settled; the token comes back with the outcome."""
    peer = opened()
    link = peer.attach_receiver("r", 6, credit=5)

    ids = [link.send(b"ab", b"cd", "one", False), link.send(b"", b"ef", "two", True)]
    frames = peer.output()
    peer.feed(Disposition(role=True, first=0, last=1, settled=True, state=Released()))

    assert ids == [0, 1]
    assert [
        (one.handle, one.delivery_id, one.settled, payload) for _, one, payload in frames if isinstance(one, Transfer)
    ] == [
        (0, 0, False, b"abcd"),
        (0, 1, True, b"ef"),
    ]
    assert peer.calls == [("disposition", "r", 0, "one", Released(), True)]
    assert link.credit == 3


def test_tags_are_unique_and_find_their_deliveries() -> None:
    """AMQP 1.0 §2.6.12: a tag is used again only for what was settled."""
    peer = opened()
    link = peer.attach_receiver("r", 0, credit=5)
    for token in ("a", "b", "c"):
        link.send(b"", b"x", token, False)
    tags = [one.delivery_tag for one in transfers(peer.output())]
    peer.feed(Disposition(role=True, first=1, settled=True))

    assert len(set(tags)) == 3
    assert link.unsettled_tokens() == {tags[0]: "a", tags[2]: "c"}


def test_a_resumed_delivery_keeps_its_tag_and_state() -> None:
    """AMQP 1.0 §2.6.13."""
    peer = opened()
    link = peer.attach_receiver("r", 0, credit=5)

    link.send(b"", b"", "t", True, state=Released(), tag=b"\0\0\0\x09", resume=True)

    (one,) = transfers(peer.output())
    assert (one.delivery_tag, one.state, one.resume, one.settled) == (b"\0\0\0\x09", Released(), True, True)


def test_new_tags_are_none_of_the_resumed_ones() -> None:
    """AMQP 1.0 §2.6.12: tags of unsettled deliveries are unique, those of before a re-attach included."""
    peer = opened()
    link = peer.attach_receiver("r", 0, credit=5)

    for tag in (b"\0\0\0\x02", b"\0\0\0\0", b"other"):
        link.send(b"", b"x", tag, False, tag=tag, resume=True)
    for token in ("a", "b"):
        link.send(b"", b"x", token, False)

    tags = [one.delivery_tag for one in transfers(peer.output())]
    assert tags == [b"\0\0\0\x02", b"\0\0\0\0", b"other", b"\0\0\0\x03", b"\0\0\0\x04"]


def test_delivery_ids_of_ours_count_across_links_and_wrap() -> None:
    """AMQP 1.0 §2.7.5."""
    peer = opened()
    one = peer.attach_receiver("a", 0, credit=5)
    two = peer.attach_receiver("b", 1, credit=5)
    peer.handler.sessions[0].next_delivery_id = 2**32 - 1

    ids = [one.send(b"", b"x", 0, True), two.send(b"", b"x", 0, True), one.send(b"", b"x", 0, True)]

    assert ids == [2**32 - 1, 0, 1]
    assert [transfer_.delivery_id for transfer_ in transfers(peer.output())] == ids


def small_frames() -> tuple[Conversation, SenderLink]:
    """A peer that takes frames of 512 octets."""
    peer = Conversation().open(Open(container_id="c", max_frame_size=512))
    peer.begin()
    return peer, peer.attach_receiver("r", 0, credit=10)


def test_a_delivery_waits_for_the_window_and_goes_on() -> None:
    """AMQP 1.0 §2.5.6: a frame for each place in the window, nothing lost or doubled."""
    peer, link = small_frames()
    peer.feed(peer.flow(incoming_window=2))
    body = bytes(range(256)) * 10
    link.send(b"", body, 0, True)
    link.send(b"", b"second", 1, True)

    frames = peer.output()
    assert len(frames) == 2
    while link.waiting_count:
        more = peer.feed(peer.flow(incoming_window=2))
        assert len(more) in (1, 2)
        frames += more

    payloads: list[bytes] = [b""]
    for _, one, payload in frames:
        assert isinstance(one, Transfer)
        payloads[-1] += payload
        if not one.more:
            payloads.append(b"")
    assert payloads == [body, b"second", b""]


def test_a_large_message_to_a_slow_reader_is_never_collected_whole() -> None:
    """reliability §4: at most the output limit and one frame, and no copy of the message."""
    limits = ConnectionLimits(output_limit_bytes=100_000, max_frame_size=16384)
    peer = Conversation(limits).open()
    peer.begin()
    link = peer.attach_receiver("r", 0, credit=10)
    peer.feed(peer.flow(incoming_window=2**31))
    body = bytes(20 * 1024 * 1024)
    link.send(b"head", body, 0, True)
    collected = received = 0
    while True:
        collected = max(collected, peer.engine.outbox.size)
        data = peer.engine.data_to_send()
        if not data:
            break
        received += sum(len(payload) for _, _, payload in read_frames(data))

    assert received == len(body) + 4
    assert collected <= 100_000 + 16384
    assert not link.waiting_count
    assert ("writable",) in peer.calls


def test_a_paused_engine_sends_no_deliveries_until_it_is_resumed() -> None:
    """The transport's brake: what waits stays, what is new waits behind it."""
    peer, link = small_frames()
    peer.engine.pause()
    link.send(b"", b"x" * 2000, 0, True)
    assert peer.output() == []
    peer.engine.pause()

    peer.engine.resume()

    assert len(peer.output()) == 5
    assert peer.calls == [("writable",)]
    peer.engine.resume()
    assert peer.calls == [("writable",)]


def test_what_waits_on_a_link_that_goes_is_dropped() -> None:
    """AMQP 1.0 §2.6.6: the rest of a delivery is not sent, others go on."""
    peer, link = small_frames()
    other = peer.attach_receiver("o", 1, credit=1)
    peer.feed(peer.flow(incoming_window=1))
    link.send(b"", b"x" * 2000, 0, False)
    other.send(b"", b"other", 1, True)
    peer.output()

    link.detach()
    assert link.unsettled() == []
    frames = peer.feed(peer.flow(incoming_window=10))

    assert kinds(frames) == [Detach, Transfer]
    assert frames[1][2] == b"other"


def test_a_link_that_is_closed_leaves_the_deliveries_of_others() -> None:
    """AMQP 1.0 §2.6.6."""
    peer = opened()
    one = peer.attach_receiver("a", 0, credit=5)
    two = peer.attach_receiver("b", 1, credit=5)
    one.send(b"", b"x", "a", False)
    two.send(b"", b"x", "b", False)

    peer.feed(Detach(handle=0, closed=True))
    peer.calls.clear()
    peer.feed(Disposition(role=True, first=0, last=1, settled=True))

    assert peer.calls == [("disposition", "b", 1, "b", None, True)]


def test_deliveries_of_a_detached_link_are_live() -> None:
    """AMQP 1.0 §2.7.6: as long as the link was neither closed nor detached with an error, a new state must be
    applied.
    """
    peer = opened()
    link = peer.attach_receiver("a", 0, credit=5)
    link.send(b"", b"x", "a", False)

    peer.feed(Detach(handle=0))
    peer.calls.clear()
    peer.feed(Disposition(role=True, first=0, last=0, settled=True))

    assert peer.calls == [("disposition", "a", 0, "a", None, True)]
    assert link.unsettled() == []


def test_a_detach_with_an_error_ends_its_deliveries() -> None:
    """AMQP 1.0 §2.7.6."""
    peer = opened()
    peer.attach_receiver("a", 0, credit=5).send(b"", b"x", "a", False)

    peer.feed(Detach(handle=0, error=AmqpError("amqp:internal-error", None)))
    peer.calls.clear()
    peer.feed(Disposition(role=True, first=0, last=0, settled=True))

    assert peer.calls == []


def test_a_delivery_that_a_detach_cut_short_is_not_live() -> None:
    """AMQP 1.0 §2.6.6: the rest of it was never sent."""
    peer, link = small_frames()
    peer.feed(peer.flow(incoming_window=1))
    link.send(b"", b"x" * 2000, 0, False)

    peer.feed(Detach(handle=0))
    peer.calls.clear()
    peer.feed(Disposition(role=True, first=0, last=0, settled=True))

    assert peer.calls == []


def test_a_state_larger_than_a_frame_fails_its_link() -> None:
    """AMQP 1.0 §2.8.15, frame-size-too-small: a performative cannot be split."""
    peer, link = small_frames()
    annotations: dict[Symbol, object] = {Symbol("x-a"): "y" * 600}
    link.send(b"", b"", 0, True, state=Modified(message_annotations=annotations), tag=b"t", resume=True)

    assert_only_link_failed(peer, peer.output(), "amqp:frame-size-too-small")


# -- bounded work ----------------------------------------------------------------------------------------------


def test_churn_leaves_nothing_behind() -> None:
    """reliability §4: attach and detach, begin and end, a thousand times."""
    peer = opened()
    pair = frame(0, Attach(name="l", handle=3, role=True)) + frame(0, Detach(handle=3, closed=True))
    peer.feed(pair * 1000)
    session = peer.handler.sessions[0]

    assert (session.links, session._own, session._ignored, session._awaiting) == ({}, {}, {}, {})
    assert session._freed == [0]


# -- delivery-tags ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "following"),
    [(0, 1), (0x7E, 0x7F), (0x7F, 0x100), (0x17F, 0x200), (0x7F7F, 0x10000), (0x7F7F7F, 0x1000000), (0x7F7F7F7F, 0)],
)
def test_delivery_tags_are_ascii(number: int, following: int) -> None:
    """AMQP 1.0 §2.8.7: any octets would do, but not to Proton's Python."""
    peer = opened()
    link = peer.attach_receiver("a", 0, credit=2)
    link.next_tag = number
    link.send(b"", b"x", None, False)
    link.send(b"", b"x", None, False)
    tags = [one.delivery_tag for _, one, _ in peer.output() if isinstance(one, Transfer)]

    assert tags == [number.to_bytes(4, "big"), following.to_bytes(4, "big")]


def test_a_resumed_tag_does_not_come_again() -> None:
    """AMQP 1.0 §2.6.12: unique among the unsettled ones of the link."""
    peer = opened()
    link = peer.attach_receiver("a", 0, credit=2)
    link.send(b"", b"x", None, False, tag=b"\0\0\0\x7f", resume=True)
    link.send(b"", b"x", None, False)
    tags = [one.delivery_tag for _, one, _ in peer.output() if isinstance(one, Transfer)]

    assert tags == [b"\0\0\0\x7f", b"\0\0\1\0"]


def test_a_session_keeps_nothing_of_what_was_read() -> None:
    """Each of many sessions would keep a whole read, also where a transfer is ignored."""
    peer = opened()
    link = peer.attach_sender("a", 0)
    link.grant(2)
    peer.feed(transfer(0))
    peer.feed(transfer(1, more=True))
    link.detach()
    peer.feed(transfer(None))

    assert peer.handler.sessions[0].transfer.data == b""


def test_frames_of_deliveries_say_what_was_sent_whatever_the_ones_before_were() -> None:
    """AMQP 1.0 §2.7.5: parts of a frame are kept for the next one, of several links in one session."""
    peer = opened()
    links = [peer.attach_receiver(name, handle, credit=2000) for handle, name in enumerate("abc")]
    sent = []
    for number in range(900):
        handle = 2 if number % 7 == 0 else number % 2
        body = bytes(number % 3 + number // 300)
        settled = number % 5 == 0
        sent.append((links[handle].handle, number, settled, body))
        assert links[handle].send(b"h", body, None, settled) == number

    found = [(one, payload) for _, one, payload in peer.output() if isinstance(one, Transfer)]

    assert [(one.handle, one.delivery_id, one.settled, payload[1:]) for one, payload in found] == sent
    for link in links:
        tags = [one.delivery_tag for one, _ in found if one.handle == link.handle]
        numbers = [0]
        for _ in tags[1:]:
            numbers.append(tag_after(numbers[-1]))
        assert tags == [number.to_bytes(4, "big") for number in numbers]
    assert all(one.message_format == 0 and one.more is not True for one, _ in found)


def test_the_unsettled_deliveries_of_a_link_are_those_of_its_session_without_the_others() -> None:
    """Whichever is settled: the oldest, the newest, one between them, each of them."""
    peer = opened()
    links = [peer.attach_receiver("a", 0, credit=5), peer.attach_receiver("b", 1, credit=5)]
    for number in range(10):
        links[number % 2].send(b"", b"x", number, False)
    session = peer.handler.sessions[0]

    def tokens() -> list[list[object]]:
        return [[sent.token for sent in link.unsettled()] for link in links]

    assert tokens() == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    for settled, left in (((4, 4), [0, 2, 6, 8]), ((0, 0), [2, 6, 8]), ((8, 8), [2, 6])):
        peer.feed(Disposition(role=True, first=settled[0], last=settled[1], settled=True))
        assert tokens() == [left, [1, 3, 5, 7, 9]]
    links[0].send(b"", b"x", 10, False)
    links[1].settle(9, encode(Accepted()))
    assert tokens() == [[2, 6, 10], [1, 3, 5, 7]]
    assert [sent.delivery_id for sent in session.unsettled.all()] == [1, 2, 3, 5, 6, 7, 10]

    peer.feed(Disposition(role=True, first=0, last=20, settled=True))
    assert tokens() == [[], []]
    assert len(session.unsettled) == 0


# -- frames in a row
# --------------------------------------------------------------------------------------


def names_of_transfers(peer: Conversation) -> list[object]:
    """The links that got a delivery, in order."""
    return [call[1] for call in peer.calls if call[0] == "transfer"]


def test_a_handle_that_is_used_again_is_that_of_the_new_link() -> None:
    """AMQP 1.0 §2.6.6: in one read a link gets a message, is detached, and another one takes its handle."""
    peer = opened()
    peer.attach_sender("a", 0)
    peer.attach_sender("b", 1)
    peer.feed(transfer(0), transfer(1, handle=1), transfer(2), Detach(handle=0, closed=True))
    peer.attach_sender("c", 0)
    peer.feed(transfer(3), transfer(4, handle=1), transfer(5), transfer(6))
    assert names_of_transfers(peer) == ["c", "b", "c", "c"]


def test_a_link_that_we_detached_gets_nothing_more() -> None:
    """The peer's transfers that were on their way are ignored, also if it was the last one that got something."""
    peer = opened()
    link = peer.attach_sender("a", 0)
    peer.feed(transfer(0))
    link.detach(AmqpError("amqp:internal-error", "gone"))
    assert kinds(peer.output()) == [Detach]
    peer.calls.clear()
    assert peer.feed(transfer(1), transfer(2)) == []
    assert names_of_transfers(peer) == []


def test_frames_of_several_sessions_in_one_read_reach_their_own() -> None:
    """Two channels in turn, one of which is ended and begun again in between."""
    peer = opened()
    peer.begin(1)
    peer.attach_sender("a", 0)
    peer.attach_sender("b", 0, channel=1)
    peer.feed(transfer(0), transfer(0, channel=1), transfer(1), frame(1, End()), transfer(2))
    assert names_of_transfers(peer) == ["a", "b", "a", "a"]
    peer.begin(1)
    peer.attach_sender("c", 0, channel=1)
    peer.feed(transfer(3), transfer(0, channel=1), transfer(4))
    assert names_of_transfers(peer) == ["a", "c", "a"]
