"""The names that Artemis knows, so that a message about a file made for it says what this broker lacks.

The schema has the names that this broker supports; a name is looked up here only if the schema does not have it
(artemis-model §2.1, §2.2, §3.2, §4.1.1, §4.2.1, §4.3.1, §6.3, §6.4, §6.5).
"""

from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


CORE_ELEMENTS: Final = _names(
    """
    address-queue-scan-period address-settings addresses acceptors allow-failback amqp-use-core-subscription-naming
    async-connection-execution-enabled authentication-cache-size authorization-cache-size bindings-directory bridges
    broadcast-groups broker-connections broker-plugins cluster-connections cluster-password cluster-user
    configuration-file-refresh-period connection-routers connection-ttl-check-interval connection-ttl-override
    connector-services connectors create-bindings-dir create-journal-dir critical-analyzer
    critical-analyzer-check-period critical-analyzer-policy critical-analyzer-timeout discovery-groups
    disk-scan-period diverts federations global-max-messages global-max-size
    global-max-size-percent-of-jvm-max-memory graceful-shutdown-enabled graceful-shutdown-timeout grouping-handler
    ha-policy id-cache-size internal-naming-prefix jmx-domain jmx-management-enabled jmx-use-broker-name
    journal-buffer-size journal-buffer-timeout journal-compact-min-files journal-compact-percentage
    journal-datasync journal-device-block-size journal-directory journal-file-open-timeout journal-file-size
    journal-lock-acquisition-timeout journal-max-attic-files journal-max-io journal-min-files journal-pool-files
    journal-retention-directory journal-sync-non-transactional journal-sync-transactional journal-type
    large-message-sync large-messages-directory literal-match-markers management-address
    management-message-rbac management-notification-address management-rbac-prefix mask-password
    max-disk-usage max-redelivery-records memory-measure-interval memory-warning-threshold
    message-counter-enabled message-counter-max-day-history message-counter-sample-period
    message-expiry-scan-period metrics metrics-plugin min-disk-free mqtt-session-scan-interval
    mqtt-session-state-persistence-timeout mqtt-subscription-persistence-enabled name network-check-NIC
    network-check-URL-list network-check-list network-check-period network-check-ping-command
    network-check-ping6-command network-check-timeout node-manager-lock-directory page-max-concurrent-io
    page-sync-timeout paging-directory password-codec persist-delivery-count-before-delivery persist-id-cache
    persistence-enabled populate-validated-user purge-page-folders queues read-whole-page
    reject-empty-validated-user remoting-incoming-interceptors remoting-outgoing-interceptors resolve-protocols
    resource-limit-settings scheduled-thread-pool-max-size security-enabled security-invalidation-interval
    security-settings server-dump-interval store suppress-session-notifications system-property-prefix
    temporary-queue-namespace thread-pool-max-size transaction-timeout transaction-timeout-scan-period
    uuid-namespace wild-card-routing-enabled wildcard-addresses
    """
)

