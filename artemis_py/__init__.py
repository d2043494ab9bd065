"""A message broker: AMQP 1.0, MQTT and OpenWire clients on one core of addresses and queues."""
