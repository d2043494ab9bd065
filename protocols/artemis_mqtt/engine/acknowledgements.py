"""PUBACK, PUBREC, PUBREL and PUBCOMP in both directions: two per message, as octets.

    first byte, 2, identifier            all of them in 3.x, and where a version 5 has nothing else to say
    first byte, 3, identifier, reason    version 5

The client's are looked up in the machines of `flight`. Ours are answers that may have to wait for a store:
`PendingAcks` collects them as octets, in the order of their causes, and sends them in one piece.
"""

from typing import Final

from artemis_mqtt.engine import reasons
from artemis_mqtt.engine.codec import read_ack
from artemis_mqtt.engine.delivery_run import all_acks, count_acks
from artemis_mqtt.engine.fields import ONE_BYTE, write_packet_id
from artemis_mqtt.engine.flight import RECEIVED, RELEASED, SENT, OutgoingFlight
from artemis_mqtt.engine.handler import MessageHandler
from artemis_mqtt.engine.packets import MQTT_3_1, MQTT_5
from artemis_mqtt.engine.publish_reader import PublishReader
from artemis_mqtt.engine.reasons import malformed, protocol_error
from artemis_mqtt.engine.transitions import PUBACK, PUBREC, PUBREL
from artemis_py.wire.outbox import Outbox

PUBACK_HEAD: Final = b"\x40\x02"
PUBREC_HEAD: Final = b"\x50\x02"
PUBREL_HEAD: Final = b"\x62\x02"
PUBCOMP_HEAD: Final = b"\x70\x02"

# The same with the first octet of an identifier: with it an answer is two octet strings that exist already.
_PUBACK_HEADS: Final = [PUBACK_HEAD + octet for octet in ONE_BYTE]
_PUBREC_HEADS: Final = [PUBREC_HEAD + octet for octet in ONE_BYTE]
_PUBCOMP_HEADS: Final = [PUBCOMP_HEAD + octet for octet in ONE_BYTE]

_PUBACK_BYTE: Final = 0x40
_PUBREC_BYTE: Final = 0x50
_PUBREL_BYTE: Final = 0x62
_PUBREL_DUP_BYTE: Final = 0x6A
"""Sent again, as 3.1 marks it."""
_PUBCOMP_BYTE: Final = 0x70


def encode_ack(head: bytes, packet_id: int, reason: int) -> bytes:
    """Encode an acknowledgement; reason 0 is left out."""
    if reason:
        return bytes((head[0], 3, packet_id >> 8, packet_id & 0xFF, reason))
    return head + ONE_BYTE[packet_id >> 8] + ONE_BYTE[packet_id & 0xFF]


