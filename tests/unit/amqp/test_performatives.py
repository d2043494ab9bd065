"""Composites of AMQP 1.0 by their octets: frames that Qpid Proton wrote, and what is wrong with bad ones."""

import pytest

from artemis_amqp.engine.performatives import (
    Accepted,
    AmqpError,
    Attach,
    Begin,
    Close,
    Coordinator,
    Declare,
    Declared,
    Detach,
    Discharge,
    Disposition,
    End,
    Flow,
    Modified,
    Open,
    Properties,
    Received,
    Rejected,
    Released,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Source,
    Target,
    TransactionalState,
    Transfer,
    encode,
    frame,
    read_composite,
    read_performative,
)
from artemis_amqp.engine.types import Described, InvalidField, MalformedValue, Symbol, Timestamp, ULong


def _composite(code: int, *items: str) -> bytes:
    """A described list of these fields, each in hex."""
    content = bytes.fromhex("".join(items))
    return b"\x00\x53" + bytes((code, 0xC0, len(content) + 1, len(items))) + content


# Frames of Proton, and whether ours have the same octets: Proton writes defaults and some wide forms, we do not.
GOLDEN: dict[str, tuple[str, object, int, bool]] = {
    "sasl-mechanisms": (
        "0000001c 02010000 00 5340 c00f01 e00c01a309414e4f4e594d4f5553",
        SaslMechanisms((Symbol("ANONYMOUS"),)),
        1,
        True,
    ),
    "sasl-init": (
        "00000024 02010000 00 5341 c01702 a309414e4f4e594d4f5553 a009616e6f6e796d6f7573",
        SaslInit(mechanism="ANONYMOUS", initial_response=b"anonymous"),
        1,
        True,
    ),
    "sasl-outcome": ("00000010 02010000 00 5344 c00301 5000", SaslOutcome(0), 1, True),
    "open of a client": (
        (
            "0000006e 02000000 00 5310 c0610a a108636c69656e742d31 a103766831 7000010000 6000ff 7000007530 40 40 40"
            "f00000002700000002b30000000f414e4f4e594d4f55532d52454c41590000000b5348415245442d53554253"
            "d10000001000000002a30770726f64756374a10174"
        ),
        Open(
            container_id="client-1",
            hostname="vh1",
            max_frame_size=65536,
            channel_max=255,
            idle_time_out=30000,
            desired_capabilities=(Symbol("ANONYMOUS-RELAY"), Symbol("SHARED-SUBS")),
            properties={Symbol("product"): "t"},
        ),
        0,
        False,
    ),
    "open of a server": (
        (
            "00000041 02000000 00 5310 c03408 a10862726f6b65722d31 40 7000020000 6000ff 40 40 40"
            "f00000001800000001b30000000f414e4f4e594d4f55532d52454c4159"
        ),
        Open(
            container_id="broker-1",
            max_frame_size=131072,
            channel_max=255,
            offered_capabilities=(Symbol("ANONYMOUS-RELAY"),),
        ),
        0,
        False,
    ),
    "begin": (
        "0000001f 02000000 00 5311 c01205 40 43 707fffffff 707fffffff 707fffffff",
        Begin(next_outgoing_id=0, incoming_window=2**31 - 1, outgoing_window=2**31 - 1, handle_max=2**31 - 1),
        0,
        True,
    ),
    "begin in answer": (
        "00000021 02000000 00 5311 c01405 600000 43 707fffffff 707fffffff 707fffffff",
        Begin(
            remote_channel=0,
            next_outgoing_id=0,
            incoming_window=2**31 - 1,
            outgoing_window=2**31 - 1,
            handle_max=2**31 - 1,
        ),
        0,
        True,
    ),
    "attach of a sender": (
        (
            "00000075 02000000 00 5312 c0680b a105736e642d31 43 42 5000 5000"
            "005328c0430aa10270314340434240404040f00000003100000002b300000012616d71703a61636365707465643a6c697374"
            "00000012616d71703a72656a65637465643a6c697374 005329c00905a10271314340434240 40 43 44"
        ),
        Attach(
            name="snd-1",
            handle=0,
            role=False,
            snd_settle_mode=0,
            source=Source(address="p1", outcomes=(Symbol("amqp:accepted:list"), Symbol("amqp:rejected:list"))),
            target=Target(address="q1"),
            initial_delivery_count=0,
            max_message_size=0,
        ),
        0,
        False,
    ),
    "attach of a receiver": (
        (
            "00000071 02000000 00 5312 c0640b a1057263762d31 5201 41 5002 5000"
            "005328c0410ba10271314340434240a304636f7079d10000002300000002a30c6a6d732d73656c6563746f72"
            "00800000468c00000004a1056b203e2030 40 40 a3057175657565 005329c006054043404342 40 40 43 44"
        ),
        Attach(
            name="rcv-1",
            handle=1,
            role=True,
            source=Source(
                address="q1",
                distribution_mode="copy",
                filter={Symbol("jms-selector"): Described(ULong(0x468C00000004), "k > 0")},
                capabilities=(Symbol("queue"),),
            ),
            target=Target(),
            initial_delivery_count=0,
            max_message_size=0,
        ),
        0,
        False,
    ),
    "flow": (
        "00000020 02000000 00 5313 c01309 43 707fffffff 43 707fffffff 43 43 5264 40 42",
        Flow(
            next_incoming_id=0,
            incoming_window=2**31 - 1,
            next_outgoing_id=0,
            outgoing_window=2**31 - 1,
            handle=0,
            delivery_count=0,
            link_credit=100,
        ),
        0,
        False,
    ),
    "flow that drains": (
        "00000022 02000000 00 5313 c01509 43 707fffffff 5201 707fffffff 5201 43 520a 40 41",
        Flow(
            next_incoming_id=0,
            incoming_window=2**31 - 1,
            next_outgoing_id=1,
            outgoing_window=2**31 - 1,
            handle=1,
            delivery_count=0,
            link_credit=10,
            drain=True,
        ),
        0,
        True,
    ),
    "transfer": (
        "00000014 02000000 00 5314 c00704 43 43 a00100 43",
        Transfer(handle=0, delivery_id=0, delivery_tag=b"\x00", message_format=0),
        0,
        True,
    ),
    "disposition": (
        "00000016 02000000 00 5315 c00905 41 43 40 41 00532445",
        Disposition(role=True, first=0, settled=True, state=Accepted()),
        0,
        True,
    ),
    "detach": (
        "0000002e 02000000 00 5316 c02103 5201 41 00531dc01802a30e616d71703a6e6f742d666f756e64a1056e6f207131",
        Detach(handle=1, closed=True, error=AmqpError("amqp:not-found", "no q1")),
        0,
        True,
    ),
    "end": ("0000000c 02000000 00 5317 45", End(), 0, True),
    "close": ("0000000c 02000000 00 5318 45", Close(), 0, True),
}


