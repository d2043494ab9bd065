"""Consumer priorities: a message goes to a lower priority only while no consumer of a higher one can take it."""

from tests.interop.kinds.scenario import Parts, Seen, queue
from tests.interop.kinds.site import Site, arrived, bodies

NAMES = ("higher", "busy", "equal", "option", "negative", "selector")
PARTS = Parts(addresses="".join(queue(f"priority.{name}") for name in NAMES))


def higher_first(site: Site) -> Seen:
    """Consumers of priorities 0, 5 and 1 have credit for two messages each; five are sent."""
    with site.connect() as client:
        receivers = {p: client.receiver("priority.higher", priority=p) for p in (0, 5, 1)}
        for receiver in receivers.values():
            receiver.flow(2)
            client.sync()
        site.send("priority.higher", *"abcde")

        return {"sent": [*"abcde"]} | {
            f"priority {priority}": arrived(receiver) for priority, receiver in receivers.items()
        }


def busy_again_and_free(site: Site) -> Seen:
    """The consumer of a higher priority has no credit for a while."""
    with site.connect() as client:
        low, high = client.receiver("priority.busy"), client.receiver("priority.busy", priority=5)
        low.flow(10)
        high.flow(1)
        client.sync()
        site.send("priority.busy", *"abc")
        high.flow(10)
        client.sync()
        site.send("priority.busy", *"de")

        return {"priority 0": arrived(low), "priority 5": arrived(high)}


def equal_priorities(site: Site) -> Seen:
    """Two consumers of one priority share four messages, a third one of a lower priority has none."""
    with site.connect() as client:
        receivers = [client.receiver("priority.equal", priority=priority) for priority in (5, 5, 0)]
        for receiver in receivers:
            receiver.flow(10)
            client.sync()
        site.send("priority.equal", *"abcd")

        return {"messages of each": [len(arrived(receiver)) for receiver in receivers]}


def option_of_the_address(site: Site) -> Seen:
    """A consumer attaches to `<queue>?consumer-priority=5`."""
    with site.connect() as client:
        low, high = client.receiver("priority.option"), client.receiver("priority.option?consumer-priority=5")
        for receiver in (low, high):
            receiver.flow(10)
            client.sync()
        site.send("priority.option", *"ab")

        return {"without": arrived(low), "with the option": arrived(high)}


def negative_priority(site: Site) -> Seen:
    """A consumer has priority -1."""
    with site.connect() as client:
        low, usual = client.receiver("priority.negative", priority=-1), client.receiver("priority.negative")
        for receiver in (low, usual):
            receiver.flow(10)
            client.sync()
        site.send("priority.negative", *"ab")

        return {"priority -1": arrived(low), "priority 0": arrived(usual)}


def higher_with_a_selector(site: Site) -> Seen:
    """The consumer of the higher priority wants only some of the messages."""
    with site.connect() as client:
        low = client.receiver("priority.selector")
        high = client.receiver("priority.selector", priority=5, selector="JMSPriority > 4")
        for receiver in (low, high):
            receiver.flow(10)
            client.sync()
        site.send("priority.selector", *"ab")

        return {"priority 0": arrived(low), "priority 5": bodies(high.drain(0))}
