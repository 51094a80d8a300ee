"""Whether data of one .proto file can be read with another, by the rules of Confluent's registry.

Protocol Buffers data carries field numbers and wire types, not names. So a field may change its name, and
its type within those of the same encoding; fields and enum values may be added and removed. Messages must
not be removed, and fields that can be set together must not become alternatives.

This is stricter than Confluent's registry in one respect: making a numeric field repeated, or single,
is a change in proto3 too, where no label is written. Repeated numbers are packed there, and a reader of
a single number drops them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from strom.registry.formats.protobuf.builtin import is_builtin
from strom.registry.formats.protobuf.printing import TYPES
from strom.registry.formats.schema import Problem

Files = Mapping[str, FileDescriptorProto]

ENCODINGS = {
    "int32": "a varint",
    "int64": "a varint",
    "uint32": "a varint",
    "uint64": "a varint",
    "bool": "a varint",
    "enum": "a varint",
    "sint32": "a zigzag varint",
    "sint64": "a zigzag varint",
    "string": "bytes with a length",
    "bytes": "bytes with a length",
    "fixed32": "4 bytes",
    "sfixed32": "4 bytes",
    "fixed64": "8 bytes",
    "sfixed64": "8 bytes",
    "float": "a float",
    "double": "a double",
}
"""The encoding of each scalar type: types with the same encoding are compatible."""


class _Type(NamedTuple):
    """Where a message or an enum is defined."""

    file: FileDescriptorProto
    local_name: str
    definition: DescriptorProto | EnumDescriptorProto


def problems(
    reader_files: Files,
    reader: FileDescriptorProto,
    writer_files: Files,
    writer: FileDescriptorProto,
) -> list[Problem]:
    """Why `reader` cannot read data of `writer`; paths are made of messages and field numbers."""
    comparison = _Comparison(_types(reader_files.values()), _types(writer_files.values()))
    found = comparison.found
    if reader.package != writer.package:
        text = f"the writer's package is {writer.package!r}, the reader's {reader.package!r}"
        found.append(Problem("PACKAGE_CHANGED", "#/", text))
    comparison.messages(reader.message_type, writer.message_type, "#")
    comparison.compare_waiting()
    return list(dict.fromkeys(found))


class _Comparison:
    def __init__(self, reader_types: dict[str, _Type], writer_types: dict[str, _Type]) -> None:
        self.found: list[Problem] = []
        self._reader_types = reader_types
        self._writer_types = writer_types
        # Keyed by identity, which is stable only while the objects are referenced: the library creates
        # them on access.
        self._compared: dict[tuple[int, int], tuple[DescriptorProto, DescriptorProto]] = {}
        self._waiting: list[tuple[DescriptorProto, DescriptorProto, str]] = []

    def compare_waiting(self) -> None:
        """Compare the messages that fields refer to, and those that these lead to."""
        while self._waiting:
            self._message(*self._waiting.pop())

    def messages(
        self, reader: Sequence[DescriptorProto], writer: Sequence[DescriptorProto], path: str
    ) -> None:
        """Compare the messages of a file, or those nested in a message, by name."""
        read = {message.name: message for message in reader}
        for message in writer:
            if message.options.map_entry:
                continue
            inner = f"{path}/{message.name}"
            if message.name in read:
                self._message(read[message.name], message, inner)
            else:
                text = f"the reader has no message {message.name}"
                self.found.append(Problem("MESSAGE_REMOVED", inner, text))

    def _message(self, reader: DescriptorProto, writer: DescriptorProto, path: str) -> None:
        if (id(reader), id(writer)) in self._compared:
            return
        self._compared[id(reader), id(writer)] = reader, writer
        self.found += _choices_made(reader, writer, path)
        self.found += _fields_gone_and_new(reader, writer, path)
        written = {field.number: field for field in writer.field}
        for field in reader.field:
            if field.number in written:
                self._field(field, written[field.number], f"{path}/{field.number}")
        self.messages(reader.nested_type, writer.nested_type, path)

    def _field(self, reader: FieldDescriptorProto, writer: FieldDescriptorProto, path: str) -> None:
        read, wrote = self._map_of(reader, True), self._map_of(writer, False)
        if read is not None and wrote is not None:
            for mine, other in zip(read.field, wrote.field, strict=True):
                self._field(mine, other, path)
            return
        kinds = [
            "map" if entry is not None else _kind(field)
            for entry, field in ((read, reader), (wrote, writer))
        ]
        if kinds[0] != kinds[1]:
            text = f"the writer's {kinds[1]} {writer.name} cannot be read as a {kinds[0]}"
            self.found.append(Problem("FIELD_KIND_CHANGED", path, text))
        elif kinds[0] == "message":
            self._message_field(reader, writer, path)
        else:
            self.found += _scalars(reader, writer, path)

    def _message_field(
        self, reader: FieldDescriptorProto, writer: FieldDescriptorProto, path: str
    ) -> None:
        read = self._reader_types[reader.type_name]
        wrote = self._writer_types[writer.type_name]
        if read.local_name != wrote.local_name:
            text = f"the writer's {wrote.local_name} cannot be read as {read.local_name}"
            self.found.append(Problem("FIELD_NAMED_TYPE_CHANGED", path, text))
            return
        if is_builtin(read.file.name) and is_builtin(wrote.file.name):
            return
        if isinstance(read.definition, DescriptorProto) and isinstance(
            wrote.definition, DescriptorProto
        ):
            inner = f"#/{read.local_name.replace('.', '/')}"
            self._waiting.append((read.definition, wrote.definition, inner))

    def _map_of(self, field: FieldDescriptorProto, of_reader: bool) -> DescriptorProto | None:
        types = self._reader_types if of_reader else self._writer_types
        found = types.get(field.type_name)
        if found is None or not isinstance(found.definition, DescriptorProto):
            return None
        return found.definition if found.definition.options.map_entry else None


def _fields_gone_and_new(
    reader: DescriptorProto, writer: DescriptorProto, path: str
) -> list[Problem]:
    found = []
    read = {field.number for field in reader.field}
    wrote = {field.number for field in writer.field}
    kept = _kept_choices(reader, writer)
    for field in writer.field:
        if field.number in read:
            continue
        choice = _choice(writer, field)
        if field.label == FieldDescriptorProto.LABEL_REQUIRED:
            text = f"the reader has no field for the writer's required {field.name}"
            found.append(Problem("REQUIRED_FIELD_REMOVED", f"{path}/{field.number}", text))
        elif choice in kept:
            text = f"the reader has no field for {field.name}, one of the writer's {choice}"
            found.append(Problem("ONEOF_FIELD_REMOVED", f"{path}/{choice}/{field.number}", text))
    for field in reader.field:
        if field.number not in wrote and field.label == FieldDescriptorProto.LABEL_REQUIRED:
            text = f"the reader requires {field.name}, which the writer does not have"
            found.append(Problem("REQUIRED_FIELD_ADDED", f"{path}/{field.number}", text))
    return found


def _kept_choices(reader: DescriptorProto, writer: DescriptorProto) -> set[str]:
    """The oneofs of the writer that the reader keeps in part: by name, or by one of their fields.

    A oneof that is gone as a whole was removed on purpose; in a remaining one, every field is expected.
    """
    numbers = {field.number for field in reader.field}
    named = {choice.name for choice in reader.oneof_decl}
    return {
        choice
        for choice, fields in _choices(writer).items()
        if choice in named or any(field.number in numbers for field in fields)
    }


def _choices_made(reader: DescriptorProto, writer: DescriptorProto, path: str) -> list[Problem]:
    """Find fields that the writer may set together, but that are alternatives for the reader."""
    found = []
    written = {field.number: field for field in writer.field}
    for choice, members in _choices(reader).items():
        known = [written[field.number] for field in members if field.number in written]
        alone = [field.name for field in known if not _choice(writer, field)]
        groups = {_choice(writer, field) for field in known} - {""}
        if len(alone) + len(groups) < 2:
            continue
        names = ", ".join(field.name for field in known)
        text = f"the writer can set {names} together; for the reader they are alternatives"
        several = len(alone) > 1
        rule = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if several else "FIELD_MOVED_TO_EXISTING_ONEOF"
        found.append(Problem(rule, f"{path}/{choice}", text))
    return found


def _choices(message: DescriptorProto) -> dict[str, list[FieldDescriptorProto]]:
    choices: dict[str, list[FieldDescriptorProto]] = {}
    for field in message.field:
        if name := _choice(message, field):
            choices.setdefault(name, []).append(field)
    return choices


def _choice(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    """The name of the oneof that a field belongs to, or an empty string."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return ""
    return message.oneof_decl[field.oneof_index].name


