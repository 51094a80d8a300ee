"""AMQP 0-9-1, with RabbitMQ's extensions, as bytes and as values."""
