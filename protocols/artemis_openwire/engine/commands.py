"""Commands, one class each. `message_fields` and `ack_fields` read what comes often without them.

Written by `python tests/conformance/test_openwire_commands.py`; change `openwire_commands.txt` beside it instead.
"""

from typing import ClassVar

from attrs import frozen

from artemis_openwire.engine.structure import (
    ARRAY,
    BOOLEAN,
    BYTE,
    BYTES,
    INT,
    LONG,
    NESTED,
    OCTETS_8,
    STRING,
    THROWABLE,
    Structure,
    Throwable,
    wire,
)
from artemis_openwire.engine.structures import (
    ActiveMQDestination,
    BrokerId,
    ConnectionId,
    ConsumerId,
    MessageId,
    NetworkBridgeFilter,
    ProducerId,
    SessionId,
    TransactionId,
)


@frozen(kw_only=True)
class WireFormatInfo(Structure):
    """Offer of one side, sent before anything else."""

    code: ClassVar[int] = 1
    magic: bytes = wire("magic", OCTETS_8, default=b"ActiveMQ")
    version: int = wire("version", INT)
    marshalled_properties: bytes | None = wire("marshalledProperties", BYTES)


@frozen(kw_only=True)
class BaseCommand(Structure):
    """Fields that all commands but WireFormatInfo begin with."""

    command_id: int = wire("commandId", INT)
    response_required: bool = wire("responseRequired", BOOLEAN)


@frozen(kw_only=True)
class BrokerInfo(BaseCommand):
    """Introduction of a broker; a client that sends one asks for a bridge."""

    code: ClassVar[int] = 2
    broker_id: BrokerId | None = wire("brokerId", NESTED, "BrokerId")
    broker_url: str | None = wire("brokerURL", STRING)
    peer_broker_infos: "tuple[BrokerInfo | None, ...] | None" = wire("peerBrokerInfos", ARRAY, "BrokerInfo")
    broker_name: str | None = wire("brokerName", STRING)
    slave_broker: bool = wire("slaveBroker", BOOLEAN)
    master_broker: bool = wire("masterBroker", BOOLEAN)
    fault_tolerant_configuration: bool = wire("faultTolerantConfiguration", BOOLEAN)
    duplex_connection: bool = wire("duplexConnection", BOOLEAN, since=2)
    network_connection: bool = wire("networkConnection", BOOLEAN, since=2)
    connection_id: int = wire("connectionId", LONG, since=2)
    broker_upload_url: str | None = wire("brokerUploadUrl", STRING, since=3)
    network_properties: str | None = wire("networkProperties", STRING, since=3)


@frozen(kw_only=True)
class ConnectionInfo(BaseCommand):
    """Login of a client."""

    code: ClassVar[int] = 3
    connection_id: ConnectionId | None = wire("connectionId", NESTED, "ConnectionId")
    client_id: str | None = wire("clientId", STRING)
    password: str | None = wire("password", STRING)
    user_name: str | None = wire("userName", STRING)
    broker_path: "tuple[BrokerId | None, ...] | None" = wire("brokerPath", ARRAY, "BrokerId")
    broker_master_connector: bool = wire("brokerMasterConnector", BOOLEAN)
    manageable: bool = wire("manageable", BOOLEAN)
    client_master: bool = wire("clientMaster", BOOLEAN, since=2, default=True)
    fault_tolerant: bool = wire("faultTolerant", BOOLEAN, since=6)
    failover_reconnect: bool = wire("failoverReconnect", BOOLEAN, since=6)
    client_ip: str | None = wire("clientIp", STRING, since=8)


@frozen(kw_only=True)
class SessionInfo(BaseCommand):
    """Beginning of a session."""

    code: ClassVar[int] = 4
    session_id: SessionId | None = wire("sessionId", NESTED, "SessionId")


