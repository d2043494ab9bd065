"""AMQP 1.0 as the carrier of the mesh: connections between brokers (mesh §5.2, §5.3)."""
