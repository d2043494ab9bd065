"""An option exists only if code acts on it.

The tests of the configuration show that every option is read from the file. This one shows that something else then
asks for it. It compares names of attributes, so an option that shares its name with another attribute may escape it.
"""

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from attrs import fields

from artemis_amqp.broker.manager import Parameters as AmqpParameters
from artemis_mqtt.broker.parameters import BrokerParameters as MqttBrokerParameters
from artemis_mqtt.broker.parameters import Parameters as MqttParameters
from artemis_py.config import BrokerConfig, LoginConfig
from artemis_py.core.settings.address_settings import ResolvedSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.cluster_config import ClusterConfig, ClusterLogin, DiscoveryConfig
from artemis_py.core.settings.divert_config import DivertConfig
from artemis_py.core.settings.queue_config import AddressConfig, QueueConfig
from artemis_py.core.settings.queue_settings import QueueSettings
from artemis_py.core.settings.resource_limits import ResourceLimit
from artemis_py.core.settings.router_config import CacheConfig, PoolConfig, RouterConfig
from artemis_py.management.http.config import WebConfig
from artemis_py.transport.config import AcceptorConfig, ConnectorConfig, ConnectorTls, TlsConfig

REPOSITORY: Final = Path(__file__).resolve().parent.parent
CONFIG: Final = REPOSITORY / "artemis_py" / "config"

OWNERS: Final = (
    ResolvedSettings,
    BrokerSettings,
    QueueConfig,
    QueueSettings,
    AddressConfig,
    DivertConfig,
    BrokerConfig,
    ClusterConfig,
    ClusterLogin,
    DiscoveryConfig,
    RouterConfig,
    PoolConfig,
    CacheConfig,
    AcceptorConfig,
    TlsConfig,
    ConnectorConfig,
    ConnectorTls,
    LoginConfig,
    ResourceLimit,
    WebConfig,
    AmqpParameters,
    MqttParameters,
    MqttBrokerParameters,
)


def is_default(function: ast.FunctionDef) -> bool:
    """Whether it computes the default of a field: what it reads acts only if that field is read."""
    return any(isinstance(mark, ast.Attribute) and mark.attr == "default" for mark in function.decorator_list)


def reads_of(node: ast.AST) -> set[str]:
    """The names of all attributes that are read below a node."""
    if isinstance(node, ast.FunctionDef) and is_default(node):
        return set()
    names = {node.attr} if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) else set()
    for child in ast.iter_child_nodes(node):
        names |= reads_of(child)
    return names


@cache
def all_reads() -> frozenset[str]:
    """Attributes read anywhere in what we ship, but where configuration is read from files."""
    files = [*(REPOSITORY / "artemis_py").rglob("*.py"), *(REPOSITORY / "protocols").rglob("*.py")]
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files if CONFIG not in file.parents]
    return frozenset[str]().union(*map(reads_of, trees))


@pytest.mark.parametrize(
    ("owner", "name"),
    [(owner, attribute.name) for owner in OWNERS for attribute in fields(owner)],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_somebody_asks_for_every_option(owner: type, name: str) -> None:
    """An option that no code acts on is not an option."""
    assert name in all_reads(), f"{owner.__name__}.{name} is set and never read: act on it, or remove it"
