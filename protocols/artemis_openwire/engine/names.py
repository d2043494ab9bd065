"""Names as people write them: destinations in selectors and lists, message ids, transactions (openwire §10)."""

from typing import Final

from artemis_openwire.engine.structures import (
    ActiveMQDestination,
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTopic,
    MessageId,
    ProducerId,
)

ADVISORY_PREFIX: Final = "ActiveMQ.Advisory."
"""How names of topics begin on which brokers report about themselves."""

TEMP_QUEUE: Final = ADVISORY_PREFIX + "TempQueue"
TEMP_TOPIC: Final = ADVISORY_PREFIX + "TempTopic"

_SCHEMES: Final[dict[str, type[ActiveMQDestination]]] = {
    "queue://": ActiveMQQueue,
    "topic://": ActiveMQTopic,
    "temp-queue://": ActiveMQTempQueue,
    "temp-topic://": ActiveMQTempTopic,
}
_PREFIXES: Final = {kind: scheme for scheme, kind in _SCHEMES.items()}

MAX_PARTS: Final = 1024
"""Destinations in one list. Each is routed on its own, so a list is as much work as that many messages."""


def destinations_of(destination: ActiveMQDestination) -> list[ActiveMQDestination]:
    """Return the destinations that a name lists, each once and in order; most names list one.

    A part without a prefix is of the kind of the whole. Options behind a `?`, which most client libraries take off by
    themselves, are left out. Returns none for a name without any, and ValueError is raised above `MAX_PARTS`.
    """
    name = destination.physical_name or ""
    if "," not in name and "?" not in name and "://" not in name:
        return [destination] if name else []
    parts = name.partition("?")[0].split(",")
    if len(parts) > MAX_PARTS:
        raise ValueError(f"a list of {len(parts)} destinations; {MAX_PARTS} are the most")
    found = dict.fromkeys([_part(part.strip(), type(destination)) for part in parts])
    return [part for part in found if part.physical_name]


def _part(text: str, kind: type[ActiveMQDestination]) -> ActiveMQDestination:
    for scheme, named in _SCHEMES.items():
        if text.startswith(scheme):
            return named(physical_name=text[len(scheme) :])
    return kind(physical_name=text)


def qualified_name(destination: ActiveMQDestination) -> str:
    """Return a destination as selectors see it: `queue://orders`."""
    return _PREFIXES[type(destination)] + (destination.physical_name or "")


def is_advisory(destination: ActiveMQDestination) -> bool:
    """Tell whether a topic is one on which brokers report about themselves."""
    return isinstance(destination, ActiveMQTopic) and (destination.physical_name or "").startswith(ADVISORY_PREFIX)


def producer_text(producer: ProducerId) -> str:
    """Return a producer's name: connection, session and number."""
    return f"{producer.connection_id}:{producer.session_id}:{producer.value}"


def message_id_text(message_id: MessageId) -> str:
    """Return a message's id as applications see it (JMSMessageID)."""
    if message_id.text_view is not None:
        text = message_id.text_view
        return text if text.startswith("ID:") else f"ID:{text}"
    producer = "" if message_id.producer_id is None else producer_text(message_id.producer_id)
    return f"{producer}:{message_id.producer_sequence_id}"
