"""Names: fully qualified queue names, wildcards, tries and the match hierarchy (artemis-model §1.5 to §1.9)."""

import pytest

from artemis_py.core.names.syntax import (
    CACHE_LIMIT,
    CACHED_NAME_LIMIT,
    MatchHierarchy,
    WildcardSyntax,
    WildcardTrie,
    parse_fqqn,
)
from artemis_py.errors import InvalidRequest

CORE = WildcardSyntax()
MQTT = WildcardSyntax("/", "#", "+")
OPENWIRE = WildcardSyntax(".", ">", "*")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ("a", None)),
        ("a::q", ("a", "q")),
        ("::q", ("", "q")),
        ("a::", ("a", "")),
        ("a::q::r", ("a", "q::r")),
        ("a:::q", ("a", ":q")),
        ("", ("", None)),
    ],
)
def test_fully_qualified_name_splits_at_the_first_separator(text: str, parts: tuple[str, str | None]) -> None:
    """artemis-model §1.5, parsing."""
    assert parse_fqqn(text) == parts


@pytest.mark.parametrize(
    "syntax", [("..", "#", "*"), ("", "#", "*"), (".", "#", "#"), ("\\", "#", "*"), (".", ".", "*")]
)
def test_wildcard_characters_must_differ_and_leave_the_escape_alone(syntax: tuple[str, str, str]) -> None:
    """An ambiguous syntax would make every name ambiguous."""
    with pytest.raises(InvalidRequest, match="three different characters"):
        WildcardSyntax(*syntax)


def test_equal_syntaxes_are_interchangeable() -> None:
    """Options that contain a syntax compare by value."""
    assert WildcardSyntax() == CORE
    assert hash(WildcardSyntax()) == hash(CORE)
    assert CORE != MQTT
    assert WildcardSyntax(routing_enabled=False) != CORE
    assert repr(MQTT) == "WildcardSyntax('/', '#', '+', routing_enabled=True)"


@pytest.mark.parametrize(
    ("name", "wild"),
    [
        ("a.b", False),
        ("a.*", True),
        ("#", True),
        ("a.b*", True),
        (r"a.\*", False),
        (r"a\.b.\#", False),
        (r"a.\\*", True),
        (r"a\b.*", True),
        ("a.*\\", True),
    ],
)
def test_wild_names_hold_an_unescaped_wildcard_character(name: str, wild: bool) -> None:
    """artemis-model §1.7, wild name."""
    assert CORE.is_wild(name) is wild


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.b", ["a", "b"]),
        ("", [""]),
        ("a..b", ["a", "", "b"]),
        (r"a\.b.c", [r"a\.b", "c"]),
        (r"a\\.b", ["a\\\\", "b"]),
    ],
)
def test_escaped_delimiter_does_not_end_a_word(name: str, words: list[str]) -> None:
    """artemis-model §1.7, escape character."""
    assert CORE.words(name) == words


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("a.b*", "a.bc", False),
        ("a.b*", "a.b*", True),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("a.#", "ab", False),
        ("#", "", True),
        ("#", "a.b.c", True),
        ("a.#.z", "a.z", True),
        ("a.#.z", "a.b.c.z", True),
        ("a.#.z", "a.b.c", False),
        ("#.a.#", "x.a.y", True),
        ("#.a.#", "x.y", False),
        ("#.#", "a", True),
        ("#.*.#", "a", True),
        ("*.*", "a.b", True),
        (r"a.\*", "a.b", False),
        (r"a.\*", r"a.\*", True),
    ],
)
def test_pattern_matches_word_by_word(pattern: str, name: str, expected: bool) -> None:
    """artemis-model §1.7: `*` is exactly one whole word, `#` zero or more anywhere."""
    assert CORE.matches(pattern, name) is expected


@pytest.mark.parametrize(
    ("name", "source", "target", "expected"),
    [
        ("a/+/#", MQTT, CORE, "a.*.#"),
        ("a.*.>", OPENWIRE, CORE, "a.*.#"),
        ("a.b/c", MQTT, CORE, r"a\.b.c"),
        (r"a\.b.c", CORE, MQTT, "a.b/c"),
        ("a*/b", MQTT, CORE, r"a\*.b"),
        (r"a\*.b", CORE, MQTT, "a*/b"),
        ("a>b.c", CORE, OPENWIRE, r"a\>b.c"),
        (r"a\b.c", CORE, MQTT, r"a\b/c"),
        ("a/b\\\\", CORE, MQTT, "a\\/b\\\\"),
        ("a.b", CORE, CORE, "a.b"),
    ],
)
def test_translation_escapes_what_is_special_in_the_target(
    name: str, source: WildcardSyntax, target: WildcardSyntax, expected: str
) -> None:
    """artemis-model §1.7, translation between syntaxes."""
    assert source.translate(name, target) == expected
    assert target.translate(expected, source) == name


