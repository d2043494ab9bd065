"""What becomes of the options of a mosquitto.conf. The first word of a line is the name."""

from typing import Final

from artemis_py.migrate.rules import Table, changed, dropped, kept, needless, words

_NO_PART: Final = "has no part here"
_LOG: Final = "the log goes to standard error; `artemis-py run --log-level`"

BRIDGE: Final = words(
    """
    address addresses topic bridge_alpn bridge_attempt_unsubscribe bridge_bind_address bridge_cafile bridge_capath
    bridge_certfile bridge_identity bridge_insecure bridge_keyfile bridge_max_packet_size bridge_max_topic_alias
    bridge_outgoing_retain bridge_protocol_version bridge_psk bridge_receive_maximum bridge_reload_type
    bridge_require_ocsp bridge_session_expiry_interval bridge_tcp_keepalive bridge_tcp_user_timeout bridge_tls_version
    bridge_ciphers bridge_ciphers_tls1.3 bridge_tls_use_os_certs cleansession clientid idle_timeout keepalive_interval
    local_cleansession local_clientid local_password local_username notification_topic notifications
    notifications_local_only password remote_clientid remote_password remote_username restart_timeout round_robin
    start_type threshold try_private username
    """
)
"""Options that belong to the last `connection`."""

TABLE: Final = Table(
    (
        kept("listener", "an acceptor for MQTT, on all interfaces if it names none"),
        kept("port", "an acceptor for MQTT"),
        kept("bind_address", "the host of the acceptor of `port`"),
        kept("protocol", "`mqtt` and `websockets` are told apart by themselves, on every acceptor"),
        kept("max_connections", "`connectionsAllowed`"),
        kept("certfile", "`keyStorePath`: a copy beside broker.xml"),
        kept("keyfile", "`privateKeyPath`: a copy beside broker.xml, readable by its owner only"),
        kept("cafile", "`trustStorePath`, if certificates are required: a copy beside broker.xml"),
        kept("require_certificate", "`needClientAuth`"),
        changed("use_subject_as_username", "`saslMechanisms` with EXTERNAL: the name is the whole subject"),
        *dropped("use_identity_as_username", "the name is the whole subject, not the CN: write it into the roles file"),
        kept("allow_anonymous", "`anonymous-access`; without this line nobody, as in mosquitto 2"),
        kept("password_file", "`artemis-users.properties`, with the same hashes"),
        kept("acl_file", "`security-settings`, with a role for each user"),
        changed(
            "per_listener_settings", "all users may use all acceptors; if one listener has permissions, all have them"
        ),
        kept("persistence", "`persistence-enabled`"),
        changed("persistence_location", "the store is `data/journal` of the instance, and begins empty"),
        needless("persistence_file autosave_interval autosave_on_changes", "everything is stored at once"),
        kept("persistent_client_expiration", "`defaultMqttSessionExpiryInterval`, `mqttMaxSessionExpiryInterval`"),
        kept("max_packet_size", "`maximumPacketSize`"),
        changed("message_size_limit", "`maximumPacketSize`: of the whole packet"),
        kept("max_keepalive", "`serverKeepAlive`"),
        kept("max_inflight_messages", "`defaultMaximumInFlightPublishMessages`"),
        changed("max_queued_messages", "`default-ring-size`: the oldest message is discarded, not the newest"),
        changed("memory_limit", "`global-max-size`: further messages go to disk"),
        kept("max_topic_alias", "`topicAliasMaximum`"),
        kept("set_tcp_nodelay", "`tcpNoDelay`"),
        changed("global_max_clients", "`mqttMaxSessions`"),
        kept("include_dir", "the files in it that end with .conf are read"),
        kept("allow_zero_length_clientid", "always so"),
        *dropped(
            "max_queued_bytes max_inflight_bytes",
            "limits of an address are `max-size-bytes`, and further messages go to disk",
        ),
        *dropped("max_qos", "all three are always offered"),
        *dropped("retain_available", "retained messages always work; their number is `mqttMaxRetainedMessages`"),
        *dropped("retain_expiry_interval", "retained messages stay until they expire or are replaced"),
        *dropped("upgrade_outgoing_qos", "the lower of both counts, as the standard says"),
        *dropped("mount_point", "topics have no prefix"),
        *dropped("clientid_prefixes", "client identifiers are not restricted"),
        *dropped(
            "use_username_as_clientid", "client identifiers stay as they are; other users cannot take a session over"
        ),
        *dropped("accept_protocol_versions", "3.1, 3.1.1 and 5.0 are always accepted"),
        *dropped("bind_interface", "write the address of the interface"),
        *dropped("global_max_connections", "each acceptor has `connectionsAllowed`"),
        *dropped("psk_file psk_hint", "TLS needs certificates"),
        *dropped("crlfile", "revoked certificates are not checked"),
        *dropped("capath", "write the certificates into one file: `cafile`"),
        *dropped("tls_engine tls_engine_kpass_sha1 tls_keyform", "keys are in files"),
        *dropped("http_dir", "no files are served"),
        *dropped(
            "plugin global_plugin plugin_load plugin_use auth_plugin", "plugins are not run; nobody logs in by them"
        ),
        *dropped("connection", "bridges here speak AMQP, not MQTT: see docs/broker-connections.md"),
        *dropped("enable_proxy_protocol enable_proxy_protocol_v2_require_tls", "the PROXY protocol is not spoken"),
        needless(
            "log_dest log_facility log_timestamp log_timestamp_format log_type connection_messages "
            "websockets_log_level",
            _LOG,
        ),
        needless("user pid_file", "for systemd or the container to do"),
        needless(
            "ciphers ciphers_tls1.3 tls_version dhparamfile",
            "TLS 1.2 and 1.3 only, with the ciphers of the system",
        ),
        needless(
            "sys_interval socket_domain store_clean_interval retained_persistence allow_duplicate_messages "
            "check_retain_source auto_id_prefix websockets_headers_size websockets_origin enable_control_api "
            "queue_qos0_messages max_topic_alias_broker packet_buffer_size packet_max_auth packet_max_connect "
            "packet_max_simple packet_max_sub packet_max_un",
            _NO_PART,
        ),
    )
)
