"""Generates the Python source of the encoder for one version of one message.

All structs are inlined into one function, and adjacent fields of fixed size are packed together.
In the source, `out` collects bytes; `parts` collects the bytes before records, the buffers of records,
and the bytes after them.
"""

import struct
from collections.abc import Callable
from typing import Any

from strom.model.errors import ProtocolError
from strom.wire.kafka.decoding import MAX_STRING_BYTES
from strom.wire.kafka.function_source import FunctionSource
from strom.wire.kafka.schema import FRESH, ArrayOf, Field, Records, Scalar, Struct
from strom.wire.kafka.varints import varint


def compile_encoder(
    cls: type[Struct], version: int, *, in_steps: bool = False
) -> Callable[..., Any]:
    """The function message -> list of buffers.

    In steps, it is a generator that returns them, and `OnGrowth` is a second argument.
    """
    return _EncoderSource(cls, version, in_steps=in_steps).compile("encode")


def _add_records(parts: list[Any], records: Records) -> int:
    """Append buffers of records without copying them, and return their size in bytes."""
    if records is None:
        return 0
    if isinstance(records, bytes | bytearray | memoryview):
        parts.append(records)
        return len(records)
    parts.extend(records)
    return sum(map(len, records))


class _EncoderSource(FunctionSource):
    def __init__(self, cls: type[Struct], version: int, *, in_steps: bool) -> None:
        scope = {
            "add_records": _add_records,
            "varint": varint,
            "pack": struct.pack,
            "ProtocolError": ProtocolError,
        }
        super().__init__(cls, version, scope, in_steps=in_steps)
        self._out = "out"

    def text(self) -> str:
        self.emit("parts = []")
        self.emit("out = bytearray()")
        if self._in_steps:
            self.emit("most = on_growth(0)")
        self.step()
        self._struct(self.cls, "m")
        self.flush()
        self.emit("parts.append(out)")
        self.emit("return parts")
        arguments = "m, on_growth" if self._in_steps else "m"
        return "\n".join([f"def encode({arguments}):", *self.lines])

    # Building blocks

    def step(self) -> None:
        if self._in_steps:
            self.emit("if len(out) > most:")
            self.emit("    most = on_growth(len(out))")
        super().step()

    def flush(self) -> None:
        if not self.pending:
            return
        codes, values = self.take_pending()
        if codes == "B":
            self.emit(f"{self._out}.append({values})")
            return
        name = f"pack_{codes.replace('?', 'z')}"
        self.scope[name] = struct.Struct(">" + codes).pack
        self.emit(f"{self._out} += {name}({values})")

    def _length(self, code: str, value: str) -> None:
        """Write a length or a count that is not null."""
        if not self.is_flexible:
            self.fixed(code, value)
            return
        with self.block(f"if {value} < 127:"):
            self.emit(f"{self._out}.append({value} + 1)")
        with self.block("else:"):
            self.emit(f"{self._out} += varint({value} + 1)")

    def _null(self, code: str) -> None:
        if self.is_flexible:
            self.fixed("B", "0")
        else:
            self.fixed(code, "-1")

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
            if self.version not in field.versions:
                self._absent(cls, field, value)
            elif field.tag is None:
                self._field(field, value)
            else:
                tagged.append(field)
        if self.is_flexible:
            self._tags(sorted(tagged, key=lambda field: field.tag or 0), source)

    def _absent(self, cls: type[Struct], field: Field, value: str) -> None:
        if field.ignorable:
            return
        self.reject_if(
            f"not ({self._is_default(field, value)})",
            f"{cls.__name__}.{field.name} is set, but version {self.version} does not have this field",
        )

    def _field(self, field: Field, value: str) -> None:
        kind = field.type
        if isinstance(kind, Scalar) and kind.fixed_format:
            self.fixed(kind.fixed_format, value)
            return
        local = self.name("v")
        self.emit(f"{local} = {value}")
        if self.version not in field.nullable:
            self._present(kind, local)
            return
        with self.block(f"if {local} is None:"):
            if isinstance(kind, Scalar | ArrayOf):
                self._null("h" if kind is Scalar.STRING else "i")
            else:
                self.fixed("b", "-1" if field.tag is None else "0")
        with self.block("else:"):
            if not isinstance(kind, Scalar | ArrayOf):
                self.fixed("b", "1")
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
        size = self.name("n")
        if kind is Scalar.STRING:
            self.emit(f"{value} = {value}.encode()")
        self.emit(f"{size} = len({value})")
        if kind is Scalar.STRING and self.is_flexible:
            self.emit(f"if {size} > {MAX_STRING_BYTES}:")
            problem = f"string of {{{size}}} bytes exceeds the limit of {MAX_STRING_BYTES} bytes"
            self.emit(f'    raise ProtocolError(f"{problem}")')
        self._length("h" if kind is Scalar.STRING else "i", size)
        self.flush()
        self.emit(f"{self._out} += {value}")

    def _records(self, value: str) -> None:
        size = self.name("n")
        assert self._out == "out", "records cannot be tagged"  # noqa: S101
        self.flush()
        # The length still goes into this `out`, which `parts` already holds before the records.
        self.emit("parts.append(out)")
        self.emit(f"{size} = add_records(parts, {value})")
        self._length("i", size)
        self.flush()
        self.emit("out = bytearray()")

    def _array(self, element: Scalar | type[Struct], value: str) -> None:
        count, item = self.name("n"), self.name("v")
        self.emit(f"{count} = len({value})")
        self._length("i", count)
        if isinstance(element, Scalar) and element.fixed_format:
            self.flush()
            code = element.fixed_format
            self.emit(f"{self._out} += pack(f'>{{{count}}}{code}', *{value})")
            return
        with self.block(f"for {item} in {value}:"):
            self.step()
            self._present(element, item)

    def _tags(self, tagged: list[Field], source: str) -> None:
        if not tagged:
            self.fixed("B", "0")
            return
        self.flush()
        count = self.name("n")
        conditions = [self._is_written(field, f"{source}.{field.name}") for field in tagged]
        self.emit(f"{count} = {' + '.join(conditions)}")
        self.emit(f"{self._out}.append({count})")
        with self.block(f"if {count}:"):
            for field, condition in zip(tagged, conditions, strict=True):
                with self.block(f"if {condition}:"):
                    self._tag(field, source)

    def _is_written(self, field: Field, value: str) -> str:
        """The condition under which a tagged field is written."""
        if self.version in field.nullable and not isinstance(field.type, Scalar | ArrayOf):
            return "True"  # Kafka writes a tagged struct even if it is null
        return f"(not ({self._is_default(field, value)}))"

    def _tag(self, field: Field, source: str) -> None:
        """Write a tagged field into a separate buffer, because its size precedes it."""
        outer, self._out = self._out, self.name("out")
        self.emit(f"{self._out} = bytearray()")
        self._field(field, f"{source}.{field.name}")
        self.flush()
        self.emit(f"{outer} += varint({field.tag})")
        self.emit(f"{outer} += varint(len({self._out}))")
        self.emit(f"{outer} += {self._out}")
        self._out = outer
