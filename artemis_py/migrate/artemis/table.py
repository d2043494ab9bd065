"""What becomes of those parts of an Artemis instance that are not simply copied.

The manual lists the elements of broker.xml that this broker knows; this table has what a migration adds to that.
"""

from typing import Final

from artemis_py.migrate.rules import Table, changed, dropped, kept, needless

_MESH: Final = (
    "write it by hand: brokers of this kind make a mesh, which no broker of Artemis can join; "
    "`artemis-py create --clustered` shows how"
)
_OTHERS: Final = (
    "there are none: write a <broker-connections> with senders and receivers (docs/broker-connections.md), or have "
    "clients of the other broker connect to this one"
)
_JAVA: Final = "is about Java, and has no part here"
_TUNING: Final = "tunes the inside of Artemis; there is no such part here"

TABLE: Final = Table(
    (
        *dropped(
            "cluster-connections cluster-user cluster-password connectors broadcast-groups discovery-groups",
            _MESH,
        ),
        *dropped("grouping-handler", "messages with a group stay with the broker of the mesh that took them"),
        *dropped("federations", _OTHERS),
        changed("bridges", "they speak AMQP, which the acceptors of the other broker must take"),
        kept("broker-connections", "as they are, but for mirrors, federations and policies"),
        *dropped("ha-policy", "no other broker takes over"),
        *dropped("connection-routers acceptor.router", "clients stay with the broker that they connect to"),
        *dropped(
            "broker-plugins connector-services remoting-incoming-interceptors remoting-outgoing-interceptors",
            "code of Java does not run in this broker",
        ),
        *dropped("store", "messages are in files of this broker, in no database"),
        *dropped(
            "network-check-list network-check-URL-list network-check-NIC network-check-period network-check-timeout "
            "network-check-ping-command network-check-ping6-command",
            "belongs to high availability, which is not built yet",
        ),
        needless("metrics-plugin metrics", "<web> in broker.xml has /metrics for Prometheus"),
        needless(
            "critical-analyzer critical-analyzer-timeout critical-analyzer-check-period critical-analyzer-policy "
            "jmx-management-enabled jmx-domain jmx-use-broker-name thread-pool-max-size scheduled-thread-pool-max-size "
            "server-dump-interval memory-measure-interval memory-warning-threshold message-counter-enabled "
            "message-counter-sample-period message-counter-max-day-history global-max-size-percent-of-jvm-max-memory "
            "resolve-protocols system-property-prefix async-connection-execution-enabled password-codec mask-password",
            _JAVA,
        ),
        needless(
            "page-size-bytes page-max-cache-size prefetch-page-bytes prefetch-page-messages "
            "message-counter-history-day-limit management-browse-page-size management-message-attribute-size-limit "
            "initial-queue-buffer-size enable-metrics default-consumer-window-size",
            _TUNING,
        ),
        needless(
            "acceptor.useEpoll acceptor.useKQueue acceptor.remotingThreads acceptor.directDeliver acceptor.batchDelay "
            "acceptor.writeBufferHighWaterMark acceptor.writeBufferLowWaterMark acceptor.quietPeriod "
            "acceptor.shutdownTimeout acceptor.actorThresholdBytes acceptor.sslProvider acceptor.sslAutoReload "
            "acceptor.openWireDestinationCacheSize acceptor.openwireMaxPacketChunkSize acceptor.autoStart "
            "acceptor.virtualTopicConsumerLruCacheMax acceptor.suppressInternalManagementObjects",
            _TUNING,
        ),
        needless(
            "acceptor.enabledProtocols acceptor.enabledCipherSuites",
            "TLS 1.2 and 1.3 only, with the ciphers of the system",
        ),
        *dropped("acceptor.wantClientAuth", "a certificate is asked for always (`needClientAuth`) or never"),
        changed("acceptor.keyStorePath", "a PEM file; JKS is read as it is, PKCS 12 with the package cryptography"),
        changed("acceptor.trustStorePath", "a PEM file"),
        needless("web server binding app", "<web> in broker.xml gives a console, an API and metrics (docs/http.md)"),
    )
)
