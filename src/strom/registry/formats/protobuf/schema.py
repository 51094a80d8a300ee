"""The Protocol Buffers implementation of a parsed schema."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Self

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
        self._files, self._added = linked
        self.file = self._files[path]

    @classmethod
    def parse(cls, text: str, references: Sequence[Referenced], *, lenient: bool = False) -> Self:
        """Parse the text of a file, or its descriptor in base64, which Python's serializer sends."""
        files: dict[str, str] = {}
        _add(references, files)
        path = "schema.proto"
        while path in files:
            path = f"the_{path}"
        files[path] = _as_text(text, files)
        return cls(path, compile_linked(path, files, lenient=lenient))

    @cached_property
    def canonical(self) -> str:
        """The file as the printer formats it."""
        return print_file(self.file, self._files.values(), hidden=self._added)

    @cached_property
    def normalized(self) -> str:
        """The file with everything sorted whose order has no meaning."""
        return print_file(self.file, self._files.values(), sort=True, hidden=self._added)

    @cached_property
    def serialized(self) -> str:
        """The descriptor in base64, for clients that request `format=serialized`."""
        file = FileDescriptorProto()
        file.CopyFrom(self.file)
        # They are at the end, so that the indexes of public and weak imports stay right.
        file.dependency[:] = [path for path in file.dependency if path not in self._added]
        return base64.b64encode(file.SerializeToString()).decode("ascii")

    def differences(self, written: Self) -> list[Problem]:
        return differences.problems(self._files, self.file, written._files, written.file)


def _add(references: Sequence[Referenced], files: dict[str, str]) -> None:
    for referenced in references:
        _add(referenced.references, files)
        files.setdefault(referenced.name, _as_text(referenced.text, files))


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
