"""From CONNECT to CONNACK, and how a conversation ends."""

from collections.abc import Callable

import pytest
from attrs import evolve

from artemis_mqtt.engine import reasons
from artemis_mqtt.engine.flight import IncomingFlight, OutgoingFlight
from artemis_mqtt.engine.handler import MessageHandler
from artemis_mqtt.engine.limits import LOGIN_BUFFER_BYTES, ConnectionLimits
from artemis_mqtt.engine.packets import Auth, Connack, Connect, Disconnect, Will
from artemis_mqtt.engine.properties import NO_PROPERTIES, Properties, write_properties
from tests.mqtt_harness import (
    PINGREQ,
    VERSIONS,
    Conversation,
    Recorder,
    auth,
    connect,
    disconnect,
    publish,
    read_server_packets,
)

WILL = Will(topic="w", payload=b"gone", qos=1, retain=True)
FULL = Connect(client_id="c1", clean_start=False, keep_alive_s=60, username="u", password=b"\0p", will=WILL)


def waiting(version: int = 5, **limits: int) -> Conversation:
    """A server that takes its time about a CONNECT."""
    return Conversation(version, ConnectionLimits(**limits), Recorder(accepts=False))


@pytest.mark.parametrize("version", VERSIONS)
def test_connect_in_every_version(version: int) -> None:
    """[MQTT-3.1.2-9] [MQTT-3.1.2-17] [MQTT-3.1.2-19] [MQTT-3.1.3-1] [MQTT-3.1.3-3] what the flags say, in order."""
    client = waiting(version)
    client.send(connect(evolve(FULL, version=version)))

    assert client.calls == [("connect", evolve(FULL, version=version))]


def test_connect_with_every_property() -> None:
    """[MQTT-3.1.3-10] MQTT 5.0 §3.1.2.11, §3.1.3.2; the will's delay and expiry are not among what its PUBLISH
    carries.
    """
    carried = Properties(content_type="t", response_topic="r", correlation_data=b"c", user_properties=(("a", "b"),))
    will = evolve(WILL, properties=evolve(carried, will_delay_interval=5, message_expiry_interval=6))
    packet = Connect(
        client_id="c1",
        will=will,
        properties=Properties(
            session_expiry_interval=1,
            receive_maximum=2,
            maximum_packet_size=300,
            topic_alias_maximum=4,
            request_response_information=1,
            request_problem_information=0,
            user_properties=(("a", "b"),),
            authentication_method="m",
            authentication_data=b"d",
        ),
    )
    client = waiting()
    client.send(connect(packet))

    assert client.calls == [
        ("connect", evolve(packet, will=evolve(will, publish_properties=write_properties(carried))))
    ]


def test_version_5_takes_a_password_without_a_user_name() -> None:
    """MQTT 5.0 §3.1.2.9: other than 3.1.1."""
    client = waiting()
    client.send(connect(Connect(password=b"p")))

    assert client.calls[0][1].password == b"p"


@pytest.mark.parametrize("version", VERSIONS)
def test_no_other_packet_may_come_first(version: int) -> None:
    """[MQTT-3.1.0-1]; there is nobody known to answer."""
    for first in (publish(version, "a"), PINGREQ, disconnect(version), b"\xf0\x00", b"\x00\x00", b"GET / HTTP"):
        client = Conversation(version)

        assert client.send(first) == []
        assert client.failure() in (reasons.PROTOCOL_ERROR, reasons.MALFORMED_PACKET)


@pytest.mark.parametrize("version", VERSIONS)
def test_connect_comes_once(version: int) -> None:
    """[MQTT-3.1.0-2] [3.1.1: MQTT-3.1.0-2]"""
    client = Conversation(version)
    client.open()
    answer = client.send(connect(Connect(version=version, client_id="c1")))

    assert [packet.reason for packet in answer] == ([reasons.PROTOCOL_ERROR] if version == 5 else [])
    assert client.failure() == reasons.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("octets", "answer"),
    [
        ("10 0c 0004 4d515454 03 02 0000 0000", "20020001"),
        ("10 0c 0004 4d515454 00 02 0000 0000", "20020001"),
        ("10 0e 0006 4d5149736470 04 02 0000 0000", "20020001"),
        ("10 0c 0004 4d515454 84 02 0000 0000", "2003008400"),
        ("10 0d 0004 4d515454 06 02 0000 00 0000", "2003008400"),
    ],
)
def test_an_unsupported_version_is_refused_in_a_form_its_client_reads(octets: str, answer: str) -> None:
    """[MQTT-3.1.2-2] [3.1.1: MQTT-3.1.2-2] 0x84 to what is newer than version 5, 0x01 to what is older."""
    client = Conversation()
    client.engine.receive_data(bytes.fromhex(octets), 0.0)

    assert client.engine.data_to_send().hex() == answer
    assert client.failure() == reasons.UNSUPPORTED_PROTOCOL_VERSION


