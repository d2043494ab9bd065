"""Which MQTT packet may come when, and with which flags.

AWAITING_CONNECT -> CONNECTING -> OPEN -> CLOSED
                     |      ^
                     v      |
                  AUTHENTICATING
"""

from typing import Final

from artemis_mqtt.engine.packets import MQTT_3_1, MQTT_5
from artemis_mqtt.engine.reasons import PacketError, malformed, protocol_error

AWAITING_CONNECT: Final = 0
CONNECTING: Final = 1
"""The handler decides about a CONNECT or an AUTH; what arrives until then waits."""
AUTHENTICATING: Final = 2
"""The client has the next step of enhanced authentication."""
OPEN: Final = 3
CLOSED: Final = 4

# Packet types: the high four bits of the first byte.
CONNECT: Final = 1
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
UNSUBSCRIBE: Final = 10
PINGREQ: Final = 12
DISCONNECT: Final = 14
AUTH: Final = 15

# Whatever is absent is a protocol error and ends the connection: CONNECT comes first [MQTT-3.1.0-1] and once
# [MQTT-3.1.0-2]; a client that authenticates sends nothing else [MQTT-3.1.2-30].
TRANSITIONS: Final = {
    (AWAITING_CONNECT, CONNECT): CONNECTING,
    (AUTHENTICATING, AUTH): CONNECTING,
    (AUTHENTICATING, DISCONNECT): CLOSED,
    (OPEN, PUBLISH): OPEN,
    (OPEN, PUBACK): OPEN,
    (OPEN, PUBREC): OPEN,
    (OPEN, PUBREL): OPEN,
    (OPEN, PUBCOMP): OPEN,
    (OPEN, SUBSCRIBE): OPEN,
    (OPEN, UNSUBSCRIBE): OPEN,
    (OPEN, PINGREQ): OPEN,
    (OPEN, AUTH): OPEN,
    (OPEN, DISCONNECT): CLOSED,
}

# Low four bits of the first byte, by packet type; PUBLISH has flags of its own (MQTT 5.0 §2.1.3) [MQTT-2.1.3-1].
FLAGS: Final = {PUBREL: 2, SUBSCRIBE: 2, UNSUBSCRIBE: 2}


def untimely(packet_type: int) -> PacketError:
    """Return the error for a packet that is not allowed now."""
    return protocol_error(f"a packet of type {packet_type} that is not allowed now")


def check_transition(state: int, version: int, first: int) -> None:
    """Look a packet up by its first byte. Raises PacketError if it may not come now, or not with these flags."""
    packet_type = first >> 4
    if (state, packet_type) not in TRANSITIONS or (packet_type == AUTH and version != MQTT_5):
        raise untimely(packet_type)
    if packet_type != PUBLISH and first & 0x0F != FLAGS.get(packet_type, 0):
        # 3.1 sends these again on its own connection, with DUP (MQTT 5.0 §2.1 there).
        if version != MQTT_3_1 or packet_type not in FLAGS or first & 0x07 != FLAGS[packet_type]:
            raise malformed(f"flags {first & 0x0F:#x} in a packet of type {packet_type}")
