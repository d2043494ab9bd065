"""MQTT's names on the address model: topics, filters and the queues of subscriptions (artemis-model §4.2.2).

Pure functions from topics and filters to addresses and queue names, and back. A topic is an address whose words are its
levels: `/` becomes the broker's delimiter, `+` and `#` its wildcards, and a character that is special there is escaped.
"""

import re
from typing import Final

from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.errors import InvalidRequest

LEVEL_SEPARATOR: Final = "/"
SINGLE_LEVEL: Final = "+"
MULTI_LEVEL: Final = "#"

# Topics come from clients, so what is remembered about them is bounded: some megabytes of the longest names in use.
CACHED_TOPICS: Final = 10_000


class InvalidTopic(InvalidRequest):
    """An address that no topic can stand for."""


# An address may not have `::`, which separates it from a queue; MQTT has no such thing, and a topic may. One backslash
# more between two colons keeps both apart, and every topic from every other.
_COLONS: Final = re.compile(r":(\\*)(?=:)")
_COLONS_APART: Final = re.compile(r":\\(\\*)(?=:)")


def to_address(topic: str, syntax: WildcardSyntax) -> str:
    """Return the address of a valid topic name or filter."""
    words: list[str] = []
    for level in topic.split(LEVEL_SEPARATOR):
        if level == SINGLE_LEVEL:
            words.append(syntax.single_word)
        elif level == MULTI_LEVEL:
            words.append(syntax.any_words)
        else:
            word = syntax.escape(level)
            words.append(_COLONS.sub(r":\\\1", word) if ":" in word else word)
    return syntax.delimiter.join(words)


def to_topic(address: str, syntax: WildcardSyntax) -> str:
    """Return the topic name of an address. Raises InvalidTopic if no client could be sent that name."""
    topic = LEVEL_SEPARATOR.join(syntax.unescape(_COLONS_APART.sub(r":\1", word)) for word in syntax.words(address))
    if not topic or SINGLE_LEVEL in topic or MULTI_LEVEL in topic or "\0" in topic:
        raise InvalidTopic(f"address '{address}' cannot be an MQTT topic")
    return topic


# One to one, so that `a.b/c` and `a/b/c` stay different topics, and a literal asterisk is no wildcard.
_TO_KEY: Final = str.maketrans("/.+*", "./*+")


def to_key(topic: str) -> str:
    """Return the routing key of a topic name, or the binding key of a filter, for a topic exchange.

    Levels are words, and the wildcards of filters those of binding keys (qpid-exchanges §16.5).
    """
    return topic.translate(_TO_KEY)


def from_key(key: str) -> str:
    """Return the topic name of a routing key. Raises InvalidTopic if no client could be sent that name."""
    topic = key.translate(_TO_KEY)
    if not topic or SINGLE_LEVEL in topic or MULTI_LEVEL in topic or "\0" in topic:
        raise InvalidTopic(f"routing key '{key}' cannot be an MQTT topic")
    return topic


def is_reserved(topic: str) -> bool:
    """Tell whether a topic name or filter is for the broker and its administrators, never for an exchange."""
    return topic.startswith("$")


def is_wild(topic_filter: str) -> bool:
    """Tell whether a valid filter covers more than one topic."""
    return SINGLE_LEVEL in topic_filter or MULTI_LEVEL in topic_filter


def queue_names(client_id: str, group: str, address: str) -> tuple[str, str]:
    """Return the names of a subscription's queue: the one that Artemis gives it, and one for the case that it is taken.

    Artemis' names are not unique: client `a.b` on `c` and client `a` on `b.c` meet in `a.b.c`, and the group `g` meets
    the client `g` on every filter. The second name can only be the same kind of subscription's. A queue's name has no
    `::`, as an address has none.
    """
    group, client_id = _COLONS.sub(r":\\\1", group), _COLONS.sub(r":\\\1", client_id)
    if group:
        return f"{group}.{address}", f"$share.{group}.{address}"
    return f"{client_id}.{address}", f"$mqtt.{client_id}.{address}"


class Names:
    """The addresses of topics and the topics of addresses, remembered."""

    def __init__(self, syntax: WildcardSyntax) -> None:
        self.syntax: Final = syntax
        self._addresses: dict[str, str] = {}

    def address(self, topic: str) -> str:
        """Return what `to_address` does, from memory."""
        address = self._addresses.get(topic)
        if address is None:
            address = to_address(topic, self.syntax)
            if len(self._addresses) >= CACHED_TOPICS:
                self._addresses.clear()
            self._addresses[topic] = address
        return address
