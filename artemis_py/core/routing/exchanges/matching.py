"""Which bindings of an exchange match a message: one class for each type of exchange (qpid-exchanges §5 to §8).

The cost of a message does not depend on the number of bindings that do not match it. What many messages have in common
is remembered by routing key: the queues that get each of them, and the bindings that have to be looked at.
"""

from collections.abc import Iterable
from typing import Final

from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.changes import PropertiesFormat
from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.names.syntax import WildcardTrie
from artemis_py.core.routing.exchanges.arguments import Criteria, Value, comparable
from artemis_py.core.routing.exchanges.binding import ExchangeBinding
from artemis_py.core.routing.exchanges.patterns import TOPIC_SYNTAX, check_words
from artemis_py.errors import ProtocolError, StoreError

CACHED_SLOTS: Final = 1 << 16
"""Queues and bindings that a topic exchange remembers for all routing keys together, of 8 bytes each; when there would
be more, it forgets all. Clients choose the routing keys."""
SLOTS_PER_KEY: Final = 32
"""What an entry takes beside them, for its key of CACHED_KEY_CHARS and the tables."""
CACHED_KEY_CHARS: Final = 128
STEPS_PER_UNIT: Final = 4
"""Nodes of the trie of a topic exchange whose visit takes one unit of work."""


class Match:
    """The bindings that match a message."""

    __slots__ = ("others", "queues")

    def __init__(self, bindings: Iterable[ExchangeBinding]) -> None:
        """Sort bindings into those that need nothing more to be decided, and the others."""
        queues: dict[Binding, None] = {}
        others: list[ExchangeBinding] = []
        for binding in bindings:
            queue = binding.queue
            if queue is not None and queue.filter is None and binding.filter is None:
                queues[queue] = None
            else:
                others.append(binding)
        self.queues: list[Binding] = list(queues)
        """Queues that get the message, each once."""
        self.others: list[ExchangeBinding] = [each for each in others if each.queue is None or each.queue not in queues]
        """Bindings to exchanges, and to other queues: they have a selector, or their queue has."""


class ExchangeRouter:
    """The bindings of one exchange, found by message."""

    def __init__(self) -> None:
        self.work: int = 0
        """Units of work of all searches so far, beside those for the bindings that were found."""

    def add(self, binding: ExchangeBinding) -> None:
        """Add a binding whose identity is not there yet."""
        raise NotImplementedError

    def remove(self, binding: ExchangeBinding) -> None:
        """Remove a binding that was added."""
        raise NotImplementedError

    def find(self, key: str, message: Message) -> Match:
        """Return the bindings that match; the result must not be changed. Raises InvalidRequest for the key."""
        raise NotImplementedError


class KeyTable(ExchangeRouter):
    """Direct exchange: bindings by key. Fanout exchange: all of them under one key."""

    __slots__ = ("_bindings", "_ignores_keys", "_matches", "_nothing")

    def __init__(self, ignores_keys: bool) -> None:
        super().__init__()
        self._ignores_keys: bool = ignores_keys
        self._bindings: dict[str, dict[ExchangeBinding, None]] = {}
        self._matches: dict[str, Match] = {}
        """What was found for a key, until a binding of it changes."""
        self._nothing: Match = Match(())

    def add(self, binding: ExchangeBinding) -> None:
        """Add a binding."""
        key = "" if self._ignores_keys else binding.key
        self._bindings.setdefault(key, {})[binding] = None
        self._matches.pop(key, None)

    def remove(self, binding: ExchangeBinding) -> None:
        """Remove a binding."""
        key = "" if self._ignores_keys else binding.key
        bindings = self._bindings[key]
        del bindings[binding]
        if not bindings:
            del self._bindings[key]
        self._matches.pop(key, None)

    def find(self, key: str, message: Message) -> Match:
        """Look the key up."""
        if self._ignores_keys:
            key = ""
        match = self._matches.get(key)
        if match is None:
            bindings = self._bindings.get(key)
            if bindings is None:
                return self._nothing
            match = self._matches[key] = Match(bindings)
        return match


