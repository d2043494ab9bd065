"""Virtual topics: consumers of a queue are attached to a queue of the topic's address (artemis-model §4.3.4).

With `virtualTopicConsumerWildcards=Consumer.*.>;2`, a consumer of the queue `Consumer.A.VirtualTopic.Orders`, which
the pattern matches, gets the queue of this name on the address that is left without the first two words:
`VirtualTopic.Orders::Consumer.A.VirtualTopic.Orders`. Producers send to the topic `VirtualTopic.Orders`.
"""

from typing import Final

from attrs import frozen

from artemis_openwire.broker.destinations import ANY_WORDS, PATH_SEPARATOR, matches
from artemis_py.core.names.syntax import FQQN_SEPARATOR
from artemis_py.wire.parameters import InvalidParameter

PARAMETER: Final = "virtualTopicConsumerWildcards"
SELECTOR_AWARE: Final = "selectorAware"

# A client may name any number of destinations, so what is remembered about them is bounded.
CACHED_NAMES: Final = 10_000

_ENTRIES: Final = ","
_FIELDS: Final = ";"


@frozen
class Rule:
    """One entry of the parameter."""

    pattern: str
    """Pattern of queue names, in OpenWire's syntax."""
    skipped_words: int
    """Number of words of the queue's name that come before the topic."""
    is_selector_aware: bool
    """Whether the selector of the consumer that creates the queue becomes the filter of the queue."""


@frozen
class Rewritten:
    """What a consumer of a queue is attached to."""

    address: str
    """The topic; it may have wildcards of OpenWire."""
    queue: str
    is_selector_aware: bool


class VirtualTopics:
    """The rules of one acceptor; the first that matches counts."""

    def __init__(self, rules: tuple[Rule, ...] = ()) -> None:
        self.rules: Final = rules
        self._found: dict[str, Rewritten | None] = {}

    def find(self, queue: str) -> Rewritten | None:
        """Return what a consumer of this queue is attached to; None: the queue itself.

        A fully qualified name says already what is meant, and is never rewritten.
        """
        if not self.rules:
            return None
        if queue in self._found:
            return self._found[queue]
        found = self._find(queue)
        if len(self._found) >= CACHED_NAMES:
            self._found.clear()
        self._found[queue] = found
        return found

    def _find(self, queue: str) -> Rewritten | None:
        if FQQN_SEPARATOR in queue:
            return None
        for rule in self.rules:
            if matches(rule.pattern, queue):
                topic = PATH_SEPARATOR.join(queue.split(PATH_SEPARATOR)[rule.skipped_words :])
                return Rewritten(topic, queue, rule.is_selector_aware) if topic else None
        return None


def parse_virtual_topics(text: str) -> VirtualTopics:
    """Parse the value of `virtualTopicConsumerWildcards`. Raises InvalidParameter, which names the entry."""
    return VirtualTopics(tuple(_parse(entry.strip()) for entry in text.split(_ENTRIES) if entry.strip()))


def _parse(entry: str) -> Rule:
    pattern, *fields = (field.strip() for field in entry.split(_FIELDS))
    words = pattern.split(PATH_SEPARATOR)
    if not all(words) or ANY_WORDS in words[:-1]:
        raise _wrong(entry, "the pattern must be words with dots between them, and `>` may only be the last")
    if not fields:
        raise _wrong(entry, "the number of words before the topic is missing")
    if not fields[0].isdecimal() or int(fields[0]) < 1:
        raise _wrong(entry, f'"{fields[0]}" is not a number of words of 1 or more')
    skipped = int(fields[0])
    if words[-1] != ANY_WORDS and skipped >= len(words):
        raise _wrong(entry, f"names that the pattern matches have {len(words)} words, so nothing is left of the topic")
    is_selector_aware = False
    for field in fields[1:]:
        name, _, value = field.partition("=")
        if name != SELECTOR_AWARE or value not in ("true", "false"):
            raise _wrong(entry, f'"{field}" is neither {SELECTOR_AWARE}=true nor {SELECTOR_AWARE}=false')
        is_selector_aware = value == "true"
    return Rule(pattern, skipped, is_selector_aware)


def _wrong(entry: str, reason: str) -> InvalidParameter:
    return InvalidParameter(
        PARAMETER,
        f'"{entry}" is no virtual topic: {reason}; write for example Consumer.*.>;2 (in a URL Consumer.*.%3E%3B2)',
    )
