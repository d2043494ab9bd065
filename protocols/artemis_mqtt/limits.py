"""Limits of one MQTT connection; the reasons for the numbers are in docs/mqtt.md."""

from typing import Final

from attrs import frozen

# The largest Remaining Length there is (MQTT 5.0 §1.5.5), plus its own four bytes and the first one.
LARGEST_PACKET_BYTES: Final = 268_435_455 + 5

# Bytes that may arrive while a login is being decided; a pipelining client sends a few hundred.
LOGIN_BUFFER_BYTES: Final = 65536


@frozen(kw_only=True)
class ConnectionLimits:
    """What the engine enforces against its client. Sizes in bytes."""

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
