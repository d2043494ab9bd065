"""Exchanges: bindings by key, pattern or headers, between what is sent and the queues (qpid-exchanges §1)."""
