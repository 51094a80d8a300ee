"""Prints options, custom ones included.

A custom option is an extension of a message of `descriptor.proto`, and only the files that a schema
imports define it: options are parsed again with all of these at hand.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from google.protobuf import descriptor_pb2, text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from strom.registry.formats.protobuf import custom_options


class Options:
    """Prints the options of files, which are given in dependency order."""

    def __init__(self, files: Iterable[descriptor_pb2.FileDescriptorProto]) -> None:
        self._files = list(files)

    def texts(self, options: Message) -> list[str]:
        """Each option as `name = value`."""
        if not options.ByteSize():
            return []
        kind = self._pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
        known = GetMessageClass(kind).FromString(options.SerializeToString())
        texts = []
        for field, value in known.ListFields():
            if field.full_name in custom_options.TEXTS:
                texts += value
                continue
            name = f"({field.full_name})" if field.is_extension else field.name
            if field.is_repeated:
                texts += [f"{name} = {self._value(field, item)}" for item in value]
            else:
                texts.append(f"{name} = {self._value(field, value)}")
        return texts

    @cached_property
    def _pool(self) -> DescriptorPool:
        pool = DescriptorPool()
        own = descriptor_pb2.DESCRIPTOR
        if all(file.name != own.name for file in self._files):
            pool.AddSerializedFile(own.serialized_pb)
        for file in self._files:
            pool.Add(file)
        return pool

    def _value(self, field: FieldDescriptor, value: Any) -> str:
        match field.type:
            case FieldDescriptor.TYPE_MESSAGE | FieldDescriptor.TYPE_GROUP:
                text = text_format.MessageToString(
                    value, as_one_line=True, as_utf8=True, descriptor_pool=self._pool
                )
                return f"{{ {text} }}"
            case FieldDescriptor.TYPE_ENUM:
                names = field.enum_type.values_by_number if field.enum_type else {}
                return names[value].name if value in names else str(value)
            case FieldDescriptor.TYPE_STRING:
                return quoted(value)
            case FieldDescriptor.TYPE_BYTES:
                return f'"{escaped(value)}"'
            case FieldDescriptor.TYPE_BOOL:
                return "true" if value else "false"
            case _:
                return str(value)


def quoted(text: str) -> str:
    """A text as a string literal."""
    return '"' + "".join(_character(character) for character in text) + '"'


def escaped(data: bytes) -> str:
    """Bytes as the content of a string literal."""
    return "".join(_character(chr(byte)) if byte < 0x80 else f"\\{byte:03o}" for byte in data)


def _character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return (
        character if character.isprintable() or ord(character) > 0x7F else f"\\{ord(character):03o}"
    )
