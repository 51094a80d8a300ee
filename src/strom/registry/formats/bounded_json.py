"""Parses untrusted JSON with a limit on its depth, and writes JSON on one line."""

import json
import math
from typing import Any

from strom.registry.formats.schema import InvalidSchema

MAX_DEPTH = 100


def read(text: str) -> Any:
    """Parse a JSON text; rejects everything that cannot be written as JSON again."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError as error:
        raise InvalidSchema("The JSON is nested too deeply.") from error
    except json.JSONDecodeError as error:
        raise InvalidSchema(
            f"The schema is not JSON: {error.msg} (line {error.lineno}, column {error.colno})."
        ) from error
    except ValueError as error:  # Python limits the digits of an integer
        raise InvalidSchema(f"The schema is not JSON: {error}.") from error
    _check_depth(value)
    try:
        write(value).encode()
    except UnicodeEncodeError as error:
        raise InvalidSchema("A string of the schema contains a lone surrogate.") from error
    return value


def write(value: Any, *, sort_keys: bool = False) -> str:
    """A value as JSON on one line, with non-ASCII characters unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} exceeds the range of a double")
    return number


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return
    raise InvalidSchema(f"The JSON is nested more than {MAX_DEPTH} levels deep.")


def _children(value: Any) -> list[Any]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return value
        case _:
            return []
