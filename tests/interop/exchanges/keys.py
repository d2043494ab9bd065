"""Where the routing key of a message comes from, and which names mean which exchange or queue."""

from functools import partial

from tests.interop.exchanges.site import Peer
from tests.interop.kinds.scenario import Seen


def _listening(site: Peer, exchange: str, *keys: str) -> None:
    """Declare a direct exchange with a queue for each key, `<exchange>.<key>`."""
    site.declare(exchange, "direct")
    for key in keys:
        site.queues(f"{exchange}.{key}")
        site.bind(exchange, key, f"{exchange}.{key}")


def _which(site: Peer, exchange: str, *keys: str) -> list[str]:
    """Take the messages of the queues for these keys; the keys that had any."""
    return [key for key in keys if site.got(f"{exchange}.{key}")]


def precedence(site: Peer) -> Seen:
    """Messages have all that could be a routing key, and then less and less of it."""
    keys = ("address", "property", "under", "subject", "to")
    _listening(site, "k.order", *keys)
    properties = {"routing-key": "property"}
    underscore = {"routing_key": "under"}
    seen: Seen = {}
    plain, keyed = site.exchange("k.order"), site.exchange("k.order", "address")
    for name, address, fields in (
        (
            "key in the address and everything else",
            keyed,
            {"properties": properties, "subject": "subject", "address": "to"},
        ),
        (
            "properties, subject, to",
            plain,
            {"properties": {**properties, **underscore}, "subject": "subject", "address": "to"},
        ),
        (
            "property `routing_key`, subject, to",
            plain,
            {"properties": underscore, "subject": "subject", "address": "to"},
        ),
        ("property that is a number, subject", plain, {"properties": {"routing-key": 5}, "subject": "subject"}),
        ("subject, to", plain, {"subject": "subject", "address": "to"}),
        ("to", plain, {"address": "to"}),
        ("nothing", plain, {}),
    ):
        site.outcome(address, **fields)
        seen[name] = _which(site, "k.order", *keys)
    return seen


def empty_key_in_the_address(site: Peer) -> Seen:
    """The address has an empty key, and the message a subject."""
    _listening(site, "k.none", "subject", "")
    outcome = site.outcome(site.exchange("k.none", ""), subject="subject")

    return {"outcome": outcome, "key": _which(site, "k.none", "subject", "")}


def exchange_in_the_key(site: Peer) -> Seen:
    """The `to` of a message on the link of an exchange is the exchange with a key, and its subject is."""
    _listening(site, "k.full", "a", "b")
    site.outcome(site.exchange("k.full"), address="k.full/a")
    to = _which(site, "k.full", "a", "b")
    site.outcome(site.exchange("k.full"), subject="k.full/b")

    return {"to": to, "subject": _which(site, "k.full", "a", "b")}


def relay(site: Peer) -> Seen:
    """Messages on an anonymous link say where they go: an exchange, one with a key, a queue, nothing that exists."""
    _listening(site, "k.relay", "a", "b")
    site.queues("k.plain")
    outcomes = {
        "exchange and key": site.outcome(None, address=site.exchange("k.relay", "a"), subject="b"),
        "exchange": site.outcome(None, address=site.exchange("k.relay"), subject="b"),
        "queue": site.outcome(None, address=site.queue("k.plain")),
        "key without a queue": site.outcome(None, address=site.exchange("k.relay", "none")),
        "exchange that does not exist": site.outcome(None, address=site.exchange("k.nowhere", "a")),
    }
    return {**outcomes, "keys that came": _which(site, "k.relay", "a", "b"), "queue has": site.got("k.plain")}


def slashes(site: Peer) -> Seen:
    """A routing key has slashes, dots, blanks and letters beyond ASCII."""
    site.declare("k.slash", "direct")
    seen: Seen = {}
    for number, key in enumerate(("a/b", "a//b", "/a", "a b", "ä", "a%2Fb", "a::b")):
        queue = f"k.slash.{number}"
        site.queues(queue)
        site.bind("k.slash", key, queue)
        outcome = site.outcome(site.exchange("k.slash", key))
        seen[f"`{key}`"] = [outcome, len(site.got(queue))]
    return seen


def long_keys(site: Peer) -> Seen:
    """A binding and a message have a routing key of 255, and of 300 characters."""
    site.declare("k.long", "direct")
    seen: Seen = {}
    for length in (255, 300):
        queue = f"k.long.{length}"
        site.queues(queue)
        seen[f"{length}, bound"] = site.attempt(partial(site.bind, "k.long", "x" * length, queue))
        site.outcome(site.exchange("k.long"), subject="x" * length)
        seen[f"{length}, got"] = site.got(queue)
    return seen


def queue_and_exchange_of_one_name(site: Peer) -> Seen:
    """A queue has the name of an exchange that leads to another queue."""
    site.declare("k.same", "fanout")
    site.queues("k.same", "k.other")
    site.bind("k.same", "", "k.other")
    through = site.outcome(site.named("k.same"), "by name")
    site.outcome(site.by_default("k.same"), "through the default exchange")

    return {"sent to the name": through, **site.reached("k.same", "k.other")}


def exchange_bound_to_the_queue_of_its_name(site: Peer) -> Seen:
    """A fanout exchange is bound to the queue that has its name."""
    site.declare("k.own", "fanout")
    site.queues("k.own")
    site.bind("k.own", "", "k.own")
    site.publish("k.own", ("m",))

    return {"bindings": site.bindings("k.own"), "queue has": site.client.bodies(site.queue("k.own"))}


def default_exchange(site: Peer) -> Seen:
    """The default exchange gets messages for a queue, for none, and with the name of an exchange as the key."""
    site.queues("k.default")
    site.declare("k.fan", "fanout")
    site.queues("k.behind")
    site.bind("k.fan", "", "k.behind")

    return {
        "a queue": site.outcome(site.by_default("k.default")),
        "no queue": site.outcome(site.by_default("k.missing")),
        "name of an exchange": site.outcome(site.by_default("k.fan")),
        "queue has": site.got("k.default"),
        "queue behind the exchange has": site.got("k.behind"),
    }