@pytest.mark.parametrize(("text", "performative", "frame_type", "is_ours"), GOLDEN.values(), ids=GOLDEN.keys())
def test_frame_of_proton_is_read(text: str, performative: object, frame_type: int, is_ours: bool) -> None:
    """amqp10 §23: what another implementation writes, we read; and mostly write the same."""
    octets = bytes.fromhex(text)

    assert read_performative(octets, 8, len(octets)) == (performative, len(octets))
    if is_ours:
        assert frame(0, performative, frame_type).hex() == octets.hex()
    else:
        ours = frame(0, performative, frame_type)
        assert len(ours) < len(octets)
        assert read_performative(ours, 8, len(ours)) == (performative, len(ours))


STATES: list[tuple[str, object, bool]] = [
    ("00533145", Declare(), True),
    ("005332d00000000800000002a0010142", Discharge(b"\x01"), False),
    ("005332c00502a0010141", Discharge(b"\x01", fail=True), True),
    ("005333d00000000700000001a00101", Declared(b"\x01"), False),
    ("005334d00000000b00000002a0010100532445", TransactionalState(b"\x01", Accepted()), False),
    ("005327d0000000050000000141", Modified(delivery_failed=True), False),
    ("005327c0020141", Modified(delivery_failed=True), True),
    ("005323c003024344", Received(0, 0), True),
    ("00532545", Rejected(), True),
    ("00532645", Released(), True),
    ("00a312616d71703a61636365707465643a6c697374c00100", Accepted(), False),
    ("00800000000000000024d00000000400000000", Accepted(), False),
    ("005330c00801e00501a30278" + "79", Coordinator((Symbol("xy"),)), True),
]


@pytest.mark.parametrize(("text", "state", "is_ours"), STATES)
def test_state_is_read_and_written(text: str, state: object, is_ours: bool) -> None:
    """AMQP 1.0 §3.4, AMQP 1.0 §4.5; the descriptor may be the code or the name (AMQP 1.0 §1.4)."""
    octets = bytes.fromhex(text)

    assert read_composite(octets, 0, len(octets)) == (state, len(octets))
    if is_ours:
        assert encode(state).hex() == text


