"""Parses the login configuration of Java (JAAS): entries, each with the modules that decide about a login.

name { package.Class flag option="value" option=value; package.Class flag; };
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from attrs import frozen

# Two slashes behind a colon are part of a URL.
_COMMENTS: Final = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)
_TOKEN: Final = re.compile(r'"([^"\n]*)"|([{};=])|([^\s{};="]+)')


@frozen
class LoginModule:
    """One line of an entry: a class, whether it must succeed, and its options."""

    name: str
    """Name of the class without its package."""
    flag: str
    """`required`, `requisite`, `sufficient` or `optional`."""
    options: Mapping[str, str]
    line: int


def read_entries(text: str) -> dict[str, list[LoginModule]]:
    """Return the modules of each entry; what is cut short, or does not belong to any entry, is left out."""
    return dict(_entries(text))


def _entries(text: str) -> Iterator[tuple[str, list[LoginModule]]]:
    # Comments keep their line breaks, for the numbers of the lines.
    text = _COMMENTS.sub(lambda found: "\n" * found[0].count("\n"), text)
    tokens = [
        (found[1] or found[2] or found[3] or "", text.count("\n", 0, found.start()) + 1)
        for found in _TOKEN.finditer(text)
    ]
    index = 0
    while index + 1 < len(tokens):
        name = tokens[index][0]
        if tokens[index + 1][0] != "{":
            index += 1
            continue
        words = []
        index += 2
        while index < len(tokens) and tokens[index][0] != "}":
            words.append(tokens[index])
            index += 1
        yield name, list(_modules(words))


def _modules(tokens: list[tuple[str, int]]) -> Iterator[LoginModule]:
    while tokens:
        end = next((index for index, (token, _) in enumerate(tokens) if token == ";"), len(tokens))
        words, tokens = tokens[:end], tokens[end + 1 :]
        if len(words) >= 2:
            options = {
                words[index - 1][0]: words[index + 1][0] for index in range(3, len(words) - 1) if words[index][0] == "="
            }
            yield LoginModule(words[0][0].rpartition(".")[2], words[1][0].lower(), options, words[0][1])
