"""Receivers that subscribe to an exchange."""

from proton import Described, symbol

from tests.interop.exchanges.site import Peer, refusal_of
from tests.interop.kinds.scenario import Seen
from tests.interop.kinds.site import text
from tests.interop.proton.client import NO_LOCAL_CODE, Receiver, Refused

DIRECT, TOPIC = "apache.org:legacy-amqp-direct-binding:string", "apache.org:legacy-amqp-topic-binding:string"
HEADERS = "apache.org:legacy-amqp-headers-binding:map"


def _filter(name: str, value: object) -> dict[str, Described]:
    return {"key": Described(symbol(name), value)}


def _heard(receiver: Receiver) -> list[object]:
    """All that a receiver gets, after which its link is closed."""
    bodies = receiver.bodies()
    receiver.close()
    return bodies


def key_in_the_address(site: Peer) -> Seen:
    """A receiver's address has an exchange of each type with a key."""
    seen: Seen = {}
    for kind, key in (("direct", "a.b"), ("topic", "a.*"), ("fanout", "a.b")):
        name = f"s.{kind}"
        site.declare(name, kind)
        receiver = site.client.receiver(site.subscription(name, key))
        site.publish(name, ("a.b", "a.c", "x"))
        seen[kind] = _heard(receiver)
    return seen


def no_key(site: Peer) -> Seen:
    """A receiver's address has only the exchange."""
    seen: Seen = {}
    for kind in ("direct", "topic", "fanout", "headers"):
        name = f"s.bare.{kind}"
        site.declare(name, kind)
        try:
            receiver = site.client.receiver(site.subscription(name))
        except Refused as refused:
            seen[kind] = refusal_of(refused)
            continue
        site.publish(name, ("a.b", "x"))
        seen[kind] = _heard(receiver)
    return seen


def key_in_a_filter(site: Peer) -> Seen:
    """A filter has the key; then both the address and a filter have one."""
    seen: Seen = {}
    for kind, name in (("direct", DIRECT), ("topic", TOPIC)):
        exchange = f"s.filter.{kind}"
        site.declare(exchange, kind)
        only = site.client.receiver(site.subscription(exchange), filters=_filter(name, "a.b"))
        both = site.client.receiver(site.subscription(exchange, "x"), filters=_filter(name, "a.b"))
        seen[f"{kind}, filters in force"] = only.filters
        site.publish(exchange, ("a.b", "a.c", "x"))
        seen[f"{kind}, filter"] = _heard(only)
        seen[f"{kind}, address and filter"] = _heard(both)
    return seen


def filter_of_headers(site: Peer) -> Seen:
    """A receiver of a headers exchange has a filter with a map."""
    site.declare("s.map", "headers")
    wanted = {"x-match": "all", "colour": "red"}
    try:
        receiver = site.client.receiver(site.subscription("s.map"), filters=_filter(HEADERS, wanted))
    except Refused as refused:
        return {"filters in force": refusal_of(refused), "got": None}
    sender = site.client.sender(site.exchange("s.map"))
    for colour in ("red", "blue"):
        sender.send(text(colour, properties={"colour": colour}))
    sender.close()

    return {"filters in force": receiver.filters, "got": _heard(receiver)}


def selector(site: Peer) -> Seen:
    """A receiver has a selector; another one has a wrong one."""
    site.declare("s.select", "topic")
    receiver = site.client.receiver(site.subscription("s.select", "#"), selector="colour = 'red'")
    sender = site.client.sender(site.exchange("s.select", "k"))
    for colour in ("red", "blue"):
        sender.send(text(colour, properties={"colour": colour}))
    sender.close()
    filters, got = receiver.filters, _heard(receiver)
    try:
        site.client.receiver(site.subscription("s.select", "#"), selector="colour = = 1").close()
        wrong = "done"
    except Refused as refused:
        wrong = refusal_of(refused)
    return {"filters in force": filters, "got": got, "wrong selector": wrong}


def no_local(site: Peer) -> Seen:
    """A receiver does not want the messages of its own connection."""
    site.declare("s.local", "topic")
    with site.connect() as client:
        filters = {"no-local": Described(NO_LOCAL_CODE, [])}
        receiver = client.receiver(site.subscription("s.local", "#"), filters=filters)
        for each, body in ((client, "own"), (site.client, "of another")):
            each.send(site.exchange("s.local", "k"), text(body))
        return {"filters in force": receiver.filters, "got": receiver.bodies()}


def two_receivers(site: Peer) -> Seen:
    """Two receivers have the same address; one of them is closed between two messages."""
    site.declare("s.two", "fanout")
    first = site.client.receiver(site.subscription("s.two", ""))
    second = site.client.receiver(site.subscription("s.two", ""))
    site.publish("s.two", ("m",))
    got = _heard(first)
    site.publish("s.two", ("n",))

    return {"first": got, "second": _heard(second), "bindings afterwards": len(site.bindings("s.two"))}


def durable(site: Peer) -> Seen:
    """A receiver asks for a durable subscription, goes, and comes back."""
    site.declare("s.durable", "topic", durable=True)
    client = site.connect("s-container")
    address = site.subscription("s.durable", "a.#")
    try:
        client.receiver(address, ["topic"], name="s-durable", durable=True).detach()
    except Refused as refused:
        client.close()
        return {"attach": refusal_of(refused), "got": None}
    client.close()
    site.publish("s.durable", ("a.b", "x"))
    with site.connect("s-container") as again:
        receiver = again.receiver(address, ["topic"], name="s-durable", durable=True)
        return {"attach": "done", "got": _heard(receiver)}


def missing_exchange(site: Peer) -> Seen:
    """A receiver's address has an exchange that does not exist."""
    try:
        site.client.receiver(site.subscription("s.nothing", "k")).close()
    except Refused as refused:
        return {"attach": refusal_of(refused)}
    return {"attach": "done"}


def queue_of_the_name(site: Peer) -> Seen:
    """A queue and an exchange have the name of a receiver's address."""
    name = site.named("s.both")
    site.declare("s.both", "fanout")
    site.queues("s.both")
    site.outcome(site.queue("s.both"), "before")
    receiver = site.client.receiver(name)
    site.outcome(name, "sent to the name")

    return {"got": _heard(receiver)}
