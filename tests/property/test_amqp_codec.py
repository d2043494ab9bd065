"""The AMQP codec against Proton's, against every legal form of a value, and against damaged octets."""

import struct
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any
from uuid import UUID

import proton
import pytest
from attrs import NOTHING, fields
from hypothesis import given, settings
from hypothesis import strategies as st

from artemis_amqp.engine import performatives, types
from artemis_amqp.engine.codec import encode_value, read_value, skip_value
from artemis_amqp.engine.performatives import encode, frame, read_composite, read_performative
from artemis_amqp.engine.types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from artemis_amqp.messages.arrival import Sections, split_sections, split_sections_at
from artemis_amqp.messages.conversion import from_view, to_view
from artemis_amqp.messages.delivery import annotations_bytes, header_bytes
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_py.core.messages.message import Message
from artemis_py.errors import MalformedFrame
from tests.examples import examples

# --- values ---


def _integers(kind: Callable[[int], int], bits: int, signed: bool) -> st.SearchStrategy[int]:
    """Numbers of one type, often near the places where its encoding changes width."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    edges = [low, high, 0, 1, *([-1, -128, -129] if signed else []), 127, 128, 255, 256]
    return (st.sampled_from([edge for edge in edges if low <= edge <= high]) | st.integers(low, high)).map(kind)


ascii_text = st.text(st.characters(max_codepoint=127), max_size=8)
texts = st.text(max_size=8) | st.sampled_from(["x" * 255, "é" * 128, "y" * 70000])
symbols = (ascii_text | st.just("s" * 256)).map(Symbol)
binaries = st.binary(max_size=8) | st.sampled_from([b"b" * 255, b"b" * 256])
floats32 = st.floats(width=32).map(Float32)
chars = st.characters(exclude_categories=["Cs"]).map(Char)

SCALARS: dict[int, st.SearchStrategy[object]] = {
    types.NULL: st.none(),
    types.BOOLEAN: st.booleans(),
    types.UBYTE: _integers(UByte, 8, False),
    types.USHORT: _integers(UShort, 16, False),
    types.UINT: _integers(UInt, 32, False),
    types.ULONG: _integers(ULong, 64, False),
    types.BYTE: _integers(Byte, 8, True),
    types.SHORT: _integers(Short, 16, True),
    types.INT: _integers(Int, 32, True),
    types.LONG: _integers(int, 64, True),
    types.FLOAT: floats32,
    types.DOUBLE: st.floats(),
    types.DECIMAL32: st.binary(min_size=4, max_size=4).map(Decimal32),
    types.DECIMAL64: st.binary(min_size=8, max_size=8).map(Decimal64),
    types.DECIMAL128: st.binary(min_size=16, max_size=16).map(Decimal128),
    types.CHAR: chars,
    types.TIMESTAMP: _integers(Timestamp, 64, True),
    types.UUID: st.uuids(),
    types.BINARY: binaries,
    types.STRING: texts,
    types.SYMBOL: symbols,
}
scalars = st.one_of(*SCALARS.values())
keys = st.one_of(texts, symbols, st.uuids(), SCALARS[types.ULONG], SCALARS[types.LONG])
descriptors = SCALARS[types.ULONG] | symbols


def _arrays(code: int, items: st.SearchStrategy[object]) -> st.SearchStrategy[Array]:
    return st.builds(
        Array, st.just(code), st.lists(items, max_size=4).map(tuple), st.lists(descriptors, max_size=1).map(tuple)
    )


def _containers(inner: st.SearchStrategy[object], keys: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    lists = st.lists(inner, max_size=4)
    maps = st.dictionaries(keys, inner, max_size=4)
    arrays = st.one_of(*(_arrays(code, items) for code, items in SCALARS.items()))
    return st.one_of(
        lists,
        maps,
        st.builds(Described, descriptors, inner),
        arrays,
        _arrays(types.LIST, lists),
        _arrays(types.MAP, maps),
        _arrays(types.ARRAY, arrays),
    )


# Proton's Python binding cannot look binary up in a dict.
proton_values = st.recursive(scalars, lambda inner: _containers(inner, keys), max_leaves=8)
values = st.recursive(scalars, lambda inner: _containers(inner, keys | binaries), max_leaves=8)


def _same(left: object, right: object) -> bool:
    """Equal in value, type and order, all the way down; NaN equals NaN, 0.0 does not equal -0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack(">d", left) == struct.pack(">d", right) or (left != left and right != right)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(_same(one, other) for one, other in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return _same(list(left.items()), list(right.items()))
    if isinstance(left, Described) and isinstance(right, Described):
        return _same(left.descriptor, right.descriptor) and _same(left.value, right.value)
    if isinstance(left, Array) and isinstance(right, Array):
        return left.code == right.code and _same(
            (left.items, left.descriptors),
            (right.items, right.descriptors),
        )
    return left == right


# --- Proton's Python types ---

PROTON_CODES = {
    types.NULL: proton.Data.NULL,
    types.BOOLEAN: proton.Data.BOOL,
    types.UBYTE: proton.Data.UBYTE,
    types.USHORT: proton.Data.USHORT,
    types.UINT: proton.Data.UINT,
    types.ULONG: proton.Data.ULONG,
    types.BYTE: proton.Data.BYTE,
    types.SHORT: proton.Data.SHORT,
    types.INT: proton.Data.INT,
    types.LONG: proton.Data.LONG,
    types.FLOAT: proton.Data.FLOAT,
    types.DOUBLE: proton.Data.DOUBLE,
    types.DECIMAL32: proton.Data.DECIMAL32,
    types.DECIMAL64: proton.Data.DECIMAL64,
    types.DECIMAL128: proton.Data.DECIMAL128,
    types.CHAR: proton.Data.CHAR,
    types.TIMESTAMP: proton.Data.TIMESTAMP,
    types.UUID: proton.Data.UUID,
    types.BINARY: proton.Data.BINARY,
    types.STRING: proton.Data.STRING,
    types.SYMBOL: proton.Data.SYMBOL,
    types.LIST: proton.Data.LIST,
    types.MAP: proton.Data.MAP,
    types.ARRAY: proton.Data.ARRAY,
}
ELEMENT_CODES = {theirs: ours for ours, theirs in PROTON_CODES.items()}

WRAPPERS: list[tuple[type, type]] = [
    (UByte, proton.ubyte),
    (UShort, proton.ushort),
    (UInt, proton.uint),
    (ULong, proton.ulong),
    (Byte, proton.byte),
    (Short, proton.short),
    (Int, proton.int32),
    (Float32, proton.float32),
    (Char, proton.char),
    (Timestamp, proton.timestamp),
    (Symbol, proton.symbol),
    (Decimal128, proton.decimal128),
]
TO_PROTON = dict(WRAPPERS)
FROM_PROTON = {theirs: ours for ours, theirs in WRAPPERS}


def _to_proton(value: object) -> Any:
    kind = type(value)
    if isinstance(value, (Decimal32, Decimal64)):
        number = int.from_bytes(value, "big")
        return proton.decimal32(number) if kind is Decimal32 else proton.decimal64(number)
    if kind in TO_PROTON:
        return TO_PROTON[kind](value)
    if isinstance(value, list):
        return [_to_proton(item) for item in value]
    if isinstance(value, dict):
        return {_to_proton(key): _to_proton(item) for key, item in value.items()}
    if isinstance(value, Described):
        return proton.Described(_to_proton(value.descriptor), _to_proton(value.value))
    if isinstance(value, Array):
        descriptor: Any = _to_proton(value.descriptors[0]) if value.descriptors else proton.UNDESCRIBED
        return proton.Array(descriptor, PROTON_CODES[value.code], *(_to_proton(item) for item in value.items))
    return value


def _from_proton(value: object) -> object:
    kind = type(value)
    if kind is proton.decimal32 or kind is proton.decimal64:
        assert isinstance(value, int)
        return Decimal32(value.to_bytes(4, "big")) if kind is proton.decimal32 else Decimal64(value.to_bytes(8, "big"))
    if kind in FROM_PROTON:
        return FROM_PROTON[kind](value)
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, list):
        return [_from_proton(item) for item in value]
    if isinstance(value, dict):
        return {_from_proton(key): _from_proton(item) for key, item in value.items()}
    if isinstance(value, proton.Described):
        return Described(_from_proton(value.descriptor), _from_proton(value.value))
    if isinstance(value, proton.Array):
        described = () if isinstance(value.descriptor, type(proton.UNDESCRIBED)) else (_from_proton(value.descriptor),)
        return Array(ELEMENT_CODES[value.type], tuple(_from_proton(item) for item in value.elements), described)
    return value


