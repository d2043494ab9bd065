"""Records and envelopes: what is written is read again, and nothing else is."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artemis_py.cluster.envelope import Envelope, decode_envelope, encode_envelope
from artemis_py.cluster.record_codec import decode, encode
from artemis_py.cluster.records import (
    Channel,
    Closed,
    Demand,
    Digest,
    Gone,
    Grant,
    Instance,
    Member,
    Ready,
    Record,
    Resync,
    Seen,
    SnapshotBegin,
    SnapshotEnd,
    ToldMarks,
)
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT, plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.errors import ProtocolError

NUMBERS = st.integers(0, (1 << 64) - 1)
TEXTS = st.text(max_size=30)
MARKS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=4).map(tuple)
WANTS = st.lists(st.tuples(TEXTS, st.integers(0, 255), st.integers(0, 255)), max_size=4).map(tuple)
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.just(SnapshotBegin()),
    st.just(Resync()),
    st.builds(SnapshotEnd, NUMBERS, NUMBERS),
    st.builds(Digest, NUMBERS, NUMBERS),
    st.builds(Seen, NUMBERS),
    st.builds(Member, TEXTS, TEXTS, st.one_of(st.none(), st.lists(TEXTS, max_size=3).map(tuple))),
    st.builds(Instance, NUMBERS, TEXTS, TEXTS, NUMBERS, TEXTS),
    st.builds(Demand, NUMBERS, WANTS),
    st.builds(Gone, NUMBERS),
    st.builds(Ready, NUMBERS, NUMBERS),
    st.builds(Grant, NUMBERS, NUMBERS),
    st.builds(ToldMarks, MARKS),
    st.builds(Closed, MARKS),
    st.builds(Channel, NUMBERS, NUMBERS),
)


@given(st.lists(RECORDS, max_size=6))
def test_records_are_read_as_they_were_written(records: list[Record]) -> None:
    assert decode(encode(records)) == records


@given(st.binary(max_size=200))
def test_any_octets_are_records_or_refused(octets: bytes) -> None:
    with suppress(ProtocolError):
        decode(octets)


@given(st.lists(RECORDS, min_size=1, max_size=3), st.data())
def test_records_with_changed_octets_are_read_or_refused(records: list[Record], data: st.DataObject) -> None:
    octets = bytearray(encode(records))
    octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        decode(bytes(octets[: data.draw(st.integers(0, len(octets)))]))


def test_unknown_record_that_must_be_understood_is_refused() -> None:
    with pytest.raises(ProtocolError, match="upgrade this broker"):
        decode(b"\xc8\x00\x00\x00")


def test_fields_that_a_later_version_adds_are_passed_over() -> None:
    encoded = bytearray(encode([Gone(7)]))
    encoded[3] += 4

    assert decode(bytes(encoded) + b"more") == [Gone(7)]


def envelope(durable: bool = True) -> Envelope:
    message = plain_message("orders", MessageView(body="hello", properties={"colour": "red"}))
    message.durable = durable
    message.priority = 7
    message.expires_ms = 123_456
    message.id = 9
    return Envelope(message, "orders", "orders.eu", 3, True, ("one", "other"))


@pytest.mark.parametrize("durable", [True, False])
def test_envelope_is_read_as_it_was_written(durable: bool) -> None:
    given = envelope(durable)
    read = decode_envelope(encode_envelope(given), {PLAIN_FORMAT.name: PLAIN_FORMAT})

    assert (read.address, read.queue, read.delivery_count, read.was_acquired, read.path) == (
        "orders",
        "orders.eu",
        3,
        True,
        ("one", "other"),
    )
    assert (read.message.durable, read.message.priority, read.message.expires_ms) == (durable, 7, 123_456)
    assert read.message.view.body == "hello"
    assert read.message.lookup("colour") == "red"


# Few values of each, so that many have the same as the one before, and others differ in one field only.
ENVELOPES = st.lists(
    st.tuples(
        st.sampled_from(["orders", "invoices"]),
        st.sampled_from(["", "orders", "orders.eu"]),
        st.sampled_from([0, 1]),
        st.booleans(),
        st.sampled_from([(), ("one",), ("other",), ("one", "other")]),
        st.booleans(),
        st.booleans(),
        st.sampled_from(["a", "b"]),
    ),
    min_size=2,
    max_size=8,
)


@given(ENVELOPES)
def test_envelope_is_written_and_read_as_if_it_were_the_first(drawn: list[tuple[Any, ...]]) -> None:
    """What is kept from one to the next changes nothing."""
    for address, queue, count, was_acquired, path, is_shared, durable, body in drawn:
        message = plain_message("orders", MessageView(body=body))
        message.durable = durable
        written = encode_envelope(Envelope(message, address, queue, count, was_acquired, path, is_shared))
        read = decode_envelope(written, {PLAIN_FORMAT.name: PLAIN_FORMAT})

        around = (read.address, read.queue, read.delivery_count, read.was_acquired, read.path, read.is_shared)
        assert around == (address, queue, count, was_acquired, path, is_shared)
        assert (read.message.durable, read.message.view.body) == (durable, body)


@given(st.binary(max_size=120))
def test_any_octets_are_a_message_or_refused(octets: bytes) -> None:
    with suppress(ProtocolError):
        decode_envelope(octets, {PLAIN_FORMAT.name: PLAIN_FORMAT})


@given(st.data())
def test_envelope_with_changed_octets_is_read_or_refused(data: st.DataObject) -> None:
    octets = bytearray(encode_envelope(envelope()))
    for _ in range(data.draw(st.integers(1, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        decode_envelope(bytes(octets), {PLAIN_FORMAT.name: PLAIN_FORMAT})
