"""What becomes of the elements and attributes of an activemq.xml.

Names are `element` and `element.attribute`. The outcome is the usual one; where it depends on the value, the reader
reports another one, and the text here says so.
"""

from typing import Final

from artemis_py.migrate.rules import Rule, Table, changed, dropped, kept, needless

_TUNING: Final = "tunes the inside of ActiveMQ; there is no such part here"
_STORE: Final = "the store of this broker is another one, and needs no tuning"
_JAVA: Final = "is about Java"
_CLIENT: Final = (
    "is for the client to say, in its URL: `jms.prefetchPolicy.all=N`, or `consumer.prefetchSize` of a queue"
)
_ADVISORY: Final = "there are no advisories about single messages"
_NETWORK: Final = (
    "write it by hand: brokers of this kind make a mesh, which no broker of ActiveMQ can join; "
    "`artemis-py create --clustered` shows how"
)
_OTHERS: Final = "clients are told of all brokers of the mesh, at the addresses that these give for themselves"
_CONSOLE: Final = "there is no JMX; <web> in broker.xml gives a console and an API (docs/http.md)"

BROKER: Final[tuple[Rule | tuple[Rule, ...], ...]] = (
    kept("broker.brokerName", "`name`"),
    kept("broker.persistent", "`persistence-enabled`"),
    kept("broker.advisorySupport", "`supportAdvisory` of every acceptor"),
    kept("broker.schedulerSupport", "delayed messages are always supported; `false` does not switch them off"),
    kept("broker.schedulePeriodForDestinationPurge", "`address-queue-scan-period`; 0, the default: nothing is deleted"),
    kept("broker.populateJMSXUserID", "`populate-validated-user`"),
    kept("broker.useVirtualTopics", "`virtualTopicConsumerWildcards` of every acceptor"),
    kept("broker.offlineDurableSubscriberTimeout", "-1: durable subscriptions stay until they are unsubscribed"),
    changed("broker.dataDirectory", "the new store is `data/journal` of the instance; it begins empty"),
    changed("broker.tmpDataDirectory", "`data/paging` of the instance"),
    changed("broker.schedulerDirectoryFile", "scheduled messages are in the store"),
    *dropped("broker.deleteAllMessagesOnStartup", "nothing is deleted at a start; remove `data`, or do not persist"),
    *dropped("broker.plugins", "plugins by reference may guard the broker: nobody is let in until you write users"),
    *dropped("broker.useMirroredQueues", "there are no mirrored queues; declare a divert for each queue"),
    *dropped("broker.rejectDurableConsumers", "take the permission `createDurableQueue` from the roles instead"),
    *dropped(
        "broker.maxUncommittedCount broker.maxUncommittedExceeded",
        "a transaction has no limit of its own, only `transaction-timeout` and the memory",
    ),
    *needless("broker.useJmx broker.managementContext managementContext broker.adminView", _CONSOLE),
    *needless(
        "broker.useShutdownHook broker.start broker.startAsync broker.systemExitOnShutdown broker.vmConnectorURI "
        "broker.systemExitOnShutdownExitCode broker.useLoggingForShutdownErrors broker.registerMBeansBroker "
        "broker.waitForSlave broker.waitForSlaveTimeout broker.shutdownOnMasterFailure broker.shutdownOnSlaveFailure "
        "broker.restartAllowed broker.useLocalHostBrokerName broker.dedicatedTaskRunner broker.taskRunnerPriority "
        "shutdownHooks broker.brokerId broker.rollbackOnlyOnAsyncException",
        _JAVA,
    ),
    *needless(
        "broker.splitSystemUsageForProducersConsumers broker.producerSystemUsagePortion broker.cacheTempDestinations "
        "broker.consumerSystemUsagePortion broker.keepDurableSubsActive broker.enableStatistics "
        "broker.timeBeforePurgeTempDestinations broker.useTempMirroredQueues broker.monitorConnectionSplits "
        "broker.maxPurgedDestinationsPerSweep broker.networkConnectorStartAsync broker.storeOpenWireVersion "
        "broker.supportFailOver broker.passiveSlave broker.maxSchedulerRepeatAllowed broker.slave "
        "broker.persistenceThreadPriority broker.adjustUsageLimits broker.offlineDurableSubscriberTaskSchedule "
        "broker.diskUsageCheckRegrowThreshold broker.schedulePeriodForDiskUsageCheck broker.schedulerDirectory "
        "broker.allowTempAutoCreationOnSend broker.useAuthenticatedPrincipalForJMSXUserID",
        _TUNING,
    ),
    *needless("*.id *.schemaLocation *.base *.lang *.depends-on *.lazy-init *.destroy-method *.init-method", _JAVA),
)

