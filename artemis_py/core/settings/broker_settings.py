"""Settings of the broker as a whole that the core acts on."""

import re
from typing import Final

from attrs import field, frozen

from artemis_py.core.names.syntax import WildcardSyntax, parse_fqqn
from artemis_py.core.settings.declaration import Kind, option, options_of

# Generated names of temporary resources, from clients and brokers: a UUID, or OpenWire's ID:host-port-time-n:n:n.
_MADE_UP_NAME: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|ID:.+-\d+-\d+-\d+:\d+:\d+", re.IGNORECASE
)


@frozen(kw_only=True)
class BrokerSettings:
    """Options of the core; times are in milliseconds. Defaults are those of Artemis (artemis-model §6.4)."""

    name: str = option(Kind.TEXT, "localhost", "The broker's name, shown to clients and in the log.", minimum=1)
    management_address: str = option(
        Kind.TEXT, "activemq.management", "Messages sent here are requests to the broker itself.", minimum=1
    )
    management_message_rbac: bool = option(
        Kind.BOOLEAN,
        False,
        "Whether operations of management need `view` or `edit` on `mops.<resource>.<operation>` besides `manage`, by "
        "message, HTTP and in the console.",
    )
    management_rbac_prefix: str = option(
        Kind.TEXT, "mops", "First part of the names on which those two permissions are granted.", minimum=1
    )
    view_permission_method_match_pattern: str | None = option(
        Kind.PATTERN,
        None,
        "Names of the operations and getters for which `view` is enough; others need `edit`. Unset: each operation "
        "has its permission.",
    )
    management_notification_address: str = option(
        Kind.TEXT,
        "activemq.notifications",
        "Address on which the broker reports what happens, if somebody listens (docs/notifications.md).",
        minimum=1,
    )
    suppress_session_notifications: bool = option(
        Kind.BOOLEAN, False, "Do not report there that clients open and end their sessions."
    )
    message_expiry_scan_period_ms: int = option(
        Kind.MILLISECONDS,
        30_000,
        "How often queues are searched for expired messages; 0 or -1: only when they are about to be delivered.",
        name="message-expiry-scan-period",
    )
    address_queue_scan_period_ms: int = option(
        Kind.MILLISECONDS,
        30_000,
        "How often unused addresses and queues are looked for; two passes must agree. 0 or -1: only at start.",
        name="address-queue-scan-period",
    )
    global_max_size_bytes: int = option(
        Kind.BYTES,
        -1,
        "Memory for the messages of all addresses together; -1: no limit. "
        "Unset: half of the memory this process may use.",
        name="global-max-size",
    )
    global_max_messages: int = option(Kind.COUNT, -1, "Messages of all addresses together; -1: no limit.")
    transaction_timeout_ms: int = option(
        Kind.MILLISECONDS,
        300_000,
        "A transaction that stays open longer is rolled back, unless it is prepared.",
        name="transaction-timeout",
    )
    transaction_scan_period_ms: int = option(
        Kind.MILLISECONDS,
        1_000,
        "How often transactions are checked against `transaction-timeout`.",
        name="transaction-timeout-scan-period",
    )
    id_cache_size: int = option(
        Kind.COUNT,
        20_000,
        "How many of the last duplicate ids (`_AMQ_DUPL_ID`) each address remembers, unless its settings say "
        "otherwise; 0: none, so duplicates are accepted.",
        minimum=0,
    )
    persist_id_cache: bool = option(
        Kind.BOOLEAN, True, "Store the ids of durable messages, each with its message, so that a restart knows them."
    )
    amqp_use_core_subscription_naming: bool = option(
        Kind.BOOLEAN,
        False,
        "Name AMQP subscription queues as Core clients do, so that both can share them.",
    )
    internal_naming_prefix: str = option(
        Kind.TEXT,
        "$.artemis.internal.",
        "Beginning of the names of addresses, queues and diverts that the broker creates for itself.",
        minimum=1,
    )
    literal_match_markers: str | None = option(
        Kind.TEXT,
        None,
        "Two characters, such as `()`: an address-setting match between them means the address of exactly this name.",
        minimum=2,
        maximum=2,
    )
    uuid_namespace: str | None = option(
        Kind.TEXT,
        None,
        "Settings and permissions match temporary addresses (named by a UUID) below this name.",
        minimum=1,
    )
    populate_validated_user: bool = option(
        Kind.BOOLEAN,
        False,
        "Put the name of the user on each message that its client sends, as `_AMQ_VALIDATED_USER`; clients cannot "
        "choose it (docs/security.md).",
    )
    reject_empty_validated_user: bool = option(
        Kind.BOOLEAN, False, "Refuse messages of clients that have logged in without a user."
    )
    wildcards: WildcardSyntax = field(factory=WildcardSyntax)

    def name_in_matches(self, name: str) -> str:
        """Return the name under which the matches of settings and permissions see an address or FQQN.

        A generated name is put below `uuid_namespace`, so that one match covers all temporary resources
        (artemis-model §1.8).
        """
        if self.uuid_namespace is None or not _MADE_UP_NAME.fullmatch(parse_fqqn(name)[0]):
            return name
        return f"{self.uuid_namespace}{self.wildcards.delimiter}{name}"


BROKER_OPTIONS: Final = options_of(BrokerSettings)
"""The elements below `<core>` that the core itself reads."""

DEFAULT_BROKER_SETTINGS: Final = BrokerSettings()
