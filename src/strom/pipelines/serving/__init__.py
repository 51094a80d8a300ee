"""Answers from batch and speed together: states merged on read, in DuckDB."""
