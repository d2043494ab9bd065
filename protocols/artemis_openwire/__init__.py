"""OpenWire 1 to 12, the protocol of ActiveMQ Classic: an engine, and what its commands mean to the broker."""

from artemis_openwire.broker.manager import OpenWireProtocolManager

__all__ = ["OpenWireProtocolManager"]
