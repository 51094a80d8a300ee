"""Generates the Python source of the encoder for one version of one message.

All structs are inlined into one function, and adjacent fields of fixed size are packed together.
In the source, `out` collects bytes; `parts` collects the bytes before records, the buffers of records,
and the bytes after them.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from strom.model.errors import ProtocolError
from strom.wire.kafka.decoding import MAX_STRING_BYTES
from strom.wire.kafka.schema import FRESH, ArrayOf, Field, Records, Scalar, Struct
from strom.wire.kafka.varints import varint


def compile_encoder(cls: type[Struct], version: int) -> Callable[[Any], list[Any]]:
    """The function message -> list of buffers."""
    source = _EncoderSource(cls, version)
    scope = source.scope
    exec(compile(source.text(), f"<encode {cls.__name__} v{version}>", "exec"), scope)  # noqa: S102
    encoder: Callable[[Any], list[Any]] = scope["encode"]
    return encoder


def _has_value_message(cls: type[Struct], field: Field, version: int) -> str:
    return f"{cls.__name__}.{field.name} is set, but version {version} does not have this field"


def _add_records(parts: list[Any], records: Records) -> int:
    """Append buffers of records without copying them, and return their size in bytes."""
    if records is None:
        return 0
    if isinstance(records, bytes | bytearray | memoryview):
        parts.append(records)
        return len(records)
    parts.extend(records)
    return sum(map(len, records))


class _EncoderSource:
    def __init__(self, cls: type[Struct], version: int) -> None:
        self._cls = cls
        self._version = version
        self._flexible = version in cls.SCHEMA.flexible
        self._lines: list[str] = []
        self._indent = 1
        self._pending: list[tuple[str, str]] = []
        self._names = 0
        self._out = "out"
        self.scope: dict[str, Any] = {
            "add_records": _add_records,
            "varint": varint,
            "pack": struct.pack,
            "ProtocolError": ProtocolError,
        }

    def text(self) -> str:
        self._emit("parts = []")
        self._emit("out = bytearray()")
        self._struct(self._cls, "m")
        self._flush()
        self._emit("parts.append(out)")
        self._emit("return parts")
        return "\n".join(["def encode(m):", *self._lines])

    # Building blocks

    def _emit(self, line: str) -> None:
        self._lines.append("    " * self._indent + line)

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        """A branch or a loop; pending fields are flushed before and after it."""
        self._flush()
        self._emit(head)
        self._indent += 1
        yield
        self._flush()
        self._indent -= 1

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _fixed(self, code: str, value: str) -> None:
        """Write a value of fixed size, together with its neighbours, at the next flush."""
        self._pending.append((code, value))

    def _flush(self) -> None:
        if not self._pending:
            return
        codes = "".join(code for code, _ in self._pending)
        values = ", ".join(value for _, value in self._pending)
        self._pending.clear()
        if codes == "B":
            self._emit(f"{self._out}.append({values})")
            return
        name = f"pack_{codes.replace('?', 'z')}"
        self.scope[name] = struct.Struct(">" + codes).pack
        self._emit(f"{self._out} += {name}({values})")

    def _length(self, code: str, value: str) -> None:
        """Write a length or a count that is not null."""
        if not self._flexible:
            self._fixed(code, value)
            return
        with self._block(f"if {value} < 127:"):
            self._emit(f"{self._out}.append({value} + 1)")
        with self._block("else:"):
            self._emit(f"{self._out} += varint({value} + 1)")

    def _null(self, code: str) -> None:
        if self._flexible:
            self._fixed("B", "0")
        else:
            self._fixed(code, "-1")

    def _is_default(self, field: Field, value: str) -> str:
        """The condition under which a field holds its default."""
        if field.default is None:
            return f"{value} is None"
        if field.default is not FRESH:
            return f"{value} == {field.default!r}"
        if isinstance(field.type, ArrayOf):
            return f"not {value}"
        assert not isinstance(field.type, Scalar)  # noqa: S101
        name = f"default_{field.name}"
        self.scope[name] = field.type()
        return f"{value} == {name}"

    # Fields

    def _struct(self, cls: type[Struct], source: str) -> None:
        tagged = []
        for field in cls.SCHEMA.fields:
            value = f"{source}.{field.name}"
            if self._version not in field.versions:
                self._absent(cls, field, value)
            elif field.tag is None:
                self._field(field, value)
            else:
                tagged.append(field)
        if self._flexible:
            self._tags(sorted(tagged, key=lambda field: field.tag or 0), source)

    def _absent(self, cls: type[Struct], field: Field, value: str) -> None:
        if field.ignorable:
            return
        self._emit(f"if not ({self._is_default(field, value)}):")
        self._emit(f"    raise ProtocolError({_has_value_message(cls, field, self._version)!r})")

    def _field(self, field: Field, value: str) -> None:
        kind = field.type
        if isinstance(kind, Scalar) and kind.fixed_format:
            self._fixed(kind.fixed_format, value)
            return
        local = self._name("v")
        self._emit(f"{local} = {value}")
        if self._version not in field.nullable:
            self._present(kind, local)
            return
        with self._block(f"if {local} is None:"):
            if isinstance(kind, Scalar | ArrayOf):
                self._null("h" if kind is Scalar.STRING else "i")
            else:
                self._fixed("b", "-1" if field.tag is None else "0")
        with self._block("else:"):
            if not isinstance(kind, Scalar | ArrayOf):
                self._fixed("b", "1")
            self._present(kind, local)

    def _present(self, kind: Scalar | ArrayOf | type[Struct], value: str) -> None:
        """Write a value that is not null."""
        if isinstance(kind, ArrayOf):
            self._array(kind.element, value)
        elif kind is Scalar.RECORDS:
            self._records(value)
        elif isinstance(kind, Scalar):
            self._sized(kind, value)
        else:
            self._struct(kind, value)

    def _sized(self, kind: Scalar, value: str) -> None:
        size = self._name("n")
        if kind is Scalar.STRING:
            self._emit(f"{value} = {value}.encode()")
        self._emit(f"{size} = len({value})")
        if kind is Scalar.STRING and self._flexible:
            self._emit(f"if {size} > {MAX_STRING_BYTES}:")
            problem = f"string of {{{size}}} bytes exceeds the limit of {MAX_STRING_BYTES} bytes"
            self._emit(f'    raise ProtocolError(f"{problem}")')
        self._length("h" if kind is Scalar.STRING else "i", size)
        self._flush()
        self._emit(f"{self._out} += {value}")

    def _records(self, value: str) -> None:
        size = self._name("n")
        assert self._out == "out", "records cannot be tagged"  # noqa: S101
        self._flush()
        # The length still goes into this `out`, which `parts` already holds before the records.
        self._emit("parts.append(out)")
        self._emit(f"{size} = add_records(parts, {value})")
        self._length("i", size)
        self._flush()
        self._emit("out = bytearray()")

    def _array(self, element: Scalar | type[Struct], value: str) -> None:
        count, item = self._name("n"), self._name("v")
        self._emit(f"{count} = len({value})")
        self._length("i", count)
        if isinstance(element, Scalar) and element.fixed_format:
            self._flush()
            code = element.fixed_format
            self._emit(f"{self._out} += pack(f'>{{{count}}}{code}', *{value})")
            return
        with self._block(f"for {item} in {value}:"):
            self._present(element, item)

    def _tags(self, tagged: list[Field], source: str) -> None:
        if not tagged:
            self._fixed("B", "0")
            return
        self._flush()
        count = self._name("n")
        conditions = [self._is_written(field, f"{source}.{field.name}") for field in tagged]
        self._emit(f"{count} = {' + '.join(conditions)}")
        self._emit(f"{self._out}.append({count})")
        with self._block(f"if {count}:"):
            for field, condition in zip(tagged, conditions, strict=True):
                with self._block(f"if {condition}:"):
                    self._tag(field, source)

    def _is_written(self, field: Field, value: str) -> str:
        """The condition under which a tagged field is written."""
        if self._version in field.nullable and not isinstance(field.type, Scalar | ArrayOf):
            return "True"  # Kafka writes a tagged struct even if it is null
        return f"(not ({self._is_default(field, value)}))"

    def _tag(self, field: Field, source: str) -> None:
        """Write a tagged field into a separate buffer, because its size precedes it."""
        outer, self._out = self._out, self._name("out")
        self._emit(f"{self._out} = bytearray()")
        self._field(field, f"{source}.{field.name}")
        self._flush()
        self._emit(f"{outer} += varint({field.tag})")
        self._emit(f"{outer} += varint(len({self._out}))")
        self._emit(f"{outer} += {self._out}")
        self._out = outer
