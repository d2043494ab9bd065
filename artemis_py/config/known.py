"""The names that Artemis 2.44 knows: the schema has those that this broker reads, `verdicts` has the others.

See artemis-model §2.1, §2.2, §3.2, §4.1.1, §4.2.1, §4.3.1, §6.3, §6.4, §6.5.
"""

from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


CORE_ELEMENTS: Final = _names(
    """
    acceptors address-queue-scan-period address-settings addresses allow-failback amqp-use-core-subscription-naming
    async-connection-execution-enabled authentication-cache-size authorization-cache-size bindings-directory bridges
    broadcast-groups broker-connections broker-plugins cluster-connections cluster-password cluster-user
    configuration-file-refresh-period connection-routers connection-ttl-check-interval connection-ttl-override
    connector-services connectors create-bindings-dir create-journal-dir critical-analyzer
    critical-analyzer-check-period critical-analyzer-policy critical-analyzer-timeout discovery-groups
    disk-scan-period diverts federations global-max-messages global-max-size
    global-max-size-percent-of-jvm-max-memory graceful-shutdown-enabled graceful-shutdown-timeout grouping-handler
    ha-policy id-cache-size internal-naming-prefix jmx-domain jmx-management-enabled jmx-use-broker-name
    journal-buffer-size journal-buffer-timeout journal-compact-min-files journal-compact-percentage journal-datasync
    journal-device-block-size journal-directory journal-file-open-timeout journal-file-size
    journal-lock-acquisition-timeout journal-max-attic-files journal-max-io journal-min-files journal-pool-files
    journal-retention-directory journal-sync-non-transactional journal-sync-transactional journal-type
    large-message-sync large-messages-directory literal-match-markers log-delegate-factory-class-name
    log-journal-write-rate management-address management-message-rbac management-notification-address
    management-rbac-prefix mask-password max-disk-usage max-redelivery-records memory-measure-interval
    memory-warning-threshold message-counter-enabled message-counter-max-day-history message-counter-sample-period
    message-expiry-scan-period message-expiry-thread-priority metrics metrics-plugin min-disk-free
    mirror-ack-manager-page-attempts mirror-ack-manager-queue-attempts mirror-ack-manager-retry-delay
    mirror-ack-manager-warn-unacked mirror-page-transaction mqtt-session-scan-interval
    mqtt-session-state-persistence-timeout mqtt-subscription-persistence-enabled name network-check-list
    network-check-NIC network-check-period network-check-ping-command network-check-ping6-command
    network-check-timeout network-check-URL-list node-manager-lock-directory page-max-concurrent-io
    page-sync-timeout paging-directory password-codec persist-delivery-count-before-delivery persist-id-cache
    persistence-enabled populate-validated-user purge-page-folders queues read-whole-page
    reject-empty-validated-user remoting-incoming-interceptors remoting-outgoing-interceptors resolve-protocols
    resource-limit-settings scheduled-thread-pool-max-size security-enabled security-invalidation-interval
    security-settings server-dump-interval store suppress-session-notifications system-property-prefix
    temporary-queue-namespace thread-pool-max-size transaction-timeout transaction-timeout-scan-period
    uuid-namespace view-permission-method-match-pattern wild-card-routing-enabled wildcard-addresses
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

CLUSTER_ELEMENTS: Final = _names(
    """
    address call-failover-timeout call-timeout check-period client-id confirmation-window-size connection-ttl
    connector-ref discovery-group-ref forward-when-no-consumers initial-connect-attempts max-hops max-retry-interval
    message-load-balancing min-large-message-size notification-attempts notification-interval producer-window-size
    reconnect-attempts retry-interval retry-interval-multiplier static-connectors topology-scanner-attempts
    use-duplicate-detection
    """
)

ROUTER_ELEMENTS: Final = _names("cache key-filter key-transformer key-type local-target-filter policy pool")

ROUTER_POOL_ELEMENTS: Final = _names(
    """
    check-period cluster-connection discovery-group-ref local-target-enabled password quorum-size quorum-timeout
    static-connectors username
    """
)

DISCOVERY_ELEMENTS: Final = _names(
    """
    group-address group-port initial-wait-timeout jgroups-channel jgroups-file local-bind-address local-bind-port
    refresh-timeout
    """
)

DIVERT_ELEMENTS: Final = _names(
    """
    address exclusive filter forwarding-address routing-name routing-type transformer transformer-class-name
    """
)

AMQP_CONNECTION_NAMES: Final = _names(
    """
    address-match auto-start bridge federation mirror name password peer queue-name receiver reconnect-attempts
    retry-interval sender uri user
    """
)

BRIDGE_ELEMENTS: Final = _names(
    """
    call-timeout check-period client-id concurrency confirmation-window-size connection-ttl discovery-group-ref filter
    forwarding-address ha initial-connect-attempts max-retry-interval min-large-message-size password
    pending-ack-timeout producer-window-size queue-name reconnect-attempts reconnect-attempts-same-node
    retry-interval retry-interval-multiplier routing-type static-connectors transformer transformer-class-name
    use-duplicate-detection user
    """
)

QUEUE_ATTRIBUTES: Final = _names(
    """
    consumers-before-dispatch delay-before-dispatch enabled exclusive group-buckets group-first-key
    group-rebalance group-rebalance-pause-dispatch last-value last-value-key max-consumers name non-destructive
    purge-on-no-consumers ring-size
    """
)

RESOURCE_LIMIT_ELEMENTS: Final = _names("max-connections max-queues max-sessions")

OWN_NAMES: Final = _names(
    """
    client-connectors consumer-priority-adjustment default-ring-eviction dns interest-detail local-connector
    remote-address ring-eviction standing-grant write-ahead-log write-ahead-log-max-age write-ahead-log-max-size
    zeroconf
    """
)
"""Elements and attributes that Artemis does not have: it refuses a file with one of them."""

ACCEPTOR_PARAMETERS: Final = _names(
    """
    ackManagerFlushTimeout activemqServerName actorThresholdBytes allowLinkStealing amqpCredits
    amqpDrainOnTransientDeliveryErrors amqpDuplicateDetection amqpIdleTimeout amqpLinkQuiesceTimeout amqpLowCredits
    amqpMinLargeMessageSize amqpTreatRejectAsUnmodifiedDeliveryFailed amqpUseModifiedForTransientDeliveryErrors
    anycastPrefix autoStart backlog batchDelay brokerName closeMqttConnectionOnPublishAuthorizationFailure
    clusterConnection connect-timeout-millis connectionsAllowed connectionTtl connectionTtlMax connectionTtlMin
    crlPath defaultMaximumInFlightPublishMessages defaultMqttSessionExpiryInterval directDeliver
    disableStompServerHeader enabledCipherSuites enabledProtocols forceSSLParameters handshake-timeout
    heartBeatToConnectionTtlModifier httpClientIdleScanPeriod httpClientIdleTime httpEnabled httpRequiresSessionId
    httpResponseTime httpServerScanPeriod httpUpgradeEnabled httpUpgradeEndpoint initialRemoteMaxFrameSize
    keyStoreAlias keyStorePassword keyStorePath keyStoreProvider keyStoreType localAddress localPort maxFrameSize
    maximumPacketSize maxInactivityDuration maxInactivityDurationInitalDelay mirrorMaxPendingAcks multicastPrefix
    needClientAuth nioRemotingThreads openWireDestinationCacheSize openwireMaxPacketChunkSize
    openwireUseDuplicateDetectionOnFailover protocols proxyProtocolEnabled pubSubPrefix quietPeriod
    rebalanceClusterClients receiveMaximum remotingThreads router saslLoginConfigScope saslMechanisms securityDomain
    serverId serverKeepAlive servletPath shutdownTimeout sniHost socksEnabled socksHost socksPassword socksPort
    socksRemoteDNS socksUsername socksVersion sslAutoReload sslContext sslEnabled sslProvider
    stomp-enable-message-id stomp-min-large-message-size stompConsumerCredits stompConsumerWindowSize
    stompEnableMessageId stompMaxFramePayloadLength stompMinLargeMessageSize supportAdvisory
    suppressInternalManagementObjects tcpNoDelay tcpReceiveBufferSize tcpSendBufferSize topicAliasMaximum trustAll
    trustManagerFactoryPlugin trustStorePassword trustStorePath trustStoreProvider trustStoreType
    updateClusterClients updateClusterClientsOnRemove useDefaultSslContext useEpoll useGlobalWorkerPool useKeepAlive
    useKQueue useNio useNioGlobalWorkerPool useServlet verifyHost virtualTopicConsumerLruCacheMax
    virtualTopicConsumerWildcards wantClientAuth webSocketCompressionSupported webSocketEncoderType
    webSocketMaxFramePayloadLength writeBufferHighWaterMark writeBufferLowWaterMark
    """
)
