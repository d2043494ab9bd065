"""One client's MQTT conversation, server side: bytes and time in, calls and bytes out.

Wire order only: no sockets, no clock, no broker. `codec` turns bytes into packets, `transitions` says whether one is
legal now, and the `MqttHandler` gives it a meaning, at once or later. A client that breaks the protocol is told why, as
far as its version has words for it, and closed; what was legal before counts, however TCP cut the stream.

PUBLISH and its acknowledgements, which come per message, are read straight from their octets (`publish_reader`,
`acknowledgements`) and written by `publish_writer`; everything else is an object of `packets`.
"""

from collections.abc import Iterator
from typing import Final

from attrs import evolve

from artemis_mqtt.engine import reasons
from artemis_mqtt.engine.acknowledgements import Acknowledgements
from artemis_mqtt.engine.codec import (
    ServerPacket,
    read_auth,
    read_connect,
    read_disconnect,
    read_subscribe,
    read_unsubscribe,
    read_version,
    without_texts,
    write_packet,
)
from artemis_mqtt.engine.delivery import MAX_PACKET_ID
from artemis_mqtt.engine.fields import read_varint
from artemis_mqtt.engine.flight import IncomingFlight, OutgoingFlight
from artemis_mqtt.engine.handler import MessageHandler, MqttHandler
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
    Unsuback,
)
from artemis_mqtt.engine.properties import NO_PROPERTIES, Properties
from artemis_mqtt.engine.publish_reader import PublishReader
from artemis_mqtt.engine.publish_writer import PublishWriter
from artemis_mqtt.engine.reasons import PacketError, malformed, protocol_error
from artemis_mqtt.engine.transitions import (
    AUTH,
    AUTHENTICATING,
    AWAITING_CONNECT,
    CLOSED,
    CONNECT,
    CONNECTING,
    OPEN,
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBSCRIBE,
    UNSUBSCRIBE,
    check_transition,
    untimely,
)
from artemis_py.core.runtime.meter import ANSWERED_SHIFT, Meter
from artemis_py.wire.inbox import Inbox
from artemis_py.wire.outbox import Outbox

_PINGRESP: Final = b"\xd0\x00"

# The shortest packet: a first byte and a length.
_HEADER_SIZE: Final = 2


