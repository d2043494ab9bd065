"""Prefixes of addresses that fix the routing type, as an acceptor defines them for its clients (artemis-model §1.6)."""

from attrs import frozen

from artemis_py.core.names.routing_type import RoutingType


@frozen
class Prefixes:
    """An acceptor's `anycastPrefix` and `multicastPrefix`: they fix the routing type and are cut off
    (artemis-model §1.6).
    """

    anycast: tuple[str, ...] = ()
    multicast: tuple[str, ...] = ()

    @classmethod
    def parse(cls, anycast: str, multicast: str) -> "Prefixes":
        """Return the prefixes of two comma separated lists."""
        return cls(_split(anycast), _split(multicast))

    def strip(self, address: str) -> tuple[str, RoutingType | None]:
        """Return the address without its prefix, and the prefix's routing type; the longest matching prefix counts."""
        best = ""
        routing_type: RoutingType | None = None
        for kind, prefixes in ((RoutingType.ANYCAST, self.anycast), (RoutingType.MULTICAST, self.multicast)):
            for prefix in prefixes:
                if len(prefix) > len(best) and address.startswith(prefix):
                    best, routing_type = prefix, kind
        return address[len(best) :], routing_type


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
