"""strom's queues beside RabbitMQ."""
