"""Structures that commands consist of: names of connections, sessions, messages, and destinations.

Written by `python tests/conformance/test_openwire_commands.py`; change `openwire_commands.txt` beside it instead.
"""

from typing import ClassVar

from attrs import frozen

from artemis_openwire.engine.structure import BOOLEAN, BYTES, INT, LONG, NESTED, STRING, Structure, wire


@frozen(kw_only=True)
class ActiveMQDestination(Structure):
    """Name of a queue or topic."""

    physical_name: str | None = wire("physicalName", STRING)


@frozen(kw_only=True)
class ActiveMQTempDestination(ActiveMQDestination):
    """Name of a queue or topic that belongs to one connection."""


@frozen(kw_only=True)
class ActiveMQQueue(ActiveMQDestination):
    """Name of a queue."""

    code: ClassVar[int] = 100


@frozen(kw_only=True)
class ActiveMQTopic(ActiveMQDestination):
    """Name of a topic."""

    code: ClassVar[int] = 101


@frozen(kw_only=True)
class ActiveMQTempQueue(ActiveMQTempDestination):
    """Name of a temporary queue."""

    code: ClassVar[int] = 102


@frozen(kw_only=True)
class ActiveMQTempTopic(ActiveMQTempDestination):
    """Name of a temporary topic."""

    code: ClassVar[int] = 103


@frozen(kw_only=True)
class ConnectionId(Structure):
    """Name of a connection."""

    code: ClassVar[int] = 120
    value: str | None = wire("value", STRING)


@frozen(kw_only=True)
class SessionId(Structure):
    """Name of a session."""

    code: ClassVar[int] = 121
    connection_id: str | None = wire("connectionId", STRING)
    value: int = wire("value", LONG)


@frozen(kw_only=True)
class ConsumerId(Structure):
    """Name of a consumer."""

    code: ClassVar[int] = 122
    connection_id: str | None = wire("connectionId", STRING)
    session_id: int = wire("sessionId", LONG)
    value: int = wire("value", LONG)


@frozen(kw_only=True)
class ProducerId(Structure):
    """Name of a producer."""

    code: ClassVar[int] = 123
    connection_id: str | None = wire("connectionId", STRING)
    value: int = wire("value", LONG)
    session_id: int = wire("sessionId", LONG)


@frozen(kw_only=True)
class BrokerId(Structure):
    """Name of a broker."""

    code: ClassVar[int] = 124
    value: str | None = wire("value", STRING)


@frozen(kw_only=True)
class MessageId(Structure):
    """Name of a message: its producer, and its number there."""

    code: ClassVar[int] = 110
    text_view: str | None = wire("textView", STRING, since=10)
    producer_id: ProducerId | None = wire("producerId", NESTED, "ProducerId")
    producer_sequence_id: int = wire("producerSequenceId", LONG)
    broker_sequence_id: int = wire("brokerSequenceId", LONG)


@frozen(kw_only=True)
class TransactionId(Structure):
    """Name of a transaction."""


@frozen(kw_only=True)
class LocalTransactionId(TransactionId):
    """Name of a transaction of one connection."""

    code: ClassVar[int] = 111
    value: int = wire("value", LONG)
    connection_id: ConnectionId | None = wire("connectionId", NESTED, "ConnectionId")


@frozen(kw_only=True)
class XATransactionId(TransactionId):
    """Name of a branch of a distributed transaction."""

    code: ClassVar[int] = 112
    format_id: int = wire("formatId", INT)
    global_transaction_id: bytes | None = wire("globalTransactionId", BYTES)
    branch_qualifier: bytes | None = wire("branchQualifier", BYTES)


@frozen(kw_only=True)
class SubscriptionInfo(Structure):
    """Durable subscription, as one broker describes it to another."""

    code: ClassVar[int] = 55
    client_id: str | None = wire("clientId", STRING)
    destination: ActiveMQDestination | None = wire("destination", NESTED, "ActiveMQDestination")
    selector: str | None = wire("selector", STRING)
    subscription_name: str | None = wire("subscriptionName", STRING)
    subscribed_destination: ActiveMQDestination | None = wire(
        "subscribedDestination", NESTED, "ActiveMQDestination", since=3
    )
    no_local: bool = wire("noLocal", BOOLEAN, since=11)


@frozen(kw_only=True)
class NetworkBridgeFilter(Structure):
    """Condition of a bridge between brokers, inside its consumer."""

    code: ClassVar[int] = 91
    network_ttl: int = wire("networkTTL", INT, until=9)
    network_broker_id: BrokerId | None = wire("networkBrokerId", NESTED, "BrokerId")
    message_ttl: int = wire("messageTTL", INT, since=10)
    consumer_ttl: int = wire("consumerTTL", INT, since=10)
