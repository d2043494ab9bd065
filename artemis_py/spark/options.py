"""The options of a query: their names, values and combinations.

Spark passes options as text under case-insensitive names. They are read once, in the driver, into frozen records that
are sent to the tasks; an unknown name is an error that proposes the nearest one. Passwords are kept out of every
`repr`; `passwordEnv` and `passwordFile` are read where a connection is made, so that the record contains no secret.
"""

import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import field, frozen

from artemis_py.spark.errors import InvalidOption
from artemis_py.spark.kafka_names import option_hint
from artemis_py.spark.option_values import (
    ack_policy,
    byte_count,
    count,
    credit,
    duration_s,
    flag,
    folder,
    frame_bytes,
    names,
    not_negative,
    rate,
    starting_offsets,
    timeout_s,
    timestamp_ms,
    word,
)

DEFAULT_PORT: Final = 61616
"""Port of a URL without one, as in the command line; the shipped broker listens there."""

SOURCE_MODES: Final = ("subscription", "browse", "drain", "spool")
PAYLOADS: Final = ("body", "json", "arrow", "message")
IDEMPOTENCE: Final = ("none", "column", "source", "epoch")
ON_REJECT: Final = ("fail", "drop", "deadletter")


@frozen(kw_only=True)
class Server:
    """One entry of the failover list."""

    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        return f"{'amqps' if self.tls else 'amqp'}://{self.host}:{self.port}"


@frozen(kw_only=True)
class ConnectionOptions:
    """Options for reaching the broker and logging in."""

    servers: tuple[Server, ...]
    """Servers in failover order."""
    connect_timeout_s: float = 10.0
    """Seconds for TCP, TLS, login and open of one attempt together."""
    retries: int = 5
    """Number of rounds through the list after the first."""
    retry_delay_s: float = 0.5
    """Seconds before the second round; doubles up to 30."""
    idle_timeout_s: float = 60.0
    """Seconds of silence after which the connection is given up, also while waiting for an answer."""
    max_frame_bytes: int = 65536
    tls_ca: str | None = None
    """PEM file; None trusts what the operating system trusts."""
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_verify: str = "hostname"
    """`hostname`, `certificate` or `none`."""
    sasl: str | None = None
    """SASL mechanism: `plain`, `anonymous`, or `external` with the certificate; None: plain if there is a user."""
    user: str | None = None
    _password: str | None = field(default=None, repr=False, alias="password")
    password_env: str | None = None
    password_file: str | None = None

    def password(self) -> str:
        """Read and return the password. Raises InvalidOption if the variable or file is missing."""
        if self._password is not None:
            return self._password
        if self.password_env is not None:
            value = os.environ.get(self.password_env)
            if value is None:
                raise InvalidOption(f"option passwordEnv: the environment has no variable {self.password_env}")
            return value
        if self.password_file is not None:
            try:
                return Path(self.password_file).read_text(encoding="utf-8").rstrip("\r\n")
            except OSError as error:
                raise InvalidOption(f"option passwordFile: {self.password_file}: {error.strerror}") from None
            except ValueError:
                raise InvalidOption(f"option passwordFile: {self.password_file} is not UTF-8") from None
        return ""


@frozen(kw_only=True)
class ReadOptions:
    """Options of a source: which messages a query reads, and what happens to them in the broker."""

    connection: ConnectionOptions
    mode: str = "subscription"
    addresses: tuple[str, ...] = ()
    address_pattern: str | None = None
    queues: tuple[str, ...] = ()
    """Queues by name or as `address::queue`."""
    subscription: str | None = None
    selector: str | None = None
    starting_offsets: str = "earliest"
    """`earliest`, `latest` or an offset in JSON."""
    ending_offsets: str = "latest"
    """`latest` or an offset in JSON; batch only."""
    starting_timestamp_ms: int | None = None
    """Begin with messages that arrived then or later; instead of `starting_offsets`."""
    ending_timestamp_ms: int | None = None
    """End before messages that arrived then or later; batch only."""
    max_messages_per_trigger: int | None = None
    min_messages_per_trigger: int = 0
    max_trigger_delay_s: float = 900.0
    min_partitions: int = 0
    max_messages_per_partition: int | None = None
    credit: int = 1000
    max_bytes_per_trigger: int | None = None
    """Limit in octets, estimated by the average size of the waiting messages."""
    ack: str = "eager"
    """`eager`, `engine`, `none`, or `keep=` and a number of batches."""
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = ()
    pushdown: bool = False
    """Batch only: let the query's filters decide what need not be read."""
    settle: str = "after"
    """Settlement in a drain: accept messages `after` their rows were passed to Spark, or have them settled `before`."""
    receive_timeout_s: float = 5.0
    """Seconds of silence that end a drain or spool, for brokers that do not answer a drain."""
    spool_dir: str | None = None
    """Folder of mode=spool, which driver and tasks share."""

    @property
    def kept_batches(self) -> int:
        """Number of committed batches that stay unacknowledged."""
        return int(self.ack.removeprefix("keep=")) if self.ack.startswith("keep=") else 0


