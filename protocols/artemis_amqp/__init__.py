"""AMQP 1.0 for the broker: codec, sans-IO engine, and what its links mean on the core's addresses and queues."""
