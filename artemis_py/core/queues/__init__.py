"""Queues: order, priority, paging, dispatch to consumers, and settlement of deliveries."""
