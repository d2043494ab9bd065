"""Bindings: what makes two of them the same, copies, removal, selectors."""

from functools import partial

from proton import int32

from tests.interop.exchanges.site import Peer
from tests.interop.kinds.scenario import Seen
from tests.interop.kinds.site import text

SELECTOR = "colour = 'red'"


def _coloured(site: Peer, exchange: str, key: str = "k") -> None:
    """Send a red and a blue message."""
    sender = site.client.sender(site.exchange(exchange, key))
    for colour in ("red", "blue"):
        sender.send(text(colour, properties={"colour": colour}))
    sender.close()


def one_copy(site: Peer) -> Seen:
    """A queue is bound by several keys that match a message, and by two exchanges that both get it."""
    site.declare("b.topic", "topic")
    site.declare("b.behind", "fanout")
    site.queues("b.one")
    for key in ("a.b", "a.*", "#"):
        site.bind("b.topic", key, "b.one")
    site.bind("b.topic", "#", "b.behind", chain=True)
    site.bind("b.behind", "", "b.one")
    site.publish("b.topic", ("a.b", "a.c", "x"))

    return {"got": site.got("b.one")}


def bound_twice(site: Peer) -> Seen:
    """A queue is bound a second time with the same key."""
    site.declare("b.twice", "direct")
    site.queues("b.twice")
    first = site.attempt(lambda: site.bind("b.twice", "k", "b.twice"))
    second = site.attempt(lambda: site.bind("b.twice", "k", "b.twice"))
    site.publish("b.twice", ("k",))

    return {"outcomes": [first, second], "bindings": site.bindings("b.twice"), "got": site.got("b.twice")}


def bound_twice_with_other_arguments(site: Peer) -> Seen:
    """A queue is bound to a headers exchange a second time with the same key and other arguments."""
    site.declare("b.args", "headers")
    site.queues("b.args")
    site.bind_headers("b.args", "b.args", {"x-match": "all", "colour": "red"}, key="k")
    site.bind_headers("b.args", "b.args", {"x-match": "all", "colour": "blue"}, key="k")
    _coloured(site, "b.args")

    return {"bindings": site.bindings("b.args"), "got": site.got("b.args")}


def replaced_selector(site: Peer) -> Seen:
    """The arguments of a binding are replaced by others."""
    site.declare("b.replace", "direct")
    site.queues("b.replace")
    site.bind("b.replace", "k", "b.replace", x_filter_jms_selector=SELECTOR)
    site.bind("b.replace", "k", "b.replace", replace=True, x_filter_jms_selector="colour = 'blue'")
    _coloured(site, "b.replace")

    return {"got": site.got("b.replace")}


def replaced_headers(site: Peer) -> Seen:
    """What a binding of a headers exchange wants is replaced."""
    site.declare("b.rehead", "headers")
    site.queues("b.rehead")
    site.bind("b.rehead", "k", "b.rehead", x_match="all", colour="red")
    site.bind("b.rehead", "k", "b.rehead", replace=True, x_match="all", colour="blue")
    _coloured(site, "b.rehead")

    return {"got": site.got("b.rehead")}


def selectors(site: Peer) -> Seen:
    """Bindings of each type have a selector; one has a wrong one."""
    seen: Seen = {}
    for kind in ("direct", "topic", "fanout", "headers"):
        name = f"b.select.{kind}"
        site.declare(name, kind)
        site.queues(name)
        site.bind(name, "k", name, x_filter_jms_selector=SELECTOR)
        _coloured(site, name)
        seen[kind] = site.got(name)
    seen["wrong"] = site.attempt(
        lambda: site.bind("b.select.direct", "w", "b.select.direct", x_filter_jms_selector="colour = = 1")
    )
    return seen


