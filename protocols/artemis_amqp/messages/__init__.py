"""AMQP messages: sections, the core's neutral view of them, and large bodies."""
