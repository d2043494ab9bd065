"""Node b is killed and started again; all programs share that. `redistribution-delay` 0."""

from tests.interop.kinds.scenario import Restarting
from tests.interop.mesh.pair import Pair, accept, fate_of, numbered
from tests.interop.mesh.programs.subscriptions import GROUP, publish, subscribe
from tests.interop.proton.client import Receiver


def taker_is_killed(pair: Pair) -> Restarting:
    """A consumer at b has 50 of 200 messages of a, 40 of them settled; b is killed; it comes again to b."""
    wanted = numbered(200)
    pair.a.send("now.kill", *wanted)
    consumer = pair.consumer(pair.b, "now.kill", credit=50)
    pair.wait(lambda: consumer.waiting == 50, consumer.client)
    taken = accept(consumer, 40)
    yield
    return pair.fate("now.kill", [body for body in wanted if body not in taken], _again(pair, "now.kill"), order=False)


def consumer_moves_to_the_origin(pair: Pair) -> Restarting:
    """A consumer at b keeps 10 of 30 messages of a when b is killed; b comes back, and a consumer comes to a."""
    pair.a.send("now.kill2", *numbered(30))
    consumer = pair.consumer(pair.b, "now.kill2", credit=10)
    pair.wait(lambda: consumer.waiting == 10, consumer.client)
    yield
    return pair.fate("now.kill2", numbered(30), pair.consumer(pair.a, "now.kill2"), order=False)


def sent_while_it_is_away(pair: Pair) -> Restarting:
    """A consumer is at b when b is killed; 10 messages are sent at a; b comes back, and the consumer."""
    pair.consumer(pair.b, "now.kill3")
    yield
    return pair.fate("now.kill3", numbered(10), _again(pair, "now.kill3"), order=False)


def durable_subscription(pair: Pair) -> Restarting:
    """A durable subscription is at b, which is killed; 10 messages are published at a; b comes back."""
    pair.leave(subscribe(pair, pair.b, "topic.kill", "kill"))
    yield
    return fate_of(numbered(10), pair.take(subscribe(pair, pair.b, "topic.kill", "kill"), count=10))


def shared_subscription(pair: Pair) -> Restarting:
    """A shared durable subscription has consumers at a and b; b is killed; 10 messages at a; b comes back, with one."""
    for site in (pair.a, pair.b):
        pair.leave(pair.consumer(site, "topic.kill2", capabilities=GROUP, name="killed", durable=True))
    yield
    members = [
        pair.consumer(site, "topic.kill2", capabilities=GROUP, name="killed", durable=True) for site in (pair.a, pair.b)
    ]
    return fate_of(numbered(10), pair.take(*members, count=10), order=False)


def _again(pair: Pair, queue: str) -> Receiver:
    return pair.consumer(pair.b, queue)


def while_away(pair: Pair) -> None:
    """Send at a, while b is dead, what the programs above expect."""
    pair.a.send("now.kill3", *numbered(10))
    for topic in ("topic.kill", "topic.kill2"):
        publish(pair.a, topic, *numbered(10))