def _scalars(
    reader: FieldDescriptorProto, writer: FieldDescriptorProto, path: str
) -> list[Problem]:
    read, wrote = TYPES[reader.type], TYPES[writer.type]
    if ENCODINGS[read] != ENCODINGS[wrote]:
        text = f"the writer's {wrote} {writer.name} cannot be read as {read}"
        return [Problem("FIELD_SCALAR_KIND_CHANGED", path, text)]
    if reader.label != writer.label and read not in ("string", "bytes"):
        labels = [
            FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower()
            for field in (writer, reader)
        ]
        text = f"the writer's {labels[0]} {wrote} {writer.name} cannot be read as {labels[1]}"
        return [Problem("FIELD_NUMERIC_LABEL_CHANGED", path, text)]
    return []


def _kind(field: FieldDescriptorProto) -> str:
    return "message" if TYPES[field.type] in ("message", "group") else "scalar"


def _types(files: Iterable[FileDescriptorProto]) -> dict[str, _Type]:
    """The types of files by their full names, with the leading dot that fields use."""
    types: dict[str, _Type] = {}
    for file in files:
        prefix = f".{file.package}" if file.package else ""
        waiting: list[tuple[str, DescriptorProto | EnumDescriptorProto]] = []
        waiting += [("", message) for message in file.message_type]
        waiting += [("", enum) for enum in file.enum_type]
        while waiting:
            outer, one = waiting.pop()
            local = f"{outer}.{one.name}" if outer else one.name
            types[f"{prefix}.{local}"] = _Type(file, local, one)
            if isinstance(one, DescriptorProto):
                waiting += [(local, message) for message in one.nested_type]
                waiting += [(local, enum) for enum in one.enum_type]
    return types
