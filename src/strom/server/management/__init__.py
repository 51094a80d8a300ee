"""The management interface of queues: RabbitMQ's most used HTTP calls."""
