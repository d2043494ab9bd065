"""Limits of one MQTT connection; the reasons for the numbers are in docs/mqtt.md."""

from typing import Final

from attrs import evolve, frozen

from artemis_mqtt.engine.properties import Properties

# Bytes that may arrive while a login is being decided. A client need not wait for CONNACK before it publishes (MQTT
# MQTT 5.0 §3.1.4): this is the largest single read of the event loops, and what one in a hurry sends in a few
# milliseconds.
LOGIN_BUFFER_BYTES: Final = 256 * 1024


@frozen(kw_only=True)
class ConnectionLimits:
    """Limits that the engine enforces against its client. Sizes in bytes."""

    login_packet_size: int = 128 * 1024
    """Largest packet before the login is over: a CONNECT with a will, or an AUTH with a token."""
    max_packet_size: int = 16 * 1024 * 1024
    """Largest packet after it; announced to version 5."""
    receive_maximum: int = 1000
    """QoS 1 and 2 messages a client may send ahead of their acknowledgements; announced to version 5."""
    topic_alias_maximum: int = 32
    """Topic aliases a client may use; announced to version 5."""
    max_outgoing_aliases: int = 32
    """Topic aliases that we use towards a client which allows as many."""
    max_topic_levels: int = 128
    """Levels of a topic name or filter."""
    max_subscribe_filters: int = 1024
    """Topic filters of one SUBSCRIBE or UNSUBSCRIBE."""
    output_limit_bytes: int = 1024 * 1024
    """Output that may wait before deliveries stop."""

    def announced(self, properties: Properties) -> Properties:
        """Return the properties of a version 5 CONNACK with the limits that the client has to keep to added."""
        return evolve(
            properties,
            receive_maximum=self.receive_maximum,
            topic_alias_maximum=self.topic_alias_maximum or None,
            maximum_packet_size=self.max_packet_size,
        )