def test_trie_finds_every_pattern_of_a_name() -> None:
    """artemis-model §1.7, routing direction."""
    trie: WildcardTrie[str] = WildcardTrie(CORE)
    for pattern in ["a.b", "a.*", "a.#", "#", "*.b", "#.b", "a.c", "*"]:
        trie.add(pattern, pattern)

    assert sorted(trie.match("a.b")) == ["#", "#.b", "*.b", "a.#", "a.*", "a.b"]


def test_trie_takes_wildcards_of_a_name_as_words() -> None:
    """artemis-model §1.7: matching never happens from a wild address."""
    trie: WildcardTrie[str] = WildcardTrie(CORE)
    for pattern in ["a.b", "a.*", "a.#", "b.#"]:
        trie.add(pattern, pattern)

    assert sorted(trie.match("a.#")) == ["a.#", "a.*"]
    assert trie.match("#") == []


def test_trie_keeps_several_values_of_a_pattern_apart() -> None:
    """Adding twice is adding once; removing takes one value only."""
    trie: WildcardTrie[int] = WildcardTrie(CORE)
    trie.add("a.#", 1)
    trie.add("a.#", 2)
    trie.add("a.#", 2)
    assert trie.match("a") == [1, 2]

    trie.remove("a.#", 2)

    assert trie.match("a") == [1]


def test_trie_forgets_nodes_that_lead_nowhere() -> None:
    """Addresses come and go: what a removed pattern occupied is given back."""
    trie: WildcardTrie[int] = WildcardTrie(CORE)
    for pattern in ["a.b.c", "a.b", "a.*.#.c", "#.#.x"]:
        trie.add(pattern, 1)
        trie.remove(pattern, 1)

    assert trie._root.is_empty()


def test_trie_keeps_nodes_that_others_need() -> None:
    """Removing `a.b` must not take `a.b.c` or `a` along."""
    trie: WildcardTrie[str] = WildcardTrie(CORE)
    for pattern in ["a", "a.b", "a.b.c"]:
        trie.add(pattern, pattern)
    trie.remove("a.b", "a.b")
    trie.remove("a.b", "never added")
    trie.remove("x.y", "never added")

    assert [trie.match(name) for name in ["a", "a.b", "a.b.c"]] == [["a"], [], ["a.b.c"]]


def test_trie_search_does_not_depend_on_the_number_of_patterns() -> None:
    """Routing is O(levels of the address), whatever the number of subscriptions."""
    steps: list[int] = []
    for count in [10, 2_000]:
        trie: WildcardTrie[int] = WildcardTrie(CORE)
        for number in range(count):
            trie.add(f"plant.{number}.*.#", number)
        assert trie.match("plant.7.pump.speed") == [7]
        steps.append(trie.steps)

    assert steps[0] == steps[1]


def test_hostile_any_words_patterns_cost_at_most_words_times_nodes() -> None:
    """reliability §5.6: wildcards matched in linear time; `#.a.#.a...` must not try every division of the name."""
    trie: WildcardTrie[int] = WildcardTrie(CORE)
    trie.add(".".join(["#", "a"] * 20 + ["#", "b"]), 1)
    name = ".".join(["a"] * 200)

    assert trie.match(name) == []
    assert trie.steps <= 43 * 201


def hierarchy(*matches: str, markers: str | None = None) -> MatchHierarchy[str]:
    made: MatchHierarchy[str] = MatchHierarchy(CORE, markers)
    for match in matches:
        assert made.add(match, match)
    return made


@pytest.mark.parametrize(
    ("name", "matches"),
    [
        ("a.b", ["a.b", "a.*", "a.#", "#"]),
        ("a.b.c.d", ["a.*.c.*", "a.*.*.*", "*.b.c.d", "a.b.#", "#"]),
        ("a.b.c", ["a.b.#", "a.*.#", "#"]),
        ("a.b.c", ["a.b.c", "a.*.*", "*.b.c", "*.*.*"]),
        ("aa.b", ["aa.#", "*.#", "#"]),
        ("a.b", ["a.#", "*.#"]),
        ("a", ["*", "a.#"]),
    ],
)
def test_more_specific_matches_come_first(name: str, matches: list[str]) -> None:
    """artemis-model §1.8, precedence 1 to 3d; the order of adding plays no part."""
    assert hierarchy(*matches).resolve(name) == matches
    assert hierarchy(*reversed(matches)).resolve(name) == matches
    assert hierarchy(*reversed(matches)).best(name) == matches[0]


