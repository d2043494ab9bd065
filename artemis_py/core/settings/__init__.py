"""Settings of addresses, queues and the broker: what there is, its defaults, and which of them meet at a name."""
