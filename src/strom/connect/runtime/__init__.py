"""The runtime: workers that share out connectors and tasks, run them, and answer Kafka Connect's REST."""
