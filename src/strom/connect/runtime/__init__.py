"""The runtime: workers that assign connectors and tasks, run them, and serve Kafka Connect's REST."""
