"""MQTT clients that share no code with the broker."""