CONNECTORS: Final[tuple[Rule | tuple[Rule, ...], ...]] = (
    kept("transportConnector", "an acceptor for the protocol of its URI"),
    kept("transportConnector.name", "`name` of the acceptor"),
    kept("transportConnector.uri", "host and port of the acceptor; its options have lines of their own"),
    kept("transportConnector.allowLinkStealing", "`openwireAllowLinkStealing`, and `allowLinkStealing` for MQTT"),
    *(
        kept(f"transportConnector.{name}", f"`{name}`, for the brokers of a mesh")
        for name in ("updateClusterClients", "updateClusterClientsOnRemove", "rebalanceClusterClients")
    ),
    *dropped("transportConnector.updateClusterFilter", _OTHERS),
    *dropped("transportConnector.discoveryUri", "brokers of a mesh find each other by a `discovery-group`, or by name"),
    *dropped(
        "transportConnector.maximumProducersAllowedPerConnection "
        "transportConnector.maximumConsumersAllowedPerConnection",
        "a connection has fixed limits: 16,384 producers and as many consumers",
    ),
    *dropped("transportConnector.messageAuthorizationPolicy", "code of Java; use permissions, and filters of queues"),
    *needless(
        "transportConnector.enableStatusMonitor transportConnector.disableAsyncDispatch "
        "transportConnector.warnOnRemoteClose transportConnector.displayStackTrace "
        "transportConnector.auditNetworkProducers transportConnector.publishedAddressPolicy",
        _TUNING,
    ),
    kept("uri.maximumConnections", "`connectionsAllowed`"),
    kept("uri.wireFormat.maxFrameSize", "`openwireMaxFrameSize`, `amqpMaxMessageSize`, `maximumPacketSize` (MQTT)"),
    kept("uri.wireFormat.maxInactivityDuration", "`maxInactivityDuration`"),
    kept("uri.wireFormat.maxInactivityDurationInitalDelay", "`maxInactivityDurationInitalDelay`"),
    kept("uri.wireFormat.idleTimeout", "`amqpIdleTimeout`"),
    kept("uri.wireFormat.connectAttemptTimeout", "`handshake-timeout`"),
    kept("uri.needClientAuth", "`needClientAuth`, which needs a trust store in `sslContext`"),
    kept("uri.tcpNoDelay", "`tcpNoDelay`"),
    kept("uri.backlog", "`backlog`"),
    *dropped("uri.wantClientAuth", "a certificate is asked for always (`needClientAuth`) or never"),
    *dropped("uri.verifyHostName", "the host name of a client is not compared with its certificate"),
    *dropped("uri.subscriptionStrategy", "an MQTT session has a queue for each subscription"),
    *needless(
        "uri.enabledProtocols uri.enabledCipherSuites uri.socket.enabledProtocols uri.socket.enabledCipherSuites",
        "TLS 1.2 and 1.3 only, with the ciphers of the system",
    ),
    *needless("uri.transformer", "every protocol gets the form of message that it knows"),
    *needless(
        "uri.trace uri.soTimeout uri.soWriteTimeout uri.daemon uri.closeAsync uri.keepAlive uri.ioBufferSize "
        "uri.socketBufferSize uri.soLinger uri.wireFormat.cacheEnabled uri.wireFormat.tightEncodingEnabled "
        "uri.wireFormat.cacheSize uri.wireFormat.stackTraceEnabled uri.wireFormat.sizePrefixDisabled "
        "uri.wireFormat.tcpNoDelayEnabled uri.wireFormat uri.connectionTimeout uri.useInactivityMonitor "
        "uri.threadName uri.useKeepAlive uri.selectorManager.corePoolSize uri.selectorManager.maximumPoolSize "
        "uri.selectorManager.workQueueCapacity uri.wireFormat.enableHandshake uri.useLocalHost "
        "uri.minmumWireFormatVersion uri.wireFormat.version uri.typeOfService uri.trafficClass "
        "uri.wireFormat.prefetch uri.wireFormat.maxAmqpHeaderSize uri.wireFormat.trackOpenWire uri.stackSize "
        "uri.wireFormat.maxFrameSizeEnabled uri.publishDollarTopics uri.defaultKeepAlive uri.hbGracePeriodMultiplier "
        "uri.wireFormat.allowNonSaslConnections uri.jms.useAsyncSend uri.acceptTimeout",
        _TUNING,
    ),
    kept("sslContext", "PEM files for `keyStorePath` and `trustStorePath` of the acceptors with TLS"),
    kept("sslContext.keyStore", "a PEM file with the key and its certificates"),
    kept("sslContext.trustStore", "a PEM file with the certificates that may sign those of clients"),
    *needless(
        "sslContext.keyStorePassword sslContext.keyStoreKeyPassword sslContext.trustStorePassword "
        "sslContext.keyStoreType sslContext.trustStoreType sslContext.provider sslContext.protocol "
        "sslContext.keyStoreAlgorithm sslContext.trustStoreAlgorithm sslContext.secureRandomAlgorithm",
        "opens the old key store; the new file is readable by its owner only",
    ),
    *dropped("sslContext.crlPath", "revoked certificates are not checked"),
)

