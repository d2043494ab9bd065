"""The way of a message to its queues: directory, routing tables, limits, and messages that nobody could use."""
