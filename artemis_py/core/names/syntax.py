"""Names of addresses: words, wildcards, `address::queue`, and the matches that cover a name.

Everything here is text. Only the domain knows whether an address exists, and what a wildcard address does with
messages. Words are compared as written, including escapes: `WildcardSyntax.translate` escapes a name from another
syntax the same way every time, so equal meanings have equal spellings.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

from artemis_py.errors import InvalidRequest

T = TypeVar("T")

FQQN_SEPARATOR: Final = "::"
ESCAPE: Final = "\\"
"""Fixed, as in Artemis (artemis-model §1.7)."""
RESERVED: Final = "$"
"""First character of names that a wildcard in the first word does not cover, for brokers' own use (MQTT 5.0 §4.7.2)."""

# Clients choose names, so the number of cached results is bounded. 10,000 results cost a few MB. A full cache is
# cleared, because a new search takes microseconds, and bookkeeping would cost as much at every hit.
CACHE_LIMIT: Final = 10_000
CACHED_NAME_LIMIT: Final = 1_000
"""Characters of a name that is cached, so that 10,000 names are at most some 10 MB. Real names are far shorter."""


def is_unicode(text: str) -> bool:
    """Tell whether a text can be encoded as UTF-8; a text from JSON may contain lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_fqqn(text: str) -> tuple[str, str | None]:
    """Split a fully qualified queue name at its first `::` (artemis-model §1.5).

    A name without `::` has no queue part (None); `::q` has an empty address and `a::` an empty queue.
    """
    address, separator, queue = text.partition(FQQN_SEPARATOR)
    return address, queue if separator else None


class WildcardSyntax:
    """Syntax of words and wildcards in a protocol or broker (`<wildcard-addresses>`, artemis-model §1.7); immutable."""

    __slots__ = ("any_words", "delimiter", "routing_enabled", "single_word")

    def __init__(
        self, delimiter: str = ".", any_words: str = "#", single_word: str = "*", routing_enabled: bool = True
    ) -> None:
        """Raise InvalidRequest unless the three are different single characters, none of them the escape character."""
        special = (delimiter, any_words, single_word)
        if any(len(character) != 1 for character in special) or len({*special, ESCAPE}) != 4:
            raise InvalidRequest(
                "delimiter, any-words and single-word must be three different characters other than a backslash, "
                f"not {delimiter!r}, {any_words!r} and {single_word!r}"
            )
        self.delimiter: Final[str] = delimiter
        self.any_words: Final[str] = any_words
        """Stands for zero or more words."""
        self.single_word: Final[str] = single_word
        """Stands for exactly one word."""
        self.routing_enabled: Final[bool] = routing_enabled
        """Whether wildcard addresses receive what is sent to the addresses that they match. The methods of this class
        only interpret text, and ignore this."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WildcardSyntax) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"WildcardSyntax({self.delimiter!r}, {self.any_words!r}, {self.single_word!r}, "
            f"routing_enabled={self.routing_enabled})"
        )

    def _key(self) -> tuple[str, str, str, bool]:
        return self.delimiter, self.any_words, self.single_word, self.routing_enabled

    def words(self, name: str) -> list[str]:
        """Split `name` into words, with their escapes; an empty name is one empty word."""
        if ESCAPE not in name:
            return name.split(self.delimiter)
        words: list[str] = []
        start = index = 0
        while index < len(name):
            if self._is_escape(name, index):
                index += 2
                continue
            if name[index] == self.delimiter:
                words.append(name[start:index])
                start = index + 1
            index += 1
        words.append(name[start:])
        return words

    def is_wild(self, name: str) -> bool:
        """Tell whether an unescaped wildcard character occurs, even within a longer word, where it is no wildcard."""
        if self.any_words not in name and self.single_word not in name:
            return False
        if ESCAPE not in name:
            return True
        index = 0
        while index < len(name):
            if self._is_escape(name, index):
                index += 2
                continue
            if name[index] == self.any_words or name[index] == self.single_word:
                return True
            index += 1
        return False

    def matches(self, pattern: str, name: str) -> bool:
        """Tell whether `pattern` covers `name`; any-words may be anywhere.

        The time is proportional to the words of `pattern` times the words of `name`.
        """
        trie: WildcardTrie[bool] = WildcardTrie(self)
        trie.add(pattern, True)
        return bool(trie.match(name))

    def translate(self, name: str, to: "WildcardSyntax") -> str:
        """Return the same name in another syntax, word by word (artemis-model §1.7).

        Characters of a literal word are escaped if they are special in `to`, and unescaped if they are plain there.
        Translating back gives the original if that had no needless escapes.
        """
        translated: list[str] = []
        for word in self.words(name):
            if word == self.any_words:
                translated.append(to.any_words)
            elif word == self.single_word:
                translated.append(to.single_word)
            else:
                translated.append(to.escape(self.unescape(word)))
        return to.delimiter.join(translated)

    def _is_special(self, character: str) -> bool:
        return (
            character == self.delimiter
            or character == self.any_words
            or character == self.single_word
            or character == ESCAPE
        )

    def _is_escape(self, text: str, index: int) -> bool:
        """Tell whether a backslash at `index` escapes; before a character that needs no escape it is ordinary."""
        return text[index] == ESCAPE and index + 1 < len(text) and self._is_special(text[index + 1])

    def unescape(self, word: str) -> str:
        """Return a word without its escapes."""
        if ESCAPE not in word:
            return word
        plain: list[str] = []
        index = 0
        while index < len(word):
            if self._is_escape(word, index):
                index += 1
            plain.append(word[index])
            index += 1
        return "".join(plain)

    def escape(self, word: str) -> str:
        """Return a literal word with the escapes that it needs in a name.

        A backslash is doubled only where it would otherwise be read as an escape: `a\\b` stays as it is.
        """
        if (
            self.delimiter not in word
            and self.single_word not in word
            and self.any_words not in word
            and ESCAPE not in word
        ):
            return word
        escaped: list[str] = []
        for index, character in enumerate(word):
            if character == ESCAPE:
                # A delimiter may follow the end of a word.
                if index + 1 == len(word) or self._is_special(word[index + 1]):
                    escaped.append(ESCAPE)
            elif self._is_special(character):
                escaped.append(ESCAPE)
            escaped.append(character)
        return "".join(escaped)


