"""How a router chooses among the brokers of its pool (artemis-model §5.10).

A policy sees only brokers that can serve the client, in an order that is the same for all clients, and never none.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final

from artemis_py.core.runtime.referrals import Alternative, weight
from artemis_py.core.settings.router_config import RoutingPolicy

Choose = Callable[[Sequence[Alternative], str], Alternative]
"""Chooses one of some brokers for a key."""


def policy_of(policy: RoutingPolicy, connections: Callable[[Alternative], int], start: int) -> Choose:
    """Return what a policy does. `connections` counts the clients of a broker; turns begin at `start`."""
    match policy:
        case RoutingPolicy.FIRST_ELEMENT:
            return _first
        case RoutingPolicy.ROUND_ROBIN:
            return _Turns(start).choose
        case RoutingPolicy.LEAST_CONNECTIONS:
            return _Least(connections, start).choose
        case RoutingPolicy.CONSISTENT_HASH | RoutingPolicy.CONSISTENT_HASH_MODULO:
            return _heaviest


def group_of(key: str, modulo: int) -> str:
    """Return the group that a key belongs to (CONSISTENT_HASH_MODULO), the same at all brokers and in all runs."""
    return str(int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big") % modulo)


def _first(brokers: Sequence[Alternative], key: str) -> Alternative:
    return brokers[0]


def _heaviest(brokers: Sequence[Alternative], key: str) -> Alternative:
    """Choose so that a broker more or less moves only its own share of the keys."""
    return max(brokers, key=lambda each: weight(key, each.node_id))


class _Turns:
    """One broker after the other."""

    def __init__(self, start: int) -> None:
        self._next = start

    def choose(self, brokers: Sequence[Alternative], key: str) -> Alternative:
        """Choose the next one."""
        self._next += 1
        return brokers[self._next % len(brokers)]


class _Least:
    """The broker with the fewest clients; those with equally many take turns."""

    def __init__(self, connections: Callable[[Alternative], int], start: int) -> None:
        self._connections: Final = connections
        self._turns: Final = _Turns(start)

    def choose(self, brokers: Sequence[Alternative], key: str) -> Alternative:
        """Choose one of the least busy brokers."""
        counts = [self._connections(each) for each in brokers]
        least = min(counts)
        return self._turns.choose([each for each, count in zip(brokers, counts, strict=True) if count == least], key)
