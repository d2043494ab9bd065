"""Texts, values and bodies: what is refused, and what the wire alone cannot show."""

import zlib
from struct import pack

import pytest

from artemis_openwire.engine.bodies import inflate, read_body, read_text, write_text
from artemis_openwire.engine.codec import read_throwable, string_field, write_frame
from artemis_openwire.engine.commands import ConnectionError, MessagePull, Response
from artemis_openwire.engine.errors import DESTINATION, JMS, throwable_of, xa_error
from artemis_openwire.engine.structure import Throwable
from artemis_openwire.engine.text import decode_name, decode_text, encode_text
from artemis_openwire.engine.values import (
    MAX_NESTING,
    Byte,
    Char,
    Long,
    Short,
    amend_map,
    read_map,
    read_values,
    write_map,
)
from artemis_openwire.engine.values import write_value as write
from artemis_py.errors import InUse, MalformedFrame, NoSuchQueue

BYTES_MESSAGE, TEXT_MESSAGE = 24, 28


def test_half_of_a_surrogate_pair_is_replaced_in_texts_and_refused_in_names() -> None:
    """Two names must not become one."""
    raw = b"a\xed\xa0\xbdb"

    assert decode_text(raw) == "a\ufffdb"
    with pytest.raises(MalformedFrame, match="half of a surrogate pair"):
        decode_name(raw)


def test_both_forms_of_a_character_are_read_and_one_is_written() -> None:
    """Clients that are not written in Java send four octets, and a plain zero (openwire §4.1)."""
    assert decode_text("\U0001f600\0".encode()) == "\U0001f600\0"
    assert encode_text("\U0001f600\0") == b"\xed\xa0\xbd\xed\xb8\x80\xc0\x80"


def test_a_text_that_does_not_fit_its_length_is_refused() -> None:
    """And never cut off."""
    assert len(string_field("x" * 65535)) == 65538
    with pytest.raises(ValueError, match="65536 octets"):
        string_field("x" * 65536)


def test_what_an_error_says_is_cut_off() -> None:
    """Some clients read no more than 1,024 characters (openwire §4.1)."""
    frame = write_frame(ConnectionError(exception=Throwable(JMS, "x" * 5000)), 12)
    found = read_throwable(frame[10:-1], 12)

    assert found == Throwable(JMS, "x" * 1024)


@pytest.mark.parametrize(("length", "code"), [(8190, 9), (8191, 13)])
def test_long_texts_have_a_type_of_their_own(length: int, code: int) -> None:
    """From 8,191 UTF-16 units on, as Java writes them; a character above U+FFFF is two."""
    text = "x" * (length - 2) + "\U0001f600"

    assert write(text)[0] == code
    assert read_values(write(text)) == [text]


@pytest.mark.parametrize(
    ("value", "code"), [(5, 5), (1 << 31, 6), (Long(5), 6), (Byte(5), 2), (Short(5), 4), (Char("x"), 3), (True, 1)]
)
def test_a_value_is_written_with_its_type(value: object, code: int) -> None:
    """An int of Python is Java's int as long as it fits."""
    assert write(value)[0] == code


@pytest.mark.parametrize("value", [1 << 63, Byte(200), object(), {1, 2}])
def test_a_value_without_a_type_is_refused(value: object) -> None:
    """With an error that names it."""
    with pytest.raises(ValueError, match=r"does not fit its type|is no type of OpenWire"):
        write(value)


@pytest.mark.parametrize(
    "data",
    [
        pack(">i", -2),
        pack(">i", 1 << 30),
        pack(">iH1sB", 1, 1, b"a", 14),
        pack(">iH1sBi", 1, 1, b"a", 12, 1 << 30),
        pack(">iH1sBi", 1, 1, b"a", 10, -1),
        pack(">iH1sBH", 1, 1, b"a", 9, 9),
        write_map({"a": 1}) + b"\0",
        b"\0",
    ],
)
def test_damaged_maps_are_refused(data: bytes) -> None:
    """Counts and lengths that do not fit, unknown types, octets that are left; nothing is allocated for them."""
    for read in (lambda: read_map(data), lambda: amend_map(data, (), {})):
        with pytest.raises(MalformedFrame):
            read()


