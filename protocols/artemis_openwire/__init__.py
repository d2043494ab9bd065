"""OpenWire 1 to 12, the protocol of ActiveMQ Classic: the engine. The broker side is not built yet."""
