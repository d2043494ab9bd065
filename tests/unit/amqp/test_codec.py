"""The forms of AMQP 1.0 values (AMQP 1.0 §1.6), each by its octets."""

from uuid import UUID

import pytest

from artemis_amqp.engine import types
from artemis_amqp.engine.codec import MAX_DEPTH, MAX_ZERO_WIDTH_ELEMENTS, encode_value, read_value, skip_value
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
    MalformedValue,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

AN_UUID = UUID("00112233-4455-6677-8899-aabbccddeeff")

# Value, its smallest form, other forms.
FORMS: list[tuple[object, str, list[str]]] = [
    (None, "40", []),
    (True, "41", ["5601"]),
    (False, "42", ["5600"]),
    (UByte(0), "5000", []),
    (UByte(255), "50ff", []),
    (UShort(0x1234), "601234", []),
    (UInt(0), "43", ["5200", "7000000000"]),
    (UInt(1), "5201", ["7000000001"]),
    (UInt(255), "52ff", ["70000000ff"]),
    (UInt(256), "7000000100", []),
    (UInt(0xFFFFFFFF), "70ffffffff", []),
    (ULong(0), "44", ["5300", "800000000000000000"]),
    (ULong(255), "53ff", ["8000000000000000ff"]),
    (ULong(256), "800000000000000100", []),
    (ULong(2**64 - 1), "80ffffffffffffffff", []),
    (Byte(-128), "5180", []),
    (Byte(127), "517f", []),
    (Short(-2), "61fffe", []),
    (Int(0), "5400", ["7100000000"]),
    (Int(-128), "5480", ["71ffffff80"]),
    (Int(127), "547f", ["710000007f"]),
    (Int(128), "7100000080", []),
    (Int(-129), "71ffffff7f", []),
    (0, "5500", ["810000000000000000"]),
    (-1, "55ff", ["81ffffffffffffffff"]),
    (128, "810000000000000080", []),
    (-(2**63), "818000000000000000", []),
    (Float32(1.5), "723fc00000", []),
    (1.5, "823ff8000000000000", []),
    (Decimal32(b"\x32\x80\x00\x01"), "7432800001", []),
    (Decimal64(b"\x31" + bytes(7)), "843100000000000000", []),
    (Decimal128(b"\x30" + bytes(15)), "9430" + "00" * 15, []),
    (Char("€"), "73000020ac", []),
    (Char("\U0001f600"), "730001f600", []),
    (Timestamp(1), "830000000000000001", []),
    (Timestamp(-1), "83ffffffffffffffff", []),
    (AN_UUID, "9800112233445566778899aabbccddeeff", []),
    (b"", "a000", ["b000000000"]),
    (b"ab", "a0026162", ["b0000000026162"]),
    (b"x" * 255, "a0ff" + "78" * 255, ["b0000000ff" + "78" * 255]),
    (b"x" * 256, "b000000100" + "78" * 256, []),
    ("é", "a102c3a9", ["b100000002c3a9"]),
    ("x" * 256, "b100000100" + "78" * 256, []),
    (Symbol("ab"), "a3026162", ["b3000000026162"]),
    (Symbol("x" * 256), "b300000100" + "78" * 256, []),
    ([], "45", ["c00100", "d00000000400000000"]),
    ([None, True], "c003024041", ["d000000006000000024041"]),
    ([None] * 254, "c0fffe" + "40" * 254, ["d000000102000000fe" + "40" * 254]),
    ([None] * 255, "d000000103000000ff" + "40" * 255, []),
    ({}, "c10100", ["d10000000400000000"]),
    ({Symbol("k"): "v"}, "c10702a3016ba10176", ["d10000000a00000002a3016ba10176"]),
    (Described(ULong(0x24), []), "00532445", ["0080000000000000002445", "005324c00100"]),
    (Described(Described(Symbol("a"), None), 1), "0000a30161405501", []),
    (
        Array(types.SYMBOL, (Symbol("a"), Symbol("b"))),
        "e00602a301610162",
        ["f00000000f00000002b3000000016100000001" + "62"],
    ),
    (Array(types.SYMBOL), "e00200a3", ["f00000000500000000b3", "f00000000500000000a3"]),
    (Array(types.SYMBOL, (Symbol("x" * 256),)), "f00000010900000001b300000100" + "78" * 256, []),
    (Array(types.BOOLEAN, (True, True)), "e00402560101", ["e0020241"]),
    (Array(types.BOOLEAN, (False,)), "e003015600", ["e0020142"]),
    (Array(types.NULL, (None, None)), "e0020240", ["f00000000500000002" + "40"]),
    (Array(types.UINT, (UInt(0), UInt(0))), "e00402520000", ["e0020243", "e00a02700000000000000000"]),
    (Array(types.UINT, (UInt(1), UInt(256))), "e00a02700000000100000100", []),
    (Array(types.ULONG, (ULong(0),)), "e003015300", ["e0020144"]),
    (Array(types.ULONG, (ULong(0), ULong(256))), "e01202800000000000000000" + "0000000000000100", []),
    (Array(types.INT, (Int(-1), Int(1))), "e0040254ff01", ["e00a0271ffffffff00000001"]),
    (Array(types.INT, (Int(-1), Int(200))), "e00a0271ffffffff000000c8", []),
    (Array(types.LONG, (-1,)), "e0030155ff", ["e00a0181ffffffffffffffff"]),
    (Array(types.LONG, (-1, 200)), "e0120281ffffffffffffffff00000000000000c8", []),
    (Array(types.BYTE, (Byte(-1),)), "e0030151ff", []),
    (Array(types.UUID, (AN_UUID,)), "e0120198" + AN_UUID.hex, []),
    (Array(types.STRING, ("a", "")), "e00502a1016100", ["f00000000e00000002b10000000161" + "00000000"]),
    (
        Array(types.LIST, ([], [None])),
        "e00702c001000201" + "40",
        ["f00000001600000002d00000000400000000" + "000000050000000140"],
    ),
    (Array(types.LIST, ([], [])), "e00602c001000100", ["e0020245", "f00000001500000002d0" + "0000000400000000" * 2]),
    (
        Array(types.LIST, ([], [None], [None] * 255)),
        "f00000011d00000003d0" + "0000000400000000" + "000000050000000140" + "00000103000000ff" + "40" * 255,
        [],
    ),
    (
        Array(types.MAP, ({"a": 1},)),
        "e00901c10602a101615501",
        ["f00000001200000001d1" + "0000000900000002a101615501"],
    ),
    (
        Array(types.ARRAY, (Array(types.UBYTE, (UByte(7),)),)),
        "e00601e003015007",
        ["f00000000f00000001f0" + "00000006000000015007"],
    ),
    (Array(types.ULONG, (ULong(1),), (ULong(9),)), "e00601005309" + "5301", []),
    (
        Array(types.STRING, ("a",), (Symbol("o"), ULong(9))),
        "e00b0100a3016f005309a10161",
        [],
    ),
]