def test_another_protocol_name_is_closed_without_a_word() -> None:
    """[MQTT-3.1.2-1] [3.1.1: MQTT-3.1.2-1]"""
    client = Conversation()

    assert client.send(bytes.fromhex("10 0c 0004 4d515455 04 02 0000 0000")) == []
    assert client.failure() == reasons.PROTOCOL_ERROR


PLAIN = Connect(client_id="c1")

# CONNECT with a payload that would fit, its flags, and the versions that they are malformed in.
BAD_FLAGS = [
    (PLAIN, 0x03, (3, 4, 5)),  # reserved
    (PLAIN, 0x0A, (3, 4, 5)),  # will QoS without a will
    (PLAIN, 0x12, (3, 4, 5)),
    (PLAIN, 0x22, (3, 4, 5)),  # will retain without a will
    (FULL, 0xFC, (3, 4, 5)),  # will QoS 3
    (evolve(PLAIN, password=b"p"), 0x42, (3, 4)),  # password without user name
]


@pytest.mark.parametrize(("packet", "flags", "versions"), BAD_FLAGS)
def test_flags_of_connect_that_contradict_each_other(packet: Connect, flags: int, versions: tuple[int, ...]) -> None:
    """[MQTT-3.1.2-3] [MQTT-3.1.2-11] [MQTT-3.1.2-12] [MQTT-3.1.2-13] [MQTT-3.1.4-1] [3.1.1: MQTT-3.1.2-22]
    [3.1.1: MQTT-3.1.4-1]: malformed, which 3.x is not told."""
    for version in versions:
        octets = bytearray(connect(evolve(packet, version=version)))
        octets[11 if version == 3 else 9] = flags
        client = waiting(version)
        answer = client.send(bytes(octets))

        assert [one.reason for one in answer] == ([reasons.MALFORMED_PACKET] if version == 5 else [])
        assert client.failure() == reasons.MALFORMED_PACKET


@pytest.mark.parametrize("flags", [0x02, 0x06, 0x82, 0xC2])
def test_the_payload_of_connect_has_what_its_flags_say(flags: int) -> None:
    """[MQTT-3.1.2-16] [MQTT-3.1.2-18] [MQTT-3.1.2-9] nothing more and nothing less."""
    packet = bytearray(connect(FULL))
    packet[9] = flags
    client = waiting()

    assert [one.reason for one in client.send(bytes(packet))] == [reasons.MALFORMED_PACKET]


@pytest.mark.parametrize("topic", ["", "a/+", "#"])
def test_a_will_is_for_a_topic_name(topic: str) -> None:
    """[MQTT-3.1.3-11] it is published like any message."""
    client = waiting()

    assert [one.reason for one in client.send(connect(Connect(will=Will(topic=topic, payload=b""))))] == [0x81]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("text", [b"\xff", b"\xed\xa0\x80", b"a\0"])
@pytest.mark.parametrize("field", [b"c1", b"uu", b"ww"])
def test_the_texts_of_connect_are_text(version: int, text: bytes, field: bytes) -> None:
    """[MQTT-3.1.3-4] [MQTT-3.1.3-11] [MQTT-3.1.3-12] [MQTT-1.5.4-1] client identifier, user name, will topic."""
    packet = evolve(FULL, version=version, username="uu", will=evolve(WILL, topic="ww"))
    fixed, body = connect(packet)[:1], connect(packet)[2:]
    damaged = body.replace(b"\0\x02" + field, len(text).to_bytes(2, "big") + text)
    client = waiting(version)
    client.send(fixed + bytes((len(damaged),)) + damaged)

    assert client.failure() == reasons.MALFORMED_PACKET


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["a", "0123456789abcdefABCDEFz", "a" * 65535, "ä/+#$ "])
def test_names_of_clients(version: int, name: str) -> None:
    """[MQTT-3.1.3-5] and any other text."""
    client = waiting(version)
    client.send(connect(Connect(version=version, client_id=name)))

    assert client.calls[0][1].client_id == name


