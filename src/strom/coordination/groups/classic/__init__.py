"""Classic groups: one member assigns the partitions, the coordinator passes the assignment on."""