@frozen(kw_only=True)
class WriteOptions:
    """Options of a sink: where and how rows are sent."""

    connection: ConnectionOptions
    address: str | None = None
    routing_type: str | None = None
    payload: str = "body"
    fields: tuple[str, ...] = ()
    """Columns that become fields of the message, with payload=json; the others are the object."""
    durable: bool = True
    idempotence: str | None = None
    """Value of the option; None: `column` if `duplicate_id` is a field of the rows, else `epoch`."""
    job_id: str | None = None
    epoch: int | None = None
    """Number of a batch job among those of its name; None: 0 for a batch, and a stream has the number of its batch."""
    max_in_flight: int = 5000
    max_messages_per_second: float | None = None
    """Limit of each task, because no task knows how many there are."""
    send_timeout_s: float = 60.0
    on_reject: str = "fail"
    error_address: str | None = None
    """Address for rejected messages, with onReject=deadletter."""
    max_message_bytes: int | None = None


# --- values ---


@frozen
class _Option:
    """Name of one option, field that it sets, and parser of its value."""

    name: str
    into: str
    read: Callable[[str], Any] = str


_CONNECTION: Final = (
    _Option("connectTimeout", "connect_timeout_s", timeout_s),
    _Option("retries", "retries", not_negative),
    _Option("retryDelay", "retry_delay_s", duration_s),
    _Option("idleTimeout", "idle_timeout_s", timeout_s),
    _Option("amqp.maxFrameSize", "max_frame_bytes", frame_bytes),
    _Option("tls.ca", "tls_ca"),
    _Option("tls.cert", "tls_cert"),
    _Option("tls.key", "tls_key"),
    _Option("tls.verify", "tls_verify", word("hostname", "certificate", "none")),
    _Option("sasl", "sasl", word("plain", "anonymous", "external")),
    _Option("user", "user"),
    _Option("password", "password"),
    _Option("passwordEnv", "password_env"),
    _Option("passwordFile", "password_file"),
)

_READ: Final = (
    _Option("mode", "mode", word(*SOURCE_MODES)),
    _Option("address", "addresses", names),
    _Option("addressPattern", "address_pattern"),
    _Option("queue", "queues", names),
    _Option("subscription", "subscription"),
    _Option("selector", "selector"),
    _Option("startingOffsets", "starting_offsets", starting_offsets("earliest", "latest")),
    _Option("endingOffsets", "ending_offsets", starting_offsets("latest")),
    _Option("startingTimestamp", "starting_timestamp_ms", timestamp_ms),
    _Option("endingTimestamp", "ending_timestamp_ms", timestamp_ms),
    _Option("maxMessagesPerTrigger", "max_messages_per_trigger", count),
    _Option("maxOffsetsPerTrigger", "max_messages_per_trigger", count),
    _Option("maxBytesPerTrigger", "max_bytes_per_trigger", byte_count),
    _Option("minMessagesPerTrigger", "min_messages_per_trigger", not_negative),
    _Option("maxTriggerDelay", "max_trigger_delay_s", duration_s),
    _Option("minPartitions", "min_partitions", not_negative),
    _Option("maxRecordsPerPartition", "max_messages_per_partition", count),
    _Option("credit", "credit", credit),
    _Option("ack", "ack", ack_policy),
    _Option("failOnDataLoss", "fail_on_data_loss", flag),
    _Option("columns", "columns", names),
    _Option("pushdown", "pushdown", flag),
    _Option("settle", "settle", word("before", "after")),
    _Option("receiveTimeout", "receive_timeout_s", duration_s),
    _Option("spoolDir", "spool_dir", folder),
)

_WRITE: Final = (
    _Option("address", "address"),
    _Option("routingType", "routing_type", word("anycast", "multicast")),
    _Option("payload", "payload", word(*PAYLOADS)),
    _Option("fields", "fields", names),
    _Option("durable", "durable", flag),
    _Option("idempotence", "idempotence", word(*IDEMPOTENCE)),
    _Option("jobId", "job_id"),
    _Option("epoch", "epoch", not_negative),
    _Option("maxInFlight", "max_in_flight", count),
    _Option("maxMessagesPerSecond", "max_messages_per_second", rate),
    _Option("sendTimeout", "send_timeout_s", timeout_s),
    _Option("onReject", "on_reject", word(*ON_REJECT)),
    _Option("errorAddress", "error_address"),
    _Option("maxMessageBytes", "max_message_bytes", byte_count),
)

