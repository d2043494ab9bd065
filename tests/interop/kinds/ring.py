"""Ring queues: at most `ring-size` messages wait."""

from tests.interop.kinds.scenario import Parts, Restarting, Seen, queue, setting
from tests.interop.kinds.site import Site, bodies, text

PARTS = Parts(
    addresses="".join(
        (
            queue("ring.overflow", 'ring-size="3"'),
            queue("ring.priorities", 'ring-size="3"'),
            queue("ring.flight", 'ring-size="2"'),
            queue("ring.flight.room", 'ring-size="2"'),
            queue("ring.closed", 'ring-size="2"'),
            queue("ring.shrink", 'ring-size="5"'),
            queue("ring.grow", 'ring-size="2"'),
            queue("ring.off", 'ring-size="2"'),
            queue("ring.zero", 'ring-size="0"'),
            queue("ring.scheduled", 'ring-size="2"'),
            queue("ring.paged", 'ring-size="3"'),
            queue("ring.restart", 'ring-size="3"'),
            queue("ring.dead"),
        )
    ),
    settings=setting("ring.#", dead_letter_address="ring.dead")
    + setting("ring.paged", max_size_messages=2, address_full_policy="PAGE"),
)


def overflow(site: Site) -> Seen:
    """Five messages are sent to a ring of 3."""
    waiting = site.after_each("ring.overflow", "abcde")

    return {
        "sent": [*"abcde"],
        "waiting after each message": waiting,
        "messages of the queue": site.count("ring.overflow"),
        "dead letters": site.waiting("ring.dead"),
    }


def priorities(site: Site) -> Seen:
    """Messages of different priorities are sent to a ring of 3."""
    sent = {"a4": 4, "b9": 9, "c0": 0, "d4": 4, "e9": 9, "f0": 0}
    messages = [text(body, priority=priority) for body, priority in sent.items()]

    return {"waiting after each message": site.after_each("ring.priorities", messages)}


def released_into_a_full_ring(site: Site) -> Seen:
    """A consumer has two messages of a ring of 2; three more arrive, then it releases both."""
    with site.connect() as client:
        site.send("ring.flight", "a", "b")
        held = client.receiver("ring.flight").receive_many(2)
        site.send("ring.flight", "c", "d", "e")
        count, waiting = site.count("ring.flight"), site.waiting("ring.flight")
        for one in held:
            one.release()

        return {
            "messages of the queue": count,
            "waiting before": waiting,
            "waiting after": site.waiting("ring.flight"),
        }


def released_with_room_for_one(site: Site) -> Seen:
    """A consumer has two messages of a ring of 2; one more arrives, then it releases both."""
    with site.connect() as client:
        site.send("ring.flight.room", "a", "b")
        held = client.receiver("ring.flight.room").receive_many(2)
        site.send("ring.flight.room", "c")
        for one in held:
            one.release()

        return {"waiting": site.waiting("ring.flight.room")}


def closed_over_a_full_ring(site: Site) -> Seen:
    """A consumer with the two messages of a ring of 2 closes after two more have arrived."""
    with site.connect() as client:
        site.send("ring.closed", "a", "b")
        client.receiver("ring.closed").receive_many(2)
        site.send("ring.closed", "c", "d")

    return {"waiting": site.waiting("ring.closed")}


def shrinking(site: Site) -> Seen:
    """A ring of 5 with five messages is made a ring of 2, then one more message is sent."""
    site.send("ring.shrink", *"abcde")
    site.update("ring.shrink", ring_size=2)
    waiting = site.waiting("ring.shrink")
    site.send("ring.shrink", "f")

    return {"waiting": waiting, "waiting after one more": site.waiting("ring.shrink")}


def growing(site: Site) -> Seen:
    """A full ring of 2 is made a ring of 4."""
    site.send("ring.grow", *"abc")
    site.update("ring.grow", ring_size=4)

    return {"waiting after each message": site.after_each("ring.grow", "def")}


def turned_off(site: Site) -> Seen:
    """The size of a full ring of 2 becomes -1."""
    site.send("ring.off", *"abc")
    site.update("ring.off", ring_size=-1)

    return {"waiting after each message": site.after_each("ring.off", "def")}


def size_zero(site: Site) -> Seen:
    """Messages are sent to a ring of 0, without a consumer and with one that waits for them."""
    site.send("ring.zero", *"ab")
    waiting = site.waiting("ring.zero")
    with site.connect() as client:
        receiver = client.receiver("ring.zero")
        receiver.flow(10)
        client.sync()
        site.send("ring.zero", *"cd")

        return {"waiting": waiting, "delivered": bodies(receiver.drain())}


def scheduled(site: Site) -> Seen:
    """A scheduled message becomes due in a full ring of 2."""
    site.send("ring.scheduled", text("late", annotations={"x-opt-delivery-delay": 300}), *"ab")
    count, waiting = site.count("ring.scheduled"), site.waiting("ring.scheduled")
    site.wait_until(lambda: site.attribute("queue.ring.scheduled", "ScheduledCount") == 0, "the scheduled message")

    return {"messages of the queue": count, "waiting": waiting, "waiting when due": site.waiting("ring.scheduled")}


def paged(site: Site) -> Seen:
    """Ten messages are sent to a ring of 3 on an address that keeps at most 2 messages in memory."""
    site.send("ring.paged", *"abcdefghij")
    waiting = site.waiting("ring.paged")
    with site.connect() as client:
        return {"waiting": waiting, "delivered": client.bodies("ring.paged")}


def restart(site: Site) -> Restarting:
    """A ring of 3 gets five messages, the broker restarts, and one more message is sent."""
    site.send("ring.restart", *"abcde")
    yield
    waiting = site.waiting("ring.restart")
    site.send("ring.restart", "f")
    return {"waiting": waiting, "waiting after one more": site.waiting("ring.restart")}