ADDRESS_SETTINGS: Final = _names(
    """
    address-full-policy auto-create-addresses auto-create-dead-letter-resources auto-create-expiry-resources
    auto-create-jms-queues auto-create-jms-topics auto-create-queues auto-delete-addresses
    auto-delete-addresses-delay auto-delete-addresses-skip-usage-check auto-delete-created-queues
    auto-delete-jms-queues auto-delete-jms-topics auto-delete-queues auto-delete-queues-delay
    auto-delete-queues-message-count auto-delete-queues-skip-usage-check config-delete-addresses
    config-delete-diverts config-delete-queues dead-letter-address dead-letter-queue-prefix
    dead-letter-queue-suffix default-address-routing-type default-consumer-window-size
    default-consumers-before-dispatch default-delay-before-dispatch default-exclusive-queue
    default-group-buckets default-group-first-key default-group-rebalance
    default-group-rebalance-pause-dispatch default-last-value-key default-last-value-queue
    default-max-consumers default-non-destructive default-purge-on-no-consumers default-queue-routing-type
    default-ring-size disk-full-policy enable-ingress-timestamp enable-metrics expiry-address expiry-delay
    expiry-queue-prefix expiry-queue-suffix id-cache-size initial-queue-buffer-size last-value-queue
    management-browse-page-size management-message-attribute-size-limit max-delivery-attempts max-expiry-delay
    max-read-page-bytes max-read-page-messages max-redelivery-delay max-size-bytes
    max-size-bytes-reject-threshold max-size-messages message-counter-history-day-limit min-expiry-delay
    no-expiry page-full-policy page-limit-bytes page-limit-messages page-max-cache-size page-size-bytes
    prefetch-page-bytes prefetch-page-messages queue-prefetch redelivery-collision-avoidance-factor
    redelivery-delay redelivery-delay-multiplier redistribution-delay retroactive-message-count
    send-to-dla-on-no-route slow-consumer-check-period slow-consumer-policy slow-consumer-threshold
    slow-consumer-threshold-measurement-unit
    """
)

DIVERT_ELEMENTS: Final = _names(
    """
    address exclusive filter forwarding-address routing-name routing-type transformer transformer-class-name
    """
)

QUEUE_ATTRIBUTES: Final = _names(
    """
    consumers-before-dispatch delay-before-dispatch enabled exclusive group-buckets group-first-key
    group-rebalance group-rebalance-pause-dispatch last-value last-value-key max-consumers name non-destructive
    purge-on-no-consumers ring-size
    """
)

OWN_NAMES: Final = _names(
    """
    default-ring-eviction ring-eviction
    """
)
"""Settings and attributes of queues that Artemis does not have: it refuses a file with one of them."""

ACCEPTOR_PARAMETERS: Final = _names(
    """
    ackManagerFlushTimeout actorThresholdBytes allowLinkStealing amqpCredits amqpDrainOnTransientDeliveryErrors
    amqpDuplicateDetection amqpIdleTimeout amqpLinkQuiesceTimeout amqpLowCredits amqpMinLargeMessageSize
    amqpTreatRejectAsUnmodifiedDeliveryFailed amqpUseModifiedForTransientDeliveryErrors anycastPrefix autoStart
    backlog batchDelay brokerName closeMqttConnectionOnPublishAuthorizationFailure clusterConnection connectionTtl
    connectionTtlMax connectionTtlMin connectionsAllowed crlPath defaultMaximumInFlightPublishMessages
    defaultMqttSessionExpiryInterval directDeliver enabledCipherSuites enabledProtocols handshake-timeout
    heartBeatToConnectionTtlModifier httpEnabled httpUpgradeEnabled initialRemoteMaxFrameSize keyStoreAlias
    keyStorePassword keyStorePath keyStoreProvider keyStoreType maxFrameSize maxInactivityDuration
    maxInactivityDurationInitalDelay maximumPacketSize mirrorMaxPendingAcks multicastPrefix needClientAuth
    openWireDestinationCacheSize openwireMaxPacketChunkSize openwireUseDuplicateDetectionOnFailover protocols
    proxyProtocolEnabled pubSubPrefix quietPeriod rebalanceClusterClients receiveMaximum remotingThreads router
    saslLoginConfigScope saslMechanisms securityDomain serverKeepAlive shutdownTimeout sniHost socksEnabled
    sslAutoReload sslContext sslEnabled sslProvider supportAdvisory suppressInternalManagementObjects tcpNoDelay
    tcpReceiveBufferSize tcpSendBufferSize topicAliasMaximum trustAll trustManagerFactoryPlugin
    trustStorePassword trustStorePath trustStoreProvider trustStoreType updateClusterClients
    updateClusterClientsOnRemove useEpoll useKQueue useKeepAlive verifyHost virtualTopicConsumerLruCacheMax
    virtualTopicConsumerWildcards wantClientAuth webSocketCompressionSupported webSocketEncoderType
    webSocketMaxFramePayloadLength writeBufferHighWaterMark writeBufferLowWaterMark
    """
)

