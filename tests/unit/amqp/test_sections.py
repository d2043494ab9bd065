"""Messages of AMQP 1.0 (AMQP 1.0 §3.2) taken apart on arrival and put together on delivery."""

from collections.abc import Callable
from itertools import permutations
from uuid import UUID

import pytest

from artemis_amqp.engine.codec import encode_value, read_value
from artemis_amqp.engine.performatives import Properties, encode
from artemis_amqp.engine.types import (
    BOOLEAN,
    Array,
    Byte,
    Char,
    Decimal32,
    Described,
    Float32,
    Int,
    InvalidField,
    MalformedValue,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from artemis_amqp.messages.arrival import Sections, split_sections
from artemis_amqp.messages.conversion import from_view, plain, to_view
from artemis_amqp.messages.delivery import (
    _AROUND_SEQUENCE,
    KEPT_KEY_CHARS,
    KEPT_KEYS,
    PlainHeads,
    annotations_bytes,
    header_bytes,
)
from artemis_amqp.messages.sections import (
    read_annotation,
    read_application_properties,
    read_application_property,
    read_properties,
    read_property,
    read_to,
)
from artemis_py.core.messages.view import MessageView
from artemis_py.core.messages.widths import Binary32, Int8, Int16, Int32

AN_UUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def _section(code: int, value: object) -> bytes:
    return b"\x00\x53" + bytes((code,)) + encode_value(value)


HEADER = _section(0x70, [True, UByte(7), UInt(1000), True, UInt(3)])
DELIVERY_ANNOTATIONS = _section(0x71, {Symbol("x-opt-hop"): 1})
ANNOTATIONS = _section(0x72, {Symbol("x-opt-a"): "b", ULong(5): None})
PROPERTIES = encode(Properties(message_id="id", to="q", subject="s"))
APPLICATION_PROPERTIES = _section(0x74, {"k": 1, "l": "v"})
DATA = _section(0x75, b"body")
SEQUENCE = _section(0x76, [1, "two"])
VALUE = _section(0x77, "body")
FOOTER = _section(0x78, {Symbol("x-opt-sum"): 9})
BARE = PROPERTIES + APPLICATION_PROPERTIES + DATA + FOOTER


def _annotations_of(section: bytes) -> dict[object, object]:
    value, offset = read_value(section, 0, len(section))
    assert offset == len(section)
    assert isinstance(value, Described)
    assert value.descriptor == 0x72
    assert isinstance(value.value, dict)
    return value.value


# --- arrival ---


def test_all_sections_are_found() -> None:
    """Header and annotations are read, delivery annotations end here, the rest stays as it came."""
    sections = split_sections(HEADER + DELIVERY_ANNOTATIONS + ANNOTATIONS + BARE)

    assert sections.has_header
    assert sections.durable
    assert sections.priority == 7
    assert sections.ttl_ms == 1000
    assert sections.first_acquirer
    assert sections.delivery_count == 3
    assert sections.annotations == {"x-opt-a": "b", 5: None}
    assert sections.annotations_raw == (4).to_bytes(4, "big") + ANNOTATIONS[6:]
    assert sections.bare == BARE
    assert sections.expires_at_ms == 0


def test_missing_sections_have_defaults() -> None:
    """AMQP 1.0 §3.2.1: no header means not durable, priority 4, no ttl."""
    sections = split_sections(VALUE)

    assert not sections.has_header
    assert not sections.durable
    assert sections.priority == 4
    assert sections.ttl_ms == -1
    assert not sections.first_acquirer
    assert sections.delivery_count == 0
    assert sections.annotations is None
    assert sections.annotations_raw == b""
    assert sections.bare == VALUE


@pytest.mark.parametrize(
    "payload",
    [b"", HEADER, PROPERTIES, DATA, DATA + DATA, SEQUENCE + SEQUENCE, VALUE + FOOTER, DATA + DATA + FOOTER, FOOTER],
)
def test_any_body_or_none_is_taken(payload: bytes) -> None:
    """AMQP 1.0 §3.2: data and amqp-sequence may repeat; no body at all is what some clients send."""
    sections = split_sections(payload)

    assert sections.bare == (b"" if payload is HEADER else payload)


def _wide(code: int, name: str) -> bytes:
    return b"\x80" + code.to_bytes(8, "big")


def _named(code: int, name: str) -> bytes:
    return encode_value(Symbol(name))


@pytest.mark.parametrize("descriptor", [_wide, _named])
def test_section_is_named_by_number_or_name(descriptor: Callable[[int, str], bytes]) -> None:
    """AMQP 1.0 §1.4: both forms of a descriptor are legal, and any width of the number."""
    header = b"\x00" + descriptor(0x70, "amqp:header:list") + encode_value([True])
    bare = b"\x00" + descriptor(0x74, "amqp:application-properties:map") + encode_value({"k": 1})
    bare += b"\x00" + descriptor(0x77, "amqp:amqp-value:*") + b"\x40"

    sections = split_sections(header + bare)

    assert sections.durable
    assert sections.bare == bare
    assert read_application_properties(bare) == {"k": 1}
    assert to_view(b"", bare).properties == {"k": 1}


@pytest.mark.parametrize(("priority", "expected"), [(0, 0), (9, 9), (10, 9), (255, 9)])
def test_priority_is_clamped(priority: int, expected: int) -> None:
    """amqp10 §12: 0 to 255 is legal on the wire, queues know 0 to 9."""
    assert split_sections(_section(0x70, [None, UByte(priority)])).priority == expected


@pytest.mark.parametrize(
    ("text", "durable", "first_acquirer"),
    [
        ("45", False, False),
        ("c00100", False, False),
        ("c0020142", False, False),
        ("c003015601", True, False),
        ("c003015600", False, False),
        ("d0000000050000000141", True, False),
        ("c005044040" + "4041", False, True),
    ],
)
def test_header_is_read_in_every_form(text: str, durable: bool, first_acquirer: bool) -> None:
    """AMQP 1.0 §1.6: encoders may pick any width."""
    sections = split_sections(bytes.fromhex("005370" + text))

    assert (sections.durable, sections.first_acquirer) == (durable, first_acquirer)


def test_own_and_relative_annotations_do_not_travel_on() -> None:
    """The sequence number is the broker's to set; a delay counted from arrival is wrong at the next broker."""
    raw = _section(
        0x72,
        {
            Symbol("x-opt-delivery-delay"): 1000,
            Symbol("x-opt-a"): 1,
            Symbol("x-opt-sequence-number"): 5,
            Symbol("x-opt-b"): 2,
        },
    )

    sections = split_sections(raw + VALUE)

    assert sections.annotations is not None
    assert sections.annotations["x-opt-delivery-delay"] == 1000
    assert _annotations_of(annotations_bytes(sections.annotations_raw, 7, None)) == {
        "x-opt-sequence-number": 7,
        "x-opt-a": 1,
        "x-opt-b": 2,
    }


def test_only_dropped_annotations_leave_nothing() -> None:
    """Then delivery takes its short way."""
    sections = split_sections(_section(0x72, {Symbol("x-opt-delivery-delay"): 1000}))

    assert sections.annotations == {"x-opt-delivery-delay": 1000}
    assert sections.annotations_raw == b""


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (Properties(absolute_expiry_time=123456789012), 123456789012),
        (Properties(absolute_expiry_time=0), 0),
        (Properties(absolute_expiry_time=-5), 0),
        (Properties(creation_time=99), 0),
        (Properties(message_id=AN_UUID, to="x" * 300, content_type="a/b", absolute_expiry_time=7, group_id="g"), 7),
    ],
)
def test_absolute_expiry_is_found(properties: Properties, expected: int) -> None:
    """amqp10 §12: an absolute-expiry-time above 0 counts."""
    assert split_sections(encode(properties) + VALUE).expires_at_ms == expected