class _Node(Generic[T]):
    """One word of a pattern: the words that may follow, and the values of the patterns that end with it."""

    __slots__ = ("any_words", "children", "entered", "loops", "single_word", "values")

    def __init__(self, loops: bool) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.single_word: _Node[T] | None = None
        self.any_words: _Node[T] | None = None
        self.loops: bool = loops
        """Whether it is an any-words node: a further word leads back to it."""
        self.values: dict[T, None] = {}
        """Values as keys of a dict, for its order and its constant-time removal."""
        self.entered: int = 0
        """Number of the last search step that came here, so that each step visits a node once."""

    def is_empty(self) -> bool:
        return not (self.values or self.children or self.single_word or self.any_words)


class WildcardTrie(Generic[T]):
    """Values under patterns, found by the names that the patterns cover. Values must be hashable.

    A search follows all possible nodes word by word, like a state machine with several current states. Without
    any-words patterns a node has at most two successors for a word, and in practice there are a few current nodes: the
    number of patterns does not matter. For all patterns, a step visits each node at most once, so the worst case is the
    words of the name times the nodes behind any-words, and never exponential.
    """

    def __init__(self, syntax: WildcardSyntax) -> None:
        self.syntax: Final[WildcardSyntax] = syntax
        self.steps: int = 0
        """Node visits of all searches, which tests count instead of time."""
        self._root: _Node[T] = _Node(False)
        self._stamp = 0

    def add(self, pattern: str, value: T) -> None:
        """Put `value` under `pattern`; repeating it has no effect."""
        node = self._root
        for word in self.syntax.words(pattern):
            child = self._child(node, word)
            if child is None:
                child = self._add_child(node, word)
            node = child
        node.values[value] = None

    def remove(self, pattern: str, value: T) -> None:
        """Undo `add`; no effect if `value` is not under `pattern`."""
        path: list[tuple[_Node[T], str]] = []
        node = self._root
        for word in self.syntax.words(pattern):
            child = self._child(node, word)
            if child is None:
                return
            if child is not node:
                path.append((node, word))
            node = child
        node.values.pop(value, None)
        for parent, word in reversed(path):
            if not node.is_empty():
                return
            if word == self.syntax.any_words:
                parent.any_words = None
            elif word == self.syntax.single_word:
                parent.single_word = None
            else:
                del parent.children[word]
            node = parent

    def match(self, name: str) -> list[T]:
        """Return all values whose pattern covers `name`, each once per pattern, in a stable but arbitrary order.

        `name` is read literally: a wildcard in it is an ordinary word, covered only by wildcards and by itself.
        """
        self._stamp += 1
        current: list[_Node[T]] = []
        self._enter(self._root, current)
        for word in self.syntax.words(name):
            self._stamp += 1
            following: list[_Node[T]] = []
            for node in current:
                child = node.children.get(word)
                if child is not None:
                    self._enter(child, following)
                if node.single_word is not None:
                    self._enter(node.single_word, following)
                if node.loops:
                    self._enter(node, following)
            current = following
            if not current:
                break
        return [value for node in current for value in node.values]

    def _enter(self, node: _Node[T], current: list[_Node[T]]) -> None:
        """Add a node to `current`, and the any-words node below it: any-words also stands for no word at all."""
        if node.entered == self._stamp:
            return
        node.entered = self._stamp
        self.steps += 1
        current.append(node)
        if node.any_words is not None:
            self._enter(node.any_words, current)

    def _child(self, node: _Node[T], word: str) -> _Node[T] | None:
        if word == self.syntax.any_words:
            # `#.#` covers what `#` covers, and one node for both keeps `_enter` from recursing more than once.
            return node if node.loops else node.any_words
        if word == self.syntax.single_word:
            return node.single_word
        return node.children.get(word)

    def _add_child(self, node: _Node[T], word: str) -> _Node[T]:
        child: _Node[T] = _Node(word == self.syntax.any_words)
        if child.loops:
            node.any_words = child
        elif word == self.syntax.single_word:
            node.single_word = child
        else:
            node.children[word] = child
        return child


