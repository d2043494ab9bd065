"""Messages as rows. Proton writes the messages: what it means, the columns must say."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import (
    UNDESCRIBED,
    Array,
    Data,
    Message,
    char,
    decimal32,
    float32,
    int32,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
)

from artemis_amqp.engine.codec import encode_value
from artemis_amqp.engine.types import Described, Symbol, ULong
from artemis_amqp.messages.delivery import annotations_bytes
from artemis_py.errors import MalformedFrame
from artemis_py.spark.columns import COLUMNS, DERIVED
from artemis_py.spark.decoding import Rows, printed

EVERYTHING = frozenset(COLUMNS) - {"address", "queue", "sequence"} - DERIVED


def row(payload: bytes, *names: str) -> dict[str, object]:
    """The columns of one message; maps as dict."""
    rows = Rows(frozenset(names) or EVERYTHING)
    rows.add(bytes(payload))  # Proton gives a bytearray
    values = {name: column[0] for name, column in rows.columns.items() if column}
    for name in rows.ends:
        values[name] = dict(zip(rows.keys[name], rows.items[name], strict=True))
    return values | {"sequence": rows.sequences[0]}


def test_properties_and_header_become_columns() -> None:
    message = Message(
        id="m1",
        correlation_id=ulong(7),
        user_id=b"me",
        address="there",
        subject="s",
        reply_to="back",
        content_type=symbol("text/plain"),
        content_encoding=symbol("gzip"),
        group_id="g",
        group_sequence=3,
        creation_time=1.5,
        expiry_time=2.5,
        durable=True,
        priority=7,
        ttl=9.0,
        body="hello",
    )

    found = row(message.encode())

    assert found == {
        "sequence": -1,
        "enqueued_time": None,
        "body": b"hello",
        "body_type": "string",
        "message_id": "m1",
        "correlation_id": "7",
        "user_id": "me",
        "to": "there",
        "subject": "s",
        "reply_to": "back",
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "group_id": "g",
        "group_sequence": 3,
        "creation_time": 1_500_000,
        "expiry_time": 2_500_000,
        "durable": True,
        "priority": 7,
        "ttl_ms": 9000,
        "delivery_count": 0,
        "properties": {},
        "annotations": {},
        "message": found["message"],
    }


def test_what_a_message_does_not_say_has_its_default() -> None:
    found = row(b"\x00\x53\x75\xa0\x01x")

    assert (found["durable"], found["priority"], found["ttl_ms"], found["delivery_count"]) == (False, 4, None, 0)
    assert (found["message_id"], found["properties"], found["body"]) == (None, {}, b"x")


@pytest.mark.parametrize(
    ("body", "expected", "kind"),
    [
        ("text", b"text", "string"),
        ("x" * 300, b"x" * 300, "string"),
        (5, b"\x55\x05", "value"),
        (None, None, "value"),
        ({"a": 1}, encode_value({"a": 1}), "value"),
    ],
)
def test_a_value_is_text_or_stays_encoded(body: object, expected: object, kind: str) -> None:
    found = row(encode_value(Described(ULong(0x77), body)), "body", "body_type")

    assert (found["body"], found["body_type"]) == (expected, kind)


@pytest.mark.parametrize("size", [0, 255, 256, 70_000])
def test_data_is_the_octets_themselves(size: int) -> None:
    found = row(Message(body=b"o" * size, inferred=True).encode(), "body", "body_type")

    assert (found["body"], found["body_type"]) == (b"o" * size, "data")


def test_several_data_sections_are_joined() -> None:
    payload = b"\x00\x53\x75\xa0\x01a\x00\x53\x75\xa0\x01b\x00\x53\x75\xb0\x00\x00\x00\x01c"

    assert row(payload, "body")["body"] == b"abc"


def test_application_properties_are_printed() -> None:
    identifier = UUID(int=5)
    properties = {"s": "x", "i": 1, "b": True, "f": 1.5, "o": b"raw", "u": identifier, "n": None, "u8": ubyte(3)}

    assert row(Message(properties=properties).encode(), "properties")["properties"] == {
        "s": "x",
        "i": "1",
        "b": "true",
        "f": "1.5",
        "o": "raw",
        "u": str(identifier),
        "n": None,
        "u8": "3",
    }


@given(st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers_are_printed_whatever_octets_they_take(number: int) -> None:
    """The shortest form is a signed octet; Proton's `int` has four or one, `ubyte` its own code."""
    properties = {"long": number, "int": int32(number % 2**32 - 2**31), "small": int32(number % 256 - 128)}

    assert row(Message(properties=properties).encode(), "properties")["properties"] == {
        name: str(int(value)) for name, value in properties.items()
    }


