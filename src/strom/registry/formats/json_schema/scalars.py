"""Comparing what is said about texts, numbers and single values."""

import re
from collections.abc import Iterator
from fractions import Fraction

from strom.registry.formats.json_schema.nodes import Const, Enum, Number, String, identity
from strom.registry.formats.schema import Problem


def bounds(reader: dict[str, float], writer: dict[str, float]) -> Iterator[Problem]:
    """Compare limits by keyword: a reader may not have one more, nor a tighter one."""
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
    """Compare lengths and patterns."""
    yield from bounds(reader.bounds, writer.bounds)
    if reader.pattern is not None and reader.pattern != writer.pattern:
        rule = "PATTERN_ADDED" if writer.pattern is None else "PATTERN_CHANGED"
        text = f"the reader wants {reader.pattern!r}, the writer {writer.pattern!r}"
        yield Problem(rule, "pattern", text)


def numbers(reader: Number, writer: Number) -> Iterator[Problem]:
    """Compare limits, steps, and whether fractions are accepted."""
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
        yield Problem("MULTIPLE_OF_ADDED", "multipleOf", f"the reader wants multiples of {reader}")
        return
    # As written: in binary 0.3 is no multiple of 0.1.
    mine, others = Fraction(str(reader)), Fraction(str(writer))
    if (others / mine).denominator == 1:
        return
    rule = "MULTIPLE_OF_EXPANDED" if (mine / others).denominator == 1 else "MULTIPLE_OF_CHANGED"
    text = f"the reader wants multiples of {reader}, the writer of {writer}"
    yield Problem(rule, "multipleOf", text)


def enums(reader: Enum, writer: Enum) -> Iterator[Problem]:
    """Compare lists of values."""
    read, wrote = set(map(identity, reader.values)), set(map(identity, writer.values))
    if not wrote <= read:
        rule = "ENUM_ARRAY_NARROWED" if read < wrote else "ENUM_ARRAY_CHANGED"
        missing = [value for value in writer.values if identity(value) not in read]
        yield Problem(rule, "enum", f"the reader does not know {', '.join(map(repr, missing[:5]))}")


def constants(reader: Const, writer: Const) -> Iterator[Problem]:
    """Compare single values."""
    if identity(reader.value) != identity(writer.value):
        text = f"the writer's value is {writer.value!r}, the reader's {reader.value!r}"
        yield Problem("ENUM_ARRAY_CHANGED", "const", text)