PROTOCOLS: Final = frozenset(["AMQP", "CORE", "HORNETQ", "MQTT", "OPENWIRE", "STOMP"])

SASL_MECHANISMS: Final = frozenset(["GSSAPI", "SCRAM-SHA-512"])
"""Mechanisms that this broker does not support."""

PERMISSIONS: Final = frozenset(["edit", "view"])
"""Permissions that this broker does not support."""

RENAMED: Final = {
    "auto-create-jms-queues": "auto-create-queues",
    "auto-create-jms-topics": "auto-create-addresses",
    "auto-delete-jms-queues": "auto-delete-queues",
    "auto-delete-jms-topics": "auto-delete-addresses",
    "last-value-queue": "default-last-value-queue",
    "queues": "addresses",
    "temporary-queue-namespace": "uuid-namespace",
    "wild-card-routing-enabled": "routing-enabled within wildcard-addresses",
}
"""Deprecated names, each with the supported one."""

_ONE_FILE: Final = "the store is one file in journal-directory, whose free space is reused"
_ONE_COMMIT: Final = "each commit stores what arrived during the one before it, there is no buffer to size"
_ALL_IN_ONE: Final = "everything that is stored is in journal-directory"

WITHOUT_MEANING: Final = {
    "bindings-directory": _ALL_IN_ONE,
    "create-bindings-dir": _ALL_IN_ONE,
    "journal-type": "LMDB does the input and output",
    "journal-max-io": "one commit runs at a time",
    "journal-datasync": "every commit is synced to the disk",
    "large-message-sync": "every commit is synced to the disk",
    "page-sync-timeout": "every commit is synced to the disk",
    "journal-buffer-size": _ONE_COMMIT,
    "journal-buffer-timeout": _ONE_COMMIT,
    "journal-device-block-size": _ONE_FILE,
    "journal-file-open-timeout": _ONE_FILE,
    "journal-file-size": _ONE_FILE,
    "journal-max-attic-files": _ONE_FILE,
    "journal-min-files": _ONE_FILE,
    "journal-pool-files": _ONE_FILE,
    "journal-compact-min-files": f"{_ONE_FILE}; `artemis-py data compact` makes it smaller",
    "journal-compact-percentage": f"{_ONE_FILE}; `artemis-py data compact` makes it smaller",
    "page-max-concurrent-io": "there are no page files",
    "purge-page-folders": "there are no page files",
    "read-whole-page": "there are no page files",
}
"""Elements of core about how Artemis stores messages, with the reason why they have no effect here. Ignoring them does
no harm, so a file made for Artemis may keep them; a warning says so."""

_REASONS: Final = {
    "journal-lock-acquisition-timeout": "a second broker on the folder does not wait, it is refused at once",
    "journal-retention-directory": "consumed messages are deleted, there is nothing to replay",
    "node-manager-lock-directory": "the lock is in journal-directory",
    "store": "messages are stored in journal-directory, in no other database",
}
"""Reasons why an element is refused, where "not yet" would be wrong."""

# By parent element; a parent is missing here if Artemis has no more children of it than this broker.
CHILDREN: Final = {
    "core": CORE_ELEMENTS,
    "address-setting": ADDRESS_SETTINGS,
    "divert": DIVERT_ELEMENTS,
    "security-settings": frozenset(["security-setting-plugin"]),
}


def unsupported(name: str) -> str:
    """Return the message for a name that Artemis knows and this broker does not."""
    if name in RENAMED:
        return f"is an old name; write {RENAMED[name]}"
    if name in _REASONS:
        return f"known to Artemis, not supported by artemis_py: {_REASONS[name]}; remove it"
    return "known to Artemis, not supported by artemis_py yet; remove it"
