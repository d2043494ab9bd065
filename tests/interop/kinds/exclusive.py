"""Exclusive queues: one consumer at a time gets the messages, the others wait to take over."""

from tests.interop.kinds.scenario import Parts, Seen, queue
from tests.interop.kinds.site import Site, arrived, bodies

NAMES = ("wait", "credit", "handover", "released", "next", "priority", "late", "off", "selector")
PARTS = Parts(
    addresses="".join(
        (
            *(queue(f"exclusive.{name}", 'exclusive="true"') for name in NAMES),
            queue("exclusive.first", 'exclusive="true" group-first-key="first"'),
            queue("exclusive.on"),
        )
    )
)


def second_consumer_waits(site: Site) -> Seen:
    """Two consumers with credit are there when four messages are sent."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("exclusive.wait"), two.receiver("exclusive.wait")
        for receiver in (first, second):
            receiver.flow(10)
            receiver.client.sync()
        site.send("exclusive.wait", *"abcd")

        return {"first": arrived(first), "second": arrived(second)}


def owner_without_credit(site: Site) -> Seen:
    """The owner has no credit left, another consumer has."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("exclusive.credit"), two.receiver("exclusive.credit")
        first.flow(1)
        one.sync()
        site.send("exclusive.credit", *"abc")
        got = bodies(first.receive_many(1))

        return {"owner": got, "other": bodies(second.drain()), "owner with credit": bodies(first.drain())}


def owner_closes_with_unsettled_messages(site: Site) -> Seen:
    """The owner has two of four messages when its connection ends; another consumer waits."""
    with site.connect() as two:
        with site.connect() as one:
            first = one.receiver("exclusive.handover")
            first.flow(2)
            one.sync()
            second = two.receiver("exclusive.handover")
            site.send("exclusive.handover", *"abcd")
            got = bodies(first.receive_many(2))
            waited = bodies(second.drain())

        taken = second.receive_many(4)
        return {
            "sent": [*"abcd"],
            "owner": got,
            "other before": waited,
            "other after": bodies(taken),
            "delivery counts": [one.message.delivery_count for one in taken],
        }


def released_by_the_owner(site: Site) -> Seen:
    """The owner releases what it has."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("exclusive.released"), two.receiver("exclusive.released")
        site.send("exclusive.released", *"ab")
        held = first.drain(1)
        for message in held:
            message.release()

        return {"owner": bodies(held), "other": bodies(second.drain()), "owner again": bodies(first.drain())}


def next_owner(site: Site) -> Seen:
    """Of two consumers that wait for the owner to close, the later one has a higher consumer priority."""
    with site.connect() as two, site.connect() as three:
        with site.connect() as one:
            first = one.receiver("exclusive.next")
            site.send("exclusive.next", "a")
            (held,) = first.drain()
            second, third = two.receiver("exclusive.next"), three.receiver("exclusive.next", priority=5)
            for receiver in (second, third):
                receiver.flow(10)
                receiver.client.sync()
            held.accept()
        site.send("exclusive.next", *"bc")

        return {"priority 0": arrived(second), "priority 5": arrived(third)}


def higher_priority_comes(site: Site) -> Seen:
    """A consumer of a higher priority attaches while a queue has an owner."""
    with site.connect() as one, site.connect() as two:
        first = one.receiver("exclusive.priority")
        first.flow(10)
        one.sync()
        site.send("exclusive.priority", "a")
        got = bodies(first.receive_many(1))
        second = two.receiver("exclusive.priority", priority=5)
        second.flow(10)
        two.sync()
        site.send("exclusive.priority", *"bc")

        return {"owner": got + arrived(first), "priority 5": arrived(second)}


def owner_that_wants_less(site: Site) -> Seen:
    """The first consumer has a selector that only some of the messages satisfy."""
    with site.connect() as one, site.connect() as two:
        first = one.receiver("exclusive.selector", selector="JMSPriority > 4")
        second = two.receiver("exclusive.selector")
        for receiver in (first, second):
            receiver.flow(10)
            receiver.client.sync()
        site.send("exclusive.selector", *"ab")

        return {"selector": arrived(first), "other": arrived(second)}


def turned_on(site: Site) -> Seen:
    """A queue with two consumers becomes exclusive."""
    with site.connect() as one, site.connect() as two:
        receivers = [client.receiver("exclusive.on") for client in (one, two)]
        for receiver in receivers:
            receiver.flow(10)
            receiver.client.sync()
        site.update("exclusive.on", exclusive=True)
        site.send("exclusive.on", *"abcd")

        return {"messages of each consumer": sorted(len(arrived(receiver)) for receiver in receivers)}


def turned_off(site: Site) -> Seen:
    """An exclusive queue with two consumers becomes an ordinary one."""
    with site.connect() as one, site.connect() as two:
        receivers = [client.receiver("exclusive.off") for client in (one, two)]
        for receiver in receivers:
            receiver.flow(10)
            receiver.client.sync()
        site.send("exclusive.off", "a")
        site.update("exclusive.off", exclusive=False)
        site.send("exclusive.off", *"bcde")

        numbers = [len(arrived(receiver)) for receiver in receivers]
        return {"consumers that got messages": sum(number > 0 for number in numbers), "messages": sum(numbers)}


def first_message_of_an_owner(site: Site) -> Seen:
    """The queue has `group-first-key`; the owner changes."""
    with site.connect() as two:
        with site.connect() as one:
            site.send("exclusive.first", *"ab")
            first = one.receiver("exclusive.first").receive_many(2)
            for message in first:
                message.accept()
        site.send("exclusive.first", *"cd")
        second = two.receiver("exclusive.first").receive_many(2)

        return {"marks": [[one.body, (one.message.properties or {}).get("first")] for one in (*first, *second)]}