@given(values)
@settings(max_examples=examples(200))
def test_what_is_written_is_read_back(value: object) -> None:
    """Type and value, and skipping agrees with reading."""
    octets = encode_value(value)

    read, offset = read_value(octets, 0, len(octets))

    assert _same(read, value)
    assert offset == skip_value(octets, 0, len(octets)) == len(octets)


@given(proton_values)
@settings(max_examples=examples(150))
def test_proton_reads_what_is_written(value: object) -> None:
    """The referee: an implementation that shares no code with ours."""
    octets = encode_value(value)
    data = proton.Data()

    size = data.decode(octets)
    data.rewind()
    data.next()

    assert size == len(octets)
    assert _same(_from_proton(data.get_object()), value)


@given(proton_values)
@settings(max_examples=examples(150))
def test_what_proton_writes_is_read(value: object) -> None:
    """The other way round."""
    data = proton.Data()
    data.put_object(_to_proton(value))
    octets = bytes(data.encode())

    read, offset = read_value(octets, 0, len(octets))

    assert offset == len(octets)
    assert _same(read, value)


# --- every legal form ---

# Format codes by type, with the widths of numbers: (code, octets, signed).
NUMBER_FORMS: dict[type, list[tuple[int, int, bool]]] = {
    UByte: [(0x50, 1, False)],
    UShort: [(0x60, 2, False)],
    UInt: [(0x43, 0, False), (0x52, 1, False), (0x70, 4, False)],
    ULong: [(0x44, 0, False), (0x53, 1, False), (0x80, 8, False)],
    Byte: [(0x51, 1, True)],
    Short: [(0x61, 2, True)],
    Int: [(0x54, 1, True), (0x71, 4, True)],
    int: [(0x55, 1, True), (0x81, 8, True)],
    Timestamp: [(0x83, 8, True)],
}