def test_authentication_data_needs_a_method() -> None:
    """MQTT 5.0 §3.1.2.11.10"""
    client = waiting()
    packet = Connect(properties=Properties(authentication_data=b"a"))

    assert [one.reason for one in client.send(connect(packet))] == [reasons.PROTOCOL_ERROR]


@pytest.mark.parametrize(
    ("version", "clean", "is_legal"),
    [(3, True, False), (3, False, False), (4, True, True), (4, False, False), (5, True, True), (5, False, True)],
)
def test_an_empty_client_identifier(version: int, clean: bool, is_legal: bool) -> None:
    """[MQTT-3.1.3-6] may be assigned one; [3.1.1: MQTT-3.1.3-7] [3.1.1: MQTT-3.1.3-8]
    [3.1.1: MQTT-3.1.3-9] [MQTT-3.1.3-8] for a clean session only."""
    client = waiting(version)
    answer = client.send(connect(Connect(version=version, clean_start=clean)))

    assert [one.reason for one in answer] == ([] if is_legal else [2])
    assert client.engine.closed is not is_legal


# -- CONNACK -----------------------------------------------------------------------------------------------------


def test_connack_says_what_the_engine_enforces() -> None:
    """MQTT 5.0 §3.2.2.3: the maxima of packets, messages and aliases; what the broker adds stays."""
    client = waiting(receive_maximum=7, max_packet_size=1000, topic_alias_maximum=9)
    client.send(connect(Connect(keep_alive_s=60)))
    given = Connack(session_present=True, properties=Properties(assigned_client_identifier="x"))
    client.engine.accept(given, 60, MessageHandler(IncomingFlight(), OutgoingFlight()), 10)

    expected = Properties(
        assigned_client_identifier="x", receive_maximum=7, maximum_packet_size=1000, topic_alias_maximum=9
    )
    assert client.read() == [Connack(session_present=True, properties=expected)]


@pytest.mark.parametrize(("wanted", "ours", "announced"), [(60, 60, None), (0, 60, 60), (90, 60, 60), (60, 0, 0)])
def test_another_keep_alive_is_announced(wanted: int, ours: int, announced: int | None) -> None:
    """[MQTT-3.2.2-22] without Server Keep Alive the client's own holds."""
    client = Conversation()
    client.handler.keep_alive_s = ours

    assert client.open(Connect(keep_alive_s=wanted)).properties.server_keep_alive == announced


@pytest.mark.parametrize("version", VERSIONS)
def test_session_present_is_for_clients_that_know_it(version: int) -> None:
    """[MQTT-3.2.2-3] [3.1.1: MQTT-3.2.2-2]; 3.1 has a reserved byte there."""
    client = Conversation(version)
    client.handler.session_present = True

    assert client.open().session_present is (version != 3)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (reasons.UNSUPPORTED_PROTOCOL_VERSION, 1),
        (reasons.CLIENT_IDENTIFIER_NOT_VALID, 2),
        (reasons.SERVER_UNAVAILABLE, 3),
        (reasons.BAD_USER_NAME_OR_PASSWORD, 4),
        (reasons.NOT_AUTHORIZED, 5),
        (reasons.SERVER_BUSY, 3),
        (reasons.QUOTA_EXCEEDED, 3),
        (reasons.USE_ANOTHER_SERVER, 3),
    ],
)
def test_a_refusal_in_the_words_of_each_version(reason: int, code: int) -> None:
    """[MQTT-3.2.2-7] [MQTT-3.2.2-8] [MQTT-4.13.2-1] [3.1.1: MQTT-3.2.2-5] [3.1.1: MQTT-3.1.3-9]: then the end."""
    for version in VERSIONS:
        client = waiting(version)
        client.send(connect(Connect(version=version, client_id="c1")))
        client.engine.refuse(reason)

        assert client.read() == [Connack(reason=reason if version == 5 else code)]
        assert client.engine.closed


def test_a_refused_client_has_no_session() -> None:
    """[MQTT-3.2.2-6] [3.1.1: MQTT-3.2.2-4]: Session Present is 0."""
    client = waiting(4)
    client.send(connect(Connect(version=4, client_id="c1")))
    client.engine.refuse(reasons.NOT_AUTHORIZED)

    assert client.engine.data_to_send().hex() == "20020005"


