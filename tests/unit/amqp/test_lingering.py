"""Deliveries of a link that was detached and not closed are live: what the client says of them counts
(AMQP 1.0 §2.7.6).
"""

import pytest

from artemis_amqp.engine.performatives import (
    Attach,
    Detach,
    Disposition,
    End,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
)
from artemis_amqp.engine.types import Described, Symbol, ULong
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import queues_of
from artemis_py.core.settings.address_settings import AddressSettings
from tests.amqp_broker import Broker, Peer, bodies, in_transaction, only, settled
from tests.core_harness import START_MS, make_message, make_queue, pass_time, send, set_clock, set_clocks


def detached(*messages: str, source: Source | None = None) -> tuple[Broker, Peer]:
    """A client that got these messages and detached its link without settling any."""
    settings = {"#": AddressSettings(dead_letter_address="DLQ", max_delivery_attempts=2)}
    broker = Broker(settings)
    broker.queue()
    broker.queue("DLQ")
    send(broker.domain, "q", *messages)
    peer = broker.connect()
    assert bodies(peer.receive(source)) == [message.encode() for message in messages]
    only(peer.say(Detach(handle=0)), Detach)
    return broker, peer


def test_nobody_else_gets_what_a_detached_link_has() -> None:
    """AMQP 1.0 §2.7.6: live, until the client has said what becomes of it."""
    broker, _ = detached("1")

    assert broker.count() == 1
    assert bodies(broker.connect("other").receive()) == []


def test_accepted_after_the_detach_is_gone() -> None:
    """AMQP 1.0 §2.7.6: the state must be applied."""
    broker, peer = detached("1", "2")
    peer.say(settled(0, last=1))

    assert broker.count() == 0


def test_released_after_the_detach_goes_to_others() -> None:
    """AMQP 1.0 §3.4.4."""
    broker, peer = detached("1")
    other = broker.connect("other")
    other.receive()
    peer.say(settled(0, Released()))

    assert bodies(other.hear()) == [b"1"]


def test_failed_after_the_detach_counts() -> None:
    """AMQP 1.0 §3.4.5: the attempt failed."""
    broker, peer = detached("1")
    peer.say(settled(0, Modified(delivery_failed=True, undeliverable_here=True)))
    (payload,) = [payload for _, _, payload in broker.connect("other").receive() if payload]

    assert payload.startswith(b"\x00\x53\x70\xc0\x07\x05\x40\x40\x40\x40\x52\x01")


def test_rejected_after_the_detach_is_a_dead_letter() -> None:
    """AMQP 1.0 §3.4.3."""
    broker, peer = detached("1")
    peer.say(settled(0, Rejected()))

    assert (broker.count(), broker.count("DLQ")) == (0, 1)


def test_an_unsettled_outcome_is_settled_by_us() -> None:
    """AMQP 1.0 §2.6.12: the client leaves it to us to settle, the link is gone all the same."""
    _, peer = detached("1")
    answer = only(peer.say(Disposition(role=True, first=0, state=settled(0).state)), Disposition)

    assert (answer.role, answer.first, answer.settled) == (False, 0, True)


def test_a_transaction_retires_it_after_the_detach() -> None:
    """AMQP 1.0 §4.4.2: the commit is not without it."""
    broker, peer = detached("1", "2")
    peer.coordinator()
    transaction = peer.declare()
    peer.say(in_transaction(0, transaction), in_transaction(1, transaction))
    before = broker.count()
    peer.discharge(transaction)

    assert (before, broker.count()) == (2, 0)


def test_a_rolled_back_transaction_returns_it() -> None:
    """AMQP 1.0 §4.4.2: it was settled, so it is nobody's and goes back."""
    broker, peer = detached("1")
    peer.coordinator()
    transaction = peer.declare()
    peer.say(in_transaction(0, transaction))
    peer.discharge(transaction, fail=True)

    assert broker.waiting() == 1