def _forms(value: object, random: Random) -> dict[int, bytes]:
    """The data of `value` by each format code that can carry it; what it contains takes any form."""
    kind = type(value)
    if value is None:
        return {0x40: b""}
    if isinstance(value, bool):
        return {0x41 if value else 0x42: b"", 0x56: bytes([value])}
    if isinstance(value, int):
        return _number_forms(value)
    if isinstance(value, float):
        return {0x72: struct.pack(">f", value)} if kind is Float32 else {0x82: struct.pack(">d", value)}
    if kind is Char:
        return {0x73: str(value).encode("utf-32-be")}
    if isinstance(value, UUID):
        return {0x98: value.bytes}
    if isinstance(value, str):
        return _octets_forms(0xA3 if kind is Symbol else 0xA1, value.encode())
    if isinstance(value, bytes):
        for decimal, code in ((Decimal32, 0x74), (Decimal64, 0x84), (Decimal128, 0x94)):
            if kind is decimal:
                return {code: bytes(value)}
        return _octets_forms(0xA0, value)
    if isinstance(value, list):
        forms = _compound_forms(0xC0, len(value), b"".join(_any_form(item, random) for item in value))
        return forms if value else {0x45: b"", **forms}
    if isinstance(value, dict):
        items = [_any_form(key, random) + _any_form(item, random) for key, item in value.items()]
        return _compound_forms(0xC1, 2 * len(value), b"".join(items))
    assert isinstance(value, Array)
    return _array_forms(value, random)


