"""The engine of AMQP 1.0: octets, and which frame may come when. Knows nothing of a broker."""
