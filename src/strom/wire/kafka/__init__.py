"""The Kafka protocol: messages and record batches as bytes and as values."""
