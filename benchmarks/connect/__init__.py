"""strom's Connect beside Kafka's own: the same copies, in records a second."""
