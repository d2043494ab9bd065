"""Last-value queues: the last message of each key."""

from tests.interop.kinds.scenario import Parts, Restarting, Seen, queue, setting
from tests.interop.kinds.site import Site, arrived, bodies, keyed, text

PARTS = Parts(
    addresses="".join(
        (
            *(
                queue(f"lv.{name}", 'last-value="true"')
                for name in (
                    *("replace", "priorities", "nokey", "types", "accepted", "released", "closed", "one", "credit"),
                    *("selector", "scheduled", "expiry", "restart", "paged", "rejected"),
                )
            ),
            queue("lv.property", 'last-value-key="sku"'),
            queue("lv.dead"),
            queue("lv.expired"),
        )
    ),
    settings=setting("lv.#", dead_letter_address="lv.dead", expiry_address="lv.expired")
    + setting("lv.paged", max_size_messages=2, address_full_policy="PAGE"),
)


def replacing(site: Site) -> Seen:
    """Values of three keys are sent, then newer ones of two of them."""
    sent = ["a1", "b1", "c1", "a2", "b2", "a3"]
    waiting = site.after_each("lv.replace", [keyed(body, body[0]) for body in sent])

    return {
        "sent": sent,
        "waiting after each message": waiting,
        "messages of the queue": site.count("lv.replace"),
        "dead letters": site.waiting("lv.dead"),
    }


def priorities(site: Site) -> Seen:
    """The values of a key have different priorities."""
    sent = [("a1", 4), ("b1", 4), ("a2", 9), ("b2", 0), ("a3", 4)]
    messages = [keyed(body, body[0], priority=priority) for body, priority in sent]

    return {"waiting after each message": site.after_each("lv.priorities", messages)}


def key_missing(site: Site) -> Seen:
    """Messages without a key are sent between others."""
    messages = [text("x"), keyed("a1", "a"), text("y"), keyed("a2", "a"), text("x")]

    return {"waiting after each message": site.after_each("lv.nokey", messages)}


def types_of_keys(site: Site) -> Seen:
    """Keys of several types look alike as text; one is empty."""
    for body, key in (("text", "1"), ("number", 1), ("true", True), ("word", "true"), ("empty", "")):
        site.send("lv.types", keyed(body, key))

    return {"waiting": site.waiting("lv.types")}


def key_in_a_property_of_choice(site: Site) -> Seen:
    """The queue has `last-value-key="sku"`; some messages have the other property, some have both."""
    sent: list[tuple[str, dict[str | object, object]]] = [
        ("sku1", {"sku": "s"}),
        ("lvq1", {"_AMQ_LVQ_NAME": "l"}),
        ("sku2", {"sku": "s"}),
        ("lvq2", {"_AMQ_LVQ_NAME": "l"}),
        ("both", {"sku": "s", "_AMQ_LVQ_NAME": "l"}),
        ("none", {}),
    ]

    messages = [text(body, properties=properties) for body, properties in sent]
    return {"waiting after each message": site.after_each("lv.property", messages)}


def superseded_then_accepted(site: Site) -> Seen:
    """A consumer has the value of a key when a newer one arrives, and accepts it."""
    with site.connect() as client:
        site.send("lv.accepted", keyed("a1", "a"))
        held = client.receiver("lv.accepted").receive()
        site.send("lv.accepted", keyed("a2", "a"))
        waiting, count = site.waiting("lv.accepted"), site.count("lv.accepted")
        held.accept()

        return {
            "waiting before": waiting,
            "messages of the queue": count,
            "waiting after": site.waiting("lv.accepted"),
        }


def superseded_then_released(site: Site) -> Seen:
    """A consumer has the values of two keys, a newer one of one of them arrives, and it releases both."""
    with site.connect() as client:
        site.send("lv.released", keyed("a1", "a"), keyed("b1", "b"))
        held = client.receiver("lv.released").receive_many(2)
        site.send("lv.released", keyed("a2", "a"))
        for one in held:
            one.release()
        waiting = site.waiting("lv.released")
        site.send("lv.released", keyed("b2", "b"))

        return {"waiting": waiting, "waiting after one more": site.waiting("lv.released")}


