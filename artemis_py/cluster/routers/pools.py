"""Pools of routers: the brokers that clients may be sent to now.

MeshPool     members of the mesh that are up, as they say that clients reach them
DialledPool  connectors or found hosts, of which something else finds out whether they answer
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from artemis_py.core.runtime.referrals import Alternative

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh


class Pool(Protocol):
    """Brokers that a router chooses from."""

    def brokers(self) -> Sequence[Alternative]:
        """Return those that are there, always in one order; a broker may be reached at several addresses."""

    def is_local(self, broker: Alternative) -> bool:
        """Tell whether a broker of the pool is this one."""

    def connections(self, broker: Alternative) -> int:
        """Return how many clients a broker has, as far as that is known."""

    def chosen(self, broker: Alternative) -> None:
        """Note that one more client goes to a broker."""


class MeshPool:
    """The members of a mesh."""

    def __init__(self, with_itself: bool, own_connections: Callable[[], int]) -> None:
        """Create an empty pool; `with_itself`: this broker will belong to it."""
        self._with_itself: Final = with_itself
        self._own_connections: Final = own_connections
        self._brokers: list[Alternative] = []
        self._own_id = ""
        self._loads: dict[str, int] = {}

    def told(self, mesh: "Mesh", others: Iterable[Alternative], itself: Iterable[Alternative]) -> None:
        """Note which brokers there are now."""
        self._own_id, self._loads = mesh.node_id, mesh.loads
        brokers = [*others, *itself] if self._with_itself else others
        self._brokers = sorted(brokers, key=lambda each: each.node_id)

    def brokers(self) -> Sequence[Alternative]:
        """Return the members that are up, by node id."""
        return self._brokers

    def is_local(self, broker: Alternative) -> bool:
        """Tell whether a broker is this one."""
        return broker.node_id == self._own_id

    def connections(self, broker: Alternative) -> int:
        """Return what the broker has said last, and those that were sent there since."""
        return self._own_connections() if self.is_local(broker) else self._loads.get(broker.node_id, 0)

    def chosen(self, broker: Alternative) -> None:
        """Count a client until the broker says itself how many it has."""
        if not self.is_local(broker):
            self._loads[broker.node_id] = self.connections(broker) + 1


class DialledPool:
    """Brokers that need not belong to a mesh; whether they answer is found out elsewhere."""

    def __init__(self, own: Alternative | None, with_itself: bool) -> None:
        """Create an empty pool; `own` is this broker, if that is known; `with_itself`: it belongs to the pool."""
        self._own: Final = own
        self._with_itself: Final = with_itself
        self._wanted: tuple[Alternative, ...] = ()
        self._answers: Final[set[str]] = set()

    @property
    def wanted(self) -> tuple[Alternative, ...]:
        """The brokers of the pool but this one, whether they answer or not."""
        return self._wanted

    def want(self, brokers: Iterable[Alternative]) -> None:
        """Have these brokers in the pool. This one may be among them, and is never sent its own clients."""
        own = "" if self._own is None else self._own.node_id
        self._wanted = tuple([each for each in brokers if each.node_id != own])
        self._answers.intersection_update([each.node_id for each in self._wanted])

    def answered(self, broker: Alternative, is_there: bool) -> bool:
        """Note whether a broker is there; return whether that is news."""
        if is_there == (broker.node_id in self._answers) or broker not in self._wanted:
            return False
        if is_there:
            self._answers.add(broker.node_id)
        else:
            self._answers.discard(broker.node_id)
        return True

    def brokers(self) -> Sequence[Alternative]:
        """Return those that answer, as they are configured, this broker last."""
        found = [each for each in self._wanted if each.node_id in self._answers]
        return [*found, self._own] if self._own is not None and self._with_itself else found

    def is_local(self, broker: Alternative) -> bool:
        """Tell whether a broker is this one."""
        return broker is self._own

    def connections(self, broker: Alternative) -> int:
        """Return 0: nobody says how many clients these brokers have, and the configuration does not ask for it."""
        return 0

    def chosen(self, broker: Alternative) -> None:
        """Do nothing."""