MALFORMED_MESSAGES = {
    "no section": b"\x40",
    "garbage": b"\xff\xff\xff\xff\xff",
    "not described": encode_value([True, False, None]),
    "cut in the descriptor": b"\x00\x53",
    "cut behind the descriptor": b"\x00\x53\x77",
    "unknown section": _section(0x79, {}),
    "unknown low section": _section(0x6F, {}),
    "unknown name": b"\x00" + encode_value(Symbol("amqp:nothing")) + b"\x40",
    "descriptor is a string": b"\x00" + encode_value("amqp:header:list") + b"\x45",
    "header twice": HEADER + HEADER,
    "annotations twice": ANNOTATIONS + ANNOTATIONS,
    "properties twice": PROPERTIES + PROPERTIES,
    "value twice": VALUE + VALUE,
    "footer twice": VALUE + FOOTER + FOOTER,
    "header behind annotations": ANNOTATIONS + HEADER,
    "annotations behind properties": PROPERTIES + ANNOTATIONS + DATA,
    "properties behind the body": DATA + PROPERTIES,
    "body behind the footer": DATA + FOOTER + DATA,
    "data and value": DATA + VALUE,
    "data and sequence": DATA + SEQUENCE,
    "sequence and value": SEQUENCE + VALUE,
    "value and sequence": VALUE + SEQUENCE,
    "header is a map": _section(0x70, {}),
    "header is null": _section(0x70, None),
    "header with six fields": _section(0x70, [None] * 6),
    "header with an item cut": bytes.fromhex("005370c0030240" + "50"),
    "header without value": b"\x00\x80" + bytes(7) + b"\x70",
    "header whose items end early": bytes.fromhex("005370c00403415005"),
    "header with items left over": bytes.fromhex("005370c003014140"),
    "header with too few items": bytes.fromhex("005370c0020240"),
    "header size beyond the end": bytes.fromhex("005370c0050141"),
    "header size below its count": bytes.fromhex("005370c000" + "00"),
    "durable is a number": _section(0x70, [UByte(1)]),
    "priority is a uint": _section(0x70, [None, UInt(4)]),
    "ttl is a ulong": _section(0x70, [None, None, ULong(1000)]),
    "delivery-count is an int": _section(0x70, [None, None, None, None, 4]),
    "delivery annotations are a list": _section(0x71, []),
    "annotations are a list": _section(0x72, []),
    "annotation key is a number": _section(0x72, {5: 1}),
    "annotation key twice": bytes.fromhex("005372c10904a3017040a3017040"),
    "annotations of odd count": bytes.fromhex("005372c1020140"),
    "annotations with a lying count": bytes.fromhex("005372c10702a3017040" + "4040"),
    "properties are a map": _section(0x73, {}),
    "properties with 14 fields": _section(0x73, [None] * 14),
    "properties with four billion fields": bytes.fromhex("005373d000000005ffffffff40"),
    "properties with octets left over": bytes.fromhex("005373c003014040"),
    "properties cut within": bytes.fromhex("005373c00302a105"),
    "properties that end before the expiry": bytes.fromhex("005373c00c09a1026161" + "40" * 7),
    "expiry is a string": _section(0x73, [None] * 8 + ["soon"]),
    "expiry is cut": bytes.fromhex("005373c00b09" + "40" * 8 + "8300"),
    "properties before the expiry are cut": bytes.fromhex("005373c00a09" + "40" * 7 + "a1ff"),
    "application properties are a list": _section(0x74, []),
    "application properties of odd count": bytes.fromhex("005374c1020140"),
    "application properties with octets left over": bytes.fromhex("005374c10402404040"),
    "data is a string": _section(0x75, "body"),
    "data is cut": DATA[:-1],
    "data is null": _section(0x75, None),
    "sequence is a map": _section(0x76, {}),
    "value is cut": VALUE[:-1],
    "value of unknown code": b"\x00\x53\x77\x46",
    "footer is a list": _section(0x78, []),
    "footer is cut": FOOTER[:-1],
    "octets behind the last section": VALUE + b"\x00",
}


