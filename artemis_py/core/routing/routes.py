"""The routing table of one address: which queues a message goes to (artemis-model §1.2).

Bindings are grouped by routing name and one binding of each group gets the message. A multicast queue is a group of
one. The anycast queues bound to one address are a group whose members take turns; the anycast queues bound to a
matching wildcard address are a separate group. Diverts take turns with those that have the same routing name, also
across the wildcard addresses that match; all exclusive ones are asked, whatever their routing names.
"""

from typing import Final

from artemis_py.core.addresses.binding import Binding
from artemis_py.core.addresses.router import Router
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType

NO_TYPE: Final = -1
_MULTICAST: Final = 0
_ANYCAST: Final = 1


class Group:
    """Bindings that take turns: the anycast ones of an address, or diverts with the same routing name."""

    __slots__ = ("bindings", "index", "name")

    def __init__(self, name: str, bindings: list[Binding], index: int) -> None:
        self.name: str = name
        """The address, or the routing name."""
        self.bindings: list[Binding] = bindings
        self.index: int = index
        """Index of the binding whose turn it is."""

    def choose(self, message: Message) -> Binding | None:
        """Return the next binding that accepts the message, preferably one with a consumer for it, or None."""
        bindings = self.bindings
        count = len(bindings)
        if count == 1:
            binding = bindings[0]
            return binding if binding.accepts(message) else None
        fallback = -1
        start = self.index if self.index < count else 0
        for step in range(count):
            position = start + step
            if position >= count:
                position -= count
            binding = bindings[position]
            if not binding.accepts(message):
                continue
            if binding.has_consumer_for(message):
                self.index = position + 1
                return binding
            if fallback < 0:
                fallback = position
        if fallback < 0:
            return None
        self.index = fallback + 1
        return bindings[fallback]


class Routes(Router):
    """All bindings of one address, direct or through wildcards."""

    __slots__ = ("always", "groups", "has_special", "is_plain", "multicast", "superseding", "turns")

    # Long because it declares each kind of binding, and finds all of them in one pass.
    def __init__(self, bound: list[list[Binding]], previous: "Routes | None") -> None:
        """Group the bindings in `bound`, one list for each address that matches; `previous` has whose turn it is."""
        super().__init__()
        self.superseding: list[Binding] = []
        """Bindings that are asked first: if any of them accepts a message, no other binding gets it."""
        self.always: list[Binding] = []
        """Bindings that get messages of any type."""
        self.turns: list[Group] = []
        """Bindings that get messages of any type in turns."""
        self.multicast: list[Binding] = []
        self.groups: list[Group] = []
        named: dict[str, list[Binding]] = {}
        for bindings in bound:
            anycast: list[Binding] = []
            for binding in bindings:
                if binding.supersedes:
                    self.superseding.append(binding)
                elif binding.takes_any_type and binding.routing_name:
                    named.setdefault(binding.routing_name, []).append(binding)
                elif binding.takes_any_type:
                    self.always.append(binding)
                elif binding.routing_type == RoutingType.ANYCAST:
                    anycast.append(binding)
                else:
                    self.multicast.append(binding)
                    self.choices += binding.filter is not None
            if len(anycast) > 1 or (anycast and anycast[0].filter is not None):
                self.choices += len(anycast)
            if anycast:
                name = anycast[0].address.name
                self.groups.append(Group(name, anycast, _turn(None if previous is None else previous.groups, name)))
        for name, members in named.items():
            if len(members) == 1:
                self.always.append(members[0])
            else:
                self.choices += len(members)
                self.turns.append(Group(name, members, _turn(None if previous is None else previous.turns, name)))
        for binding in self.superseding + self.always:
            self.choices += binding.filter is not None
        self.has_special: bool = bool(self.superseding or self.always or self.turns)
        """Whether there are bindings of the first three kinds."""
        self.is_plain: bool = not self.has_special and not self.groups and self.choices == 0
        """Whether all bindings are multicast ones without filters: all get each message that is not anycast."""
        if not self.multicast and not self.has_special and len(self.groups) == 1:
            bindings = self.groups[0].bindings
            if len(bindings) == 1 and bindings[0].filter is None:
                self.only = bindings[0]

    def select(self, message: Message) -> list[Binding]:
        """Choose the bindings that get this message."""
        routing_type = message.routing_type
        if self.is_plain and routing_type != _ANYCAST:
            return self.multicast
        targets: list[Binding] = []
        if self.has_special:
            targets = self.select_special(message)
            if targets and targets[0].supersedes:
                return targets
        if routing_type != _ANYCAST:
            for binding in self.multicast:
                if binding.filter is None or binding.filter.matches(message):
                    targets.append(binding)
        if routing_type != _MULTICAST:
            for group in self.groups:
                chosen = group.choose(message)
                if chosen is not None:
                    targets.append(chosen)
        return targets

    def sole(self, routing_type: int) -> Binding | None:
        """Return the one binding that gets every message of a routing type."""
        if self.has_special:
            return None
        found: list[Binding] = []
        if routing_type != _ANYCAST:
            found += self.multicast
        if routing_type != _MULTICAST:
            for group in self.groups:
                found += group.bindings
        return found[0] if len(found) == 1 and found[0].filter is None else None

    def select_special(self, message: Message) -> list[Binding]:
        """Choose those bindings among them that supersede others, or if none does, those that take any type."""
        targets: list[Binding] = []
        for binding in self.superseding:
            if _is_for(binding, message.routing_type) and binding.accepts(message):
                targets.append(binding)
        if targets:
            return targets
        for binding in self.always:
            if binding.accepts(message):
                targets.append(binding)
        for group in self.turns:
            chosen = group.choose(message)
            if chosen is not None:
                targets.append(chosen)
        return targets


def _turn(groups: list[Group] | None, name: str) -> int:
    """Return whose turn it was in the group of this name; 0 if there was none."""
    if groups is not None:
        for group in groups:
            if group.name == name:
                return group.index
    return 0


def make_routes(bound: list[list[Binding]], previous: Router | None) -> Router:
    """Make the usual kind of router (`RouterMaker`)."""
    return Routes(bound, previous if isinstance(previous, Routes) else None)


def _is_for(binding: Binding, routing_type: int) -> bool:
    return binding.takes_any_type or routing_type == NO_TYPE or routing_type == int(binding.routing_type)
