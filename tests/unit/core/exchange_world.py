"""A domain with exchanges, and how tests send through them."""

from typing import Any

from artemis_py.core.messages.message import Message
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.exchanges.arguments import Scalar
from artemis_py.core.routing.exchanges.exchange import Exchange
from artemis_py.core.settings.exchange_config import Destination, ExchangeConfig, ExchangeType
from tests.core_harness import make_message, make_queue


def make_exchange(domain: Domain, name: str = "e", kind: str = "direct", **options: object) -> Exchange:
    """An exchange; `options` are attributes of ExchangeConfig."""
    return domain.exchanges.declare(ExchangeConfig(name=name, type=ExchangeType(kind), **options))  # type: ignore[arg-type]


def make_queues(domain: Domain, names: str) -> list[Queue]:
    """Queues, each on an address of its own."""
    return [make_queue(domain, name) for name in names.split()]


def to_queue(name: str) -> Destination:
    return Destination(name, is_queue=True)


def to_exchange(name: str) -> Destination:
    return Destination(name, is_queue=False)


def bind(
    domain: Domain, source: str, key: str, queue: str, arguments: dict[str, Scalar] | None = None, replace: bool = False
) -> bool:
    """Bind a queue."""
    return domain.exchanges.bind(domain.exchanges.exchange(source), key, to_queue(queue), arguments, replace)


def chain(domain: Domain, source: str, key: str, exchange: str, arguments: dict[str, Scalar] | None = None) -> bool:
    """Bind an exchange."""
    return domain.exchanges.bind(domain.exchanges.exchange(source), key, to_exchange(exchange), arguments)


def unbind(domain: Domain, source: str, key: str, queue: str) -> bool:
    """Unbind a queue."""
    return domain.exchanges.unbind(domain.exchanges.exchange(source), key, to_queue(queue))


def publish(domain: Domain, exchange: str, key: str = "", message: Message | None = None, **properties: Any) -> int:
    """Publish a message; how many queues got it. A queue that is refused raises."""
    message = make_message(**properties) if message is None else message
    return domain.publishing.publish(message, domain.exchanges.exchange(exchange), key)


def reached(domain: Domain, exchange: str, key: str = "", **properties: Any) -> set[str]:
    """Names of the queues that get a message; none gets it twice."""
    before = {queue: queue.message_count for queue in domain.queues.values()}
    count = publish(domain, exchange, key, **properties)
    gained = {queue.name: queue.message_count - was for queue, was in before.items() if queue.message_count != was}
    assert set(gained.values()) <= {1}
    assert count == len(gained)
    return set(gained)
