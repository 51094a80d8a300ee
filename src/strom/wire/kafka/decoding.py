"""Generates the Python source of the decoder for one version of one message.

All structs are inlined into one function without calls in the common case, and adjacent fields
of fixed size are unpacked together. In the source, `b` is the buffer, `p` the position in it and
`end` its length. Reading an index past the end raises IndexError and unpacking there struct.error,
which the codec turns into ProtocolError; slices would be cut silently, so sizes are checked first.
"""

import struct
from collections.abc import Callable
from typing import Any

from strom.model.errors import ProtocolError
from strom.wire.kafka.schema import FRESH, ArrayOf, Field, Scalar, Struct
from strom.wire.kafka.varints import (
    MAX_UNKNOWN_TAGS,
    read_varint,
    read_varint_rest,
    skip_tags,
)

MAX_STRING_BYTES = 32767
MAX_ELEMENTS = 50_000
"""The limit for all arrays of a message together; every topic and partition of a large cluster fits."""


def compile_decoder(cls: type[Struct], version: int) -> Callable[[memoryview, int, int], Any]:
    """The function (buffer, position, end) -> message."""
    source = _DecoderSource(cls, version)
    scope = source.scope
    exec(compile(source.text(), f"<decode {cls.__name__} v{version}>", "exec"), scope)  # noqa: S102
    decoder: Callable[[memoryview, int, int], Any] = scope["decode"]
    return decoder


def smallest_size(kind: Scalar | ArrayOf | type[Struct], version: int, flexible: bool) -> int:
    """The fewest bytes that a value of this type can take."""
    if isinstance(kind, Scalar):
        if kind.fixed_format:
            return struct.calcsize(">" + kind.fixed_format)
        if flexible:
            return 1
        return 2 if kind is Scalar.STRING else 4
    if isinstance(kind, ArrayOf):
        return 1 if flexible else 4
    sizes = (
        1
        if version in field.nullable and _is_struct(field)
        else smallest_size(field.type, version, flexible)
        for field in kind.SCHEMA.fields
        if version in field.versions and field.tag is None
    )
    return sum(sizes) + (1 if flexible else 0)


def _is_struct(field: Field) -> bool:
    return not isinstance(field.type, Scalar | ArrayOf)