class Acknowledgements:
    """The acknowledgements of one connection."""

    __slots__ = ("_handler", "_outbox", "_reader", "outgoing", "version")

    def __init__(self, handler: MessageHandler, outbox: Outbox, reader: PublishReader) -> None:
        self._handler: MessageHandler = handler
        self._outbox: Outbox = outbox
        self._reader: PublishReader = reader
        self.outgoing: OutgoingFlight = handler.outgoing
        self.version: int = 0
        """Protocol level of the CONNECT; 0 before it."""

    def begin(self, handler: MessageHandler) -> None:
        """Take the handler of a client that was accepted."""
        self._handler = handler
        self.outgoing = handler.outgoing

    # -- the client's ------------------------------------------------------------------------------------------

    @property
    def has_runs(self) -> bool:
        """Whether `read_run` may find something."""
        return len(self.outgoing.deliveries.runs) > 0

    def read_run(self, first: int, data: bytes, offset: int, most: int) -> int:
        """Read acknowledgements that come in the order of the deliveries, at most so many; return how many.

        At `offset` begins one of a packet identifier and nothing else; `most` of that size are in `data`. If it is not
        the next one, nothing is read.
        """
        outgoing = self.outgoing
        packet_id = data[offset + 2] << 8 | data[offset + 3]
        count = 0
        if first == _PUBACK_BYTE:
            run = outgoing.awaiting(1, False)
            if run is not None and run.first_id == packet_id:
                count = count_acks(data, offset, PUBACK_HEAD, packet_id, min(most, run.count))
                outgoing.end_run(run, count)
                self._handler.on_pubacks(run, count)
        elif first == _PUBREC_BYTE:
            run = outgoing.awaiting(2, True)
            if run is not None and run.first_id + run.received == packet_id:
                count = count_acks(data, offset, PUBREC_HEAD, packet_id, min(most, run.count - run.received))
                run.received += count
                self._handler.on_pubrecs(run, packet_id, count)
        elif first == _PUBCOMP_BYTE:
            run = outgoing.awaiting(2, False)
            if run is not None and run.first_id == packet_id:
                count = count_acks(data, offset, PUBCOMP_HEAD, packet_id, min(most, run.released))
                outgoing.end_run(run, count)
        return count

    def read_short(self, first: int, packet_id: int) -> None:
        """Read an acknowledgement of a packet identifier and nothing else: nearly all of them. Raises PacketError."""
        if packet_id == 0:
            raise protocol_error("packet identifier 0")
        if first == _PUBACK_BYTE:
            delivery = self.outgoing.acknowledge(packet_id)
            if delivery is not None:
                self._handler.on_puback(delivery, 0)
        elif first == _PUBREL_BYTE:
            self._on_pubrel(packet_id)
        elif first == _PUBREC_BYTE:
            self._on_pubrec(packet_id, 0)
        elif first == _PUBCOMP_BYTE:
            delivery = self.outgoing.complete(packet_id)
            if delivery is not None:
                self._handler.on_pubcomp(delivery)
        elif first == _PUBREL_DUP_BYTE and self.version == MQTT_3_1:
            self._on_pubrel(packet_id)
        else:
            raise malformed(f"flags {first & 0x0F:#x} in a packet of type {first >> 4}")

    def read(self, packet_type: int, data: bytes, offset: int, end: int) -> None:
        """Read an acknowledgement with a reason code (MQTT 5.0 §3.4.2). Raises PacketError."""
        if self.version != MQTT_5:
            raise malformed(f"a packet of type {packet_type} that is not two bytes long")
        packet_id, reason = read_ack(data, offset, end, packet_type)
        if packet_type == PUBACK:
            delivery = self.outgoing.acknowledge(packet_id)
            if delivery is not None:
                self._handler.on_puback(delivery, reason)
        elif packet_type == PUBREC:
            self._on_pubrec(packet_id, reason)
        elif packet_type == PUBREL:
            self._on_pubrel(packet_id)
        else:
            delivery = self.outgoing.complete(packet_id)
            if delivery is not None:
                self._handler.on_pubcomp(delivery)

    def _on_pubrec(self, packet_id: int, reason: int) -> None:
        known = self.outgoing.deliveries.listed(packet_id)
        if known is not None and known.qos == 2 and known.state == SENT and known.is_counted and reason < 0x80:
            # Nearly always. The rest says the same, and what else there is.
            known.state = RECEIVED
            self._handler.on_pubrec(known, reason)
            return
        self.outgoing.unfold()
        refused = reason >= 0x80
        known = self.outgoing.deliveries.get(packet_id)
        earlier = RECEIVED if known is None else known.state
        delivery = self.outgoing.receive(packet_id, refused)
        if delivery is None:
            # A session that we no longer have: let the client finish its part [MQTT-4.3.3-1] (MQTT 5.0 §4.4).
            if not refused:
                self._write(PUBREL_HEAD, packet_id, reasons.PACKET_IDENTIFIER_NOT_FOUND)
        elif earlier == RELEASED and not refused:
            self._write(PUBREL_HEAD, packet_id, 0)
        elif earlier != RECEIVED or refused:
            self._handler.on_pubrec(delivery, reason)

    def _on_pubrel(self, packet_id: int) -> None:
        received = self._reader.incoming.received
        if packet_id in received:
            received.discard(packet_id)
            self._handler.on_pubrel(packet_id)
        else:
            # It was released before, or its session is gone: the client may forget it, too [MQTT-4.3.3-11].
            self._write(PUBCOMP_HEAD, packet_id, reasons.PACKET_IDENTIFIER_NOT_FOUND)

    # -- ours --------------------------------------------------------------------------------------------------

    def send_pubrels(self, first_id: int, count: int) -> None:
        """Release deliveries whose PUBREC came: so many, whose packet identifiers follow each other."""
        self.outgoing.release(first_id, count)
        if count == 1:
            self._outbox.write(PUBREL_HEAD + write_packet_id(first_id))
        else:
            start = 4 * (first_id - 1)
            self._outbox.write(all_acks(PUBREL_HEAD)[start : start + 4 * count])

    def resend_pubrels(self) -> None:
        """Send again what an earlier connection sent and the client did not answer [MQTT-4.4.0-1]."""
        for delivery in self.outgoing.deliveries.in_order():
            if delivery.state == RELEASED:
                self._write(PUBREL_HEAD, delivery.packet_id, 0)

    def _write(self, head: bytes, packet_id: int, reason: int) -> None:
        self._outbox.write(encode_ack(head, packet_id, reason if self.version == MQTT_5 else 0))

    def collect(self) -> "PendingAcks":
        """Return a collection of answers for this client."""
        return PendingAcks(self._outbox, self._reader)


