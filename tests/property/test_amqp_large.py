"""However a large message is cut, it is the message that it would be in one piece, and malformed if that is."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artemis_amqp.engine.codec import encode_value
from artemis_amqp.engine.errors import Condition
from artemis_amqp.engine.types import Described, MalformedValue, Symbol, UInt
from artemis_amqp.messages.arrival import Sections, leading_size, split_sections
from artemis_amqp.messages.large import LEADING_LIMIT_BYTES, IncomingBody
from artemis_amqp.messages.outline import BodyOutline
from artemis_py.errors import MalformedFrame
from artemis_py.store.memory import MemoryStore

STORE = MemoryStore()

NAMES = {
    0x70: "amqp:header:list",
    0x71: "amqp:delivery-annotations:map",
    0x72: "amqp:message-annotations:map",
    0x73: "amqp:properties:list",
    0x74: "amqp:application-properties:map",
    0x75: "amqp:data:binary",
    0x76: "amqp:amqp-sequence:list",
    0x77: "amqp:amqp-value:*",
    0x78: "amqp:footer:map",
}

descriptors = st.sampled_from(["number", "wide number", "name"])
texts = st.text(max_size=300)
octets = st.binary(max_size=700)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | texts | octets,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
described = values | values.map(lambda value: Described(Symbol("own:kind"), value))


def section(code: int, value: object, descriptor: str) -> bytes:
    """One section, its descriptor in one of the legal forms."""
    match descriptor:
        case "number":
            head = b"\x00\x53" + bytes((code,))
        case "wide number":
            head = b"\x00\x80" + code.to_bytes(8, "big")
        case _:
            head = b"\x00\xa3" + bytes((len(NAMES[code]),)) + NAMES[code].encode()
    return head + encode_value(value)


@st.composite
def leadings(draw: Any) -> bytes:
    """Any of the sections before a body."""
    parts: dict[int, st.SearchStrategy[object]] = {
        0x70: st.tuples(st.booleans()).map(list) | st.just([]) | st.just([True, None, UInt(5000)]),
        0x71: st.dictionaries(texts.map(lambda text: Symbol(ascii(text))), values, max_size=2),
        0x72: st.dictionaries(texts.map(lambda text: Symbol(ascii(text))), values, max_size=2),
        0x73: st.just([]) | texts.map(lambda text: [text, None, text]),
        0x74: st.dictionaries(texts, st.none() | texts | st.booleans(), max_size=4) | st.just({"_AMQ_DUPL_ID": "id"}),
    }
    return b"".join(
        section(code, draw(value), draw(descriptors)) for code, value in parts.items() if draw(st.booleans())
    )


@st.composite
def bodies(draw: Any) -> bytes:
    """Any legal body, with a footer or without."""
    kind = draw(st.sampled_from([0x75, 0x76, 0x77]))
    if kind == 0x75:
        found = [section(kind, draw(octets), draw(descriptors)) for _ in range(draw(st.integers(1, 3)))]
    elif kind == 0x76:
        found = [section(kind, draw(st.lists(values, max_size=4)), draw(descriptors)) for _ in range(2)]
    else:
        found = [section(kind, draw(described), draw(descriptors))]
    if draw(st.booleans()):
        found.append(section(0x78, {Symbol("signature"): b"octets"}, draw(descriptors)))
    return b"".join(found)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Octets in pieces."""
    offsets = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:stop] for start, stop in pairwise(offsets)]


def taken(pieces: list[bytes]) -> tuple[Sections, bytes]:
    """The message that arrived in these pieces, and its bare octets. Raises what `finish` raises."""
    incoming = IncomingBody(STORE)
    for piece in pieces:
        assert incoming.append(piece) <= LEADING_LIMIT_BYTES
    try:
        sections, body = incoming.finish()
    finally:
        incoming.abandon()
    if body is None:
        return sections, sections.bare
    bare = sections.bare + body.load()
    body.release()
    return sections, bare


places = st.lists(st.integers(0, 1 << 20), max_size=30)


@given(leading=leadings(), body=bodies(), places=places)
def test_any_fragmentation_gives_the_same_message(leading: bytes, body: bytes, places: list[int]) -> None:
    """What routing reads, and every octet of the bare message."""
    whole = split_sections(leading + body)

    sections, bare = taken(cut(leading + body, places))

    assert bare == whole.bare
    assert (
        sections.durable,
        sections.ttl_ms,
        sections.annotations,
        sections.annotations_raw,
        sections.duplicate_id,
    ) == (
        whole.durable,
        whole.ttl_ms,
        whole.annotations,
        whole.annotations_raw,
        whole.duplicate_id,
    )


@given(body=bodies(), places=places, damage=st.integers(0, 1 << 20), value=st.integers(0, 255))
def test_what_is_refused_in_pieces_is_refused_as_a_whole(
    body: bytes, places: list[int], damage: int, value: int
) -> None:
    """A body that is merely followed is judged by less, never by more; and never fails in another way."""
    body += section(0x75, bytes(40), "number") * (body[2] == 0x75)
    at = damage % len(body)
    damaged = body[:at] + bytes((value,)) + body[at + 1 :]
    try:
        split_sections(damaged)
        is_sound = True
    except MalformedFrame:
        is_sound = False

    try:
        taken(cut(damaged, places))
        is_taken = True
    except MalformedFrame:
        is_taken = False

    assert is_taken or not is_sound


@given(body=bodies(), places=places, length=st.integers(0, 1 << 20))
def test_a_body_that_is_cut_short_is_refused(body: bytes, places: list[int], length: int) -> None:
    """Unless it ends where a section does."""
    cut_short = body[: length % len(body)]
    try:
        split_sections(cut_short)
        is_sound = True
    except MalformedFrame:
        is_sound = False

    outline = BodyOutline()
    try:
        for piece in cut(cut_short, places):
            outline.follow(piece)
        outline.finish()
        is_taken = True
    except MalformedValue:
        is_taken = False

    assert is_taken == is_sound


@given(leading=leadings(), body=bodies())
def test_the_first_sections_are_found_as_soon_as_they_are_there(leading: bytes, body: bytes) -> None:
    """Whatever the first octets are, no more is asked for than it takes to go on, and asking comes to an end."""
    data = leading + body + bytes(40)
    size = 0
    for _ in range(20):
        found = leading_size(data[:size])
        if found >= 0:
            break
        assert size < -found <= len(data)
        size = -found

    assert found == len(leading)


def test_too_much_before_the_body_is_refused() -> None:
    """It would be in memory with the message."""
    properties = section(0x74, {"long": "x" * LEADING_LIMIT_BYTES}, "number")

    with pytest.raises(Condition, match="before its body"):
        taken(cut(properties + section(0x75, bytes(100), "number"), list(range(0, 1 << 20, 1 << 16))))


def test_a_large_message_that_ends_too_early_is_refused() -> None:
    """Its client would fail on it; so it does not get into a queue."""
    with pytest.raises(MalformedValue, match="cut short"):
        taken([section(0x75, bytes(500), "number")[:-1]])
