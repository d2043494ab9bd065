"""MQTT's words for how things end: reason codes of version 5, return codes of 3.x, and the error that carries one.

A code below 0x80 is a success (MQTT 5.0 §2.4). Codes are plain integers, because the engine compares them per packet.
"""

from typing import Final

from artemis_py.errors import ProtocolError

SUCCESS: Final = 0x00
NORMAL_DISCONNECTION: Final = 0x00
GRANTED_QOS_0: Final = 0x00
GRANTED_QOS_1: Final = 0x01
GRANTED_QOS_2: Final = 0x02
DISCONNECT_WITH_WILL: Final = 0x04
NO_MATCHING_SUBSCRIBERS: Final = 0x10
NO_SUBSCRIPTION_EXISTED: Final = 0x11
CONTINUE_AUTHENTICATION: Final = 0x18
RE_AUTHENTICATE: Final = 0x19
UNSPECIFIED_ERROR: Final = 0x80
MALFORMED_PACKET: Final = 0x81
PROTOCOL_ERROR: Final = 0x82
IMPLEMENTATION_SPECIFIC_ERROR: Final = 0x83
UNSUPPORTED_PROTOCOL_VERSION: Final = 0x84
CLIENT_IDENTIFIER_NOT_VALID: Final = 0x85
BAD_USER_NAME_OR_PASSWORD: Final = 0x86
NOT_AUTHORIZED: Final = 0x87
SERVER_UNAVAILABLE: Final = 0x88
SERVER_BUSY: Final = 0x89
BANNED: Final = 0x8A
SERVER_SHUTTING_DOWN: Final = 0x8B
BAD_AUTHENTICATION_METHOD: Final = 0x8C
KEEP_ALIVE_TIMEOUT: Final = 0x8D
SESSION_TAKEN_OVER: Final = 0x8E
TOPIC_FILTER_INVALID: Final = 0x8F
TOPIC_NAME_INVALID: Final = 0x90
PACKET_IDENTIFIER_IN_USE: Final = 0x91
PACKET_IDENTIFIER_NOT_FOUND: Final = 0x92
RECEIVE_MAXIMUM_EXCEEDED: Final = 0x93
TOPIC_ALIAS_INVALID: Final = 0x94
PACKET_TOO_LARGE: Final = 0x95
MESSAGE_RATE_TOO_HIGH: Final = 0x96
QUOTA_EXCEEDED: Final = 0x97
ADMINISTRATIVE_ACTION: Final = 0x98
PAYLOAD_FORMAT_INVALID: Final = 0x99
RETAIN_NOT_SUPPORTED: Final = 0x9A
QOS_NOT_SUPPORTED: Final = 0x9B
USE_ANOTHER_SERVER: Final = 0x9C
SERVER_MOVED: Final = 0x9D
SHARED_SUBSCRIPTIONS_NOT_SUPPORTED: Final = 0x9E
CONNECTION_RATE_EXCEEDED: Final = 0x9F
MAXIMUM_CONNECT_TIME: Final = 0xA0
SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED: Final = 0xA1
WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED: Final = 0xA2

# Codes a client may send, by packet (MQTT 5.0 §2.4, table 2-6); any other one is a protocol error.
PUBACK_CODES: Final = frozenset(
    (
        SUCCESS,
        NO_MATCHING_SUBSCRIBERS,
        UNSPECIFIED_ERROR,
        IMPLEMENTATION_SPECIFIC_ERROR,
        NOT_AUTHORIZED,
        TOPIC_NAME_INVALID,
        PACKET_IDENTIFIER_IN_USE,
        QUOTA_EXCEEDED,
        PAYLOAD_FORMAT_INVALID,
    )
)
"""PUBACK and PUBREC."""
PUBREL_CODES: Final = frozenset((SUCCESS, PACKET_IDENTIFIER_NOT_FOUND))
"""PUBREL and PUBCOMP."""
CLIENT_DISCONNECT_CODES: Final = frozenset(
    (
        NORMAL_DISCONNECTION,
        DISCONNECT_WITH_WILL,
        UNSPECIFIED_ERROR,
        MALFORMED_PACKET,
        PROTOCOL_ERROR,
        IMPLEMENTATION_SPECIFIC_ERROR,
        TOPIC_NAME_INVALID,
        RECEIVE_MAXIMUM_EXCEEDED,
        TOPIC_ALIAS_INVALID,
        PACKET_TOO_LARGE,
        MESSAGE_RATE_TOO_HIGH,
        QUOTA_EXCEEDED,
        ADMINISTRATIVE_ACTION,
        PAYLOAD_FORMAT_INVALID,
    )
)
CLIENT_AUTH_CODES: Final = frozenset((CONTINUE_AUTHENTICATION, RE_AUTHENTICATE))

# What CONNACK says where it lacks the word that a DISCONNECT has (MQTT 5.0 §3.2.2.2).
CONNACK_CODES: Final = {
    SERVER_SHUTTING_DOWN: SERVER_UNAVAILABLE,
    SESSION_TAKEN_OVER: UNSPECIFIED_ERROR,
    KEEP_ALIVE_TIMEOUT: UNSPECIFIED_ERROR,
    ADMINISTRATIVE_ACTION: UNSPECIFIED_ERROR,
    NORMAL_DISCONNECTION: UNSPECIFIED_ERROR,
    TOPIC_FILTER_INVALID: UNSPECIFIED_ERROR,
}

# What a 3.x client is told instead of a version 5 code in CONNACK (MQTT 3.1.1 §3.2.2.3); every other refusal is 3,
# server unavailable: the only one of the five that says nothing about the client.
RETURN_CODES: Final = {
    SUCCESS: 0,
    UNSUPPORTED_PROTOCOL_VERSION: 1,
    CLIENT_IDENTIFIER_NOT_VALID: 2,
    SERVER_UNAVAILABLE: 3,
    BAD_USER_NAME_OR_PASSWORD: 4,
    NOT_AUTHORIZED: 5,
    BAD_AUTHENTICATION_METHOD: 5,
    BANNED: 5,
}
SERVER_UNAVAILABLE_3: Final = 3
SUBSCRIPTION_FAILED_3: Final = 0x80
"""The one failure that SUBACK of 3.1.1 knows [MQTT-3.9.3-2]; 3.1 has none."""


class PacketError(ProtocolError):
    """A violation of MQTT by the client: `reason` is the code it is told before its connection ends."""

    def __init__(self, reason: int, text: str) -> None:
        super().__init__(text)
        self.reason: Final = reason


def malformed(text: str) -> PacketError:
    """Return the error for bytes that are no packet (MQTT 5.0 §1.2, Malformed Packet)."""
    return PacketError(MALFORMED_PACKET, text)


def protocol_error(text: str) -> PacketError:
    """Return the error for a well-formed packet that is wrong (MQTT 5.0 §1.2, Protocol Error)."""
    return PacketError(PROTOCOL_ERROR, text)
