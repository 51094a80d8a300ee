"""Prints a descriptor as the text of a .proto file.

A text and a descriptor of the same schema print alike, which makes the result the canonical form.
Descriptors have no comments and no layout; type names are printed in full. The layout, blank lines
included, is that of Confluent's registry: each kind of statement is a section.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby, takewhile

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    Edition,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.message import Message

from strom.registry.formats.protobuf.options import Options, quoted

FIELD_NUMBERS_END = 1 << 29
ENUM_NUMBERS_LAST = (1 << 31) - 1
TYPES = {
    value.number: value.name.removeprefix("TYPE_").lower()
    for value in FieldDescriptorProto.Type.DESCRIPTOR.values
}
LABELS = {
    FieldDescriptorProto.LABEL_REQUIRED: "required ",
    FieldDescriptorProto.LABEL_REPEATED: "repeated ",
}


def print_file(
    file: FileDescriptorProto,
    all_files: Iterable[FileDescriptorProto],
    *,
    sort: bool = False,
    hidden: AbstractSet[str] = frozenset(),
) -> str:
    """Print a file; `all_files` are the file and its imports, in dependency order.

    With `sort`, everything whose order has no meaning is sorted. Messages keep their order: serialized
    data refers to them by their index. Imports that are `hidden` are not printed.
    """
    return _Printer(file, Options(all_files), sort, hidden).print()


class _Printer:
    def __init__(
        self, file: FileDescriptorProto, options: Options, sort: bool, hidden: AbstractSet[str]
    ) -> None:
        self._file = file
        self._options = options
        self._sort = sort
        self._hidden = hidden
        self._lines: list[str] = []
        self._depth = 0
        self._gap = False

    def print(self) -> str:
        file = self._file
        if file.syntax == "editions":
            year = Edition.Name(file.edition).removeprefix("EDITION_")
            self._line(f'edition = "{year}";')
        elif file.syntax == "proto3" or not self._sort:
            self._line(f'syntax = "{file.syntax or "proto2"}";')
        if file.package:
            self._line(f"package {file.package};")
        self._section()
        self._imports()
        self._section()
        self._option_lines(file.options)
        self._section()
        groups = {_last(field) for field in file.extension if _is_group(field)}
        for message in file.message_type:
            if message.name not in groups:
                self._message(message)
        for enum in file.enum_type:
            self._enum(enum)
        self._section()
        self._extensions(file.extension, file.message_type)
        self._section()
        for service in file.service:
            self._service(service)
        return "\n".join(self._lines) + "\n"

    def _section(self) -> None:
        """Separate what follows in the block, if anything does, from what precedes."""
        self._gap = not self._is_opened()

    def _is_opened(self) -> bool:
        return self._depth > 0 and self._lines[-1].endswith("{")

    def _line(self, text: str) -> None:
        if self._gap:
            # Confluent's registry indents the blank lines of a nested block too.
            self._lines.append("  " * (self._depth - 1))
            self._gap = False
        self._lines.append("  " * self._depth + text)

    def _open(self, text: str) -> None:
        self._line(f"{text} {{")
        self._depth += 1

    def _close(self, end: str = "}") -> None:
        self._gap = False
        if self._is_opened():
            self._lines[-1] += end
            self._depth -= 1
        else:
            self._depth -= 1
            self._line(end)

    def _ordered(self, texts: list[str]) -> list[str]:
        """Texts in the order of their names; values of a repeated option keep theirs."""
        return sorted(texts, key=_name_in) if self._sort else texts

    def _imports(self) -> None:
        public, weak = set(self._file.public_dependency), set(self._file.weak_dependency)
        lines = []
        for index, path in enumerate(self._file.dependency):
            if path in self._hidden:
                continue
            word = "public " if index in public else "weak " if index in weak else ""
            lines.append(f"import {word}{quoted(path)};")
        for line in self._ordered(lines):
            self._line(line)

    def _option_lines(self, options: Message) -> None:
        for text in self._ordered(self._options.texts(options)):
            self._line(f"option {text};")

    def _statement(self, text: str, options: list[str]) -> None:
        """Print a line that ends with options in brackets."""
        match self._ordered(options):
            case []:
                self._line(f"{text};")
            case [one]:
                self._line(f"{text} [{one}];")
            case [*several, last]:
                self._line(f"{text} [")
                self._depth += 1
                for one in several:
                    self._line(f"{one},")
                self._line(last)
                self._depth -= 1
                self._line("];")

    def _message(self, message: DescriptorProto) -> None:
        self._open(f"message {message.name}")
        self._body(message)
        self._close()

    def _body(self, message: DescriptorProto) -> None:
        spans = [(span.start, span.end) for span in message.reserved_range]
        self._reserved(spans, message.reserved_name, FIELD_NUMBERS_END, 1)
        self._section()
        self._option_lines(message.options)
        fields = list(message.field)
        if self._sort:
            fields.sort(key=lambda field: field.number)
        bringing, choices = self._fields(fields, message)
        self._section()
        self._extension_ranges(message)
        # The position of a group's type is its position among the nested types.
        extensions_last = any(map(_is_group, message.extension))
        self._section()
        if not extensions_last:
            self._extensions(message.extension, message.nested_type)
            self._section()
        self._nested(message, bringing, choices)
        for enum in message.enum_type:
            self._enum(enum)
        if extensions_last:
            self._section()
            self._extensions(message.extension, message.nested_type)

    def _extension_ranges(self, message: DescriptorProto) -> None:
        spans = list(message.extension_range)
        if self._sort:
            spans.sort(key=lambda span: span.start)
        for span in spans:
            text = f"extensions {_span(span.start, span.end, FIELD_NUMBERS_END, 1)}"
            self._statement(text, self._options.texts(span.options))

    def _fields(
        self, fields: list[FieldDescriptorProto], message: DescriptorProto
    ) -> tuple[dict[str, FieldDescriptorProto], dict[int, list[FieldDescriptorProto]]]:
        """Print fields and oneofs.

        Returns those that declare a nested type and are left: maps and groups by its name, oneofs by
        their index. They are printed at the position of that type among the nested ones, because
        serialized data refers to nested messages by their index.
        """
        names = [nested.name for nested in message.nested_type]
        maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
        first = set(takewhile(maps.__contains__, names))  # these precede all nested messages
        choices: dict[int, list[FieldDescriptorProto]] = {}
        bringing: dict[str, FieldDescriptorProto] = {}
        self._section()
        for field in fields:
            name = _last(field)
            if _in_choice(field):
                choices.setdefault(field.oneof_index, []).append(field)
            elif name in first:
                self._declaration(field, maps[name])
            elif not _is_group(field) and name not in maps:
                self._field(field)
            if _is_group(field) or (name in maps and name not in first):
                bringing[name] = field
        self._section()
        for index in _ordered_choices(choices, by_number=self._sort):
            if not any(map(_is_group, choices[index])):
                self._choice(message, choices.pop(index))
        return bringing, choices

    def _nested(
        self,
        message: DescriptorProto,
        bringing: dict[str, FieldDescriptorProto],
        choices: dict[int, list[FieldDescriptorProto]],
    ) -> None:
        of_extensions = {_last(field) for field in message.extension if _is_group(field)}
        for nested in message.nested_type:
            bringer = bringing.get(nested.name)
            if bringer is None:
                if nested.name not in of_extensions and not nested.options.map_entry:
                    self._message(nested)
            elif not _in_choice(bringer):
                self._declaration(bringer, nested)
            elif bringer.oneof_index in choices:  # the oneof is printed once, with all its fields
                self._choice(message, choices.pop(bringer.oneof_index))

    def _choice(self, message: DescriptorProto, members: list[FieldDescriptorProto]) -> None:
        choice = message.oneof_decl[members[0].oneof_index]
        self._open(f"oneof {choice.name}")
        self._option_lines(choice.options)
        self._section()
        for field in members:
            self._field_or_group(field, message.nested_type)
        self._close()

    def _field_or_group(
        self, field: FieldDescriptorProto, nested: Sequence[DescriptorProto]
    ) -> None:
        if not _is_group(field):
            self._field(field)
            return
        name = _last(field)
        self._declaration(field, next(message for message in nested if message.name == name))

    def _field(self, field: FieldDescriptorProto) -> None:
        text = f"{self._label(field)}{_type(field)} {field.name} = {field.number}"
        self._statement(text, self._field_options(field))

    def _declaration(self, field: FieldDescriptorProto, message: DescriptorProto) -> None:
        """Print a map or a group together with its nested type."""
        options = self._field_options(field)
        if _is_group(field):
            texts = f" [{', '.join(self._ordered(options))}]" if options else ""
            self._open(f"{self._label(field)}group {message.name} = {field.number}{texts}")
            self._body(message)
            self._close()
        else:
            key, value = message.field
            kind = f"map<{_type(key)}, {_type(value)}>"
            self._statement(f"{kind} {field.name} = {field.number}", options)

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.label in LABELS:
            return LABELS[field.label]
        if _in_choice(field):
            return ""
        return "optional " if field.proto3_optional or self._file.syntax in ("", "proto2") else ""

    def _field_options(self, field: FieldDescriptorProto) -> list[str]:
        texts = []
        if field.HasField("default_value"):
            value = field.default_value
            if field.type == FieldDescriptorProto.TYPE_STRING:
                value = quoted(value)
            elif field.type == FieldDescriptorProto.TYPE_BYTES:
                value = f'"{value}"'  # it is stored in its escaped form
            texts.append(f"default = {value}")
        if field.HasField("json_name") and field.json_name != _json_name(field.name):
            texts.append(f"json_name = {quoted(field.json_name)}")
        return texts + self._options.texts(field.options)

    def _extensions(
        self, fields: Sequence[FieldDescriptorProto], nested: Sequence[DescriptorProto]
    ) -> None:
        for extendee, members in groupby(fields, lambda field: field.extendee):
            self._open(f"extend {extendee}")
            for field in members:
                self._field_or_group(field, nested)
            self._close()

    def _enum(self, enum: EnumDescriptorProto) -> None:
        self._open(f"enum {enum.name}")
        spans = [(span.start, span.end) for span in enum.reserved_range]
        self._reserved(spans, enum.reserved_name, ENUM_NUMBERS_LAST, 0)
        self._option_lines(enum.options)
        values = list(enum.value)
        if self._sort:
            first = values[:1]  # the default value of the enum: its position matters
            values = first + sorted(values[1:], key=lambda value: (value.number, value.name))
        for value in values:
            self._statement(f"{value.name} = {value.number}", self._options.texts(value.options))
        self._close()

    def _reserved(
        self, spans: list[tuple[int, int]], names: Sequence[str], end: int, exclusive: int
    ) -> None:
        bare = self._file.syntax == "editions"
        quoted_names = [name if bare else quoted(name) for name in names]
        if self._sort:
            spans, quoted_names = sorted(spans), sorted(quoted_names)
        numbers = [_span(*span, end, exclusive) for span in spans]
        lines = (
            [[one] for one in (*numbers, *quoted_names)] if self._sort else [numbers, quoted_names]
        )
        for texts in filter(None, lines):
            self._line(f"reserved {', '.join(texts)};")

    def _service(self, service: ServiceDescriptorProto) -> None:
        self._open(f"service {service.name}")
        self._option_lines(service.options)
        self._section()
        for method in service.method:
            taken = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            given = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            signature = f"rpc {method.name} ({taken}) returns ({given})"
            if not method.options.ByteSize():
                self._line(f"{signature};")
                continue
            self._open(signature)
            self._option_lines(method.options)
            self._close("};")
        self._close()


def _name_in(text: str) -> str:
    return text.partition(" = ")[0].lstrip("(")


def _ordered_choices(
    choices: dict[int, list[FieldDescriptorProto]], *, by_number: bool
) -> list[int]:
    """The indexes of oneofs: as declared, or by their lowest field numbers."""
    if not by_number:
        return sorted(choices)
    return sorted(choices, key=lambda index: min(field.number for field in choices[index]))


def _type(field: FieldDescriptorProto) -> str:
    return field.type_name or TYPES[field.type]


def _in_choice(field: FieldDescriptorProto) -> bool:
    return field.HasField("oneof_index") and not field.proto3_optional


def _is_group(field: FieldDescriptorProto) -> bool:
    return field.type == FieldDescriptorProto.TYPE_GROUP


def _last(field: FieldDescriptorProto) -> str:
    """The unqualified name of a field's type."""
    return field.type_name.rpartition(".")[2]


def _span(start: int, end: int, limit: int, exclusive: int) -> str:
    """Print a range of numbers; a message's ends before `end`, an enum's includes it."""
    last = end - exclusive
    if last == start:
        return str(start)
    return f"{start} to max" if end == limit else f"{start} to {last}"


def _json_name(name: str) -> str:
    """The JSON name of a field that does not set one."""
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)
