"""Exchanges that lead to exchanges, and alternates."""

from tests.interop.exchanges.site import Peer
from tests.interop.kinds.scenario import Seen
from tests.interop.kinds.site import text


def chain(site: Peer) -> Seen:
    """Three exchanges of different types lead from one to the next."""
    site.declare("c.topic", "topic")
    site.declare("c.direct", "direct")
    site.declare("c.fanout", "fanout")
    site.queues("c.end")
    site.bind("c.topic", "a.#", "c.direct", chain=True)
    site.bind("c.direct", "a.b", "c.fanout", chain=True)
    site.bind("c.fanout", "", "c.end")
    site.publish("c.topic", ("a.b", "a.c", "x"))

    return {"got": site.got("c.end")}


def circle(site: Peer) -> Seen:
    """Two exchanges lead to each other, and one to itself; queues are bound to both."""
    for name in ("c.one", "c.two"):
        site.declare(name, "fanout")
        site.queues(name + ".q")
        site.bind(name, "", name + ".q")
    site.bind("c.one", "", "c.two", chain=True)
    site.bind("c.two", "", "c.one", chain=True)
    site.declare("c.self", "fanout")
    site.queues("c.self.q")
    itself = site.attempt(lambda: site.bind("c.self", "", "c.self", chain=True))
    site.bind("c.self", "", "c.self.q")
    site.publish("c.one", ("m",))
    site.publish("c.self", ("m",))

    return {"bound to itself": itself, **site.reached("c.one.q", "c.two.q", "c.self.q")}


def replaced_key(site: Peer) -> Seen:
    """A binding to an exchange replaces the routing key."""
    site.declare("c.from", "direct")
    site.declare("c.to", "direct")
    site.queues("c.old", "c.new")
    site.bind("c.to", "old", "c.old")
    site.bind("c.to", "new", "c.new")
    site.bind("c.from", "old", "c.to", chain=True, x_replacement_routing_key="new")
    site.publish("c.from", ("old",))

    return site.reached("c.old", "c.new")


def circle_with_replaced_key(site: Peer) -> Seen:
    """A circle of two exchanges replaces the key, so that a message comes back with another one."""
    for name in ("c.r1", "c.r2"):
        site.declare(name, "direct")
    site.queues("c.first", "c.again")
    site.bind("c.r1", "a", "c.first")
    site.bind("c.r1", "b", "c.again")
    site.bind("c.r1", "a", "c.r2", chain=True)
    site.bind("c.r2", "a", "c.r1", chain=True, x_replacement_routing_key="b")
    site.publish("c.r1", ("a",))

    return site.reached("c.first", "c.again")


def selector_on_a_chain(site: Peer) -> Seen:
    """A binding to an exchange has a selector."""
    site.declare("c.choosy", "fanout")
    site.declare("c.chosen", "fanout")
    site.queues("c.chosen.q")
    site.bind("c.choosy", "", "c.chosen", chain=True, x_filter_jms_selector="colour = 'red'")
    site.bind("c.chosen", "", "c.chosen.q")
    sender = site.client.sender(site.exchange("c.choosy"))
    for colour in ("red", "blue"):
        sender.send(text(colour, properties={"colour": colour}))
    sender.close()

    return {"got": site.got("c.chosen.q")}


def alternate_exchange(site: Peer) -> Seen:
    """Messages that match nothing go to an alternate exchange, and from there to its alternate."""
    site.declare("c.alt2", "fanout")
    site.declare("c.alt1", "direct", alternate="c.alt2")
    site.declare("c.main", "direct", alternate="c.alt1")
    site.queues("c.main.q", "c.alt1.q", "c.alt2.q")
    site.bind("c.main", "main", "c.main.q")
    site.bind("c.alt1", "first", "c.alt1.q")
    site.bind("c.alt2", "", "c.alt2.q")
    site.publish("c.main", ("main", "first", "second"))

    return site.reached("c.main.q", "c.alt1.q", "c.alt2.q")


def alternate_queue(site: Peer) -> Seen:
    """Messages that match nothing go to an alternate queue."""
    site.queues("c.rest", "c.taken")
    site.declare("c.withrest", "direct", alternate_queue="c.rest")
    site.bind("c.withrest", "k", "c.taken")
    site.publish("c.withrest", ("k", "other"))

    return site.reached("c.taken", "c.rest")


