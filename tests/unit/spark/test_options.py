"""Options of the Spark source and sink: names, values, secrets."""

import re
from pathlib import Path

import pytest

from artemis_py.spark import options
from artemis_py.spark.columns import schema_text
from artemis_py.spark.connection import tls_context
from artemis_py.spark.errors import InvalidOption
from artemis_py.spark.kafka_names import CONNECTION_OPTIONS, READ_OPTIONS, WRITE_OPTIONS
from artemis_py.spark.options import read_options, write_options

BROWSE = {"mode": "browse", "queue": "orders"}


def test_names_are_read_whatever_their_case() -> None:
    """Spark hands them over in a case-insensitive mapping, a plain dict has them in lower case."""
    options = read_options({**BROWSE, "MAXMESSAGESPERTRIGGER": "5", "failondataloss": "False"})

    assert (options.max_messages_per_trigger, options.fail_on_data_loss) == (5, False)


def test_the_name_that_kafka_users_know_is_an_alias() -> None:
    assert read_options({**BROWSE, "maxOffsetsPerTrigger": "7"}).max_messages_per_trigger == 7


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({**BROWSE, "maxMesagesPerTrigger": "1"}, "did you mean maxMessagesPerTrigger?"),
        ({**BROWSE, "zzz": "1"}, "the amqp source has no option 'zzz'"),
        ({**BROWSE, "mode": "peek"}, "option mode 'peek': must be subscription or browse or drain"),
        ({**BROWSE, "minPartitions": "-1"}, "option minPartitions '-1': must not be negative"),
        ({**BROWSE, "credit": "many"}, "option credit 'many': must be a whole number"),
        ({**BROWSE, "minPartitions": "1.5"}, "option minPartitions '1.5': must be a whole number"),
        ({**BROWSE, "credit": "9999999999"}, "option credit '9999999999': must be at most 2147483647"),
        ({**BROWSE, "minPartitions": "9" * 20}, "must be at most 9223372036854775807"),
        ({**BROWSE, "maxBytesPerTrigger": "9999999999999g"}, "must be at most 8589934591"),
        ({**BROWSE, "idleTimeout": "1e300"}, "must be at most 2592000 seconds"),
        ({**BROWSE, "idleTimeout": "0"}, "option idleTimeout '0': must be more than 0"),
        ({**BROWSE, "connectTimeout": "0ms"}, "option connectTimeout '0ms': must be more than 0"),
        ({**BROWSE, "startingTimestamp": "9" * 20}, "must be at most 9223372036854775807"),
        ({**BROWSE, "retryDelay": "soon"}, "option retryDelay 'soon': must be a duration such as 500ms, 10s or 2m"),
        ({**BROWSE, "retryDelay": "nan"}, "must be a duration such as"),
        ({**BROWSE, "maxBytesPerTrigger": "64 MB"}, "must be a number of bytes such as 65536, 64k or 16m"),
        ({**BROWSE, "ack": "keep=x"}, "option ack 'keep=x': must be a whole number"),
        ({**BROWSE, "startingTimestamp": "²"}, "must be milliseconds since 1970"),
        ({**BROWSE, "failOnDataLoss": "maybe"}, "must be true or false"),
        ({**BROWSE, "startingOffsets": "{broken"}, "must be an offset in JSON, as in a checkpoint"),
        ({**BROWSE, "url": "amqp://a:b"}, "option url: use amqp://host:port, with a port from 0 to 65535"),
        ({**BROWSE, "url": "http://a"}, "use amqp://host:port"),
        ({**BROWSE, "url": "amqp://a", "host": "b"}, "give one of them"),
        ({**BROWSE, "url": "amqp://a", "tls": "true"}, "use amqps://"),
        ({**BROWSE, "password": "x"}, "needs the option user"),
        ({**BROWSE, "user": "u", "password": "x", "passwordEnv": "Y"}, "options password and passwordEnv"),
        ({**BROWSE, "ack": "keep"}, "must be eager or engine or none or keep=<batches>"),
        ({**BROWSE, "ack": "keep=0"}, "must be 1 or more"),
        ({**BROWSE, "sasl": "external"}, "the certificate is the login"),
        ({**BROWSE, "sasl": "plain"}, "needs the option user"),
        ({**BROWSE, "sasl": "scram-sha-256"}, "must be plain or anonymous or external"),
        ({**BROWSE, "tokenFile": "/t"}, "passwordFile, which is read for each"),
        ({**BROWSE, "amqp.sessionBytes": "1m"}, "amqp.maxFrameSize sets its size"),
        ({**BROWSE, "startingOffsetsByTimestamp": "{}"}, "use startingTimestamp, which is for all queues"),
        ({**BROWSE, "mode": "drain", "pushdown": "true"}, "pushdown is for ranges"),
        ({"mode": "browse"}, "say what to read"),
        ({**BROWSE, "address": "a"}, "say what to read"),
        ({"address": "a"}, "needs the option subscription"),
        ({"queue": "a", "subscription": "s"}, "a subscription is made on an address"),
        ({**BROWSE, "subscription": "s"}, "is for mode=subscription"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_could_be(given: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        read_options(given)

    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"errorAddress": "e"}, "is for onReject=deadletter, not onReject=fail"),
        ({"onReject": "drop", "errorAddress": "e"}, "is for onReject=deadletter, not onReject=drop"),
        ({"onReject": "deadletter"}, "needs the option errorAddress"),
        ({"onReject": "deadletter", "errorAddress": ""}, "needs the option errorAddress"),
        ({"onReject": "deadletter", "errorAddress": "a", "address": "a"}, "options address and errorAddress"),
        ({"onReject": "keep"}, "must be fail or drop or deadletter"),
        ({"epoch": "5"}, "option epoch needs the option jobId"),
        ({"epoch": "5", "jobId": "j", "idempotence": "source"}, "option epoch is for idempotence=epoch, not source"),
        ({"epoch": "-5", "jobId": "j"}, "option epoch '-5': must not be negative"),
        ({"fields": "subject"}, "option fields is for payload=json, not payload=body"),
    ],
)
def test_what_a_sink_cannot_do_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        write_options(given)


