"""The default configuration of a broker embedded in a program (`docs/embedding.md`)."""

from artemis_py.config.broker_config import BrokerConfig
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.transport.config import AcceptorConfig


def embedded_config() -> BrokerConfig:
    """Return the configuration of an open broker on a free local port; the first send to a name creates a queue."""
    anycast = AddressSettings(
        default_address_routing_type=RoutingType.ANYCAST, default_queue_routing_type=RoutingType.ANYCAST
    )
    return BrokerConfig(
        persistence_enabled=False,
        security_enabled=False,
        acceptors=(AcceptorConfig(name="embedded", port=0),),
        address_settings={"#": anycast},
    )
