"""Protocol Buffers with schemas in a registry, compatible with Confluent's ProtobufConverter."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from strom.connect.api import PoisonRecord, Schema
from strom.connect.converters.protobuf_schemas import FromProtobuf, ToProtobuf
from strom.connect.converters.protobuf_values import Fill, Read, message_filler, message_reader
from strom.connect.converters.registered import (
    RegisteredConverter,
    RegistrySettings,
    framed,
    named_by,
    unframed,
)
from strom.connect.schema_cache import SchemaCache
from strom.registry.client import (
    NotFramed,
    RegisteredSchema,
    frame_message_indexes,
    unframe_message_indexes,
)

_PATH = "schema.proto"
_META = "confluent.field_meta"


@dataclass(frozen=True, kw_only=True)
class ProtobufSettings(RegistrySettings):
    """Settings of the ProtobufConverter."""


class _File(NamedTuple):
    """A compiled .proto file, with its message classes."""

    pool: DescriptorPool
    messages: tuple[Descriptor, ...]


class _Target(NamedTuple):
    """How to write values of one schema to one topic."""

    schema: Schema
    schema_id: int
    message_class: Any
    fill: Fill


class _Codec(NamedTuple):
    """How to read messages of one registered schema."""

    schema: Schema
    message_class: Any
    read: Read


class ProtobufConverter(RegisteredConverter):
    """Messages in Confluent's wire format, with the message indexes behind the schema id."""

    settings_class = ProtobufSettings
    kind = "PROTOBUF"

    def __init__(self, settings: ProtobufSettings, *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._texts = SchemaCache(lambda schema: ToProtobuf().text(schema), settings.cache_size)
        self._targets: dict[tuple[str, int], _Target] = {}
        self._codecs: dict[tuple[int, tuple[int, ...]], _Codec] = {}

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if schema is None:
            raise PoisonRecord(
                "Protobuf needs values with a schema; use the JsonConverter for schemaless values."
            )
        target = self._targets.get((topic, id(schema)))
        if target is None:
            target = self._remembered(topic, schema)
        message = target.message_class()
        try:
            target.fill(message, value)
            payload = message.SerializeToString()
        except (ValueError, TypeError) as error:
            raise PoisonRecord(f"The value does not match its message: {error}.") from error
        return framed(target.schema_id, frame_message_indexes([0], payload))

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """The struct of a message, and its schema."""
        if data is None:
            return None, None
        schema_id, rest = unframed(data)
        try:
            place, payload = unframe_message_indexes(rest)
        except NotFramed as error:
            raise PoisonRecord(str(error)) from error
        codec = self._codecs.get((schema_id, place))
        if codec is None:
            codec = self._codecs[schema_id, place] = self._codec(schema_id, place)
        try:
            message = codec.message_class.FromString(payload)
        except DecodeError as error:
            raise PoisonRecord(f"The bytes do not match their message: {error}.") from error
        return codec.schema, codec.read(message)

    def _remembered(self, topic: str, schema: Schema) -> _Target:
        subject = self.subject(topic, named_by(schema))
        registered = self.schema_to_write(subject, self._texts(schema))
        message = self._compiled(registered).messages[0]
        fill = message_filler(schema, message)
        target = _Target(schema, registered.id, GetMessageClass(message), fill)
        if len(self._targets) >= self.settings.cache_size:
            self._targets.clear()
        self._targets[topic, id(schema)] = target
        return target

    def _codec(self, schema_id: int, place: tuple[int, ...]) -> _Codec:
        compiled = self._compiled(self.schema_of_id(schema_id))
        try:
            message = compiled.messages[place[0]]
            for index in place[1:]:
                message = message.nested_types[index]
        except IndexError:
            raise PoisonRecord(
                f"Schema {schema_id} has no message with the indexes {place}."
            ) from None
        schema = FromProtobuf(_meta_reader(compiled.pool)).schema(message)
        return _Codec(schema, GetMessageClass(message), message_reader(schema, message))

    def _compiled(self, registered: RegisteredSchema) -> _File:
        from strom.registry.formats.protobuf.compiler import compile_text
        from strom.registry.formats.schema import InvalidSchema

        files = dict(self.referenced(registered)) | {_PATH: registered.text}
        try:
            descriptors = compile_text(_PATH, files)
        except InvalidSchema as error:
            raise PoisonRecord(f"Schema {registered.id} is not a .proto file: {error}") from error
        pool = DescriptorPool()
        for descriptor in descriptors.values():
            pool.Add(descriptor)
        file = pool.FindFileByName(_PATH)
        by_name = file.message_types_by_name
        return _File(pool, tuple(by_name[one.name] for one in descriptors[_PATH].message_type))


def _meta_reader(pool: DescriptorPool) -> Any:
    """A function that reads the parameters in a field's option `field_meta`."""
    try:
        extension = pool.FindExtensionByName(_META)
        options_class: Any = GetMessageClass(
            pool.FindMessageTypeByName("google.protobuf.FieldOptions")
        )
    except KeyError:
        return lambda field: {}

    def read(field: FieldDescriptor) -> dict[str, str]:
        options = options_class.FromString(field.GetOptions().SerializeToString())
        return dict(options.Extensions[extension].params)

    return read
