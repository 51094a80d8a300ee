"""Pure state machines: commands in, records and answers out; only `replay` changes state."""
