"""Further routing keys that a message names in its headers: copies, and copies nobody is told of."""

from strom.model.tables import Table
from strom.queues.errors import precondition_failed

COPIES = "CC"
BLIND_COPIES = "BCC"


def further_keys(headers: Table) -> list[str]:
    """All of them; PRECONDITION_FAILED if they are no list of texts."""
    keys = []
    for name in (COPIES, BLIND_COPIES):
        named = headers.get(name, [])
        if not isinstance(named, list) or not all(isinstance(key, str) for key in named):
            raise precondition_failed(f"the header {name} must be a list of routing keys")
        keys += named
    return keys
