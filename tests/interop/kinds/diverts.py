"""Diverts: what is sent to one address goes to others, too, or instead."""

from collections.abc import Iterable
from typing import Any, Final

from proton import Timeout, byte

from tests.interop.kinds.scenario import Parts, Restarting, Seen, address, divert, queue, setting
from tests.interop.kinds.site import Site, text
from tests.interop.proton.client import Refused

TYPES: Final = ("STRIP", "PASS", "ANYCAST", "MULTICAST")
EXCLUSIVE: Final = "<exclusive>true</exclusive>"
_NO_ANSWER_S: Final = 10.0
"""Until a broker that follows a circle of diverts is given up."""
ADD_PROPERTIES: Final = "add-properties"
"""Transformer that adds properties, by the name that this broker has for it."""


def _high(level: int) -> str:
    return f'<filter string="level &gt; {level}"/>'


def _transformed(**properties: str) -> str:
    content = "".join(f'<property key="{key}" value="{value}"/>' for key, value in properties.items())
    return f"<transformer><class-name>{ADD_PROPERTIES}</class-name>{content}</transformer>"


PARTS = Parts(
    addresses="".join(
        (
            *(
                queue(f"divert.{name}")
                for name in (
                    *("copy", "copy.to", "move", "move.to", "filter", "filter.high", "filter.all"),
                    *("list", "list.one", "list.two", "chain", "chain.two", "chain.three"),
                    *("turns", "turns.one", "turns.two", "headers", "headers.to", "origin", "origin.to"),
                    *("two", "two.one", "two.two", "both", "both.to", "both.copy", "expiry", "expiry.to"),
                    *("runtime", "runtime.to", "runtime.restart", "runtime.restart.to", "dead", "expired"),
                    *("priority", "priority.to", "wild.a", "of-all", "full", "full.to", "auto", "large", "large.to"),
                    *("grouped", "grouped.to", "loop", "loop.two"),
                )
            ),
            queue("divert.ring"),
            queue("divert.ring.to", 'ring-size="2"'),
            *(address(f"divert.types.{kind}", (), ()) for kind in TYPES),
            *(address(f"divert.types.{kind}.to", [f"{kind}.anycast"], [f"{kind}.multicast"]) for kind in TYPES),
            address("divert.only", None, ()),
            queue("divert.only.to"),
            queue("divert.nowhere"),
            address("divert.nowhere.to", (), None),
            queue("divert.lost"),
            address("divert.lost.to", (), None),
        )
    ),
    settings=setting("divert.#", dead_letter_address="divert.dead", expiry_address="divert.expired")
    + setting("divert.only", send_to_dla_on_no_route="true")
    + setting("divert.lost.to", send_to_dla_on_no_route="true")
    + setting("divert.full.to", max_size_messages=2, address_full_policy="FAIL"),
    diverts="".join(
        (
            divert("d-copy", "divert.copy", "divert.copy.to"),
            divert("d-move", "divert.move", "divert.move.to", EXCLUSIVE),
            divert("d-filter-high", "divert.filter", "divert.filter.high", _high(5) + EXCLUSIVE),
            divert("d-filter-all", "divert.filter", "divert.filter.all", _high(2)),
            divert("d-list", "divert.list", "divert.list.one,divert.list.two"),
            divert("d-chain-1", "divert.chain", "divert.chain.two", EXCLUSIVE),
            divert("d-chain-2", "divert.chain.two", "divert.chain.three"),
            *(
                divert(f"d-turns-{n}", "divert.turns", f"divert.turns.{n}", "<routing-name>turns</routing-name>")
                for n in ("one", "two")
            ),
            divert("d-headers", "divert.headers", "divert.headers.to", _transformed(origin="europe", mode="fast")),
            divert("d-origin", "divert.origin", "divert.origin.to"),
            divert("d-two-1", "divert.two", "divert.two.one", EXCLUSIVE),
            divert("d-two-2", "divert.two", "divert.two.two", EXCLUSIVE),
            divert("d-both-1", "divert.both", "divert.both.to", EXCLUSIVE),
            divert("d-both-2", "divert.both", "divert.both.copy"),
            divert("d-expiry", "divert.expiry", "divert.expiry.to"),
            divert("d-priority", "divert.priority", "divert.priority.to"),
            divert("d-grouped", "divert.grouped", "divert.grouped.to"),
            divert("d-ring", "divert.ring", "divert.ring.to"),
            divert("d-wild", "divert.wild.*", "divert.of-all"),
            divert("d-full", "divert.full", "divert.full.to"),
            divert("d-auto", "divert.auto", "divert.auto.to"),
            divert("d-large", "divert.large", "divert.large.to"),
            *(
                divert(
                    f"d-{kind}",
                    f"divert.types.{kind}",
                    f"divert.types.{kind}.to",
                    f"<routing-type>{kind}</routing-type>",
                )
                for kind in TYPES
            ),
            divert("d-loop-1", "divert.loop", "divert.loop.two"),
            divert("d-loop-2", "divert.loop.two", "divert.loop"),
            divert("d-only", "divert.only", "divert.only.to"),
            divert("d-nowhere", "divert.nowhere", "divert.nowhere.to", EXCLUSIVE),
            divert("d-lost", "divert.lost", "divert.lost.to", EXCLUSIVE),
        )
    ),
)


