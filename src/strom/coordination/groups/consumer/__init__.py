"""Consumer groups of the new protocol (KIP-848): the coordinator shares out, members follow one by one.

The group has an epoch, raised whenever something changes that matters for the sharing out. For each
epoch there is a target assignment (`target.py`). Every member walks towards it on its own, heartbeat by
heartbeat (`reconciliation.py`): it gives up what it shall not have, and gets what others have given up.
"""