_WHERE: Final = ("url", "host", "port", "tls")

_NOT_OFFERED: Final[Mapping[str, str]] = {
    "tokenfile": "there is no login by token; if the broker accepts a token as the password, put it into "
    "passwordFile, which is read for each connection",
    "amqp.sessionbytes": "the window of a session is 2,048 frames, so amqp.maxFrameSize sets its size",
}
"""Options of other connectors and brokers, for which there is a better answer than the nearest name."""

# Spark adds these to the options of a query.
_ENGINE: Final = frozenset(("checkpointlocation", "path", "queryname"))
# CREATE TABLE passes the properties of the table as well, this one among them, and each option a second time with the
# prefix.
_PROVIDER: Final = "provider"
_TABLE_OPTION: Final = "option."


# --- reading ---


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Return the options of a source. Raises InvalidOption."""
    values = _lowered(given)
    if not values:
        raise InvalidOption(
            "there are no options at all: Spark does not pass those of CREATE TABLE to a source in Python when the "
            "table is used; give them with SELECT … FROM table WITH (url = '…', …), or use CREATE TEMPORARY VIEW"
        )
    _check_names(values, _READ, "source")
    options = ReadOptions(connection=_connection(values), **_values(values, _READ))
    _check_source(options)
    return options


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Return the options of a sink. Raises InvalidOption."""
    values = _lowered(given)
    _check_names(values, _WRITE, "sink")
    options = WriteOptions(connection=_connection(values), **_values(values, _WRITE))
    _check_sink(options)
    return options


def connection_of(given: Mapping[str, str]) -> ConnectionOptions:
    """Return the options of a connection, without those of a source or sink. Raises InvalidOption."""
    return _connection(_lowered(given))


