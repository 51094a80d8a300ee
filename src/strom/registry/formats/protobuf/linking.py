"""Compiles a file as Confluent's registry understands it, which is more lenient than the compiler.

There, a type may come from any reference or built-in file, imported or not; an import may be missing if
no type comes from it; a custom option needs no definition. A file that is stored already may even use
unknown types. When the compiler refuses a file for one of these, it gets what is missing: imports at the
end of the text, empty files, empty messages. The printer omits the added imports.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from strom.registry.formats.protobuf import custom_options
from strom.registry.formats.protobuf.builtin import BUILTIN_PATHS
from strom.registry.formats.protobuf.compiler import (
    FILE_NOT_FOUND,
    CompileError,
    CompileErrors,
    compile_text,
)
from strom.registry.formats.protobuf.scanning import imported_paths

MAX_ROUNDS = 8
ROUNDS_BY_NAME = 2
"""The compiler reports one unknown option of a field at a time: after these, all custom ones are kept."""
MAX_ADDED_FILES = 200
"""The limit on files for what is missing, each of which the compiler reads from the disk."""
EMPTY_FILE = 'syntax = "proto3";'

_UNDEFINED = re.compile(
    r'"(?P<name>[^"]+)" (?:is not defined\.|seems to be defined in|is resolved to "(?P<full>[^"]+)")'
)
_UNKNOWN_OPTION = re.compile(r'Option "(?P<name>[^"]+)" unknown\.')


class LinkedFiles(NamedTuple):
    """A compiled file and its imports by path, in dependency order."""

    files: dict[str, FileDescriptorProto]
    added: frozenset[str] = frozenset()
    """The imports of the file that are not in its text."""


def compile_linked(path: str, texts: Mapping[str, str], *, lenient: bool = False) -> LinkedFiles:
    """Compile the file at `path` among `texts`; the others are stored already."""
    try:
        return LinkedFiles(compile_text(path, texts))
    except CompileErrors as error:
        reported, errors = error, error.errors
    linker = _Linker(path, texts, lenient)
    for _ in range(MAX_ROUNDS):
        if not linker.mend(errors):
            break
        try:
            return LinkedFiles(compile_text(path, linker.texts), frozenset(linker.added))
        except CompileErrors as error:
            errors = error.errors
    raise reported


class _Linker:
    def __init__(self, path: str, texts: Mapping[str, str], lenient: bool) -> None:
        self.texts = dict(texts)
        self.added: set[str] = set()
        self._path = path
        self._lenient = lenient
        self._given = list(texts)
        self._rounds: Counter[str] = Counter()
        self._imports = {name: set(imported_paths(text)) for name, text in texts.items()}

    def mend(self, errors: Iterable[CompileError]) -> bool:
        """Add what the errors say is missing; False if there is nothing to add."""
        before = dict(self.texts)
        undefined: dict[str, set[str]] = {}
        unknown: dict[str, set[str]] = {}
        for error in errors:
            if error.message == FILE_NOT_FOUND:
                self.texts.setdefault(error.path, EMPTY_FILE)
            elif found := _UNDEFINED.match(error.message):
                undefined.setdefault(error.path, set()).add(found["full"] or found["name"])
            elif found := _UNKNOWN_OPTION.match(error.message):
                unknown.setdefault(error.path, set()).add(found["name"])
        for path, names in undefined.items():
            self._define(path, names)
        for path, names in unknown.items():
            self._keep_options(path, names)
        added = len(self.texts) - len(self._given)
        return self.texts != before and added <= MAX_ADDED_FILES

    def _define(self, path: str, names: set[str]) -> None:
        if path not in self.texts:
            return
        if self._import(path, [*self._given, *_builtins_for(names)]) or not (
            self._lenient or path != self._path
        ):
            return
        for name in sorted(names):
            space, _, simple = name.lstrip(".").rpartition(".")
            package = f"package {space};" if space else ""
            stub = f"strom/unresolved/{name.lstrip('.')}.proto"
            # Extensible, because it may be the target of an `extend`.
            self.texts[stub] = (
                f'syntax = "proto2"; {package} message {simple} {{ extensions 1 to max; }}'
            )
            self._import(path, [stub])

    def _keep_options(self, path: str, names: set[str]) -> None:
        kept = {name for name in names if self._lenient or name.startswith("(")}
        if path not in self.texts or not kept:
            return
        self._rounds[path] += 1
        by_name = self._rounds[path] <= ROUNDS_BY_NAME
        self.texts[path] = custom_options.keep_unresolved(
            self.texts[path], kept if by_name else None
        )
        self.texts[custom_options.PATH] = custom_options.DEFINITIONS
        self._import(path, [custom_options.PATH])

    def _import(self, path: str, others: Iterable[str]) -> bool:
        """Import other files into one, unless they import it; whether any was added."""
        imported = self._imports.setdefault(path, set())
        importers = self._importers(path)
        new = [other for other in others if other not in imported and other not in importers]
        imported.update(new)
        if path == self._path:
            self.added.update(new)
        self.texts[path] += "".join(f'\nimport "{other}";' for other in new)
        return bool(new)

    def _importers(self, path: str) -> set[str]:
        """A file, and those that import it, directly or not."""
        found, size = {path}, 0
        while size < len(found):
            size = len(found)
            found |= {name for name, paths in self._imports.items() if not paths.isdisjoint(found)}
        return found


def _builtins_for(names: set[str]) -> list[str]:
    """Built-in files that may define one of these names."""
    spaces = tuple(name.lstrip(".").partition(".")[0] + "/" for name in names)
    return [path for path in BUILTIN_PATHS if path.startswith(spaces)]