def _number_forms(value: int) -> dict[int, bytes]:
    forms = {}
    for code, size, signed in NUMBER_FORMS[type(value)]:
        try:
            forms[code] = value.to_bytes(size, "big", signed=signed)
        except OverflowError:
            continue
    return forms


def _octets_forms(code: int, octets: bytes) -> dict[int, bytes]:
    forms = {code + 0x10: struct.pack(">I", len(octets)) + octets}
    if len(octets) < 256:
        forms[code] = bytes([len(octets)]) + octets
    return forms


def _compound_forms(code: int, count: int, content: bytes) -> dict[int, bytes]:
    forms = {code + 0x10: struct.pack(">II", len(content) + 4, count) + content}
    if len(content) < 255 and count < 256:
        forms[code] = bytes([len(content) + 1, count]) + content
    return forms


def _array_forms(array: Array, random: Random) -> dict[int, bytes]:
    elements = [_forms(item, random) for item in array.items]
    if elements:
        shared = sorted(set.intersection(*(set(forms) for forms in elements)))
    else:
        shared = [array.code]
    code = random.choice(shared)
    prefix = b"".join(b"\x00" + _any_form(descriptor, random) for descriptor in array.descriptors)
    return _compound_forms(0xE0, len(elements), prefix + bytes([code]) + b"".join(forms[code] for forms in elements))


def _any_form(value: object, random: Random) -> bytes:
    if isinstance(value, Described):
        return b"\x00" + _any_form(value.descriptor, random) + _any_form(value.value, random)
    code, data = random.choice(sorted(_forms(value, random).items()))
    return bytes([code]) + data


@given(values, st.randoms(use_true_random=False))
@settings(max_examples=examples(200))
def test_every_form_of_a_value_is_read(value: object, random: Random) -> None:
    """AMQP 1.0 §1.6: an encoder may pick any width, in every place anew."""
    octets = _any_form(value, random)

    read, offset = read_value(octets, 0, len(octets))

    assert _same(read, value)
    assert offset == skip_value(octets, 0, len(octets)) == len(octets)
    assert len(encode_value(value)) <= len(octets) or _has_zero_width_elements(value)


def _has_zero_width_elements(value: object) -> bool:
    """Arrays of equal booleans, zeros or empty lists have a form without octets, which we do not write."""
    if isinstance(value, Array):
        return True
    if isinstance(value, Described):
        return _has_zero_width_elements(value.value)
    if isinstance(value, dict):
        return any(_has_zero_width_elements(item) for item in value.values())
    return isinstance(value, list) and any(_has_zero_width_elements(item) for item in value)


# --- composites ---

field_maps = st.dictionaries(symbols, scalars, max_size=3)
states = st.one_of(
    st.builds(performatives.Accepted),
    st.builds(performatives.Released),
    st.builds(performatives.Declared, binaries),
    st.builds(performatives.Modified, st.booleans(), st.booleans(), field_maps),
    st.builds(performatives.TransactionalState, binaries, st.builds(performatives.Accepted)),
)
errors = st.builds(performatives.AmqpError, symbols, st.none() | texts, st.none() | field_maps)
tags = st.binary(max_size=32)

BY_KIND: dict[int, st.SearchStrategy[object]] = {
    id(performatives.BOOLEAN): st.booleans(),
    id(performatives.UBYTE): SCALARS[types.UBYTE],
    id(performatives.USHORT): SCALARS[types.USHORT],
    id(performatives.UINT): SCALARS[types.UINT],
    id(performatives.ULONG): SCALARS[types.ULONG],
    id(performatives.TIMESTAMP): SCALARS[types.TIMESTAMP],
    id(performatives.STRING): texts,
    id(performatives.SYMBOL): symbols,
    id(performatives.LENIENT_SYMBOL): symbols,
    id(performatives.BINARY): binaries,
    id(performatives.TAG): tags,
    id(performatives.MESSAGE_ID): st.one_of(texts, SCALARS[types.ULONG], st.uuids(), binaries),
    id(performatives.SYMBOLS): st.lists(symbols, max_size=3).map(tuple),
    id(performatives.FIELDS): field_maps,
    id(performatives.UNSETTLED): st.dictionaries(tags, st.none() | states, max_size=3),
    id(performatives.ANY): states | texts,
    id(performatives.ERROR): errors,
}