@pytest.mark.parametrize("payload", MALFORMED_MESSAGES.values(), ids=MALFORMED_MESSAGES.keys())
def test_malformed_message_is_refused(payload: bytes) -> None:
    """AMQP 1.0 §3.2: order, number and type of the sections."""
    with pytest.raises(MalformedValue):
        split_sections(payload)


@pytest.mark.parametrize("value", ["an id", b"an id", AN_UUID, ULong(7), Symbol("an id")])
@pytest.mark.parametrize("others", [{}, {"a": 1, "_AMQ_DUPL_ID_2": "x", "b": "_AMQ_DUPL_ID"}])
def test_the_duplicate_id_is_an_application_property(value: object, others: dict[str, object]) -> None:
    """artemis-model §3.13; names that only look like it are passed over."""
    sections = split_sections(HEADER + PROPERTIES + _section(0x74, {**others, "_AMQ_DUPL_ID": value}) + DATA)

    assert sections.duplicate_id == value


def test_the_duplicate_id_may_be_an_annotation() -> None:
    """For senders that may not touch the bare message."""
    assert split_sections(_section(0x72, {Symbol("_AMQ_DUPL_ID"): "an id"}) + BARE).duplicate_id == "an id"


def test_the_property_comes_before_the_annotation() -> None:
    """The application's own word."""
    annotations = _section(0x72, {Symbol("_AMQ_DUPL_ID"): "annotation"})

    assert split_sections(annotations + _section(0x74, {"_AMQ_DUPL_ID": "mine"}) + DATA).duplicate_id == "mine"
    assert split_sections(annotations + _section(0x74, {"_AMQ_DUPL_ID": None}) + DATA).duplicate_id == "annotation"


