"""The genuine client of ActiveMQ against brokers that speak OpenWire."""
