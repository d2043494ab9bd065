"""Retroactive addresses: queues that are created later begin with the last messages of the address."""

import json
from queue import Empty
from typing import Any, Final

from proton import byte

from tests.interop.kinds.scenario import Parts, Restarting, Seen, address, setting
from tests.interop.kinds.site import Site, text
from tests.interop.mqtt.paho_client import Paho
from tests.interop.proton.client import Refused

PREFIX: Final = "$.artemis.internal."
BOTH: Final = ("types", "untyped", "anycast", "resources", "deleted")
TOPICS: Final = (
    *("history", "late", "selector", "durable", "priority", "expiry", "mqtt", "retained", "management", "settings"),
    *("restart", "raised", "published", "lowered", "new", "removed", "wild.a", "ring"),
)
_KEPT: Final = 3
_NOTHING_S: Final = 30.0
"""Until a broker that loses messages is given up; one that does not has sent them long before."""


def _settings(**counts: int) -> str:
    """Every address keeps three messages, apart from those named."""
    different = "".join(setting(f"retro.{name}", retroactive_message_count=n) for name, n in counts.items())
    return (
        setting(
            "retro.#",
            retroactive_message_count=_KEPT,
            expiry_address="retroexpired",
            # Artemis makes the queues of MQTT subscriptions of this type, whatever the address has.
            default_queue_routing_type="MULTICAST",
        )
        + different
        # A wildcard address is no place to keep anything for.
        + setting("retro.wild.*", retroactive_message_count=0)
    )


PARTS = Parts(
    addresses="".join(
        (
            *(address(f"retro.{name}", None, ()) for name in TOPICS),
            *(address(f"retro.{name}", (), ()) for name in BOTH),
            address("retroexpired", ("retroexpired",)),
        )
    ),
    settings=_settings(raised=2, lowered=5, new=0, settings=2),
    settings_after_restart=_settings(raised=4, lowered=2, removed=0, settings=2),
)


def _numbered(site: Site, name: str, numbers: range, kind: str = "topic") -> None:
    site.send(f"retro.{name}", *map(str, numbers), capabilities=[kind])


def history(site: Site) -> Seen:
    """Five messages are sent; a subscriber comes, and one more is sent."""
    _numbered(site, "history", range(1, 6))
    with site.connect() as client:
        subscriber = client.receiver("retro.history", ["topic"])
        begin = subscriber.bodies()
        _numbered(site, "history", range(6, 7))

        return {"sent before": [*"12345"], "at the beginning": begin, "then": subscriber.bodies()}


def every_late_subscriber(site: Site) -> Seen:
    """Subscribers come after two, four and four messages."""
    with site.connect() as client:
        seen = []
        subscribers = []
        for numbers in (range(1, 3), range(3, 5), range(0)):
            _numbered(site, "late", numbers)
            subscribers.append(client.receiver("retro.late", ["topic"]))
            seen.append(subscribers[-1].bodies())

        return {"at the beginning": seen, "then": [each.bodies() for each in subscribers]}


def filter(site: Site) -> Seen:
    """A subscriber with a selector comes after five messages."""
    levels = (9, 1, 9, 1, 9)
    messages = [text(f"m{number}", properties={"level": level}) for number, level in enumerate(levels, 1)]
    site.send("retro.selector", *messages, capabilities=["topic"])
    with site.connect() as client:
        return {"at the beginning": client.receiver("retro.selector", ["topic"], selector="level > 4").bodies()}


def priorities(site: Site) -> Seen:
    """The last three of four messages have different priorities."""
    sent = (("a4", 4), ("b0", 0), ("c9", 9), ("d4", 4))
    site.send("retro.priority", *(text(body, priority=p) for body, p in sent), capabilities=["topic"])
    with site.connect() as client:
        return {"at the beginning": client.bodies("retro.priority", ["topic"])}


def expired(site: Site) -> Seen:
    """One of three messages has expired when a subscriber comes."""
    site.send("retro.expiry", "a", text("b", ttl=0.2), "c", capabilities=["topic"])
    kept = [f"{PREFIX}retro.expiry.queue.{kind}.retro" for kind in ("anycast", "multicast")]
    site.wait_until(lambda: max(site.count(queue) for queue in kept) == 2, "the expiry of what is kept")
    with site.connect() as client:
        begin = client.bodies("retro.expiry", ["topic"])

    return {
        "at the beginning": begin,
        "expiry address": site.waiting("retroexpired"),
        "expiry address of all others": [body for body in site.waiting("ExpiryQueue") if body == "b"],
    }