def test_what_comes_behind_connect_waits_for_the_login() -> None:
    """[MQTT-3.1.4-5] [3.1.1: MQTT-3.1.4-4] a client need not wait; its packets count once it is accepted, in order."""
    client = waiting(5)
    client.send(connect(Connect(client_id="c1", keep_alive_s=9)) + publish(5, "a", b"1"))
    client.send(publish(5, "a", b"2") + PINGREQ)
    assert [call[0] for call in client.calls] == ["connect"]
    client.handler.accept(Connect(client_id="c1", keep_alive_s=9))

    assert [call[2] for call in client.calls] == [b"1", b"2"]
    assert client.read()[1:] == ["pingresp"]


def test_a_refused_client_is_not_heard() -> None:
    """[MQTT-3.1.4-6] [3.1.1: MQTT-3.1.4-5] nothing behind a refused CONNECT counts."""
    client = waiting(5)
    client.send(connect(Connect(client_id="c1")) + publish(5, "a", b"1"))
    client.engine.refuse(reasons.NOT_AUTHORIZED)
    client.handler.accept(Connect())
    client.send(publish(5, "a", b"2"))

    assert [call[0] for call in client.calls] == ["connect"]


def test_a_client_in_a_hurry_is_limited_until_it_is_logged_in() -> None:
    """What waits for a login costs memory that nobody has vouched for."""
    client = waiting(5)
    client.send(connect(Connect(client_id="c1")))
    client.send(bytes(LOGIN_BUFFER_BYTES))
    assert not client.engine.closed

    assert client.send(b"\0") == [Connack(reason=reasons.QUOTA_EXCEEDED, properties=Properties(reason_string=TEXT))]
    assert client.failure() == reasons.QUOTA_EXCEEDED


TEXT = f"more than {LOGIN_BUFFER_BYTES} bytes before the login ended"


@pytest.mark.parametrize("version", VERSIONS)
def test_connect_has_a_size_limit_of_its_own(version: int) -> None:
    """Checked by its length, before the octets have come."""
    client = waiting(version, login_packet_size=100)
    client.send(b"\x10\x63")

    assert client.failure() == reasons.PACKET_TOO_LARGE


def test_after_the_login_packets_may_be_larger() -> None:
    """[MQTT-3.2.2-15] The limit after it is the one that CONNACK announces."""
    client = Conversation(5, ConnectionLimits(login_packet_size=100, max_packet_size=200))
    client.open()
    client.send(publish(5, "a", bytes(193)))
    assert [len(call[2]) for call in client.calls] == [193]
    answer = client.send(publish(5, "a", bytes(194))[:3])

    assert [one.reason for one in answer] == [reasons.PACKET_TOO_LARGE]
    assert client.failure() == reasons.PACKET_TOO_LARGE


# -- enhanced authentication -------------------------------------------------------------------------------------

METHOD = Connect(client_id="c1", properties=Properties(authentication_method="m", authentication_data=b"1"))


def step(reason: int, data: bytes, method: str | None = "m") -> bytes:
    """AUTH."""
    return auth(Auth(reason=reason, properties=Properties(authentication_method=method, authentication_data=data)))


def test_enhanced_authentication() -> None:
    """[MQTT-4.12.0-2] [MQTT-4.12.0-3] [MQTT-4.12.0-5]: steps of 0x18, the method in each and in CONNACK."""
    client = waiting()
    client.send(connect(METHOD))
    client.engine.send_auth(reasons.CONTINUE_AUTHENTICATION, Properties(authentication_data=b"2"))
    assert client.read() == [
        Auth(reason=0x18, properties=Properties(authentication_method="m", authentication_data=b"2"))
    ]
    client.send(step(0x18, b"3"))
    client.handler.accept(METHOD)

    assert [call[0] for call in client.calls] == ["connect", "auth"]
    assert client.read()[0].properties.authentication_method == "m"


def test_enhanced_authentication_fails() -> None:
    """[MQTT-4.12.0-4] [MQTT-4.12.0-1] CONNACK with a code that says why, and the end."""
    client = waiting()
    client.send(connect(METHOD))
    client.engine.refuse(reasons.BAD_AUTHENTICATION_METHOD)

    assert client.read() == [Connack(reason=reasons.BAD_AUTHENTICATION_METHOD)]
    assert client.engine.closed