@pytest.mark.parametrize(
    "payload",
    [
        BARE,
        APPLICATION_PROPERTIES + _section(0x75, b"_AMQ_DUPL_ID"),
        _section(0x74, {"k": "_AMQ_DUPL_ID"}) + DATA,
        _section(0x72, {Symbol("x-opt-a"): "_AMQ_DUPL_ID"}) + BARE,
        encode(Properties(subject="_AMQ_DUPL_ID")) + DATA,
        _section(0x77, {"_AMQ_DUPL_ID": "in the body"}),
    ],
)
def test_the_name_elsewhere_is_no_duplicate_id(payload: bytes) -> None:
    """Bodies are not looked into."""
    assert split_sections(payload).duplicate_id is None


# --- parts of the bare message ---


def test_properties_are_read_one_by_one_or_all() -> None:
    """A selector on one field decodes one field."""
    assert read_to(BARE) == "q"
    assert read_property(BARE, 3) == "s"
    assert read_property(BARE, 12) is None
    assert read_properties(BARE) == Properties(message_id="id", to="q", subject="s")


@pytest.mark.parametrize("bare", [b"", VALUE, APPLICATION_PROPERTIES + VALUE])
def test_missing_properties_read_as_defaults(bare: bytes) -> None:
    """Every section is optional."""
    assert read_to(bare) is None
    assert read_properties(bare) == Properties()


def test_address_that_is_no_string_is_an_invalid_field() -> None:
    """Addresses are strings here."""
    with pytest.raises(InvalidField):
        read_to(_section(0x73, [None, None, 5]))


def test_application_properties_are_read_one_by_one_or_all() -> None:
    """Types stay as they are on the wire."""
    bare = PROPERTIES + _section(0x74, {"l": "k", "k": UInt(1), "kk": 2, "x" * 300: 3}) + DATA

    assert read_application_properties(bare) == {"l": "k", "k": 1, "kk": 2, "x" * 300: 3}
    assert read_application_property(bare, "k") == UInt(1)
    assert read_application_property(bare, "kk") == 2
    assert read_application_property(bare, "x" * 300) == 3
    assert read_application_property(bare, "body") is None
    assert read_application_property(bare, "") is None
    assert read_application_property(VALUE, "k") is None
    assert read_application_properties(VALUE) == {}


