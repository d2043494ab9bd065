"""Queues: order, priority, paging, dispatch to consumers, and what becomes of each delivery."""