def alternate_of_a_dead_end(site: Peer) -> Seen:
    """A message matches a binding to an exchange that leads nowhere; the first exchange has an alternate."""
    site.declare("c.deadalt", "fanout")
    site.queues("c.deadalt.q")
    site.bind("c.deadalt", "", "c.deadalt.q")
    site.declare("c.deadend", "direct")
    site.declare("c.deadmain", "fanout", alternate="c.deadalt")
    site.bind("c.deadmain", "", "c.deadend", chain=True)
    outcome = site.outcome(site.exchange("c.deadmain", "k"))

    return {"outcome": outcome, "alternate has": site.got("c.deadalt.q")}


def alternate_in_a_chain(site: Peer) -> Seen:
    """The second exchange of a chain has an alternate; the first one also leads to a queue."""
    site.declare("c.midalt", "fanout")
    site.queues("c.midalt.q", "c.mid.q")
    site.bind("c.midalt", "", "c.midalt.q")
    site.declare("c.mid2", "direct", alternate="c.midalt")
    site.declare("c.mid1", "fanout")
    site.bind("c.mid1", "", "c.mid2", chain=True)
    site.bind("c.mid1", "", "c.mid.q")
    site.publish("c.mid1", ("k",))

    return site.reached("c.mid.q", "c.midalt.q")


def alternate_if_selectors_reject(site: Peer) -> Seen:
    """All bindings that match have selectors, which do not."""
    site.queues("c.sel.q", "c.sel.rest")
    site.declare("c.sel", "direct", alternate_queue="c.sel.rest")
    site.bind("c.sel", "k", "c.sel.q", x_filter_jms_selector="colour = 'red'")
    site.publish("c.sel", ("k",))

    return site.reached("c.sel.q", "c.sel.rest")


def alternates_in_a_circle(site: Peer) -> Seen:
    """Two exchanges are each other's chain and alternate, and nothing is bound."""
    site.declare("c.a", "direct")
    site.declare("c.b", "direct", alternate="c.a")
    site.bind("c.a", "k", "c.b", chain=True)

    return {"outcome": site.outcome(site.exchange("c.a", "k"))}


def alternate_that_does_not_exist(site: Peer) -> Seen:
    """An exchange is declared with an alternate that does not exist."""
    return {"declared": site.attempt(lambda: site.declare("c.noalt", "direct", alternate="c.nowhere"))}


def alternate_is_itself(site: Peer) -> Seen:
    """An exchange that exists gets itself as its alternate."""
    site.declare("c.own", "fanout")

    return {"changed": site.attempt(lambda: site.set_alternate("c.own", "c.own"))}


def alternate_changed(site: Peer) -> Seen:
    """An exchange gets an alternate, another one, and then none."""
    for name in ("c.ch1", "c.ch2"):
        site.declare(name, "fanout")
        site.queues(name + ".q")
        site.bind(name, "", name + ".q")
    site.declare("c.changed", "direct")
    for alternate in ("c.ch1", "c.ch2", None):
        site.set_alternate("c.changed", alternate)
        site.outcome(site.exchange("c.changed", "k"), str(alternate))
    free = [site.attempt(lambda name=name: site.delete(name)) for name in ("c.ch1", "c.ch2")]  # type: ignore[misc]

    return {**site.reached("c.ch1.q", "c.ch2.q"), "alternates deleted": free}


def alternate_is_less_durable(site: Peer) -> Seen:
    """A durable exchange is declared with an alternate that is not durable."""
    site.declare("c.frail", "fanout")

    return {"declared": site.attempt(lambda: site.declare("c.solid", "fanout", durable=True, alternate="c.frail"))}


def alternate_queue_deleted(site: Peer) -> Seen:
    """A queue that is the alternate of an exchange is deleted."""
    site.queues("c.qneeded")
    site.declare("c.qneeds", "direct", alternate_queue="c.qneeded")

    return {"deleted": site.attempt(lambda: site.delete_queue("c.qneeded"))}


def alternate_deleted(site: Peer) -> Seen:
    """An exchange that is the alternate of another is deleted."""
    site.declare("c.needed", "fanout")
    site.declare("c.needs", "direct", alternate="c.needed")

    return {
        "deleted": site.attempt(lambda: site.delete("c.needed")),
        "outcome": site.outcome(site.exchange("c.needs", "k")),
    }
