"""Arrays of several dimensions: lists of lists, as many as the column was declared with.

PostgreSQL does not hold values to the declaration, but a schema does: a value with another number of
dimensions is refused.
"""

from typing import Any

from strom.connect.api import ConnectError, Schema, Type
from strom.connect.api.schema import array
from strom.connect.connectors.databases.postgres_types import Mapped, Parse, optional


def with_dimensions(one: Mapped, dimensions: int) -> Mapped:
    """An array type of so many dimensions, from that of one dimension; other types as they are."""
    parse = one.parse
    if one.schema.type is not Type.ARRAY or parse is None:
        return one
    schema = one.schema
    for _ in range(dimensions - 1):
        schema = array(optional(schema))
    return Mapped(schema, _checked(parse, _depth_of_schema(schema)))


def _checked(parse: Parse, depth: int) -> Parse:
    def checked(text: str) -> Any:
        value = parse(text)
        found, innermost = 0, value
        while isinstance(innermost, list) and innermost:
            found, innermost = found + 1, innermost[0]
        # An empty list or a null further out than the items says nothing about dimensions.
        if found > depth or (found < depth and innermost is not None and innermost != []):
            raise ConnectError(
                f"An array has {found} dimensions, but its column was declared with {depth}. Declare "
                "it with as many [] as its values have."
            )
        return value

    return checked


def _depth_of_schema(schema: Schema) -> int:
    depth = 0
    inner: Schema | None = schema
    while inner is not None and inner.type is Type.ARRAY:
        depth, inner = depth + 1, inner.value
    return depth