@frozen(kw_only=True)
class ConsumerInfo(BaseCommand):
    """Beginning of a consumer."""

    code: ClassVar[int] = 5
    consumer_id: ConsumerId | None = wire("consumerId", NESTED, "ConsumerId")
    browser: bool = wire("browser", BOOLEAN)
    destination: ActiveMQDestination | None = wire("destination", NESTED, "ActiveMQDestination")
    prefetch_size: int = wire("prefetchSize", INT)
    maximum_pending_message_limit: int = wire("maximumPendingMessageLimit", INT)
    dispatch_async: bool = wire("dispatchAsync", BOOLEAN)
    selector: str | None = wire("selector", STRING)
    client_id: str | None = wire("clientId", STRING, since=10)
    subscription_name: str | None = wire("subscriptionName", STRING)
    no_local: bool = wire("noLocal", BOOLEAN)
    exclusive: bool = wire("exclusive", BOOLEAN)
    retroactive: bool = wire("retroactive", BOOLEAN)
    priority: int = wire("priority", BYTE)
    broker_path: "tuple[BrokerId | None, ...] | None" = wire("brokerPath", ARRAY, "BrokerId")
    additional_predicate: NetworkBridgeFilter | None = wire("additionalPredicate", NESTED, "NetworkBridgeFilter")
    network_subscription: bool = wire("networkSubscription", BOOLEAN)
    optimized_acknowledge: bool = wire("optimizedAcknowledge", BOOLEAN)
    no_range_acks: bool = wire("noRangeAcks", BOOLEAN)
    network_consumer_path: "tuple[ConsumerId | None, ...] | None" = wire(
        "networkConsumerPath", ARRAY, "ConsumerId", since=4
    )


@frozen(kw_only=True)
class ProducerInfo(BaseCommand):
    """Beginning of a producer."""

    code: ClassVar[int] = 6
    producer_id: ProducerId | None = wire("producerId", NESTED, "ProducerId")
    destination: ActiveMQDestination | None = wire("destination", NESTED, "ActiveMQDestination")
    broker_path: "tuple[BrokerId | None, ...] | None" = wire("brokerPath", ARRAY, "BrokerId")
    dispatch_async: bool = wire("dispatchAsync", BOOLEAN, since=2)
    window_size: int = wire("windowSize", INT, since=3)


@frozen(kw_only=True)
class TransactionInfo(BaseCommand):
    """Step of a transaction."""

    code: ClassVar[int] = 7
    connection_id: ConnectionId | None = wire("connectionId", NESTED, "ConnectionId")
    transaction_id: TransactionId | None = wire("transactionId", NESTED, "TransactionId")
    type: int = wire("type", BYTE)


@frozen(kw_only=True)
class DestinationInfo(BaseCommand):
    """Creation or deletion of a destination."""

    code: ClassVar[int] = 8
    connection_id: ConnectionId | None = wire("connectionId", NESTED, "ConnectionId")
    destination: ActiveMQDestination | None = wire("destination", NESTED, "ActiveMQDestination")
    operation_type: int = wire("operationType", BYTE)
    timeout: int = wire("timeout", LONG)
    broker_path: "tuple[BrokerId | None, ...] | None" = wire("brokerPath", ARRAY, "BrokerId")


@frozen(kw_only=True)
class RemoveSubscriptionInfo(BaseCommand):
    """End of a durable subscription."""

    code: ClassVar[int] = 9
    connection_id: ConnectionId | None = wire("connectionId", NESTED, "ConnectionId")
    subscription_name: str | None = wire("subscriptionName", STRING)
    client_id: str | None = wire("clientId", STRING)


@frozen(kw_only=True)
class KeepAliveInfo(BaseCommand):
    """Sign of life."""

    code: ClassVar[int] = 10


@frozen(kw_only=True)
class ShutdownInfo(BaseCommand):
    """Goodbye of either side."""

    code: ClassVar[int] = 11


@frozen(kw_only=True)
class RemoveInfo(BaseCommand):
    """End of a consumer, producer, session or connection."""

    code: ClassVar[int] = 12
    object_id: Structure | None = wire("objectId", NESTED, "Structure")
    last_delivered_sequence_id: int = wire("lastDeliveredSequenceId", LONG, since=5, default=-2)


@frozen(kw_only=True)
class ControlCommand(BaseCommand):
    """Command line for a broker; not used."""

    code: ClassVar[int] = 14
    command: str | None = wire("command", STRING)


@frozen(kw_only=True)
class FlushCommand(BaseCommand):
    """Request for an answer and nothing else."""

    code: ClassVar[int] = 15


@frozen(kw_only=True)
class ConnectionError(BaseCommand):
    """Failure of a command that asked for no answer."""

    code: ClassVar[int] = 16
    exception: Throwable | None = wire("exception", THROWABLE)
    connection_id: ConnectionId | None = wire("connectionId", NESTED, "ConnectionId")


@frozen(kw_only=True)
class ConsumerControl(BaseCommand):
    """Change of a consumer's window, or its end."""

    code: ClassVar[int] = 17
    destination: ActiveMQDestination | None = wire("destination", NESTED, "ActiveMQDestination", since=6)
    close: bool = wire("close", BOOLEAN)
    consumer_id: ConsumerId | None = wire("consumerId", NESTED, "ConsumerId")
    prefetch: int = wire("prefetch", INT)
    flush: bool = wire("flush", BOOLEAN, since=2)
    start: bool = wire("start", BOOLEAN, since=2)
    stop: bool = wire("stop", BOOLEAN, since=2)