def test_the_number_of_values_is_limited() -> None:
    """Nested ones count."""
    data = write_map({"a": [None] * 8, "b": None})

    assert len(read_map(data, 10)) == 2
    with pytest.raises(MalformedFrame, match="more values"):
        read_map(data, 9)


def test_the_depth_of_maps_is_limited() -> None:
    """A client could overflow the stack otherwise."""
    value: object = None
    for _ in range(MAX_NESTING - 1):
        value = [value]
    assert read_map(write_map({"a": value}))
    with pytest.raises(MalformedFrame, match="within each other"):
        read_map(write_map({"a": [value]}))


def test_null_maps_are_empty() -> None:
    """Whatever the form of null."""
    assert read_map(None) == read_map(b"") == read_map(pack(">i", -1)) == {}
    assert read_map(amend_map(None, (), {"a": 1})) == {"a": 1}


def test_a_bomb_is_refused_before_it_unfolds() -> None:
    """One octet above the limit is as bad as a gigabyte."""
    bomb = zlib.compress(bytes(100_000))

    assert len(inflate(TEXT_MESSAGE, bomb, 100_000)) == 100_000
    with pytest.raises(MalformedFrame, match="more than 99999 octets"):
        inflate(TEXT_MESSAGE, bomb, 99_999)


@pytest.mark.parametrize("content", [b"", b"xx", zlib.compress(b"hello")[:-3]])
def test_damaged_compressed_bodies_are_refused(content: bytes) -> None:
    """Cut off as well."""
    with pytest.raises(MalformedFrame, match="a compressed body"):
        inflate(TEXT_MESSAGE, content, 100)


def test_octets_have_their_size_in_front_when_compressed() -> None:
    """Only they (openwire §9.3)."""
    assert read_body(BYTES_MESSAGE, pack(">i", 5) + zlib.compress(b"hello"), True, 100) == b"hello"


@pytest.mark.parametrize("size", [0, 1, 5])
def test_what_follows_the_size_of_compressed_octets_is_no_part_of_them(size: int) -> None:
    """The Java client compresses its whole buffer, which is longer than what the application wrote."""
    buffer = b"hello" + bytes(1 << 20)

    assert read_body(BYTES_MESSAGE, pack(">i", size) + zlib.compress(buffer), True, 100) == b"hello"[:size]


@pytest.mark.parametrize("size", [b"", b"\0\0\0", pack(">i", -1), pack(">i", 101), pack(">i", 5)])
def test_a_size_of_compressed_octets_that_is_wrong_is_refused(size: bytes) -> None:
    """Also one that is larger than the limit, or than what was to be compressed and is cut off."""
    with pytest.raises(MalformedFrame, match="a compressed body"):
        inflate(BYTES_MESSAGE, size + zlib.compress(b"hello")[:-7], 100)


@pytest.mark.parametrize("content", [b"\0\0", b"\0\0\0\5hell", b"\0\0\0\3hell", b"\xff\xff\xff\xfehell"])
def test_damaged_texts_are_refused(content: bytes) -> None:
    """Their length is in front of them."""
    with pytest.raises(MalformedFrame):
        read_text(content)


@pytest.mark.parametrize("text", [None, "", "grüß"])
def test_texts_are_read_as_they_are_written(text: str | None) -> None:
    """Null and empty are different."""
    assert read_text(write_text(text)) == text
    assert read_text(b"\xff\xff\xff\xff") is None


def test_refusals_become_classes_that_clients_know() -> None:
    """Every other one is a plain JMSException."""
    assert throwable_of(NoSuchQueue("gone")) == Throwable(DESTINATION, "gone")
    assert throwable_of(InUse("busy")) == Throwable(JMS, "busy")
    assert xa_error(-4, "unknown").message == "unknown xaErrorCode:-4"


def test_a_command_that_a_version_does_not_have_is_not_written() -> None:
    """A client of version 1 would not know its type."""
    assert write_frame(Response(), 1)
    with pytest.raises(ValueError, match="MessagePull cannot be sent in version 1"):
        write_frame(MessagePull(), 1)