class MqttConnection:
    """One client's conversation."""

    def __init__(self, handler: MqttHandler, limits: ConnectionLimits, meter: Meter | None = None) -> None:
        """Create the start state; `meter` says when to stop reading in this iteration of the loop, None: never."""
        self.handler: MqttHandler = handler
        self.limits: ConnectionLimits = limits
        self.meter: Meter = Meter() if meter is None else meter
        self.state: int = AWAITING_CONNECT
        self.version: int = 0
        """Protocol level of the CONNECT; 0 before it."""
        self.inbox: Inbox = Inbox(self.meter, _HEADER_SIZE)
        self.outbox: Outbox = Outbox(limits.output_limit_bytes, handler.wake)
        nobody = MessageHandler(IncomingFlight(), OutgoingFlight())
        self.reader: PublishReader = PublishReader(nobody, limits.max_topic_levels, limits.topic_alias_maximum)
        self.writer: PublishWriter = PublishWriter(self.outbox)
        self.acks: Acknowledgements = Acknowledgements(nobody, self.outbox, self.reader)
        self.is_halted: bool = False
        """Whether the client's packets are not processed for now; the transport does not read either."""
        self._is_v5: bool = False
        self._connect: Connect | None = None
        self._is_reauthenticating: bool = False
        self._max_packet_size: int = limits.login_packet_size
        self._heard_at: float = 0.0
        self._silence_s: float = 0.0
        """Silence after which the client counts as gone; 0: never."""
        self._was_unread: bool = False
        """Whether the client was not read from for some time: its silence then means nothing."""
        self._wants_reasons: bool = False

    # -- for the transport -------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether nothing more will be said."""
        return self.state == CLOSED

    @property
    def is_open(self) -> bool:
        """Whether the client was accepted and neither side has closed."""
        return self.state == OPEN

    @property
    def outgoing(self) -> OutgoingFlight:
        """Messages of QoS 1 and 2 towards the client; the session's, from `accept` on."""
        return self.acks.outgoing

    @property
    def kept_bytes(self) -> int:
        """Octets that were received and not worked through yet, most often the beginning of a packet."""
        return self.inbox.size

    @property
    def has_input(self) -> bool:
        """Whether input is kept only because the share of a loop iteration was used up; `work` continues with it."""
        return self.inbox.is_cut_short and self.state != CONNECTING and not self.is_halted

    def receive_data(self, data: bytes, now: float) -> None:
        """Work through what the client sent, in pieces of any size. Never raises for anything a client can send.

        Input beyond the share of this iteration of the loop (`Meter.end`) is kept for `work`.
        """
        self._heard_at = now
        if self.state == CLOSED:
            return
        data = self.inbox.add(data, self.state == CONNECTING or self.is_halted)
        if data:
            self._work(data)
        elif self.state == CONNECTING:
            self._check_login_buffer()

    def work(self, now: float) -> None:
        """Go on with what was kept. The client counts as heard: we did not read, so its silence means nothing."""
        self._heard_at = now
        if self.has_input:
            self._work_kept()

    def work_through(self, steps: Iterator[None]) -> None:
        """Do what the packet at hand asks for step by step, before anything else is read. For the handler."""
        self.inbox.steps = steps

    def halt(self) -> None:
        """Look at nothing behind the packet at hand, until `proceed`. For the handler; the transport must not read."""
        self.is_halted = True
        self._was_unread = True

    def proceed(self) -> None:
        """Process input that was kept, in the shares of later iterations of the loop. For the handler."""
        self.is_halted = False
        self.inbox.is_cut_short = self.inbox.has_rest

    def _work(self, data: bytes) -> None:
        try:
            offset = self._read(data)
        except PacketError as error:
            self._fail(error.reason, str(error))
            return
        if self.state == CLOSED:
            return
        if offset < len(data):
            self.inbox.keep(data[offset:] if offset else data)
            if self.state == CONNECTING:
                self._check_login_buffer()
        outgoing = self.acks.outgoing
        if outgoing.was_exhausted and outgoing.quota > 0 and self.can_send:
            outgoing.was_exhausted = False
            self.handler.on_writable()

    def _work_kept(self) -> None:
        """Process input that arrived while the handler decided, or that was kept for a later iteration of the loop."""
        if self.inbox.has_rest and self.state != CLOSED:
            self._work(self.inbox.take())

    def _check_login_buffer(self) -> None:
        if self.inbox.size > LOGIN_BUFFER_BYTES:
            self._fail(reasons.QUOTA_EXCEEDED, f"more than {LOGIN_BUFFER_BYTES} bytes before the login ended")

    def data_to_send(self) -> bytes:
        """Return all output and forget it. Deliveries that waited for room may then be sent."""
        outbox = self.outbox
        was_full = outbox.was_full or outbox.size >= outbox.limit
        data = outbox.take()
        if was_full and data and self.can_send:
            self.handler.on_writable()
        return data

    def next_deadline(self) -> float | None:
        """Return when the client's silence lasts too long: one and a half times its keep-alive [MQTT-3.1.2-22]."""
        if self._silence_s <= 0.0 or self.state == CLOSED or self.outbox.is_paused or self.is_halted:
            return None
        return self._heard_at + self._silence_s

    def handle_deadline(self, now: float) -> None:
        """Give a silent client up."""
        deadline = self.next_deadline()
        if deadline is None or now < deadline:
            return
        if self._was_unread:
            # Its silence counts from now on.
            self._was_unread = False
            self._heard_at = now
            return
        self._fail(reasons.KEEP_ALIVE_TIMEOUT, f"nothing was heard for {self._silence_s:g} s")

    def pause(self) -> None:
        """Send no deliveries until `resume`; the transport does not read, so silence means nothing."""
        self.outbox.pause()
        self._was_unread = True

    def resume(self) -> None:
        """Send deliveries again."""
        if self.outbox.resume() and self.can_send:
            self.handler.on_writable()

    @property
    def can_send(self) -> bool:
        """Whether there is room for deliveries. If not, `on_writable` says when there is."""
        outbox = self.outbox
        # As in `Outbox.ask_for_room`, without a call: this is asked for each delivery.
        if outbox.is_paused or outbox.size >= outbox.limit:
            outbox.was_full = True
            return False
        return self.state == OPEN

    # -- reading -----------------------------------------------------------------------------------------------

    def _read(self, data: bytes) -> int:
        """Work through all whole packets; return where the first one begins that is not. Raises PacketError.

        Long because nothing is called for a packet of up to 16 KiB but what reads it.
        """
        size = len(data)
        offset = 0
        meter = self.meter
        inbox = self.inbox
        if inbox.steps is not None and (not inbox.step() or self.state == CLOSED):
            return 0
        while offset + 2 <= size:
            if meter.work >= meter.end:
                inbox.is_cut_short = True
                break
            meter.work += 1
            first = data[offset]
            length = data[offset + 1]
            if length == 2 and 0x40 <= first <= 0x70 and offset + 4 <= size and self.state == OPEN:
                count = 0
                if self.acks.has_runs:
                    most = min(meter.end - meter.work + 1, size) << ANSWERED_SHIFT
                    count = self.acks.read_run(first, data, offset, min(size - offset >> 2, most))
                if count > 0:
                    meter.work += count >> ANSWERED_SHIFT
                    offset += 4 * count
                else:
                    self.acks.read_short(first, data[offset + 2] << 8 | data[offset + 3])
                    offset += 4
                if self.state != OPEN or self.is_halted:
                    break
                continue
            body = offset + 2
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
                if self.state == AWAITING_CONNECT and first >> 4 != CONNECT:
                    raise untimely(first >> 4)
                inbox.needed = end - offset
                return offset
            if first & 0xF0 == 0x30 and self.state == OPEN:
                self.reader.read(first, data, body, end)
            else:
                self._read_packet(first, data, body, end)
            offset = end
            if self.state == CLOSED or self.state == CONNECTING or self.is_halted:
                break
            if inbox.steps is not None and (not inbox.step() or self.state == CLOSED):
                break
        inbox.needed = _HEADER_SIZE
        return offset

    def _read_length(self, data: bytes, offset: int, size: int) -> tuple[int, int]:
        """Read a Remaining Length of more than a byte, and where the rest begins; 0: it is not all here."""
        end = min(size, offset + 4)
        index = offset
        while index < end and data[index] >= 0x80:
            index += 1
        if index == end:
            if end == offset + 4:
                raise malformed("a remaining length of more than four bytes")
            self.inbox.needed = end - offset + 2
            return 0, 0
        return read_varint(data, offset, end)

    def _read_packet(self, first: int, data: bytes, offset: int, end: int) -> None:
        packet_type = first >> 4
        check_transition(self.state, self.version, first)
        if packet_type == CONNECT:
            self._read_connect(data, offset, end)
        elif packet_type in (PUBACK, PUBREC, PUBREL, PUBCOMP):
            self.acks.read(packet_type, data, offset, end)
        elif packet_type == SUBSCRIBE:
            self.handler.on_subscribe(read_subscribe(self.version, data, offset, end, self.limits))
        elif packet_type == UNSUBSCRIBE:
            self.handler.on_unsubscribe(read_unsubscribe(self.version, data, offset, end, self.limits))
        elif packet_type == PINGREQ:
            if offset != end:
                raise malformed("PINGREQ is longer than its fields")
            self.outbox.write(_PINGRESP)
        elif packet_type == AUTH:
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
        self.version = self.acks.version = level
        self._is_v5 = self.reader.is_v5 = level == MQTT_5
        connect = read_connect(level, data, offset, end, self.limits)
        if not connect.client_id and (level == MQTT_3_1 or (level == MQTT_3_1_1 and not connect.clean_start)):
            raise PacketError(reasons.CLIENT_IDENTIFIER_NOT_VALID, "an empty client identifier")
        self._connect = connect
        properties = connect.properties
        self._wants_reasons = self._is_v5 and properties.request_problem_information != 0
        max_aliases = min(properties.topic_alias_maximum or 0, self.limits.max_outgoing_aliases)
        self.writer.begin(self._is_v5, properties.maximum_packet_size or 0, max_aliases)
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
            raise protocol_error("DISCONNECT extends a session that was to end with its connection")
        self._close()
        self.handler.on_disconnect(disconnect)

    # -- login and end -----------------------------------------------------------------------------------------

    def accept(self, connack: Connack, keep_alive_s: int, messages: MessageHandler, window: int) -> None:
        """Answer CONNECT with success; from here on messages come and go.

        The engine adds the properties of its own limits (Receive Maximum, Maximum Packet Size, Topic Alias Maximum)
        and Server Keep Alive if `keep_alive_s` (0: none) differs from what the client asked for. `window` is how many
        messages of QoS 1 and 2 we send ahead at most; the client's Receive Maximum lowers it. PUBRELs of the session
        that are still unanswered go out at once; messages to send again are to be taken from `outgoing.next_resend()`.
        What the client sent since its CONNECT is worked through before this returns.
        """
        connect = self._connect
        if self.state != CONNECTING or connect is None:
            return
        self._silence_s = keep_alive_s * 1.5
        self._max_packet_size = self.limits.max_packet_size
        receive_maximum = MAX_PACKET_ID
        if self._is_v5:
            receive_maximum = self.limits.receive_maximum
            window = min(window, connect.properties.receive_maximum or MAX_PACKET_ID)
            properties = evolve(
                self.limits.announced(connack.properties),
                authentication_method=connect.properties.authentication_method,
                server_keep_alive=None if keep_alive_s == connect.keep_alive_s else keep_alive_s,
            )
            connack = evolve(connack, properties=properties)
        self.reader.begin(messages, receive_maximum)
        self.acks.begin(messages)
        self.state = OPEN
        self._send(connack)
        messages.outgoing.begin(window)
        self.acks.resend_pubrels()
        self._work_kept()

    def refuse(self, reason: int, properties: Properties = NO_PROPERTIES) -> None:
        """Answer CONNECT with a failure, in the words of the client's version, and close [MQTT-3.2.2-7].

        Too late, after `accept`, it is a `disconnect`: there is one CONNACK [MQTT-3.2.0-2].
        """
        if self.state == OPEN:
            self.disconnect(reason, "", properties)
        elif self.state != CLOSED:
            self._send(Connack(reason=reasons.CONNACK_CODES.get(reason, reason), properties=self._wanted(properties)))
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
            self._work_kept()

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
        """Tell a client that is at fault, as far as its version has words for that, and close."""
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
        self.inbox.drop()
        self.outbox.close()

    def _wanted(self, properties: Properties) -> Properties:
        """Return what we may say beside a reason code: no texts to a client that wants none [MQTT-3.1.2-29]."""
        if self._wants_reasons or properties is NO_PROPERTIES:
            return properties
        return evolve(properties, reason_string=None, user_properties=())

    def _send(self, packet: ServerPacket) -> None:
        """Collect a packet. One too large for the client goes without its texts ([MQTT-3.2.2-19] and its like)."""
        data = write_packet(self.version, packet)
        largest = self.writer.max_packet_size
        if largest and len(data) > largest:
            data = write_packet(self.version, without_texts(packet))
            if len(data) > largest:
                # There is no way to say this to this client [MQTT-3.1.2-24].
                self._close()
                self.handler.on_failed(reasons.PACKET_TOO_LARGE, "the client takes no packet as large as its answer")
                return
        self.outbox.write(data)

    def send_suback(self, packet_id: int, codes: list[int], properties: Properties = NO_PROPERTIES) -> None:
        """Answer SUBSCRIBE, one code per filter in order; codes of 0x80 or more are 0x80 in 3.1.1, QoS 0 in 3.1."""
        self._send(Suback(packet_id=packet_id, reasons=tuple(codes), properties=self._wanted(properties)))

    def send_unsuback(self, packet_id: int, codes: list[int], properties: Properties = NO_PROPERTIES) -> None:
        """Answer UNSUBSCRIBE, one code per filter in order."""
        self._send(Unsuback(packet_id=packet_id, reasons=tuple(codes), properties=self._wanted(properties)))
