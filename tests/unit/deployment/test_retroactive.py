"""A configuration that makes addresses retroactive, and reloads that leave their histories alone or end them."""

from pathlib import Path
from typing import Any

from attrs import evolve

from artemis_py.broker import Broker
from artemis_py.config.broker_config import BrokerConfig
from artemis_py.config.embedded import embedded_config
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.settings.address_settings import AddressSettings, DeletionPolicy
from artemis_py.core.settings.divert_config import DivertConfig
from artemis_py.core.settings.queue_config import AddressConfig, QueueConfig
from artemis_py.deployment.plan import plan
from tests.core_harness import browse_all, send, settle_down
from tests.line_protocol import LineProtocolManager

LINE = [LineProtocolManager]
FORCE = AddressSettings(config_delete_queues=DeletionPolicy.FORCE, config_delete_addresses=DeletionPolicy.FORCE)
NEWS = AddressConfig(name="news", routing_types=frozenset(RoutingType))
COPY = DivertConfig(name="copy", address="news", forwarding_address="archive")
DIVERT = "$.artemis.internal.news.divert.retro"


def config(size: int, **parts: Any) -> BrokerConfig:
    settings = {"#": FORCE, "news": AddressSettings(retroactive_message_count=size)}
    return evolve(embedded_config(), addresses=(NEWS,), address_settings=settings, **parts)


def follow(broker: Broker, wanted: BrokerConfig) -> None:
    """Reload."""
    assert broker.change(plan(broker.deployment.running(wanted), wanted)) == []
    settle_down(broker.domain)


def late(broker: Broker, name: str) -> list[str]:
    """What a new queue begins with."""
    queue: Queue = broker.domain.create_queue(
        QueueConfig(name=name, address="news", routing_type=RoutingType.MULTICAST)
    )
    return [reference.message.data.decode() for reference in browse_all(queue)]


async def test_a_reload_leaves_the_divert_and_the_rings_alone() -> None:
    """Not even FORCE takes them for something that broker.xml declared once."""
    async with Broker(config(3, diverts=(COPY,)), LINE) as broker:
        send(broker.domain, "news", "1", "2")
        assert sorted(broker.domain.others) == [DIVERT, "copy"]
        wanted = config(3)
        found = plan(broker.deployment.running(wanted), wanted)

        assert [str(change.element) for change in found.changes] == ['divert "copy"']
        follow(broker, wanted)
        assert list(broker.domain.others) == [DIVERT]
        assert late(broker, "q") == ["1", "2"]


async def test_a_reload_begins_resizes_and_ends_a_history() -> None:
    async with Broker(config(0), LINE) as broker:
        follow(broker, config(4))
        send(broker.domain, "news", "1", "2", "3")
        assert late(broker, "q4") == ["1", "2", "3"]
        follow(broker, config(2))
        assert late(broker, "q2") == ["2", "3"]
        follow(broker, config(0))

        assert broker.domain.others == {}
        assert sorted(broker.domain.addresses) == ["activemq.notifications", "news"]
        assert late(broker, "q0") == []


async def test_a_start_follows_what_the_file_says_now(tmp_path: Path) -> None:
    """The address exists in the store, and the history does not."""
    stored = {"persistence_enabled": True, "home": tmp_path}
    async with Broker(config(0, **stored), LINE) as broker:
        send(broker.domain, "news", "1")
    for size in (2, 2, 0):
        async with Broker(config(size, **stored), LINE) as broker:
            assert list(broker.domain.others) == ([DIVERT] if size else [])
            assert len(broker.domain.queues) == (2 if size else 0)
            assert (broker.services.retroactive.history("news") is not None) == (size > 0)
