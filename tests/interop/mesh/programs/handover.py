"""Queues whose consumers are at the other broker, or change brokers."""

from typing import Final

from tests.interop.kinds.scenario import Seen
from tests.interop.kinds.site import text
from tests.interop.mesh.pair import Pair, accept_all, count, fate_of, numbered

MANY: Final = 100
SOME: Final = 10


def consumer_first(pair: Pair) -> Seen:
    """A consumer is at b; 10 messages are sent at a."""
    consumer = pair.consumer(pair.b, "default.first")
    pair.a.send("default.first", *numbered(SOME))
    return pair.fate("default.first", numbered(SOME), consumer)


def _messages_first(pair: Pair, queue: str, sure: int | None = None) -> Seen:
    pair.a.send(queue, *numbered(SOME))
    return pair.fate(queue, numbered(SOME), pair.consumer(pair.b, queue), sure=sure)


def messages_first(pair: Pair) -> Seen:
    """10 messages wait at a, without any `redistribution-delay`; then a consumer comes to b."""
    return _messages_first(pair, "default.waiting")


def messages_first_delay_0(pair: Pair) -> Seen:
    """10 messages wait at a, `redistribution-delay` 0; then a consumer comes to b."""
    return _messages_first(pair, "now.waiting")


def messages_first_delay_300(pair: Pair) -> Seen:
    """10 messages wait at a, `redistribution-delay` 300; then a consumer comes to b."""
    return _messages_first(pair, "later.waiting")


def messages_first_delay_never(pair: Pair) -> Seen:
    """10 messages wait at a, `redistribution-delay` -1; then a consumer comes to b."""
    return _messages_first(pair, "never.waiting", sure=0)


def _consumer_leaves(pair: Pair, queue: str, sure: int | None = None) -> Seen:
    first = pair.consumer(pair.a, queue, credit=2)
    pair.a.send(queue, *numbered(SOME))
    taken = pair.take(first, count=2)
    second = pair.consumer(pair.b, queue)
    pair.leave(first)
    return pair.fate(queue, [body for body in numbered(SOME) if body not in taken], second, sure=sure)


def consumer_leaves(pair: Pair) -> Seen:
    """A consumer at a takes 2 of 10 messages, one comes to b, the first leaves; no `redistribution-delay`."""
    return _consumer_leaves(pair, "default.leaves")


def consumer_leaves_delay_0(pair: Pair) -> Seen:
    """A consumer at a takes 2 of 10 messages, one comes to b, the first leaves; `redistribution-delay` 0."""
    return _consumer_leaves(pair, "now.leaves")


def consumer_leaves_delay_never(pair: Pair) -> Seen:
    """A consumer at a takes 2 of 10 messages, one comes to b, the first leaves; `redistribution-delay` -1."""
    return _consumer_leaves(pair, "never.leaves", sure=0)


def consumer_without_credit(pair: Pair) -> Seen:
    """A consumer at a has credit, one at b has none; 10 messages are sent at a."""
    has = pair.consumer(pair.a, "now.empty")
    pair.consumer(pair.b, "now.empty", credit=0)
    pair.a.send("now.empty", *numbered(SOME))
    return pair.fate("now.empty", numbered(SOME), has)


def consumer_with_credit_for_one(pair: Pair) -> Seen:
    """A consumer at a has credit, one at b only for one message, which it keeps; 10 messages are sent at a."""
    has = pair.consumer(pair.a, "now.one")
    one = pair.consumer(pair.b, "now.one", credit=1)
    pair.a.send("now.one", *numbered(SOME))
    pair.wait(lambda: one.waiting > 0, one.client)
    kept = [one.receive().body for _ in range(one.waiting)]
    fate = pair.fate("now.one", [body for body in numbered(SOME) if body not in kept], has, order=False)
    return fate | {"kept at b": len(kept)}


def slow_consumer(pair: Pair) -> Seen:
    """Of two consumers with credit for 100 one, at b, keeps what it has without settling; 40 messages are sent at a."""
    quick = pair.consumer(pair.a, "now.slow", credit=100)
    slow = pair.consumer(pair.b, "now.slow", credit=100)
    pair.a.send("now.slow", *numbered(40))
    came: list[str] = []

    def has_all() -> bool:
        came.extend(accept_all(quick))
        return slow.waiting + len(came) >= 40

    pair.wait(has_all, quick.client, slow.client)
    return {"at a": len(came) > 0, "at b": slow.waiting > 0, "in all": len(came) + slow.waiting}


