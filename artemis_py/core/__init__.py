"""The address model: addresses, queues, routing and the promises about messages. Pure: no I/O, no clock."""
