"""A domain with the retroactive address `a`, for the tests of retroactive addresses."""

from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.services.services import Services
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.queue_config import QueueConfig
from tests.core_harness import browse_all, make_domain, make_services, settle_down

MULTICAST, ANYCAST = RoutingType.MULTICAST, RoutingType.ANYCAST
BOTH = frozenset(RoutingType)
PREFIX = "$.artemis.internal."
THREE = AddressSettings(retroactive_message_count=3)


def world_of(size: int = 3, **more: object) -> tuple[Domain, Services]:
    """A domain with the retroactive address `a`."""
    domain = make_domain({"a": AddressSettings(retroactive_message_count=size, **more)})
    services = make_services(domain)
    domain.create_address("a", BOTH)
    return domain, services


def create(domain: Domain, name: str = "q", kind: RoutingType = MULTICAST, **options: object) -> Queue:
    """A new queue on `a`."""
    return domain.create_queue(QueueConfig(name=name, address="a", routing_type=kind, **options))


def bodies(queue: Queue) -> list[str]:
    return [reference.message.data.decode() for reference in browse_all(queue)]


def route(domain: Domain, *messages: Message, address: str = "a") -> None:
    for message in messages:
        domain.route(message, domain.addresses[address])
    settle_down(domain)
