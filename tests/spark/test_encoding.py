"""Rows as messages. Proton reads them: what the columns say, the message must mean. Needs no session."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Message

from artemis_py.spark.batches import Encoder
from artemis_py.spark.errors import SendFailed
from artemis_py.spark.options import write_options

pa = pytest.importorskip("pyarrow", reason="the sink takes Arrow batches: pip install 'artemis-py-broker[spark]'")

# Proton ends a text at its first NUL.
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")
TEXT = st.none() | st.text(CHARACTERS, max_size=400)
ASCII = st.none() | st.text(alphabet=st.characters(max_codepoint=126, min_codepoint=32), min_size=1, max_size=300)
TIME = st.none() | st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
ROW = st.fixed_dictionaries(
    {
        "body": st.binary(max_size=400),
        "message_id": TEXT,
        "user_id": TEXT,
        "to": TEXT,
        "subject": TEXT,
        "reply_to": TEXT,
        "correlation_id": TEXT,
        "content_type": ASCII,
        "content_encoding": ASCII,
        "expiry_time": TIME,
        "creation_time": TIME,
        "group_id": TEXT,
        "group_sequence": st.none() | st.integers(0, 2**32 - 1),
        "priority": st.none() | st.integers(0, 9),
        "durable": st.none() | st.booleans(),
        "ttl_ms": st.none() | st.integers(0, 2**32 - 1),
        "properties": st.none() | st.dictionaries(st.text(CHARACTERS, max_size=20), TEXT, max_size=4),
    }
)
TYPES = {
    "body": pa.binary(),
    "expiry_time": pa.timestamp("us", "UTC"),
    "creation_time": pa.timestamp("us", "UTC"),
    "scheduled_time": pa.timestamp("us", "UTC"),
    "delay_ms": pa.int64(),
    "group_sequence": pa.int64(),
    "priority": pa.int32(),
    "durable": pa.bool_(),
    "ttl_ms": pa.int64(),
    "properties": pa.map_(pa.string(), pa.string()),
}


def encoded(rows: list[dict[str, Any]], **options: str) -> list[Message]:
    """What Proton reads of these rows."""
    names = list(rows[0])
    arrays = []
    for name in names:
        values = [row[name] for row in rows]
        kind = TYPES.get(name, pa.string())
        if name == "properties":
            values = [None if value is None else list(value.items()) for value in values]
        arrays.append(pa.array(values, kind))
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    found = []
    for one in Encoder(write_options({"address": "a", **options}), "w").messages(batch):
        message = Message()
        message.decode(one.head + one.bare)
        found.append(message)
    return found


def milliseconds(moment: datetime | None) -> float:
    return 0.0 if moment is None else int(moment.timestamp() * 1000) / 1000


@given(rows=st.lists(ROW, min_size=1, max_size=3))
def test_proton_reads_what_the_columns_say(rows: list[dict[str, Any]]) -> None:
    for row, message in zip(rows, encoded(rows), strict=True):
        assert bytes(message.body) == row["body"]
        for name in ("subject", "reply_to", "group_id", "correlation_id"):
            assert (getattr(message, name) or None) == (row[name] or None), name
        for name in ("content_type", "content_encoding"):
            # Proton has the symbol None for a field that is not there.
            assert getattr(message, name) == (row[name] or "None"), name
        assert (message.id or None, message.address or None) == (row["message_id"] or None, row["to"] or None)
        assert bytes(message.user_id or b"").decode() == (row["user_id"] or "")
        assert (message.group_sequence or 0) == (row["group_sequence"] or 0)
        assert message.priority == (4 if row["priority"] is None else row["priority"])
        assert message.durable is (row["durable"] is not False)
        assert round(message.ttl * 1000) == (row["ttl_ms"] or 0)
        assert message.creation_time == milliseconds(row["creation_time"])
        assert message.expiry_time == milliseconds(row["expiry_time"])
        assert (message.properties or {}) == (row["properties"] or {})


def test_ids_of_the_source_name_the_message_a_row_came_from() -> None:
    rows = [{"body": b"x", "queue": "q", "sequence": "7", "properties": None}]

    (message,) = encoded(rows, idempotence="source")

    assert message.properties == {"_AMQ_DUPL_ID": "w:q:7"}


def test_a_row_without_a_payload_is_named() -> None:
    with pytest.raises(SendFailed, match="row 1 of a batch has no body"):
        encoded([{"body": b"x"}, {"body": None}])


def test_what_amqp_has_no_symbol_for_is_refused() -> None:
    with pytest.raises(SendFailed, match="row 1 of a batch: column 'content_type' is 'ü', but it is ASCII only"):
        encoded([{"body": b"x", "content_type": "text/plain"}, {"body": b"x", "content_type": "ü"}])


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("priority", 10, "is 10, not from 0 to 9"),
        ("priority", -1, "is -1, not from 0 to 9"),
        ("ttl_ms", 2**32, "not from 0 to 4294967295; the column expiry_time has no such limit"),
        ("ttl_ms", -1, "is -1, not from 0"),
        ("group_sequence", 2**32, "not from 0 to 4294967295"),
        ("group_sequence", -1, "is -1"),
        ("delay_ms", -5, "is -5"),
        ("scheduled_time", datetime(1969, 12, 31, tzinfo=UTC), "is 1969-12-31 00:00:00.000000Z, before 1970"),
        ("expiry_time", datetime(1970, 1, 1, tzinfo=UTC), "00:00:00.000000Z, not after the beginning of 1970"),
    ],
)
def test_a_value_that_a_field_cannot_have_is_named_with_row_and_column(column: str, value: object, reason: str) -> None:
    """Nothing is sent instead: a priority of 10 is not 9, and a time to live of -1 is not none."""
    with pytest.raises(SendFailed) as raised:
        encoded([{"body": b"x", column: None}, {"body": b"y", column: value}])

    assert f"row 1 of a batch: column '{column}' is" in str(raised.value)
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.date32(), [0, 3_800_000]),
        (pa.timestamp("us", "UTC"), [0, -63_549_817_200_000_000]),
        (pa.list_(pa.date32()), [[0], [0, 3_800_000]]),
    ],
)
def test_a_date_that_no_object_can_have_is_named_with_row_and_column(kind: Any, values: list[object]) -> None:
    """Spark has dates of the years -4712 and 294247, Python has not."""
    raw = pa.list_(pa.int32()) if pa.types.is_list(kind) else pa.int32() if pa.types.is_date(kind) else pa.int64()
    batch = pa.RecordBatch.from_arrays([pa.array(values, raw).cast(kind)], ["day"])
    encoder = Encoder(write_options({"address": "a", "payload": "json"}), "w")

    with pytest.raises(SendFailed, match="row 1 of a batch: column 'day' has a date or time that is not in the years"):
        list(encoder.messages(batch))
    assert list(encoder.messages(batch.slice(0, 1)))


def test_a_scheduled_time_before_the_year_1_is_named() -> None:
    times = pa.array([-63_549_817_200_000_000], pa.int64()).cast(pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays([pa.array(["x"]), times], ["body", "scheduled_time"])

    with pytest.raises(SendFailed, match=r"is -0044-03-09 17:00:00\.000000Z, before 1970"):
        list(Encoder(write_options({"address": "a"}), "w").messages(batch))


def test_a_whole_message_is_sent_as_it_is() -> None:
    """Header and annotations are those of the columns; the columns of its fields are not looked at."""
    encoded_message = bytes(Message(body="x", subject="its own").encode())
    bare = encoded_message[encoded_message.index(b"\x00\x53\x73") :]
    batch = pa.RecordBatch.from_pydict(
        {"message": [bare], "priority": [7], "subject": ["other"], "group_sequence": [-1], "duplicate_id": ["d"]}
    )
    options = write_options({"address": "a", "payload": "message", "idempotence": "column"})

    (one,) = Encoder(options, "w").messages(batch)
    message = Message()
    message.decode(one.head + one.bare)

    assert (one.bare, message.subject, message.priority) == (bare, "its own", 7)
    assert message.annotations == {"_AMQ_DUPL_ID": "d"}


def test_an_object_has_all_columns_but_the_fields() -> None:
    """Whatever their names: those of options and fields of a message are names of columns like any other."""
    names = ["address", "subject", "to", "priority", "queue", "sequence", "body", "properties"]
    row = {name: f"{name} of mine" for name in names}
    batch = pa.RecordBatch.from_pylist([row])
    options = write_options({"address": "a", "payload": "json", "fields": "subject"})

    (one,) = Encoder(options, "w").messages(batch)
    message = Message()
    message.decode(one.head + one.bare)

    assert json.loads(bytes(message.body)) == {name: value for name, value in row.items() if name != "subject"}
    assert (message.subject, message.priority, message.address) == ("subject of mine", 4, None)
    assert (message.content_type, one.address) == ("application/json", None)
