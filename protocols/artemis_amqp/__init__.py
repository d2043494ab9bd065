"""AMQP 1.0: an engine of our own, and what its links mean to the broker."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artemis_amqp.broker.manager import AmqpProtocolManager

__all__ = ["AmqpProtocolManager"]


def __getattr__(name: str) -> object:
    """Import the broker's side when it is asked for: programs that use `client` alone start half a second sooner."""
    if name == "AmqpProtocolManager":
        from artemis_amqp.broker.manager import AmqpProtocolManager

        return AmqpProtocolManager
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