def superseded_then_rejected(site: Site) -> Seen:
    """A consumer has the value of a key when a newer one arrives, and rejects it."""
    with site.connect() as client:
        site.send("lv.rejected", keyed("r1", "r"))
        held = client.receiver("lv.rejected").receive()
        site.send("lv.rejected", keyed("r2", "r"))
        held.reject()
        site.wait_until(lambda: site.count("lv.dead") == 1, "a dead letter")

        return {"waiting": site.waiting("lv.rejected"), "dead letters": client.bodies("lv.dead")}


def superseded_then_closed(site: Site) -> Seen:
    """A consumer has the values of two keys, a newer one of one of them arrives, and its connection ends."""
    with site.connect() as client:
        site.send("lv.closed", keyed("a1", "a"), keyed("b1", "b"))
        client.receiver("lv.closed").receive_many(2)
        site.send("lv.closed", keyed("a2", "a"))

    return {"waiting": site.waiting("lv.closed")}


def credit_of_one(site: Site) -> Seen:
    """A consumer that takes one message at a time has a value while three newer ones arrive."""
    with site.connect() as client:
        receiver = client.receiver("lv.one")
        receiver.flow(1)
        client.sync()
        site.send("lv.one", keyed("a1", "a"))
        held = receiver.receive()
        site.send("lv.one", *(keyed(body, "a") for body in ("a2", "a3", "a4")))
        held.accept()

        return {"first": held.body, "then": bodies(receiver.drain())}


def credit_of_ten(site: Site) -> Seen:
    """A consumer with credit for ten settles nothing while three values of a key arrive."""
    with site.connect() as client:
        receiver = client.receiver("lv.credit")
        receiver.flow(10)
        client.sync()
        site.send("lv.credit", *(keyed(body, "a") for body in ("a1", "a2", "a3")))

        return {"delivered": arrived(receiver)}


def consumer_with_a_selector(site: Site) -> Seen:
    """A consumer wants only some messages; the newest value of a key is not one of them."""
    with site.connect() as client:
        receiver = client.receiver("lv.selector", selector="level > 4")
        for body, level in (("a1", 9), ("a2", 0), ("b1", 9)):
            site.send("lv.selector", text(body, properties={"_AMQ_LVQ_NAME": body[0], "level": level}))

        return {"delivered": bodies(receiver.drain()), "waiting": site.waiting("lv.selector")}


def scheduled(site: Site) -> Seen:
    """A scheduled value becomes due after a newer one has been sent."""
    site.send("lv.scheduled", keyed("a1", "a", annotations={"x-opt-delivery-delay": 300}), keyed("a2", "a"))
    waiting = site.waiting("lv.scheduled")
    site.wait_until(lambda: site.attribute("queue.lv.scheduled", "ScheduledCount") == 0, "the scheduled message")

    return {"waiting": waiting, "waiting when due": site.waiting("lv.scheduled")}


def expired(site: Site) -> Seen:
    """The value of a key expires; the key then has none until one is sent."""
    site.send("lv.expiry", keyed("a1", "a"), keyed("a2", "a", ttl=0.2))
    site.wait_until(lambda: (site.count("lv.expiry"), site.count("lv.expired")) == (0, 1), "the expiry of a value")
    expired = site.waiting("lv.expired")
    site.send("lv.expiry", keyed("a3", "a"))

    return {"expired": expired, "waiting": site.waiting("lv.expiry")}


def paged(site: Site) -> Seen:
    """Values of four keys are sent three times; the address keeps at most 2 messages in memory."""
    site.send("lv.paged", *(keyed(f"{key}{number}", key) for number in (1, 2, 3) for key in "abcd"))
    waiting = site.waiting("lv.paged")
    with site.connect() as client:
        return {"waiting": waiting, "delivered": client.bodies("lv.paged")}


def restart(site: Site) -> Restarting:
    """Two values of a key are sent before a restart of the broker and one after it."""
    site.send("lv.restart", keyed("a1", "a"), keyed("b1", "b"), keyed("a2", "a"))
    yield
    waiting = site.waiting("lv.restart")
    site.send("lv.restart", keyed("b2", "b"))
    return {"waiting": waiting, "waiting after one more": site.waiting("lv.restart")}
