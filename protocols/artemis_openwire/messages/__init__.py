"""OpenWire messages: how they arrive and are delivered, and the core's neutral view of them."""
