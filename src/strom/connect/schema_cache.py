"""What was derived from a schema, remembered by the schema object itself.

Comparing or hashing a large schema for each record would cost more than the work it saves; and a
converter hands out the same object for the same schema.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from strom.connect.api.schema import Schema

T = TypeVar("T")


class SchemaCache(Generic[T]):
    """Derives a value once per schema; forgets everything when there are too many."""

    def __init__(self, derive: Callable[[Schema], T], size: int = 1000) -> None:
        self._derive = derive
        self._size = size
        # The schema is kept too, so that its id cannot become another's.
        self._known: dict[int, tuple[Schema, T]] = {}

    def __call__(self, schema: Schema) -> T:
        """What belongs to this schema."""
        found = self._known.get(id(schema))
        if found is not None:
            return found[1]
        made = self._derive(schema)
        if len(self._known) >= self._size:
            self._known.clear()
        self._known[id(schema)] = (schema, made)
        return made
