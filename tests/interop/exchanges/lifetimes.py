"""When exchanges and bindings begin and end: names, deletion, restarts."""

from tests.interop.exchanges.site import Peer, outcome_of
from tests.interop.kinds.scenario import Restarting, Seen
from tests.interop.proton.client import Refused


def predeclared(site: Peer) -> Seen:
    """The exchanges that begin with `amq.` are there, and stay."""
    names = ("amq.direct", "amq.topic", "amq.fanout", "amq.match")
    known = [name for name in site.exchanges() if name.startswith("amq.")]
    site.queues("l.pre")
    for name, key in (("amq.direct", "l.k"), ("amq.topic", "l.#"), ("amq.fanout", "")):
        site.bind(name, key, "l.pre")
    for name in names[:3]:
        site.outcome(site.exchange(name, "l.k"), name)
    got = site.got("l.pre")
    site.delete_queue("l.pre")

    return {
        "known": known,
        "got": got,
        "deleted": [site.attempt(lambda name=name: site.delete(name)) for name in names],  # type: ignore[misc]
    }


def reserved_names(site: Peer) -> Seen:
    """Exchanges with names that might be reserved are declared."""
    names = ("amq.own", "qpid.own", "amqown", "l.with/slash", "l with blank", "l.ü")
    return {f"`{name}`": site.attempt(lambda name=name: site.declare(name, "direct")) for name in names}  # type: ignore[misc]


def declared_twice(site: Peer) -> Seen:
    """An exchange is declared again, with the same and with another type."""
    site.declare("l.twice", "direct")
    same = site.attempt(lambda: site.declare("l.twice", "direct"))
    other = site.attempt(lambda: site.declare("l.twice", "fanout"))

    return {"same": same, "another type": other}


def unknown_type(site: Peer) -> Seen:
    """An exchange is declared with a type that does not exist."""
    return {"declared": site.attempt(lambda: site.declare("l.unknown", "ring"))}


def deleted_with_a_sender(site: Peer) -> Seen:
    """An exchange is deleted while a sender is attached to it, which then sends."""
    site.declare("l.sent", "fanout")
    site.queues("l.sent.q")
    site.bind("l.sent", "", "l.sent.q")
    with site.connect() as client:
        sender = client.sender(site.exchange("l.sent"))
        before = outcome_of(sender, "before")
        deleted = site.attempt(lambda: site.delete("l.sent"))
        after = outcome_of(sender, "after")

    return {"before": before, "deleted": deleted, "after": after, "queue has": site.got("l.sent.q")}


def deleted_with_a_receiver(site: Peer) -> Seen:
    """An exchange is deleted while a receiver subscribes to it; a message waits."""
    site.declare("l.heard", "topic")
    with site.connect() as client:
        receiver = client.receiver(site.subscription("l.heard", "#"))
        site.publish("l.heard", ("m",))
        deleted = site.attempt(lambda: site.delete("l.heard"))
        try:
            got: object = receiver.bodies()
        except Refused as refused:
            got = f"detached ({refused.condition})"

    return {"deleted": deleted, "got": got}


def deleted_while_bound(site: Peer) -> Seen:
    """An exchange in the middle of a chain is deleted."""
    for name in ("l.head", "l.middle"):
        site.declare(name, "fanout")
    site.queues("l.tail")
    site.bind("l.head", "", "l.middle", chain=True)
    site.bind("l.middle", "", "l.tail")
    deleted = site.attempt(lambda: site.delete("l.middle"))

    return {
        "deleted": deleted,
        "bindings": site.bindings("l.head"),
        "outcome": site.outcome(site.exchange("l.head", "k")),
        "queue has": site.got("l.tail"),
    }


def ends_with_its_last_binding(site: Peer) -> Seen:
    """An exchange ends with its last binding: one never has any, two lose theirs, one because its queue is deleted."""
    for name in ("l.never", "l.unbound", "l.emptied"):
        site.declare(name, "direct", ends=True)
    site.queues("l.ends", "l.goes")
    site.bind("l.unbound", "k", "l.ends")
    site.bind("l.unbound", "l", "l.ends")
    site.bind("l.emptied", "k", "l.goes")
    site.unbind("l.unbound", "k", "l.ends")
    after_one = "l.unbound" in site.exchanges()
    site.unbind("l.unbound", "l", "l.ends")
    site.delete_queue("l.goes")

    left = site.exchanges()
    return {
        "there after one of two": after_one,
        "left": [name for name in ("l.never", "l.unbound", "l.emptied") if name in left],
    }


def restart(site: Peer) -> Restarting:
    """Durable and other exchanges, queues and bindings before and after a restart."""
    for durable in (True, False):
        exchange = "l.durable" if durable else "l.transient"
        site.declare(exchange, "direct", durable=durable)
    site.queues("l.q.durable", durable=True)
    site.queues("l.q.transient")
    for exchange in ("l.durable", "l.transient"):
        for queue in ("l.q.durable", "l.q.transient"):
            site.bind(exchange, "k", queue)
    site.outcome(site.exchange("l.durable", "k"), "before")
    yield
    left = site.exchanges()

    return {
        "exchanges": [name for name in ("l.durable", "l.transient") if name in left],
        "bindings": site.bindings("l.durable"),
        "outcome": site.outcome(site.exchange("l.durable", "k"), "after"),
        "queue has": site.got("l.q.durable"),
    }


def restart_with_arguments(site: Peer) -> Restarting:
    """Durable bindings of a topic and a headers exchange, a chain and an alternate before and after a restart."""
    site.declare("l.r.rest", "fanout", durable=True)
    site.declare("l.r.topic", "topic", durable=True, alternate="l.r.rest")
    site.declare("l.r.headers", "headers", durable=True)
    site.queues("l.r.q", "l.r.other", durable=True)
    site.bind("l.r.topic", "h.#", "l.r.headers", chain=True)
    site.bind_headers("l.r.headers", "l.r.q", {"x-match": "any", "kind": "letter", "s": "a"})
    site.bind("l.r.rest", "", "l.r.other")
    yield
    for key, properties in (("h.1", {"kind": "letter"}), ("h.2", {"s": "a"}), ("h.3", {"s": "b"}), ("x", {"s": "a"})):
        site.outcome(site.exchange("l.r.topic", key), key, properties=properties)

    return site.reached("l.r.q", "l.r.other")


def restart_of_amq(site: Peer) -> Restarting:
    """A durable queue is bound to `amq.topic`, and is still bound after a restart."""
    site.queues("l.amq", durable=True)
    site.bind("amq.topic", "l-amq.#", "l.amq")
    yield
    site.outcome(site.exchange("amq.topic", "l-amq.x"))

    return {"bindings": site.bindings("amq.topic"), "queue has": site.got("l.amq")}