class _Entry(Generic[T]):
    """One match of a hierarchy; compared by identity."""

    __slots__ = ("match", "order", "value", "words")

    def __init__(self, match: str, value: T, syntax: WildcardSyntax) -> None:
        self.match: str = match
        self.value: T = value
        self.words: list[str] = syntax.words(match)
        has_any = syntax.any_words in self.words
        single = tuple(word == syntax.single_word for word in self.words)
        self.order: tuple[bool, int, bool, tuple[bool, ...], int, str] = (
            has_any,
            -len(match) if has_any else 0,
            True in single,
            single,
            len(match),
            match,
        )
        """Sort key for rules 3 to 3d of artemis-model §1.8; the text itself makes the order total."""


class MatchHierarchy(Generic[T]):
    """Values under matches such as `orders.#`, the most specific first (artemis-model §1.8).

    In a match, any-words is legal only as the last word, and single-word covers only a word that is not empty. A match
    between the two `literal_markers` is meant for the address with exactly that name (artemis-model §1.9). A fully
    qualified name is looked up by its exact match first and then by its address part; no wildcard crosses `::`.
    """

    def __init__(self, syntax: WildcardSyntax, literal_markers: str | None = None) -> None:
        """Raise InvalidRequest unless `literal_markers` is None or two characters."""
        if literal_markers is not None and len(literal_markers) != 2:
            raise InvalidRequest(f"literal-match-markers must be two characters, not {literal_markers!r}")
        self._syntax = syntax
        self._markers = literal_markers
        self._values: dict[str, T] = {}
        self._exact: dict[str, T] = {}
        self._literal: dict[str, T] = {}
        self._wild: WildcardTrie[_Entry[T]] = WildcardTrie(syntax)
        self._entries: dict[str, _Entry[T]] = {}
        self._cache: dict[str, tuple[T, ...]] = {}
        self._listeners: list[Callable[[], None]] = []

    def add(self, match: str, value: T) -> bool:
        """Put `value` under `match`; return False and change nothing if that match already has one.

        Raises InvalidRequest for any-words before the last word.
        """
        if match in self._values:
            return False
        self.put(match, value)
        return True

    def put(self, match: str, value: T) -> None:
        """Put `value` under `match`, in place of an earlier value; raises as `add`."""
        literal = self._literal_name(match)
        if literal is not None:
            self._literal[literal] = value
        elif not self._is_wild(match):
            self._exact[match] = value
        else:
            self._check(match)
            self._discard(match)
            entry = self._entries[match] = _Entry(match, value, self._syntax)
            self._wild.add(match, entry)
        self._values[match] = value
        self._changed()

    def remove(self, match: str) -> bool:
        """Remove a match; return False if it did not exist."""
        if match not in self._values:
            return False
        del self._values[match]
        literal = self._literal_name(match)
        if literal is not None:
            del self._literal[literal]
        elif match in self._exact:
            del self._exact[match]
        else:
            self._discard(match)
        self._changed()
        return True

    def resolve(self, name: str) -> list[T]:
        """Return the values of all matches that cover `name`, most specific first."""
        return list(self._resolve(name))

    def best(self, name: str) -> T | None:
        """Return the value of the most specific match, or None."""
        found = self._resolve(name)
        return found[0] if found else None

    def best_of_many(self, name: str) -> T | None:
        """Return what `best` does, and keep no result: for names that are many, and each asked for once."""
        found = self._search(name)
        return found[0] if found else None

    def words_told_apart(self, name: str) -> frozenset[str] | None:
        """Return which words, as the next one after those of `name`, can lead to another match than all others do.

        If there is none, every longer name that begins with `name` has the same most specific match. None: there is a
        match with a single-word in this place, so any word can.
        """
        before = self._syntax.words(name)
        found: set[str] = set()
        for match in self._values:
            literal = self._literal_name(match)
            words = self._syntax.words(match if literal is None else literal)
            is_wild = literal is None and self._is_wild(match)
            if len(words) <= len(before) or not all(map(partial(self._covers, is_wild), words, before)):
                # Shorter ones cover longer names only with any-words, and then all of them.
                continue
            if is_wild and self._syntax.any_words in words[: len(before) + 1]:
                continue
            if is_wild and words[len(before)] == self._syntax.single_word:
                return None
            found.add(words[len(before)])
        return frozenset(found)

    def _covers(self, is_wild: bool, word: str, other: str) -> bool:
        """Tell whether a word of a match covers a word of a name; any-words is taken as covering it."""
        return word == other or (is_wild and word in (self._syntax.single_word, self._syntax.any_words))

    def items(self) -> list[tuple[str, T]]:
        """Return every match as it was written, with its value, in the order in which they were first added."""
        return list(self._values.items())

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` after each change, when searches already see it."""
        self._listeners.append(callback)

    def _resolve(self, name: str) -> tuple[T, ...]:
        found = self._cache.get(name)
        if found is None:
            found = self._search(name)
            if len(name) <= CACHED_NAME_LIMIT:
                if len(self._cache) >= CACHE_LIMIT:
                    self._cache.clear()
                self._cache[name] = found
        return found

    def _search(self, name: str) -> tuple[T, ...]:
        found: list[T] = []
        if name in self._exact:
            found.append(self._exact[name])
        address, queue = parse_fqqn(name)
        if queue is not None:
            return (*found, *self._search(address))
        if name in self._literal:
            found.append(self._literal[name])
        words = self._syntax.words(name)
        wild = [entry for entry in self._wild.match(name) if self._single_words_are_filled(entry, words)]
        wild.sort(key=lambda entry: entry.order)
        found += [entry.value for entry in wild]
        return tuple(found)

    def _single_words_are_filled(self, entry: _Entry[T], words: list[str]) -> bool:
        if "" not in words:
            return True
        # Any-words is last, so the words of match and name before it correspond one to one.
        return all(
            word or pattern != self._syntax.single_word for pattern, word in zip(entry.words, words, strict=False)
        )

    def _is_wild(self, match: str) -> bool:
        if FQQN_SEPARATOR in match:
            return False
        words = self._syntax.words(match)
        return self._syntax.any_words in words or self._syntax.single_word in words

    def _check(self, match: str) -> None:
        if self._syntax.any_words in self._syntax.words(match)[:-1]:
            raise InvalidRequest(
                f"match {match!r}: {self._syntax.any_words!r} is only allowed as the last word of a match"
            )

    def _literal_name(self, match: str) -> str | None:
        markers = self._markers
        if markers is None or len(match) < 3 or match[0] != markers[0] or match[-1] != markers[1]:
            return None
        return match[1:-1]

    def _discard(self, match: str) -> None:
        entry = self._entries.pop(match, None)
        if entry is not None:
            self._wild.remove(match, entry)

    def _changed(self) -> None:
        self._cache.clear()
        for listener in self._listeners:
            listener()
