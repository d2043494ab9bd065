"""Nodes that the broker creates for an attach (AMQP 1.0 §3.5.3); `lifetimes` decides when they are deleted."""

from artemis_amqp.broker.addressing import TOPIC_CAPABILITIES
from artemis_amqp.broker.lifetimes import node_properties, read_policy
from artemis_amqp.broker.link_end import LinkEnd
from artemis_amqp.engine.performatives import Source, Target
from artemis_amqp.engine.types import Symbol
from artemis_py.core.names.routing_type import RoutingType


def create_node(end: LinkEnd, terminus: Source | Target) -> tuple[str, dict[Symbol, object]]:
    """Create a temporary queue, or a temporary address for a topic; return its name and its node properties.

    Raises Refusal, errors.Condition.
    """
    asked = terminus.dynamic_node_properties
    policy = read_policy(asked)
    is_topic = any(capability in TOPIC_CAPABILITIES for capability in terminus.capabilities)
    properties = node_properties(asked, policy, is_topic)
    session = end.handler.core_session
    node = end.dynamic_node = session.create_node(RoutingType.MULTICAST if is_topic else RoutingType.ANYCAST)
    end.handler.manager.lifetimes.create(node, policy, end.key, session)
    return node.name, properties