def _in(site: Site, names: Iterable[str]) -> dict[str, list[Any]]:
    """What waits in queues, by their names without the common beginning."""
    return {name: site.waiting(f"divert.{name}") for name in names}


def copy(site: Site) -> Seen:
    """An ordinary divert."""
    site.send("divert.copy", *"ab")

    return _in(site, ("copy", "copy.to"))


def exclusive(site: Site) -> Seen:
    """An exclusive divert."""
    site.send("divert.move", *"ab")

    return _in(site, ("move", "move.to"))


def filters(site: Site) -> Seen:
    """An exclusive divert for levels above 5 and an ordinary one for levels above 2."""
    levels = (1, 4, 9)
    site.send("divert.filter", *(text(f"m{level}", properties={"level": level}) for level in levels))

    return {"sent": [f"m{level}" for level in levels]} | _in(site, ("filter", "filter.high", "filter.all"))


def exclusive_beside_an_ordinary_one(site: Site) -> Seen:
    """An address has an exclusive divert and an ordinary one, both without a filter."""
    site.send("divert.both", "a")

    return _in(site, ("both", "both.to", "both.copy"))


def two_exclusive(site: Site) -> Seen:
    """An address has two exclusive diverts."""
    site.send("divert.two", "a")

    return _in(site, ("two", "two.one", "two.two"))


def list_of_addresses(site: Site) -> Seen:
    """A divert forwards to two addresses."""
    site.send("divert.list", "a")

    return _in(site, ("list", "list.one", "list.two"))


def routing_types(site: Site) -> Seen:
    """Diverts of each `routing-type` forward to an address with queues of both types.

    Messages have a type because their link asks for it or because an annotation says so, or have none.
    """
    seen: Seen = {}
    for kind in TYPES:
        for body, capabilities in (("queue", ["queue"]), ("topic", ["topic"]), ("none", [])):
            site.send(f"divert.types.{kind}", body, capabilities=capabilities)
        for body, number in (("anycast", 1), ("multicast", 0)):
            site.send(f"divert.types.{kind}", text(body, annotations={"x-opt-routing-type": byte(number)}))
        seen[f"{kind}, anycast queue"] = site.waiting(f"divert.types.{kind}.to::{kind}.anycast")
        seen[f"{kind}, multicast queue"] = site.waiting(f"divert.types.{kind}.to::{kind}.multicast")
    return seen


def chain(site: Site) -> Seen:
    """The target of an exclusive divert has an ordinary divert of its own."""
    site.send("divert.chain", "a")

    return _in(site, ("chain", "chain.two", "chain.three"))


def shared_routing_name(site: Site) -> Seen:
    """Two diverts of an address have the same `routing-name`."""
    site.send("divert.turns", *"abcd")

    return _in(site, ("turns", "turns.one", "turns.two"))


def transformer(site: Site) -> Seen:
    """A divert adds two properties; one of them is there already."""
    site.send("divert.headers", text("a", properties={"mode": "slow", "kept": 1}))
    (original,) = site.client.receiver("divert.headers").drain()
    (copied,) = site.client.receiver("divert.headers.to").drain()

    return {"original": _own(original.message.properties), "copy": _own(copied.message.properties)}


def _own(properties: Any) -> dict[str, Any]:
    return {str(name): value for name, value in sorted((properties or {}).items()) if not name.startswith("_AMQ")}


def origin(site: Site) -> Seen:
    """Where a copy came from, and what of the original stays."""
    message = text("a", id="m-1", correlation_id="c-1", subject="s", priority=7, properties={"p": 1})
    site.send("divert.origin", message)
    (copied,) = site.client.receiver("divert.origin.to").drain()
    copy = copied.message
    names = ("x-opt-ORIG-ADDRESS", "x-opt-ORIG-QUEUE")

    return {
        "annotations": {name: copied.annotations.get(name) for name in names},
        "properties": _own(copy.properties),
        "the rest": [copy.id, copy.correlation_id, copy.subject, copy.priority, copy.durable],
    }


def priorities(site: Site) -> Seen:
    """Messages of different priorities are diverted."""
    site.send("divert.priority", text("a4"), text("b9", priority=9), text("c0", priority=0))

    return _in(site, ("priority.to",))