@frozen(kw_only=True)
class ConnectionControl(BaseCommand):
    """Facts about failover, from either side."""

    code: ClassVar[int] = 18
    close: bool = wire("close", BOOLEAN)
    exit: bool = wire("exit", BOOLEAN)
    fault_tolerant: bool = wire("faultTolerant", BOOLEAN)
    resume: bool = wire("resume", BOOLEAN)
    suspend: bool = wire("suspend", BOOLEAN)
    connected_brokers: str | None = wire("connectedBrokers", STRING, since=6)
    reconnect_to: str | None = wire("reconnectTo", STRING, since=6)
    rebalance_connection: bool = wire("rebalanceConnection", BOOLEAN, since=6)
    token: bytes | None = wire("token", BYTES, since=8)


@frozen(kw_only=True)
class ProducerAck(BaseCommand):
    """Octets that a producer may send again."""

    code: ClassVar[int] = 19
    since: ClassVar[int] = 3
    producer_id: ProducerId | None = wire("producerId", NESTED, "ProducerId")
    size: int = wire("size", INT)


@frozen(kw_only=True)
class MessagePull(BaseCommand):
    """Request for one message by a consumer without a window."""

    code: ClassVar[int] = 20
    since: ClassVar[int] = 2
    consumer_id: ConsumerId | None = wire("consumerId", NESTED, "ConsumerId")
    destination: ActiveMQDestination | None = wire("destination", NESTED, "ActiveMQDestination")
    timeout: int = wire("timeout", LONG)
    correlation_id: str | None = wire("correlationId", STRING, since=3)
    message_id: MessageId | None = wire("messageId", NESTED, "MessageId", since=3)


@frozen(kw_only=True)
class Message(BaseCommand):
    """Fields of all messages."""

    producer_id: ProducerId | None = wire("producerId", NESTED, "ProducerId")
    destination: ActiveMQDestination | None = wire("destination", NESTED, "ActiveMQDestination")
    transaction_id: TransactionId | None = wire("transactionId", NESTED, "TransactionId")
    original_destination: ActiveMQDestination | None = wire("originalDestination", NESTED, "ActiveMQDestination")
    message_id: MessageId | None = wire("messageId", NESTED, "MessageId")
    original_transaction_id: TransactionId | None = wire("originalTransactionId", NESTED, "TransactionId")
    group_id: str | None = wire("groupID", STRING)
    group_sequence: int = wire("groupSequence", INT)
    correlation_id: str | None = wire("correlationId", STRING)
    persistent: bool = wire("persistent", BOOLEAN)
    expiration: int = wire("expiration", LONG)
    priority: int = wire("priority", BYTE)
    reply_to: ActiveMQDestination | None = wire("replyTo", NESTED, "ActiveMQDestination")
    timestamp: int = wire("timestamp", LONG)
    type: str | None = wire("type", STRING)
    content: bytes | None = wire("content", BYTES)
    marshalled_properties: bytes | None = wire("marshalledProperties", BYTES)
    data_structure: Structure | None = wire("dataStructure", NESTED, "Structure")
    target_consumer_id: ConsumerId | None = wire("targetConsumerId", NESTED, "ConsumerId")
    compressed: bool = wire("compressed", BOOLEAN)
    redelivery_counter: int = wire("redeliveryCounter", INT)
    broker_path: "tuple[BrokerId | None, ...] | None" = wire("brokerPath", ARRAY, "BrokerId")
    arrival: int = wire("arrival", LONG)
    user_id: str | None = wire("userID", STRING)
    received_by_df_bridge: bool = wire("receivedByDFBridge", BOOLEAN)
    droppable: bool = wire("droppable", BOOLEAN, since=2)
    cluster: "tuple[BrokerId | None, ...] | None" = wire("cluster", ARRAY, "BrokerId", since=3)
    broker_in_time: int = wire("brokerInTime", LONG, since=3)
    broker_out_time: int = wire("brokerOutTime", LONG, since=3)
    jmsx_group_first_for_consumer: bool = wire("JMSXGroupFirstForConsumer", BOOLEAN, since=10)


@frozen(kw_only=True)
class ActiveMQMessage(Message):
    """Message without a body."""

    code: ClassVar[int] = 23