def test_frame_carries_its_channel() -> None:
    """AMQP 1.0 §2.3.1."""
    assert frame(0x1234, End()).hex() == "0000000c0200123400531745"


def test_payload_follows_a_transfer() -> None:
    """The offset returned is where the payload starts."""
    octets = encode(Transfer(handle=3)) + b"payload"

    performative, offset = read_performative(octets, 0, len(octets))

    assert performative == Transfer(handle=3)
    assert octets[offset:] == b"payload"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("40", ()),
        ("a30161", (Symbol("a"),)),
        ("e00301a30161", None),
        ("e00401a30161", (Symbol("a"),)),
        ("e00602a301610162", (Symbol("a"), Symbol("b"))),
        ("f00000000500000000b3", ()),
    ],
)
def test_field_of_several_symbols_has_three_forms(field: str, expected: tuple[Symbol, ...] | None) -> None:
    """AMQP 1.0 §1.4: null, one bare value or an array."""
    octets = _composite(0x30, field)

    if expected is None:
        with pytest.raises(MalformedValue):
            read_composite(octets, 0, len(octets))
    else:
        assert read_composite(octets, 0, len(octets)) == (Coordinator(expected), len(octets))


def test_fields_take_strings_as_keys() -> None:
    """Some clients write string keys into properties."""
    octets = _composite(0x10, "a10161", *["40"] * 8, "c10502a1017041")

    performative, _ = read_performative(octets, 0, len(octets))

    assert performative == Open(container_id="a", properties={Symbol("p"): True})
    assert isinstance(performative, Open)
    assert [type(key) for key in performative.properties or ()] == [Symbol]


def test_unsettled_maps_tags_to_states() -> None:
    """AMQP 1.0 §2.7.3: the value is a state or null."""
    attach = Attach(
        name="l", handle=0, role=True, unsettled={b"1": Received(0, 300), b"2": None, b"3": Described(ULong(99), [])}
    )
    octets = encode(attach)

    assert read_performative(octets, 0, len(octets)) == (attach, len(octets))


def test_unknown_state_stays_as_it_is() -> None:
    """`state` may be any type; what to do about an unknown one is not the codec's to say."""
    disposition = Disposition(role=True, first=1, state=Described(Symbol("x:y"), [1]))
    octets = encode(disposition)

    assert read_performative(octets, 0, len(octets)) == (disposition, len(octets))


def test_credentials_are_not_shown() -> None:
    """Credentials are never logged, and a repr ends in a log sooner or later."""
    shown = "".join(
        repr(body)
        for body in (
            SaslInit(mechanism="PLAIN", initial_response=b"\x00u\x00secret"),
            SaslChallenge(b"secret"),
            SaslResponse(b"secret"),
            SaslOutcome(0, b"secret"),
        )
    )

    assert "secret" not in shown


DECODE_ERRORS = {
    "nothing": "",
    "not described": "5317",
    "only a descriptor": "005317",
    "unknown code": "00531945",
    "code of a section without class": "00537045",
    "unknown name": "00a3016145",
    "descriptor of another type": "00541745",
    "code beyond all": "0080ffffffffffffffff45",
    "a state": "00532445",
    "a source": "00532845",
    "map instead of list": "005317c10100",
    "array instead of list": "005317e0020040",
    "null instead of list": "00531740",
    "too many fields": "005317c003024040",
    "four billion fields": "005317d000000005ffffffff40",
    "size beyond the end": "005317c00901" + "40",
    "size without count": "005317c000",
    "count beyond the content": "005318c00101",
    "octets left over": "005317c003014040",
    "mandatory field null": "005316c0020140",
    "mandatory field missing": "00531645",
    "mandatory symbols null": "005340c0020140",
    "map of odd count": _composite(0x10, "a10161", *["40"] * 8, "c1020140").hex(),
    "key repeated": _composite(0x10, "a10161", *["40"] * 8, "c10904a3017040a3017040").hex(),
    "tags with octets left over": _composite(0x12, "a10161", "43", "41", *["40"] * 4, "c10200" + "40").hex(),
    "map beyond the fields": "005310c00c0aa10131" + "40" * 8,
    "tag without a state": _composite(0x12, "a10161", "43", "41", *["40"] * 4, "c10401a00131").hex(),
}


