"""Wildcard addresses: what is bound to one of them gets what is sent to every address that it matches."""

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.names.syntax import RESERVED, WildcardSyntax, WildcardTrie
from artemis_py.core.runtime.meter import Meter

# Nodes of the trie that are visited in the time of a unit of work.
STEPS_PER_UNIT = 4


class Wildcards:
    """The wildcard addresses of one domain. With wildcards switched off in the settings there are none."""

    def __init__(self, syntax: WildcardSyntax, meter: Meter) -> None:
        self.version: int = 0
        """Counts the changes of bindings of wildcard addresses: a router made from an older version is out of date."""
        self._syntax: WildcardSyntax = syntax
        self._meter: Meter = meter
        self._trie: WildcardTrie[Address] = WildcardTrie(syntax)

    def add(self, address: Address) -> None:
        """Take up an address, if it is a wildcard address."""
        if self._stands_for_many(address.name):
            self._trie.add(address.name, address)

    def remove(self, address: Address) -> None:
        """Undo `add`."""
        if self._stands_for_many(address.name):
            self._trie.remove(address.name, address)
            self.version += 1

    def bindings_changed(self, address: Address) -> None:
        """Bindings of an address came, went or changed: other addresses' routers have them if it is a wildcard one."""
        if self._stands_for_many(address.name):
            self.version += 1

    def bound(self, address: Address) -> list[list[Binding]]:
        """The bindings of an address: its own, then those of each wildcard address that matches it."""
        bound = [address.bindings]
        if self._syntax.routing_enabled:
            steps = self._trie.steps
            is_reserved = address.name.startswith(RESERVED)
            for wild in self._trie.match(address.name):
                # Whoever asks for everything does not mean what brokers say of themselves.
                if wild is not address and not (is_reserved and self._begins_wild(wild.name)):
                    bound.append(wild.bindings)
            self._meter.work += (self._trie.steps - steps) // STEPS_PER_UNIT
        return bound

    def have_binding_for(self, name: str) -> bool:
        """Whether something bound to a wildcard address gets what is sent to this name."""
        return self._syntax.routing_enabled and any(wild.bindings for wild in self._trie.match(name))

    def _stands_for_many(self, name: str) -> bool:
        return self._syntax.routing_enabled and self._syntax.is_wild(name)

    def _begins_wild(self, pattern: str) -> bool:
        """Whether the first word of a pattern is a wildcard."""
        return pattern.partition(self._syntax.delimiter)[0] in (self._syntax.any_words, self._syntax.single_word)
