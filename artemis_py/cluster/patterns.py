"""Values by addresses and patterns of addresses, found by the names that they cover."""

from typing import Final, Generic, TypeVar

from artemis_py.core.names.syntax import RESERVED, WildcardSyntax, WildcardTrie

T = TypeVar("T")


class Patterns(Generic[T]):
    """Values under names, of which some have wildcards; a value is under one name once. Values must be hashable."""

    def __init__(self, syntax: WildcardSyntax) -> None:
        self._syntax: Final = syntax
        self._exact: Final[dict[str, dict[T, None]]] = {}
        self._trie: Final[WildcardTrie[tuple[str, T]]] = WildcardTrie(syntax)

    def is_wild(self, pattern: str) -> bool:
        """Tell whether a name stands for many."""
        return self._syntax.routing_enabled and self._syntax.is_wild(pattern)

    def add(self, pattern: str, value: T) -> None:
        """Put a value under a name."""
        if self.is_wild(pattern):
            self._trie.add(pattern, (pattern, value))
        else:
            self._exact.setdefault(pattern, {})[value] = None

    def remove(self, pattern: str, value: T) -> None:
        """Undo `add`."""
        if self.is_wild(pattern):
            self._trie.remove(pattern, (pattern, value))
            return
        values = self._exact.get(pattern)
        if values is not None:
            values.pop(value, None)
            if not values:
                del self._exact[pattern]

    def match(self, name: str) -> list[T]:
        """Return the values under all names that cover this one, as routing does (`Routers`)."""
        found = list(self._exact.get(name, ()))
        is_reserved = name.startswith(RESERVED)
        for pattern, value in self._trie.match(name):
            if pattern == name or not (is_reserved and self._begins_wild(pattern)):
                found.append(value)
        return found

    def _begins_wild(self, pattern: str) -> bool:
        first = pattern.partition(self._syntax.delimiter)[0]
        return first in (self._syntax.any_words, self._syntax.single_word)