@pytest.mark.parametrize(
    "packet", [publish(5, "a"), PINGREQ, connect(Connect()), step(0x19, b""), step(0x18, b"", "n")]
)
def test_a_client_that_authenticates_does_nothing_else(packet: bytes) -> None:
    """[MQTT-3.1.2-30] AUTH and DISCONNECT only, [MQTT-4.12.0-5] with its own method."""
    client = waiting()
    client.send(connect(METHOD))
    client.engine.send_auth(reasons.CONTINUE_AUTHENTICATION, NO_PROPERTIES)
    client.read()

    assert [one.reason for one in client.send(packet)] == [reasons.PROTOCOL_ERROR]
    assert client.failure() == reasons.PROTOCOL_ERROR


def test_a_client_gives_up_authenticating() -> None:
    """[MQTT-3.1.2-30]"""
    client = waiting()
    client.send(connect(METHOD))
    client.engine.send_auth(reasons.CONTINUE_AUTHENTICATION, NO_PROPERTIES)
    client.send(disconnect(5))

    assert client.calls[-1] == ("disconnect", Disconnect())


def test_re_authentication() -> None:
    """[MQTT-4.12.1-1] [MQTT-4.12.1-2] 0x19 begins it, 0x18 goes on, 0x00 or DISCONNECT ends it; messages go on."""
    client = Conversation()
    client.open(METHOD)
    client.send(step(0x19, b"1") + publish(5, "a"))
    client.engine.send_auth(reasons.CONTINUE_AUTHENTICATION, NO_PROPERTIES)
    assert [one.reason for one in client.send(step(0x18, b"2"))] == [0x18]
    client.engine.send_auth(reasons.SUCCESS, NO_PROPERTIES)

    assert [call[0] for call in client.calls] == ["auth", "publish", "auth"]
    assert [one.reason for one in client.read()] == [0]
    client.send(step(0x19, b"1"))
    assert [call[0] for call in client.calls] == ["auth"]
    client.engine.disconnect(reasons.NOT_AUTHORIZED)
    assert client.read() == [Disconnect(reason=reasons.NOT_AUTHORIZED)]


@pytest.mark.parametrize("packets", [step(0x18, b""), step(0x19, b"") * 2, step(0x19, b"", "n"), step(0x19, b"", None)])
def test_auth_out_of_turn(packets: bytes) -> None:
    """MQTT 5.0 §4.12.1 [MQTT-4.12.1-1]: nothing to go on with, begun twice, another method or none."""
    client = Conversation()
    client.open(METHOD)
    client.send(packets)

    assert client.failure() == reasons.PROTOCOL_ERROR


@pytest.mark.parametrize("octets", ["f1 00", "f0 01 00", "f0 01 80", "f0 00", "f0 03 18 01 1f", "f0 03 19 00 00"])
def test_an_auth_that_is_none(octets: str) -> None:
    """[MQTT-3.15.1-1] reserved flags, [MQTT-3.15.2-1] a server's code or an unknown one, lengths that contradict."""
    client = Conversation()
    client.open(METHOD)
    client.send(bytes.fromhex(octets))

    assert client.failure() in (reasons.MALFORMED_PACKET, reasons.PROTOCOL_ERROR)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_auth_without_a_method(version: int) -> None:
    """[MQTT-4.12.0-6] [MQTT-4.12.0-7]; 3.x has no such packet at all."""
    client = Conversation(version)
    client.open()
    client.send(step(0x19, b"", None))

    assert client.failure() == reasons.PROTOCOL_ERROR


# -- the end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_the_client_says_goodbye(version: int) -> None:
    """[MQTT-3.14.4-1] [MQTT-3.14.4-2] [3.1.1: MQTT-3.14.4-1]: nothing is heard or said behind it."""
    client = Conversation(version)
    client.open()

    assert client.send(disconnect(version) + publish(version, "a") + PINGREQ) == []
    assert client.calls == [("disconnect", Disconnect())]
    assert client.engine.closed
    assert client.send(PINGREQ) == []


@pytest.mark.parametrize("octets", ["e000", "e00100", "e0020000"])
def test_disconnect_may_leave_out_what_is_zero(octets: str) -> None:
    """MQTT 5.0 §3.14.2.1, §3.14.2.2.1"""
    client = Conversation()
    client.open()
    client.send(bytes.fromhex(octets))

    assert client.calls == [("disconnect", Disconnect())]