def anycast(site: Site) -> Seen:
    """Five messages are sent to an address without a queue; then an anycast queue is created."""
    _numbered(site, "anycast", range(1, 6), "queue")
    _create(site, "retro.anycast", "retro.anycast.late", "ANYCAST")

    return {"waiting": _begin(site, "retro.anycast", "retro.anycast.late")}


def routing_types(site: Site) -> Seen:
    """Messages of each routing type and of none are sent; then a queue of each type is created."""
    site.send("retro.types", "none")
    for body, number in (("anycast", 1), ("multicast", 0)):
        site.send("retro.types", text(body, annotations={"x-opt-routing-type": byte(number)}))
    for kind in ("ANYCAST", "MULTICAST"):
        _create(site, "retro.types", f"retro.types.{kind}", kind)

    return {kind: _begin(site, "retro.types", f"retro.types.{kind}") for kind in ("ANYCAST", "MULTICAST")}


def _create(site: Site, address: str, name: str, kind: str, **attributes: object) -> None:
    wanted = {"name": name, "address": address, "routing-type": kind, **attributes}
    site.manage("broker", "createQueue", json.dumps(wanted))


def _begin(site: Site, address: str, name: str) -> list[Any]:
    """What waits in a new durable queue, whose history comes when it is on disk."""
    site.wait_until(lambda: site.count(name) > 0, "the history")
    return site.waiting(f"{address}::{name}")


def queue_by_management(site: Site) -> Seen:
    """A queue with a filter is created by management, and one that is a ring of 2."""
    site.send(
        "retro.management",
        *(text(f"m{level}", properties={"level": level}) for level in (1, 9, 8)),
        capabilities=["topic"],
    )
    _create(site, "retro.management", "retro.high", "MULTICAST", **{"filter-string": "level > 4"})
    _create(site, "retro.management", "retro.ringed", "MULTICAST", **{"ring-size": 2})

    return {
        "filter": _begin(site, "retro.management", "retro.high"),
        "ring of 2": _begin(site, "retro.management", "retro.ringed"),
    }


def returning_durable_subscriber(site: Site) -> Seen:
    """A durable subscriber takes the history, leaves, one more message is sent, and the subscriber returns."""
    _numbered(site, "durable", range(1, 4))
    seen = []
    for numbers in (range(4, 5), range(0)):
        with site.connect("retro-durable") as client:
            subscriber = client.receiver("retro.durable", ["topic"], name="subscription", durable=True)
            first = subscriber.receive()  # the history of a durable queue comes when it is on disk
            first.accept()
            seen.append([first.body, *subscriber.bodies()])
            subscriber.detach()
        _numbered(site, "durable", numbers)

    return {"at first": seen[0], "after the return": seen[1]}


def mqtt_subscriber(site: Site) -> Seen:
    """An MQTT client subscribes after four messages, then one more is sent."""
    _numbered(site, "mqtt", range(1, 5))
    with site.paho("retro-mqtt") as client:
        client.subscribe("retro/mqtt", 1)
        _numbered(site, "mqtt", range(5, 6))

        return {"delivered, and whether as retained": _until(client, "5")}


def mqtt_publisher_and_subscriber(site: Site) -> Seen:
    """An MQTT client publishes four messages; another one subscribes, then one more is published."""
    with site.paho("retro-publisher") as publisher:
        for body in ("1", "2", "3", "4"):
            publisher.publish("retro/published", body, 1)
        with site.paho("retro-reader") as client:
            client.subscribe("retro/published", 1)
            publisher.publish("retro/published", "5", 1)

            return {"delivered, and whether as retained": _until(client, "5")}


def mqtt_with_a_retained_message(site: Site) -> Seen:
    """Of three messages of an MQTT client the second is retained; another one subscribes, then one more is sent."""
    with site.paho("retro-keeper") as publisher:
        for body in ("1", "2", "3"):
            publisher.publish("retro/retained", body, 1, retain=body == "2")
        with site.paho("retro-subscriber") as client:
            client.subscribe("retro/retained", 1)
            publisher.publish("retro/retained", "4", 1)

            return {"delivered, and whether as retained": _until(client, "4")}


