"""`format=…`: the same schema in another form. Unknown forms change nothing, as with Confluent's."""

from dataclasses import replace

from strom.registry.formats.schema import SchemaType
from strom.registry.records import Content, SchemaVersion
from strom.registry.registry import Registry

SERIALIZED = "serialized"


def in_format(registry: Registry, entry: SchemaVersion, form: str) -> SchemaVersion:
    """A version with its text in the form that was asked for."""
    return replace(entry, content=content_in_format(registry, entry.content, form))


def content_in_format(registry: Registry, content: Content, form: str) -> Content:
    """A content in the form that was asked for: Protobuf's can be had as the bytes of a descriptor."""
    if form != SERIALIZED or content.kind is not SchemaType.PROTOBUF:
        return content
    from strom.registry.formats.protobuf.schema import ProtobufSchema

    parsed = registry.parse_content(content)
    assert isinstance(parsed, ProtobufSchema)  # noqa: S101 - by its kind
    return replace(content, text=parsed.serialized)
