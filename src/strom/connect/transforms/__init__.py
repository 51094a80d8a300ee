"""Single message transforms, and the predicates that select records for them."""

from strom.connect.transforms.catalogue import PREDICATES, TRANSFORMS
from strom.connect.transforms.chain import Chain, make_chain

__all__ = ["PREDICATES", "TRANSFORMS", "Chain", "make_chain"]