def _until(client: Paho, last: str) -> list[Any]:
    """What an MQTT client gets up to a message, or until nothing comes: body and flag of retained messages."""
    seen: list[Any] = []
    while not seen or seen[-1][0] != last:
        try:
            message = client.inbox.get(timeout=_NOTHING_S)
        except Empty:
            break
        seen.append([message.payload.decode(), message.retain])
    return seen


def wildcard_subscriber(site: Site) -> Seen:
    """A subscriber to a wildcard address comes after two messages, then one more is sent."""
    _numbered(site, "wild.a", range(1, 3))
    with site.connect() as client:
        subscriber = client.receiver("retro.wild.*", ["topic"])
        begin = subscriber.bodies()
        _numbered(site, "wild.a", range(3, 4))

        return {"at the beginning": begin, "then": subscriber.bodies()}


def created_on_demand(site: Site) -> Seen:
    """An address is created because messages are sent to it; then a subscriber comes."""
    _numbered(site, "auto.x", range(1, 6))
    with site.connect() as client:
        return {"at the beginning": client.bodies("retro.auto.x", ["topic"])}


def resources(site: Site) -> Seen:
    """What management shows of a retroactive address."""
    _numbered(site, "resources", range(1, 6))
    queues = [name for name in site.manage("broker", "getQueueNames") if "retro.resources" in name]
    addresses = [name for name in site.attribute("broker", "AddressNames") if "retro.resources" in name]
    queue = f"queue.{PREFIX}retro.resources.queue.multicast.retro"
    names = ("RingSize", "MaxConsumers", "MessageCount", "RoutingType")

    return {
        "queues": sorted(queues),
        "addresses": sorted(addresses),
        "attributes": {name: site.attribute(queue, name) for name in names},
    }


def deleted_address(site: Site) -> Seen:
    """A retroactive address is deleted, by force if it must be, and created again by a subscriber."""
    _numbered(site, "deleted", range(1, 4))
    try:
        site.manage("broker", "deleteAddress", "retro.deleted")
        is_refused = False
    except Refused:
        site.manage("broker", "deleteAddress", "retro.deleted", True)
        is_refused = True
    left = [name for name in site.attribute("broker", "AddressNames") if "retro.deleted" in name]
    with site.connect() as client:
        begin = client.bodies("retro.deleted", ["topic"])

    return {"refused without force": is_refused, "left": left, "at the beginning": begin}


def settings_changed_by_management(site: Site) -> Seen:
    """`addAddressSettings` raises the count from 2 to 4; more messages are sent, and a subscriber comes."""
    _numbered(site, "settings", range(1, 6))
    try:
        site.manage("broker", "addAddressSettings", "retro.settings", json.dumps({"retroactiveMessageCount": 4}))
        is_changed = True
    except Refused:
        is_changed = False
    with site.connect() as client:
        before = client.bodies("retro.settings", ["topic"])
        _numbered(site, "settings", range(6, 9))

        return {
            "changed": is_changed,
            "at once": before,
            "after three more": client.bodies("retro.settings", ["topic"]),
        }


def restart(site: Site) -> Restarting:
    """The broker restarts after five messages; a subscriber comes, two more are sent, and another one comes."""
    return _over_a_restart(site, "restart")


def raised_at_a_restart(site: Site) -> Restarting:
    """Five messages, a restart, a subscriber, two messages, and another subscriber; the count becomes 4 after 2."""
    return _over_a_restart(site, "raised")


def lowered_at_a_restart(site: Site) -> Restarting:
    """Five messages, a restart, a subscriber, two messages, and another subscriber; the count becomes 2 after 5."""
    return _over_a_restart(site, "lowered")


def setting_for_an_address_that_exists(site: Site) -> Restarting:
    """Five messages, a restart, a subscriber, two messages, and another subscriber; the count becomes 3 after 0."""
    return _over_a_restart(site, "new")


def setting_that_is_taken_away(site: Site) -> Restarting:
    """Five messages, a restart, a subscriber, two messages, and another subscriber; the count becomes 0 after 3."""
    return _over_a_restart(site, "removed")


def _over_a_restart(site: Site, name: str) -> Restarting:
    _numbered(site, name, range(1, 6))
    yield
    with site.connect() as client:
        before = client.bodies(f"retro.{name}", ["topic"])
        _numbered(site, name, range(6, 8))

        return {"at once": before, "after two more": client.bodies(f"retro.{name}", ["topic"])}
