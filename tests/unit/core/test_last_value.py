"""Last-value queues: what a key is, and when a newer message removes an older one (artemis-model §3.4)."""

import pytest

from artemis_py.core.queues.consumer import ACCEPTED, FAILED, REJECTED, RELEASED
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.rules.kinds import KINDS, QueueKind
from artemis_py.core.queues.rules.last_value import LastValue, key_of
from artemis_py.core.queues.rules.ring import Ring
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.accounts import KEY_BYTES
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.errors import InvalidRequest
from tests.core_harness import (
    START_MS,
    attach,
    browse_all,
    make_domain,
    make_message,
    make_queue,
    pass_time,
    settle_down,
)


def put(domain: Domain, body: str, key: object = None, **options: object) -> None:
    """Send a message whose property `key` is the key."""
    properties = {} if key is None else {"key": key}
    domain.route(make_message(body, **options, **properties), domain.addresses["q"])  # type: ignore[arg-type]


def waiting(queue: Queue) -> list[str]:
    """The bodies of what waits, in order."""
    return [reference.message.data.decode() for reference in browse_all(queue)]


@pytest.fixture
def domain() -> Domain:
    """One with a queue `q` whose messages have their key in `key`."""
    domain = make_domain({"#": AddressSettings(redelivery_delay=10, max_delivery_attempts=-1)})
    make_queue(domain, last_value_key="key")
    return domain


@pytest.fixture
def queue(domain: Domain) -> Queue:
    """That queue."""
    return domain.queue("q")


def test_newer_message_removes_the_older_one_of_its_key(domain: Domain, queue: Queue) -> None:
    """In any priority, and at once; it comes last."""
    put(domain, "a1", "a", priority=9)
    put(domain, "b1", "b")
    put(domain, "plain")
    put(domain, "a2", "a", priority=4)

    assert waiting(queue) == ["b1", "plain", "a2"]
    assert (queue.message_count, queue.messages_replaced) == (3, 1)


def test_consumer_with_credit_gets_one_of_two_messages_sent_at_once(domain: Domain, queue: Queue) -> None:
    """Artemis prunes after a delivery pass, and may deliver both (artemis-model §3.4)."""
    recorder, _ = attach(domain, queue)
    put(domain, "a1", "a")
    put(domain, "a2", "a")

    settle_down(domain)

    assert recorder.bodies() == ["a2"]


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("x", b"x"),
        ("", b""),
        (7, b"7"),
        ("7", b"7"),
        (True, b"true"),
        (1.5, b"1.5"),
        (b"x", b"x"),
        (None, None),
        ([1], None),
        ({}, None),
    ],
)
def test_key_is_the_text_of_a_value(value: object, key: bytes | None) -> None:
    """As in Artemis; lists and maps are no keys."""
    assert key_of(make_message(key=value), "key") == key


def test_long_keys_have_a_limit_and_stay_different() -> None:
    """Each is as long as its digest, which no text can be."""
    one, other = (key_of(make_message(key="k" * 1000 + end), "key") for end in "ab")

    assert one is not None
    assert other is not None
    assert one != other
    assert len(one) == len(other) == 33
    assert key_of(make_message(key=one), "key") not in (one, other)


def test_common_property_is_the_fallback(domain: Domain, queue: Queue) -> None:
    """`_AMQ_LVQ_NAME` counts if a message does not have the property that the queue names."""
    put(domain, "1", "a")
    domain.route(make_message("2", _AMQ_LVQ_NAME="a"), domain.addresses["q"])
    domain.route(make_message("3", key="b", _AMQ_LVQ_NAME="a"), domain.addresses["q"])

    assert waiting(queue) == ["2", "3"]


def test_queue_without_a_key_property_uses_the_common_one() -> None:
    """`last-value` alone."""
    domain = make_domain()
    queue = make_queue(domain, last_value=True)

    for body in "12":
        domain.route(make_message(body, _AMQ_LVQ_NAME="a"), domain.addresses["q"])

    assert waiting(queue) == ["2"]


def test_superseded_delivery_is_discarded_when_it_is_given_back(domain: Domain, queue: Queue) -> None:
    """Also if the newer one is gone by then."""
    recorder, consumer = attach(domain, queue)
    put(domain, "a1", "a")
    settle_down(domain)
    put(domain, "a2", "a")
    settle_down(domain)
    old, new = recorder.take()
    consumer.settle(new, ACCEPTED)

    consumer.settle(old, RELEASED)
    settle_down(domain)

    assert recorder.bodies() == []
    assert (queue.message_count, queue.messages_replaced, queue.messages_acknowledged) == (0, 1, 1)