class TopicTable(ExchangeRouter):
    """Topic exchange: patterns in a trie, and the last routing keys with what matched them."""

    __slots__ = ("_matches", "_slots", "_trie")

    def __init__(self) -> None:
        super().__init__()
        self._trie: WildcardTrie[ExchangeBinding] = WildcardTrie(TOPIC_SYNTAX)
        self._matches: dict[str, Match] = {}
        self._slots: int = 0

    def add(self, binding: ExchangeBinding) -> None:
        """Add a binding, whose key is a pattern."""
        self._trie.add(binding.key, binding)
        self._forget()

    def remove(self, binding: ExchangeBinding) -> None:
        """Remove a binding."""
        self._trie.remove(binding.key, binding)
        self._forget()

    def find(self, key: str, message: Message) -> Match:
        """Return the bindings whose patterns cover the key. Raises InvalidRequest if it has too many words."""
        match = self._matches.get(key)
        if match is None:
            check_words("routing key", key)
            steps = self._trie.steps
            match = Match(self._trie.match(key))
            self.work += (self._trie.steps - steps) // STEPS_PER_UNIT
            slots = SLOTS_PER_KEY + len(match.queues) + len(match.others)
            if slots <= CACHED_SLOTS and len(key) <= CACHED_KEY_CHARS:
                if self._slots + slots > CACHED_SLOTS:
                    self._forget()
                self._matches[key] = match
                self._slots += slots
        return match

    def _forget(self) -> None:
        if self._slots:
            self._matches.clear()
            self._slots = 0


class HeadersTable(ExchangeRouter):
    """Headers exchange: each binding is listed under values or names of which a message must have one.

    A binding that wants all of its criteria is listed under one of them: the value that the fewest others are listed
    under. One that wants any is listed under each. So the messages that do not have the value do not meet the binding.
    """

    __slots__ = ("_by_name", "_by_value", "_format", "_reader", "_unlisted")

    def __init__(self) -> None:
        super().__init__()
        self._by_value: dict[tuple[str, Value], dict[ExchangeBinding, None]] = {}
        self._by_name: dict[str, dict[ExchangeBinding, None]] = {}
        self._unlisted: dict[ExchangeBinding, None] = {}
        """Bindings without criteria, which fit every message."""
        self._format: MessageFormat | None = None
        """Format of the last message."""
        self._reader: PropertiesFormat | None = None
        """The same, if it reads properties by themselves."""

    def add(self, binding: ExchangeBinding) -> None:
        """Add a binding."""
        criteria = _criteria_of(binding)
        if criteria.is_any:
            for name, value in criteria.equal.items():
                self._by_value.setdefault((name, value), {})[binding] = None
            for name in criteria.present:
                self._by_name.setdefault(name, {})[binding] = None
        elif criteria.equal:
            best: tuple[str, Value] | None = None
            fewest = 0
            for place in criteria.equal.items():
                count = len(self._by_value.get(place, ()))
                if best is None or count < fewest:
                    best, fewest = place, count
            if best is not None:
                self._by_value.setdefault(best, {})[binding] = None
        elif criteria.present:
            self._by_name.setdefault(criteria.present[0], {})[binding] = None
        if not criteria.equal and not criteria.present:
            self._unlisted[binding] = None

    def remove(self, binding: ExchangeBinding) -> None:
        """Remove a binding from wherever it is listed."""
        criteria = _criteria_of(binding)
        for place in criteria.equal.items():
            listed = self._by_value.get(place)
            if listed is not None:
                listed.pop(binding, None)
                if not listed:
                    del self._by_value[place]
        for name in criteria.present:
            named = self._by_name.get(name)
            if named is not None:
                named.pop(binding, None)
                if not named:
                    del self._by_name[name]
        self._unlisted.pop(binding, None)

    def find(self, key: str, message: Message) -> Match:
        """Return the bindings that the application properties fit."""
        found: dict[ExchangeBinding, None] = dict(self._unlisted)
        if self._by_value or self._by_name:
            headers = self.headers_of(message)
            candidates: dict[ExchangeBinding, None] = {}
            for name, header in headers.items():
                if header is not None:
                    candidates.update(self._by_value.get((name, header), {}))
                candidates.update(self._by_name.get(name, {}))
            self.work += (len(headers) + len(candidates)) // STEPS_PER_UNIT
            for binding in candidates:
                if _criteria_of(binding).fit(headers):
                    found[binding] = None
        return Match(found)

    def headers_of(self, message: Message) -> dict[str, Value | None]:
        """Return what is compared of a message."""
        headers: dict[str, Value | None] = {}
        for name, value in self._properties(message).items():
            headers[name] = comparable(value)
        return headers

    def _properties(self, message: Message) -> dict[str, object]:
        """Return the application properties; none if they are damaged, or cannot be read."""
        format = message.format
        if format is not self._format:
            self._format = format
            # To ask a class what it has takes longer than to read a few properties.
            self._reader = format if isinstance(format, PropertiesFormat) else None
        reader = self._reader
        try:
            return message.view.properties if reader is None else reader.read_properties(message)
        except (ProtocolError, StoreError):
            return {}


def _criteria_of(binding: ExchangeBinding) -> Criteria:
    criteria = binding.criteria
    assert criteria is not None, "bindings of headers exchanges have criteria"
    return criteria
