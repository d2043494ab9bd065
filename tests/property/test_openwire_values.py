"""Texts, values and bodies of OpenWire: they round-trip, and damage is refused."""

import zlib
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from artemis_openwire.engine.bodies import inflate, read_body
from artemis_openwire.engine.text import decode_name, decode_text, encode_text
from artemis_openwire.engine.values import Byte, Char, Float, Long, Short, amend_map, read_map, write_map
from artemis_py.errors import ProtocolError

octets = st.binary(max_size=12)


@given(st.text())
def test_texts_round_trip(text: str) -> None:
    """All characters; half of a surrogate pair comes back as a sign that something was there."""
    whole = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)

    assert decode_text(encode_text(text)) == whole
    assert decode_text(whole.encode()) == whole
    if whole == text:
        assert decode_name(encode_text(text)) == text


@given(st.binary(max_size=30))
def test_any_octets_are_a_text_or_refused(raw: bytes) -> None:
    """And what is read never contains half of a pair."""
    for decode in (decode_text, decode_name):
        with suppress(ProtocolError):
            decode(raw).encode()


plain_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-128, 127).map(Byte),
    st.integers(-(1 << 15), (1 << 15) - 1).map(Short),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(-(1 << 63), (1 << 63) - 1).map(Long),
    st.floats(width=32, allow_nan=False).map(Float),
    st.floats(allow_nan=False),
    st.characters(max_codepoint=0xD7FF).map(Char),
    st.text(st.characters(codec="utf-8"), max_size=8),
    octets,
)
names = st.text(st.characters(codec="utf-8"), max_size=5)
values = st.recursive(
    plain_values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
maps = st.dictionaries(names, values, max_size=4)


def typed(value: object) -> object:
    """A value together with its type."""
    if isinstance(value, dict):
        return {key: typed(inner) for key, inner in value.items()}
    return [typed(inner) for inner in value] if isinstance(value, list) else (type(value), value)


@given(maps)
def test_maps_round_trip(entries: dict[str, object]) -> None:
    """With their types."""
    assert typed(read_map(write_map(entries))) == typed(entries)


@given(maps, maps, st.integers(0, 3))
def test_amended_maps_are_what_dicts_would_be(entries: dict[str, object], added: dict[str, object], count: int) -> None:
    """Entries go and come; the others stay as they are."""
    removed = list(entries)[:count]
    expected = {key: value for key, value in entries.items() if key not in removed} | added

    assert typed(read_map(amend_map(write_map(entries), removed, added))) == typed(expected)


@given(maps, st.integers(0, 200), st.binary(min_size=1, max_size=4), st.sampled_from(range(23, 30)))
def test_damaged_maps_and_bodies_raise_nothing_else(
    entries: dict[str, object], at: int, damage: bytes, code: int
) -> None:
    """Overwritten anywhere, and read as the body of any kind of message."""
    data = bytearray(write_map(entries))
    at %= len(data)
    data[at : at + len(damage)] = damage
    octets = bytes(data)

    with suppress(ProtocolError):
        read_map(octets)
    with suppress(ProtocolError):
        amend_map(octets, ["a"], {})
    with suppress(ProtocolError):
        read_body(code, octets, False, 1000)
    with suppress(ProtocolError):
        read_body(code, zlib.compress(octets), True, 1000)
    with suppress(ProtocolError):
        inflate(code, octets, 1000)
