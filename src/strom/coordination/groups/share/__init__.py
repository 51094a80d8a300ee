"""Share groups (KIP-932): the coordinator assigns partitions, and several members may share one."""
