"""Confluent's REST interface over the registry."""
