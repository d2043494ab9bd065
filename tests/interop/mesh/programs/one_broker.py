"""Queues that need one broker: groups, exclusive consumers, last values."""

from tests.interop.kinds.scenario import Parts, Seen, queue
from tests.interop.kinds.site import bodies, grouped, keyed
from tests.interop.mesh.pair import Pair, numbered

PARTS = Parts(
    addresses="".join(
        (
            queue("now.dead"),
            queue("now.exclusive", 'exclusive="true"'),
            queue("now.exclusive2", 'exclusive="true"'),
            queue("now.last", 'last-value="true"'),
            queue("now.last2", 'last-value="true"'),
        )
    )
)


def group_with_consumers_everywhere(pair: Pair) -> Seen:
    """Consumers are at a and b; 10 messages of one group are sent, one at a, one at b, in turn."""
    first, second = pair.consumer(pair.a, "now.group"), pair.consumer(pair.b, "now.group")
    for number in range(5):
        pair.a.send("now.group", grouped(f"a{number}", "g"))
        pair.b.send("now.group", grouped(f"b{number}", "g"))
    came = pair.take_each(first, second, count=10)
    return {"sent": 10, "came": sum(map(len, came)), "consumers of the group": sum(bool(each) for each in came)}


def group_of_one_node(pair: Pair) -> Seen:
    """Consumers are at a and b; 10 messages of one group are sent at a."""
    first, second = pair.consumer(pair.a, "now.group2"), pair.consumer(pair.b, "now.group2")
    pair.a.send("now.group2", *(grouped(body, "g") for body in numbered(10)))
    came = pair.take_each(first, second, count=10)
    return {"sent": 10, "came": sum(map(len, came)), "consumers of the group": sum(bool(each) for each in came)}


def group_with_consumer_elsewhere(pair: Pair) -> Seen:
    """The only consumer is at b; 10 messages of one group are sent at a."""
    consumer = pair.consumer(pair.b, "now.group3")
    pair.a.send("now.group3", *(grouped(body, "g") for body in numbered(10)))
    return pair.fate("now.group3", numbered(10), consumer, sure=0)


def exclusive_with_consumers_everywhere(pair: Pair) -> Seen:
    """An exclusive queue is at both; consumers are at a and b; 5 messages are sent at each."""
    first, second = pair.consumer(pair.a, "now.exclusive"), pair.consumer(pair.b, "now.exclusive")
    pair.a.send("now.exclusive", *numbered(5, "a"))
    pair.b.send("now.exclusive", *numbered(5, "b"))
    came = pair.take_each(first, second, count=10)
    return {"sent": 10, "came": sum(map(len, came)), "consumers that got some": sum(bool(each) for each in came)}


def exclusive_with_consumer_elsewhere(pair: Pair) -> Seen:
    """An exclusive queue is at both; the only consumer is at b; 5 messages are sent at a."""
    consumer = pair.consumer(pair.b, "now.exclusive2")
    pair.a.send("now.exclusive2", *numbered(5))
    return pair.fate("now.exclusive2", numbered(5), consumer, sure=0)


def last_value_of_both(pair: Pair) -> Seen:
    """A last-value queue is at both; values 1 and 2 of a key are sent at a, 3 at b; then a consumer comes to b."""
    pair.a.send("now.last", keyed("1", "k"), keyed("2", "k"))
    pair.b.send("now.last", keyed("3", "k"))
    return {"came": sorted(pair.take(pair.consumer(pair.b, "now.last"), count=3, sure=1))}


def last_value_with_consumer_elsewhere(pair: Pair) -> Seen:
    """A last-value queue is at both; values 1, 2, 3 of a key are sent at a; then a consumer comes to b."""
    pair.a.send("now.last2", *(keyed(value, "k") for value in "123"))
    came = pair.take(pair.consumer(pair.b, "now.last2"), count=3, sure=0)
    return {"came at b": came, "waiting at a": bodies(pair.a.client.receiver("now.last2", copy=True).drain())}
