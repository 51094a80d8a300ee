"""Share partitions (KIP-932): which member has acquired which records, as a pure state machine."""
