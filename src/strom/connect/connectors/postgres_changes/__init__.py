"""Every change of PostgreSQL tables, in the order of commits, by logical replication."""
