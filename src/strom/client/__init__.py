"""How programs talk to any Kafka: connections, producers, consumers, admin, groups, compacted topics."""
