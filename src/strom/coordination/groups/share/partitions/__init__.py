"""Share partitions (KIP-932): which member has acquired which records. A pure state machine."""
