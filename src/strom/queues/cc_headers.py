"""Sender-selected distribution: additional routing keys in the headers CC and BCC.

BCC is removed before delivery, so that consumers do not see it.
"""

from strom.model.tables import Table
from strom.queues.errors import precondition_failed

COPIES = "CC"
BLIND_COPIES = "BCC"


def cc_routing_keys(headers: Table) -> list[str]:
    """The keys of both headers; raise PRECONDITION_FAILED if one is not a list of strings."""
    keys = []
    for name in (COPIES, BLIND_COPIES):
        named = headers.get(name, [])
        if not isinstance(named, list) or not all(isinstance(key, str) for key in named):
            raise precondition_failed(f"the header {name} must be a list of routing keys")
        keys += named
    return keys