@pytest.mark.parametrize("outcome", [ACCEPTED, REJECTED])
def test_superseded_delivery_can_be_settled_otherwise(domain: Domain, queue: Queue, outcome: int) -> None:
    """It was delivered, so it counts as processed, or as dead."""
    recorder, consumer = attach(domain, queue, 1)
    put(domain, "a1", "a")
    settle_down(domain)
    put(domain, "a2", "a")

    consumer.settle(recorder.take()[0], outcome)

    assert waiting(queue) == ["a2"]
    assert queue.messages_acknowledged == (outcome == ACCEPTED)
    assert queue.messages_killed == (outcome == REJECTED)


def test_failed_delivery_that_is_superseded_does_not_wait_for_its_redelivery(domain: Domain, queue: Queue) -> None:
    """There is nothing to wait for."""
    recorder, consumer = attach(domain, queue, 1)
    put(domain, "a1", "a")
    settle_down(domain)
    put(domain, "a2", "a")

    consumer.settle(recorder.take()[0], FAILED)

    assert queue.message_count == 1
    assert queue.scheduled_count == 0


def test_current_delivery_that_is_given_back_stays_current(domain: Domain, queue: Queue) -> None:
    """And is superseded by the next one."""
    recorder, consumer = attach(domain, queue, 1)
    put(domain, "a1", "a")
    settle_down(domain)
    consumer.settle(recorder.take()[0], RELEASED)

    assert waiting(queue) == ["a1"]

    put(domain, "a2", "a")

    assert waiting(queue) == ["a2"]


def test_delayed_redelivery_is_superseded(domain: Domain, queue: Queue) -> None:
    """The count is exact at once, and nothing comes back when its time comes."""
    recorder, consumer = attach(domain, queue, 1)
    put(domain, "a1", "a")
    settle_down(domain)
    consumer.settle(recorder.take()[0], FAILED)
    assert queue.scheduled_count == 1

    put(domain, "a2", "a")

    assert (queue.scheduled_count, queue.message_count, queue.messages_replaced) == (0, 1, 1)
    pass_time(domain, 1000)
    assert waiting(queue) == ["a2"]


def test_superseded_redeliveries_do_not_pile_up(domain: Domain, queue: Queue) -> None:
    """A client could fail one delivery after the other while a long delay lasts."""
    recorder, consumer = attach(domain, queue, 10_000)
    for number in range(200):
        put(domain, str(number), "a")
        settle_down(domain)
        consumer.settle(recorder.take()[0], FAILED)

    assert queue.scheduled_count == 1
    delays = queue.schedule._delays
    assert delays is not None
    assert len(delays._heap) < 50


def test_scheduled_message_joins_when_it_is_due(domain: Domain, queue: Queue) -> None:
    """Until then both are there; then it is the newer one, whenever it was sent."""
    put(domain, "later", "a", delivery_time_ms=START_MS + 10)
    put(domain, "sooner", "a")

    assert (waiting(queue), queue.scheduled_count) == (["sooner"], 1)

    pass_time(domain, 10)

    assert (waiting(queue), queue.scheduled_count) == (["later"], 0)


def test_transaction_counts_at_its_commit(domain: Domain, queue: Queue) -> None:
    """Its messages are in order, and newer than what came while it was open."""
    transaction = Transaction(1, START_MS)
    for body in ("t1", "t2"):
        message = make_message(body, key="a")
        transaction.send(message, [queue])
    put(domain, "outside", "a")
    assert waiting(queue) == ["outside"]

    transaction.commit()

    assert waiting(queue) == ["t2"]


def test_claimed_delivery_that_is_superseded_is_discarded_by_a_rollback(domain: Domain, queue: Queue) -> None:
    """As any that is given back."""
    recorder, _ = attach(domain, queue, 1)
    put(domain, "a1", "a")
    settle_down(domain)
    transaction = Transaction(1, START_MS)
    transaction.settle(recorder.take()[0], ACCEPTED)
    put(domain, "a2", "a")

    transaction.rollback()

    assert waiting(queue) == ["a2"]
    assert queue.message_count == 1


def test_expired_message_leaves_the_index(domain: Domain, queue: Queue) -> None:
    """The next one has nothing to replace."""
    put(domain, "a1", "a", expires_ms=START_MS + 5)
    domain.dispatcher.now_ms += 10
    queue.expiry.expire_due()
    put(domain, "a2", "a")

    assert waiting(queue) == ["a2"]
    assert (queue.messages_expired, queue.messages_replaced) == (1, 0)


def test_keys_are_counted_while_their_messages_are_in_memory(domain: Domain, queue: Queue) -> None:
    """In the account of tables."""
    before = domain.dispatcher.tables.size_bytes
    for number in range(10):
        put(domain, str(number), number)
    during = domain.dispatcher.tables.size_bytes
    queue.purge()
    settle_down(domain)

    assert during == before + 10 * KEY_BYTES
    assert domain.dispatcher.tables.size_bytes == before


def test_rule_survives_changes_of_attributes(domain: Domain, queue: Queue) -> None:
    """It knows the messages that wait."""
    put(domain, "a1", "a")
    domain.update_queue("q", {"ring_size": 5})
    domain.update_queue("q", {"ring_size": -1, "exclusive": True})

    put(domain, "a2", "a")

    assert waiting(queue) == ["a2"]