def test_annotation_is_read_alone() -> None:
    """From the kept octets."""
    raw = split_sections(ANNOTATIONS).annotations_raw

    assert read_annotation(raw, "x-opt-a") == "b"
    assert read_annotation(raw, "x-opt-b") is None
    assert read_annotation(b"", "x-opt-a") is None


@pytest.mark.parametrize("raw", [b"\x00", b"\x00\x00\x00\x01\x40", b"\xff\xff\xff\xfe", b"\x00\x00\x00\x02\xa3\x01"])
def test_damaged_annotations_are_malformed(raw: bytes) -> None:
    """They may come from a store that lost octets."""
    with pytest.raises(MalformedValue):
        to_view(raw, b"")


@pytest.mark.parametrize("bare", [HEADER + PROPERTIES, encode_value(1), b"\x00\x53\x10\x45" + PROPERTIES, b"\x00"])
def test_bare_message_has_no_other_sections(bare: bytes) -> None:
    """Damaged octets are named, whatever is asked of them."""
    for read in (read_to, read_properties, read_application_properties):
        with pytest.raises(MalformedValue):
            read(bare)
    with pytest.raises(MalformedValue):
        to_view(b"", bare)


# --- delivery ---


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("first_acquirer", [False, True])
@pytest.mark.parametrize("priority", range(10))
@pytest.mark.parametrize(("ttl_ms", "delivery_count"), [(-1, 0), (0, 0), (5000, 0), (-1, 3), (2**33, 300)])
def test_header_says_what_it_was_given(
    durable: bool, first_acquirer: bool, priority: int, ttl_ms: int, delivery_count: int
) -> None:
    """AMQP 1.0 §3.2.1; a ttl beyond 49 days does not fit and is cut to the longest."""
    sections: Sections = split_sections(header_bytes(durable, priority, ttl_ms, first_acquirer, delivery_count))

    assert sections.has_header
    assert sections.durable == durable
    assert sections.priority == priority
    assert sections.ttl_ms == min(ttl_ms, 2**32 - 1)
    assert sections.first_acquirer == first_acquirer
    assert sections.delivery_count == delivery_count


def test_headers_that_were_seen_before_are_read_as_new_ones_are() -> None:
    """Producers repeat a few headers, in any order; a body may begin with the octets of a header."""
    heads = [
        (durable, priority, ttl_ms, first_acquirer, delivery_count)
        for durable in (False, True)
        for priority in (4, 9)
        for ttl_ms in (-1, 70, 500)
        for first_acquirer in (False, True)
        for delivery_count in (0, 1)
    ]
    for one, other in permutations(heads, 2):
        for head in (one, other, other, one):
            sections = split_sections(header_bytes(*head) + DATA)
            found = (sections.durable, sections.priority, sections.ttl_ms)
            assert (*found, sections.first_acquirer, sections.delivery_count) == head
            assert sections.bare == DATA
    assert not split_sections(DATA).has_header


@pytest.mark.parametrize("first", [1, 250, 2**16 - 3, 2**32 - 3, 2**62])
def test_heads_of_one_link_are_header_and_annotations(first: int) -> None:
    """Whatever was kept from the delivery before."""
    heads = PlainHeads()
    for sequence in [*range(first, first + 10), first, first + 256, first]:
        for durable, priority, first_acquirer in (
            (False, 4, True),
            (False, 4, True),
            (True, 4, True),
            (True, 9, False),
        ):
            head = heads.head(durable, priority, first_acquirer, sequence)
            header = header_bytes(durable, priority, -1, first_acquirer, 0)
            assert head == header + annotations_bytes(b"", sequence, None)


def test_plain_header_is_an_empty_list() -> None:
    """Defaults are not written."""
    assert header_bytes(False, 4, -1, False, 0).hex() == "00537045"
    assert header_bytes(True, 4, -1, False, 0).hex() == "005370c0020141"


def test_sequence_number_is_a_long() -> None:
    """amqp10 §16; always of the same width."""
    assert annotations_bytes(b"", 258, None).hex() == (
        "005372c12102a315" + b"x-opt-sequence-number".hex() + "810000000000000102"
    )


