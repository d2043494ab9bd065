"""Connections that are not logged in, and which of them is closed when there is no room for another one.

A connection that sends nothing costs its owner nothing, so it must not keep clients out. Every stranger has a standing:

    SILENT       it has sent nothing that a protocol of the acceptor recognises
    LOGGING_IN   its protocol was recognised, or its TLS handshake has made progress
    CHECKED      its credentials are being checked: it waits for the broker, not the broker for it

Silent strangers and those that are logging in share the room. The larger of the two crowds makes room: of the peer
address with the most strangers in it, the oldest is closed. So a flood of silent connections leaves half of the room
to logins, and a flood of stalled logins leaves half of it to new connections, which are silent at first. A stranger
whose credentials are being checked stays: the login service limits their number, the login deadline their time. All
operations take constant time, however many strangers there are.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, Protocol

from artemis_py.protocol import Authenticator, ConnectionContext, LoginResult, SaslExchange


class Standing(Enum):
    """How far a stranger has come with its login."""

    SILENT = auto()
    LOGGING_IN = auto()
    CHECKED = auto()


class Stranger(Protocol):
    """A connection that is not logged in."""

    @property
    def peer_address(self) -> str:
        """Address that the peer's connections are counted under (`peers.address_of`)."""

    def displace(self, reason: str) -> None:
        """Close at once, to make room for another connection."""


class Crowd:
    """Strangers of one standing by peer address, in the order in which they reached it."""

    def __init__(self) -> None:
        self._by_address: Final[dict[str, dict[Stranger, None]]] = {}
        # Addresses by their number of strangers. A change moves an address to a neighbouring number, so the largest
        # number never has to be searched for.
        self._by_count: Final[dict[int, dict[str, None]]] = {}
        self._largest = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def count(self, address: str) -> int:
        """Return how many strangers come from an address."""
        return len(self._by_address.get(address, ()))

    def add(self, stranger: Stranger) -> None:
        """Add a stranger as the youngest."""
        address = stranger.peer_address
        crowd = self._by_address.setdefault(address, {})
        crowd[stranger] = None
        self._size += 1
        self._recount(address, len(crowd) - 1, len(crowd))

    def remove(self, stranger: Stranger) -> None:
        """Remove a stranger, which must be in the crowd."""
        address = stranger.peer_address
        crowd = self._by_address[address]
        del crowd[stranger]
        self._size -= 1
        if not crowd:
            del self._by_address[address]
        self._recount(address, len(crowd) + 1, len(crowd))

    def oldest_of(self, address: str) -> Stranger | None:
        """Return the oldest stranger of an address; None if there is none."""
        return next(iter(self._by_address.get(address, ())), None)

    def oldest(self) -> Stranger | None:
        """Return the oldest stranger of the address that has the most; None if there is no stranger."""
        if not self._largest:
            return None
        return self.oldest_of(next(iter(self._by_count[self._largest])))

    def _recount(self, address: str, before: int, after: int) -> None:
        if before:
            addresses = self._by_count[before]
            del addresses[address]
            if not addresses:
                del self._by_count[before]
        if after:
            self._by_count.setdefault(after, {})[address] = None
        if after > before:
            self._largest = max(self._largest, after)
        elif before not in self._by_count and self._largest == before:
            self._largest = after


class Strangers:
    """Strangers that share one limit: all of the broker, or all of one acceptor."""

    def __init__(self) -> None:
        self._standings: Final[dict[Stranger, Standing]] = {}
        self._by_address: Final[dict[str, int]] = {}
        self._crowds: Final = {Standing.SILENT: Crowd(), Standing.LOGGING_IN: Crowd()}

    def __len__(self) -> int:
        return len(self._standings)

    def __contains__(self, stranger: Stranger) -> bool:
        return stranger in self._standings

    def count(self, address: str) -> int:
        """Return how many strangers come from an address."""
        return self._by_address.get(address, 0)

    def add(self, stranger: Stranger) -> None:
        """Add a silent stranger."""
        self._standings[stranger] = Standing.SILENT
        self._by_address[stranger.peer_address] = self.count(stranger.peer_address) + 1
        self._crowds[Standing.SILENT].add(stranger)

    def remove(self, stranger: Stranger) -> None:
        """Remove a stranger; do nothing for any other connection."""
        standing = self._standings.pop(stranger, None)
        if standing is None:
            return
        left = self._by_address.pop(stranger.peer_address) - 1
        if left:
            self._by_address[stranger.peer_address] = left
        if standing in self._crowds:
            self._crowds[standing].remove(stranger)

    def move(self, stranger: Stranger, standing: Standing) -> None:
        """Record how far a stranger has come; do nothing for any other connection."""
        before = self._standings.get(stranger)
        if before is None or before is standing:
            return
        self._standings[stranger] = standing
        if before in self._crowds:
            self._crowds[before].remove(stranger)
        if standing in self._crowds:
            self._crowds[standing].add(stranger)

    def logging_in(self) -> list[Stranger]:
        """Return the strangers whose login is in progress, whether credentials are being checked or not."""
        return [stranger for stranger, standing in self._standings.items() if standing is not Standing.SILENT]

    def weakest(self) -> Stranger | None:
        """Return the stranger to displace first; None if the credentials of all are being checked."""
        silent, logging_in = self._crowds.values()
        return silent.oldest() if len(silent) >= len(logging_in) else logging_in.oldest()

    def weakest_of(self, address: str) -> Stranger | None:
        """Return the stranger of an address to displace first; None if there is none."""
        silent, logging_in = self._crowds.values()
        crowd = silent if silent.count(address) >= logging_in.count(address) else logging_in
        return crowd.oldest_of(address)


class WatchedAuthenticator:
    """An acceptor's authenticator for one connection, which reports when credentials are being checked."""

    def __init__(self, authenticator: Authenticator, changed: Callable[[Standing], None]) -> None:
        self._authenticator = authenticator
        self._changed = changed

    def mechanisms(self, context: ConnectionContext) -> list[str]:
        """Return the mechanisms of the acceptor."""
        return list(self._authenticator.mechanisms(context))

    def begin(self, mechanism: str, context: ConnectionContext) -> SaslExchange | None:
        """Begin an exchange that reports when credentials are being checked; None if there is no such mechanism."""
        exchange = self._authenticator.begin(mechanism, context)
        return None if exchange is None else _WatchedExchange(exchange, self._changed)

    def login(
        self, user: str | None, password: str | None, context: ConnectionContext, done: Callable[[LoginResult], None]
    ) -> None:
        """Check a login and report when the check begins and ends."""
        self._changed(Standing.CHECKED)

        def ended(result: LoginResult) -> None:
            self._changed(Standing.LOGGING_IN)
            done(result)

        self._authenticator.login(user, password, context, ended)


class _WatchedExchange:
    """One SASL exchange; between a response and its answer the client waits for the broker."""

    def __init__(self, exchange: SaslExchange, changed: Callable[[Standing], None]) -> None:
        self._exchange = exchange
        self._changed = changed

    def respond(
        self, data: bytes | None, challenge: Callable[[bytes], None], done: Callable[[LoginResult], None]
    ) -> None:
        self._changed(Standing.CHECKED)

        def challenged(text: bytes) -> None:
            self._changed(Standing.LOGGING_IN)
            challenge(text)

        def ended(result: LoginResult) -> None:
            self._changed(Standing.LOGGING_IN)
            done(result)

        self._exchange.respond(data, challenged, ended)