def _composites(cls: type) -> st.SearchStrategy[object]:
    """Objects of a class, each optional field given or left out."""
    mandatory: dict[str, st.SearchStrategy[object]] = {}
    optional: dict[str, st.SearchStrategy[object]] = {}
    for attribute in fields(cls):
        group = mandatory if attribute.default is NOTHING else optional
        group[attribute.name] = BY_KIND[id(attribute.metadata["kind"])]
    return st.fixed_dictionaries(mandatory, optional=optional).map(lambda arguments: cls(**arguments))


sources = _composites(performatives.Source)
BY_KIND[id(performatives.SOURCE)] = sources
BY_KIND[id(performatives.TARGET)] = _composites(performatives.Target) | _composites(performatives.Coordinator)

FRAME_BODIES = [
    performatives.Open,
    performatives.Begin,
    performatives.Attach,
    performatives.Flow,
    performatives.Transfer,
    performatives.Disposition,
    performatives.Detach,
    performatives.End,
    performatives.Close,
    performatives.SaslMechanisms,
    performatives.SaslInit,
    performatives.SaslChallenge,
    performatives.SaslResponse,
    performatives.SaslOutcome,
]
OTHERS = [
    performatives.Received,
    performatives.Rejected,
    performatives.Declare,
    performatives.Discharge,
    performatives.Properties,
    performatives.AmqpError,
]
WITHIN = [
    performatives.Accepted,
    performatives.Released,
    performatives.Modified,
    performatives.Declared,
    performatives.TransactionalState,
    performatives.Source,
    performatives.Target,
    performatives.Coordinator,
]
CLASSES: dict[type, list[str]] = {
    cls: [attribute.name for attribute in fields(cls)] for cls in (*FRAME_BODIES, *OTHERS, *WITHIN)
}
frame_bodies = st.sampled_from(FRAME_BODIES).flatmap(_composites)


def _equal(left: object, right: object) -> bool:
    """Equality of composites that lets NaN equal itself."""
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, float):
        return _same(left, right)
    if type(left) in CLASSES:
        return type(left) is type(right) and all(
            _equal(getattr(left, name), getattr(right, name)) for name in CLASSES[type(left)]
        )
    return left == right


@pytest.mark.parametrize("cls", FRAME_BODIES, ids=lambda cls: cls.__name__)
@given(data=st.data())
@settings(max_examples=examples(30))
def test_frame_body_is_read_back(cls: type, data: st.DataObject) -> None:
    """One table for both directions; the payload starts where the performative ends."""
    performative = data.draw(_composites(cls))
    octets = frame(0, performative)

    read, offset = read_performative(octets + b"payload", 8, len(octets) + 7)

    assert _equal(read, performative)
    assert offset == len(octets) == int.from_bytes(octets[:4], "big")


@pytest.mark.parametrize("cls", OTHERS, ids=lambda cls: cls.__name__)
@given(data=st.data())
@settings(max_examples=examples(30))
def test_state_or_section_is_read_back(cls: type, data: st.DataObject) -> None:
    """What is within frames and messages."""
    composite = data.draw(_composites(cls))
    octets = encode(composite)

    read, offset = read_composite(octets, 0, len(octets))

    assert _equal(read, composite)
    assert offset == len(octets)


