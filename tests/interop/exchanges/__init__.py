"""What exchanges do, in programs that run against Apache Qpid Broker-J, RabbitMQ and this broker."""
