"""OpenWire's destinations in terms of the address model (artemis-model §4.3.2; openwire §10).

Pure functions from a destination's type and physical name to addresses, queue names and routing types, and back.
"""

from enum import IntEnum
from typing import Final

from attrs import frozen

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.errors import LimitExceeded

PATH_SEPARATOR: Final = "."
SINGLE_WORD: Final = "*"
ANY_WORDS: Final = ">"
ADVISORY_PREFIX: Final = "ActiveMQ.Advisory."
MAX_PARTS: Final = 1000
"""Limit for the parts of a composite destination, each of which is a copy of the message or a consumer: far above
what applications write by hand, and 10 ms of work."""

_SEPARATOR: Final = ","
_OPTIONS: Final = "?"


class DestinationType(IntEnum):
    """Kind of a destination; the value is its data structure code."""

    QUEUE = 100
    TOPIC = 101
    TEMPORARY_QUEUE = 102
    TEMPORARY_TOPIC = 103

    @property
    def routing_type(self) -> RoutingType:
        """The routing type that producers and consumers of such a destination ask for."""
        if self in (DestinationType.QUEUE, DestinationType.TEMPORARY_QUEUE):
            return RoutingType.ANYCAST
        return RoutingType.MULTICAST

    @property
    def is_temporary(self) -> bool:
        """Whether it ends with the connection that created it."""
        return self in (DestinationType.TEMPORARY_QUEUE, DestinationType.TEMPORARY_TOPIC)


_PREFIXES: Final = {
    "queue://": DestinationType.QUEUE,
    "topic://": DestinationType.TOPIC,
    "temp-queue://": DestinationType.TEMPORARY_QUEUE,
    "temp-topic://": DestinationType.TEMPORARY_TOPIC,
}


@frozen
class Destination:
    """One destination: never a composite."""

    type: DestinationType
    name: str
    """Physical name, without prefix and options."""

    @property
    def is_advisory(self) -> bool:
        """Whether the broker reports there on itself."""
        return self.type is DestinationType.TOPIC and self.name.startswith(ADVISORY_PREFIX)

    @property
    def owner(self) -> str:
        """Id of the connection that a temporary destination belongs to: the part before the last colon."""
        return self.name.rpartition(":")[0]

    def __str__(self) -> str:
        prefix = next(prefix for prefix, type in _PREFIXES.items() if type is self.type)
        return f"{prefix}{self.name}"


def parts_of(type: DestinationType, physical_name: str) -> tuple[Destination, ...]:
    """Split a physical name into its destinations: one, or several if it is a composite (openwire §10).

    Parts are trimmed; empty parts and duplicates are dropped; a part without a prefix has the type of the whole.
    Clients of other languages leave the options in the name, so what follows a question mark is dropped as well.
    Raises LimitExceeded for more than `MAX_PARTS` parts.
    """
    if _SEPARATOR not in physical_name:
        part = _part_of(type, physical_name)
        return () if part is None else (part,)
    texts = physical_name.split(_SEPARATOR, MAX_PARTS)
    if len(texts) > MAX_PARTS:
        raise LimitExceeded(f"a composite destination has more than {MAX_PARTS} parts")
    parts = [part for text in texts if (part := _part_of(type, text)) is not None]
    return tuple(dict.fromkeys(parts))


def _part_of(type: DestinationType, text: str) -> Destination | None:
    text = text.strip()
    for prefix, named in _PREFIXES.items():
        if text.startswith(prefix):
            type, text = named, text[len(prefix) :]
            break
    name = text.partition(_OPTIONS)[0].strip()
    return Destination(type, name) if name else None


def is_wild(name: str) -> bool:
    """Tell whether a consumer's destination covers more than one name: a word `*`, or `>` as last word."""
    words = name.split(PATH_SEPARATOR)
    return SINGLE_WORD in words or words[-1] == ANY_WORDS


def consumed_address(name: str, syntax: WildcardSyntax) -> str:
    """Return the address that a consumer of this name is bound to.

    Wildcards are those of the broker there; literal words are escaped where the broker would take them for wildcards.
    A name without wildcards is unchanged, as for producers, so that both mean the same address.
    """
    if not is_wild(name):
        return name
    words = name.split(PATH_SEPARATOR)
    last = len(words) - 1
    return syntax.delimiter.join(
        syntax.any_words
        if word == ANY_WORDS and index == last
        else syntax.single_word
        if word == SINGLE_WORD
        else syntax.escape(word)
        for index, word in enumerate(words)
    )


def matches(pattern: str, name: str) -> bool:
    """Tell whether a pattern of OpenWire covers a name; a last word `>` stands for zero or more words."""
    wanted = pattern.split(PATH_SEPARATOR)
    words = name.split(PATH_SEPARATOR)
    if wanted[-1] == ANY_WORDS:
        wanted.pop()
        if len(words) < len(wanted):
            return False
    elif len(words) != len(wanted):
        return False
    return all(each in (SINGLE_WORD, word) for each, word in zip(wanted, words, strict=False))


def durable_queue_name(client_id: str, subscription: str) -> str:
    """Return the queue name of a durable subscription: that of other protocols' clients of the same names.

    `.` and backslash within the two are escaped, so that no two pairs share a queue (artemis-model §4.3.2).
    """
    return f"{_escaped(client_id)}.{_escaped(subscription)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(".", "\\.")
