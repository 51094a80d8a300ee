"""AMQP queues as sources, and exchanges as sinks."""
