"""Message groups: all messages of a group go to one consumer, in their order."""

from typing import Any

from tests.interop.kinds.scenario import Parts, Restarting, Seen, queue
from tests.interop.kinds.site import Site, accepted, arrived, bodies, grouped, text
from tests.interop.proton.client import Receiver

NAMES = (
    *("pin", "busy", "ungrouped", "close", "close.held", "close.unpinned", "leave", "unsettled"),
    *("stay", "update", "restart", "priority", "consumer", "selector", "released"),
)
PARTS = Parts(
    addresses="".join(
        (
            *(queue(f"groups.{name}") for name in NAMES),
            queue("groups.rebalance", 'group-rebalance="true"'),
            queue("groups.pause", 'group-rebalance="true" group-rebalance-pause-dispatch="true"'),
            queue("groups.buckets.one", 'group-buckets="1"'),
            queue("groups.buckets.none", 'group-buckets="0"'),
            queue("groups.first", 'group-first-key="first"'),
        )
    )
)
LAST = 2**32 - 1
"""Group sequence -1: in AMQP the number is unsigned."""


def _flow(*receivers: Receiver, credit: int = 100) -> None:
    """Give credit, the first consumer first."""
    for receiver in receivers:
        receiver.flow(credit)
        receiver.client.sync()


def _numbered(groups: str, number: int) -> list[Any]:
    """One message for each of the groups, whose names are letters."""
    return [grouped(f"{group}{number}", group) for group in groups]


def pinning(site: Site) -> Seen:
    """Three messages of each of four groups are sent to two consumers."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("groups.pin"), two.receiver("groups.pin")
        _flow(first, second)
        sent = [grouped(f"{group}{number}", group) for number in (1, 2, 3) for group in "abcd"]
        site.send("groups.pin", *sent)

        return {"sent": [message.body for message in sent], "first": arrived(first), "second": arrived(second)}


def busy_owner(site: Site) -> Seen:
    """The owner of group a has no credit left; messages of groups a and b are sent, and another consumer has credit."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("groups.busy"), two.receiver("groups.busy")
        _flow(first, credit=1)
        site.send("groups.busy", *_numbered("a", 1))
        owned = bodies(first.receive_many(1))
        _flow(second)
        waiting = ["a2", "b1", "a3", "b2"]
        site.send("groups.busy", *(grouped(body, body[0]) for body in waiting))
        during = arrived(second)
        left = [site.waiting("groups.busy")]
        _flow(second)
        after = bodies(first.drain(1))
        afterwards = arrived(second)
        left.append(site.waiting("groups.busy"))

        return {
            "sent": owned + waiting,
            "owner": owned,
            "other": during,
            "owner with credit": after,
            "other afterwards": afterwards,
            "waiting": left,
        }


def ungrouped_behind_a_busy_owner(site: Site) -> Seen:
    """The owner of group a has no credit left; messages without a group are behind one of group a."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("groups.ungrouped"), two.receiver("groups.ungrouped")
        _flow(first, credit=1)
        site.send("groups.ungrouped", grouped("a1", "a"))
        owned = bodies(first.receive_many(1))
        _flow(second)
        site.send("groups.ungrouped", grouped("a2", "a"), "x", "y")

        return {"owner": owned, "other": arrived(second)}


def closed_group(site: Site) -> Seen:
    """A message with group sequence -1 ends the group, and everything is accepted; more messages of it follow."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("groups.close"), two.receiver("groups.close")
        _flow(first, second)
        site.send("groups.close", grouped("a1", "a"), grouped("a2", "a"), grouped("a3", "a", group_sequence=LAST))
        before = [accepted(first), accepted(second)]
        _flow(first, second)
        site.send("groups.close", grouped("a4", "a"), grouped("a5", "a"))

        after = [arrived(first), arrived(second)]
        return {"until the end": before, "a new owner gets": [each for each in after if each]}