def test_retired_before_the_detach_and_rolled_back_it_is_still_the_clients() -> None:
    """AMQP 1.0 §4.4.2: not settled, so the client has it as before the transaction."""
    broker = Broker()
    broker.queue()
    send(broker.domain, "q", "1")
    peer = broker.connect()
    peer.receive()
    peer.coordinator()
    transaction = peer.declare()
    peer.say(in_transaction(0, transaction, is_settled=False), Detach(handle=0))
    peer.discharge(transaction, fail=True)
    waiting = broker.waiting()
    peer.say(settled(0))

    assert (waiting, broker.count()) == (0, 0)


def test_retired_unsettled_is_settled_after_the_commit() -> None:
    """AMQP 1.0 §4.4.2: by us, whether the link is there or not."""
    broker = Broker()
    broker.queue()
    send(broker.domain, "q", "1")
    peer = broker.connect()
    peer.receive()
    peer.coordinator()
    transaction = peer.declare()
    peer.say(in_transaction(0, transaction, is_settled=False), Detach(handle=0))
    ours = [one for one in peer.dispositions(peer.discharge(transaction)) if not one.role]

    assert [(one.first, one.settled) for one in ours] == [(0, True)]
    assert broker.count() == 0


def test_an_unknown_transaction_ends_the_session() -> None:
    """AMQP 1.0 §4.4.2: there is no link any more that could be detached."""
    broker, peer = detached("1")
    end = only(peer.say(in_transaction(0, b"\0" * 8)), End)

    assert end.error.condition == "amqp:transaction:unknown-id"
    assert broker.waiting() == 1


def test_the_end_of_the_session_returns_it() -> None:
    """AMQP 1.0 §2.5.6."""
    broker, peer = detached("1", "2")
    peer.say(End())

    assert bodies(broker.connect("other").receive()) == [b"1", b"2"]


def test_a_lost_connection_returns_it_as_failed() -> None:
    """amqp10 §8.3."""
    broker, peer = detached("1")
    peer.connection.connection_lost()
    assert broker.waiting() == 1
    again = broker.connect("other")
    again.receive()
    again.connection.connection_lost()

    assert (broker.count(), broker.count("DLQ")) == (0, 1)


def test_an_attach_under_the_same_name_without_it_returns_it() -> None:
    """AMQP 1.0 §2.6.13: the client has forgotten."""
    _, peer = detached("1")

    assert bodies(peer.receive()) == [b"1"]


def test_an_attach_under_the_same_name_resumes_it() -> None:
    """AMQP 1.0 §2.6.13: from then on the old delivery-id means nothing."""
    broker, peer = detached("1")
    frames = peer.receive(unsettled={b"\0\0\0\0": None})
    assert bodies(frames) == [b"1"]
    peer.say(settled(0))
    kept = broker.count()
    peer.say(settled(1))

    assert (kept, broker.count()) == (1, 0)


def test_link_detach_returns_it_at_once() -> None:
    """AMQP 1.0 §3.5.6: the terminus expires with the detach."""
    broker, peer = detached("1", source=Source(address="q", expiry_policy="link-detach"))

    assert broker.waiting() == 1
    assert peer.say(settled(0)) == []
    assert broker.waiting() == 1


@set_clocks
def test_link_detach_with_a_timeout_returns_it_then(jump_ms: int) -> None:
    """AMQP 1.0 §3.5.6: the timer starts at the detach."""
    broker, _ = detached("1", source=Source(address="q", expiry_policy="link-detach", timeout=5))
    set_clock(broker.domain, jump_ms)
    pass_time(broker.domain, 4999)
    before = broker.waiting()
    pass_time(broker.domain, 1)

    assert (before, broker.waiting()) == (0, 1)


def test_a_closed_link_returns_it() -> None:
    """AMQP 1.0 §2.7.6: closed, so no longer live."""
    broker = Broker()
    broker.queue()
    send(broker.domain, "q", "1")
    peer = broker.connect()
    peer.receive()
    peer.say(Detach(handle=0, closed=True), settled(0))

    assert broker.waiting() == 1


def test_a_queue_for_one_consumer_is_free() -> None:
    """A link that is gone takes nobody's place."""
    broker = Broker()
    broker.queue(max_consumers=1)
    send(broker.domain, "q", "1")
    peer = broker.connect()
    peer.receive()
    peer.say(Detach(handle=0))
    attach = only(peer.receive(name="another"), Attach)

    assert attach.source is not None