def _id(value: object) -> str:
    return f"{type(value).__name__}-{value!r}"[:40]


def _same(left: object, right: object) -> bool:
    return type(left) is type(right) and left == right


@pytest.mark.parametrize(("value", "smallest", "others"), FORMS, ids=[_id(form[0]) for form in FORMS])
def test_value_is_written_smallest_and_read_in_every_form(value: object, smallest: str, others: list[str]) -> None:
    """AMQP 1.0 §1.6: a value has several forms, all legal."""
    for text in [smallest, *others]:
        octets = bytes.fromhex(text)
        read, offset = read_value(octets, 0, len(octets))

        assert _same(read, value), text
        assert offset == len(octets)
        assert skip_value(octets, 0, len(octets)) == len(octets)
    assert encode_value(value).hex() == smallest


@pytest.mark.parametrize(("value", "smallest", "others"), FORMS, ids=[_id(form[0]) for form in FORMS])
def test_value_cut_anywhere_is_malformed(value: object, smallest: str, others: list[str]) -> None:
    """A size that reaches beyond what is there ends in MalformedValue."""
    for text in [smallest, *others]:
        octets = bytes.fromhex(text)
        for end in range(min(len(octets), 40)):
            with pytest.raises(MalformedValue):
                read_value(octets, 0, end)
            with pytest.raises(MalformedValue):
                skip_value(octets, 0, end)


def test_reading_stays_between_offset_and_end() -> None:
    """Octets before and behind a value are not its business."""
    octets = bytes.fromhex("ffff a10161 ffff")

    assert read_value(octets, 2, 5) == ("a", 5)
    assert skip_value(octets, 2, 5) == 5


