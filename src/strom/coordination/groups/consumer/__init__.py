"""Consumer groups of the new protocol (KIP-848): the coordinator assigns, members reconcile one by one.

The group epoch is bumped by every change that affects the assignment. For each epoch there is a target
assignment (`target.py`). Every member reconciles to it independently, heartbeat by heartbeat
(`reconciliation.py`): it revokes partitions, and gets those that other members have released.
"""