def test_each_row_has_its_own_header() -> None:
    """Headers that are the same octets are decoded once."""
    rows = Rows(frozenset(("durable", "priority", "ttl_ms", "delivery_count")))
    for durable, priority in ((True, 7), (False, 4), (True, 7), (True, 2)):
        rows.add(bytes(Message(durable=durable, priority=priority, body="x").encode()))
    rows.add(b"\x00\x53\x75\xa0\x01x")

    assert rows.columns == {
        "durable": [True, False, True, True, False],
        "priority": [7, 4, 7, 2, 4],
        "ttl_ms": [None] * 5,
        "delivery_count": [0] * 5,
    }


@pytest.mark.parametrize(
    ("value", "text"), [(b"\xff\x00", "ff00"), (False, "false"), (Symbol("y"), "y"), (2**63 - 1, str(2**63 - 1))]
)
def test_values_have_one_printed_form(value: object, text: str) -> None:
    assert printed(value) == text


def test_the_number_in_the_queue_is_read_as_our_broker_writes_it() -> None:
    payload = annotations_bytes(b"", 42, None) + b"\x00\x53\x75\xa0\x00"

    found = row(payload, "body", "annotations")

    assert (found["sequence"], found["annotations"]) == (42, {"x-opt-sequence-number": "42"})


def test_number_and_time_are_found_wherever_a_broker_writes_them() -> None:
    """Azure's brokers put them elsewhere in the map."""
    message = Message(
        annotations={symbol("a"): "b", symbol("x-opt-enqueued-time"): timestamp(3), symbol("x-opt-sequence-number"): 9}
    )

    found = row(message.encode(), "enqueued_time", "annotations")

    assert (found["sequence"], found["enqueued_time"]) == (9, 3000)
    assert found["annotations"] == {"a": "b", "x-opt-enqueued-time": "3", "x-opt-sequence-number": "9"}


def test_our_brokers_time_of_arrival_is_the_time() -> None:
    payload = annotations_bytes(b"", 1, {"_AMQ_INGRESS_TIMESTAMP": 1234}) + b"\x00\x53\x75\xa0\x00"

    assert row(payload, "enqueued_time")["enqueued_time"] == 1_234_000


def test_the_bare_message_is_untouched() -> None:
    bare = Message(id="x", properties={"k": 1}, body="b").encode()

    assert (
        row(annotations_bytes(b"", 1, None) + bare[bare.index(b"\x00\x53\x73") :], "message")["message"]
        == bare[bare.index(b"\x00\x53\x73") :]
    )


@pytest.mark.parametrize("payload", [b"\x00", b"\x00\x53\x75\xa0\x05x", b"\x01\x02\x03\x04", b"\x00\x53\x72\xa1\x01x"])
def test_damaged_octets_are_an_error(payload: bytes) -> None:
    with pytest.raises(MalformedFrame):
        row(payload)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=300),
    st.binary(max_size=300),
    st.integers(0, 255).map(ubyte),
    st.integers(0, 2**32 - 1).map(uint),
    st.integers(-(2**31), 2**31 - 1).map(int32),
    st.characters(categories=["L"]).map(char),
)


@given(
    body=st.one_of(st.text(max_size=300), st.binary(max_size=300)),
    properties=st.dictionaries(st.text(max_size=20), VALUES, max_size=5),
    subject=st.none() | st.text(max_size=300),
    durable=st.booleans(),
)
def test_rows_say_what_proton_says(
    body: object, properties: dict[str, object], subject: str | None, durable: bool
) -> None:
    sent = Message(body=body, inferred=isinstance(body, bytes), properties=properties, subject=subject, durable=durable)
    payload = sent.encode()
    read = Message()
    read.decode(payload)

    found = row(payload)

    assert found["body"] == (read.body.encode() if isinstance(read.body, str) else bytes(read.body))
    assert found["subject"] == read.subject
    assert found["durable"] is read.durable
    columns = found["properties"]
    assert isinstance(columns, dict)
    assert columns.keys() == (read.properties or {}).keys()


