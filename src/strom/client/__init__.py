"""Clients of any Kafka: connections, producers, consumers, admin calls, groups, compacted topics."""