class PendingAcks:
    """Answers to PUBLISH and PUBREL in the order of their causes, as octets, until `send`."""

    __slots__ = ("_finished", "_octets", "_outbox", "_reader", "_refused")

    def __init__(self, outbox: Outbox, reader: PublishReader) -> None:
        self._outbox: Outbox = outbox
        self._reader: PublishReader = reader
        self._octets: list[bytes] = []
        self._finished: int = 0
        """Number of them that are the last answer to their message."""
        self._refused: list[int] = []
        """Identifiers of QoS 2 that are free again once the refusal is out."""

    def puback(self, packet_id: int, reason: int = 0) -> None:
        """Answer a QoS 1 message; the reason is left out in 3.x."""
        if reason and self._reader.is_v5:
            self._octets.append(encode_ack(PUBACK_HEAD, packet_id, reason))
        else:
            self._octets.append(_PUBACK_HEADS[packet_id >> 8])
            self._octets.append(ONE_BYTE[packet_id & 0xFF])
        self._finished += 1

    def pubrec(self, packet_id: int, reason: int = 0) -> None:
        """Answer a QoS 2 message; 0x80 or more refuses it and frees its identifier (version 5 only)."""
        if not self._reader.is_v5:
            reason = 0
        elif reason >= 0x80:
            self._finished += 1
            self._refused.append(packet_id)
        if reason:
            self._octets.append(encode_ack(PUBREC_HEAD, packet_id, reason))
        else:
            self._octets.append(_PUBREC_HEADS[packet_id >> 8])
            self._octets.append(ONE_BYTE[packet_id & 0xFF])

    def pubcomp(self, packet_id: int) -> None:
        """Answer PUBREL."""
        self._octets.append(_PUBCOMP_HEADS[packet_id >> 8])
        self._octets.append(ONE_BYTE[packet_id & 0xFF])
        self._finished += 1

    def send(self) -> None:
        """Write all of them."""
        reader = self._reader
        # Never below 0: a PUBREL may belong to a message of an earlier connection (MQTT 5.0 §4.9).
        reader.unanswered = max(reader.unanswered - self._finished, 0)
        for packet_id in self._refused:
            reader.incoming.received.discard(packet_id)
        self._outbox.write(b"".join(self._octets))
