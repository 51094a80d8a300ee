"""strom beside the real Apache Kafka: the same clients, on the same machine, in turns."""
