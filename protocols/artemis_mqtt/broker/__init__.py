"""MQTT inside the broker: logins, sessions, subscriptions and messages."""