def test_a_rate_that_is_no_number_is_refused_in_plain_words() -> None:
    with pytest.raises(InvalidOption, match="option maxMessagesPerSecond 'fast': must be a number of messages per"):
        write_options({"address": "a", "maxMessagesPerSecond": "fast"})


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("kafka.bootstrap.servers", "url"),
        ("subscribe", "subscription"),
        ("subscribePattern", "addressPattern"),
        ("assign", "queue"),
        ("kafka.group.id", "subscription"),
        ("minOffsetsPerTrigger", "minMessagesPerTrigger"),
        ("includeHeaders", "properties"),
        ("kafka.fetch.max.bytes", "docs/spark.md"),
    ],
)
def test_an_option_of_kafka_names_ours(name: str, ours: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        read_options({**BROWSE, name: "x"})

    assert "which is one of Kafka's" in str(raised.value)
    assert ours in str(raised.value)


@pytest.mark.parametrize(("name", "ours"), [("topic", "address"), ("kafka.max.request.size", "maxMessageBytes")])
def test_an_option_of_kafkas_sink_names_ours(name: str, ours: str) -> None:
    with pytest.raises(InvalidOption, match=f"one of Kafka's: use {ours}"):
        write_options({"address": "a", name: "x"})


def test_every_hint_names_an_option_that_exists() -> None:
    """Or says that there is nothing to set."""
    known = {"url", "queue"} | {option.name for option in (*options._READ, *options._WRITE, *options._CONNECTION)}
    for hint in (*READ_OPTIONS.values(), *WRITE_OPTIONS.values(), *CONNECTION_OPTIONS.values()):
        words = set(re.findall(r"[A-Za-z.]+[A-Za-z]", hint))
        assert hint.startswith("leave it out") or words & known, hint


def test_columns_of_kafka_name_ours() -> None:
    with pytest.raises(InvalidOption, match="what Kafka calls value is body"):
        schema_text(("value",))


def test_what_create_table_adds_is_no_option_of_ours() -> None:
    added = {
        "provider": "amqp",
        "owner": "me",
        "comment": "c",
        "mine": "x",
        "option.queue": "orders",
        "option.mode": "browse",
    }

    assert read_options({**BROWSE, **added}).queues == ("orders",)
    with pytest.raises(InvalidOption, match="has no option 'owner'"):
        read_options({**BROWSE, "owner": "me"})


def test_a_table_whose_options_spark_does_not_pass_is_told_how_it_can_be_read() -> None:
    with pytest.raises(InvalidOption, match="use CREATE TEMPORARY VIEW"):
        read_options({})


def test_a_list_of_urls_is_the_failover_order() -> None:
    servers = read_options({**BROWSE, "url": "amqps://one:5671, amqp://two"}).connection.servers

    assert [str(server) for server in servers] == ["amqps://one:5671", "amqp://two:61616"]


@pytest.mark.parametrize(("text", "seconds"), [("250ms", 0.25), ("10", 10), ("2m", 120), ("1.5 s", 1.5), ("1h", 3600)])
def test_durations_have_units(text: str, seconds: float) -> None:
    assert read_options({**BROWSE, "connectTimeout": text}).connection.connect_timeout_s == pytest.approx(seconds)


def test_no_text_shows_a_password() -> None:
    """Plans, logs and exceptions print records."""
    options = write_options({"address": "a", "user": "u", "password": "geheim"})

    assert options.connection.password() == "geheim"
    assert "geheim" not in repr(options)
    with pytest.raises(InvalidOption) as raised:
        read_options({**BROWSE, "url": "amqp://u:geheim@host"})
    assert "geheim" not in str(raised.value)


def test_a_password_is_read_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what travels to the tasks holds none."""
    monkeypatch.setenv("BROKER_PASSWORD", "geheim")
    by_name = read_options({**BROWSE, "user": "u", "passwordEnv": "BROKER_PASSWORD"}).connection
    monkeypatch.delenv("BROKER_PASSWORD")

    with pytest.raises(InvalidOption, match="no variable BROKER_PASSWORD"):
        by_name.password()
    with pytest.raises(InvalidOption, match="option passwordFile: /nowhere/at/all: No such file or directory"):
        read_options({**BROWSE, "user": "u", "passwordFile": "/nowhere/at/all"}).connection.password()


def test_a_file_of_a_login_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "octets").write_bytes(b"\xff")
    with pytest.raises(InvalidOption, match="octets is not UTF-8"):
        read_options({**BROWSE, "user": "u", "passwordFile": str(tmp_path / "octets")}).connection.password()
    options = read_options({**BROWSE, "url": "amqps://a", "tls.ca": "/nowhere/at/all"}).connection
    with pytest.raises(InvalidOption, match=r"tls\.ca, tls\.cert, tls\.key: /nowhere/at/all: No such file"):
        tls_context(options)


def test_an_empty_address_is_refused() -> None:
    with pytest.raises(InvalidOption, match="option address: it is empty"):
        write_options({"address": ""})
