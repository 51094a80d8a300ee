"""Rows of PostgreSQL and SQLite tables in and out."""
