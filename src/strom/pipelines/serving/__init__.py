"""Queries over views: DuckDB merges the states of the batch and speed layers on read."""