def test_annotations_that_came_are_spliced_in() -> None:
    """Their octets are not encoded anew, whatever their width."""
    raw = split_sections(_section(0x72, {Symbol("x-opt-long"): "v" * 300, Symbol("x-opt-u"): UInt(1)})).annotations_raw

    section = annotations_bytes(raw, 1, None)

    assert raw[4:] in section
    assert _annotations_of(section) == {"x-opt-sequence-number": 1, "x-opt-long": "v" * 300, "x-opt-u": 1}


def test_broker_properties_become_annotations() -> None:
    """artemis-model §4.1.5: `_AMQ_FOO_BAR` is x-opt-FOO-BAR; what has no such name is not shown."""
    extra: dict[str, object] = {
        "_AMQ_ORIG_ADDRESS": "orders",
        "_AMQ_ORIG_QUEUE": "orders.q",
        "_AMQ_ORIG_MESSAGE_ID": 77,
        "_AMQ_ACTUAL_EXPIRY": 1700000000000,
        "_AMQ_ORIG_ROUTING_TYPE": 1,
        "_AMQ_ROUTING_TYPE": 0,
        "_AMQ_INGRESS_TIMESTAMP": 5,
        "_AMQ_SCHED_DELIVERY": 6,
        "x-opt-deaths": 1,
        "__AMQ_CID": "client",
        "note": "private",
        "x-opt-sequence-number": 99,
    }

    annotations = _annotations_of(annotations_bytes(b"", 3, extra))

    assert annotations == {
        "x-opt-sequence-number": 3,
        "x-opt-ORIG-ADDRESS": "orders",
        "x-opt-ORIG-QUEUE": "orders.q",
        "x-opt-ORIG-MESSAGE-ID": 77,
        "x-opt-ACTUAL-EXPIRY": 1700000000000,
        "x-opt-ORIG-ROUTING-TYPE": 1,
        "x-opt-routing-type": 0,
        "x-opt-ingress-time": 5,
        "x-opt-delivery-time": 6,
        "x-opt-deaths": 1,
    }
    assert type(annotations["x-opt-ORIG-ROUTING-TYPE"]) is Byte
    assert {type(key) for key in annotations} == {Symbol}


@pytest.mark.parametrize("length", [0, 5, KEPT_KEY_CHARS, KEPT_KEY_CHARS + 1, 300])
def test_a_routing_key_is_written_the_same_each_time(length: int) -> None:
    """What is kept of it fits any sequence number, and long keys, which are not kept, look no different."""
    key = "k" * length

    for sequence in (1, 1 << 40):
        section = annotations_bytes(b"", sequence, {"_AMQ_ROUTING_KEY": key})
        assert _annotations_of(section) == {"x-opt-sequence-number": sequence, "x-opt-ROUTING-KEY": key}


@pytest.mark.parametrize("name", ["mesh-path", "__AMQ_CID", "_AMQ_ORIG_QUEUE"])
def test_one_broker_property_is_shown_only_if_it_has_a_name(name: str) -> None:
    """One that clients do not see takes the short way, and leaves nothing but the sequence number."""
    alone = annotations_bytes(b"", 7, None)

    section = annotations_bytes(b"", 7, {name: "a"})

    assert (section == alone) == (name != "_AMQ_ORIG_QUEUE")


def test_routing_keys_are_forgotten() -> None:
    """Clients choose them: however many there are, each is written right."""
    for number in range(2 * KEPT_KEYS + 1):
        section = annotations_bytes(b"", number, {"_AMQ_ROUTING_KEY": f"a.{number}"})
        assert _annotations_of(section)["x-opt-ROUTING-KEY"] == f"a.{number}"
    assert len(_AROUND_SEQUENCE) <= KEPT_KEYS


