"""Spark: the session, and how it reads, parses, prepares, folds and writes rows."""
