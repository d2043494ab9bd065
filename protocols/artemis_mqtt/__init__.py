"""MQTT 3.1, 3.1.1 and 5.0: an engine of our own, and what its packets mean to the broker."""

from artemis_mqtt.broker.manager import MqttProtocolManager

__all__ = ["MqttProtocolManager"]
