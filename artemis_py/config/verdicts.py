"""What becomes of names that Artemis knows and this broker does not read.

An error is only what would change meaning or safety if it were left out: a message that goes nowhere, a client that is
let in, a promise that is not kept. Everything else is a warning, so that a file made for Artemis can be used as it is.
`docs/artemis-compatibility.md` is written from these tables.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

from attrs import frozen

from artemis_py.config.report import Place, Report, local_name


class Effect(Enum):
    """What happens to a file with such a name."""

    NONE = "has no effect here"
    """Warning: what it tunes does not exist here."""
    LEFT_OUT = "is left out"
    """Warning: it offers something to clients or operators that they do not get here."""
    REFUSED = "is not supported by artemis_py"
    """Error: leaving it out would change meaning or safety."""
    RENAMED = "is an old name"
    """Warning: it is read under its present name."""


@frozen
class Verdict:
    """What becomes of one name, and why."""

    effect: Effect
    reason: str
    """Why, and what to do; the present name of a renamed one."""
    harmless: frozenset[str] = frozenset()
    """Values with which even a refused name asks for nothing. For an element that contains others: their names, or
    their class names."""

    def tell(self, values: Iterable[str], place: Place, report: Report) -> None:
        """Report a name that is used with these values; none at all is an empty element, which asks for nothing."""
        if self.effect is Effect.RENAMED:
            report.warning(place, f"{self.effect.value}; write {self.reason}")
        elif self.effect is not Effect.REFUSED:
            report.warning(place, f"{self.effect.value}: {self.reason}")
        elif self.harmless.issuperset(values):
            report.warning(place, f"{Effect.NONE.value}: as it is written, the broker behaves like this without it")
        else:
            report.problem(place, f"{self.effect.value}: {self.reason}")


def values_of(element: Any) -> frozenset[str]:
    """Return what an element asks for: its text and attributes, and the elements in it by class name or else name."""
    inside = {each.get("class-name", local_name(each)) for each in element.iterdescendants("*")}
    own = {(element.text or "").strip(), *element.attrib.values()} - {""}
    return frozenset(inside | own)


def _none(reason: str) -> Verdict:
    return Verdict(Effect.NONE, reason)


def _left_out(reason: str) -> Verdict:
    return Verdict(Effect.LEFT_OUT, reason)


def _refused(reason: str, *harmless: str) -> Verdict:
    return Verdict(Effect.REFUSED, reason, frozenset(harmless))


def _each(names: str, verdict: Verdict) -> dict[str, Verdict]:
    return dict.fromkeys(names.split(), verdict)


_NO_HA: Final = _none("there is no second broker to take over; a supervisor such as systemd restarts this one")
_NO_JVM: Final = _none("there is no Java machine to watch")
_NO_JMX: Final = _none("there is no JMX; management is by messages and HTTP (docs/management.md)")
_NO_PAGE_FILES: Final = _none("there are no page files")
_ONE_THREAD: Final = _none("one thread serves all connections, and one stores")
_ONE_FILE: Final = _none("the store is one file in journal-directory, whose free space is reused")
_COMPACT: Final = _none(
    "the store is one file in journal-directory, whose free space is reused; `artemis-py data compact` makes it smaller"
)
_ALL_IN_ONE: Final = _none("everything that is stored is in journal-directory")
_SYNCED: Final = _none("every commit is synced to the disk")
_COUNTED: Final = _none("queues always count their messages, without a history")
_WRITE_SENDER: Final = "write a <sender> or <receiver> of each address instead (docs/broker-connections.md)"
_FOREIGN_CODE: Final = "classes of Java are not loaded, and what this one decides would not be decided; remove it"

CORE: Final[Mapping[str, Verdict]] = {
    **_each("bindings-directory create-bindings-dir", _ALL_IN_ONE),
    **_each("journal-datasync large-message-sync page-sync-timeout", _SYNCED),
    "journal-buffer-size": _none("a commit has no limit of size that would end it"),
    **_each("journal-device-block-size journal-file-open-timeout", _ONE_FILE),
    **_each("journal-max-attic-files log-journal-write-rate", _ONE_FILE),
    **_each("journal-compact-min-files journal-compact-percentage", _COMPACT),
    **_each("page-max-concurrent-io purge-page-folders read-whole-page", _NO_PAGE_FILES),
    "journal-type": _none("LMDB does the input and output"),
    "journal-max-io": _none("one commit runs at a time"),
    "journal-lock-acquisition-timeout": _none("a second broker on the folder does not wait, it is refused at once"),
    "node-manager-lock-directory": _none("the lock is in journal-directory"),
    "max-redelivery-records": _none("a message has one record, which has its number of deliveries"),
    **_each(
        "critical-analyzer critical-analyzer-check-period critical-analyzer-policy critical-analyzer-timeout",
        _none("there are no threads that wait for each other's locks"),
    ),
    **_each("jmx-domain jmx-management-enabled jmx-use-broker-name", _NO_JMX),
    **_each("message-counter-enabled message-counter-max-day-history message-counter-sample-period", _COUNTED),
    **_each("memory-measure-interval memory-warning-threshold server-dump-interval", _NO_JVM),
    **_each("thread-pool-max-size scheduled-thread-pool-max-size message-expiry-thread-priority", _ONE_THREAD),
    "async-connection-execution-enabled": _ONE_THREAD,
    "connection-ttl-check-interval": _none("each connection has a deadline of its own"),
    "log-delegate-factory-class-name": _none("the log is written by Python's logging"),
    **_each(
        "authentication-cache-size authorization-cache-size security-invalidation-interval",
        _none("permissions are not cached, and a login for ten seconds (docs/security.md)"),
    ),
    "resolve-protocols": _none("installed protocols are found by themselves"),
    "system-property-prefix": _none("environment variables replace values (docs/configuration.md)"),
    **_each(
        "mqtt-session-scan-interval mqtt-session-state-persistence-timeout mqtt-subscription-persistence-enabled",
        _none("MQTT sessions are stored with their queues, and end when they expire"),
    ),
    **_each(
        "mirror-ack-manager-page-attempts mirror-ack-manager-queue-attempts mirror-ack-manager-retry-delay "
        "mirror-ack-manager-warn-unacked mirror-page-transaction",
        _none("there are no mirrors"),
    ),
    "grouping-handler": _none("messages with a group stay with the broker that took them"),
    "allow-failback": _NO_HA,
    "broadcast-groups": _left_out("a discovery group with <zeroconf> announces the broker as well"),
    "global-max-size-percent-of-jvm-max-memory": _left_out(
        "there is no Java machine; write global-max-size, or half of the memory is used"
    ),
    **_each("metrics metrics-plugin", _left_out("<web> publishes metrics (docs/monitoring.md)")),
    **_each(
        "network-check-NIC network-check-URL-list network-check-list network-check-period network-check-ping-command "
        "network-check-ping6-command network-check-timeout",
        _left_out("the broker keeps running when the network is gone"),
    ),
    "federations": _refused("messages of the other brokers would not arrive here; remove it, and let a client forward"),
    "ha-policy": _refused(
        "no other broker takes over, and this one would not wait for another; remove it if it is to run alone",
        "live-only",
        "primary-only",
    ),
    "broker-plugins": _refused(
        _FOREIGN_CODE,
        "org.apache.activemq.artemis.core.server.plugin.impl.LoggingActiveMQServerPlugin",
        "property",
    ),
    "connector-services": _refused(_FOREIGN_CODE),
    "remoting-incoming-interceptors": _refused(_FOREIGN_CODE),
    "remoting-outgoing-interceptors": _refused(_FOREIGN_CODE),
    "journal-retention-directory": _refused(
        "consumed messages are deleted, and could not be replayed; remove it, or divert a copy to another queue"
    ),
    "mask-password": _refused("passwords are read as they are written; write ${NAME}, and remove it", "false"),
    "password-codec": _refused("passwords are read as they are written; write ${NAME}, and remove it"),
    "persist-delivery-count-before-delivery": _refused(
        "an attempt counts when it ends, so that a crash does not count; remove it if that will do", "false"
    ),
    "queues": _refused("it is an old form; declare the queues in <addresses>"),
    "store": _refused("messages are stored in journal-directory, in no other database; remove it", "file-store"),
    "temporary-queue-namespace": Verdict(Effect.RENAMED, "uuid-namespace"),
    "wild-card-routing-enabled": _refused("it is an old name; write routing-enabled within wildcard-addresses", "true"),
}

_OLD_JMS: Final = "it is an old name on which Artemis does not act either; write {}"

ADDRESS_SETTING: Final[Mapping[str, Verdict]] = {
    "auto-create-jms-queues": _none(_OLD_JMS.format("auto-create-queues")),
    "auto-create-jms-topics": _none(_OLD_JMS.format("auto-create-addresses")),
    "auto-delete-jms-queues": _none(_OLD_JMS.format("auto-delete-queues")),
    "auto-delete-jms-topics": _none(_OLD_JMS.format("auto-delete-addresses")),
    "last-value-queue": Verdict(Effect.RENAMED, "default-last-value-queue"),
    "default-consumer-window-size": _none("it is for Core clients; others give credit themselves"),
    "queue-prefetch": _none("consumers say how many messages they take ahead"),
    "enable-metrics": _none("metrics are not of single addresses (docs/monitoring.md)"),
    "initial-queue-buffer-size": _none("queues grow as they need"),
    "management-browse-page-size": _none("a browse says how many messages it wants"),
    "management-message-attribute-size-limit": _none("management shows no attribute that could be cut"),
    "message-counter-history-day-limit": _COUNTED,
    **_each("page-max-cache-size page-size-bytes prefetch-page-bytes prefetch-page-messages", _NO_PAGE_FILES),
}

SECURITY_SETTINGS: Final[Mapping[str, Verdict]] = {
    "security-setting-plugin": _refused("its permissions would be missing; write them as <security-setting>"),
}

RESOURCE_LIMIT: Final[Mapping[str, Verdict]] = {"max-sessions": Verdict(Effect.RENAMED, "max-connections")}
"""The manual of Artemis has `max-sessions`; its parser reads `max-connections` (artemis-model §6.5)."""

CLUSTER_CONNECTION: Final[Mapping[str, Verdict]] = {
    "call-failover-timeout": _none("there are no calls that fail over to another broker"),
    "min-large-message-size": _left_out("a message that is large in a client protocol moves in pieces"),
    **_each("notification-interval notification-attempts", _none("brokers compare what they know of each other")),
    "topology-scanner-attempts": _none("brokers that are missing are dialled all the time"),
    "use-duplicate-detection": _none("messages change their broker exactly once in any case"),
}

CONNECTION_ROUTER: Final[Mapping[str, Verdict]] = {
    "key-transformer": _refused("keys would not be changed; CONSISTENT_HASH_MODULO makes groups of them"),
}

ROUTER_POOL: Final[Mapping[str, Verdict]] = {
    **_each("username password", _none("brokers of a pool are dialled only, nothing is asked of them")),
}

DISCOVERY_GROUP: Final[Mapping[str, Verdict]] = {
    **_each(
        "group-address group-port local-bind-address local-bind-port",
        _refused("datagrams of Artemis are not read; write <zeroconf> for multicast DNS, <dns>, or static-connectors"),
    ),
    **_each(
        "jgroups-file jgroups-channel",
        _refused("there is no JGroups; write <dns>, which finds brokers in Kubernetes too"),
    ),
    "initial-wait-timeout": _none("the broker starts at once, and connects to what it finds"),
}

AMQP_CONNECTION: Final[Mapping[str, Verdict]] = {
    "bridge": _refused(f"policies are not read; {_WRITE_SENDER}"),
    "federation": _refused(f"messages would not follow the consumers of the other broker; {_WRITE_SENDER}"),
    "mirror": _refused("the other broker would not get a copy of everything; remove it if it is to run without one"),
    "peer": _refused("it is for routers, to which a <sender> and a <receiver> of different addresses do the same"),
}

BRIDGE: Final[Mapping[str, Verdict]] = {
    "call-timeout": _none("a connection that is not open within 30 seconds is tried again"),
    "check-period": _none("the idle time-out of AMQP finds out that the other broker is gone"),
    "client-id": _left_out("the other broker shows the names of this broker and of the bridge"),
    "confirmation-window-size": _none("a thousand messages may wait for answers"),
    "connection-ttl": _none("silence of 60 seconds ends a connection"),
    "discovery-group-ref": _refused("the other broker of a bridge is not looked for; name it in <static-connectors>"),
    "ha": _none("each attempt to connect takes the next one of <static-connectors>"),
    "min-large-message-size": _none("large messages are streamed, whatever their size"),
    "pending-ack-timeout": _none("a message waits for its answer as long as the connection lives"),
    "producer-window-size": _none("the other broker gives credit"),
    "reconnect-attempts-same-node": _none("each attempt to connect takes the next one of <static-connectors>"),
    **_each(
        "transformer transformer-class-name",
        _refused("messages would not be changed; let a divert with a transformer feed the queue of the bridge"),
    ),
}

ELEMENTS: Final[Mapping[str, Mapping[str, Verdict]]] = {
    "amqp-connection": AMQP_CONNECTION,
    "bridge": BRIDGE,
    "core": CORE,
    "address-setting": ADDRESS_SETTING,
    "cluster-connection": CLUSTER_CONNECTION,
    "cluster-connections": {
        "cluster-connection-uri": _refused("write the same as a <cluster-connection>"),
    },
    "connection-router": CONNECTION_ROUTER,
    "discovery-group": DISCOVERY_GROUP,
    "pool": ROUTER_POOL,
    "resource-limit-setting": RESOURCE_LIMIT,
    "security-settings": SECURITY_SETTINGS,
}
"""Verdicts on elements, by the element that contains them; Artemis has no more children of the others than we."""

PERMISSIONS: Final[Mapping[str, Verdict]] = {
    "update": _none("an example in Artemis' manual uses it, but Artemis does not read it either: use edit")
}

_STOMP_AND_CORE: Final = _none("it is for STOMP and Core")
_NO_TUNNEL: Final = _left_out("only Core clients use a tunnel through HTTP")
_OF_CONNECTORS: Final = _none("it is for connectors")
_PEM: Final = "key stores of Java are not read; convert them to PEM (docs/artemis-compatibility.md), and remove it"

PARAMETERS: Final[Mapping[str, Verdict]] = {
    **_each(
        "useEpoll useKQueue useNio nioRemotingThreads remotingThreads useGlobalWorkerPool useNioGlobalWorkerPool "
        "batchDelay directDeliver writeBufferHighWaterMark writeBufferLowWaterMark actorThresholdBytes",
        _none("one thread serves all connections, it has no pools and buffers to size"),
    ),
    **_each("quietPeriod shutdownTimeout", _none("the broker waits for its clients with graceful-shutdown-enabled")),
    **_each(
        "connectionTtl connectionTtlMax connectionTtlMin heartBeatToConnectionTtlModifier stompEnableMessageId "
        "stompMinLargeMessageSize stompConsumerCredits stompConsumerWindowSize stompMaxFramePayloadLength "
        "stomp-enable-message-id stomp-min-large-message-size disableStompServerHeader",
        _STOMP_AND_CORE,
    ),
    "clusterConnection": _none("every acceptor lets brokers of the mesh in"),
    "brokerName": _none("clients get the name of the broker"),
    "suppressInternalManagementObjects": _none("advisories have no addresses or queues that management could show"),
    **_each(
        "openWireDestinationCacheSize virtualTopicConsumerLruCacheMax openwireMaxPacketChunkSize",
        _none("there is no such cache"),
    ),
    **_each("ackManagerFlushTimeout mirrorMaxPendingAcks", _none("there are no mirrors")),
    "amqpDrainOnTransientDeliveryErrors": _none("a producer to a full address gets no credit until there is room"),
    "amqpLinkQuiesceTimeout": _none("links are detached at once"),
    "initialRemoteMaxFrameSize": _none("frames may have maxFrameSize from the first one on"),
    "saslLoginConfigScope": _none("all acceptors have the same users (docs/security.md)"),
    **_each(
        "webSocketCompressionSupported webSocketEncoderType webSocketMaxFramePayloadLength",
        _none("frames are binary and not compressed, their size is limited as that of other bytes"),
    ),
    "httpEnabled": _NO_TUNNEL,
    "httpUpgradeEnabled": _NO_TUNNEL,
    **_each(
        "httpClientIdleScanPeriod httpClientIdleTime httpRequiresSessionId httpResponseTime httpServerScanPeriod "
        "httpUpgradeEndpoint servletPath useServlet activemqServerName",
        _NO_TUNNEL,
    ),
    **_each(
        "socksEnabled socksHost socksPassword socksPort socksRemoteDNS socksUsername socksVersion localAddress "
        "localPort connect-timeout-millis forceSSLParameters useDefaultSslContext serverId",
        _OF_CONNECTORS,
    ),
    **_each("sslProvider keyStoreAlias", _none("OpenSSL reads the PEM file, which has one certificate")),
    "trustStorePassword": _none("certificates in a PEM file have no password"),
    "trustAll": _none("an acceptor trusts those that trustStorePath names"),
    "wantClientAuth": _none("with trustStorePath, clients are asked for a certificate"),
    "sslAutoReload": _left_out("certificates are read again on SIGHUP"),
    "autoStart": _refused("the port would be open from the start; remove it, or the acceptor", "true"),
    "crlPath": _refused("revoked certificates would be accepted; remove it if that will do"),
    "enabledCipherSuites": _refused("other ciphers would be accepted; remove it to have those of OpenSSL"),
    **_each("keyStoreProvider keyStoreType trustStoreProvider trustStoreType", _refused(_PEM, "PEM", "PEMCFG")),
    "proxyProtocolEnabled": _refused(
        "the header of a proxy is not understood, clients could not connect; remove it", "false"
    ),
    "pubSubPrefix": _refused("it is an old name; write multicastPrefix"),
    "securityDomain": _refused("all acceptors have the same users; remove it if that will do"),
    "sniHost": _refused("clients that ask for another host would be accepted; remove it if they may"),
    "sslContext": _refused("name the files with keyStorePath and trustStorePath, and remove it"),
    "trustManagerFactoryPlugin": _refused("classes of Java are not loaded; name a file with trustStorePath"),
    "verifyHost": _refused("the host names of clients would not be checked; remove it if that will do", "false"),
}
"""Verdicts on parameters of acceptor URLs."""

CONNECTOR_PARAMETERS: Final[Mapping[str, Verdict]] = {
    **_each(
        "useEpoll useKQueue useNio nioRemotingThreads remotingThreads useGlobalWorkerPool useNioGlobalWorkerPool "
        "batchDelay directDeliver writeBufferHighWaterMark writeBufferLowWaterMark backlog useKeepAlive",
        _none("one thread serves all connections, it has no pools and buffers to size"),
    ),
    **_each("protocols connectionTtl serverId", _none("brokers speak AMQP 1.0 with each other")),
    **_each("sslProvider keyStoreAlias", _none("OpenSSL reads the PEM file, which has one certificate")),
    "trustStorePassword": _none("certificates in a PEM file have no password"),
    "forceSSLParameters": _none("nothing else could replace the parameters"),
    "sslAutoReload": _left_out("certificates are read again on SIGHUP"),
    "useDefaultSslContext": _refused("name the files with trustStorePath and keyStorePath, and remove it", "false"),
    "sslContext": _refused("name the files with trustStorePath and keyStorePath, and remove it"),
    "trustAll": _refused("any broker could stand in for the other; name its authority with trustStorePath", "false"),
    "crlPath": _refused("revoked certificates would be accepted; remove it if that will do"),
    "enabledCipherSuites": _refused("other ciphers would be accepted; remove it to have those of OpenSSL"),
    **_each("keyStoreProvider keyStoreType trustStoreProvider trustStoreType", _refused(_PEM, "PEM", "PEMCFG")),
    "trustManagerFactoryPlugin": _refused("classes of Java are not loaded; name a file with trustStorePath"),
    **_each(
        "socksEnabled socksHost socksPassword socksPort socksRemoteDNS socksUsername socksVersion",
        _refused("connections do not go through a proxy, and might not arrive without it; remove it", "false"),
    ),
    **_each("httpEnabled httpUpgradeEnabled", _refused("brokers do not connect through HTTP; remove it", "false")),
}
"""Verdicts on parameters of connector URLs."""

PROTOCOLS: Final = frozenset(["CORE", "HORNETQ", "STOMP"])
"""Protocols of Artemis that this broker does not speak; they are left out."""

SASL_MECHANISMS: Final = frozenset(["GSSAPI", "SCRAM-SHA-512"])
"""Mechanisms of Artemis that this broker does not have; they are left out."""
