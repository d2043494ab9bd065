"""Where clients may go instead of this broker: the contract between those that know other brokers, and the protocols.

    the mesh                    -->  Referrals.told      -->  protocols tell clients, at the login and when it changes
    a drain                     -->  Referrals.leave     -->  new clients, and those that follow, are sent to the others
    the router of an acceptor   -->  Router.route        -->  a protocol serves, redirects or refuses a newcomer

The mesh and the routers know no protocol, and the protocols know no mesh. Nothing that a client is told here is needed
for its messages: every broker of a mesh serves every client.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final, Protocol

from attrs import frozen

from artemis_py.core.runtime.access import Subject

MAX_TOLD: Final = 16
"""Other brokers that one client is told of: no client tries more before it gives up, or begins again (mesh §7.2)."""


@frozen(kw_only=True)
class Alternative:
    """A broker as its clients reach it."""

    node_id: str
    """The UUID in its store; host and port if that is not known."""
    name: str
    host: str
    """Name or IP address, IPv6 without brackets."""
    port: int
    protocols: frozenset[str] = frozenset()
    """Names of the protocols that are spoken there; empty: not known, so perhaps all."""
    is_encrypted: bool = False

    @property
    def endpoint(self) -> str:
        """Host and port as text."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def serves(self, protocol: str, is_encrypted: bool) -> bool:
        """Tell whether a client of this protocol, encrypted as it is, can connect there."""
        return self.is_encrypted == is_encrypted and (not self.protocols or protocol in self.protocols)


@frozen(kw_only=True)
class Newcomer:
    """A client that has logged in, before it is served."""

    protocol: str
    client_id: str
    subject: Subject
    peer: str
    """Its network address, with the port."""
    is_encrypted: bool = False
    server_name: str | None = None
    """Name of this broker that the client asked for in the TLS handshake (SNI)."""


@frozen
class Route:
    """What becomes of a newcomer: it is served here, sent to other brokers, or refused."""

    others: tuple[Alternative, ...] = ()
    """Where it is to go, the best first; empty: it is served here, or refused."""
    refusal: str = ""
    """Why it is refused; empty: it is not."""


HERE: Final = Route()


class Router(Protocol):
    """Decides which broker serves a client."""

    def route(self, newcomer: Newcomer, decided: Callable[[Route], None]) -> None:
        """Decide now, or in a later iteration of the loop; `decided` is called once."""


class Referrals:
    """Other brokers that clients of this one may use, as they are now."""

    def __init__(self) -> None:
        self._others: tuple[Alternative, ...] = ()
        self._itself: tuple[Alternative, ...] = ()
        self._is_leaving: bool = False
        self._is_for_good: bool = False
        self._listeners: list[Callable[[bool], None]] = []

    @property
    def is_leaving(self) -> bool:
        """Whether clients should go to the other brokers, because this one is about to stop."""
        return self._is_leaving

    @property
    def is_leaving_for_good(self) -> bool:
        """Whether it will not come back."""
        return self._is_leaving and self._is_for_good

    def when_changed(self, listener: Callable[[bool], None]) -> None:
        """Have `listener` called when the other brokers change, with whether there is one more to go to."""
        self._listeners.append(listener)

    def told(self, others: Sequence[Alternative], itself: Sequence[Alternative] = ()) -> None:
        """Note which brokers there are now; `itself` is this one as the others tell their clients about it."""
        before, self._others, self._itself = self._others, tuple(others), tuple(itself)
        if set(before) != set(self._others):
            has_more = not set(self._others) <= set(before)
            for listener in self._listeners:
                listener(has_more)

    def leave(self, for_good: bool = False) -> None:
        """Send clients that come from now on to the others, if there are any, and those that stay when they are ended.

        `for_good`: this broker will not come back; MQTT 5 has words for that.
        """
        self._is_leaving = True
        self._is_for_good = for_good

    def stay(self) -> None:
        """Serve clients here again."""
        self._is_leaving = self._is_for_good = False

    def for_client(
        self, protocol: str, is_encrypted: bool, client_id: str, with_itself: bool = False
    ) -> list[Alternative]:
        """Return the brokers that a client may go to, at most `MAX_TOLD`.

        Each client has an order of its own, the same at all brokers: so the clients of one that dies go to different
        ones, and a client that compares lists finds the same one everywhere. `with_itself`: this broker is in it too.
        """
        brokers = self._others + self._itself if with_itself else self._others
        found = [each for each in brokers if each.serves(protocol, is_encrypted)]
        found.sort(key=lambda each: weight(client_id, each.node_id), reverse=True)
        return found[:MAX_TOLD]

    def route(self, newcomer: Newcomer, router: Router | None, decided: Callable[[Route], None]) -> None:
        """Decide where a newcomer is served; `router` is that of its acceptor."""
        if self._is_leaving:
            others = self.for_client(newcomer.protocol, newcomer.is_encrypted, newcomer.client_id)
            if others:
                decided(Route(tuple(others)))
                return
        if router is None:
            decided(HERE)
        else:
            router.route(newcomer, decided)


def weight(key: str, node_id: str) -> int:
    """Return the weight of a node for a key: the node with the greatest one has the key.

    A node more or less moves only the keys that it gets, or had (highest random weight).
    """
    return int.from_bytes(blake2b(f"{key}\0{node_id}".encode(), digest_size=8).digest(), "big")