POLICIES: Final[tuple[Rule | tuple[Rule, ...], ...]] = (
    kept("policyEntry", "an `address-setting`"),
    kept("policyEntry.queue", "`match`, with `#` for `>`; settings are the same for queues and topics of one name"),
    kept("policyEntry.topic", "`match`, with `#` for `>`; a setting of the queue of the same name counts first"),
    *dropped("policyEntry.tempQueue policyEntry.tempTopic", "temporary destinations have no settings of their own"),
    changed(
        "policyEntry.memoryLimit",
        "`max-size-bytes`; further messages go to disk, or the producer waits (`producerFlowControl`)",
    ),
    changed(
        "policyEntry.producerFlowControl",
        "`address-full-policy`: BLOCK if it is true and cursors are in memory (vmCursor), else PAGE: messages that do "
        "not fit into memory go to disk, and producers wait only for the disk",
    ),
    kept("policyEntry.gcInactiveDestinations", "`auto-delete-queues`, `auto-delete-addresses`"),
    kept("policyEntry.inactiveTimeoutBeforeGC", "`auto-delete-queues-delay` and `auto-delete-addresses-delay`"),
    kept("policyEntry.inactiveTimoutBeforeGC", "`auto-delete-queues-delay` and `auto-delete-addresses-delay`"),
    changed("policyEntry.expireMessagesPeriod", "`message-expiry-scan-period`: the shortest one, for the whole broker"),
    kept("policyEntry.consumersBeforeDispatchStarts", "`default-consumers-before-dispatch`"),
    kept("policyEntry.timeBeforeDispatchStarts", "`default-delay-before-dispatch`"),
    kept("policyEntry.allConsumersExclusiveByDefault", "`default-exclusive-queue`"),
    kept("policyEntry.prioritizedMessages", "true: always so"),
    changed(
        "policyEntry.alwaysRetroactive", "always so, where the address keeps messages (`retroactive-message-count`)"
    ),
    changed(
        "policyEntry.messageGroupMapFactoryType", "`default-group-buckets` for `bucket`; `cached`, `simple`: no limit"
    ),
    needless("messageGroupMapFactory simpleMessageGroupMapFactory cachedMessageGroupMapFactory", "the default here"),
    needless("cachedMessageGroupMapFactory.cacheSize", "every group keeps its owner"),
    kept("messageGroupHashBucketFactory.bucketCount", "`default-group-buckets`"),
    kept("messageGroupHashBucketFactory", "`default-group-buckets`"),
    *dropped("policyEntry.strictOrderDispatch", "messages that come back are put at their old place, so order is kept"),
    *dropped(
        "policyEntry.queuePrefetch policyEntry.topicPrefetch policyEntry.durableTopicPrefetch "
        "policyEntry.queueBrowserPrefetch policyEntry.optimizeDurableTopicPrefetch",
        _CLIENT,
    ),
    *dropped(
        "policyEntry.advisoryForConsumed policyEntry.advisoryForDelivery policyEntry.advisoryForDiscardingMessages "
        "policyEntry.advisoryForSlowConsumers policyEntry.advisoryForFastProducers policyEntry.advisoryWhenFull "
        "policyEntry.advisoryForDispatched policyEntry.includeBodyForAdvisory policyEntry.sendAdvisoryIfNoConsumers",
        _ADVISORY,
    ),
    *dropped("policyEntry.maxDestinations", "a limit for each user instead: `max-auto-created-per-user`"),
    *dropped("policyEntry.useConsumerPriority", "consumers of a higher priority are always served first"),
    *needless(
        "policyEntry.lazyDispatch policyEntry.optimizedDispatch policyEntry.useCache policyEntry.maxPageSize "
        "policyEntry.maxBrowsePageSize policyEntry.maxExpirePageSize policyEntry.cursorMemoryHighWaterMark "
        "policyEntry.storeUsageHighWaterMark policyEntry.enableAudit policyEntry.maxProducersToAudit "
        "policyEntry.maxAuditDepth policyEntry.maxQueueAuditDepth policyEntry.reduceMemoryFootprint "
        "policyEntry.doOptimzeMessageStorage policyEntry.optimizeMessageStoreInFlightLimit "
        "policyEntry.minimumMessageSize policyEntry.usePrefetchExtension policyEntry.useTopicSubscriptionInflightStats "
        "policyEntry.blockedProducerWarningInterval policyEntry.gcWithNetworkConsumers "
        "policyEntry.gcWithOnlyWildcardConsumers policyEntry.persistJMSRedelivered "
        "policyEntry.sendDuplicateFromStoreToDLQ policyEntry.allowTempDestinationStealing "
        "policyEntry.advancedMessageStatisticsEnabled policyEntry.advancedNetworkStatisticsEnabled "
        "policyEntry.durableTopicPrefetchExtension policyEntry.usePriorityDispatch policyEntry.sendFailIfNoSpace",
        _TUNING,
    ),
    kept("sharedDeadLetterStrategy", "`dead-letter-address` and `expiry-address`"),
    kept("sharedDeadLetterStrategy.deadLetterQueue", "`dead-letter-address`"),
    kept(
        "individualDeadLetterStrategy",
        "`auto-create-dead-letter-resources` and `-expiry-resources`: a queue for each address on ActiveMQ.DLQ",
    ),
    kept("individualDeadLetterStrategy.queuePrefix", "`dead-letter-queue-prefix`, `expiry-queue-prefix`"),
    kept("individualDeadLetterStrategy.queueSuffix", "`dead-letter-queue-suffix`, `expiry-queue-suffix`"),
    changed(
        "individualDeadLetterStrategy.topicPrefix",
        "as `queuePrefix`, if the entry is for topics; the result is a queue",
    ),
    changed("individualDeadLetterStrategy.topicSuffix", "as `queueSuffix`, if the entry is for topics"),
    changed("individualDeadLetterStrategy.useQueueForQueueMessages", "dead letters are always in queues"),
    changed("individualDeadLetterStrategy.useQueueForTopicMessages", "dead letters are always in queues"),
    *dropped("individualDeadLetterStrategy.destinationPerDurableSubscriber", "one queue for each address"),
    kept("discarding", "an empty `dead-letter-address`: they are discarded, with a line in the log"),
    kept("*.processExpired", "`expiry-address`; empty if false"),
    changed("*.processNonPersistent", "messages that are not persistent become dead letters, too, even if false"),
    *dropped("*.expiration", "dead letters stay until they are consumed"),
    *needless("*.enableAudit *.maxProducersToAudit *.maxAuditDepth *.rollback", _TUNING),
    changed(
        "constantPendingMessageLimitStrategy",
        "nothing is discarded: messages for a slow subscriber go to disk. `default-ring-size` would discard, but in "
        "all queues of the address, those of durable subscribers, too",
    ),
    changed("prefetchRatePendingMessageLimitStrategy", "as constantPendingMessageLimitStrategy"),
    needless(
        "constantPendingMessageLimitStrategy.limit prefetchRatePendingMessageLimitStrategy.multiplier",
        "see the element",
    ),
    changed(
        "abortSlowConsumerStrategy",
        "`slow-consumer-policy` KILL: the connection of a consumer is ended that has messages and acknowledges none",
    ),
    changed(
        "abortSlowConsumerStrategy.maxSlowDuration", "the time in which one is to be acknowledged; 30 s if missing"
    ),
    changed("abortSlowAckConsumerStrategy", "as abortSlowConsumerStrategy"),
    changed("abortSlowAckConsumerStrategy.maxTimeSinceLastAck", "the time for one; 30 s if missing"),
    *dropped(
        "abortSlowConsumerStrategy.maxSlowCount abortSlowAckConsumerStrategy.maxSlowCount "
        "abortSlowAckConsumerStrategy.maxSlowDuration",
        "the first time is enough",
    ),
    *needless(
        "abortSlowConsumerStrategy.checkPeriod abortSlowAckConsumerStrategy.checkPeriod "
        "abortSlowConsumerStrategy.ignoreNetworkConsumers abortSlowAckConsumerStrategy.ignoreNetworkConsumers "
        "abortSlowAckConsumerStrategy.ignoreIdleConsumers",
        "consumers are looked at as often as is needed, idle ones and brokers are never slow",
    ),
    *dropped(
        "abortSlowConsumerStrategy.abortConnection abortSlowAckConsumerStrategy.abortConnection",
        "the connection is always ended, a consumer alone is not",
    ),
    *needless("messageEvictionStrategy", "nothing is discarded for slow subscribers"),
    needless("roundRobinDispatchPolicy simpleDispatchPolicy", "the default here"),
    needless("strictOrderDispatchPolicy", "each subscriber has a queue of its own, in the order of arrival"),
    *dropped("priorityDispatchPolicy", "consumers say their priority themselves: `consumer.priority`"),
    *dropped(
        "priorityNetworkDispatchPolicy clientIdFilterDispatchPolicy", "code of ActiveMQ; give consumers selectors"
    ),
    changed(
        "fixedCountSubscriptionRecoveryPolicy.maximumSize", "`retroactive-message-count`, for every new subscription"
    ),
    changed("fixedCountSubscriptionRecoveryPolicy", "`retroactive-message-count`, 100 if it names no number"),
    changed("lastImageSubscriptionRecoveryPolicy", "`retroactive-message-count` of 1, for every new subscription"),
    needless("noSubscriptionRecoveryPolicy", "the default here"),
    needless("retainedMessageSubscriptionRecoveryPolicy", "retained messages of MQTT always work"),
    *dropped(
        "timedSubscriptionRecoveryPolicy fixedSizedSubscriptionRecoveryPolicy queryBasedSubscriptionRecoveryPolicy",
        "an address keeps a number of messages: set `retroactive-message-count`",
    ),
    needless(
        "vmCursor vmQueueCursor vmDurableCursor storeCursor storeDurableSubscriberCursor fileCursor fileQueueCursor "
        "fileDurableSubscriberCursor",
        "waiting messages are in memory while they fit, and on disk; see `producerFlowControl`",
    ),
    *dropped(
        "networkBridgeFilterFactory", "consumers decide what goes to another broker of a mesh; give them selectors"
    ),
    *dropped("messageInterceptorStrategy", "code of ActiveMQ; a divert with a transformer changes messages"),
)