def groups(site: Site) -> Seen:
    """A message of a group is diverted."""
    site.send("divert.grouped", text("a", group_id="g", group_sequence=3))
    (copied,) = site.client.receiver("divert.grouped.to").drain()

    return {"group": [copied.message.group_id, copied.message.group_sequence]}


def expiry(site: Site) -> Seen:
    """A message that expires is diverted."""
    site.send("divert.expiry", text("a", ttl=0.2))
    site.wait_until(lambda: len(site.waiting("divert.expired")) == 2, "two expired messages")

    return _in(site, ("expiry", "expiry.to", "expired"))


def into_a_ring(site: Site) -> Seen:
    """The queue of the target is a ring of 2."""
    site.send("divert.ring", *"abc")

    return _in(site, ("ring", "ring.to"))


def wildcard_source(site: Site) -> Seen:
    """The address of a divert is a wildcard address."""
    site.send("divert.wild.a", "a")

    return _in(site, ("wild.a", "of-all"))


def target_that_does_not_exist(site: Site) -> Seen:
    """The address that a divert forwards to has to be created."""
    site.send("divert.auto", "a")

    return {
        "original": site.waiting("divert.auto"),
        "address exists": "divert.auto.to" in site.attribute("broker", "AddressNames"),
        "queue exists": "divert.auto.to" in site.manage("broker", "getQueueNames"),
    }


def target_that_is_full(site: Site) -> Seen:
    """The address that a divert forwards to holds 2 messages and fails producers."""
    outcomes = []
    for body in "abcde":
        try:
            site.send("divert.full", body)
            outcomes.append("accepted")
        except Refused as refused:
            outcomes.append(str(refused.condition))

    return {"outcomes": outcomes, **_in(site, ("full", "full.to"))}


def large_message(site: Site) -> Seen:
    """A message of 300,000 characters is diverted."""
    site.send("divert.large", "x" * 300_000)

    return {name: [len(body) for body in bodies] for name, bodies in _in(site, ("large", "large.to")).items()}


def diverted_only(site: Site) -> Seen:
    """An address without queues has an ordinary divert, and `send-to-dla-on-no-route`."""
    site.send("divert.only", "only")

    return {
        "copy": site.waiting("divert.only.to"),
        "unrouted": site.attribute("address.divert.only", "UnRoutedMessageCount"),
        "routed": site.attribute("address.divert.only", "RoutedMessageCount"),
        "dead letter": "only" in site.waiting("divert.dead"),
    }


def exclusive_to_nowhere(site: Site) -> Seen:
    """The target of an exclusive divert has no queues."""
    site.send("divert.nowhere", "nowhere")

    return {
        "original": site.waiting("divert.nowhere"),
        "unrouted at the address": site.attribute("address.divert.nowhere", "UnRoutedMessageCount"),
        "unrouted at the target": site.attribute("address.divert.nowhere.to", "UnRoutedMessageCount"),
        "dead letter": "nowhere" in site.waiting("divert.dead"),
    }


def exclusive_to_nowhere_with_dead_letters(site: Site) -> Seen:
    """The target of an exclusive divert has no queues, and `send-to-dla-on-no-route`."""
    site.send("divert.lost", "lost")

    return {"original": site.waiting("divert.lost"), "dead letter": "lost" in site.waiting("divert.dead")}


def created_and_destroyed(site: Site) -> Seen:
    """A divert is created by management, and destroyed."""
    site.send("divert.runtime", "a")
    given = ("d-runtime", "d-runtime", "divert.runtime", "divert.runtime.to", True, "level > 5", None)
    site.manage("broker", "createDivert", *given)
    site.send("divert.runtime", "b", text("c", properties={"level": 9}))
    names = site.attribute("broker", "DivertNames")
    site.manage("broker", "destroyDivert", "d-runtime")
    site.send("divert.runtime", text("d", properties={"level": 9}))

    return {**_in(site, ("runtime", "runtime.to")), "named": "d-runtime" in names}


def circle(site: Site) -> Seen:
    """Two addresses have diverts to each other."""
    with site.connect() as client:
        sender = client.sender("divert.loop")
        delivery = sender.start(text("a"))
        try:
            client.connection.wait(lambda: bool(delivery.remote_state), timeout=_NO_ANSWER_S)
        except Timeout:
            client.abort()
            return {"producer": "gets no answer"}

    return {"producer": "is answered", **_in(site, ("loop", "loop.two"))}


def restart(site: Site) -> Restarting:
    """A divert is created by management, and the broker restarts."""
    given = ("d-restart", "d-restart", "divert.runtime.restart", "divert.runtime.restart.to", False, None, None)
    site.manage("broker", "createDivert", *given)
    yield
    site.send("divert.runtime.restart", "a")
    return _in(site, ("runtime.restart", "runtime.restart.to"))