def test_last_value_and_ring_combine(domain: Domain, queue: Queue) -> None:
    """What a newer message replaces makes room first; then the ring removes the oldest, whose key is then free."""
    domain.update_queue("q", {"ring_size": 2})
    put(domain, "a1", "a")
    put(domain, "b1", "b")
    put(domain, "a2", "a")
    assert waiting(queue) == ["b1", "a2"]

    put(domain, "c1", "c")
    assert waiting(queue) == ["a2", "c1"]

    put(domain, "b2", "b")
    assert waiting(queue) == ["c1", "b2"]
    assert queue.messages_replaced == 3
    assert queue.message_count == 2


class Kept(QueueKind):
    """Queues whose messages stay."""

    def keeps_messages(self, queue: Queue) -> bool:
        return queue.name == "kept"


def test_consumers_of_a_queue_that_keeps_messages_see_the_last_of_each_key() -> None:
    """One that comes late gets no message that was replaced; one that was there gets each new one."""
    KINDS.append(Kept())
    try:
        domain = make_domain()
        kept = make_queue(domain, "kept", last_value_key="key")
    finally:
        KINDS.pop()
    early, consumer = attach(domain, kept)
    for body, key in (("a1", "a"), ("b1", "b"), ("a2", "a")):
        domain.route(make_message(body, key=key), domain.addresses["kept"])
        settle_down(domain)
        for reference in early.deliveries:
            consumer.settle(reference, ACCEPTED)

    late, _ = attach(domain, kept)

    assert early.bodies() == ["a1", "b1", "a2"]
    assert late.bodies() == ["b1", "a2"]
    assert kept.message_count == 2


def test_delivery_comes_back_only_if_both_rules_allow_it(domain: Domain, queue: Queue) -> None:
    """A current one to a full ring that is older than all in it is discarded, and so is a superseded one."""
    domain.update_queue("q", {"ring_size": 2})
    recorder, consumer = attach(domain, queue, 2)
    put(domain, "a1", "a")
    put(domain, "b1", "b")
    settle_down(domain)
    put(domain, "a2", "a")
    put(domain, "c1", "c")
    for reference in recorder.take():
        consumer.settle(reference, RELEASED)

    assert waiting(queue) == ["a2", "c1"]

    put(domain, "b2", "b")

    assert waiting(queue) == ["c1", "b2"]


def test_rules_come_in_the_order_of_their_kinds(domain: Domain, queue: Queue) -> None:
    """The attributes may be set in any order."""
    domain.update_queue("q", {"ring_size": 2})

    assert queue.entry is not None
    assert [type(rule) for rule in queue.entry.rules] == [LastValue, Ring]  # type: ignore[attr-defined]


def test_purge_leaves_deliveries_current(domain: Domain, queue: Queue) -> None:
    """And a message sent before the purge has freed everything is not taken for an old one."""
    recorder, consumer = attach(domain, queue, 1)
    put(domain, "a1", "a")
    put(domain, "b1", "b")
    settle_down(domain)
    queue.purge()
    put(domain, "b2", "b")
    settle_down(domain)
    consumer.settle(recorder.take()[0], RELEASED)

    assert waiting(queue) == ["a1", "b2"]
    assert queue.message_count == 2


# -- what is fixed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attribute", ["last_value", "last_value_key"])
def test_queue_cannot_become_another_one(domain: Domain, attribute: str) -> None:
    """Both are decided when it is created (artemis-model §2.2)."""
    with pytest.raises(InvalidRequest, match="cannot be changed"):
        domain.update_queue("q", {attribute: None})


@pytest.mark.parametrize("defaults", [{"default_last_value_queue": True}, {"default_last_value_key": "key"}])
def test_defaults_of_the_address_decide_for_new_queues_only(defaults: dict[str, object]) -> None:
    """A queue with messages of which no one knows the last would not be exact."""
    domain = make_domain({"new": AddressSettings(**defaults)})
    domain.settings.add("later", AddressSettings())
    new, later = make_queue(domain, "new"), make_queue(domain, "later")
    assert new.settings.last_value
    assert not later.settings.last_value

    domain.settings.add("new", AddressSettings())
    domain.settings.add("later", AddressSettings(**defaults))
    domain.apply_settings()

    assert isinstance(new.entry, LastValue)
    assert later.entry is None
    assert new.settings.last_value
    assert not later.settings.last_value


def test_queue_may_refuse_the_default() -> None:
    """`last-value="false"` beats both settings of the address."""
    domain = make_domain({"#": AddressSettings(default_last_value_queue=True, default_last_value_key="key")})

    assert make_queue(domain, last_value=False).entry is None
    assert isinstance(make_queue(domain, "r", last_value=False, last_value_key="k").entry, LastValue)
    assert make_queue(domain, "s", internal=True).entry is None