INTERCEPTORS: Final[tuple[Rule | tuple[Rule, ...], ...]] = (
    kept("virtualTopic", "an entry in `virtualTopicConsumerWildcards` of every acceptor"),
    kept("virtualTopic.name", "end of the pattern"),
    kept("virtualTopic.prefix", "beginning of the pattern, and the number of words to leave out"),
    kept("virtualTopic.selectorAware", "`selectorAware=true` of the entry"),
    *dropped("virtualTopic.postfix", "only prefixes are supported, so the whole virtual topic is left out"),
    needless("virtualTopic.local virtualTopic.concurrentSend virtualTopic.transactedSend", _TUNING),
    needless("virtualTopic.dropOnResourceLimit virtualTopic.setOriginalDestination", _TUNING),
    kept("compositeQueue.name", "`address` of the divert"),
    kept("compositeTopic.name", "`address` of the divert"),
    kept("compositeQueue", "a divert with `exclusive`"),
    kept("compositeTopic", "a divert with `exclusive`"),
    kept("*.forwardOnly", "`exclusive`; true if it is missing"),
    needless("*.copyMessage *.concurrentSend", "every copy is a message of its own"),
    kept("filteredDestination", "`filter` of the divert"),
    *dropped("mirroredQueue", "there are no mirrored queues; declare a divert for each queue"),
    kept("destinations", "`addresses`"),
)

