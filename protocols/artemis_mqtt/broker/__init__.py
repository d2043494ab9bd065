"""What the packets of MQTT mean to the broker: sessions, subscriptions, messages."""
