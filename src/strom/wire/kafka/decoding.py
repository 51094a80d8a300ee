"""Generates the Python source of the decoder for one version of one message.

All structs are inlined into one function without calls in the common case, and adjacent fields
of fixed size are unpacked together. In the source, `b` is the buffer, `p` the position in it and
`end` its length. Reading an index past the end raises IndexError and unpacking there struct.error,
which the codec turns into ProtocolError; slices would be cut silently, so sizes are checked first.
"""

import struct
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from strom.model.errors import ProtocolError
from strom.wire.kafka.function_source import FunctionSource
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


def compile_decoder(
    cls: type[Struct], version: int, *, in_steps: bool = False
) -> Callable[[memoryview, int, int], Any]:
    """The function (buffer, position, end) -> message, if wanted as a generator that returns it."""
    return _DecoderSource(cls, version, in_steps=in_steps).compile("decode")


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


class _DecoderSource(FunctionSource):
    def __init__(self, cls: type[Struct], version: int, *, in_steps: bool) -> None:
        scope = {
            "new": object.__new__,
            "varint": read_varint,
            "varint_rest": read_varint_rest,
            "skip_tags": skip_tags,
            "unpack_from": struct.unpack_from,
            "ProtocolError": ProtocolError,
        }
        super().__init__(cls, version, scope, in_steps=in_steps)

    def text(self) -> str:
        self.step()
        self._struct(self.cls, "m")
        self.flush()
        # Trailing bytes are ignored, as in Kafka: librdkafka 2.16 sends three extra bytes with some
        # Metadata requests.
        self.emit("return m")
        return "\n".join(["def decode(b, p, end):", "    elements = 0", *self.lines])

    # Building blocks

    def flush(self) -> None:
        if not self.pending:
            return
        comma = "," if len(self.pending) == 1 else ""
        codes, targets = self.take_pending()
        layout = struct.Struct(">" + codes)
        name = f"unpack_{codes.replace('?', 'z')}"
        self.scope[name] = layout.unpack_from
        self.emit(f"{targets}{comma} = {name}(b, p)")
        self.emit(f"p += {layout.size}")

    def _length(self, code: str, target: str) -> None:
        """Read a length or a count; -1 stands for null in both encodings."""
        if not self.is_flexible:
            self.fixed(code, target)
            self.flush()
            return
        self.flush()
        self.emit(f"{target} = b[p]")
        self.emit("p += 1")
        self.emit(f"if {target} > 127:")
        self.emit(f"    {target}, p = varint_rest(b, p, {target})")
        self.emit(f"{target} -= 1")

    # Fields

    def _struct(self, cls: type[Struct], target: str) -> None:
        self.scope[cls.__name__] = cls
        self.emit(f"{target} = new({cls.__name__})")
        tagged = []
        for field in cls.SCHEMA.fields:
            present = self.version in field.versions
            if present and field.tag is None:
                self._field(field, f"{target}.{field.name}")
                continue
            self._default(field, f"{target}.{field.name}")
            if present:
                tagged.append(field)
        if self.is_flexible:
            self._tags(tagged, target)

    def _default(self, field: Field, target: str) -> None:
        if field.default is not FRESH:
            self.emit(f"{target} = {field.default!r}")
        elif isinstance(field.type, ArrayOf):
            self.emit(f"{target} = []")
        else:
            name = f"new_{field.name}"
            self.scope[name] = field.type
            self.emit(f"{target} = {name}()")

    def _field(self, field: Field, target: str) -> None:
        kind = field.type
        if isinstance(kind, ArrayOf):
            self._array(field, kind, target)
        elif not isinstance(kind, Scalar):
            self._nested(field, kind, target)
        elif kind.fixed_format:
            self.fixed(kind.fixed_format, target)
        else:
            nullable = self.version in field.nullable
            self._sized(field, kind, target, nullable=nullable)

    def _nested(self, field: Field, kind: type[Struct], target: str) -> None:
        name = self.name("m")
        if self.version not in field.nullable:
            self._struct(kind, name)
            self.emit(f"{target} = {name}")
            return
        marker = self.name("n")
        self.fixed("b", marker)
        self.flush()
        self.emit(f"if {marker} < {0 if field.tag is None else 1}:")
        self.emit(f"    {target} = None")
        with self.block("else:"):
            self._struct(kind, name)
            self.flush()
            self.emit(f"{target} = {name}")

    def _sized(self, field: Field, kind: Scalar, target: str, *, nullable: bool) -> None:
        """A string, bytes or records: a length and that many bytes."""
        size, stop = self.name("n"), self.name("q")
        is_string = kind is Scalar.STRING
        self._length("h" if is_string else "i", size)
        limit = f" or {size} > {MAX_STRING_BYTES}" if is_string else ""
        value = {
            Scalar.STRING: f"str(b[p:{stop}], 'utf-8')",
            Scalar.BYTES: f"b[p:{stop}].tobytes()",
            Scalar.RECORDS: f"b[p:{stop}]",
        }[kind]
        with self._unless_null(size, target, nullable=nullable):
            self.emit(f"{stop} = p + {size}")
            self.reject_if(
                f"{size} < 0{limit} or {stop} > end", f"field {field.name} has an invalid length"
            )
            self.emit(f"{target} = {value}")
            self.emit(f"p = {stop}")

    def _unless_null(
        self, size: str, target: str, *, nullable: bool
    ) -> AbstractContextManager[None]:
        """The branch for a value that is not null."""
        if not nullable:
            return nullcontext()
        self.emit(f"if {size} == -1:")
        self.emit(f"    {target} = None")
        return self.block("else:")

    def _array(self, field: Field, kind: ArrayOf, target: str) -> None:
        count, items = self.name("n"), self.name("a")
        self._length("i", count)
        # Reject a count that the rest of the buffer cannot hold, before anything is allocated.
        element_size = smallest_size(kind.element, self.version, self.is_flexible)
        assert element_size > 0, f"elements of {field.name} may be empty"  # noqa: S101
        with self._unless_null(count, target, nullable=self.version in field.nullable):
            self.reject_if(
                f"{count} < 0 or {count} * {element_size} > end - p",
                f"field {field.name} has an invalid count",
            )
            # Small elements become objects of many times their size, so their number is limited too.
            self.emit(f"elements += {count}")
            self.reject_if(
                f"elements > {MAX_ELEMENTS}",
                f"field {field.name} exceeds the limit of {MAX_ELEMENTS} array elements in a message",
            )
            self._elements(field, kind.element, target, count, items)

    def _elements(
        self, field: Field, element: Scalar | type[Struct], target: str, count: str, items: str
    ) -> None:
        if isinstance(element, Scalar) and element.fixed_format:
            code, size = element.fixed_format, smallest_size(element, 0, False)
            self.emit(f"{target} = list(unpack_from(f'>{{{count}}}{code}', b, p))")
            self.emit(f"p += {count} * {size}")
            return
        self.emit(f"{target} = {items} = []")
        with self.block(f"for _ in range({count}):"):
            self.step()
            value = self.name("v")
            if isinstance(element, Scalar):
                self._sized(field, element, value, nullable=False)
            else:
                self._struct(element, value)
                self.flush()
            self.emit(f"{items}.append({value})")

    def _tags(self, tagged: list[Field], target: str) -> None:
        count = self.name("n")
        self.flush()
        self.emit(f"{count} = b[p]")
        self.emit("p += 1")
        with self.block(f"if {count}:"):
            if not tagged:
                self.emit(f"p = skip_tags(b, p, {count})")
            else:
                self._known_tags(tagged, target, count)

    def _known_tags(self, tagged: list[Field], target: str, count: str) -> None:
        tag, size, stop = self.name("n"), self.name("n"), self.name("q")
        self.emit(f"if {count} > 127:")
        self.emit(f"    {count}, p = varint_rest(b, p, {count})")
        self.reject_if(
            f"{count} > {MAX_UNKNOWN_TAGS + len(tagged)}", "too many tagged fields in one struct"
        )
        with self.block(f"for _ in range({count}):"):
            self.emit(f"{tag}, p = varint(b, p)")
            self.emit(f"{size}, p = varint(b, p)")
            self.emit(f"{stop} = p + {size}")
            self.reject_if(f"{stop} > end", "a tagged field exceeds the message")
            for number, field in enumerate(tagged):
                with self.block(f"{'elif' if number else 'if'} {tag} == {field.tag}:"):
                    self._field(field, f"{target}.{field.name}")
                    self.flush()
                    problem = f"field {field.name} does not match the size of its tag"
                    self.reject_if(f"p != {stop}", problem)
            self.emit("else:")
            self.emit(f"    p = {stop}")
