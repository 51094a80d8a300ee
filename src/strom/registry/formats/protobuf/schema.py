"""The Protocol Buffers implementation of a parsed schema."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from strom.registry.formats.protobuf import differences
from strom.registry.formats.protobuf.linking import LinkedFiles, compile_linked
from strom.registry.formats.protobuf.printing import print_file
from strom.registry.formats.schema import (
    InvalidSchema,
    ParsedSchema,
    Problem,
    Referenced,
    SchemaType,
)


class ProtobufSchema(ParsedSchema):
    """A valid .proto file, with all its imports."""

    kind = SchemaType.PROTOBUF

    def __init__(self, path: str, linked: LinkedFiles) -> None:
        self.files, self.added = linked
        self.file = self.files[path]

    @classmethod
    def parse(cls, text: str, references: Sequence[Referenced], *, lenient: bool = False) -> Self:
        """Parse the text of a file, or its descriptor in base64, which Python's serializer sends."""
        files: dict[str, str] = {}
        for referenced in references:
            files.setdefault(referenced.name, _as_text(referenced.text, files))
        path = "schema.proto"
        while path in files:
            path = f"the_{path}"
        files[path] = _as_text(text, files)
        return cls(path, compile_linked(path, files, lenient=lenient))

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Make a schema of what a child process has parsed, see `library_calls`."""
        files = [FileDescriptorProto.FromString(base64.b64decode(one)) for one in parts["files"]]
        linked = LinkedFiles({one.name: one for one in files}, frozenset(parts["added"]))
        schema = cls(parts["path"], linked)
        schema.canonical, schema.normalized = parts["canonical"], parts["normalized"]
        return schema

    @cached_property
    def canonical(self) -> str:
        """The file as the printer formats it."""
        return print_file(self.file, self.files.values(), hidden=self.added)

    @cached_property
    def normalized(self) -> str:
        """The file with everything sorted whose order has no meaning."""
        return print_file(self.file, self.files.values(), sort=True, hidden=self.added)

    @cached_property
    def serialized(self) -> str:
        """The descriptor in base64, for clients that request `format=serialized`."""
        file = FileDescriptorProto()
        file.CopyFrom(self.file)
        # They are at the end, so that the indexes of public and weak imports stay right.
        file.dependency[:] = [path for path in file.dependency if path not in self.added]
        return base64.b64encode(file.SerializeToString()).decode("ascii")

    def differences(self, written: Self) -> list[Problem]:
        return differences.problems(self.files, self.file, written.files, written.file)


def _as_text(text: str, files: Mapping[str, str]) -> str:
    """Return a text unchanged; print a descriptor that came in base64."""
    descriptor = _decoded(text)
    if descriptor is None:
        return text
    # Custom options can only be parsed together with the files that define them.
    imports = "".join(f'import "{path}";\n' for path in descriptor.dependency)
    stub = "imports.proto"
    known = compile_linked(stub, {**files, stub: f'syntax = "proto3";\n{imports}'}).files
    known.pop(stub)
    descriptor.name = "schema.proto"
    try:
        return print_file(descriptor, (*known.values(), descriptor))
    except (KeyError, ValueError, TypeError, StopIteration) as error:
        raise InvalidSchema(f"The descriptor is inconsistent: {error}") from error


def _decoded(text: str) -> FileDescriptorProto | None:
    try:
        data = base64.b64decode(text.strip(), validate=True)
        return FileDescriptorProto.FromString(data) if data else None
    except (binascii.Error, ValueError, DecodeError):
        return None