def test_disconnect_with_the_will_and_a_new_expiry() -> None:
    """MQTT 5.0 §3.14.2.1, §3.14.2.2.2"""
    client = Conversation()
    client.open(Connect(properties=Properties(session_expiry_interval=1)))
    packet = Disconnect(reason=4, properties=Properties(session_expiry_interval=100, reason_string="tired"))
    client.send(disconnect(5, packet))

    assert client.calls == [("disconnect", packet)]


@pytest.mark.parametrize("expiry", [None, 0])
def test_a_session_that_was_to_end_does_not_outlive_its_connection(expiry: int | None) -> None:
    """MQTT 5.0 §3.14.2.2.2: a protocol error."""
    client = Conversation()
    client.open(Connect(properties=Properties(session_expiry_interval=expiry)))
    answer = client.send(disconnect(5, Disconnect(properties=Properties(session_expiry_interval=1))))

    assert [one.reason for one in answer] == [reasons.PROTOCOL_ERROR]


@pytest.mark.parametrize("octets", ["e0 01 87", "e0 01 8e", "e0 02 00 01", "e0 08 00 06 1c 0003 616263", "e1 00"])
def test_a_disconnect_that_no_client_sends(octets: str) -> None:
    """[MQTT-3.14.1-1] [MQTT-3.14.2-1] reserved flags, a server's reason code or property, a wrong length."""
    client = Conversation()
    client.open()
    client.send(bytes.fromhex(octets))

    assert client.failure() in (reasons.MALFORMED_PACKET, reasons.PROTOCOL_ERROR)


@pytest.mark.parametrize("version", [3, 4])
def test_disconnect_of_3_has_no_fields(version: int) -> None:
    """[3.1.1: MQTT-3.14.1-1]"""
    client = Conversation(version)
    client.open()
    client.send(b"\xe0\x01\x00")

    assert client.failure() == reasons.MALFORMED_PACKET


@pytest.mark.parametrize("version", VERSIONS)
def test_the_broker_ends_a_conversation(version: int) -> None:
    """[MQTT-3.14.0-1] [MQTT-3.1.4-3] [MQTT-4.13.2-1] [3.1.1: MQTT-3.1.4-2]: with a reason in version 5, in 3.x by
    closing; the handler hears nothing more."""
    client = Conversation(version)
    client.open()
    client.engine.disconnect(reasons.SESSION_TAKEN_OVER, "another client came")

    expected = [Disconnect(reason=0x8E, properties=Properties(reason_string="another client came"))]
    assert client.read() == (expected if version == 5 else [])
    assert client.engine.closed
    assert client.calls == []


@pytest.mark.parametrize(
    ("reason", "code"), [(reasons.SERVER_SHUTTING_DOWN, 0x88), (reasons.SESSION_TAKEN_OVER, 0x80), (0x97, 0x97)]
)
def test_before_the_login_the_end_is_a_connack(reason: int, code: int) -> None:
    """[MQTT-3.14.0-1] no DISCONNECT before a CONNACK, which has not all of its codes."""
    client = waiting()
    client.send(connect(Connect(client_id="c1")))
    client.engine.disconnect(reason)

    assert client.read() == [Connack(reason=code)]


def test_before_connect_there_is_no_one_to_talk_to() -> None:
    """A broker that stops closes such connections, too."""
    client = Conversation()
    client.engine.disconnect(reasons.SERVER_SHUTTING_DOWN)

    assert client.read() == []
    assert client.engine.closed


def test_no_texts_for_a_client_that_wants_none() -> None:
    """[MQTT-3.1.2-29] Request Problem Information 0."""
    client = Conversation()
    client.open(Connect(properties=Properties(request_problem_information=0)))
    texts = Properties(reason_string="no", user_properties=(("a", "b"),))
    client.engine.send_suback(1, [0x87], texts)
    client.engine.send_unsuback(2, [0x87], texts)
    client.engine.disconnect(reasons.NOT_AUTHORIZED, "no")

    assert [packet.properties for packet in client.read()] == [NO_PROPERTIES] * 3


