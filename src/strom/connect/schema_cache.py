"""A cache of values that are derived from a schema, keyed by the identity of the schema object.

Comparing or hashing a large schema for each record would cost more than it saves, and a converter returns
the same object for the same schema.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from strom.connect.api.schema import Schema

T = TypeVar("T")


class SchemaCache(Generic[T]):
    """Derives a value once per schema; clears itself when it exceeds its size."""

    def __init__(self, derive: Callable[[Schema], T], size: int = 1000) -> None:
        self._derive = derive
        self._size = size
        # The schema is kept alive, so that its id is not reused.
        self._known: dict[int, tuple[Schema, T]] = {}

    def __call__(self, schema: Schema) -> T:
        found = self._known.get(id(schema))
        if found is not None:
            return found[1]
        made = self._derive(schema)
        if len(self._known) >= self._size:
            self._known.clear()
        self._known[id(schema)] = (schema, made)
        return made
