"""Compares strings, numbers, enums and constants."""

import re
from collections.abc import Iterator
from fractions import Fraction

from strom.registry.formats.json_schema.nodes import Const, Enum, Number, String, identity
from strom.registry.formats.schema import Problem


def bounds(reader: dict[str, float], writer: dict[str, float]) -> Iterator[Problem]:
    """Compare limits by keyword: a reader must not add or tighten one."""
    for word, limit in reader.items():
        rule = re.sub(r"(?=[A-Z])", "_", word).upper()
        if word not in writer:
            yield Problem(
                f"{rule}_ADDED", word, f"the reader has a {word} of {limit}, the writer none"
            )
        elif "min" in word.lower() and limit > writer[word]:
            text = f"the reader's {word} is {limit}, the writer's {writer[word]}"
            yield Problem(f"{rule}_INCREASED", word, text)
        elif "max" in word.lower() and limit < writer[word]:
            text = f"the reader's {word} is {limit}, the writer's {writer[word]}"
            yield Problem(f"{rule}_DECREASED", word, text)


def strings(reader: String, writer: String) -> Iterator[Problem]:
    yield from bounds(reader.bounds, writer.bounds)
    if reader.pattern is not None and reader.pattern != writer.pattern:
        rule = "PATTERN_ADDED" if writer.pattern is None else "PATTERN_CHANGED"
        text = f"the reader's pattern is {reader.pattern!r}, the writer's {writer.pattern!r}"
        yield Problem(rule, "pattern", text)


def numbers(reader: Number, writer: Number) -> Iterator[Problem]:
    """Compare limits, `multipleOf`, and whether fractions are accepted."""
    yield from bounds(reader.bounds, writer.bounds)
    yield from _steps(reader.multiple_of, writer.multiple_of)
    if reader.integer and not writer.integer:
        yield Problem(
            "TYPE_NARROWED", "", "the writer accepts all numbers, the reader integers only"
        )


def _steps(reader: float | None, writer: float | None) -> Iterator[Problem]:
    if reader is None:
        return
    if writer is None:
        yield Problem(
            "MULTIPLE_OF_ADDED", "multipleOf", f"the reader requires multiples of {reader}"
        )
        return
    # In decimal: as binary fractions, 0.3 is not a multiple of 0.1.
    mine, others = Fraction(str(reader)), Fraction(str(writer))
    if (others / mine).denominator == 1:
        return
    rule = "MULTIPLE_OF_EXPANDED" if (mine / others).denominator == 1 else "MULTIPLE_OF_CHANGED"
    text = f"the reader requires multiples of {reader}, the writer of {writer}"
    yield Problem(rule, "multipleOf", text)


def enums(reader: Enum, writer: Enum) -> Iterator[Problem]:
    read, wrote = set(map(identity, reader.values)), set(map(identity, writer.values))
    if not wrote <= read:
        rule = "ENUM_ARRAY_NARROWED" if read < wrote else "ENUM_ARRAY_CHANGED"
        missing = [value for value in writer.values if identity(value) not in read]
        yield Problem(rule, "enum", f"the reader lacks {', '.join(map(repr, missing[:5]))}")


def constants(reader: Const, writer: Const) -> Iterator[Problem]:
    if identity(reader.value) != identity(writer.value):
        text = f"the writer's value is {writer.value!r}, the reader's {reader.value!r}"
        yield Problem("ENUM_ARRAY_CHANGED", "const", text)
