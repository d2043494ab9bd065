"""What the jobs decide without a session: shapes, fingerprints, rewritten messages, plans and pages."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyspark")

from proton import Message

from artemis_amqp.engine.types import Byte
from artemis_py.spark.errors import InvalidOption
from artemis_py.spark.jobs import archive, charts, dead_letter_report, fingerprint, redrive, replay, telemetry
from artemis_py.spark.jobs.dead_letters import Group
from artemis_py.spark.jobs.page import page, section, table
from artemis_py.spark.jobs.rewriting import clients_annotations, with_new_times, without_duplicate_id
from artemis_py.spark.jobs.telemetry_report import Device, Overview, render
from artemis_py.spark.management import Head, Heads
from artemis_py.spark.options import write_options

HOSTILE = '<script>alert("x")</script>'
NOW_MS = 1_900_000_000_000


# -- what messages look like ---


@pytest.mark.parametrize(
    ("body", "body_type", "expected"),
    [
        (b"", "data", "empty"),
        (None, None, "empty"),
        (b' {"b": [1, "x"], "a": {"c": null, "d": true}}', "data", "{a: {c: null, d: boolean}, b: [number | text]}"),
        (b'{"a": ', "string", "broken json"),
        (b"[" * 100_000, "data", "broken json"),
        (b'<?xml version="1.0"?><!-- x --><order id="1"/>', "data", "xml <order>"),
        ("größe".encode(), "string", "text"),
        (b"x" * 255 + "ü".encode(), "data", "text"),
        (b"\x00\x01\xff", "data", "binary"),
        (b"\x1f\x8b\x08", "data", "gzip"),
        (b"\xa1\x02hi", "value", "text"),
        (b'\xa0\x07{"a":1}', "value", "{a: number}"),
        (b"\xc1\x05\x02\xa1\x01a\x41", "value", "{a: boolean}"),
    ],
)
def test_the_shape_of_a_body(body: bytes | None, body_type: str | None, expected: str) -> None:
    assert fingerprint.shape(body, body_type) == expected


def test_an_object_with_very_many_keys_is_a_table() -> None:
    """Else every message of a mistake could be a group of its own."""
    body = "{" + ", ".join(f'"{i}": 1' for i in range(100)) + "}"

    assert fingerprint.shape(body.encode(), "data") == "{…}"


def test_a_fingerprint_tells_format_properties_and_shape() -> None:
    one = fingerprint.fingerprint("application/json", ["b", "a"], "{}")

    assert one == fingerprint.fingerprint("application/json", ["a", "b"], "{}")
    others = [
        ("text/plain", ["a", "b"], "{}"),
        ("application/json", ["a"], "{}"),
        ("application/json", ["a", "b"], "x"),
    ]
    assert len({one, *(fingerprint.fingerprint(*other) for other in others)}) == 4


# -- rewriting ---


def bare(message: Message) -> bytes:
    """Without the header that Proton writes first."""
    encoded = bytes(message.encode())
    return encoded[encoded.index(b"\x00\x53\x73") :]


def decoded(octets: bytes) -> Message:
    message = Message()
    message.decode(octets)
    return message


def test_only_the_duplicate_id_goes() -> None:
    message = Message(body={"a": 1.5}, id=7, subject="s", properties={"_AMQ_DUPL_ID": "x", "n": 5, "t": "5"})

    after = decoded(without_duplicate_id(bare(message)))

    assert (after.body, after.id, after.subject, after.properties) == ({"a": 1.5}, 7, "s", {"n": 5, "t": "5"})


def test_a_message_without_an_id_is_passed_on_octet_for_octet() -> None:
    """Also one that has the name elsewhere."""
    for body in (b"x", b"_AMQ_DUPL_ID"):
        octets = bare(Message(body=body, properties={"n": 5}))
        assert without_duplicate_id(octets) == octets


@pytest.mark.parametrize(("expiry", "expected"), [(1_000_060.0, NOW_MS / 1000 + 60), (0, 0)])
def test_new_times_keep_the_time_to_live(expiry: float, expected: float) -> None:
    message = Message(body="x", id=7, creation_time=1_000_000.0, expiry_time=expiry)

    after = decoded(with_new_times(bare(message), NOW_MS))

    assert (after.creation_time, after.expiry_time, after.id, after.body) == (NOW_MS / 1000, expected, 7, "x")


def test_new_times_are_given_to_a_message_without_properties() -> None:
    after = decoded(with_new_times(b"\x00\x53\x77\xa1\x01x", NOW_MS))

    assert (after.creation_time, after.body) == (NOW_MS / 1000, "x")


def test_what_brokers_noted_does_not_go_along() -> None:
    printed = {
        "x-opt-sequence-number": "5",
        "x-opt-ORIG-ADDRESS": "a",
        "x-opt-DEATH-CAUSE": "rejected",
        "x-opt-jms-msg-type": "5",
        "mine": "x",
    }

    kept = clients_annotations(printed)

    assert kept == {"x-opt-jms-msg-type": 5, "mine": "x"}
    assert isinstance(kept["x-opt-jms-msg-type"], Byte)


# -- plans ---


def test_an_archive_keeps_what_a_replay_needs() -> None:
    columns, by = archive.planned(archive.ArchiveOptions(path="x", columns=("body",), partition_by=("date",)))

    assert set(columns) == {*archive.KEPT, "body"}
    assert by == ["date"]


@pytest.mark.parametrize("wrong", [{"columns": ("boddy",)}, {"partition_by": ("sequence",)}])
def test_an_archive_is_laid_out_by_known_columns(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match=r"boddy|sequence"):
        archive.planned(archive.ArchiveOptions(path="x", **wrong))


def test_a_replay_with_a_rate_is_not_staged() -> None:
    """Staged messages appear all at once; the pace would not be seen by anybody."""
    sink = write_options({})
    staged = replay.planned(sink, replay.ReplayOptions(path="x", job="j"))
    paced = replay.planned(sink, replay.ReplayOptions(path="x", job="j", rate=50))

    assert (staged.writer, staged.options.max_messages_per_second) == ("replay:j", None)
    assert (paced.writer, paced.options.max_messages_per_second, paced.options.max_in_flight) == (None, 50, 5)


@pytest.mark.parametrize("wrong", [{"rate": 0.0}, {"job": ""}])
def test_a_replay_needs_a_name_and_a_possible_rate(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        replay.planned(write_options({}), replay.ReplayOptions(**{"path": "x", "job": "j", **wrong}))


@pytest.mark.parametrize(("rate", "starts"), [(None, [7, 5007, 10007]), (4000.0, [7, 4007, 8007])])
def test_dead_letters_are_taken_in_parts_that_one_request_acknowledges(rate: float | None, starts: list[int]) -> None:
    """At a rate, in parts of a second."""
    heads = Heads(
        node="n",
        queues=(
            Head(address="DLQ", queue="DLQ", queue_id=3, first=7, next=10_010),
            Head(address="e", queue="e", queue_id=4, first=9, next=9),
        ),
    )
    parts = list(redrive.chunks(heads, rate))

    assert [part.start for part in parts] == starts
    assert [part.stop for part in parts] == [*starts[1:], 10_010]
    assert {(part.queue, part.queue_id) for part in parts} == {("DLQ", 3)}


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("address", "address"),
        ("address:2", "get(split(address, '[./]'), 1)"),
        ("property:device id", "properties['device id']"),
        ("$.a.b", "get_json_object(text, '$.a.b')"),
    ],
)
def test_where_the_name_of_a_device_is(text: str, sql: str) -> None:
    assert telemetry.device_of(text) == sql


@pytest.mark.parametrize("text", ["", "address:0", "address:x", "property:", "property:a'b", "$.a') --", "name"])
def test_a_device_cannot_be_found_just_anywhere(text: str) -> None:
    """Nothing leaves its quotes."""
    with pytest.raises(InvalidOption):
        telemetry.device_of(text)


def test_rules_have_names() -> None:
    found = telemetry.rules(["hot=max >= 90", "max >= 80", "count=0", "odd = min = 3"])

    assert found == {"hot": "max >= 90", "max >= 80": "max >= 80", "count=0": "count=0", "odd": "min = 3"}


def test_aggregates_have_names() -> None:
    """The first sign of equality divides; without a name there is no column."""
    assert telemetry.aggregates(["high=count_if(value = 3)"]) == {"high": "count_if(value = 3)"}
    with pytest.raises(InvalidOption, match="use NAME=SQL"):
        telemetry.aggregates(["sum(value)"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"alerts": {"a": "max > 1"}},
        {"alert_address": "a"},
        {"time": "at"},
        {"aggregates": {"Max": "sum(value)"}},
        {"aggregates": {"a`b": "sum(value)"}},
    ],
)
def test_telemetry_is_checked_before_anything_starts(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        telemetry.check(telemetry.TelemetryOptions(path="x", **wrong))


# -- pages ---


def group(**changed: Any) -> Group:
    facts: dict[str, Any] = {
        "id": "0123456789",
        "count": 3,
        "origin_address": "orders",
        "origin_queue": "orders",
        "cause": "expired",
        "fingerprint": "abcdef0123",
        "shape": "text",
        "content_type": None,
        "attempts": 3,
        "redrives": 0,
        "first": datetime(2027, 1, 1, tzinfo=UTC),
        "last": datetime(2027, 1, 2, tzinfo=UTC),
        "sample": "x",
        "hours": ((datetime(2027, 1, 1, tzinfo=UTC), 1), (datetime(2027, 1, 2, tzinfo=UTC), 2)),
    }
    return Group(**{**facts, **changed})


def test_nothing_in_a_report_on_dead_letters_is_markup_of_somebody_else() -> None:
    names = ("origin_address", "origin_queue", "cause", "shape", "content_type", "sample")
    text = dead_letter_report.render(
        [HOSTILE], [group(**dict.fromkeys(names, HOSTILE))], datetime(2027, 1, 1, tzinfo=UTC)
    )

    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= len(names)
    assert not re.search(r"\s(?:src|href)=", text)


@pytest.mark.parametrize(("has_more", "groups"), [(False, "2"), (True, "the 2 largest")])
def test_a_report_on_dead_letters_says_if_it_leaves_groups_out(has_more: bool, groups: str) -> None:
    """Otherwise its number of dead letters would look like that of the queue."""
    text = dead_letter_report.render(["DLQ"], [group(), group()], datetime(2027, 1, 1, tzinfo=UTC), has_more)

    assert f">{groups}<" in text


def test_nothing_in_a_report_on_telemetry_is_markup_of_somebody_else() -> None:
    moment = datetime(2027, 1, 1, tzinfo=UTC)
    found = Overview(
        devices=(Device(name=HOSTILE, count=1, min=1.0, max=1.0, avg=1.0, points=((0.0, 1.0),)),),
        device_count=1,
        measurement_count=1,
        window_count=1,
        first=moment,
        last=moment,
        alerts={HOSTILE: ((HOSTILE, moment, 1.0, 1.0, 1),)},
    )

    assert "<script" not in render(HOSTILE, found, moment)


def test_a_report_on_nothing_says_so() -> None:
    assert "There is nothing to show." in dead_letter_report.render(["DLQ"], [], datetime(2027, 1, 1, tzinfo=UTC))


def test_origins_are_written_as_people_do() -> None:
    found = [group(), group(origin_queue="o.eu"), group(origin_address=None), group(origin_queue=None)]

    assert [dead_letter_report.origin(one) for one in found] == ["orders", "orders::o.eu", "(unknown)", "orders"]


def test_what_does_not_fit_a_chart_is_one_bar() -> None:
    counts = {f"q{i:02}": i for i in range(20)}

    shown = dead_letter_report.largest(counts, 2)

    assert shown == [("q19", 19), ("q18", 18), ("18 others", sum(range(18)))]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (5, 5, [4, 4.5, 5, 5.5, 6]), (-1, 1, [-1, -0.5, 0, 0.5, 1]), (0, 0.07, None)],
)
def test_scales_are_round_and_hold_every_value(low: float, high: float, ticks: list[float] | None) -> None:
    found = charts.scale(low, high)

    assert found[0] <= low
    assert found[-1] >= high
    assert 3 <= len(found) <= 7
    assert ticks is None or found == ticks


@pytest.mark.parametrize(("values", "ends"), [((55, 99), ("0", "100")), ((-99, -55), ("-100", "0"))])
def test_the_scale_of_a_line_includes_zero(values: tuple[float, float], ends: tuple[str, str]) -> None:
    """On a scale that begins at 50, 99 looks like ten times 55."""
    text = charts.lines({"a": [(0.0, values[0]), (1.0, values[1])]}, "c", ("", ""))

    ticks = re.findall(r'class="label end">(-?[\d,.]+)<', text)
    assert (ticks[0], ticks[-1]) == ends


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1.7e308])
def test_a_line_leaves_out_what_no_scale_has_room_for(value: float) -> None:
    text = charts.lines({"a": [(0.0, 1.0), (1.0, value)], "b": [(2.0, value)]}, "c", ("", ""))

    assert text.count("<circle") == 1
    assert "There is nothing to show." in charts.lines({"b": [(2.0, value)]}, "c", ("", ""))


def test_a_table_tells_numbers_from_texts() -> None:
    text = page("t", "s", [("n", "1")], [section("h", table(["a"], [[1234], ["1234"], [None]]))])

    assert '<td class="number">1,234</td>' in text
    assert "<td>1234</td>" in text
    assert "<td></td>" in text
