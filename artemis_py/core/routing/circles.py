"""Finds diverts, and other things, that lead back to themselves, from their configuration alone.

What filters and transformers do is not known here, so a circle that is found may be one that no message takes.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from artemis_py.core.names.syntax import RESERVED, WildcardSyntax, WildcardTrie
from artemis_py.core.settings.divert_config import DivertConfig

Circle = tuple[str, ...]
"""Names of diverts on the way from the first, which is also the last."""


def circles(diverts: Iterable[DivertConfig], syntax: WildcardSyntax) -> list[Circle]:
    """Return a shortest circle for each group of diverts that all lead to each other, in the order of the diverts."""
    configs = list(diverts)
    return [tuple([configs[each].name for each in way]) for way in ways_back(_followers(configs, syntax))]


def ways_back(following: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return a shortest circle for each group of numbers that all lead to each other; `following` says where to."""
    found: list[list[int]] = []
    seen: set[int] = set()
    groups = _groups(following)
    for index in range(len(following)):
        if index in seen:
            continue
        group = groups[index]
        seen |= group
        way = _way_back(index, following, group)
        if way:
            found.append(way)
    return found


def _followers(configs: Sequence[DivertConfig], syntax: WildcardSyntax) -> list[list[int]]:
    """Return for each divert the indexes of those that take what it sends on."""
    exact: dict[str, list[int]] = {}
    wild: dict[str, list[int]] = {}
    for index, config in enumerate(configs):
        exact.setdefault(config.address, []).append(index)
        if syntax.routing_enabled and syntax.is_wild(config.address):
            wild.setdefault(config.address, []).append(index)
    trie: WildcardTrie[str] = WildcardTrie(syntax)
    for address in wild:
        trie.add(address, address)
    result: list[list[int]] = []
    for config in configs:
        followers: dict[int, None] = {}
        for name in config.forwarding_addresses:
            followers.update(dict.fromkeys(exact.get(name, ())))
            for address in trie.match(name):
                # As in routing: a wildcard in the first place does not mean reserved names.
                first = address.partition(syntax.delimiter)[0]
                if not (name.startswith(RESERVED) and first in (syntax.any_words, syntax.single_word)):
                    followers.update(dict.fromkeys(wild[address]))
        result.append(sorted(followers))
    return result


# Long because it is one algorithm (Tarjan's), written with a stack of its own: a chain may be longer than Python's.
def _groups(following: Sequence[Sequence[int]]) -> list[set[int]]:
    """Return for each number the group of those that it leads to and that lead to it, itself included."""
    count = len(following)
    order = [-1] * count
    lowest = [0] * count
    groups: list[set[int]] = [set() for _ in range(count)]
    is_open = [False] * count
    opened: list[int] = []
    clock = 0
    for start in range(count):
        if order[start] >= 0:
            continue
        visits: list[tuple[int, int]] = [(start, 0)]
        while visits:
            node, position = visits.pop()
            if position == 0:
                order[node] = lowest[node] = clock
                clock += 1
                opened.append(node)
                is_open[node] = True
            else:
                lowest[node] = min(lowest[node], lowest[following[node][position - 1]])
            while position < len(following[node]):
                other = following[node][position]
                position += 1
                if order[other] < 0:
                    visits += [(node, position), (other, 0)]
                    break
                if is_open[other]:
                    lowest[node] = min(lowest[node], order[other])
            else:
                if lowest[node] == order[node]:
                    members: set[int] = set()
                    while node not in members:
                        member = opened.pop()
                        is_open[member] = False
                        members.add(member)
                        groups[member] = members
    return groups


def _way_back(start: int, following: Sequence[Sequence[int]], group: set[int]) -> list[int]:
    """Return a shortest way from a number to itself; empty if there is none."""
    before: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for other in following[node]:
            if other == start:
                way = [start, node]
                while way[-1] != start:
                    way.append(before[way[-1]])
                return way[::-1]
            if other in group and other not in before:
                before[other] = node
                waiting.append(other)
    return []