def test_texts_are_left_out_where_they_do_not_fit() -> None:
    """[MQTT-3.2.2-19] [MQTT-3.2.2-20] [MQTT-3.9.2-1] [MQTT-3.9.2-2] [MQTT-3.11.2-1] [MQTT-3.11.2-2] [MQTT-3.14.2-3]
    [MQTT-3.14.2-4] [MQTT-3.15.2-2] [MQTT-3.15.2-3] a packet of just the client's maximum keeps them."""
    for text in (Properties(reason_string="a" * 50), Properties(user_properties=(("a" * 20, "b" * 28),))):
        for says in SAYS:
            sizes: list[int] = []
            for maximum in (None, 0, 1):
                client = waiting()
                limit = None if maximum is None else sizes[0] - maximum
                client.send(connect(evolve(METHOD, properties=evolve(METHOD.properties, maximum_packet_size=limit))))
                if says is not refuse:
                    client.handler.accept(METHOD)
                    client.read()
                says(client, text)
                data = client.engine.data_to_send()
                sizes.append(len(data))
                kept = read_server_packets(5, data)[0].properties
                assert (kept.reason_string, kept.user_properties) == (
                    (None, ()) if maximum == 1 else (text.reason_string, text.user_properties)
                )


def test_a_client_that_takes_no_answer_at_all() -> None:
    """[MQTT-3.1.2-24] what is too large for it must not be sent."""
    client = Conversation()
    client.open(Connect(properties=Properties(maximum_packet_size=20)))
    client.engine.send_suback(1, [0] * 20)

    assert client.read() == []
    assert client.failure() == reasons.PACKET_TOO_LARGE


def refuse(client: Conversation, text: Properties) -> None:
    """CONNACK."""
    client.engine.refuse(reasons.BANNED, text)


SAYS: list[Callable[[Conversation, Properties], None]] = [
    refuse,
    lambda client, text: client.engine.send_suback(1, [0x87], text),
    lambda client, text: client.engine.send_unsuback(1, [0x87], text),
    lambda client, text: client.engine.disconnect(reasons.BANNED, "", text),
    lambda client, text: client.engine.send_auth(reasons.SUCCESS, text),
]


# -- keep-alive --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_silent_client_is_given_up(version: int) -> None:
    """[MQTT-3.1.2-22] [3.1.1: MQTT-3.1.2-24] after one and a half times its keep-alive; any octet counts as a sign."""
    client = Conversation(version)
    client.open(Connect(client_id="c1", keep_alive_s=10))
    client.now = 5.0
    assert client.send(PINGREQ) == ["pingresp"]
    assert client.engine.next_deadline() == 20.0
    client.engine.handle_deadline(19.9)
    assert client.engine.is_open
    client.engine.handle_deadline(20.0)

    assert [packet.reason for packet in client.read()] == ([reasons.KEEP_ALIVE_TIMEOUT] if version == 5 else [])
    assert client.failure() == reasons.KEEP_ALIVE_TIMEOUT
    assert client.engine.next_deadline() is None


def test_without_keep_alive_silence_means_nothing() -> None:
    """MQTT 5.0 §3.1.2.10: 0 turns it off."""
    client = Conversation()
    client.open()
    client.engine.handle_deadline(1e9)

    assert client.engine.next_deadline() is None
    assert client.engine.is_open


def test_silence_does_not_count_while_nobody_reads() -> None:
    """A client that reads slowly is not read from: its PINGREQ may be waiting in a buffer."""
    client = Conversation()
    client.open(Connect(keep_alive_s=10))
    client.engine.pause()
    assert client.engine.next_deadline() is None
    client.engine.resume()
    client.engine.handle_deadline(100.0)
    assert client.engine.is_open
    assert client.engine.next_deadline() == 115.0
    client.engine.handle_deadline(115.0)

    assert client.failure() == reasons.KEEP_ALIVE_TIMEOUT


@pytest.mark.parametrize("octets", ["c001 00", "c100", "c080 00", "c080 80 00", "c080 80 80 80 00"])
def test_pingreq_is_two_bytes(octets: str) -> None:
    """[MQTT-3.12.4-1] [MQTT-1.5.5-1] is answered with PINGRESP; with flags, fields or a longer length malformed."""
    client = Conversation()
    client.open()
    assert client.send(PINGREQ) == ["pingresp"]
    client.send(bytes.fromhex(octets))

    assert client.failure() == reasons.MALFORMED_PACKET
