"""The engine of MQTT: octets, and which packet may come when. Knows nothing of a broker."""