class _DecoderSource:
    def __init__(self, cls: type[Struct], version: int) -> None:
        self._cls = cls
        self._version = version
        self._flexible = version in cls.SCHEMA.flexible
        self._lines: list[str] = []
        self._indent = 1
        self._pending: list[tuple[str, str]] = []
        self._names = 0
        self.scope: dict[str, Any] = {
            "new": object.__new__,
            "varint": read_varint,
            "varint_rest": read_varint_rest,
            "skip_tags": skip_tags,
            "unpack_from": struct.unpack_from,
            "ProtocolError": ProtocolError,
        }

    def text(self) -> str:
        self._struct(self._cls, "m")
        self._flush()
        # Trailing bytes are ignored, as in Kafka: librdkafka 2.16 sends three extra bytes with some
        # Metadata requests.
        self._emit("return m")
        return "\n".join(["def decode(b, p, end):", "    elements = 0", *self._lines])

    # Building blocks

    def _emit(self, line: str) -> None:
        self._lines.append("    " * self._indent + line)

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _fixed(self, code: str, target: str) -> None:
        """Read a field of fixed size, together with its neighbours, at the next flush."""
        self._pending.append((code, target))

    def _flush(self) -> None:
        if not self._pending:
            return
        codes = "".join(code for code, _ in self._pending)
        targets = ", ".join(target for _, target in self._pending)
        layout = struct.Struct(">" + codes)
        name = f"unpack_{codes.replace('?', 'z')}"
        self.scope[name] = layout.unpack_from
        comma = "," if len(self._pending) == 1 else ""
        self._emit(f"{targets}{comma} = {name}(b, p)")
        self._emit(f"p += {layout.size}")
        self._pending.clear()

    def _varint(self, target: str) -> None:
        self._flush()
        self._emit(f"{target} = b[p]")
        self._emit("p += 1")
        self._emit(f"if {target} > 127:")
        self._emit(f"    {target}, p = varint_rest(b, p, {target})")

    def _length(self, code: str, target: str) -> None:
        """Read a length or a count; -1 stands for null in both encodings."""
        if self._flexible:
            self._varint(target)
            self._emit(f"{target} -= 1")
        else:
            self._fixed(code, target)
            self._flush()

    def _reject_if(self, condition: str, field: Field, problem: str) -> None:
        self._emit(f"if {condition}:")
        self._emit(f'    raise ProtocolError("field {field.name} {problem}")')

    # Fields

    def _struct(self, cls: type[Struct], target: str) -> None:
        self.scope[cls.__name__] = cls
        self._emit(f"{target} = new({cls.__name__})")
        tagged = []
        for field in cls.SCHEMA.fields:
            present = self._version in field.versions
            if present and field.tag is None:
                self._field(field, f"{target}.{field.name}")
                continue
            self._default(field, f"{target}.{field.name}")
            if present:
                tagged.append(field)
        if self._flexible:
            self._tags(tagged, target)

    def _default(self, field: Field, target: str) -> None:
        if field.default is not FRESH:
            self._emit(f"{target} = {field.default!r}")
        elif isinstance(field.type, ArrayOf):
            self._emit(f"{target} = []")
        else:
            name = f"new_{field.name}"
            self.scope[name] = field.type
            self._emit(f"{target} = {name}()")

    def _field(self, field: Field, target: str) -> None:
        kind = field.type
        if isinstance(kind, ArrayOf):
            self._array(field, kind, target)
        elif not isinstance(kind, Scalar):
            self._nested(field, kind, target)
        elif kind.fixed_format:
            self._fixed(kind.fixed_format, target)
        else:
            nullable = self._version in field.nullable
            self._sized(field, kind, target, nullable=nullable)

    def _nested(self, field: Field, kind: type[Struct], target: str) -> None:
        name = self._name("m")
        if self._version not in field.nullable:
            self._struct(kind, name)
            self._emit(f"{target} = {name}")
            return
        marker = self._name("n")
        self._fixed("b", marker)
        self._flush()
        self._emit(f"if {marker} < {0 if field.tag is None else 1}:")
        self._emit(f"    {target} = None")
        self._emit("else:")
        self._indent += 1
        self._struct(kind, name)
        self._flush()
        self._emit(f"{target} = {name}")
        self._indent -= 1

    def _sized(self, field: Field, kind: Scalar, target: str, *, nullable: bool) -> None:
        """A string, bytes or records: a length and that many bytes."""
        size, stop = self._name("n"), self._name("q")
        is_string = kind is Scalar.STRING
        self._length("h" if is_string else "i", size)
        limit = f" or {size} > {MAX_STRING_BYTES}" if is_string else ""
        if nullable:
            self._emit(f"if {size} == -1:")
            self._emit(f"    {target} = None")
            self._emit("else:")
            self._indent += 1
        self._emit(f"{stop} = p + {size}")
        self._reject_if(f"{size} < 0{limit} or {stop} > end", field, "has an invalid length")
        value = {
            Scalar.STRING: f"str(b[p:{stop}], 'utf-8')",
            Scalar.BYTES: f"b[p:{stop}].tobytes()",
            Scalar.RECORDS: f"b[p:{stop}]",
        }[kind]
        self._emit(f"{target} = {value}")
        self._emit(f"p = {stop}")
        if nullable:
            self._indent -= 1

    def _array(self, field: Field, kind: ArrayOf, target: str) -> None:
        count, items = self._name("n"), self._name("a")
        self._length("i", count)
        nullable = self._version in field.nullable
        if nullable:
            self._emit(f"if {count} == -1:")
            self._emit(f"    {target} = None")
            self._emit("else:")
            self._indent += 1
        # Reject a count that the rest of the buffer cannot hold, before anything is allocated.
        element_size = smallest_size(kind.element, self._version, self._flexible)
        assert element_size > 0, f"elements of {field.name} may be empty"  # noqa: S101
        condition = f"{count} < 0 or {count} * {element_size} > end - p"
        self._reject_if(condition, field, "has an invalid count")
        # Small elements become objects of many times their size, so their number is limited too.
        self._emit(f"elements += {count}")
        self._reject_if(
            f"elements > {MAX_ELEMENTS}",
            field,
            f"exceeds the limit of {MAX_ELEMENTS} array elements in a message",
        )
        self._elements(field, kind.element, target, count, items)
        if nullable:
            self._indent -= 1

    def _elements(
        self, field: Field, element: Scalar | type[Struct], target: str, count: str, items: str
    ) -> None:
        if isinstance(element, Scalar) and element.fixed_format:
            code, size = element.fixed_format, smallest_size(element, 0, False)
            self._emit(f"{target} = list(unpack_from(f'>{{{count}}}{code}', b, p))")
            self._emit(f"p += {count} * {size}")
            return
        self._emit(f"{target} = {items} = []")
        self._emit(f"for _ in range({count}):")
        self._indent += 1
        value = self._name("v")
        if isinstance(element, Scalar):
            self._sized(field, element, value, nullable=False)
        else:
            self._struct(element, value)
            self._flush()
        self._emit(f"{items}.append({value})")
        self._indent -= 1

    def _tags(self, tagged: list[Field], target: str) -> None:
        count = self._name("n")
        self._flush()
        self._emit(f"{count} = b[p]")
        self._emit("p += 1")
        self._emit(f"if {count}:")
        self._indent += 1
        if not tagged:
            self._emit(f"p = skip_tags(b, p, {count})")
        else:
            self._known_tags(tagged, target, count)
        self._indent -= 1

    def _known_tags(self, tagged: list[Field], target: str, count: str) -> None:
        tag, size, stop = self._name("n"), self._name("n"), self._name("q")
        self._emit(f"if {count} > 127:")
        self._emit(f"    {count}, p = varint_rest(b, p, {count})")
        self._emit(f"if {count} > {MAX_UNKNOWN_TAGS + len(tagged)}:")
        self._emit('    raise ProtocolError("too many tagged fields in one struct")')
        self._emit(f"for _ in range({count}):")
        self._indent += 1
        self._emit(f"{tag}, p = varint(b, p)")
        self._emit(f"{size}, p = varint(b, p)")
        self._emit(f"{stop} = p + {size}")
        self._emit(f"if {stop} > end:")
        self._emit('    raise ProtocolError("a tagged field exceeds the message")')
        for number, field in enumerate(tagged):
            self._emit(f"{'elif' if number else 'if'} {tag} == {field.tag}:")
            self._indent += 1
            self._field(field, f"{target}.{field.name}")
            self._flush()
            self._reject_if(f"p != {stop}", field, "does not match the size of its tag")
            self._indent -= 1
        self._emit("else:")
        self._emit(f"    p = {stop}")
        self._indent -= 1