def test_sections_may_be_named_in_full() -> None:
    """The descriptor's symbolic form (AMQP 1.0 §1.2)."""
    payload = encode_value(Described(Symbol("amqp:data:binary"), b"x")) + encode_value(
        Described(Symbol("amqp:footer:map"), {})
    )

    assert row(payload, "body")["body"] == b"x"
    assert row(encode_value(Described(ULong(2**40), b"x")), "body")["body"] is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"a": [1, 2.5, None, True], 7: "ü"}, {"a": [1, 2.5, None, True], "7": "ü"}),
        ([1, ["x"]], [1, ["x"]]),
        ("text", "text"),
        (b"\xff\x00", "/wA="),
        (timestamp(1_800_000_000_123), "2027-01-15T08:00:00.123Z"),
        (timestamp(2**60), 2**60),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (decimal32(0), "0E-101"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (float32(0.1), 0.1),
        (symbol("s"), "s"),
        (True, True),
        (Array(UNDESCRIBED, Data.INT, 1, 2), [1, 2]),
    ],
)
def test_a_body_keeps_its_types_as_json(body: object, expected: object) -> None:
    found = row(Message(body=body).encode(), "body_json")["body_json"]

    assert json.loads(str(found)) == expected


def test_several_body_sections_are_one_body() -> None:
    data = b"\x00\x53\x75\xa0\x01a" * 2
    items = b"\x00\x53\x76\xc0\x03\x01\x54\x07" * 2

    assert json.loads(str(row(data, "body_json")["body_json"])) == "YWE="
    assert json.loads(str(row(items, "body_json")["body_json"])) == [7, 7]
    assert row(b"", "body_json")["body_json"] is None


def test_properties_keep_their_types_as_json() -> None:
    """The map has only texts."""
    message = Message(body=None, properties={"n": ulong(5), "t": True, "f": 1.5, "s": "5", "none": None, "b": b"x"})

    found = row(message.encode(), "properties_json")["properties_json"]

    assert json.loads(str(found)) == {"n": 5, "t": True, "f": 1.5, "s": "5", "none": None, "b": "eA=="}
    assert row(Message(body=None).encode(), "properties_json")["properties_json"] is None


def test_a_delivery_that_fails_becomes_a_row_with_its_number_and_octets() -> None:
    """Whatever it had left in the columns until then is gone, and the rows around it are whole."""
    rows = Rows(frozenset(COLUMNS) - {"queue"})
    good = annotations_bytes(b"", 6, None) + bytes(Message(body="x", subject="s", properties={"k": "v"}).encode())
    broken = (
        annotations_bytes(b"", 7, None)
        + b"\x00\x53\x73\xc0\x06\x02\xa1\x01m\x40"
        + (b"\x00\x53\x74\xc1\x08\x04\xa1\x01a\x40\xa1\x01b\xff\x00\x53\x77\xa1\x01x")
    )

    rows.add(good)
    with pytest.raises(MalformedFrame):
        rows.add(broken)
    rows.add_failed(broken, "why")
    rows.add(annotations_bytes(b"", 8, None) + bytes(Message(body="y", properties={"l": "w"}).encode()))

    assert (rows.count, rows.sequences) == (3, [6, 7, 8])
    assert rows.columns["error"] == [None, "why", None]
    assert rows.columns["subject"] == ["s", None, None]
    assert rows.columns["body"] == [b"x", None, b"y"]
    assert rows.columns["message"][1] == broken
    assert (rows.keys["properties"], rows.items["properties"]) == (["k", "l"], ["v", "w"])
    assert rows.ends["properties"] == [0, 1, 1, 2]
    assert {len(column) for name, column in rows.columns.items() if name not in (*rows.ends, "sequence")} == {3}
