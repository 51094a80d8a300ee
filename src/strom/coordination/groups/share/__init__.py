"""Share groups (KIP-932): the broker shares out the partitions, several members may read one."""