USAGE: Final[tuple[Rule | tuple[Rule, ...], ...]] = (
    kept("systemUsage.sendFailIfNoSpace", "`disk-full-policy` FAIL: senders are refused at once instead of waiting"),
    changed("systemUsage.sendFailIfNoSpaceAfterTimeout", "`disk-full-policy` FAIL: they are refused at once"),
    *needless("systemUsage.checkLimitsLogLevel", "the log has a line when the disk is full"),
    kept("memoryUsage.limit", "`global-max-size`"),
    changed("memoryUsage.percentOfJvmHeap", "`global-max-size` is half of the memory of the machine or container"),
    changed("storeUsage.limit", "the store may grow until 1 GiB of the disk is free (`min-disk-free`)"),
    changed("storeUsage.percentLimit", "`max-disk-usage`: of the whole disk, whatever is on it"),
    changed("tempUsage.limit", "as storeUsage"),
    changed("tempUsage.percentLimit", "as storeUsage"),
    needless(
        "*.percentUsageMinDelta *.usagePortion *.pollingTime "
        "storeUsage.total tempUsage.total storeUsage.name tempUsage.name memoryUsage.name",
        _TUNING,
    ),
    needless("storeUsage.store tempUsage.store jobSchedulerUsage", _STORE),
    changed(
        "kahaDB",
        "the store of this broker; it begins empty. Consume what the old broker has, or keep it until it is empty",
    ),
    changed("mKahaDB", "as kahaDB"),
    changed("levelDB", "as kahaDB"),
    changed("kahaPersistenceAdapter", "as kahaDB"),
    changed("amqPersistenceAdapter", "as kahaDB"),
    changed("journalPersistenceAdapter", "as kahaDB"),
    changed("jdbcPersistenceAdapter", "as kahaDB: messages are in files of this broker, in no database"),
    *dropped("replicatedLevelDB", "there are no replicated brokers yet"),
    kept("memoryPersistenceAdapter", "`persistence-enabled` false"),
    changed("journalPersistenceAdapterFactory", "as kahaDB"),
    needless("persistenceFactory persistenceAdapter tempDataStore jobSchedulerStore pListStore", _STORE),
    changed("kahaDB.enableJournalDiskSyncs", "`journal-sync-transactional` and `journal-sync-non-transactional`"),
    changed("kahaDB.journalDiskSyncStrategy", "as enableJournalDiskSyncs: `never` is false, the others are true"),
)

