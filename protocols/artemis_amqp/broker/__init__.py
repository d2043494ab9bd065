"""The broker's side of AMQP 1.0: the meaning of connections, links and transactions."""
