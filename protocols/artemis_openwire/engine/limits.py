"""Limits of one OpenWire connection; docs/openwire.md has the reasons for the numbers."""

from attrs import frozen

from artemis_openwire.engine.structure import LAST_VERSION


@frozen(kw_only=True)
class ConnectionLimits:
    """Limits that the engine enforces against its client, and what it offers. Sizes in bytes."""

    login_frame_size: int = 64 * 1024
    """Largest frame before the login is over (reliability §4)."""
    login_buffer_size: int = 256 * 1024
    """Octets that may arrive while a login is being decided: the largest single read of the event loops."""
    command_size: int = 1024 * 1024
    """Largest command that is not a message."""
    max_frame_size: int = 100 * 1024 * 1024
    """Largest message; announced. ActiveMQ announces the same."""
    large_size: int = 1 << 31
    """Size from which the content of a message does not stay in memory."""
    version: int = LAST_VERSION
    """Newest version that is offered."""
    max_inactivity_ms: int = 30_000
    """Silence after which a client counts as gone, unless it offers less; 0: never."""
    initial_delay_ms: int = 10_000
    """Time after the negotiation in which silence means nothing, unless the client offers less."""
    sends_keep_alive: bool = True
    """Whether the client is sent a sign of life when it would otherwise count us as gone."""
    output_limit_bytes: int = 1024 * 1024
    """Output that may wait before deliveries stop."""
