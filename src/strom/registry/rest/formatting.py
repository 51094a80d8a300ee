"""`format=…`: a schema in another format. Unknown formats are ignored, as Confluent's registry does."""

from dataclasses import replace

from strom.registry.formats.schema import SchemaType
from strom.registry.records import Content, SchemaVersion
from strom.registry.registry import Registry

SERIALIZED = "serialized"


def in_format(registry: Registry, entry: SchemaVersion, format_name: str) -> SchemaVersion:
    return replace(entry, content=content_in_format(registry, entry.content, format_name))


def content_in_format(registry: Registry, content: Content, format_name: str) -> Content:
    """A schema in the requested format; a Protobuf schema as its serialized descriptor in base64."""
    if format_name != SERIALIZED or content.kind is not SchemaType.PROTOBUF:
        return content
    from strom.registry.formats.protobuf.schema import ProtobufSchema

    parsed = registry.parse_content(content)
    assert isinstance(parsed, ProtobufSchema)  # noqa: S101 - by its kind
    return replace(content, text=parsed.serialized)
