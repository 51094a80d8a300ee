"""Protocol Buffers with schemas in a registry, compatible with Confluent's ProtobufConverter."""

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from strom.connect.api import PoisonRecord, Schema
from strom.connect.converters.protobuf_schemas import FromProtobuf, ToProtobuf
from strom.connect.converters.protobuf_values import message_filler, message_reader
from strom.connect.converters.registered import (
    RegisteredConverter,
    RegisteredReader,
    RegistrySettings,
)
from strom.registry.client import (
    RegisteredSchema,
    frame_message_indexes,
    unframe_message_indexes,
)

_PATH = "schema.proto"
_META = "confluent.field_meta"


class _File(NamedTuple):
    """A compiled .proto file, with its message classes."""

    pool: DescriptorPool
    messages: tuple[Descriptor, ...]


class ProtobufConverter(RegisteredConverter):
    """Messages in Confluent's wire format, with the message indexes behind the schema id."""

    settings_class = RegistrySettings
    kind = "PROTOBUF"
    language = "Protobuf"

    def schema_text(self, schema: Schema) -> str:
        return ToProtobuf().text(schema)

    def split(self, payload: bytes) -> tuple[tuple[int, ...], bytes]:
        return unframe_message_indexes(payload)

    def make_writer(self, schema: Schema, registered: RegisteredSchema) -> Callable[[Any], bytes]:
        message = self._compiled(registered).messages[0]
        message_class, fill = GetMessageClass(message), message_filler(schema, message)

        def write(value: Any) -> bytes:
            target = message_class()
            try:
                fill(target, value)
                return frame_message_indexes([0], target.SerializeToString())
            except (ValueError, TypeError) as error:
                raise PoisonRecord(f"The value does not match its message: {error}.") from error

        return write

    def make_reader(self, registered: RegisteredSchema, place: tuple[int, ...]) -> RegisteredReader:
        compiled = self._compiled(registered)
        try:
            message = compiled.messages[place[0]]
            for index in place[1:]:
                message = message.nested_types[index]
        except IndexError:
            raise PoisonRecord(
                f"Schema {registered.id} has no message with the indexes {place}."
            ) from None
        schema = FromProtobuf(_meta_reader(compiled.pool)).schema(message)
        parse, convert = GetMessageClass(message).FromString, message_reader(schema, message)

        def read(payload: bytes) -> Any:
            try:
                return convert(parse(payload))
            except DecodeError as error:
                raise PoisonRecord(f"The bytes do not match their message: {error}.") from error

        return RegisteredReader(schema, read)

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
