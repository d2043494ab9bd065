"""The way of a message to its queues: directory, routing tables, limits, and undeliverable messages."""
