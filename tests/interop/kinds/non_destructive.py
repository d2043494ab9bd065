"""Non-destructive queues: every consumer gets every message, and acknowledging removes nothing."""

from tests.interop.kinds.scenario import Parts, Restarting, Seen, queue, setting
from tests.interop.kinds.site import Site, accepted, bodies, keyed, text

KEEPS = 'non-destructive="true"'
PARTS = Parts(
    addresses="".join(
        (
            *(
                queue(f"keep.{name}", KEEPS)
                for name in (
                    *("two", "late", "outcomes", "failed", "again", "expiry", "purge", "off", "selector", "restart"),
                    *("settled", "priorities", "wait"),
                )
            ),
            queue("keep.on"),
            queue("keep.values", f'{KEEPS} last-value="true"'),
            queue("keep.values.held", f'{KEEPS} last-value="true"'),
            queue("keep.ring", f'{KEEPS} ring-size="2"'),
            queue("keep.exclusive", f'{KEEPS} exclusive="true"'),
            queue("keep.dead"),
            queue("keep.expired"),
        )
    ),
    settings=setting("keep.#", dead_letter_address="keep.dead", expiry_address="keep.expired"),
)


def two_consumers(site: Site) -> Seen:
    """Three messages are sent; then two consumers take and accept what they get."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("keep.two"), two.receiver("keep.two")
        site.send("keep.two", *"abc")

        return {"first": first.bodies(), "second": second.bodies(), "messages of the queue": site.count("keep.two")}


def two_consumers_wait(site: Site) -> Seen:
    """Two consumers with credit wait when three messages are sent; a third consumer attaches later."""
    with site.connect() as one, site.connect() as two, site.connect() as three:
        first, second = one.receiver("keep.wait"), two.receiver("keep.wait")
        for receiver in (first, second):
            receiver.flow(10)
            receiver.client.sync()
        site.send("keep.wait", *"abc")

        return {"first": accepted(first), "second": accepted(second), "third": three.bodies("keep.wait")}


def late_consumer(site: Site) -> Seen:
    """One consumer accepts two messages, another attaches, and a third message is sent."""
    with site.connect() as one, site.connect() as two:
        first = one.receiver("keep.late")
        site.send("keep.late", *"ab")
        early = first.bodies()
        second = two.receiver("keep.late")
        late = second.bodies()
        site.send("keep.late", "c")

        return {"sent": [*"abc"], "first": [early, first.bodies()], "second": [late, second.bodies()]}


def outcomes(site: Site) -> Seen:
    """A consumer accepts, rejects and releases one message each, and asks for more; another attaches."""
    with site.connect() as one, site.connect() as two:
        site.send("keep.outcomes", *"abc")
        receiver = one.receiver("keep.outcomes")
        accepted, rejected, released = receiver.receive_many(3)
        accepted.accept()
        rejected.reject()
        released.release()

        return {
            "again": bodies(receiver.drain()),
            "another consumer": two.bodies("keep.outcomes"),
            "waiting": site.waiting("keep.outcomes"),
            "dead letters": site.waiting("keep.dead"),
            "messages of the queue": site.count("keep.outcomes"),
        }


def failed_attempts(site: Site) -> Seen:
    """A consumer gives a message back twice as modified with delivery-failed."""
    with site.connect() as one, site.connect() as two:
        site.send("keep.failed", "a")
        receiver = one.receiver("keep.failed")
        got = []
        for _ in range(2):
            received = receiver.drain()
            got.append(bodies(received))
            for message in received:
                message.modify(failed=True)

        return {
            "delivered": got,
            "another consumer": two.bodies("keep.failed"),
        }


def priorities(site: Site) -> Seen:
    """A consumer has seen everything when messages of other priorities arrive."""
    with site.connect() as client:
        receiver = client.receiver("keep.priorities")
        site.send("keep.priorities", text("a4"), text("b9", priority=9))
        first = receiver.bodies()
        site.send("keep.priorities", text("c0", priority=0), text("d9", priority=9))

        return {
            "first": first,
            "then": receiver.bodies(),
            "another consumer": site.client.receiver("keep.priorities").bodies(),
        }


def attached_again(site: Site) -> Seen:
    """A consumer accepts two messages, detaches, and attaches again."""
    with site.connect() as client:
        site.send("keep.again", *"ab")
        first = client.bodies("keep.again")

        return {"first": first, "again": client.bodies("keep.again")}


def sent_settled(site: Site) -> Seen:
    """A consumer gets messages settled."""
    with site.connect() as client:
        site.send("keep.settled", *"ab")
        receiver = client.receiver("keep.settled", settled=True)

        return {"delivered": bodies(receiver.drain()), "waiting": site.waiting("keep.settled")}


def consumer_with_a_selector(site: Site) -> Seen:
    """Two consumers want different messages."""
    with site.connect() as client:
        site.send("keep.selector", *(text(f"m{level}", properties={"level": level}) for level in (1, 9, 2, 8)))
        high = client.receiver("keep.selector", selector="level > 4")
        low = client.receiver("keep.selector", selector="level < 5")

        return {"high": high.bodies(), "low": low.bodies(), "waiting": site.waiting("keep.selector")}


def with_last_value(site: Site) -> Seen:
    """A consumer has seen the values of two keys; one is replaced, and another consumer attaches."""
    with site.connect() as one, site.connect() as two:
        first = one.receiver("keep.values")
        site.send("keep.values", keyed("a1", "a"), keyed("b1", "b"))
        early = first.bodies()
        site.send("keep.values", keyed("a2", "a"), keyed("a3", "a"))

        return {
            "first": [early, first.bodies()],
            "second": two.bodies("keep.values"),
            "messages of the queue": site.count("keep.values"),
        }


def with_last_value_unsettled(site: Site) -> Seen:
    """A consumer has not settled a value when it is replaced, and then releases it."""
    with site.connect() as one, site.connect() as two:
        first = one.receiver("keep.values.held")
        site.send("keep.values.held", keyed("a1", "a"))
        held = first.receive()
        site.send("keep.values.held", keyed("a2", "a"))
        during = two.bodies("keep.values.held")
        held.release()

        return {
            "another consumer meanwhile": during,
            "the same afterwards": first.bodies(),
            "another afterwards": two.bodies("keep.values.held"),
        }


def with_a_ring(site: Site) -> Seen:
    """A ring of 2 gets four messages; one consumer takes what there is after the second, and again at the end."""
    with site.connect() as one, site.connect() as two:
        first = one.receiver("keep.ring")
        waiting = site.after_each("keep.ring", "ab")
        early = first.bodies()
        waiting += site.after_each("keep.ring", "cd")

        return {
            "waiting after each message": waiting,
            "first": [early, first.bodies()],
            "second": two.bodies("keep.ring"),
        }


def with_exclusive(site: Site) -> Seen:
    """The queue is exclusive, too; of two consumers the first closes."""
    with site.connect() as one, site.connect() as two:
        first, second = one.receiver("keep.exclusive"), two.receiver("keep.exclusive")
        site.send("keep.exclusive", *"ab")
        got, waited = first.bodies(), second.bodies()
        first.close()

        return {"first": got, "second": waited, "second after the close": second.bodies()}


def expired(site: Site) -> Seen:
    """One of two messages expires after a consumer has accepted both."""
    with site.connect() as client:
        receiver = client.receiver("keep.expiry")
        site.send("keep.expiry", text("a", ttl=0.3), "b")
        seen = receiver.bodies()
        left = ("keep.expiry", "keep.expired")
        site.wait_until(lambda: [site.count(queue) for queue in left] == [1, 1], "the expiry of a message")

        return {
            "delivered": seen,
            "another consumer": client.bodies("keep.expiry"),
            "expired": site.waiting("keep.expired"),
        }


def emptied_by_management(site: Site) -> Seen:
    """`removeAllMessages` is called after a consumer has accepted everything."""
    with site.connect() as client:
        site.send("keep.purge", *"ab")
        client.bodies("keep.purge")
        removed = site.manage("queue.keep.purge", "removeAllMessages")

        return {"removed": removed, "waiting": site.waiting("keep.purge")}


def turned_off(site: Site) -> Seen:
    """The queue becomes an ordinary one while a consumer is attached that has accepted everything."""
    with site.connect() as client:
        site.send("keep.off", *"ab")
        receiver = client.receiver("keep.off")
        first = receiver.bodies()
        site.update("keep.off", non_destructive=False)
        site.send("keep.off", "c")

        return {
            "first": first,
            "then": receiver.bodies(),
            "a new consumer": client.bodies("keep.off"),
            "waiting": site.waiting("keep.off"),
        }


def turned_on(site: Site) -> Seen:
    """An ordinary queue becomes non-destructive."""
    with site.connect() as client:
        site.update("keep.on", non_destructive=True)
        site.send("keep.on", *"ab")

        return {"first": client.bodies("keep.on"), "again": client.bodies("keep.on")}


def restart(site: Site) -> Restarting:
    """A consumer accepts two messages, and the broker restarts."""
    site.send("keep.restart", *"ab")
    first = site.client.bodies("keep.restart")
    yield
    return {"before": first, "after": site.client.bodies("keep.restart")}
