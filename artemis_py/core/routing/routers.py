"""The routers of addresses: made when the first message comes, and again when a binding there has changed.

The bindings of a wildcard address get the messages of every address that it matches, so a router is also out of date
when the bindings of any wildcard address have changed. One version number covers all of them.
"""

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.addresses.router import RemoteBindings, Router, RouterMaker
from artemis_py.core.names.syntax import RESERVED, WildcardSyntax, WildcardTrie
from artemis_py.core.routing.routes import make_routes
from artemis_py.core.runtime.meter import Meter

# Number of bindings for which making a router takes one unit of work.
BINDINGS_PER_UNIT = 16

# Number of nodes of the trie of wildcard addresses whose visit takes one unit of work.
STEPS_PER_UNIT = 4


class Routers:
    """The routers of one domain, and its wildcard addresses; it has none of the latter if wildcards are off."""

    def __init__(self, syntax: WildcardSyntax, meter: Meter) -> None:
        self.version: int = 0
        """Number of changes of wildcard addresses' bindings: a router made from an older version is out of date."""
        self.forwarding: int = 0
        """Number of bindings in the domain that send messages on: diverts."""
        self.reports: set[str] = set()
        """Addresses on which the broker reports about itself: as with names that begin with `$`, a wildcard in the
        first word does not cover them."""
        self.remote: RemoteBindings | None = None
        """Destinations at other brokers; None if this broker belongs to no mesh."""
        self._syntax: WildcardSyntax = syntax
        self._meter: Meter = meter
        self._trie: WildcardTrie[Address] = WildcardTrie(syntax)

    def add(self, address: Address) -> None:
        """Add a new address."""
        if self._stands_for_many(address.name):
            self._trie.add(address.name, address)

    def remove(self, address: Address) -> None:
        """Undo `add`."""
        if self._stands_for_many(address.name):
            self._trie.remove(address.name, address)
            self.version += 1

    def of(self, address: Address) -> Router:
        """Return the router of an address."""
        router = address.router
        if router is None or router.is_stale or router.wildcard_version != self.version:
            bound = self._bound(address)
            if self.remote is not None:
                bound.append(self.remote.bindings(address))
            maker = address.make_router
            router = make_routes(bound, router) if maker is None else maker(bound, router)
            router.wildcard_version = self.version
            router.forwards = self.forwarding > 0 and _forwards(bound)
            address.router = router
            self._meter.work += sum([len(bindings) for bindings in bound]) // BINDINGS_PER_UNIT
        return router

    def bound(self, address: Address) -> list[Binding]:
        """Return everything that gets messages of an address, at this broker."""
        return [binding for bindings in self._bound(address) for binding in bindings]

    def report_on(self, name: str) -> None:
        """Keep what is sent to an address from clients that ask for everything (`reports`)."""
        self.reports.add(name)
        self.version += 1

    def remote_changed(self) -> None:
        """Have all routers made again when they are needed, because destinations at other brokers have changed."""
        self.version += 1

    def replace(self, address: Address, maker: RouterMaker) -> None:
        """Have routers of another kind decide where the messages of an address go."""
        address.make_router = maker
        self.bindings_changed(address)

    def bindings_changed(self, address: Address) -> None:
        """Have routers made again, because bindings of an address were added, removed or changed.

        A change matters if a router remembers what changed: the type of a binding, and whether it has a filter.
        """
        router = address.router
        if router is not None:
            router.is_stale = True
            router.only = None
        if self._stands_for_many(address.name):
            self.version += 1

    def _bound(self, address: Address) -> list[list[Binding]]:
        """Return the bindings of an address: its own, then those of each wildcard address that matches it."""
        bound = [address.bindings]
        if address.accessories:
            bound.append(list(address.accessories))
        if self._syntax.routing_enabled:
            steps = self._trie.steps
            is_reserved = address.name.startswith(RESERVED) or address.name in self.reports
            for wild in self._trie.match(address.name):
                # A client that asks for everything does not mean the addresses on which brokers report on themselves.
                if wild is not address and not (is_reserved and self._begins_wild(wild.name)):
                    bound.append(wild.bindings)
                    if wild.accessories:
                        bound.append(list(wild.accessories))
            self._meter.work += (self._trie.steps - steps) // STEPS_PER_UNIT
        return bound

    def have_binding_for(self, name: str) -> bool:
        """Tell whether something bound to a wildcard address gets messages sent to this name."""
        return self._syntax.routing_enabled and any(wild.bindings for wild in self._trie.match(name))

    def _stands_for_many(self, name: str) -> bool:
        return self._syntax.routing_enabled and self._syntax.is_wild(name)

    def _begins_wild(self, pattern: str) -> bool:
        """Tell whether the first word of a pattern is a wildcard."""
        return pattern.partition(self._syntax.delimiter)[0] in (self._syntax.any_words, self._syntax.single_word)


def _forwards(bound: list[list[Binding]]) -> bool:
    for bindings in bound:
        for binding in bindings:
            if binding.forwards:
                return True
    return False
