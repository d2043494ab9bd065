"""All metrics of the broker: names, types, units, labels, and what they mean. `docs/monitoring.md` has the same table.

The values of each label are a closed set, whatever clients do. Names are an interface: rules and dashboards of other
people have them.
"""

from typing import Final

from artemis_py.management.metrics.exposition import Family, Kind

_C, _G = Kind.COUNTER, Kind.GAUGE
_ALL: list[Family] = []


def _family(name: str, kind: Kind, help: str, *labels: str, unit: str = "") -> Family:
    family = Family(name, kind, help, unit, labels)
    _ALL.append(family)
    return family


BROKER: Final = _family("broker", Kind.INFO, "The broker.", "name", "node_id")
BUILD: Final = _family("build", Kind.INFO, "The program that runs it.", "version", "python", "compiled")
START_TIME: Final = _family(
    "start_time_seconds", _G, "Time of the start of the broker, in seconds since 1970.", unit="seconds"
)

CONNECTIONS: Final = _family(
    "connections", _G, "Open connections whose protocol is known; acceptor other: the broker made them.",
    "protocol", "acceptor",
)  # fmt: skip
CONNECTIONS_OPENED: Final = _family(
    "connections_opened", _C, "Connections whose protocol was recognised.", "protocol", "acceptor"
)
CONNECTIONS_CLOSED: Final = _family("connections_closed", _C, "Those of them that ended.", "protocol", "acceptor")
CONNECTIONS_REFUSED: Final = _family(
    "connections_refused", _C, "Connections that were turned away before their login.", "acceptor", "cause"
)
SESSIONS: Final = _family("sessions", _G, "Clients that are logged in.", "protocol")
CONSUMERS: Final = _family("consumers", _G, "Consumers and browsers that are attached to a queue.", "protocol")
LOGINS: Final = _family(
    "logins", _C, "Logins that were checked; failure includes those put off because too many came at once.", "result"
)
DENIALS: Final = _family("permission_denials", _C, "Operations that a user had no permission for.", "permission")

ROUTED: Final = _family("messages_routed", _C, "Messages that reached at least one queue.")
UNROUTED: Final = _family("messages_unrouted", _C, "Messages that no queue of their address wanted.")
ADDED: Final = _family("messages_added", _C, "Messages added to queues, once for each queue.")
ACKNOWLEDGED: Final = _family("messages_acknowledged", _C, "Messages that consumers have processed.")
EXPIRED: Final = _family("messages_expired", _C, "Messages whose time was over.")
KILLED: Final = _family(
    "messages_killed", _C, "Messages that left a queue without being processed: as dead letters, or by a purge."
)
REPLACED: Final = _family(
    "messages_replaced", _C, "Messages removed by rings and last-value queues, or not taken by them."
)
DEAD_LETTERED: Final = _family("messages_dead_lettered", _C, "Messages that went to a dead-letter address.", "cause")
DISCARDED: Final = _family("messages_discarded", _C, "Messages lost because nothing could take them.", "cause")
DROPPED: Final = _family("messages_dropped", _C, "Messages dropped because address, memory or disk was full.")
REFUSED: Final = _family(
    "messages_refused", _C, "Messages that clients were refused because address, memory or disk was full."
)
DUPLICATES: Final = _family("messages_duplicate", _C, "Messages not routed because their duplicate id was known.")

MESSAGES: Final = _family("queue_messages", _G, "Messages in queues.", "state")
QUEUES: Final = _family("queues", _G, "Queues.", "kind")
ADDRESSES: Final = _family("addresses", _G, "Addresses.", "kind")
QUEUES_CREATED: Final = _family("queues_created", _C, "Queues created, or restored at the start.")
QUEUES_DELETED: Final = _family("queues_deleted", _C, "Queues deleted.")
ADDRESSES_CREATED: Final = _family("addresses_created", _C, "Addresses created, or restored at the start.")
ADDRESSES_DELETED: Final = _family("addresses_deleted", _C, "Addresses deleted.")
IDLE: Final = _family(
    "queues_idle_with_messages",
    _G,
    "Queues with messages and without a consumer, except those of dead-letter and expiry addresses and the broker's.",
)
FULL: Final = _family("addresses_full", _G, "Addresses that have reached a limit of their own.")
VIRTUAL_HOSTS: Final = _family("virtual_hosts", _G, "Virtual hosts beside the default one.", "state")

MEMORY: Final = _family(
    "memory_bytes", _G, "Memory in use by messages, and by tables of clients.", "part", unit="bytes"
)
MEMORY_LIMIT: Final = _family("memory_limit_bytes", _G, "Limit of that memory, if there is one.", "part", unit="bytes")
DISK_USAGE: Final = _family("disk_usage_ratio", _G, "Used part of the disk of the store, from 0 to 1.", unit="ratio")
DISK_FULL: Final = _family("disk_full", _G, "1 while messages are not taken because the disk is nearly full.")
STORE_FAILED: Final = _family("store_failed", _G, "1 after the store failed: nothing becomes durable any more.")
STORE_BATCHES: Final = _family("store_batches", _C, "Batches of changes that the broker has given the store.")
LOOP_LAG: Final = _family(
    "loop_lag_seconds", Kind.HISTOGRAM, "How late the event loop ran a call that was planned each second.",
    unit="seconds",
)  # fmt: skip

MEMBERS: Final = _family("mesh_members", _G, "Other brokers of the mesh.", "state")
MESH_CLAIMED: Final = _family("mesh_messages_claimed", _G, "Messages on their way to other brokers.")
MESH_WAITING: Final = _family("mesh_messages_waiting", _G, "Messages that wait for other brokers.")
MESH_STRANDED: Final = _family(
    "mesh_messages_stranded", _G,
    "Messages that have waited for seconds although a consumer at another broker had room for them.",
)  # fmt: skip
HANDED_OVER: Final = _family("mesh_messages_handed_over", _C, "Messages that other brokers have taken.")
TAKEN: Final = _family("mesh_messages_taken", _C, "Messages that other brokers have handed over.")

CONNECTIONS_OUT: Final = _family("broker_connections", _G, "Connections to other brokers.", "state")
BRIDGED: Final = _family("bridge_messages", _C, "Messages that those brokers have accepted, or sent.", "direction")

PROCESS_CPU: Final = _family("process_cpu_seconds", _C, "Processor time of all threads.", unit="seconds")
PROCESS_MEMORY: Final = _family("process_resident_memory_bytes", _G, "Memory of the process in RAM.", unit="bytes")
PROCESS_OPEN_FDS: Final = _family("process_open_fds", _G, "Open file descriptors.")
PROCESS_MAX_FDS: Final = _family("process_max_fds", _G, "Limit of open file descriptors.")
PROCESS_START: Final = _family(
    "process_start_time_seconds", _G, "Time of the start of the process, in seconds since 1970.", unit="seconds"
)

CATALOGUE: Final = tuple(_ALL)
"""All of them, in the order of the page."""