def test_names_under_no_match_have_none() -> None:
    """artemis-model §1.8: the caller's default is used only when nothing matches."""
    matches = hierarchy("a.#")

    assert matches.resolve("b") == []
    assert matches.best("b") is None


def test_any_words_before_the_end_of_a_match_is_rejected() -> None:
    """artemis-model §1.8: a match with any-words not at the end is rejected."""
    with pytest.raises(InvalidRequest, match="last word"):
        hierarchy("a.#.b")


def test_single_word_of_a_match_covers_no_empty_word() -> None:
    """artemis-model §1.8: `*` matches one non-empty word."""
    assert hierarchy("a.*").resolve("a.") == []
    assert hierarchy("a.*.c").resolve("a..c") == []
    assert hierarchy("a.*.#").resolve("a.b.") == ["a.*.#"]


def test_special_characters_of_regular_expressions_are_plain() -> None:
    """artemis-model §7.1: `$`, `(` and `+` in matches mean themselves."""
    assert hierarchy("$sys.(a+b).#").resolve("$sys.(a+b).c") == ["$sys.(a+b).#"]
    assert hierarchy("$sys.(a+b).#").resolve("$sys.aab.c") == []


def test_literal_match_applies_only_to_the_address_of_that_name() -> None:
    """artemis-model §1.9 and §1.8 rank 2."""
    matches = hierarchy("(orders.#)", "orders.#", "#", markers="()")

    assert matches.resolve("orders.#") == ["(orders.#)", "orders.#", "#"]
    assert matches.resolve("orders.eu") == ["orders.#", "#"]
    assert hierarchy("(a)", "a", markers="()").resolve("a") == ["a", "(a)"]


def test_markers_mean_nothing_unless_configured() -> None:
    """artemis-model §1.9: unset by default."""
    assert hierarchy("(orders.#)").resolve("orders.#") == []
    with pytest.raises(InvalidRequest, match="two characters"):
        MatchHierarchy[int](CORE, "(")


def test_fully_qualified_name_prefers_its_own_match_then_its_address() -> None:
    """artemis-model §1.5 security row and artemis-model §1.8: exact `a::q` first, no wildcard across `::`, then the
    address part.
    """
    matches = hierarchy("a::q", "a", "#", "a::*", "#::q")

    assert matches.resolve("a::q") == ["a::q", "a", "#"]
    assert matches.resolve("a::other") == ["a", "#"]
    assert matches.resolve("a") == ["a", "#"]


def test_second_match_of_the_same_text_is_refused_and_put_replaces() -> None:
    """artemis-model §1.8: the first of two equal matches is kept."""
    for match in ["a", "a.#", "(a)"]:
        matches: MatchHierarchy[int] = MatchHierarchy(CORE, "()")
        assert matches.add(match, 1)
        assert not matches.add(match, 2)
        assert matches.best("a") == 1

        matches.put(match, 3)

        assert matches.resolve("a") == [3]
        assert matches.items() == [(match, 3)]


def test_removed_matches_apply_no_longer() -> None:
    """Every kind of match can be taken out again."""
    matches = hierarchy("a", "a.#", "(a)", markers="()")

    assert [matches.remove(match) for match in ["a", "a.#", "(a)", "a"]] == [True, True, True, False]
    assert matches.resolve("a") == []
    assert matches.items() == []


def test_changes_are_seen_at_once_and_announced() -> None:
    """artemis-model §1.8: any change clears the cache and notifies listeners."""
    matches = hierarchy("#")
    seen: list[list[str]] = []
    matches.on_change(lambda: seen.append(matches.resolve("a")))
    assert matches.resolve("a") == ["#"]

    matches.add("a", "a")
    matches.put("a", "new")
    matches.remove("a")
    matches.remove("a")
    matches.add("#", "ignored")

    assert seen == [["a", "#"], ["new", "#"], ["#"]]


def test_results_handed_out_are_the_callers_own() -> None:
    """A caller that changes its list must not change what others find."""
    matches = hierarchy("#")
    matches.resolve("a").clear()

    assert matches.resolve("a") == ["#"]


def test_remembered_results_are_bounded() -> None:
    """Names are chosen by clients: neither many nor long ones may fill the memory."""
    matches = hierarchy("#")
    for number in range(CACHE_LIMIT + 5):
        matches.best(str(number))
    assert len(matches._cache) == 5

    matches.best("x" * (CACHED_NAME_LIMIT + 1))

    assert len(matches._cache) == 5
