"""The fingerprints of strom 0.1.0, so that its versions need no replay.

A version that 0.1.0 created has such a fingerprint. It is compared once, when the version is first
read, and then replaced by a current one: it does not cover functions of other files, decorated ones,
constants of some types, or the content of tables. This code must not change: it must return what 0.1.0
returned.
"""

import ast
import dataclasses
import hashlib
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from strom.pipelines.definitions.view import View
from strom.pipelines.views.syntax import parse


def legacy_fingerprint(view: View) -> str:
    """The fingerprint that 0.1.0 stored for a definition."""
    steps = [_described(step, measured=step is view) for step in view.steps]
    stream = view.stream
    source = [stream.topic, stream.ddl, stream.format, stream.event_time, bool(stream.registry)]
    text = json.dumps([source, steps], sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _described(view: View, *, measured: bool) -> list[Any]:
    keys = [
        key if isinstance(key, str) else [key.name, key.length_us, key.every_us]
        for key in view.keys
    ]
    measures = {
        name: [type(one).__name__, *map(repr, dataclasses.astuple(one))]
        for name, one in (view.folded.items() if measured else ())
    }
    tables = {name: [one.path, one.schema, one.format] for name, one in view.tables.items()}
    prepare = sorted(set(_sources(view.prepare))) if view.prepare else None
    expected = [view.expect_or_drop, view.expect_or_fail]
    row = [dict(view.columns), view.where, tables, prepare, list(view.select), *map(dict, expected)]
    return [keys, measures, *row]


def _sources(function: Callable[..., Any], seen: frozenset[int] = frozenset()) -> Iterator[str]:
    """The source of a function, of what it calls in the user's files, and the constants that it uses."""
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None or id(code) in seen:
        return
    seen |= {id(code)}
    yield _text_of(function, code)
    known = inspect.getclosurevars(function)
    for name, value in {**known.globals, **known.nonlocals}.items():
        if inspect.isfunction(value):
            if value.__module__ == function.__module__:
                yield from _sources(value, seen)
        elif isinstance(value, str | int | float | bool | tuple | list | dict | set | frozenset):
            yield f"{name} = {value!r}"


def _text_of(function: Callable[..., Any], code: CodeType) -> str:
    """A function's source, unparsed from its syntax tree so that layout does not matter."""
    try:
        tree = parse(Path(code.co_filename).read_text("utf-8"))
    except (OSError, SyntaxError):
        return f"{code.co_code.hex()} {code.co_consts!r} {code.co_names!r}"
    texts = [
        ast.unparse(node.body) if isinstance(node, ast.Lambda) else ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda | ast.FunctionDef) and node.lineno == code.co_firstlineno
    ]
    return "\n".join(texts)
