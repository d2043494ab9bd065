"""Corners of the AMQP engine that only a changed condition shows: each test fails if its condition is wrong by one."""

from collections.abc import Callable

import pytest

from artemis_amqp.engine.limits import LOGIN_BUFFER_BYTES
from artemis_amqp.engine.performatives import (
    Accepted,
    AmqpError,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Rejected,
    SaslInit,
    Source,
    Target,
    encode,
    frame,
)
from artemis_amqp.engine.states import SASL_HEADER
from tests.amqp_harness import ACCEPTED, Conversation, transfer


def dispositions(conversation: Conversation) -> list[Disposition]:
    return [performative for _, performative, _ in conversation.output() if isinstance(performative, Disposition)]


def test_answers_of_both_roles_are_never_one_disposition() -> None:
    """AMQP 1.0 §2.7.6: the role says whose delivery-ids they are; neighbours in number need not be neighbours."""
    conversation = Conversation().open()
    session = conversation.begin()
    conversation.attach_sender("in", 0)
    link = conversation.attach_receiver("out", 1, credit=2)
    for _ in range(2):
        link.send(b"", b"x", None, settled=False)
    conversation.feed(transfer(0))

    session.settle_incoming(0, 0, ACCEPTED, True)
    link.settle(1, ACCEPTED)

    assert dispositions(conversation) == [
        Disposition(role=True, first=0, last=0, settled=True, state=Accepted()),
        Disposition(role=False, first=1, last=1, settled=True, state=Accepted()),
    ]


@pytest.mark.parametrize("size", [150, 200, 208, 209, 210, 211, 212, 213, 214, 215, 216, 240, 255, 256])
def test_disposition_around_the_size_where_its_list_grows(size: int) -> None:
    """AMQP 1.0 §1.6.22: a list8 holds 255 octets, its count among them; the list32 begins right behind."""
    conversation = Conversation().open(Open(container_id="peer", max_frame_size=65536))
    session = conversation.begin()
    conversation.attach_sender("in", 0)
    conversation.feed(transfer(0))
    rejected = Rejected(error=AmqpError("amqp:not-found", "x" * size))

    session.settle_incoming(0, 0, encode(rejected), True)

    assert dispositions(conversation) == [Disposition(role=True, first=0, last=0, settled=True, state=rejected)]


def test_credit_lost_to_a_jump_is_not_lost_twice() -> None:
    """AMQP 1.0 §2.6.7: a jump of delivery-count takes granted credit; only what goes beyond it takes from the
    revoked.
    """
    conversation = Conversation().open()
    conversation.begin()
    link = conversation.attach_sender("in", 0)
    assert link.credit == 10
    link.grant(4)
    conversation.output()
    # Six deliveries may be on their way by the old credit, besides the four. The sender skipped three.
    conversation.feed(conversation.flow(handle=0, delivery_count=3))
    assert link.credit == 1

    conversation.feed(*(transfer(number) for number in range(7)))

    assert [call[0] for call in conversation.calls] == ["transfer"] * 7
    # That was the last of them.
    conversation.feed(transfer(7))
    assert conversation.calls[-1] == ("detach", "in", True, "amqp:link:transfer-limit-exceeded")


def test_session_of_ours_is_answered_once() -> None:
    """AMQP 1.0 §2.5.1: a begin names the channel it answers, and each of ours asks for one answer."""
    conversation = Conversation().open()
    session = conversation.engine.channels.begin()
    conversation.output()
    answer = Begin(remote_channel=session.channel, next_outgoing_id=0, incoming_window=1, outgoing_window=1)
    conversation.feed(answer, channel=4)

    sent = conversation.feed(answer, channel=5)

    assert conversation.error_of(sent, Close) == "amqp:connection:framing-error"


def test_name_is_free_again_after_its_late_answer() -> None:
    """AMQP 1.0 §2.6.4: an attach we took back is answered, and only the answer is passed over; a later attach is a new
    link.
    """
    conversation = Conversation().open()
    session = conversation.begin()
    link = session.attach("l", Source(), Target(), is_sender=True)
    link.detach()
    conversation.output()
    conversation.feed(Attach(name="l", handle=0, role=True, source=Source(), target=Target()))
    conversation.feed(Detach(handle=0, closed=True))
    assert conversation.calls == []

    conversation.feed(Attach(name="l", handle=0, role=True, source=Source(), target=Target()))

    assert conversation.calls == [("attach", "l", True)]