def test_a_subscription_ends_with_its_last_delivery() -> None:
    """AMQP 1.0 §2.7.6 and artemis-model §4.1.4: a temporary subscription has a use while a delivery of it is live."""
    broker = Broker({"#": AddressSettings(dead_letter_address="DLQ")})
    broker.queue("DLQ")
    broker.domain.create_address("news", frozenset((RoutingType.MULTICAST,)))
    peer = broker.connect()
    peer.receive(Source(address="news", capabilities=(Symbol("topic"),)))
    send(broker.domain, "news", "1")
    peer.hear()
    peer.say(Detach(handle=0))
    (queue,) = queues_of(broker.domain.addresses["news"])
    send(broker.domain, "news", "nobody reads this")
    count = queue.message_count
    peer.say(settled(0, Rejected()))

    assert (count, queue.is_deleted, broker.count("DLQ")) == (1, True, 1)


def test_a_deleted_queue_takes_it_along() -> None:
    """As with links that are attached."""
    broker, peer = detached("1")
    queue = broker.domain.queue("q")
    broker.domain.delete_queue("q")

    assert (queue.delivering_count, broker.domain.address("q").account.message_count) == (0, 0)
    assert (broker.manager.termini._suspended, peer.connection.links.lingering, queue.holders) == ({}, {}, [])
    assert peer.say(settled(0)) == []


def test_a_reader_by_numbers_sees_it() -> None:
    """docs/amqp.md: what consumers hold is part of the range."""
    broker, _peer = detached("1", "2")
    everything: dict[Symbol, object] = {
        Symbol("range"): Described(Symbol("artemis:sequence-range:list"), [ULong(1), ULong(3)])
    }
    source = Source(address="q", distribution_mode="copy", filter=everything)

    assert bodies(broker.connect("other").receive(source)) == [b"1", b"2"]


def test_it_expires_when_it_comes_back() -> None:
    """The queue knows when, although nobody consumes from it."""
    broker = Broker()
    broker.queue()
    broker.domain.route(make_message("1", expires_ms=START_MS + 1000), broker.domain.address("q"))
    peer = broker.connect()
    assert bodies(peer.receive()) == [b"1"]
    peer.say(Detach(handle=0))
    queue = broker.domain.queue("q")
    pass_time(broker.domain, 500)
    queue.expiry.expire_due()
    pass_time(broker.domain, 1000)
    queue.expiry.expire_due()
    peer.say(settled(0, Released()))
    queue.expiry.expire_due()

    assert broker.count() == 0


def test_others_wait_for_a_client_only_while_its_session_lasts() -> None:
    """A shared durable subscription: what one reader left goes to the others when it cannot settle it any more."""
    broker = Broker()
    broker.domain.create_address("news", frozenset((RoutingType.MULTICAST,)))
    capabilities = (Symbol("topic"), Symbol("shared"), Symbol("global"))
    source = Source(address="news", durable=2, expiry_policy="never", capabilities=capabilities)
    first, second = broker.connect("one"), broker.connect("two")
    first.receive(source, name="s|1")
    send(broker.domain, "news", "1")
    first.hear()
    second.receive(source, name="s|2")
    first.say(Detach(handle=0))
    held = bodies(second.hear())
    first.say(End())

    assert (held, bodies(second.hear())) == ([], [b"1"])


def test_what_links_leave_behind_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reference/reliability: whoever is the oldest gives way."""
    broker = Broker()
    make_queue(broker.domain, "q")
    send(broker.domain, "q", "1")
    peer = broker.connect()
    peer.receive()
    peer.say(Detach(handle=0))
    monkeypatch.setattr("artemis_amqp.broker.termini.SUSPENDED_LIMIT", 5)
    termini = broker.manager.termini
    assert len(termini._suspended) == 1
    send(broker.domain, "q", *(str(number) for number in range(5)))
    for number in range(5):
        peer.say(
            Attach(name=str(number), handle=1, role=True, source=Source(address="q"), target=Target()),
            peer.credit(1, 1, next_incoming_id=number + 1),
        )
        peer.say(Detach(handle=1))

    assert len(termini._suspended) == 5
    assert peer.say(settled(0)) == []
