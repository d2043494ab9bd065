"""The packets of MQTT that are rare enough to be objects: what opens, closes and changes a conversation.

PUBLISH and its acknowledgements come per message, so they are calls instead. A packet is the same object in every
version; what a version lacks has the value that means its behaviour.
"""

from enum import IntEnum
from typing import Final

from attrs import frozen

from artemis_mqtt.engine.properties import NO_PROPERTIES, Properties

MQTT_3_1: Final = 3
MQTT_3_1_1: Final = 4
MQTT_5: Final = 5
"""Protocol levels as in CONNECT (MQTT 5.0 §3.1.2.2)."""


class PacketType(IntEnum):
    """The high half of the first byte (MQTT 5.0 §2.1.2)."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


@frozen(kw_only=True)
class Will:
    """The message to publish in the client's name when it is gone (MQTT 5.0 §3.1.2.5)."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES
    publish_properties: bytes = b""
    """Properties for the PUBLISH, encoded as for `MqttHandler.on_publish`, without delay and expiry."""


@frozen(kw_only=True)
class Connect:
    """A client introduces itself (MQTT 5.0 §3.1)."""

    version: int = MQTT_5
    """MQTT_3_1, MQTT_3_1_1 or MQTT_5."""
    client_id: str = ""
    """Empty: the server is to assign one (never in 3.1, where the engine refuses that)."""
    clean_start: bool = True
    """Clean Session in 3.x."""
    keep_alive_s: int = 0
    """0: the client wants none."""
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = NO_PROPERTIES


@frozen(kw_only=True)
class Connack:
    """The answer to CONNECT (MQTT 5.0 §3.2)."""

    reason: int = 0
    """A version 5 code; the engine writes the return code of 3.x from it."""
    session_present: bool = False
    properties: Properties = NO_PROPERTIES
    """Not written to 3.x."""


@frozen(kw_only=True)
class Subscription:
    """A topic filter of a SUBSCRIBE with its options (MQTT 5.0 §3.8.3.1)."""

    topic_filter: str
    """As sent, with `$share/group/` if it has that; its syntax is valid."""
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    """0: send retained messages; 1: only for a new subscription; 2: never."""


@frozen(kw_only=True)
class Subscribe:
    """A client subscribes (MQTT 5.0 §3.8); answered by a SUBACK with as many codes as there are subscriptions."""

    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = NO_PROPERTIES

    @property
    def identifier(self) -> int:
        """The Subscription Identifier; 0: none."""
        identifiers = self.properties.subscription_identifiers
        return identifiers[0] if identifiers else 0


@frozen(kw_only=True)
class Suback:
    """The answer to SUBSCRIBE (MQTT 5.0 §3.9)."""

    packet_id: int
    reasons: tuple[int, ...]
    """Version 5 codes, in the order of the filters; the engine writes what 3.x knows."""
    properties: Properties = NO_PROPERTIES


@frozen(kw_only=True)
class Unsubscribe:
    """A client gives filters up (MQTT 5.0 §3.10)."""

    packet_id: int
    topic_filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


@frozen(kw_only=True)
class Unsuback:
    """The answer to UNSUBSCRIBE (MQTT 5.0 §3.11)."""

    packet_id: int
    reasons: tuple[int, ...]
    """In the order of the filters; 3.x has none on the wire."""
    properties: Properties = NO_PROPERTIES


@frozen(kw_only=True)
class Disconnect:
    """The last packet (MQTT 5.0 §3.14)."""

    reason: int = 0
    properties: Properties = NO_PROPERTIES


@frozen(kw_only=True)
class Auth:
    """A step of enhanced authentication (MQTT 5.0 §3.15)."""

    reason: int = 0
    properties: Properties = NO_PROPERTIES
