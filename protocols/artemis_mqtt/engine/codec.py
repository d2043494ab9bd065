"""Packets that are objects: from bytes (what a client sends) and to bytes (what a server sends), in every version.

    CONNECT      | protocol name | level | flags | keep-alive | properties* | client id | will | user | password |
    CONNACK      | session present | code | properties* |
    SUBSCRIBE    | packet id | properties* | (filter | options)... |
    SUBACK       | packet id | properties* | codes |
    UNSUBSCRIBE  | packet id | properties* | filter... |
    UNSUBACK     | packet id | properties* | codes* |
    DISCONNECT   | code* | properties* |
    AUTH*        | code | properties |

Parts with a star are version 5's. Readers get the part behind the fixed header and raise PacketError; whether the
packet may come now is not known here. PUBLISH and its acknowledgements are in `publish` and `connection`.
"""

from typing import Final

from attrs import evolve

from artemis_mqtt.engine import reasons
from artemis_mqtt.engine.fields import (
    read_binary,
    read_text,
    read_u8,
    read_u16,
    read_varint,
    with_header,
    write_u16,
    write_varint,
)
from artemis_mqtt.engine.limits import ConnectionLimits
from artemis_mqtt.engine.packets import (
    MQTT_3_1,
    MQTT_3_1_1,
    MQTT_5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    PacketType,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from artemis_mqtt.engine.properties import NO_PROPERTIES, WILL, Properties, read_properties, write_properties
from artemis_mqtt.engine.reasons import PacketError, malformed, protocol_error
from artemis_mqtt.engine.topics import SHARE, check_filter, check_topic

_USER_NAME: Final = 0x80
_PASSWORD: Final = 0x40
_WILL_RETAIN: Final = 0x20
_WILL: Final = 0x04
_CLEAN_START: Final = 0x02

_NO_LOCAL: Final = 0x04
_RETAIN_AS_PUBLISHED: Final = 0x08


def read_section(data: bytes, offset: int, end: int, where: int) -> tuple[Properties, int]:
    """Read properties behind their length (MQTT 5.0 §2.2.2.1)."""
    size, offset = read_varint(data, offset, end)
    stop = offset + size
    if stop > end:
        raise malformed("the properties are longer than their packet")
    return read_properties(data, offset, stop, where), stop


def write_section(properties: Properties) -> bytes:
    """Encode properties with their length."""
    encoded = write_properties(properties)
    return write_varint(len(encoded)) + encoded


# -- what a client sends -----------------------------------------------------------------------------------------


def read_version(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Read the protocol level of a CONNECT, which says how to read the rest, and where that begins.

    0: an old level under the wrong name. Raises PacketError for another protocol's name [MQTT-3.1.2-1].
    """
    name, offset = read_binary(data, offset, end)
    level, offset = read_u8(data, offset, end)
    if name == b"MQTT":
        return (level if level > MQTT_3_1 else 0), offset
    if name == b"MQIsdp":
        return (level if level == MQTT_3_1 else 0), offset
    raise protocol_error("the protocol name is not MQTT")


def read_connect(version: int, data: bytes, offset: int, end: int, limits: ConnectionLimits) -> Connect:
    """Read a CONNECT from its flags on (MQTT 5.0 §3.1.2.3)."""
    flags, offset = read_u8(data, offset, end)
    _check_connect_flags(version, flags)
    keep_alive_s, offset = read_u16(data, offset, end)
    properties = NO_PROPERTIES
    if version == MQTT_5:
        properties, offset = read_section(data, offset, end, PacketType.CONNECT)
        if properties.authentication_data is not None and properties.authentication_method is None:
            raise protocol_error("authentication data without a method")
    client_id, offset = read_text(data, offset, end)
    will = None
    if flags & _WILL:
        will, offset = _read_will(version, flags, data, offset, end, limits)
    username = password = None
    if flags & _USER_NAME:
        username, offset = read_text(data, offset, end)
    if flags & _PASSWORD:
        password, offset = read_binary(data, offset, end)
    if offset != end:
        raise malformed("CONNECT is longer than its fields")
    return Connect(
        version=version,
        client_id=client_id,
        clean_start=bool(flags & _CLEAN_START),
        keep_alive_s=keep_alive_s,
        username=username,
        password=password,
        will=will,
        properties=properties,
    )


def _check_connect_flags(version: int, flags: int) -> None:
    if flags & 1:
        raise malformed("the reserved flag of CONNECT is set")
    if not flags & _WILL and flags & 0x38:
        raise malformed("CONNECT has will options, but no will")
    if flags >> 3 & 3 == 3:
        raise malformed("a will of QoS 3")
    if version != MQTT_5 and flags & _PASSWORD and not flags & _USER_NAME:
        raise malformed("a password without a user name")


def _read_will(
    version: int, flags: int, data: bytes, offset: int, end: int, limits: ConnectionLimits
) -> tuple[Will, int]:
    properties = NO_PROPERTIES
    if version == MQTT_5:
        properties, offset = read_section(data, offset, end, WILL)
        if properties.response_topic is not None:
            check_topic(properties.response_topic, limits.max_topic_levels)
    topic, offset = read_text(data, offset, end)
    check_topic(topic, limits.max_topic_levels)
    payload, offset = read_binary(data, offset, end)
    will = Will(
        topic=topic,
        payload=payload,
        qos=flags >> 3 & 3,
        retain=bool(flags & _WILL_RETAIN),
        properties=properties,
        publish_properties=write_properties(evolve(properties, will_delay_interval=None, message_expiry_interval=None)),
    )
    return will, offset


def read_packet_id(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Read a packet identifier, which is never 0 [MQTT-2.2.1-3]."""
    packet_id, offset = read_u16(data, offset, end)
    if packet_id == 0:
        raise protocol_error("packet identifier 0")
    return packet_id, offset


def read_subscribe(version: int, data: bytes, offset: int, end: int, limits: ConnectionLimits) -> Subscribe:
    """Read a SUBSCRIBE (MQTT 5.0 §3.8)."""
    packet_id, offset = read_packet_id(data, offset, end)
    properties = NO_PROPERTIES
    if version == MQTT_5:
        properties, offset = read_section(data, offset, end, PacketType.SUBSCRIBE)
    subscriptions: list[Subscription] = []
    while offset < end:
        topic_filter, offset = read_text(data, offset, end)
        check_filter(topic_filter, limits.max_topic_levels)
        options, offset = read_u8(data, offset, end)
        subscriptions.append(_read_options(version, topic_filter, options))
        _check_count(len(subscriptions), limits)
    if not subscriptions:
        raise protocol_error("SUBSCRIBE without a topic filter")
    return Subscribe(packet_id=packet_id, subscriptions=tuple(subscriptions), properties=properties)


def _read_options(version: int, topic_filter: str, options: int) -> Subscription:
    qos = options & 3
    if qos == 3:
        raise malformed("a subscription of QoS 3")
    if version != MQTT_5:
        # 3.1 does not say what its upper bits have to be; 3.1.1 does [MQTT-3-8.3-4].
        if version == MQTT_3_1_1 and options & 0xFC:
            raise malformed("reserved bits of a requested QoS are set")
        return Subscription(topic_filter=topic_filter, qos=qos)
    if options & 0xC0:
        raise malformed("reserved subscription options are set")
    retain_handling = options >> 4 & 3
    if retain_handling == 3:
        raise protocol_error("retain handling 3")
    no_local = bool(options & _NO_LOCAL)
    if no_local and topic_filter.startswith(SHARE):
        raise protocol_error("a shared subscription with No Local")
    return Subscription(
        topic_filter=topic_filter,
        qos=qos,
        no_local=no_local,
        retain_as_published=bool(options & _RETAIN_AS_PUBLISHED),
        retain_handling=retain_handling,
    )


def _check_count(count: int, limits: ConnectionLimits) -> None:
    if count > limits.max_subscribe_filters:
        raise PacketError(
            reasons.QUOTA_EXCEEDED, f"a packet with more than {limits.max_subscribe_filters} topic filters"
        )


def read_unsubscribe(version: int, data: bytes, offset: int, end: int, limits: ConnectionLimits) -> Unsubscribe:
    """Read an UNSUBSCRIBE (MQTT 5.0 §3.10)."""
    packet_id, offset = read_packet_id(data, offset, end)
    properties = NO_PROPERTIES
    if version == MQTT_5:
        properties, offset = read_section(data, offset, end, PacketType.UNSUBSCRIBE)
    topic_filters: list[str] = []
    while offset < end:
        topic_filter, offset = read_text(data, offset, end)
        check_filter(topic_filter, limits.max_topic_levels)
        topic_filters.append(topic_filter)
        _check_count(len(topic_filters), limits)
    if not topic_filters:
        raise protocol_error("UNSUBSCRIBE without a topic filter")
    return Unsubscribe(packet_id=packet_id, topic_filters=tuple(topic_filters), properties=properties)


def read_disconnect(version: int, data: bytes, offset: int, end: int) -> Disconnect:
    """Read a DISCONNECT (MQTT 5.0 §3.14); a short one means reason 0 and no properties."""
    if version != MQTT_5:
        if offset != end:
            raise malformed("DISCONNECT is longer than its fields")
        return Disconnect()
    reason, properties = _read_reason(data, offset, end, PacketType.DISCONNECT)
    if reason not in reasons.CLIENT_DISCONNECT_CODES:
        raise protocol_error(f"a client does not disconnect with {reason:#04x}")
    if properties.server_reference is not None:
        raise protocol_error("a client's DISCONNECT has a server reference")
    return Disconnect(reason=reason, properties=properties)


def read_auth(data: bytes, offset: int, end: int) -> Auth:
    """Read an AUTH (MQTT 5.0 §3.15)."""
    reason, properties = _read_reason(data, offset, end, PacketType.AUTH)
    if reason not in reasons.CLIENT_AUTH_CODES:
        raise protocol_error(f"a client does not send AUTH with {reason:#04x}")
    return Auth(reason=reason, properties=properties)


def _read_reason(data: bytes, offset: int, end: int, where: int) -> tuple[int, Properties]:
    """Read a reason code and properties; the end may be omitted."""
    if offset == end:
        return reasons.SUCCESS, NO_PROPERTIES
    reason, offset = read_u8(data, offset, end)
    if offset == end:
        return reason, NO_PROPERTIES
    properties, offset = read_section(data, offset, end, where)
    if offset != end:
        raise malformed("a packet is longer than its fields")
    return reason, properties


def read_ack(data: bytes, offset: int, end: int, packet_type: int) -> tuple[int, int]:
    """Read a PUBACK, PUBREC, PUBREL or PUBCOMP of version 5 in its long form: packet identifier and reason code
    (MQTT 5.0 §3.4).
    """
    packet_id, offset = read_packet_id(data, offset, end)
    reason, _ = _read_reason(data, offset, end, packet_type)
    is_first_answer = packet_type in (PacketType.PUBACK, PacketType.PUBREC)
    if reason not in (reasons.PUBACK_CODES if is_first_answer else reasons.PUBREL_CODES):
        raise protocol_error(f"{PacketType(packet_type).name} with reason code {reason:#04x}")
    return packet_id, reason


# -- what a server sends -----------------------------------------------------------------------------------------

ServerPacket = Connack | Suback | Unsuback | Disconnect | Auth


def write_packet(version: int, packet: ServerPacket) -> bytes:
    """Encode a packet as `version` has it; DISCONNECT and AUTH exist in version 5 only."""
    match packet:
        case Connack():
            return _write_connack(version, packet)
        case Suback():
            return _write_suback(version, packet)
        case Unsuback():
            head = write_u16(packet.packet_id)
            if version == MQTT_5:
                head += write_section(packet.properties) + bytes(packet.reasons)
            return with_header(0xB0, head)
        case Disconnect():
            return _write_reason(0xE0, packet.reason, packet.properties)
        case Auth():
            return _write_reason(0xF0, packet.reason, packet.properties)


def without_texts(packet: ServerPacket) -> ServerPacket:
    """Return the packet without what only people read: reason string and user properties."""
    return evolve(packet, properties=evolve(packet.properties, reason_string=None, user_properties=()))


def _write_connack(version: int, connack: Connack) -> bytes:
    """Encode a CONNACK; for a `version` of 0 (not known yet) in the form of 3.x."""
    session_present = connack.session_present and connack.reason == reasons.SUCCESS
    if version == MQTT_5:
        return with_header(0x20, bytes((session_present, connack.reason)) + write_section(connack.properties))
    return_code = reasons.RETURN_CODES.get(connack.reason, reasons.SERVER_UNAVAILABLE_3)
    # 3.1 has no Session Present: the byte is reserved.
    return with_header(0x20, bytes((session_present and version != MQTT_3_1, return_code)))


def _write_suback(version: int, suback: Suback) -> bytes:
    head = write_u16(suback.packet_id)
    if version == MQTT_5:
        return with_header(0x90, head + write_section(suback.properties) + bytes(suback.reasons))
    failure = reasons.SUBSCRIPTION_FAILED_3 if version == MQTT_3_1_1 else reasons.GRANTED_QOS_0
    return with_header(0x90, head + bytes([reason if reason < 0x80 else failure for reason in suback.reasons]))


def _write_reason(first_byte: int, reason: int, properties: Properties) -> bytes:
    """Encode a reason code and properties; empty ones are omitted (MQTT 5.0 §3.14.2.2.1, §3.15.2.2.1)."""
    if properties == NO_PROPERTIES:
        return with_header(first_byte, bytes((reason,)))
    return with_header(first_byte, bytes((reason,)) + write_section(properties))
