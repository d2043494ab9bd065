"""Which MQTT packet may come when: one client's conversation, server side.

    AWAITING_CONNECT -> CONNECTING -> OPEN -> CLOSED
                         |      ^
                         v      |
                      AUTHENTICATING

Wire order only: no sockets, no clock, no broker. `codec` turns bytes into packets, this module says whether a packet is
legal now, and the `MqttHandler` gives it a meaning. Calls are made in wire order from within `receive_data`; the
handler answers at once or later. Who breaks the protocol is told why, as far as its version has words for it, and
closed; what was legal before counts, however TCP cut the stream.

PUBLISH and its acknowledgements, which come per message, are read straight from their octets; everything else is an
object of `packets`.
"""

from collections.abc import Iterator
from typing import Final

from attrs import evolve
from mypy_extensions import mypyc_attr

from artemis_mqtt.engine import reasons
from artemis_mqtt.engine.codec import (
    ServerPacket,
    read_ack,
    read_auth,
    read_connect,
    read_disconnect,
    read_subscribe,
    read_unsubscribe,
    read_version,
    without_texts,
    write_packet,
)
from artemis_mqtt.engine.fields import ONE_BYTE, decode_text, read_varint
from artemis_mqtt.engine.flight import MAX_PACKET_ID, RECEIVED, RELEASED, Delivery, IncomingFlight, OutgoingFlight
from artemis_mqtt.engine.limits import LOGIN_BUFFER_BYTES, ConnectionLimits
from artemis_mqtt.engine.packets import (
    MQTT_3_1,
    MQTT_3_1_1,
    MQTT_5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from artemis_mqtt.engine.properties import NO_PROPERTIES, Properties
from artemis_mqtt.engine.publish import NO_EXPIRY, alias_property, publish_head, split_properties
from artemis_mqtt.engine.reasons import PacketError, malformed, protocol_error
from artemis_mqtt.engine.topics import check_topic
from artemis_py.core.runtime.meter import Meter

AWAITING_CONNECT: Final = 0
CONNECTING: Final = 1
"""The handler decides about a CONNECT or an AUTH; what arrives meanwhile waits."""
AUTHENTICATING: Final = 2
"""The client has the next step of enhanced authentication."""
OPEN: Final = 3
CLOSED: Final = 4

_CONNECT: Final = 1
_PUBLISH: Final = 3
_PUBACK: Final = 4
_PUBREC: Final = 5
_PUBREL: Final = 6
_PUBCOMP: Final = 7
_SUBSCRIBE: Final = 8
_UNSUBSCRIBE: Final = 10
_PINGREQ: Final = 12
_DISCONNECT: Final = 14
_AUTH: Final = 15

# Whatever is absent is a protocol error and ends the connection: CONNECT comes first [MQTT-3.1.0-1] and once
# [MQTT-3.1.0-2]; a client that authenticates sends nothing else [MQTT-3.1.2-30].
TRANSITIONS: Final = {
    (AWAITING_CONNECT, _CONNECT): CONNECTING,
    (AUTHENTICATING, _AUTH): CONNECTING,
    (AUTHENTICATING, _DISCONNECT): CLOSED,
    (OPEN, _PUBLISH): OPEN,
    (OPEN, _PUBACK): OPEN,
    (OPEN, _PUBREC): OPEN,
    (OPEN, _PUBREL): OPEN,
    (OPEN, _PUBCOMP): OPEN,
    (OPEN, _SUBSCRIBE): OPEN,
    (OPEN, _UNSUBSCRIBE): OPEN,
    (OPEN, _PINGREQ): OPEN,
    (OPEN, _AUTH): OPEN,
    (OPEN, _DISCONNECT): CLOSED,
}

# Low four bits of the first byte, by packet type; PUBLISH has flags of its own (§2.1.3) [MQTT-2.1.3-1].
_FLAGS: Final = {_PUBREL: 2, _SUBSCRIBE: 2, _UNSUBSCRIBE: 2}
_DUP: Final = 8

_PINGRESP: Final = b"\xd0\x00"
_PUBACK_HEAD: Final = b"\x40\x02"
_PUBREC_HEAD: Final = b"\x50\x02"
_PUBREL_HEAD: Final = b"\x62\x02"
_PUBCOMP_HEAD: Final = b"\x70\x02"
_EMPTY_TOPIC: Final = b"\x00\x00"

# Up to here a payload is copied behind its head, above it is a piece of output of its own.
_SMALL_PAYLOAD: Final = 512

# Topics of a client whose decoded form is kept: 256 KiB at most per connection, and enough for what one client sends to
# over and over. A client with more topics pays for decoding them.
_KNOWN_TOPICS: Final = 1024
_KNOWN_TOPIC_SIZE: Final = 256

# Below this an alias saves nothing worth a place in the client's table: the property itself has three bytes.
_MIN_ALIASED_SIZE: Final = 8

# Where a CONNACK lacks the word that a DISCONNECT has (MQTT 5.0 §3.2.2.2).
_CONNACK_REASONS: Final = {
    reasons.SERVER_SHUTTING_DOWN: reasons.SERVER_UNAVAILABLE,
    reasons.SESSION_TAKEN_OVER: reasons.UNSPECIFIED_ERROR,
    reasons.KEEP_ALIVE_TIMEOUT: reasons.UNSPECIFIED_ERROR,
    reasons.ADMINISTRATIVE_ACTION: reasons.UNSPECIFIED_ERROR,
    reasons.NORMAL_DISCONNECTION: reasons.UNSPECIFIED_ERROR,
    reasons.TOPIC_FILTER_INVALID: reasons.UNSPECIFIED_ERROR,
}


@mypyc_attr(allow_interpreted_subclasses=True)
class MqttHandler:
    """What the conversation means."""

    def wake(self) -> None:
        """There is output now, where there was none."""
        raise NotImplementedError

    def on_connect(self, connect: Connect) -> None:
        """The client introduced itself: answer, now or later, with `accept`, `refuse` or `send_auth`.

        What the client sends behind it waits until then.
        """
        raise NotImplementedError

    def on_auth(self, auth: Auth) -> None:
        """The next step of enhanced authentication: before the login answered as `on_connect` is, after it with
        `send_auth` or `disconnect`. Only if CONNECT named a method, and with that method [MQTT-4.12.0-5]."""
        raise NotImplementedError

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
        """A message. QoS 1: answer with `send_puback`, QoS 2: with `send_pubrec`; once each, in order, now or later.

        `topic` has its alias resolved and is valid. `properties` are those that travel with the message (§3.3.2.3:
        payload format, content type, response topic, correlation data, user properties): validated, encoded as they
        came, without their length. `expiry_s` is the Message Expiry Interval, -1: none.
        """
        raise NotImplementedError

    def on_duplicate(self, packet_id: int) -> None:
        """A QoS 2 message that was received before: answer with `send_pubrec` once the first one is durable."""
        raise NotImplementedError

    def on_pubrel(self, packet_id: int) -> None:
        """The client released a QoS 2 message: forget its identifier, then `send_pubcomp`, now or later."""
        raise NotImplementedError

    def on_puback(self, delivery: Delivery, reason: int) -> None:
        """A QoS 1 delivery is over; `reason` of 0x80 or more: the client refused it, and must not get it again."""
        raise NotImplementedError

    def on_pubrec(self, delivery: Delivery, reason: int) -> None:
        """The client has a QoS 2 message: record that, then `send_pubrel` (later: when that is durable).

        `reason` of 0x80 or more: it refused the message, the delivery is over, there is nothing to send.
        """
        raise NotImplementedError

    def on_pubcomp(self, delivery: Delivery) -> None:
        """A QoS 2 delivery is over, its identifier free."""
        raise NotImplementedError

    def on_subscribe(self, subscribe: Subscribe) -> None:
        """Answer with `send_suback`, now or later."""
        raise NotImplementedError

    def on_unsubscribe(self, unsubscribe: Unsubscribe) -> None:
        """Answer with `send_unsuback`, now or later."""
        raise NotImplementedError

    def on_disconnect(self, disconnect: Disconnect) -> None:
        """The client said goodbye; the engine is closed. Reason 0x04: its will is to be published all the same."""
        raise NotImplementedError

    def on_failed(self, reason: int, text: str) -> None:
        """The client broke the protocol or fell silent; the engine has said so and closed. Nothing comes after this."""
        raise NotImplementedError

    def on_writable(self) -> None:
        """Deliveries may go on: output went out, or the window opened (at most once per read)."""
        raise NotImplementedError


def _untimely(packet_type: int) -> PacketError:
    return protocol_error(f"a packet of type {packet_type} that may not come now")


class MqttConnection:
    """One client's conversation: bytes and time in, calls and bytes out."""

    def __init__(self, handler: MqttHandler, limits: ConnectionLimits, meter: Meter | None = None) -> None:
        """`meter` says when to stop reading for this turn; without one nothing does."""
        self.handler: MqttHandler = handler
        self.limits: ConnectionLimits = limits
        self.meter: Meter = Meter() if meter is None else meter
        self.state: int = AWAITING_CONNECT
        self.version: int = 0
        """Protocol level of the CONNECT; 0 before it."""
        self.incoming: IncomingFlight = IncomingFlight()
        self.outgoing: OutgoingFlight = OutgoingFlight()
        """The session's, from `accept` on."""
        self.out: list[bytes] = []
        self.output_size: int = 0
        self.is_paused: bool = False
        self.is_halted: bool = False
        """What the client sends is not looked at for now; the transport does not read either."""
        self._output_limit: int = limits.output_limit_bytes
        self._is_v5: bool = False
        self._connect: Connect | None = None
        self._is_reauthenticating: bool = False
        self._max_packet_size: int = limits.login_packet_size
        self._max_topic_levels: int = limits.max_topic_levels
        self._chunks: list[bytes] = []
        self._chunk_size: int = 0
        self._needed: int = 2
        """Bytes without which there is nothing to do."""
        self._is_cut_short: bool = False
        """There is input to be worked through, and no share of this turn left for it."""
        self._steps: Iterator[None] | None = None
        """What is left to do for the packet that was read last."""
        self._now: float = 0.0
        self._heard_at: float = 0.0
        self._silence_s: float = 0.0
        """Silence after which the client counts as gone; 0: never."""
        self._was_paused: bool = False
        self._is_waited_for: bool = False
        """Somebody found no room for output and is to be told when there is."""
        self._unanswered: int = 0
        """QoS 1 and 2 messages of this connection for which the last answer is due."""
        self._receive_maximum: int = MAX_PACKET_ID
        self._topics: dict[bytes, str] = {}
        self._incoming_aliases: dict[int, str] = {}
        self._outgoing_aliases: dict[bytes, int] = {}
        self._max_outgoing_aliases: int = 0
        self._peer_packet_size: int = 0
        """The largest packet the client takes; 0: any."""
        self._wants_reasons: bool = False

    # -- for the transport -------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether nothing more will be said."""
        return self.state == CLOSED

    @property
    def is_open(self) -> bool:
        """Whether the client was accepted and nobody ended the conversation."""
        return self.state == OPEN

    @property
    def kept_bytes(self) -> int:
        """What was received and is still to be worked through, most often the beginning of a packet."""
        return self._chunk_size

    @property
    def has_input(self) -> bool:
        """Whether something was received that only waits for a share of a turn: for `work`."""
        return self._is_cut_short and self.state != CONNECTING and not self.is_halted

    def receive_data(self, data: bytes, now: float) -> None:
        """Work through what the client sent, in pieces of any size. Never raises for anything a client can send.

        What the share of this turn (`Meter.end`) is too small for is kept for `work`.
        """
        self._now = now
        self._heard_at = now
        if self.state == CLOSED:
            return
        if self._chunks:
            size = self._chunk_size + len(data)
            if size < self._needed or self.state == CONNECTING or self.is_halted or self._is_cut_short:
                self._keep(data)
                return
            self._chunks.append(data)
            data = b"".join(self._chunks)
            self._chunks = []
            self._chunk_size = 0
        elif self.state == CONNECTING or self.is_halted or self._is_cut_short:
            self._keep(data)
            return
        self._work(data)

    def work(self, now: float) -> None:
        """Go on with what was kept. The client counts as heard: we did not read, so its silence means nothing."""
        self._now = now
        self._heard_at = now
        if self.has_input:
            self._go_on()

    def work_through(self, steps: Iterator[None]) -> None:
        """Handler: what the packet at hand asks for is long, and is done step by step before anything else is read."""
        self._steps = steps

    def halt(self) -> None:
        """Handler: look at nothing behind the packet at hand, until `proceed`. The transport must not read."""
        self.is_halted = True
        self._was_paused = True

    def proceed(self) -> None:
        """Handler: what was kept may be worked through, in the shares of the turns to come."""
        self.is_halted = False
        self._is_cut_short = self._is_cut_short or len(self._chunks) > 0

    def _keep(self, data: bytes) -> None:
        self._chunks.append(data)
        self._chunk_size += len(data)
        if self.state == CONNECTING and self._chunk_size > LOGIN_BUFFER_BYTES:
            self._fail(reasons.QUOTA_EXCEEDED, f"more than {LOGIN_BUFFER_BYTES} bytes before the login ended")

    def _work(self, data: bytes) -> None:
        self._is_cut_short = False
        try:
            offset = self._read(data)
        except PacketError as error:
            self._fail(error.reason, str(error))
            return
        if self.state == CLOSED:
            return
        if offset < len(data):
            self._keep(data[offset:] if offset else data)
        outgoing = self.outgoing
        if outgoing.was_exhausted and outgoing.quota > 0 and self.can_send:
            outgoing.was_exhausted = False
            self.handler.on_writable()

    def data_to_send(self) -> bytes:
        """Take all output. Deliveries that had to wait for room may then go on."""
        out = self.out
        if not out:
            return b""
        data = out[0] if len(out) == 1 else b"".join(out)
        self.out = []
        was_full = self._is_waited_for or self.output_size >= self._output_limit
        self.output_size = 0
        self._is_waited_for = False
        if was_full and self.can_send:
            self.handler.on_writable()
        return data

    def next_deadline(self) -> float | None:
        """When the client's silence lasts too long: one and a half times its keep-alive [MQTT-3.1.2-22]."""
        if self._silence_s <= 0.0 or self.state == CLOSED or self.is_paused or self.is_halted:
            return None
        return self._heard_at + self._silence_s

    def handle_deadline(self, now: float) -> None:
        """Give a silent client up."""
        deadline = self.next_deadline()
        if deadline is None or now < deadline:
            return
        if self._was_paused:
            # Nobody read meanwhile: its silence counts from now on.
            self._was_paused = False
            self._heard_at = now
            return
        self._fail(reasons.KEEP_ALIVE_TIMEOUT, f"nothing was heard for {self._silence_s:g} s")

    def pause(self) -> None:
        """Send no deliveries until `resume`; the transport does not read, so silence means nothing."""
        self.is_paused = True
        self._was_paused = True

    def resume(self) -> None:
        """Deliveries may go on."""
        if self.is_paused:
            self.is_paused = False
            self._is_waited_for = False
            if self.can_send:
                self.handler.on_writable()

    # -- reading -----------------------------------------------------------------------------------------------

    def _read(self, data: bytes) -> int:
        """Work through all whole packets; where the first one begins that is not."""
        size = len(data)
        offset = 0
        meter = self.meter
        if self._steps is not None and not self._step():
            return 0
        while offset + 2 <= size:
            if meter.work >= meter.end:
                self._is_cut_short = True
                break
            meter.work += 1
            first = data[offset]
            body = offset + 2
            length = data[offset + 1]
            if length >= 0x80:
                # Two octets of it are nearly as frequent as one.
                if body < size and 0 < data[body] < 0x80:
                    length = length & 0x7F | data[body] << 7
                    body = offset + 3
                else:
                    length, body = self._read_length(data, offset + 1, size)
                    if body == 0:
                        return offset
            end = body + length
            if end - offset > self._max_packet_size:
                raise PacketError(reasons.PACKET_TOO_LARGE, f"a packet of {end - offset} bytes")
            if end > size:
                if self.state == AWAITING_CONNECT and first >> 4 != _CONNECT:
                    raise _untimely(first >> 4)
                self._needed = end - offset
                return offset
            if first & 0xF0 == 0x30 and self.state == OPEN:
                self._read_publish(first, data, body, end)
            elif length == 2 and 0x40 <= first <= 0x70 and self.state == OPEN:
                self._read_short_ack(first, data[body] << 8 | data[body + 1])
            else:
                self._read_packet(first, data, body, end)
            offset = end
            if self.state == CLOSED or self.state == CONNECTING or self.is_halted:
                break
            if self._steps is not None and not self._step():
                break
        self._needed = 2
        return offset

    def _step(self) -> bool:
        """Go on with the last packet; False if there is more of it to do than the share of this turn is."""
        steps = self._steps
        meter = self.meter
        assert steps is not None
        for _ in steps:
            if self.state == CLOSED:
                return False
            if meter.work >= meter.end:
                self._is_cut_short = True
                return False
        self._steps = None
        return self.state != CLOSED

    def _read_length(self, data: bytes, offset: int, size: int) -> tuple[int, int]:
        """A Remaining Length of more than a byte, and where the rest begins; 0: it is not all here."""
        end = min(size, offset + 4)
        index = offset
        while index < end and data[index] >= 0x80:
            index += 1
        if index == end:
            if end == offset + 4:
                raise malformed("a remaining length of more than four bytes")
            self._needed = end - offset + 2
            return 0, 0
        return read_varint(data, offset, end)

    def _read_packet(self, first: int, data: bytes, offset: int, end: int) -> None:
        packet_type = first >> 4
        state = TRANSITIONS.get((self.state, packet_type), -1)
        if state < 0 or (packet_type == _AUTH and not self._is_v5):
            raise _untimely(packet_type)
        if packet_type != _PUBLISH and first & 0x0F != _FLAGS.get(packet_type, 0):
            # 3.1 sends these again on its own connection, with DUP (§2.1 there).
            if self.version != MQTT_3_1 or packet_type not in _FLAGS or first & 0x07 != _FLAGS[packet_type]:
                raise malformed(f"flags {first & 0x0F:#x} in a packet of type {packet_type}")
        if packet_type == _CONNECT:
            self._read_connect(data, offset, end)
        elif packet_type in (_PUBACK, _PUBREC, _PUBREL, _PUBCOMP):
            self._read_ack(packet_type, data, offset, end)
        elif packet_type == _SUBSCRIBE:
            self.handler.on_subscribe(read_subscribe(self.version, data, offset, end, self.limits))
        elif packet_type == _UNSUBSCRIBE:
            self.handler.on_unsubscribe(read_unsubscribe(self.version, data, offset, end, self.limits))
        elif packet_type == _PINGREQ:
            if offset != end:
                raise malformed("PINGREQ is longer than its fields")
            self._write(_PINGRESP)
        elif packet_type == _AUTH:
            self._read_auth(data, offset, end)
        else:
            self._read_disconnect(data, offset, end)

    def _read_connect(self, data: bytes, offset: int, end: int) -> None:
        level, offset = read_version(data, offset, end)
        if level != MQTT_3_1 and level != MQTT_3_1_1 and level != MQTT_5:
            # In the form of the version that is nearest: an old client cannot read version 5 [MQTT-3.1.2-2].
            self.version = MQTT_5 if level > MQTT_5 else MQTT_3_1
            self._is_v5 = level > MQTT_5
            raise PacketError(reasons.UNSUPPORTED_PROTOCOL_VERSION, f"protocol level {level} is not supported")
        self.version = level
        self._is_v5 = level == MQTT_5
        connect = read_connect(level, data, offset, end, self.limits)
        if not connect.client_id and (level == MQTT_3_1 or (level == MQTT_3_1_1 and not connect.clean_start)):
            raise PacketError(reasons.CLIENT_IDENTIFIER_NOT_VALID, "an empty client identifier")
        self._connect = connect
        properties = connect.properties
        self._wants_reasons = self._is_v5 and properties.request_problem_information != 0
        self._peer_packet_size = properties.maximum_packet_size or 0
        self._max_outgoing_aliases = min(properties.topic_alias_maximum or 0, self.limits.max_outgoing_aliases)
        self.state = CONNECTING
        self.handler.on_connect(connect)

    def _read_auth(self, data: bytes, offset: int, end: int) -> None:
        auth = read_auth(data, offset, end)
        assert self._connect is not None
        method = self._connect.properties.authentication_method
        if method is None or auth.properties.authentication_method != method:
            raise protocol_error("AUTH with another method than CONNECT")
        if self.state == AUTHENTICATING:
            if auth.reason != reasons.CONTINUE_AUTHENTICATION:
                raise protocol_error("re-authentication before the login ended")
            self.state = CONNECTING
        else:
            if (auth.reason == reasons.RE_AUTHENTICATE) == self._is_reauthenticating:
                raise protocol_error("AUTH out of turn")
            self._is_reauthenticating = True
        self.handler.on_auth(auth)

    def _read_disconnect(self, data: bytes, offset: int, end: int) -> None:
        disconnect = read_disconnect(self.version, data, offset, end)
        assert self._connect is not None
        if disconnect.properties.session_expiry_interval and not self._connect.properties.session_expiry_interval:
            # A session that was to end with its connection does not outlive it after all [MQTT-3.14.2-2].
            raise protocol_error("DISCONNECT makes a session last that was to end with its connection")
        self._close()
        self.handler.on_disconnect(disconnect)

    # -- PUBLISH and its acknowledgements ------------------------------------------------------------------------

    def _read_publish(self, first: int, data: bytes, offset: int, end: int) -> None:
        topic_start = offset + 2
        if topic_start > end:
            raise malformed("the packet ends within a field")
        offset = topic_start + (data[offset] << 8 | data[offset + 1])
        if offset > end:
            raise malformed("a field is longer than what is left of its packet")
        raw = data[topic_start:offset]
        topic = self._topics.get(raw)
        if topic is None:
            topic = self._learn_topic(raw)
        qos = first >> 1 & 3
        packet_id = 0
        if qos:
            if offset + 2 > end:
                raise malformed("the packet ends within a field")
            packet_id = data[offset] << 8 | data[offset + 1]
            offset += 2
            if qos == 3 or packet_id == 0:
                raise malformed("PUBLISH with QoS 3 [MQTT-3.3.1-4] or packet identifier 0")
        elif first & _DUP:
            raise malformed("PUBLISH with QoS 0 and DUP")
        properties = b""
        expiry_s = NO_EXPIRY
        if self._is_v5:
            if offset < end and data[offset] == 0:
                offset += 1
                if not topic:
                    raise protocol_error("PUBLISH has neither a topic nor an alias")
            else:
                size, offset = read_varint(data, offset, end)
                stop = offset + size
                if stop > end:
                    raise malformed("the properties are longer than their packet")
                properties, expiry_s, alias = split_properties(data, offset, stop, self._max_topic_levels)
                offset = stop
                if alias or not topic:
                    topic = self._resolve_alias(topic, alias)
        if qos:
            self._unanswered += 1
            if self._unanswered > self._receive_maximum:
                raise PacketError(reasons.RECEIVE_MAXIMUM_EXCEEDED, f"more than {self._receive_maximum} in flight")
            if qos == 2:
                received = self.incoming.received
                if packet_id in received:
                    self.handler.on_duplicate(packet_id)
                    return
                received.add(packet_id)
        self.handler.on_publish(
            topic, data[offset:end], qos, first & 1 != 0, first & _DUP != 0, packet_id, properties, expiry_s
        )

    def _learn_topic(self, raw: bytes) -> str:
        """Decode and check a topic name that is not known yet."""
        if not raw and self._is_v5:
            return ""
        topic = decode_text(raw)
        check_topic(topic, self._max_topic_levels)
        if len(raw) <= _KNOWN_TOPIC_SIZE:
            if len(self._topics) >= _KNOWN_TOPICS:
                self._topics.clear()
            self._topics[raw] = topic
        return topic

    def _resolve_alias(self, topic: str, alias: int) -> str:
        """The topic that `alias` stands for, or from now on stands for (§3.3.2.3.4)."""
        if alias == 0:
            raise protocol_error("PUBLISH has neither a topic nor an alias")
        if alias > self.limits.topic_alias_maximum:
            raise PacketError(reasons.TOPIC_ALIAS_INVALID, f"topic alias {alias} is above the maximum")
        if topic:
            self._incoming_aliases[alias] = topic
            return topic
        known = self._incoming_aliases.get(alias)
        if known is None:
            raise PacketError(reasons.TOPIC_ALIAS_INVALID, f"topic alias {alias} stands for nothing")
        return known

    def _read_short_ack(self, first: int, packet_id: int) -> None:
        """An acknowledgement of a packet identifier and nothing else: all of them in 3.x, nearly all in version 5."""
        if packet_id == 0:
            raise protocol_error("packet identifier 0")
        if first == 0x40:
            delivery = self.outgoing.acknowledge(packet_id)
            if delivery is not None:
                self.handler.on_puback(delivery, 0)
        elif first == 0x62:
            self._on_pubrel(packet_id)
        elif first == 0x50:
            self._on_pubrec(packet_id, 0)
        elif first == 0x70:
            delivery = self.outgoing.complete(packet_id)
            if delivery is not None:
                self.handler.on_pubcomp(delivery)
        elif first == 0x6A and self.version == MQTT_3_1:
            self._on_pubrel(packet_id)
        else:
            raise malformed(f"flags {first & 0x0F:#x} in a packet of type {first >> 4}")

    def _read_ack(self, packet_type: int, data: bytes, offset: int, end: int) -> None:
        """An acknowledgement with a reason code (§3.4.2)."""
        if not self._is_v5:
            raise malformed(f"a packet of type {packet_type} that is not two bytes long")
        packet_id, reason = read_ack(data, offset, end, packet_type)
        if packet_type == _PUBACK:
            delivery = self.outgoing.acknowledge(packet_id)
            if delivery is not None:
                self.handler.on_puback(delivery, reason)
        elif packet_type == _PUBREC:
            self._on_pubrec(packet_id, reason)
        elif packet_type == _PUBREL:
            self._on_pubrel(packet_id)
        else:
            delivery = self.outgoing.complete(packet_id)
            if delivery is not None:
                self.handler.on_pubcomp(delivery)

    def _on_pubrec(self, packet_id: int, reason: int) -> None:
        refused = reason >= 0x80
        known = self.outgoing.deliveries.get(packet_id)
        earlier = RECEIVED if known is None else known.state
        delivery = self.outgoing.receive(packet_id, refused)
        if delivery is None:
            # A session that we no longer have: let the client finish its part [MQTT-4.3.3-1] (§4.4).
            if not refused:
                self._write_ack(_PUBREL_HEAD, packet_id, reasons.PACKET_IDENTIFIER_NOT_FOUND)
        elif earlier == RELEASED and not refused:
            self._write_ack(_PUBREL_HEAD, packet_id, 0)
        elif earlier != RECEIVED or refused:
            self.handler.on_pubrec(delivery, reason)

    def _on_pubrel(self, packet_id: int) -> None:
        received = self.incoming.received
        if packet_id in received:
            received.discard(packet_id)
            self.handler.on_pubrel(packet_id)
        else:
            # It was released before, or its session is gone: the client may forget it, too [MQTT-4.3.3-11].
            self._write_ack(_PUBCOMP_HEAD, packet_id, reasons.PACKET_IDENTIFIER_NOT_FOUND)

    # -- login and end -----------------------------------------------------------------------------------------

    def accept(
        self, connack: Connack, keep_alive_s: int, incoming: IncomingFlight, outgoing: OutgoingFlight, window: int
    ) -> None:
        """Answer CONNECT with success; from here on messages come and go.

        The engine adds the properties of its own limits (Receive Maximum, Maximum Packet Size, Topic Alias Maximum)
        and Server Keep Alive if `keep_alive_s` (0: none) differs from what the client asked for. `window` is how many
        messages of QoS 1 and 2 we send ahead at most; the client's Receive Maximum lowers it. PUBRELs of the session
        that are still unanswered go out at once; messages to send again are to be taken from `outgoing.next_resend()`.
        What the client sent meanwhile is worked through before this returns.
        """
        connect = self._connect
        if self.state != CONNECTING or connect is None:
            return
        self.incoming = incoming
        self.outgoing = outgoing
        self._silence_s = keep_alive_s * 1.5
        self._max_packet_size = self.limits.max_packet_size
        if self._is_v5:
            self._receive_maximum = self.limits.receive_maximum
            window = min(window, connect.properties.receive_maximum or MAX_PACKET_ID)
            connack = evolve(connack, properties=self._with_limits(connack.properties, connect, keep_alive_s))
        self.state = OPEN
        self._send(connack)
        outgoing.begin(window)
        for delivery in outgoing.deliveries.values():
            if delivery.state == RELEASED:
                self._write_ack(_PUBREL_HEAD, delivery.packet_id, 0)
        self._go_on()

    def _with_limits(self, properties: Properties, connect: Connect, keep_alive_s: int) -> Properties:
        limits = self.limits
        return evolve(
            properties,
            authentication_method=connect.properties.authentication_method,
            server_keep_alive=None if keep_alive_s == connect.keep_alive_s else keep_alive_s,
            receive_maximum=limits.receive_maximum,
            topic_alias_maximum=limits.topic_alias_maximum or None,
            maximum_packet_size=limits.max_packet_size,
        )

    def _go_on(self) -> None:
        """Work through what arrived while the handler decided, or another turn had to come."""
        if (self._chunks or self._is_cut_short) and self.state != CLOSED:
            data = b"".join(self._chunks)
            self._chunks = []
            self._chunk_size = 0
            self._work(data)

    def refuse(self, reason: int, properties: Properties = NO_PROPERTIES) -> None:
        """Answer CONNECT with a failure, in the words of the client's version, and close [MQTT-3.2.2-7].

        Too late, after `accept`, it is a `disconnect`: there is one CONNACK [MQTT-3.2.0-2].
        """
        if self.state == OPEN:
            self.disconnect(reason, "", properties)
        elif self.state != CLOSED:
            self._send(Connack(reason=_CONNACK_REASONS.get(reason, reason), properties=self._wanted(properties)))
            self._close()

    def send_auth(self, reason: int, properties: Properties) -> None:
        """Go on with enhanced authentication: 0x18, or 0x00 at the end of a re-authentication. The engine fills in
        the method."""
        connect = self._connect
        if self.state == CLOSED or connect is None:
            return
        if reason == reasons.SUCCESS:
            self._is_reauthenticating = False
        method = connect.properties.authentication_method
        self._send(Auth(reason=reason, properties=evolve(self._wanted(properties), authentication_method=method)))
        if self.state == CONNECTING:
            self.state = AUTHENTICATING
            self._go_on()

    def disconnect(self, reason: int, text: str = "", properties: Properties = NO_PROPERTIES) -> None:
        """End the conversation: DISCONNECT in version 5 (CONNACK before the login), a bare close in 3.x. `text` becomes
        the Reason String if the client wants those. The handler hears nothing more."""
        if text:
            properties = evolve(properties, reason_string=text)
        if self.state == OPEN:
            if self._is_v5:
                self._send(Disconnect(reason=reason, properties=self._wanted(properties)))
            self._close()
        elif self._connect is not None:
            self.refuse(reason, properties)
        else:
            self._close()

    def _fail(self, reason: int, text: str) -> None:
        """The client is at fault: tell it, as far as there are words for that, and close."""
        if self.state == OPEN or self._connect is not None:
            self.disconnect(reason, text)
        elif self._is_v5 or reason in reasons.RETURN_CODES:
            # A CONNECT that cannot be served; 3.x is only answered what it has a word for.
            self.refuse(reason)
        else:
            self._close()
        self.handler.on_failed(reason, text)

    def _close(self) -> None:
        self.state = CLOSED
        self._chunks = []
        self._chunk_size = 0
        self._steps = None
        self._is_cut_short = False

    def _wanted(self, properties: Properties) -> Properties:
        """What we may say beside a reason code: no texts to a client that wants none [MQTT-3.1.2-29]."""
        if self._wants_reasons or properties is NO_PROPERTIES:
            return properties
        return evolve(properties, reason_string=None, user_properties=())

    def _send(self, packet: ServerPacket) -> None:
        """Collect a packet. One too large for the client goes without its texts ([MQTT-3.2.2-19] and its kin)."""
        data = write_packet(self.version, packet)
        if self._peer_packet_size and len(data) > self._peer_packet_size:
            data = write_packet(self.version, without_texts(packet))
            if len(data) > self._peer_packet_size:
                # There is no way to say this to this client [MQTT-3.1.2-24].
                self._close()
                self.handler.on_failed(reasons.PACKET_TOO_LARGE, "the client takes no packet as large as its answer")
                return
        self._write(data)

    # -- writing -----------------------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        """Collect output; after the end there is none."""
        if self.state == CLOSED:
            return
        if not self.out:
            self.handler.wake()
        self.out.append(data)
        self.output_size += len(data)

    @property
    def can_send(self) -> bool:
        """Whether there is room for deliveries: not paused, and less output than the limit waits. Who asks in vain is
        told by `on_writable`."""
        if self.is_paused or self.output_size >= self._output_limit:
            self._is_waited_for = True
            return False
        return self.state == OPEN

    def send_publish(
        self, topic_field: bytes, payload: bytes, qos: int, retain: bool, dup: bool, packet_id: int, properties: bytes
    ) -> bool:
        """Send one message; False: it is larger than the client takes, and was not sent [MQTT-3.1.2-24].

        `topic_field` is the topic as `topics.topic_field` encodes it (keep it); `packet_id` comes from `outgoing.add`
        (0 for QoS 0). `properties` are what `on_publish` gave, to which `publish.expiry_property` and
        `publish.subscription_identifier_property` may be appended; 3.x leaves them out. Topic aliases are the engine's.
        """
        if self.state != OPEN:
            return True
        alias = 0
        field = topic_field
        if self._max_outgoing_aliases:
            alias = self._outgoing_aliases.get(topic_field, 0)
            if alias:
                field = _EMPTY_TOPIC
                properties = properties + alias_property(alias)
            elif len(topic_field) >= _MIN_ALIASED_SIZE and len(self._outgoing_aliases) < self._max_outgoing_aliases:
                properties = properties + alias_property(len(self._outgoing_aliases) + 1)
                alias = -1
        size = len(payload)
        head = publish_head(self._is_v5, field, size, qos, retain, dup, packet_id, properties)
        if self._peer_packet_size and len(head) + size > self._peer_packet_size:
            return False
        if alias < 0:
            # Only now does the client learn it.
            self._outgoing_aliases[topic_field] = len(self._outgoing_aliases) + 1
        out = self.out
        if not out:
            self.handler.wake()
        if size <= _SMALL_PAYLOAD:
            out.append(head + payload)
        else:
            out.append(head)
            out.append(payload)
        self.output_size += len(head) + size
        return True

    def send_encoded(self, packet: bytes) -> bool:
        """Send a QoS 0 PUBLISH as `publish.encode_publish` made it for this version; False: as in `send_publish`."""
        if self.state != OPEN:
            return True
        size = len(packet)
        if self._peer_packet_size and size > self._peer_packet_size:
            return False
        if not self.out:
            self.handler.wake()
        self.out.append(packet)
        self.output_size += size
        return True

    def send_puback(self, packet_id: int, reason: int = 0) -> None:
        """Answer a QoS 1 message; the reason is left out in 3.x."""
        self._answered()
        self._write_ack(_PUBACK_HEAD, packet_id, reason)

    def send_pubrec(self, packet_id: int, reason: int = 0) -> None:
        """Answer a QoS 2 message; 0x80 or more refuses it and frees its identifier (version 5 only)."""
        if reason >= 0x80 and self._is_v5:
            self._answered()
            self.incoming.received.discard(packet_id)
        self._write_ack(_PUBREC_HEAD, packet_id, reason)

    def send_pubrel(self, delivery: Delivery) -> None:
        """Release a delivery whose PUBREC came."""
        delivery.state = RELEASED
        self._write_ack(_PUBREL_HEAD, delivery.packet_id, 0)

    def send_pubcomp(self, packet_id: int) -> None:
        """Answer PUBREL."""
        self._answered()
        self._write_ack(_PUBCOMP_HEAD, packet_id, 0)

    def _answered(self) -> None:
        # Never below 0: a PUBREL may belong to a message of an earlier connection (§4.9).
        if self._unanswered > 0:
            self._unanswered -= 1

    def _write_ack(self, head: bytes, packet_id: int, reason: int) -> None:
        if reason and self._is_v5:
            self._write(bytes((head[0], 3, packet_id >> 8, packet_id & 0xFF, reason)))
        else:
            self._write(head + ONE_BYTE[packet_id >> 8] + ONE_BYTE[packet_id & 0xFF])

    def send_suback(self, packet_id: int, codes: list[int], properties: Properties = NO_PROPERTIES) -> None:
        """Answer SUBSCRIBE, one code per filter in order; codes of 0x80 or more are 0x80 in 3.1.1, QoS 0 in 3.1."""
        self._send(Suback(packet_id=packet_id, reasons=tuple(codes), properties=self._wanted(properties)))

    def send_unsuback(self, packet_id: int, codes: list[int], properties: Properties = NO_PROPERTIES) -> None:
        """Answer UNSUBSCRIBE, one code per filter in order."""
        self._send(Unsuback(packet_id=packet_id, reasons=tuple(codes), properties=self._wanted(properties)))