def _lowered(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options under names in lower case, without what CREATE TABLE adds."""
    values = {name.lower(): value for name, value in given.items()}
    if _PROVIDER not in values:
        return values
    return {name: value for name, value in values.items() if _TABLE_OPTION + name in values}


def _check_names(values: Mapping[str, str], table: tuple[_Option, ...], what: str) -> None:
    known = {option.name.lower(): option.name for option in (*_CONNECTION, *table)}
    known |= {name: name for name in _WHERE}
    for name in values:
        if name in _NOT_OFFERED:
            raise InvalidOption(f"there is no option {name!r}: {_NOT_OFFERED[name]}")
        if name not in known and name not in _ENGINE:
            hint = option_hint(name, table is _READ)
            if hint:
                raise InvalidOption(f"the amqp {what} has no option {name!r}, which is one of Kafka's: {hint}")
            near = difflib.get_close_matches(name, known, n=1)
            proposal = f"; did you mean {known[near[0]]}?" if near else ""
            raise InvalidOption(f"the amqp {what} has no option {name!r}{proposal}")


def _values(values: Mapping[str, str], table: tuple[_Option, ...]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for option in table:
        text = values.get(option.name.lower())
        if text is None:
            continue
        try:
            result[option.into] = option.read(text)
        except ValueError as error:
            shown = "" if option.name == "password" else f" {text!r}"
            raise InvalidOption(f"option {option.name}{shown}: {error}") from None
    return result


def _connection(values: Mapping[str, str]) -> ConnectionOptions:
    options = ConnectionOptions(servers=_servers(values), **_values(values, _CONNECTION))
    secrets = [name for name in ("password", "passwordEnv", "passwordFile") if name.lower() in values]
    if len(secrets) > 1:
        raise InvalidOption(f"options {' and '.join(secrets)}: give one of them")
    if secrets and options.user is None:
        raise InvalidOption(f"option {secrets[0]} needs the option user")
    if options.sasl == "plain" and options.user is None:
        raise InvalidOption("sasl=plain needs the option user")
    if options.sasl == "external" and (options.tls_cert is None or not all(server.tls for server in options.servers)):
        raise InvalidOption("sasl=external needs an amqps:// url and the option tls.cert: the certificate is the login")
    return options


def _servers(values: Mapping[str, str]) -> tuple[Server, ...]:
    """Return the failover list: `url`, or `host` with `port` and `tls`; the default is the broker on this machine."""
    if "url" in values and ("host" in values or "port" in values):
        raise InvalidOption("options url and host/port: give one of them")
    if "url" not in values:
        scheme = "amqps" if _read_flag(values, "tls") else "amqp"
        port = f":{values['port']}" if "port" in values else ""
        hosts = names(values.get("host", "localhost"))
        return tuple(_server(f"{scheme}://{host}{port}") for host in hosts)
    servers = tuple(_server(url) for url in names(values["url"]))
    if not servers:
        raise InvalidOption("option url: it is empty; use amqp://host:port")
    if _read_flag(values, "tls") and not all(server.tls for server in servers):
        raise InvalidOption("option tls: a url that begins with amqp:// means no TLS; use amqps://")
    return servers


def _read_flag(values: Mapping[str, str], name: str) -> bool:
    try:
        return flag(values.get(name, "false"))
    except ValueError as error:
        raise InvalidOption(f"option {name}: {error}") from None


def _server(text: str) -> Server:
    try:
        parts = urlsplit(text if "://" in text else f"amqp://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        # The text of the exception is Python's, and the URL may contain a password.
        raise InvalidOption("option url: use amqp://host:port, with a port from 0 to 65535") from None
    if parts.username or parts.password:
        # A URL is logged and shown in many places: it must not contain a secret, and the error does not repeat it.
        raise InvalidOption("option url: the user goes into the option user, the password into passwordFile")
    if parts.scheme not in ("amqp", "amqps") or not host or parts.path.strip("/"):
        raise InvalidOption(f"option url: {text!r}: use amqp://host:port, or amqps://host:port for TLS")
    return Server(host=host, port=DEFAULT_PORT if port is None else port, tls=parts.scheme == "amqps")


def _check_sink(options: WriteOptions) -> None:
    """Raise InvalidOption for options that contradict each other."""
    if options.address == "":
        raise InvalidOption("option address: it is empty; leave it out if the rows have a column 'address'")
    if options.epoch is not None and options.job_id is None:
        raise InvalidOption("option epoch needs the option jobId: it numbers the jobs of one name")
    if options.epoch is not None and options.idempotence not in (None, "epoch"):
        raise InvalidOption(f"option epoch is for idempotence=epoch, not {options.idempotence}")
    if options.fields and options.payload != "json":
        raise InvalidOption(f"option fields is for payload=json, not payload={options.payload}")
    if options.error_address is not None and options.on_reject != "deadletter":
        raise InvalidOption(f"option errorAddress is for onReject=deadletter, not onReject={options.on_reject}")
    if options.on_reject == "deadletter":
        if not options.error_address:
            raise InvalidOption("onReject=deadletter needs the option errorAddress: where rejected messages go")
        if options.error_address == options.address:
            raise InvalidOption(
                "options address and errorAddress: they must differ, because an address cannot keep what it rejects"
            )


def _check_source(options: ReadOptions) -> None:
    """Raise InvalidOption for options that contradict each other."""
    has_addresses = bool(options.addresses or options.address_pattern)
    if bool(options.queues) == has_addresses:
        raise InvalidOption("say what to read: address, addressPattern or queue, one of them")
    if options.addresses and options.address_pattern:
        raise InvalidOption("options address and addressPattern: give one of them")
    if options.mode == "subscription":
        if options.queues:
            raise InvalidOption("option queue is for mode=browse or drain; a subscription is made on an address")
        if not options.subscription:
            raise InvalidOption(
                "mode=subscription needs the option subscription: the name under which the broker keeps the messages "
                "for this query; mode=browse reads an existing queue and leaves everything in it"
            )
    elif options.subscription:
        raise InvalidOption(f"option subscription is for mode=subscription, not mode={options.mode}")
    if options.pushdown and options.mode in ("drain", "spool"):
        raise InvalidOption(f"mode={options.mode} takes all that it finds: pushdown is for ranges of numbers")
    if options.mode in ("drain", "spool") and options.address_pattern:
        raise InvalidOption(f"mode={options.mode} reads named addresses or queues, not an addressPattern")
    if options.starting_timestamp_ms is not None and options.starting_offsets != "earliest":
        raise InvalidOption("options startingOffsets and startingTimestamp: give one of them")
    if options.ending_timestamp_ms is not None and options.ending_offsets != "latest":
        raise InvalidOption("options endingOffsets and endingTimestamp: give one of them")
    if options.mode in ("drain", "spool") and (options.starting_timestamp_ms, options.ending_timestamp_ms) != (
        None,
        None,
    ):
        raise InvalidOption(f"mode={options.mode} takes what is in the queues, whatever its time")
    _check_spool(options)


def _check_spool(options: ReadOptions) -> None:
    if options.mode != "spool":
        if options.spool_dir is not None:
            raise InvalidOption(f"option spoolDir is for mode=spool, not mode={options.mode}")
        return
    if options.spool_dir is None:
        raise InvalidOption("mode=spool needs the option spoolDir: a folder that the driver and all tasks share")
    if options.starting_offsets != "earliest":
        raise InvalidOption("mode=spool takes what is in the queues: startingOffsets can only be earliest")
    if options.settle != "after":
        raise InvalidOption("mode=spool accepts a message when it is on disk, never before: settle can only be after")