MALFORMED = {
    "no octet": "",
    "unknown code without octets": "46",
    "unknown code of one octet": "57" + "00",
    "unknown code of two octets": "62" + "0000",
    "unknown code of four octets": "75" + "00000000",
    "unknown code of eight octets": "85" + "00" * 8,
    "unknown code of sixteen octets": "99" + "00" * 16,
    "unknown narrow octets": "a200",
    "unknown wide octets": "b200000000",
    "unknown narrow compound": "c20100",
    "unknown wide compound": "d20000000400000000",
    "unknown array": "e1020040",
    "ext type, no octets": "4f",
    "ext type, one octet": "5f0000",
    "ext type, octets": "af0000",
    "ext type, compound": "cf000100",
    "ext type, array": "ef00020040",
    "code below the layouts": "1000000000",
    "code 0x3f": "3f00000000",
    "boolean of 2": "5602",
    "surrogate as char": "730000d800",
    "char beyond Unicode": "7300110000",
    "string not UTF-8": "a102c328",
    "long string not UTF-8": "b100000001ff",
    "string with an encoded surrogate": "a103eda080",
    "symbol not ASCII": "a302c3a9",
    "list size without count": "c000",
    "wide list size without count": "d00000000300000000",
    "more items than octets": "c0020240",
    "four billion items": "d000000004ffffffff",
    "fewer items than octets": "c003014040",
    "item beyond its list": "c00301a1054142434445",
    "odd map": "c102014040",
    "map too long for its count": "c10400404040",
    "array without constructor": "e00100",
    "array with only a descriptor": "e00400005301",
    "array of unknown code": "e0020046",
    "array of ext type": "e002004f",
    "array with items left over": "e00401505151",
    "array count beyond its octets": "f000000006ffffffff5000",
    "too many nulls": "f000000005" + f"{MAX_ZERO_WIDTH_ELEMENTS + 1:08x}" + "40",
    "four billion empty lists": "f000000005ffffffff45",
    "four billion described trues": "f000000008ffffffff00530141",
    "descriptor without a value": "005324",
    "nothing behind the descriptor mark": "00",
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_value_is_refused(text: str) -> None:
    """AMQP 1.0 §1.2: whatever is no value is a decode error, and costs no more than its octets."""
    octets = bytes.fromhex(text)

    with pytest.raises(MalformedValue) as caught:
        read_value(octets, 0, len(octets))

    assert caught.value.condition == "amqp:decode-error"


@pytest.mark.parametrize(
    "text", ["d000000005ffffffff40", "d100000006fffffffe4040", "f000000007ffffffff505050"], ids=["list", "map", "array"]
)
def test_count_is_checked_before_the_items(text: str) -> None:
    """amqp10 §21: every item but those without octets needs at least one."""
    octets = bytes.fromhex(text)

    with pytest.raises(MalformedValue, match="do not fit"):
        read_value(octets, 0, len(octets))


@pytest.mark.parametrize("text", ["46", "57" + "00", "75" + "00" * 4, "a200", "c20100", "e1020040", "1000", "af0000"])
def test_skipping_refuses_unknown_codes(text: str) -> None:
    """What could not be read is not skipped either."""
    octets = bytes.fromhex(text)

    with pytest.raises(MalformedValue):
        skip_value(octets, 0, len(octets))


def test_zero_width_elements_are_counted() -> None:
    """Elements without octets have a limit of their own, up to it they are read."""
    octets = bytes.fromhex(f"f000000005{MAX_ZERO_WIDTH_ELEMENTS:08x}41")

    value, _ = read_value(octets, 0, len(octets))

    assert value == Array(types.BOOLEAN, (True,) * MAX_ZERO_WIDTH_ELEMENTS)


def _nested_lists(levels: int) -> bytes:
    octets = b"\x45"
    for _ in range(levels):
        octets = b"\xd0" + (len(octets) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + octets
    return octets


def _narrow_lists(levels: int) -> bytes:
    octets = b"\x45"
    for _ in range(levels):
        octets = b"\xc0" + bytes((len(octets) + 1, 1)) + octets
    return octets


def _nested_arrays(levels: int) -> bytes:
    octets = b"\x00\x00\x00\x05\x00\x00\x00\x00\x40"
    for _ in range(levels):
        octets = (len(octets) + 5).to_bytes(4, "big") + b"\x00\x00\x00\x01\xf0" + octets
    return b"\xf0" + octets


def test_nesting_to_the_limit_is_read() -> None:
    """32 levels are more than any client needs."""
    octets = _nested_lists(MAX_DEPTH)

    value, offset = read_value(octets, 0, len(octets))

    assert offset == len(octets)
    assert encode_value(value) == _narrow_lists(MAX_DEPTH)


@pytest.mark.parametrize(
    "octets",
    [
        _nested_lists(MAX_DEPTH + 1),
        _nested_lists(5000),
        _nested_arrays(MAX_DEPTH + 1),
        b"\x00\x53\x01" * (MAX_DEPTH + 1) + b"\x40",
        b"\x00" * 5000 + b"\x40" * 5001,
        b"\xf0\x00\x00\x10\x00\x00\x00\x00\x00" + b"\x00\x53\x01" * 2000 + b"\x40" * 100,
    ],
    ids=["lists", "5000 lists", "arrays", "descriptors", "descriptors of descriptors", "descriptors of an array"],
)
def test_deeper_nesting_is_malformed(octets: bytes) -> None:
    """Depth costs stack, so it ends at a number and not at a crash."""
    with pytest.raises(MalformedValue):
        read_value(octets, 0, len(octets))


def test_skipping_counts_descriptors_as_levels() -> None:
    """Skipping recurses for descriptors only."""
    with pytest.raises(MalformedValue, match="deeper"):
        skip_value(b"\x00" * 5000 + b"\x40" * 5001, 0, 10001)


def test_list_as_key_becomes_a_tuple() -> None:
    """AMQP 1.0 §1.6.23 allows any key; Python looks up only what does not change."""
    octets = bytes.fromhex("c1 06 02 c0 02 01 45 40")

    value, _ = read_value(octets, 0, len(octets))

    assert value == {((),): None}
    assert encode_value(value) == octets


def test_described_and_array_keys_are_looked_up() -> None:
    """Keys that hold lists are still keys."""
    array = Array(types.LIST, ([1],))
    octets = encode_value([Described(ULong(1), [1]), 1, array, 2])
    octets = b"\xc1" + octets[1:]

    value, _ = read_value(octets, 0, len(octets))

    assert value == {Described(ULong(1), (1,)): 1, Array(types.LIST, ((1,),)): 2}


@pytest.mark.parametrize(
    "key",
    [{}, [{}], Described({}, None), Described(None, {}), Array(types.MAP, ({},)), Array(types.NULL, (), ({},))],
    ids=_id,
)
def test_map_within_a_key_is_refused(key: object) -> None:
    """Python cannot look it up, and no client writes it."""
    octets = b"\xc1" + encode_value([key, None])[1:]

    with pytest.raises(MalformedValue, match="a map cannot be a key of a map here"):
        read_value(octets, 0, len(octets))


def test_repeated_key_keeps_its_last_value() -> None:
    """amqp10 §21: tolerated in application data."""
    octets = bytes.fromhex("c10b04a1016b5501a1016b5502")

    assert read_value(octets, 0, len(octets))[0] == {"k": 2}


@pytest.mark.parametrize(
    "value",
    [
        UByte(256),
        UByte(-1),
        UShort(65536),
        UInt(2**32),
        UInt(-1),
        ULong(2**64),
        ULong(-1),
        Byte(128),
        Short(-32769),
        Int(2**31),
        2**63,
        -(2**63) - 1,
        Timestamp(2**63),
        Float32(1e300),
        Char(""),
        Char("ab"),
        Char("\ud800"),
        "\ud800",
        Symbol("é"),
        Decimal32(b"123"),
        Decimal64(b"123"),
        Decimal128(b"123"),
        Array(0x41, (True,)),
        Array(types.NULL, (None,) * (MAX_ZERO_WIDTH_ELEMENTS + 1)),
    ],
    ids=_id,
)
def test_value_outside_of_its_type_is_not_written(value: object) -> None:
    """A value that would arrive as another one is refused."""
    with pytest.raises(ValueError, match=r".+"):
        encode_value(value)


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, 1j, bytearray(b"a"), type("Special", (int,), {})(1), type("Half", (float,), {})(1)]
)
def test_python_type_without_amqp_type_is_not_written(value: object) -> None:
    """Only the types of `types` have a form."""
    with pytest.raises(TypeError):
        encode_value(value)