def order_while_consumer_comes(pair: Pair) -> Seen:
    """One producer at a sends 100 messages; the consumer comes to b after the first 50; `redistribution-delay` 0."""
    pair.a.send("now.order", *numbered(MANY)[: MANY // 2])
    consumer = pair.consumer(pair.b, "now.order")
    pair.a.send("now.order", *numbered(MANY)[MANY // 2 :])
    return pair.fate("now.order", numbered(MANY), consumer)


def order_of_waiting_messages(pair: Pair) -> Seen:
    """One producer at a sends 100 messages; then the consumer comes to b; `redistribution-delay` 0."""
    pair.a.send("now.order2", *numbered(MANY))
    return pair.fate("now.order2", numbered(MANY), pair.consumer(pair.b, "now.order2"))


def consumer_goes_back_and_forth(pair: Pair) -> Seen:
    """30 messages wait at a; a consumer takes 10 at b, then 10 at a, then 10 at b; `redistribution-delay` 0."""
    wanted = numbered(30)
    pair.a.send("now.forth", *wanted)
    came: list[str] = []
    for site in (pair.b, pair.a, pair.b):
        consumer = pair.consumer(site, "now.forth", credit=10)
        came += pair.take(consumer, count=10)
        pair.leave(consumer)
    return fate_of(wanted, came)


def rejected_elsewhere(pair: Pair) -> Seen:
    """A message of a is rejected at b; the consumer of dead letters is at a; `redistribution-delay` 0."""
    pair.a.send("now.rejected", "m0")
    consumer = pair.consumer(pair.b, "now.rejected")
    consumer.receive().reject()
    return pair.fate("now.dead", ["m0"], pair.consumer(pair.a, "now.dead"))


def scheduled(pair: Pair) -> Seen:
    """A consumer is at b; a message for 300 ms from now is sent at a; `redistribution-delay` 0."""
    consumer = pair.consumer(pair.b, "now.scheduled")
    pair.a.send("now.scheduled", text("m0", annotations={"x-opt-delivery-delay": 300}))
    return pair.fate("now.scheduled", ["m0"], consumer)


def queue_is_deleted_and_created(pair: Pair) -> Seen:
    """A consumer of a queue that is deleted without use comes to b and goes; 5 messages at a; it comes to b again."""
    for _ in range(3):
        pair.leave(pair.consumer(pair.b, "now.again"))
    pair.a.send("now.again", *numbered(5))
    return pair.fate("now.again", numbered(5), pair.consumer(pair.b, "now.again"))


def queues_that_nobody_made(pair: Pair) -> Seen:
    """10 times: a message for a new queue is sent at a, and at once a consumer comes to b; `redistribution-delay` 0."""
    came = []
    for number in range(10):
        queue = f"now.new{number}"
        pair.a.send(queue, "m0")
        consumer = pair.consumer(pair.b, queue)
        pair.wait(lambda: consumer.waiting > 0, consumer.client)  # noqa: B023
        came += accept_all(consumer)
        pair.leave(consumer)
    return {"sent": 10, "came": len(came)}


def _large(pair: Pair, queue: str, is_first: bool) -> Seen:
    consumer = pair.consumer(pair.b, queue) if is_first else None
    pair.a.send(queue, *(name * 300_000 for name in "abc"))
    came = [body[0] for body in pair.take(consumer or pair.consumer(pair.b, queue), count=3)]
    return fate_of([*"abc"], came) | {"stranded": 0 if came else pair.waiting(queue)}


def large_messages(pair: Pair) -> Seen:
    """A consumer is at b; 3 messages of 300,000 octets are sent at a; `redistribution-delay` 0."""
    return _large(pair, "now.large", True)


def large_messages_first(pair: Pair) -> Seen:
    """3 messages of 300,000 octets wait at a; then a consumer comes to b; `redistribution-delay` 0."""
    return _large(pair, "now.large2", False)


def duplicates(pair: Pair) -> Seen:
    """5 messages with `_AMQ_DUPL_ID` are sent at a and, as after a failover, again at b; a consumer is at b."""
    consumer = pair.consumer(pair.b, "now.duplicates")
    for site in (pair.a, pair.b):
        site.send("now.duplicates", *(text(body, properties={"_AMQ_DUPL_ID": body}) for body in numbered(5)))
    return fate_of(numbered(5), pair.take(consumer, count=10, sure=5), order=False)


def replies(pair: Pair) -> Seen:
    """5 times: a client at a makes a temporary queue and asks at once; a responder at b answers."""
    responder = pair.consumer(pair.b, "now.requests")
    came = 0
    for number in range(5):
        asker = pair.connect(pair.a)
        answers = asker.receiver(None, dynamic=True)
        answers.flow(1)
        request = text(f"m{number}", reply_to=answers.address)
        asker.send("now.requests", request)
        if not pair.wait(lambda: responder.waiting > 0, responder.client):
            continue
        received = responder.receive()
        received.accept()
        responder.client.send(str(received.message.reply_to), text("answer"))
        came += pair.wait(lambda: answers.waiting > 0, asker)  # noqa: B023
        pair.leave(answers)
    return {"sent": 5, "came": came}


def browser_elsewhere(pair: Pair) -> Seen:
    """10 messages wait at a; a browser looks at b."""
    pair.b.send("default.browsed", "own")
    pair.a.send("default.browsed", *numbered(SOME))
    return {"shown": len(pair.b.waiting("default.browsed")), "waiting at a": count(pair.a, "default.browsed")}