@given(frame_bodies)
@settings(max_examples=examples(100))
def test_proton_reads_composites_as_described_lists(performative: object) -> None:
    """The same octets, seen without our tables."""
    octets = encode(performative)
    data = proton.Data()

    assert data.decode(octets) == len(octets)

    data.rewind()
    data.next()
    assert data.enter()
    data.next()
    assert type(data.get_object()) is proton.ulong
    data.next()
    assert data.get_list() <= len(CLASSES[type(performative)])


# --- messages ---

simple_values = st.one_of(
    st.booleans(), SCALARS[types.LONG], texts, SCALARS[types.UINT], st.floats(allow_nan=False), st.uuids(), symbols
)


proton_simple_values = simple_values.map(_to_proton)
short_texts = st.text(max_size=8)
MESSAGE_FIELDS: dict[str, st.SearchStrategy[object]] = {
    "inferred": st.booleans(),
    "durable": st.booleans(),
    "priority": st.integers(0, 9),
    "ttl": st.sampled_from([0, 1.5, 3600.0]),
    "id": st.one_of(st.none(), short_texts, st.uuids(), st.integers(0, 2**64 - 1).map(proton.ulong)),
    "user_id": st.binary(max_size=4),
    "address": st.none() | short_texts,
    "subject": st.none() | short_texts,
    "correlation_id": st.none() | short_texts,
    "content_type": st.sampled_from([None, "text/plain"]),
    "expiry_time": st.sampled_from([0, 1, 1700000000.0]),
    "group_id": st.none() | short_texts,
    "properties": st.none() | st.dictionaries(short_texts, proton_simple_values, max_size=4),
    "annotations": st.none()
    | st.dictionaries(ascii_text.map(lambda name: proton.symbol(f"x-opt-{name}")), proton_simple_values, max_size=4),
    "instructions": st.sampled_from([None, {proton.symbol("x-opt-hop"): 1}]),
    "body": st.one_of(
        st.none(),
        st.binary(max_size=300),
        st.text(max_size=300),
        st.lists(proton_simple_values, max_size=3),
        st.dictionaries(st.text(max_size=4), proton_simple_values, max_size=3),
    ),
}


def _make_message(values: dict[str, object]) -> proton.Message:
    message = proton.Message()
    for name, value in values.items():
        setattr(message, name, value)
    return message


messages = st.fixed_dictionaries(MESSAGE_FIELDS).map(_make_message)
"""Messages as Proton's clients make them."""


def _body(message: proton.Message) -> object:
    return _from_proton(message.body)


@given(messages, st.integers(0, 2**63 - 1))
@settings(max_examples=examples(150))
def test_message_of_proton_passes_through(message: proton.Message, sequence: int) -> None:
    """Split and put together again: the bare message keeps its octets, Proton sees what was sent and what we added."""
    octets = bytes(message.encode())

    sections = split_sections(octets)

    assert octets.endswith(sections.bare)
    assert sections.durable == message.durable
    assert sections.priority == message.priority
    assert sections.ttl_ms == (int(message.ttl * 1000) if message.ttl else -1)
    assert sections.expires_at_ms == int(message.expiry_time * 1000)
    head = header_bytes(sections.durable, sections.priority, 7000, True, 2)
    head += annotations_bytes(sections.annotations_raw, sequence, {"_AMQ_ORIG_QUEUE": "origin"})
    delivered = proton.Message()
    delivered.decode(head + sections.bare)
    assert _same(_body(delivered), _body(message))
    for name in ("durable", "priority", "id", "user_id", "address", "subject", "correlation_id", "properties"):
        assert getattr(delivered, name) == getattr(message, name), name
    assert (delivered.ttl, delivered.first_acquirer, delivered.delivery_count) == (7.0, True, 2)
    assert not delivered.instructions
    expected: dict[object, object] = dict(message.annotations or {})
    expected[proton.symbol("x-opt-sequence-number")] = sequence
    expected[proton.symbol("x-opt-ORIG-QUEUE")] = "origin"
    assert delivered.annotations == expected


