"""OpenWire's destinations in terms of the address model (artemis-model §4.3.2; openwire §10).

Pure functions from physical names to addresses and names of queues; `engine.names` takes lists of them apart.
"""

from typing import Final

from artemis_py.core.names.syntax import WildcardSyntax

PATH_SEPARATOR: Final = "."
SINGLE_WORD: Final = "*"
ANY_WORDS: Final = ">"


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
