"""RabbitMQ: definitions as `rabbitmqctl export_definitions` writes them."""