def closed_group_with_unsettled_messages(site: Site) -> Seen:
    """A message with group sequence -1 is not settled yet when more messages of the group follow."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("groups.close.held"), two.receiver("groups.close.held")
        _flow(first, second)
        site.send("groups.close.held", grouped("a1", "a"), grouped("a2", "a", group_sequence=LAST))
        held = first.drain(0)
        _flow(first, second)
        site.send("groups.close.held", grouped("a3", "a"))
        during = [arrived(first), arrived(second)]
        _flow(first, second)
        for one_held in held:
            one_held.accept()

        after = [arrived(first), arrived(second)]
        return {
            "until the end": bodies(held),
            "while it is unsettled": [body for each in during for body in each],
            "then": [body for each in after for body in each],
        }


def closed_without_an_owner(site: Site) -> Seen:
    """Every message of a group has sequence -1."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("groups.close.unpinned"), two.receiver("groups.close.unpinned")
        _flow(first, second)
        site.send("groups.close.unpinned", *(grouped(body, "a", group_sequence=LAST) for body in "abcd"))

        return {"first": arrived(first), "second": arrived(second)}


def owner_leaves(site: Site) -> Seen:
    """The owner accepts two messages and closes; the group has more."""
    with site.connect() as two:
        with site.connect() as one:
            first = one.receiver("groups.leave")
            _flow(first)
            second = two.receiver("groups.leave")
            site.send("groups.leave", *(grouped(f"a{number}", "a") for number in (1, 2)))
            got = first.bodies()
        site.send("groups.leave", *(grouped(f"a{number}", "a") for number in (3, 4)))

        return {"owner": got, "other": second.bodies()}


def owner_leaves_with_unsettled_messages(site: Site) -> Seen:
    """The owner has two of four messages when its connection ends."""
    with site.connect() as two:
        with site.connect() as one:
            first = one.receiver("groups.unsettled")
            _flow(first, credit=2)
            site.send("groups.unsettled", *(grouped(f"a{number}", "a") for number in (1, 2, 3, 4)))
            got = bodies(first.receive_many(2))
            second = two.receiver("groups.unsettled")
            waited = bodies(second.drain())

        return {"owner": got, "other before": waited, "other after": bodies(second.receive_many(4))}


def released_by_the_owner(site: Site) -> Seen:
    """The owner releases a message of its group; another consumer has credit."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("groups.released"), two.receiver("groups.released")
        site.send("groups.released", grouped("a1", "a"), grouped("a2", "a"))
        (held,) = first.drain(1)
        held.release()

        return {"other": bodies(second.drain()), "owner": bodies(first.drain())}


def new_consumer(site: Site) -> Seen:
    """A consumer owns three groups when another one attaches; more messages of the groups follow."""
    return _with_a_new_consumer(site, "groups.stay")


def rebalancing(site: Site) -> Seen:
    """With `group-rebalance` a consumer owns three groups when another one attaches; more messages of them follow."""
    return _with_a_new_consumer(site, "groups.rebalance")


def _with_a_new_consumer(site: Site, queue: str) -> Seen:
    with site.connect() as one, site.connect() as two:
        first = one.receiver(queue)
        _flow(first)
        site.send(queue, *_numbered("abc", 1))
        before = first.bodies()
        _flow(first)
        second = two.receiver(queue)
        _flow(second)
        for number in (2, 3):
            site.send(queue, *_numbered("abc", number))

        return {"first before": before, "first": arrived(first), "second": arrived(second)}


def rebalancing_with_a_pause(site: Site) -> Seen:
    """With `group-rebalance-pause-dispatch` a consumer attaches while the owner has two unsettled messages."""
    with site.connect() as one, site.connect() as two:
        first = one.receiver("groups.pause")
        _flow(first)
        site.send("groups.pause", *_numbered("ab", 1))
        held = first.receive_many(2)
        second = two.receiver("groups.pause")
        _flow(second)
        site.send("groups.pause", *_numbered("ab", 2))
        paused = [arrived(first), arrived(second)]
        _flow(first, second)
        for one_held in held:
            one_held.accept()

        after = [arrived(first), arrived(second)]
        return {
            "before": bodies(held),
            "while messages are unsettled": paused,
            "consumers that got messages afterwards": sum(bool(each) for each in after),
            "messages afterwards": sorted(body for each in after for body in each),
        }


def one_bucket(site: Site) -> Seen:
    """A queue with `group-buckets="1"` has two consumers."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("groups.buckets.one"), two.receiver("groups.buckets.one")
        _flow(first, second)
        site.send("groups.buckets.one", *_numbered("abc", 1), *_numbered("abc", 2))

        return {"first": arrived(first), "second": arrived(second)}