def selectors_on_fields(site: Peer) -> Seen:
    """Selectors with the names that JMS has for fields of a message."""
    site.declare("b.fields", "fanout")
    selectors = (
        *("JMSType = 't'", "JMSPriority > 5", "JMSCorrelationID = 'c'", "JMSDeliveryMode = 'PERSISTENT'"),
        *("JMSReplyTo = 'r'", "JMSTimestamp IS NULL", "JMSExpiration = 0", "JMSRedelivered = FALSE", '"a-b" = 1'),
    )
    bound = {}
    for number, selector in enumerate(selectors):
        queue = f"b.fields.{number}"
        site.queues(queue)
        step = partial(site.bind, "b.fields", str(number), queue, x_filter_jms_selector=selector)
        bound[selector] = site.attempt(step)
    site.outcome(
        site.exchange("b.fields", "k"),
        subject="t",
        priority=9,
        correlation_id="c",
        reply_to="r",
        properties={"a-b": int32(1)},
    )
    return {
        f"`{selector}`": len(site.got(f"b.fields.{number}")) if bound[selector] == "done" else bound[selector]
        for number, selector in enumerate(selectors)
    }


def no_local(site: Peer) -> Seen:
    """A binding has the argument `x-qpid-no-local`."""
    site.declare("b.local", "direct")
    site.queues("b.local")

    return {"bound": site.attempt(lambda: site.bind("b.local", "k", "b.local", x_qpid_no_local=True))}


def selector_beside_none(site: Peer) -> Seen:
    """A queue is bound with a selector by one pattern, and without by another that matches as well."""
    site.declare("b.beside", "topic")
    site.queues("b.beside")
    site.bind("b.beside", "a.*", "b.beside", x_filter_jms_selector=SELECTOR)
    site.bind("b.beside", "a.b", "b.beside")
    for key in ("a.b", "a.c"):
        _coloured(site, "b.beside", key)

    return {"got": site.got("b.beside")}


def removed(site: Peer) -> Seen:
    """One of two bindings of a queue is removed, then one that does not exist."""
    site.declare("b.removed", "direct")
    site.queues("b.removed")
    for key in ("k", "l"):
        site.bind("b.removed", key, "b.removed")
    first = site.attempt(lambda: site.unbind("b.removed", "k", "b.removed"))
    second = site.attempt(lambda: site.unbind("b.removed", "k", "b.removed"))
    site.publish("b.removed", ("k", "l"))

    return {"outcomes": [first, second], "bindings": site.bindings("b.removed"), "got": site.got("b.removed")}


def queue_deleted(site: Peer) -> Seen:
    """A queue that is bound to two exchanges is deleted, and made again."""
    for name in ("b.gone.1", "b.gone.2"):
        site.declare(name, "fanout")
    site.queues("b.gone", "b.stays")
    for exchange, queue in (("b.gone.1", "b.gone"), ("b.gone.2", "b.gone"), ("b.gone.2", "b.stays")):
        site.bind(exchange, "", queue)
    site.delete_queue("b.gone")
    bound = [site.bindings("b.gone.1"), site.bindings("b.gone.2")]
    site.queues("b.gone")
    for name in ("b.gone.1", "b.gone.2"):
        site.publish(name, ("m",))

    return {"bindings": bound, **site.reached("b.gone", "b.stays")}


def queue_deleted_with_a_receiver(site: Peer) -> Seen:
    """A bound queue is deleted while a receiver is attached to it."""
    site.declare("b.used", "fanout")
    site.queues("b.used")
    site.bind("b.used", "", "b.used")
    with site.connect() as client:
        receiver = client.receiver(site.queue("b.used"))
        deleted = site.attempt(lambda: site.delete_queue("b.used"))
        refused = receiver.wait_closed()

    return {"deleted": deleted, "receiver": f"detached ({refused.condition})", "bindings": site.bindings("b.used")}


def destination_missing(site: Peer) -> Seen:
    """A queue, an exchange, and the exchange to bind to, do not exist."""
    site.declare("b.there", "fanout")
    site.queues("b.there")

    return {
        "no queue": site.attempt(lambda: site.bind("b.there", "", "b.nothing")),
        "no exchange behind": site.attempt(lambda: site.bind("b.there", "", "b.nothing", chain=True)),
        "no exchange": site.attempt(lambda: site.bind("b.nothing", "", "b.there")),
        "bindings": site.bindings("b.there"),
    }
