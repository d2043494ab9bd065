"""A scripted MQTT client: packets as a client writes them, what a server wrote taken apart, every call in a list."""

from collections.abc import Callable
from typing import Any

from attrs import evolve

from artemis_mqtt.engine.acknowledgements import PendingAcks
from artemis_mqtt.engine.connection import MqttConnection
from artemis_mqtt.engine.delivery import Delivery
from artemis_mqtt.engine.fields import (
    read_text,
    read_u16,
    read_varint,
    with_header,
    write_binary,
    write_text,
    write_u8,
    write_u16,
    write_varint,
)
from artemis_mqtt.engine.flight import IncomingFlight, OutgoingFlight
from artemis_mqtt.engine.handler import MessageHandler, MqttHandler
from artemis_mqtt.engine.limits import ConnectionLimits
from artemis_mqtt.engine.packets import (
    MQTT_3_1,
    MQTT_5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    PacketType,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from artemis_mqtt.engine.properties import NO_PROPERTIES, Properties, read_properties, write_properties
from artemis_mqtt.engine.publish import encode_publish
from artemis_mqtt.engine.topics import topic_field

Call = tuple[Any, ...]

VERSIONS = (3, 4, 5)


# -- what a client writes ----------------------------------------------------------------------------------------


def section(properties: Properties) -> bytes:
    """Properties with their length."""
    encoded = write_properties(properties)
    return write_varint(len(encoded)) + encoded


def connect(packet: Connect) -> bytes:
    """CONNECT."""
    is_v5 = packet.version == MQTT_5
    flags = 0x02 * packet.clean_start | 0x80 * (packet.username is not None) | 0x40 * (packet.password is not None)
    if packet.will is not None:
        flags |= 0x04 | packet.will.qos << 3 | 0x20 * packet.will.retain
    body = write_text("MQIsdp" if packet.version == MQTT_3_1 else "MQTT") + bytes((packet.version, flags))
    body += write_u16(packet.keep_alive_s)
    if is_v5:
        body += section(packet.properties)
    body += write_text(packet.client_id)
    if packet.will is not None:
        if is_v5:
            body += section(packet.will.properties)
        body += write_text(packet.will.topic) + write_binary(packet.will.payload)
    if packet.username is not None:
        body += write_text(packet.username)
    if packet.password is not None:
        body += write_binary(packet.password)
    return with_header(0x10, body)


def publish(
    version: int,
    topic: str,
    payload: bytes = b"",
    qos: int = 0,
    packet_id: int = 0,
    *,
    retain: bool = False,
    dup: bool = False,
    properties: Properties = NO_PROPERTIES,
) -> bytes:
    """PUBLISH."""
    encoded = write_properties(properties)
    return encode_publish(version == MQTT_5, topic_field(topic), payload, qos, retain, dup, packet_id, encoded)


def ack(packet_type: int, packet_id: int, reason: int | None = None, properties: Properties | None = None) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP; in its shortest form unless there is more to say."""
    body = write_u16(packet_id)
    if reason is not None:
        body += write_u8(reason)
        if properties is not None:
            body += section(properties)
    return with_header(packet_type << 4 | 2 * (packet_type == PacketType.PUBREL), body)


def subscribe(version: int, packet: Subscribe) -> bytes:
    """SUBSCRIBE."""
    body = write_u16(packet.packet_id)
    if version == MQTT_5:
        body += section(packet.properties)
    for subscription in packet.subscriptions:
        options = subscription.qos | 4 * subscription.no_local | 8 * subscription.retain_as_published
        options |= subscription.retain_handling << 4
        body += write_text(subscription.topic_filter) + write_u8(options)
    return with_header(0x82, body)


def unsubscribe(version: int, packet: Unsubscribe) -> bytes:
    """UNSUBSCRIBE."""
    body = write_u16(packet.packet_id)
    if version == MQTT_5:
        body += section(packet.properties)
    return with_header(0xA2, body + b"".join(write_text(topic_filter) for topic_filter in packet.topic_filters))


def disconnect(version: int, packet: Disconnect | None = None) -> bytes:
    """DISCONNECT."""
    if version != MQTT_5 or packet is None:
        return b"\xe0\x00"
    return with_header(0xE0, write_u8(packet.reason) + section(packet.properties))


def auth(packet: Auth) -> bytes:
    """AUTH."""
    return with_header(0xF0, write_u8(packet.reason) + section(packet.properties))


PINGREQ = b"\xc0\x00"


# -- what a server wrote -----------------------------------------------------------------------------------------

Publish = tuple[str, str, bytes, int, int, bool, bool, Properties]
"""'publish', topic, payload, QoS, packet identifier, retain, dup, properties."""
Ack = tuple[str, int, int]
"""Name, packet identifier, reason code."""

_ACKS = {4: "puback", 5: "pubrec", 6: "pubrel", 7: "pubcomp"}


def read_server_packets(version: int, data: bytes) -> list[Any]:
    """All packets in octets that end with one."""
    packets: list[Any] = []
    offset = 0
    while offset < len(data):
        first = data[offset]
        length, body = read_varint(data, offset + 1, len(data))
        offset = body + length
        assert offset <= len(data)
        packets.append(_read(version, first, data, body, offset))
    return packets


def _read(version: int, first: int, data: bytes, offset: int, end: int) -> Any:
    packet_type = first >> 4
    if packet_type == PacketType.PUBLISH:
        return _read_publish(version, first, data, offset, end)
    if packet_type == PacketType.PUBREL:
        assert first & 0x0F == 2
    else:
        assert first & 0x0F == 0
    match packet_type:
        case PacketType.CONNACK:
            properties = _read_section(version, data, offset + 2, end, packet_type)[0]
            return Connack(session_present=bool(data[offset]), reason=data[offset + 1], properties=properties)
        case PacketType.SUBACK | PacketType.UNSUBACK:
            packet_id, offset = read_u16(data, offset, end)
            properties, offset = _read_section(version, data, offset, end, packet_type)
            answer = Suback if packet_type == PacketType.SUBACK else Unsuback
            return answer(packet_id=packet_id, reasons=tuple(data[offset:end]), properties=properties)
        case PacketType.DISCONNECT | PacketType.AUTH:
            assert version == MQTT_5
            rest = data[offset + 1 : end] or b"\0"
            properties = _read_section(version, rest, 0, len(rest), packet_type)[0]
            last = Disconnect if packet_type == PacketType.DISCONNECT else Auth
            return last(reason=data[offset], properties=properties)
        case PacketType.PINGRESP:
            assert offset == end
            return "pingresp"
        case _:
            packet_id, offset = read_u16(data, offset, end)
            assert offset == end or version == MQTT_5
            return _ACKS[packet_type], packet_id, data[offset] if offset < end else 0


def _read_section(version: int, data: bytes, offset: int, end: int, where: int) -> tuple[Properties, int]:
    if version != MQTT_5:
        return NO_PROPERTIES, offset
    size, offset = read_varint(data, offset, end)
    assert offset + size <= end
    return read_properties(data, offset, offset + size, where), offset + size


def _read_publish(version: int, first: int, data: bytes, offset: int, end: int) -> Publish:
    topic, offset = read_text(data, offset, end)
    packet_id = 0
    qos = first >> 1 & 3
    if qos:
        packet_id, offset = read_u16(data, offset, end)
    properties, offset = _read_section(version, data, offset, end, PacketType.PUBLISH)
    payload = data[offset:end]
    return "publish", topic, payload, qos, packet_id, bool(first & 1), bool(first & 8), properties


# -- the broker's side -------------------------------------------------------------------------------------------


def answer(engine: MqttConnection, what: Callable[..., None], packet_id: int, reason: int = 0) -> None:
    """Send one acknowledgement: `what` is a method of `PendingAcks`."""
    acks = engine.acks.collect()
    if what is PendingAcks.pubcomp:
        what(acks, packet_id)
    else:
        what(acks, packet_id, reason)
    acks.send()


class Recorder(MqttHandler):
    """Notes every call. `accepts` and `answers`: at once, as a broker without a store would."""

    def __init__(self, accepts: bool = True, answers: bool = True) -> None:
        self.calls: list[Call] = []
        self.accepts = accepts
        self.answers = answers
        self.session_present = False
        self.incoming = IncomingFlight()
        self.outgoing = OutgoingFlight()
        self.window = 65535
        self.keep_alive_s: int | None = None
        self.engine: MqttConnection

    def accept(self, packet: Connect) -> None:
        """Let the client in."""
        keep_alive_s = packet.keep_alive_s if self.keep_alive_s is None else self.keep_alive_s
        connack = Connack(session_present=self.session_present)
        self.engine.accept(connack, keep_alive_s, RecordedMessages(self), self.window)

    def wake(self) -> None:
        """Not noted: it depends on where reads end."""

    def on_connect(self, connect: Connect) -> None:
        """Welcome."""
        self.calls.append(("connect", connect))
        if self.accepts:
            self.accept(connect)

    def on_auth(self, auth: Auth) -> None:
        """Noted."""
        self.calls.append(("auth", auth))

    def on_subscribe(self, subscribe: Subscribe) -> None:
        """Granted."""
        self.calls.append(("subscribe", subscribe))
        if self.answers:
            self.engine.send_suback(subscribe.packet_id, [one.qos for one in subscribe.subscriptions])

    def on_unsubscribe(self, unsubscribe: Unsubscribe) -> None:
        """Done."""
        self.calls.append(("unsubscribe", unsubscribe))
        if self.answers:
            self.engine.send_unsuback(unsubscribe.packet_id, [0] * len(unsubscribe.topic_filters))

    def on_disconnect(self, disconnect: Disconnect) -> None:
        """Noted."""
        self.calls.append(("disconnect", disconnect))

    def on_failed(self, reason: int, text: str) -> None:
        """Noted."""
        self.calls.append(("failed", reason, text))

    def on_writable(self) -> None:
        """Noted."""
        self.calls.append(("writable",))


class RecordedMessages(MessageHandler):
    """Notes what comes of messages, in the list of a `Recorder`."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder.incoming, recorder.outgoing)
        self.recorder = recorder

    def on_publish(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        retain: bool,
        dup: bool,
        packet_id: int,
        properties: bytes,
        expiry_s: int,
    ) -> None:
        """A message; taken."""
        self.recorder.calls.append(("publish", topic, payload, qos, retain, dup, packet_id, properties, expiry_s))
        if self.recorder.answers and qos == 1:
            answer(self.recorder.engine, PendingAcks.puback, packet_id)
        elif self.recorder.answers and qos == 2:
            answer(self.recorder.engine, PendingAcks.pubrec, packet_id)

    def on_duplicate(self, packet_id: int) -> None:
        """Answered again."""
        self.recorder.calls.append(("duplicate", packet_id))
        if self.recorder.answers:
            answer(self.recorder.engine, PendingAcks.pubrec, packet_id)

    def on_pubrel(self, packet_id: int) -> None:
        """Completed."""
        self.recorder.calls.append(("pubrel", packet_id))
        if self.recorder.answers:
            answer(self.recorder.engine, PendingAcks.pubcomp, packet_id)

    def on_puback(self, delivery: Delivery, reason: int) -> None:
        """Noted."""
        self.recorder.calls.append(("puback", delivery.packet_id, delivery.token, reason))

    def on_pubrec(self, delivery: Delivery, reason: int) -> None:
        """Released."""
        self.recorder.calls.append(("pubrec", delivery.packet_id, delivery.token, reason))
        if self.recorder.answers and reason < 0x80:
            self.recorder.engine.acks.send_pubrels(delivery.packet_id, 1)

    def on_pubcomp(self, delivery: Delivery) -> None:
        """Noted."""
        self.recorder.calls.append(("pubcomp", delivery.packet_id, delivery.token))


class Conversation:
    """A client and the engine."""

    def __init__(
        self, version: int = MQTT_5, limits: ConnectionLimits | None = None, handler: Recorder | None = None
    ) -> None:
        self.version = version
        self.handler = handler or Recorder()
        self.engine = MqttConnection(self.handler, limits or ConnectionLimits())
        self.handler.engine = self.engine
        self.now = 0.0

    def puback(self, packet_id: int, reason: int = 0) -> None:
        """The broker answers a QoS 1 message."""
        answer(self.engine, PendingAcks.puback, packet_id, reason)

    def pubrec(self, packet_id: int, reason: int = 0) -> None:
        """The broker answers a QoS 2 message."""
        answer(self.engine, PendingAcks.pubrec, packet_id, reason)

    def pubcomp(self, packet_id: int) -> None:
        """The broker answers PUBREL."""
        answer(self.engine, PendingAcks.pubcomp, packet_id)

    @property
    def calls(self) -> list[Call]:
        """What the engine told the broker since it was last looked at."""
        calls, self.handler.calls = self.handler.calls, []
        return calls

    def send(self, data: bytes) -> list[Any]:
        """What the client sends, and the server's packets since."""
        self.engine.receive_data(data, self.now)
        return self.read()

    def read(self) -> list[Any]:
        """The server's packets since."""
        return read_server_packets(self.version, self.engine.data_to_send())

    def open(self, packet: Connect | None = None) -> Connack:
        """Introduce the client; the calls of that are forgotten."""
        packet = packet or Connect(client_id="c1")
        answers = self.send(connect(evolve(packet, version=self.version)))
        assert self.engine.is_open
        self.handler.calls.clear()
        connack = answers[0]
        assert isinstance(connack, Connack)
        return connack

    def failure(self) -> int:
        """The reason of the failure that was the last call."""
        name, reason, text = self.calls[-1]
        assert name == "failed"
        assert text
        assert self.engine.closed
        assert isinstance(reason, int)
        return reason
