"""AMQP 1.0: an engine of our own, and what its links mean to the broker."""

from artemis_amqp.broker.manager import AmqpProtocolManager

__all__ = ["AmqpProtocolManager"]