def test_lowered_settle_mode_of_a_settled_delivery_does_not_reach_the_next() -> None:
    """AMQP 1.0 §2.7.5: rcv-settle-mode speaks of one delivery, and of none that is settled."""
    conversation = Conversation().open()
    conversation.begin()
    conversation.attach_sender("in", 0, rcv_settle_mode=1)
    conversation.feed(
        transfer(0, rcv_settle_mode=0, more=True),
        transfer(None, settled=True),
        transfer(1),
        Disposition(role=False, first=1, settled=True),
    )

    assert conversation.calls[-1] == ("settled", "in", 1, b"1")


def test_outcome_is_written_before_a_delivery_that_waited() -> None:
    """An outcome that was given before frames went on is read before them: output keeps the order of our calls."""
    conversation = Conversation().open(Open(container_id="peer", max_frame_size=512))
    session = conversation.begin(window=1)
    conversation.attach_sender("in", 0)
    link = conversation.attach_receiver("out", 1)
    conversation.feed(Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=9, handle=1, link_credit=1))
    link.send(b"", b"x" * 600, None, settled=True)
    conversation.feed(transfer(0))
    conversation.output()
    session.settle_incoming(0, 0, ACCEPTED, True)

    sent = conversation.feed(conversation.flow(incoming_window=5))

    assert [type(performative).__name__ for _, performative, _ in sent] == ["Disposition", "Transfer"]


class Attached(Conversation):
    """A link each way, and a delivery of ours that is not settled."""

    def __init__(self) -> None:
        super().__init__()
        self.open()
        self.begin()
        self.attached_sender = self.attach_receiver("out", 0, credit=5)
        self.attach_sender("in", 1)
        self.attached_sender.send(b"", b"x", None, settled=False)
        self.output()


# What a handler may still want to say when the conversation is over: an answer that took its time.
LATE: dict[str, Callable[[Attached], object]] = {
    "detach": lambda peer: peer.handler.links["out"].detach(),
    "refuse": lambda peer: peer.handler.links["in"].refuse(AmqpError("amqp:not-found", None)),
    "end": lambda peer: peer.handler.sessions[0].end(),
    "send": lambda peer: peer.attached_sender.send(b"", b"x", None, settled=False),
    "settle": lambda peer: peer.attached_sender.settle(0, ACCEPTED),
    "drained": lambda peer: peer.attached_sender.drained(),
    "answer": lambda peer: peer.handler.sessions[0].settle_incoming(0, 0, ACCEPTED, True),
    "hold": lambda peer: peer.handler.sessions[0].hold(True),
    "attach": lambda peer: peer.handler.sessions[0].attach("n", None, None, is_sender=True),
}
LATE_ON_CONNECTION: dict[str, Callable[[Conversation], object]] = {
    "begin": lambda peer: peer.engine.channels.begin(),
    "open": lambda peer: peer.engine.send_open(peer.engine.our_open("us")),
    "outcome": lambda peer: peer.engine.login.finish(0, b""),
    "challenge": lambda peer: peer.engine.login.challenge(b""),
}


@pytest.mark.parametrize("ending", ["close", "failure"])
@pytest.mark.parametrize("late", [*LATE, *LATE_ON_CONNECTION])
def test_nothing_follows_a_close(ending: str, late: str) -> None:
    """AMQP 1.0 §2.4.3: whatever a handler still does, close was the last frame, and the state stays what it was."""
    peer = Attached()
    if ending == "close":
        peer.engine.close()
    else:
        peer.feed(b"\0" * 8)
    peer.output()
    state = peer.engine.state

    act = LATE.get(late) or LATE_ON_CONNECTION[late]
    act(peer)

    assert peer.output() == []
    assert peer.engine.state == state


@pytest.mark.parametrize("ending", ["ours", "theirs"])
@pytest.mark.parametrize("late", LATE)
def test_nothing_follows_an_end(ending: str, late: str) -> None:
    """AMQP 1.0 §2.5.5: the channel may be another session's already."""
    peer = Attached()
    if ending == "ours":
        peer.handler.sessions[0].end()
    else:
        peer.feed(End())
    peer.output()

    LATE[late](peer)

    assert peer.output() == []


@pytest.mark.parametrize("late", LATE_ON_CONNECTION)
def test_login_that_is_decided_too_late_says_nothing(late: str) -> None:
    """Passwords are hashed elsewhere: the client may have been given up in the meantime."""
    peer = Conversation()
    peer.feed(SASL_HEADER, frame(0, SaslInit(mechanism="PLAIN"), 1))
    peer.feed(bytes(LOGIN_BUFFER_BYTES + 1))
    assert peer.engine.closed

    LATE_ON_CONNECTION[late](peer)

    assert peer.output() == []
    assert peer.engine.closed