@frozen(kw_only=True)
class ActiveMQBytesMessage(ActiveMQMessage):
    """Message of octets."""

    code: ClassVar[int] = 24


@frozen(kw_only=True)
class ActiveMQMapMessage(ActiveMQMessage):
    """Message of names and values."""

    code: ClassVar[int] = 25


@frozen(kw_only=True)
class ActiveMQObjectMessage(ActiveMQMessage):
    """Message with a serialised Java object, which stays octets."""

    code: ClassVar[int] = 26


@frozen(kw_only=True)
class ActiveMQStreamMessage(ActiveMQMessage):
    """Message of values in a row."""

    code: ClassVar[int] = 27


@frozen(kw_only=True)
class ActiveMQTextMessage(ActiveMQMessage):
    """Message of text."""

    code: ClassVar[int] = 28


@frozen(kw_only=True)
class ActiveMQBlobMessage(ActiveMQMessage):
    """Message whose body is elsewhere."""

    code: ClassVar[int] = 29
    since: ClassVar[int] = 3
    remote_blob_url: str | None = wire("remoteBlobUrl", STRING)
    mime_type: str | None = wire("mimeType", STRING)
    deleted_by_broker: bool = wire("deletedByBroker", BOOLEAN)


@frozen(kw_only=True)
class MessageDispatch(BaseCommand):
    """Delivery to a consumer; without a message, there is none."""

    code: ClassVar[int] = 21
    consumer_id: ConsumerId | None = wire("consumerId", NESTED, "ConsumerId")
    destination: ActiveMQDestination | None = wire("destination", NESTED, "ActiveMQDestination")
    message: Message | None = wire("message", NESTED, "Message")
    redelivery_counter: int = wire("redeliveryCounter", INT)


@frozen(kw_only=True)
class MessageAck(BaseCommand):
    """Acknowledgement of one message or of several."""

    code: ClassVar[int] = 22
    destination: ActiveMQDestination | None = wire("destination", NESTED, "ActiveMQDestination")
    transaction_id: TransactionId | None = wire("transactionId", NESTED, "TransactionId")
    consumer_id: ConsumerId | None = wire("consumerId", NESTED, "ConsumerId")
    ack_type: int = wire("ackType", BYTE)
    first_message_id: MessageId | None = wire("firstMessageId", NESTED, "MessageId")
    last_message_id: MessageId | None = wire("lastMessageId", NESTED, "MessageId")
    message_count: int = wire("messageCount", INT)
    poison_cause: Throwable | None = wire("poisonCause", THROWABLE, since=7)


@frozen(kw_only=True)
class Response(BaseCommand):
    """Success."""

    code: ClassVar[int] = 30
    correlation_id: int = wire("correlationId", INT)


@frozen(kw_only=True)
class ExceptionResponse(Response):
    """Failure."""

    code: ClassVar[int] = 31
    exception: Throwable | None = wire("exception", THROWABLE)


@frozen(kw_only=True)
class DataResponse(Response):
    """Success, with a structure."""

    code: ClassVar[int] = 32
    data: Structure | None = wire("data", NESTED, "Structure")


@frozen(kw_only=True)
class DataArrayResponse(Response):
    """Success, with structures."""

    code: ClassVar[int] = 33
    data: "tuple[Structure | None, ...] | None" = wire("data", ARRAY, "Structure")


@frozen(kw_only=True)
class IntegerResponse(Response):
    """Success, with a number."""

    code: ClassVar[int] = 34
    result: int = wire("result", INT)


@frozen(kw_only=True)
class MessageDispatchNotification(BaseCommand):
    """Note of one broker to another about a dispatch."""

    code: ClassVar[int] = 90
    consumer_id: ConsumerId | None = wire("consumerId", NESTED, "ConsumerId")
    destination: ActiveMQDestination | None = wire("destination", NESTED, "ActiveMQDestination")
    delivery_sequence_id: int = wire("deliverySequenceId", LONG)
    message_id: MessageId | None = wire("messageId", NESTED, "MessageId")


@frozen(kw_only=True)
class BrokerSubscriptionInfo(BaseCommand):
    """Durable subscriptions of a broker, for another one."""

    code: ClassVar[int] = 92
    since: ClassVar[int] = 12
    broker_id: BrokerId | None = wire("brokerId", NESTED, "BrokerId")
    broker_name: str | None = wire("brokerName", STRING)
    subscription_infos: "tuple[ConsumerInfo | None, ...] | None" = wire("subscriptionInfos", ARRAY, "ConsumerInfo")