def no_buckets(site: Site) -> Seen:
    """A queue with `group-buckets="0"` has two consumers."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("groups.buckets.none"), two.receiver("groups.buckets.none")
        _flow(first, second)
        site.send("groups.buckets.none", *(grouped(f"a{number}", "a") for number in (1, 2, 3, 4)))

        return {"first": arrived(first), "second": arrived(second)}


def buckets_changed(site: Site) -> Seen:
    """`group-buckets` becomes 0 while a consumer owns a group."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("groups.update"), two.receiver("groups.update")
        _flow(first, second)
        site.send("groups.update", *(grouped(f"a{number}", "a") for number in (1, 2)))
        before = [accepted(first), accepted(second)]
        site.update("groups.update", group_buckets=0)
        _flow(first, second)
        site.send("groups.update", *(grouped(f"a{number}", "a") for number in (3, 4, 5, 6)))

        return {"before": before, "messages of each afterwards": sorted(len(arrived(each)) for each in (first, second))}


def first_message_of_a_group(site: Site) -> Seen:
    """The queue has `group-first-key`; the owner of a group changes."""
    marks = []
    for number in (1, 2):
        with site.connect() as client:
            receiver = client.receiver("groups.first")
            site.send("groups.first", *_numbered("ab", number), grouped(f"a{number}+", "a"), f"x{number}")
            for received in receiver.drain():
                marks.append([received.body, (received.message.properties or {}).get("first")])
                received.accept()

    return {"marks": marks}


def message_priorities(site: Site) -> Seen:
    """Messages of a group have different priorities, and wait for a consumer."""
    with site.connect() as client:
        site.send("groups.priority", *(grouped(f"a{n}p{p}", "a", priority=p) for n, p in ((1, 4), (2, 9), (3, 4))))

        return {"delivered": client.bodies("groups.priority")}


def consumer_priorities(site: Site) -> Seen:
    """A consumer of a higher priority attaches while another one owns a group."""
    with site.connect() as one, site.connect() as two:
        first = one.receiver("groups.consumer")
        _flow(first)
        site.send("groups.consumer", *_numbered("a", 1))
        before = first.receive_many(1)
        second = two.receiver("groups.consumer", priority=5)
        _flow(second)
        site.send("groups.consumer", *_numbered("ab", 2))

        return {"owner": bodies(before) + arrived(first), "priority 5": arrived(second)}


def owner_that_wants_less(site: Site) -> Seen:
    """The owner of a group has a selector that the next message of the group does not satisfy."""
    with site.connect() as one, site.connect() as two:
        first = one.receiver("groups.selector", selector="level > 4")
        _flow(first)
        site.send("groups.selector", grouped("a9", "a", properties={"level": 9}))
        before = first.receive_many(1)
        second = two.receiver("groups.selector")
        _flow(second)
        site.send("groups.selector", grouped("a1", "a", properties={"level": 1}), text("x"))

        return {"owner": bodies(before) + arrived(first), "other": arrived(second)}


def restart(site: Site) -> Restarting:
    """Two messages of each of two groups wait over a restart of the broker."""
    for number in (1, 2):
        site.send("groups.restart", *_numbered("ab", number))
    yield
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("groups.restart"), two.receiver("groups.restart")
        return {"first": bodies(first.drain(1)), "second": bodies(second.drain(1)), "first again": first.bodies()}