def test_broker_properties_replace_what_came() -> None:
    """A message dead-lettered twice, by two brokers, has one origin: the last. Keys of a map are distinct."""
    raw = split_sections(
        _section(0x72, {Symbol("x-opt-ORIG-QUEUE"): "old", Symbol("x-opt-a"): 1, ULong(5): 2})
    ).annotations_raw

    section = annotations_bytes(raw, 3, {"_AMQ_ORIG_QUEUE": "new"})

    assert section.count(b"x-opt-ORIG-QUEUE") == 1
    assert _annotations_of(section) == {
        "x-opt-sequence-number": 3,
        "x-opt-ORIG-QUEUE": "new",
        "x-opt-a": 1,
        5: 2,
    }


# --- the neutral view ---


def test_view_has_every_part() -> None:
    """artemis-model §4.1.6."""
    bare = (
        encode(
            Properties(
                message_id=ULong(7),
                user_id=b"u",
                to="t",
                subject="s",
                reply_to="r",
                correlation_id=AN_UUID,
                content_type="text/plain",
                content_encoding="gzip",
                creation_time=Timestamp(5),
                group_id="g",
                group_sequence=6,
                reply_to_group_id="rg",
            )
        )
        + _section(0x74, {"b": Byte(1), "d": Decimal32(bytes.fromhex("32800001")), "c": Char("x")})
        + DATA
        + FOOTER
    )
    raw = split_sections(_section(0x72, {Symbol("x-opt-jms-dest"): Byte(1)})).annotations_raw

    view = to_view(raw, bare)

    assert view == MessageView(
        message_id=7,
        user_id=b"u",
        to="t",
        subject="s",
        reply_to="r",
        correlation_id=AN_UUID,
        content_type="text/plain",
        content_encoding="gzip",
        creation_time_ms=5,
        group_id="g",
        group_sequence=6,
        reply_to_group_id="rg",
        properties={"b": 1, "d": 1.0, "c": "x"},
        annotations={"x-opt-jms-dest": 1},
        body=b"body",
    )
    assert type(view.message_id) is int
    assert type(view.content_type) is str
    assert type(view.creation_time_ms) is int


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", None),
        (DATA, b"body"),
        (DATA + DATA + DATA, b"bodybodybody"),
        (_section(0x75, b""), b""),
        (SEQUENCE, [1, "two"]),
        (SEQUENCE + _section(0x76, []) + SEQUENCE, [1, "two", 1, "two"]),
        (_section(0x76, []), []),
        (_section(0x77, None), None),
        (_section(0x77, "x"), "x"),
        (_section(0x77, b"x"), b"x"),
        (_section(0x77, {"a": [UInt(1)]}), {"a": [1]}),
        (_section(0x77, UInt(5)), 5),
    ],
)
def test_view_of_each_body(body: bytes, expected: object) -> None:
    """AMQP 1.0 §3.2.6 to §3.2.8."""
    assert to_view(b"", body).body == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (UInt(5), 5),
        (Timestamp(5), 5),
        (Float32(0.5), 0.5),
        (Symbol("s"), "s"),
        (Char("c"), "c"),
        (b"b", b"b"),
        (AN_UUID, AN_UUID),
        (Array(BOOLEAN, (True, False)), [True, False]),
        (Described(ULong(1), Symbol("x")), "x"),
        ({Symbol("k"): [Symbol("v")], (Symbol("t"), (UInt(1),)): 1}, {"k": ["v"], ("t", (1,)): 1}),
    ],
)
def test_plain_value_has_python_types_only(value: object, expected: object) -> None:
    """Other protocols know no AMQP classes."""
    result = plain(value)

    assert result == expected
    assert type(result) is type(expected)


def test_message_of_another_protocol_can_be_delivered() -> None:
    """Its view becomes a message whose view is the same."""
    view = MessageView(
        message_id="ID:1",
        correlation_id=b"\x01",
        user_id=b"u",
        to="t",
        subject="s",
        reply_to="r",
        content_type="text/plain",
        content_encoding="gzip",
        creation_time_ms=5,
        group_id="g",
        group_sequence=6,
        reply_to_group_id="rg",
        properties={"a": 1, "b": True, "c": "x", "d": 1.5, "e": b"x", "f": None, "g": AN_UUID},
        annotations={"x-opt-jms-dest": 1},
        body=b"body",
    )

    raw, bare = from_view(view)

    assert to_view(raw, bare) == view
    sections = split_sections(annotations_bytes(raw, 1, None) + bare)
    assert sections.bare == bare
    assert sections.annotations == {"x-opt-sequence-number": 1, "x-opt-jms-dest": 1}
    assert {type(key) for key in sections.annotations} == {Symbol}


