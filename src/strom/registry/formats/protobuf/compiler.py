"""Compiles the text of a .proto file to its descriptor, with Google's compiler.

The compiler reads files from a folder, so it gets a temporary one; this module touches the disk nowhere
else. It runs inside this process, in about a millisecond: the import hook of grpcio-tools gives errors
with their locations, and generated code in which the descriptor is one literal.
"""

import ast
import re
import threading
import warnings
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from strom.registry.formats.protobuf.builtin import builtin_text
from strom.registry.formats.protobuf.scanning import (
    code_of,
    declares_syntax,
    deepest_nesting,
    imported_paths,
    max_dots_in_name,
)
from strom.registry.formats.schema import InvalidSchema

DESCRIPTOR = re.compile(rb"AddSerializedFile\((b'.*')\)")
PROTO2 = 'syntax = "proto2"; '
SHOWN_ERRORS = 5
FILE_NOT_FOUND = "File not found."

# The compiler recurses on these until its stack overflows and the process ends.
MAX_DEPTH = 100


class CompileError(NamedTuple):
    """One error of the compiler; the line and the column count from 0, and are -1 for a whole file."""

    path: str
    line: int
    column: int
    message: str


class CompileErrors(InvalidSchema):
    """The text is not valid; `errors` are all the compiler reported."""

    def __init__(self, message: str, errors: list[CompileError]) -> None:
        super().__init__(message)
        self.errors = errors


# Python's warning filters are global to the process.
_warnings_are_off = threading.Lock()


def compile_text(path: str, files: Mapping[str, str]) -> dict[str, FileDescriptorProto]:
    """Compile the file at `path` among `files`.

    Returns it and its imports by path, in dependency order.
    """
    with TemporaryDirectory(prefix="strom-proto-") as folder:
        for name, text in _with_builtins(files).items():
            _check_depth(name, text)
            _write(Path(folder), name, text)
        shift = 0 if declares_syntax(files[path]) else len(PROTO2)
        generated = _run(path, folder, shift)
    descriptors = {}
    for code in generated:
        found = DESCRIPTOR.search(code)
        if found is None:
            raise InvalidSchema("The output of the protobuf compiler contains no descriptor.")
        descriptor = FileDescriptorProto.FromString(ast.literal_eval(found[1].decode("ascii")))
        descriptors[descriptor.name] = descriptor
    return descriptors


def _with_builtins(files: Mapping[str, str]) -> dict[str, str]:
    known = dict(files)
    waiting = list(files.values())
    while waiting:
        for path in imported_paths(waiting.pop()):
            text = None if path in known else builtin_text(path)
            if text is not None:
                known[path] = text
                waiting.append(text)
    return known


def _check_depth(name: str, text: str) -> None:
    code = code_of(text)
    if deepest_nesting(code) > MAX_DEPTH:
        raise InvalidSchema(f"{name} is nested more than {MAX_DEPTH} levels deep.")
    if max_dots_in_name(code) >= MAX_DEPTH:
        raise InvalidSchema(f"{name} contains a name of more than {MAX_DEPTH} parts.")


def _write(folder: Path, name: str, text: str) -> None:
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or re.search(r"[\\:\0]", name):
        raise InvalidSchema(f"{name!r} is not a valid import path.")
    path = folder.joinpath(*parts)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without a syntax the compiler assumes proto2, but prints a warning; adding it to the first
        # line keeps the line numbers.
        path.write_text(text if declares_syntax(text) else PROTO2 + text, encoding="utf-8")
    except (OSError, UnicodeEncodeError) as error:
        raise InvalidSchema(
            f"{name!r} cannot be passed to the protobuf compiler: {error}"
        ) from error


def _run(path: str, folder: str, shift: int) -> list[bytes]:
    from grpc_tools import _protoc_compiler

    own = str(resources.files("grpc_tools").joinpath("_proto"))
    with _warnings_are_off, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unused import is valid
        try:
            answer = _protoc_compiler.get_protos(path.encode(), [folder.encode(), own.encode()])
        except _protoc_compiler.ProtocErrors as error:
            errors = [
                CompileError(
                    one.filename.decode(errors="replace"),
                    one.line,
                    one.column,
                    one.message.decode(errors="replace"),
                )
                for one in error.errors()
            ]
            raise CompileErrors(_explained(errors, path, shift), errors) from error
    return [code for _, code in answer]


def _explained(errors: list[CompileError], path: str, shift: int) -> str:
    # A missing import is reported by its name: its location adds nothing.
    lines = [
        _one_error(error, path, shift)
        for error in errors
        if "was not found or" not in error.message
    ]
    if len(lines) > SHOWN_ERRORS:
        lines = [*lines[:SHOWN_ERRORS], f"… and {len(lines) - SHOWN_ERRORS} more"]
    return "; ".join(lines)


def _one_error(error: CompileError, path: str, shift: int) -> str:
    message = error.message.rstrip(".")
    if error.message == FILE_NOT_FOUND:
        return f"The import {error.path} is neither built in nor among the references"
    file = "" if error.path == path else f" of {error.path}"
    if error.line < 0:
        return f"{message}{file}"
    column = error.column + 1 - (shift if error.line == 0 and not file else 0)
    return f"Line {error.line + 1}, column {column}{file}: {message}"
