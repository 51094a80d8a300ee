"""Tables of PostgreSQL and SQLite as sources and sinks."""