def test_array_elements_have_the_type_of_the_array() -> None:
    """Elements share one constructor, so a string among symbols would change its type."""
    with pytest.raises(TypeError):
        encode_value(Array(types.SYMBOL, (Symbol("a"), "b")))


def test_value_that_contains_itself_is_not_written() -> None:
    """Writing has the same limit of depth as reading."""
    value: list[object] = []
    value.append(value)

    with pytest.raises(ValueError, match="deeper"):
        encode_value(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal32(bytes.fromhex("32800001")), "1"),
        (Decimal32(bytes.fromhex("b2800001")), "-1"),
        (Decimal32(bytes.fromhex("77f8967f")), "9.999999E+96"),
        (Decimal32(bytes.fromhex("78000000")), "Infinity"),
        (Decimal32(bytes.fromhex("f8000000")), "-Infinity"),
        (Decimal32(bytes.fromhex("7c000000")), "NaN"),
        (Decimal64(bytes.fromhex("31a000000000000f")), "1.5"),
        (Decimal64(bytes.fromhex("6bf386f26fc0ffff")), "0.9999999999999999"),
        (Decimal64(bytes.fromhex("6bf386f26fc10000")), "0E-16"),
        (Decimal128(bytes.fromhex("3040000000000000000000000000002a")), "42"),
    ],
)
def test_decimal_is_the_number_of_its_octets(value: Decimal32 | Decimal64 | Decimal128, text: str) -> None:
    """IEEE 754-2008 §3.5.2, binary integer encoding."""
    assert str(value.to_decimal()) == text
