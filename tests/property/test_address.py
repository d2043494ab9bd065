"""Wildcards and translation against models that are too simple to be wrong (artemis-model §1.7, §1.8)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from artemis_py.core.names.syntax import MatchHierarchy, WildcardSyntax, WildcardTrie
from tests.examples import examples

CORE = WildcardSyntax()
MQTT = WildcardSyntax("/", "#", "+")

name_words = st.lists(st.sampled_from(["a", "b", "*", ""]), min_size=1, max_size=5)
pattern_words = st.lists(st.sampled_from(["a", "b", "*", "#", ""]), min_size=1, max_size=5)
literal_words = st.lists(st.text(alphabet="ab.*#/+\\", max_size=6), min_size=1, max_size=4)


def covers(pattern: list[str], name: list[str]) -> bool:
    """The definition of a match, by trying every division."""
    if not pattern:
        return not name
    if pattern[0] == "#":
        return any(covers(pattern[1:], name[count:]) for count in range(len(name) + 1))
    return bool(name) and pattern[0] in ("*", name[0]) and covers(pattern[1:], name[1:])


@given(st.lists(pattern_words, max_size=8), st.lists(st.integers(0, 7), max_size=3), name_words)
@settings(max_examples=examples(200))
def test_trie_finds_what_the_definition_covers(patterns: list[list[str]], removed: list[int], name: list[str]) -> None:
    """Also after some patterns were taken out again. `#.#` and `#` share a place, as they cover the same names."""
    trie: WildcardTrie[int] = WildcardTrie(CORE)
    for number, pattern in enumerate(patterns):
        trie.add(".".join(pattern), number)
    for number in removed:
        if number < len(patterns):
            trie.remove(".".join(patterns[number]), number)

    expected = [number for number, pattern in enumerate(patterns) if number not in removed and covers(pattern, name)]
    assert sorted(trie.match(".".join(name))) == expected


@given(literal_words)
@settings(max_examples=examples(200))
def test_translation_there_and_back_is_lossless(words: list[str]) -> None:
    """Literal words of any characters survive; `escape` writes them as a protocol would receive them."""
    name = CORE.delimiter.join(CORE.escape(word) for word in words)

    there = CORE.translate(name, MQTT)

    assert MQTT.translate(there, CORE) == name
    assert len(MQTT.words(there)) == len(words)
    assert [MQTT.unescape(word) for word in MQTT.words(there)] == words


@given(st.text(alphabet="ab.*#/+\\", max_size=12))
@settings(max_examples=examples(200))
def test_translation_of_any_text_keeps_its_number_of_words(name: str) -> None:
    """Whatever a client sends, no word appears or vanishes, and wildcards stay wildcards."""
    there = CORE.translate(name, MQTT)

    assert len(MQTT.words(there)) == len(CORE.words(name))
    swap = {"#": "#", "*": "+"}
    wild = [swap.get(word) for word in CORE.words(name)]
    assert wild == [word if word in ("#", "+") else None for word in MQTT.words(there)]


@given(st.lists(pattern_words, max_size=8), name_words)
@settings(max_examples=examples(200))
def test_hierarchy_finds_the_same_whatever_the_order_of_adding(patterns: list[list[str]], name: list[str]) -> None:
    """Precedence is a property of the matches alone (artemis-model §1.8)."""
    matches = {".".join(pattern) for pattern in patterns if "#" not in pattern[:-1]}
    forward: MatchHierarchy[str] = MatchHierarchy(CORE)
    backward: MatchHierarchy[str] = MatchHierarchy(CORE)
    for match in sorted(matches):
        forward.add(match, match)
    for match in sorted(matches, reverse=True):
        backward.add(match, match)

    found = forward.resolve(".".join(name))

    assert found == backward.resolve(".".join(name))
    assert {match for match in found if match not in (".".join(name),)} <= matches
    assert all(covers(match.split("."), name) for match in found)