@pytest.mark.parametrize("text", DECODE_ERRORS.values(), ids=DECODE_ERRORS.keys())
def test_frame_body_that_cannot_be_decoded(text: str) -> None:
    """Answered with amqp:decode-error (AMQP 1.0 §2.8.15)."""
    octets = bytes.fromhex(text)

    with pytest.raises(MalformedValue) as caught:
        read_performative(octets, 0, len(octets))

    assert caught.value.condition == "amqp:decode-error"


INVALID_FIELDS = [
    ("detach.handle", _composite(0x16, "41")),
    ("detach.closed", _composite(0x16, "43", "5000")),
    ("detach.error", _composite(0x16, "43", "42", "00532445")),
    ("close.error", _composite(0x18, "41")),
    ("open.container-id", _composite(0x10, "a30161")),
    ("open.channel-max", _composite(0x10, "a10161", "40", "40", "43")),
    ("open.offered-capabilities", _composite(0x10, "a10161", *["40"] * 6, "c00100")),
    ("open.desired-capabilities", _composite(0x10, "a10161", *["40"] * 7, "e00401a10161")),
    ("open.properties", _composite(0x10, "a10161", *["40"] * 8, "45")),
    ("attach.source", _composite(0x12, "a10161", "43", "41", "40", "40", "00532945")),
    ("attach.target", _composite(0x12, "a10161", "43", "41", "40", "40", "40", "00532845")),
    ("attach.unsettled", _composite(0x12, "a10161", "43", "41", *["40"] * 4, "c10502a1013140")),
    ("open.properties", _composite(0x10, "a10161", *["40"] * 8, "c104025501" + "40")),
    ("begin.properties", _composite(0x11, "40", "43", "43", "43", *["40"] * 3, "c10602a102c3a940")),
    ("properties.message-id", _composite(0x73, "41")),
    ("properties.content-type", _composite(0x73, *["40"] * 6, "5500")),
    ("properties.content-encoding", _composite(0x73, *["40"] * 7, "a102c3a9")),
    ("attach.unsettled", _composite(0x12, "a10161", "43", "41", *["40"] * 4, "c10302" + "4040")),
    ("attach.unsettled", _composite(0x12, "a10161", "43", "41", *["40"] * 4, "c10904a0013140a0013140")),
    ("transfer.delivery-tag", _composite(0x14, "43", "40", "a041" + "61" * 65)),
]


@pytest.mark.parametrize(("name", "octets"), INVALID_FIELDS, ids=[name for name, _ in INVALID_FIELDS])
def test_field_of_the_wrong_type_is_named(name: str, octets: bytes) -> None:
    """Answered with amqp:invalid-field (AMQP 1.0 §2.8.15)."""
    with pytest.raises(InvalidField, match=f"^{name}: ") as caught:
        read_composite(octets, 0, len(octets))

    assert caught.value.condition == "amqp:invalid-field"


def test_states_within_states_have_an_end() -> None:
    """Depth costs stack, so it ends at a number and not at a crash."""
    octets = b"\x40"
    for _ in range(200):
        octets = b"\x00\x53\x34\xd0" + (len(octets) + 7).to_bytes(4, "big") + b"\x00\x00\x00\x02\xa0\x01\x01" + octets

    with pytest.raises(MalformedValue, match="deeper"):
        read_composite(octets, 0, len(octets))


def test_properties_take_strings_for_symbols() -> None:
    """Senders often write content-type as a string; the standard wants a symbol."""
    octets = _composite(0x73, *["40"] * 6, "a103612f62")

    assert read_composite(octets, 0, len(octets)) == (Properties(content_type="a/b"), len(octets))


@pytest.mark.parametrize("message_id", ["a", ULong(5), b"\x00", None])
def test_message_id_keeps_its_type(message_id: object) -> None:
    """AMQP 1.0 §3.2.11 to §3.2.14: four types of ids, all different."""
    properties = Properties(message_id=message_id, creation_time=Timestamp(5))
    octets = encode(properties)

    read, _ = read_composite(octets, 0, len(octets))

    assert read == properties
    assert isinstance(read, Properties)
    assert type(read.message_id) is type(message_id)


def test_value_that_its_field_cannot_carry_is_our_own_mistake() -> None:
    """Never a peer's: it raises where it was made."""
    with pytest.raises(ValueError, match="UInt"):
        encode(Detach(handle=-1))
    with pytest.raises(TypeError):
        encode(Properties(message_id=object()))