@given(messages)
@settings(max_examples=examples(100))
def test_view_survives_the_way_through_another_protocol(message: proton.Message) -> None:
    """A view made into a message has that view again."""
    sections = split_sections(bytes(message.encode()))
    view = to_view(sections.annotations_raw, sections.bare)

    raw, bare = from_view(view)

    assert to_view(raw, bare) == view
    delivered = proton.Message()
    delivered.decode(header_bytes(False, 4, -1, False, 0) + annotations_bytes(raw, 1, None) + bare)
    assert delivered.subject == message.subject


# --- damage ---


@st.composite
def damaged(draw: st.DrawFn, streams: st.SearchStrategy[bytes]) -> bytes:
    """A valid stream with a few octets overwritten, inserted, removed, or its end cut off."""
    octets = bytearray(draw(streams))
    for _ in range(draw(st.integers(1, 4))):
        index = draw(st.integers(0, max(len(octets) - 1, 0)))
        action = draw(st.integers(0, 3))
        new = draw(st.sampled_from([0x00, 0x40, 0x45, 0x53, 0xC0, 0xD0, 0xF0, 0xFF]) | st.integers(0, 255))
        if action == 0 and octets:
            octets[index] = new
        elif action == 1:
            octets.insert(index, new)
        elif action == 2:
            del octets[index : index + 1]
        else:
            del octets[index:]
    return bytes(octets)


def _attempt(read: Callable[[], object]) -> None:
    """Run a reader that may succeed, or find the octets malformed, and nothing else."""
    with suppress(MalformedFrame):
        read()


@given(damaged(values.map(encode_value)))
@settings(max_examples=examples(200))
def test_damaged_value_is_read_or_malformed(octets: bytes) -> None:
    """No octets of a peer make another exception."""
    _attempt(lambda: read_value(octets, 0, len(octets)))
    _attempt(lambda: skip_value(octets, 0, len(octets)))


@given(damaged(frame_bodies.map(encode)))
@settings(max_examples=examples(200))
def test_damaged_performative_is_read_or_malformed(octets: bytes) -> None:
    """And a readable one can be written again."""

    def read() -> None:
        performative, _ = read_performative(octets, 0, len(octets))
        encode(performative)

    _attempt(read)


def _split_or_error(split: Callable[[], Sections]) -> tuple[object, ...]:
    try:
        found = split()
    except MalformedFrame as error:
        return (str(error),)
    header = (found.has_header, found.durable, found.priority, found.ttl_ms, found.first_acquirer, found.delivery_count)
    rest = (found.annotations, found.annotations_raw, found.expires_at_ms, found.has_group, found.duplicate_id)
    return (*header, *rest, found.bare)


encoded = messages.map(lambda message: bytes(message.encode()))


@given(encoded | damaged(encoded), st.binary(max_size=9), st.data())
@settings(max_examples=examples(300))
def test_a_message_among_other_octets_is_split_as_it_is_alone(
    octets: bytes, before: bytes, data: st.DataObject
) -> None:
    """What follows it in the same read may even look as if it went on; errors have the same text."""
    after = data.draw(st.binary(max_size=9) | st.just(octets) | st.just(octets[:3]))
    end = len(before) + len(octets)

    found = _split_or_error(lambda: split_sections_at(before + octets + after, len(before), end))

    assert found == _split_or_error(lambda: split_sections(octets))


@given(damaged(messages.map(lambda message: bytes(message.encode()))))
@settings(max_examples=examples(200))
def test_damaged_message_is_split_or_malformed(octets: bytes) -> None:
    """What passes is delivered, looked into and converted without any other exception."""

    def read() -> None:
        sections = split_sections(octets)
        split_sections(annotations_bytes(sections.annotations_raw, 1, {"_AMQ_ORIG_QUEUE": "q"}) + sections.bare)
        message = Message(AMQP_FORMAT, "a", sections.bare, sections.annotations_raw)
        for name in ("JMSMessageID", "JMSXUserID", "amqp.to", "m.x-opt-a", "a", ""):
            message.lookup(name)
        from_view(to_view(sections.annotations_raw, sections.bare))

    _attempt(read)
