"""Virtual destinations: patterns of consumers, and diverts; and destinations that exist from the start."""

from typing import Final

from artemis_py.config.foreign_xml import ForeignElement
from artemis_py.migrate.activemq.reading import Reading, match_of
from artemis_py.migrate.findings import Outcome

_DEFAULT_NAME: Final = "VirtualTopic.>"
_DEFAULT_PREFIX: Final = "Consumer.*."
_ROUTING_TYPES: Final = {"queue": "anycast", "topic": "multicast", "compositeQueue": "anycast"}


def read_interceptors(reading: Reading, broker: ForeignElement) -> None:
    """Read `destinationInterceptors` and `destinations` of a broker."""
    uses_virtual_topics = reading.flag(broker, "useVirtualTopics") is not False
    interceptors = broker.find("destinationInterceptors")
    if interceptors is None:
        if uses_virtual_topics:
            reading.virtual_topics.append(f"{_DEFAULT_PREFIX}{_DEFAULT_NAME};2")
    else:
        for element in _below(interceptors):
            if element.name == "virtualTopic" and uses_virtual_topics:
                _read_virtual_topic(reading, element)
            elif element.name in ("compositeQueue", "compositeTopic"):
                _read_composite(reading, element)
            elif element.name == "mirroredQueue":
                reading.tell(element)
                reading.cover(element)
    destinations = broker.find("destinations")
    for element in destinations.children if destinations is not None else ():
        _declare(reading, element)
    if destinations is not None:
        reading.tell(destinations)


def _below(element: ForeignElement) -> list[ForeignElement]:
    found = []
    for child in element.children:
        found.append(child)
        if not child.name.startswith("composite"):
            found += _below(child)
    return found


def _read_virtual_topic(reading: Reading, element: ForeignElement) -> None:
    name = reading.text(element, "name") or _DEFAULT_NAME
    prefix = reading.text(element, "prefix")
    prefix = _DEFAULT_PREFIX if prefix is None else prefix
    if reading.text(element, "postfix"):
        reading.tell(element, "", Outcome.DROPPED, "has a postfix; only prefixes are supported")
        return
    words = [word for word in prefix.split(".") if word]
    if not words or not prefix.endswith("."):
        text = f'the prefix "{prefix}" does not end with a dot, so no word of a queue\'s name can be left out'
        reading.tell(element, "", Outcome.DROPPED, text)
        return
    entry = f"{prefix}{name};{len(words)}"
    if reading.flag(element, "selectorAware"):
        entry += ";selectorAware=true"
    reading.virtual_topics.append(entry)
    reading.tell(element, "", None, f"`{entry}` in `virtualTopicConsumerWildcards`")


def _read_composite(reading: Reading, element: ForeignElement) -> None:
    name = reading.text(element, "name")
    forward = element.find("forwardTo")
    if not name or forward is None or not forward.children:
        reading.tell(element, "", Outcome.DROPPED, "has no name, or nothing to forward to")
        return
    exclusive = reading.flag(element, "forwardOnly") is not False
    kind = "anycast" if element.name == "compositeQueue" else "multicast"
    reading.target.address(match_of(name), kind, reading.origin(element), None)
    made = [
        _divert(reading, element, child, match_of(name), number, exclusive)
        for number, child in enumerate(forward.children, 1)
    ]
    if not any(made):
        reading.tell(element, "", Outcome.DROPPED, "nothing that it forwards to can be used")
    elif exclusive:
        reading.tell(element)
    else:
        reading.tell(element, "", None, "a divert; messages stay in the address, too")


def _divert(
    reading: Reading, parent: ForeignElement, part: ForeignElement, address: str, number: int, exclusive: bool
) -> bool:
    """Make the divert for one destination that messages are forwarded to."""
    kind, name = part.name, reading.text(part, "physicalName", is_told=False)
    if part.name == "filteredDestination":
        kind = "queue" if "queue" in part.attributes else "topic"
        name = reading.text(part, kind, is_told=False)
    if kind not in ("queue", "topic") or not name:
        reading.tell(part, "", Outcome.DROPPED, "names no queue or topic to forward to")
        return False
    origin = reading.origin(part)
    forwarding = match_of(name)
    divert = reading.target.core.child("diverts").add("divert", origin, name=f"composite.{address}.{number}")
    divert.put("address", address, origin)
    divert.put("forwarding-address", forwarding, origin)
    divert.put("routing-type", _ROUTING_TYPES[kind].upper(), origin)
    if exclusive:
        divert.put("exclusive", "true", origin)
    selector = reading.text(part, "selector", is_told=False)
    if selector:
        divert.add("filter", origin).attributes["string"] = selector
    reading.target.address(forwarding, _ROUTING_TYPES[kind], origin, forwarding if kind == "queue" else None)
    reading.cover(part)
    reading.tell(part, "", Outcome.KEPT, f"a divert from {address} to {forwarding}")
    return True


def _declare(reading: Reading, element: ForeignElement) -> None:
    name = reading.text(element, "physicalName", is_told=False) or reading.text(element, "name", is_told=False)
    reading.cover(element)
    if element.name not in ("queue", "topic") or not name:
        reading.tell(element, "", Outcome.NEEDLESS, "temporary destinations are made by clients")
        return
    for part in filter(None, (each.strip() for each in name.split(","))):
        part = part.partition("?")[0]
        if "*" in part or ">" in part:
            reading.tell(element, "", Outcome.DROPPED, f"{part} is a pattern, no destination")
            continue
        kind = _ROUTING_TYPES[element.name]
        reading.target.address(part, kind, reading.origin(element), part if kind == "anycast" else None)
        reading.tell(element, "", Outcome.KEPT, f"address {part}, {kind}")
