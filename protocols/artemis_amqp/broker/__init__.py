"""What connections, links and transactions of AMQP 1.0 mean to the broker."""