@pytest.mark.parametrize(
    ("body", "section"),
    [
        (b"x", "005375a00178"),
        ("x", "005377a10178"),
        (None, "00537740"),
        ({"k": 1}, "005377c10602a1016b5501"),
        ([1], "005377c003015501"),
        (1.5, "005377823ff8000000000000"),
    ],
)
def test_body_of_another_protocol_becomes_a_section(body: object, section: str) -> None:
    """Octets are data, all else is a value; a view without anything else is its body alone."""
    assert from_view(MessageView(body=body)) == (b"", bytes.fromhex(section))


@pytest.mark.parametrize(
    ("message_id", "expected"),
    [
        (5, ULong(5)),
        (0, ULong(0)),
        (-1, "-1"),
        (2**64, str(2**64)),
        (AN_UUID, AN_UUID),
        (b"b", b"b"),
        ("s", "s"),
        (1.5, "1.5"),
    ],
)
def test_message_id_of_another_protocol_keeps_its_type(message_id: object, expected: object) -> None:
    """What has no AMQP type travels as text."""
    _, bare = from_view(MessageView(message_id=message_id))

    read = read_properties(bare).message_id
    assert read == expected
    assert type(read) is type(expected)


def test_what_amqp_has_no_room_for_is_left_out() -> None:
    """Rather than a message that its consumer cannot read."""
    view = MessageView(
        content_type="texte/é",
        group_sequence=-1,
        properties={"list": [1], "map": {}, "big": 2**63, "small": -(2**63)},
        annotations={"é": 1, "x-opt-sequence-number": 5, "x-opt-delivery-delay": 6},
    )

    raw, bare = from_view(view)

    assert raw == b""
    assert read_properties(bare) == Properties(group_sequence=2**32 - 1)
    assert read_application_properties(bare) == {"small": -(2**63)}


@pytest.mark.parametrize(
    ("sent", "neutral", "written"),
    [
        (Byte(-1), Int8, Byte),
        (UByte(255), Int16, Short),
        (Short(-1), Int16, Short),
        (UShort(65535), Int32, Int),
        (Int(-1), Int32, Int),
        (UInt(2**32 - 1), int, int),
        (-1, int, int),
        (Float32(0.5), Binary32, Float32),
        (0.1, float, float),
    ],
)
def test_numbers_keep_their_width(sent: float, neutral: type, written: type) -> None:
    """A client of JMS that reads an int fails for a long; unsigned numbers get the next width that has room."""
    view = to_view(b"", _section(0x74, {"p": sent}) + _section(0x77, {"b": [sent]}))

    assert isinstance(view.body, dict)
    for value in (view.properties["p"], view.body["b"][0]):
        assert (type(value), value) == (neutral, sent)
    raw, bare = from_view(view)
    found = read_application_property(bare, "p")
    assert (raw, type(found), found) == (b"", written, sent)
    body, _ = read_value(bare, bare.index(b"\x00\x53\x77") + 3, len(bare))
    assert isinstance(body, dict)
    assert (type(body["b"][0]), body["b"][0]) == (written, sent)


def test_annotations_of_jms_are_bytes() -> None:
    """amqp10 §17: clients accept no other type for these."""
    names = ("x-opt-jms-msg-type", "x-opt-jms-dest", "x-opt-jms-reply-to")

    raw, _ = from_view(MessageView(annotations={**dict.fromkeys(names, 1), "x-opt-other": 1}))

    for name in names:
        assert type(read_annotation(raw, name)) is Byte
    assert type(read_annotation(raw, "x-opt-other")) is int