PLUGINS: Final[tuple[Rule | tuple[Rule, ...], ...]] = (
    kept("simpleAuthenticationPlugin", "`artemis-users.properties` and `artemis-roles.properties`"),
    kept("simpleAuthenticationPlugin.anonymousAccessAllowed", "`anonymous-access` EVERYWHERE"),
    kept("simpleAuthenticationPlugin.anonymousGroup", "`anonymous-roles`"),
    needless("simpleAuthenticationPlugin.anonymousUser", "a client without a name has no name"),
    kept("authenticationUser.username", "a user; the password is hashed"),
    kept("authenticationUser.password", "its hash"),
    kept("authenticationUser.groups", "the roles of the user"),
    kept("jaasAuthenticationPlugin", "users, groups and guests of the entry in `login.config`"),
    kept("jaasAuthenticationPlugin.configuration", "name of the entry"),
    kept("jaasDualAuthenticationPlugin.configuration", "name of the entry"),
    *dropped("jaasDualAuthenticationPlugin.sslConfiguration", "users with certificates are not carried over"),
    *dropped(
        "jaasCertificateAuthenticationPlugin jaasDualAuthenticationPlugin",
        "users with certificates must be written into the roles file; until then nobody can log in that way",
    ),
    *dropped("jaasAuthenticationPlugin.discoverLoginConfig", "only the `login.config` beside the file is read"),
    kept("authorizationPlugin", "`security-settings`"),
    kept("authorizationEntry.queue", "`match`; grants of wider entries are added, as ActiveMQ does"),
    kept("authorizationEntry.topic", "`match`; the same, and one match for queues and topics of one name"),
    kept(
        "authorizationEntry.read", "`consume`, `browse`; for topics the permissions to create and delete subscriptions"
    ),
    kept("authorizationEntry.write", "`send`"),
    changed("authorizationEntry.admin", "all permissions to create and delete; those of `>` may also `manage`"),
    *needless("authorizationEntry.groupClass authorizationMap.groupClass", "roles have no class"),
    changed(
        "tempDestinationAuthorizationEntry",
        "temporary destinations of OpenWire have the permissions of `#`; those of AMQP, which are below the name "
        "`temporary` (`uuid-namespace`), have these. Dropped if a role has these and not those of `#`",
    ),
    kept("tempDestinationAuthorizationEntry.read", "`consume`, `browse`"),
    kept("tempDestinationAuthorizationEntry.write", "`send`"),
    kept("tempDestinationAuthorizationEntry.admin", "all permissions to create and delete"),
    needless("tempDestinationAuthorizationEntry.groupClass", "roles have no class"),
    *dropped(
        "cachedLDAPAuthorizationMap simpleAuthorizationMap",
        "not read: until you add permissions nobody may do anything",
    ),
    kept("timeStampingBrokerPlugin", "`expiry-delay` and `max-expiry-delay`"),
    kept("timeStampingBrokerPlugin.zeroExpirationOverride", "`expiry-delay`"),
    kept("timeStampingBrokerPlugin.ttlCeiling", "`max-expiry-delay`"),
    changed(
        "timeStampingBrokerPlugin.futureOnly", "expiry times stay as the client writes them; its clock must be right"
    ),
    needless("timeStampingBrokerPlugin.processNetworkMessages", "there is no network of brokers"),
    kept("redeliveryPlugin", "`redelivery-delay` and its neighbours, `max-delivery-attempts`"),
    needless("redeliveryPlugin.fallbackToDeadLetter redeliveryPlugin.sendToDlqIfMaxRetriesExceeded", "always so"),
    needless("redeliveryPolicyMap redeliveryPolicyEntries defaultEntry", "see redeliveryPolicy"),
    kept("redeliveryPolicy.maximumRedeliveries", "`max-delivery-attempts`, which is one more"),
    kept("redeliveryPolicy.redeliveryDelay", "`redelivery-delay`"),
    changed(
        "redeliveryPolicy.initialRedeliveryDelay", "`redelivery-delay`: the first delay, from which the others follow"
    ),
    kept("redeliveryPolicy.maximumRedeliveryDelay", "`max-redelivery-delay`"),
    kept("redeliveryPolicy.useExponentialBackOff", "`redelivery-delay-multiplier` is used only if true"),
    kept("redeliveryPolicy.backOffMultiplier", "`redelivery-delay-multiplier`"),
    kept("redeliveryPolicy.useCollisionAvoidance", "`redelivery-collision-avoidance-factor`"),
    kept("redeliveryPolicy.collisionAvoidancePercent", "`redelivery-collision-avoidance-factor`"),
    kept("redeliveryPolicy.queue", "`match`"),
    kept("redeliveryPolicy.topic", "`match`"),
    changed("discardingDLQBrokerPlugin.dropAll", "an empty `dead-letter-address` and `expiry-address` of `#`"),
    *dropped(
        "discardingDLQBrokerPlugin.dropOnly discardingDLQBrokerPlugin.dropTemporaryTopics "
        "discardingDLQBrokerPlugin.dropTemporaryQueues",
        "empty `dead-letter-address` of a match instead",
    ),
    needless("discardingDLQBrokerPlugin discardingDLQBrokerPlugin.reportInterval", "the log has a line for each kind"),
    *dropped("statisticsBrokerPlugin", "`ActiveMQ.Statistics` queues are not answered; use management messages"),
    *dropped("forcePersistencyModeBrokerPlugin", "the producer says what is durable"),
    *dropped("destinationPathSeparatorPlugin", "words of a name are separated by dots; MQTT topics by `/`"),
    *dropped("traceBrokerPathPlugin", "messages do not say which brokers they came through"),
    *dropped("camelRoutesBrokerPlugin camelContext", "routes of Camel are not part of a broker; run Camel beside it"),
    needless("runtimeConfigurationPlugin", "SIGHUP reads `broker.xml` again"),
    kept("runtimeConfigurationPlugin.checkPeriod", "`configuration-file-refresh-period`; 0: on SIGHUP only"),
    needless("virtualSelectorCacheBrokerPlugin", "selectors of virtual topics are in the queue"),
    needless(
        "loggingBrokerPlugin multicastTraceBrokerPlugin udpTraceBrokerPlugin connectionDotFilePlugin "
        "destinationDotFilePlugin destinationsPlugin",
        "a tool for looking inside; use the log and `artemis-py queue stat`",
    ),
)

OTHERS: Final[tuple[Rule | tuple[Rule, ...], ...]] = (
    *dropped("networkConnector networkConnectors", _NETWORK),
    *dropped("proxyConnectors proxyConnector", "this broker passes on no connections; run a proxy for TCP beside it"),
    *dropped("jmsBridgeConnectors jmsConnectors", "bridges to other brokers of JMS are programs: run Camel beside it"),
    *dropped("messageAuthorizationPolicy", "code of Java; use permissions, and filters of queues"),
    *dropped("services", "code of Java does not run in this broker"),
    *dropped("ioExceptionHandler", "if the store fails, the broker stops; have it restarted by the system"),
    needless("locker lease-database-locker shared-file-locker", "the store locks itself"),
    *dropped("bean", "code of Java, which this broker does not run"),
    *dropped("commandAgent", "there are no commands by message; use management messages"),
    needless("import", "the files of the web console; <web> in broker.xml gives one (docs/http.md)"),
)

TABLE: Final = Table((*BROKER, *CONNECTORS, *USAGE, *POLICIES, *INTERCEPTORS, *PLUGINS, *OTHERS))
"""In the order of the manual."""
