"""Names that users of Spark's Kafka connector know, and what to write instead.

A program that is moved from Kafka gives options and columns of the old connector. The names here are refused, and the
error says which name is ours; docs/spark.md has the same list as a table.
"""

from collections.abc import Mapping
from typing import Final

READ_OPTIONS: Final[Mapping[str, str]] = {
    "subscribe": "use address (topics, separated by commas) and subscription (the name that group.id had)",
    "subscribepattern": "use addressPattern, whose wildcards are words: 'orders.*' or 'orders.#', not a regular "
    "expression",
    "assign": "use queue with mode=browse, or address; a queue has no partitions, minPartitions divides it",
    "minoffsetspertrigger": "use minMessagesPerTrigger",
    "groupidprefix": "use subscription: the name under which the broker keeps messages for this query",
    "kafka.group.id": "use subscription: the name under which the broker keeps messages for this query",
    "startingoffsetsbytimestamp": "use startingTimestamp, which is for all queues of a query",
    "endingoffsetsbytimestamp": "use endingTimestamp, which is for all queues of a query",
    "startingoffsetsbytimestampstrategy": "leave it out: without a message of that time a queue begins with the next "
    "one that arrives",
    "kafkaconsumer.polltimeoutms": "use idleTimeout, the silence after which a connection is given up",
    "fetchoffset.numretries": "use retries",
    "fetchoffset.retryintervalms": "use retryDelay",
}
"""Options of Kafka's source by name in lower case, with the name of ours."""

WRITE_OPTIONS: Final[Mapping[str, str]] = {
    "topic": "use address",
    "kafka.acks": "leave it out: the broker accepts a durable message when it is on disk",
    "kafka.transactional.id": "use jobId with idempotence=epoch",
    "kafka.enable.idempotence": "use idempotence",
    "kafka.max.in.flight.requests.per.connection": "use maxInFlight",
    "kafka.delivery.timeout.ms": "use sendTimeout",
    "kafka.max.request.size": "use maxMessageBytes",
}
"""Options of Kafka's sink."""

CONNECTION_OPTIONS: Final[Mapping[str, str]] = {
    "kafka.bootstrap.servers": "use url, for example amqp://host:61616; several are separated by commas",
    "kafka.security.protocol": "use a url that begins with amqps:// for TLS",
    "kafka.sasl.mechanism": "use sasl",
    "kafka.sasl.jaas.config": "use user and passwordFile",
    "kafka.ssl.truststore.location": "use tls.ca, a PEM file",
    "kafka.ssl.keystore.location": "use tls.cert and tls.key, PEM files",
    "kafka.ssl.endpoint.identification.algorithm": "use tls.verify",
    "kafka.request.timeout.ms": "use idleTimeout",
    "includeheaders": "leave it out: the column properties is there unless other columns are selected",
}
"""Options of both."""

COLUMNS: Final[Mapping[str, str]] = {
    "key": "group_id, or a property",
    "value": "body",
    "topic": "address",
    "partition": "queue",
    "offset": "sequence",
    "timestamp": "enqueued_time, or creation_time",
    "headers": "properties",
}
"""Columns of Kafka's source and sink, with the name of ours."""


def option_hint(name: str, is_source: bool) -> str:
    """Return what to use instead of an option of Kafka, whose name is in lower case; empty if it is none of Kafka."""
    table = READ_OPTIONS if is_source else WRITE_OPTIONS
    hint = table.get(name) or CONNECTION_OPTIONS.get(name)
    if hint is None and name.startswith("kafka."):
        hint = "settings of a Kafka client mean nothing here; docs/spark.md lists ours beside Kafka's"
    return hint or ""


def column_hint(name: str) -> str:
    """Return the end of an error about an unknown column, if Kafka has it; else nothing."""
    ours = COLUMNS.get(name)
    return "" if ours is None else f"; what Kafka calls {name} is {ours}"
