"""Limits of one AMQP connection; the reasons for the numbers are in reliability §4 and amqp10 §21."""

from typing import Final

from attrs import frozen

MIN_MAX_FRAME_SIZE: Final = 512
"""Size in bytes of a frame that every peer must accept (AMQP 1.0 §2.7.1)."""


MAX_DELIVERY_FRAMES: Final = 65535

# Largest frame before a peer has logged in and opened: tokens and Kerberos tickets exceed the standard's 512 bytes.
LOGIN_FRAME_SIZE: Final = 4096

# Bytes that may arrive while a login is being decided; a pipelining client sends a few hundred.
LOGIN_BUFFER_BYTES: Final = 65536

# Transfer frames a session may have coming in, topped up at half: two reads of 64 KiB hold about a thousand.
INCOMING_WINDOW: Final = 2048

# Transfers that may still arrive on a link after we detached it: one window, and another one that the peer got before
# it read our detach.
ERRANT_FRAMES: Final = 2 * INCOMING_WINDOW

# Bytes of memory that a frame of an unfinished delivery costs beside its octets.
FRAGMENT_OVERHEAD: Final = 64

# Bytes that an attached link is counted with: it takes 1,816 with its producer, 2,996 with a consumer, which the core
# counts as well (tracemalloc, pure).
LINK_BYTES: Final = 2560

# Silence shorter than this would make heartbeats a load of their own: refused (amqp10 §5.3).
MIN_IDLE_TIME_OUT_MS: Final = 100


@frozen(kw_only=True)
class ConnectionLimits:
    """Limits that the engine enforces on its peer."""

    max_frame_size: int = 131072
    """Largest frame we accept, and the largest we send; bytes."""
    channel_max: int = 255
    handle_max: int = 1023
    max_message_size: int = 100 * 1024 * 1024
    """Bytes of one message; announced on every link."""
    idle_timeout_s: float = 60.0
    """Silence after which the connection is closed; half of it is announced. 0: never."""
    max_incomplete_bytes: int = 256 * 1024 * 1024
    """Bytes of the unfinished deliveries of all links: a little more than two of the largest messages."""
    output_limit_bytes: int = 1024 * 1024
    """Output in bytes that may wait before links stop sending."""
