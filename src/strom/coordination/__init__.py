"""Pure state machines: commands in, records and responses out; only `replay` changes state."""
