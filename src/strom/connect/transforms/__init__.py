"""Single message transforms, and the predicates that select records for them."""

from strom.connect.transforms.catalogue import PREDICATES, TRANSFORMS
from strom.connect.transforms.chain import Chain, known_names, make_chain
from strom.connect.transforms.contract import Part, PartTransform, Predicate, Transform

__all__ = [
    "PREDICATES",
    "TRANSFORMS",
    "Chain",
    "Part",
    "PartTransform",
    "Predicate",
    "Transform",
    "known_names",
    "make_chain",
]
