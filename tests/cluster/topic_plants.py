"""Faults that are planted into copies for subscriptions, to see the simulation find them; see `plants`."""

from collections.abc import Mapping

from artemis_py.cluster.arrivals import Arrivals
from artemis_py.cluster.elsewhere import Copies, Elsewhere
from artemis_py.cluster.interests import Announced
from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.peer import Peer
from artemis_py.cluster.records import Record
from artemis_py.cluster.telling import Telling
from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.cluster_config import ClusterConfig
from tests.cluster.plants import EarlyConfirmation, LateMark, Planted


class PlantedCopies(Planted):
    """A mesh with other parts."""

    arrivals_class: type[Arrivals] = Arrivals
    elsewhere_class: type[Elsewhere] = Elsewhere

    def __init__(
        self, domain: Domain, config: ClusterConfig, id: str, name: str, formats: Mapping[str, MessageFormat]
    ) -> None:
        super().__init__(domain, config, id, name, formats)
        self.arrivals = self.arrivals_class(self)
        self.elsewhere = self.elsewhere_class(self)


class RoutedCopies(PlantedCopies):
    """A copy is routed where it arrives, as if it was published there: other nodes get it once more, and so on."""

    class arrivals_class(Arrivals):
        def _give_to_subscriptions(self, message: Message) -> Address | None:
            domain = self._domain
            address = domain.addresses.get(message.address)
            if address is None:
                address = domain.create_address(message.address, frozenset((RoutingType.MULTICAST,)), True)
            domain.route(message, address)
            return None


class CopyForEachPattern(PlantedCopies):
    """A node gets a copy for each address or pattern of its subscriptions that covers the message."""

    class elsewhere_class(Elsewhere):
        def bindings(self, address: Address) -> list[Binding]:
            found: list[Binding] = []
            for binding in super().bindings(address):
                assert isinstance(binding, Copies)
                found += [Copies(self._mesh, address, binding._via, [remote]) for remote in binding._remotes]
            return found


class ForgottenInterest(PlantedCopies):
    """A broker that starts does not know what durable subscriptions elsewhere want."""

    class elsewhere_class(Elsewhere):
        def load(self) -> None:
            pass


class SilentInterest(Planted):
    """Peers are told of the first subscription of an address, and not of what further ones want."""

    class peer_class(Peer):
        def __init__(self, mesh: Mesh, number: int) -> None:
            super().__init__(mesh, number)

            class Silent(Telling):
                def tell_interest(self, records: list[Record], announced: Announced) -> None:
                    if self._peer not in announced.told or announced.is_gone:
                        super().tell_interest(records, announced)

            self.telling = Silent(self)


TOPIC_PLANTS: list[type[Planted]] = [
    RoutedCopies,
    CopyForEachPattern,
    ForgottenInterest,
    SilentInterest,
    LateMark,
    EarlyConfirmation,
]
