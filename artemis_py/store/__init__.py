"""Implementations of what the core asks of storage."""
