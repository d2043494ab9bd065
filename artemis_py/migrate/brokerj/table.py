"""What becomes of the attributes of Broker-J, by the object that has them."""

from typing import Final

from artemis_py.migrate.rules import Table, changed, dropped, kept, needless, words

_ALWAYS: Final = "every object has it; nothing depends on it here"

IGNORED: Final = words(
    """
    id name type state desiredState durable lifetimePolicy context createdBy createdTime lastUpdatedBy lastUpdatedTime
    lastOpenedTime description modelVersion storeVersion statistics version
    """
)
"""Attributes of every object that are not reported; some are read where they mean something."""

TABLE: Final = Table(
    (
        kept("authenticationproviders", "users of `artemis-users.properties`, or `anonymous-access`"),
        kept("groupproviders", "roles of `artemis-roles.properties`"),
        kept("users", "the user; the password is hashed"),
        kept("ports", "an acceptor for AMQP 1.0"),
        needless("ports.virtualhostaliases", "there is one virtual host, whatever a client calls it"),
        needless(
            "ports.threadPoolSize ports.numberOfSelectors ports.tcpNoDelay ports.clientCertRecorder",
            "one thread serves all connections",
        ),
        dropped(
            "ports.tlsCipherSuiteAllowList ports.tlsCipherSuiteDenyList ports.tlsProtocolAllowList "
            "ports.tlsProtocolDenyList",
            "TLS 1.2 and 1.3 only, with the ciphers of the system",
        ),
        kept("keystores", "`keyStorePath`: a copy as PEM, readable by its owner only"),
        kept("truststores", "`trustStorePath`: a copy as PEM"),
        kept("accesscontrolproviders", "`security-settings`"),
        kept("virtualhostnodes", "the virtual host that is migrated"),
        needless("brokerloggers virtualhostloggers", "the log goes to standard error; `artemis-py run --log-level`"),
        dropped("plugins", "management is by AMQP messages and `artemis-py`, not by HTTP"),
        dropped("trustedhosts connectionlimitproviders", "an acceptor has `connectionsAllowed`"),
        needless("confidentialConfigurationEncryptionProvider statisticsReportingPeriod", _ALWAYS),
        kept("exchanges", "`exchange`"),
        kept("exchanges.unroutableMessageBehaviour", "`unroutable`"),
        kept("exchanges.alternateBinding", "`alternate-exchange` or `alternate-queue`"),
        changed("exchanges.lifetimePolicy", "`auto-delete`, or it stays"),
        kept("exchanges.durableBindings", "`binding`"),
        kept("queues", "an anycast address with a queue, both of this name"),
        changed("queues.lifetimePolicy", "a declared queue is never deleted by itself"),
        changed("queues.alternateBinding", "`dead-letter-address`: the queue that it leads to"),
        kept("queues.expiryPolicy", "with ROUTE_TO_ALTERNATE, the alternate is the `expiry-address`, too"),
        kept("queues.maximumDeliveryAttempts", "`max-delivery-attempts`"),
        changed("queues.maximumMessageTtl", "`max-expiry-delay` of the address: not of what comes through exchanges"),
        changed("queues.minimumMessageTtl", "`min-expiry-delay` of the address: not of what comes through exchanges"),
        kept("queues.maximumQueueDepthMessages", "`ring-size` or `max-size-messages`, as the overflow policy says"),
        changed("queues.maximumQueueDepthBytes", "`max-size-bytes`, with what Python needs for a message"),
        kept(
            "queues.overflowPolicy", "RING: `ring-size`; REJECT: FAIL; PRODUCER_FLOW_CONTROL: BLOCK; FLOW_TO_DISK: PAGE"
        ),
        kept("queues.lvqKey", "`last-value-key`"),
        kept("queues.maximumLiveConsumers", "`max-consumers`"),
        kept("queues.ensureNondestructiveConsumers", "`non-destructive`"),
        changed("queues.exclusive", "LINK: `max-consumers` 1; nothing else limits who may consume"),
        dropped("queues.sortKey", "the queue delivers in the order of arrival"),
        needless("queues.priorities", "every queue has the priorities 0 to 9"),
        needless("queues.holdOnPublishEnabled", "delayed messages always wait"),
        changed("queues.messageGroupType", "groups always work: a group has one consumer at a time"),
        dropped("queues.messageGroupKeyOverride", "a group is named by the group id of a message, not by a property"),
        dropped("queues.messageGroupDefaultGroup", "messages without a group belong to none"),
        dropped("queues.messageDurability", "a message is as durable as its producer says"),
        dropped("queues.noLocal", "a client gets its own messages; write a selector"),
        dropped("queues.defaultFilters", "consumers have their own selectors; a queue has `<filter>`"),
        needless(
            "queues.messageGroupSharedGroups queues.queueFlowControlSizeBytes queues.queueFlowResumeSizeBytes "
            "queues.alertRepeatGap queues.alertThresholdMessageAge queues.alertThresholdMessageSize "
            "queues.alertThresholdQueueDepthBytes queues.alertThresholdQueueDepthMessages",
            "there are no alerts; management has the numbers",
        ),
        changed("nodeAutoCreationPolicies", "`auto-create-queues` and `auto-create-addresses`"),
    )
)
