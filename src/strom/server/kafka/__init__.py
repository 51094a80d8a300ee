"""Kafka's side of the server: one handler per api key."""
