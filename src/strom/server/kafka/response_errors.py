"""Counts the error codes in a response, for metrics.

Error codes are at different places of each response: at the top, in topics, in partitions. A function is
generated from the declaration of each response at its first use, as in the codec. It reads nothing else,
so that a produce response with one partition costs 0.1 µs.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeAlias

from strom.model.steps import Steps
from strom.wire.kafka.schema import ArrayOf, Response, Struct

ErrorCounter: TypeAlias = Callable[[Response, dict[int, int]], None]
ErrorCounterInSteps: TypeAlias = Callable[[Response, dict[int, int]], Steps[None]]
_FIELD = "error_code"


@cache
def error_counter(kind: type[Response]) -> ErrorCounter:
    """Generate a function that adds the error codes of a response to counts by code."""
    counter: ErrorCounter = _compile([*_lines(kind, "response", 1), "    return None"])
    return counter


@cache
def error_counter_in_steps(kind: type[Response]) -> ErrorCounterInSteps:
    """Generate the same function for large responses, in small steps."""
    counter: ErrorCounterInSteps = _compile(["    yield", *_lines(kind, "response", 1, step=True)])
    return counter


def _compile(lines: list[str]) -> Any:
    scope: dict[str, Any] = {}
    source = "\n".join(["def count(response, counts):", *lines])
    exec(source, scope)  # noqa: S102 - the source is made of declarations only
    return scope["count"]


def _lines(kind: type[Struct], name: str, depth: int, *, step: bool = False) -> Iterator[str]:
    """The statements for one struct; none if it has no error code."""
    indent = "    " * depth
    for field in kind.SCHEMA.fields:
        value = f"{name}.{field.name}"
        if field.name == _FIELD:
            yield f"{indent}if {value}:"
            yield f"{indent}    counts[{value}] = counts.get({value}, 0) + 1"
        elif isinstance(field.type, ArrayOf) and isinstance(field.type.element, type):
            inner = list(_lines(field.type.element, f"each{depth}", depth + 1, step=step))
            if inner:
                yield f"{indent}for each{depth} in {value} or ():"
                if step:
                    yield f"{indent}    yield"
                yield from inner
        elif isinstance(field.type, type):
            inner = list(_lines(field.type, value, depth + 1, step=step))
            if inner:
                yield f"{indent}if {value} is not None:"
                yield from inner
