"""Syntax trees of functions and classes: located by their code, and made comparable."""

import ast
import functools
import gc
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

_Definition = ast.FunctionDef | ast.AsyncFunctionDef
_IGNORED = {"annotation", "returns", "type_comment", "kind", "type_params", "ctx"}
"""Fields that have no effect on execution, or that other versions of Python add to the tree."""


def parse(source: bytes | str) -> ast.Module:
    """`ast.parse` without garbage collection.

    The finalizer of a failed future logs a traceback, for which Python 3.11 parses the line: within
    another call that is a SystemError (CPython gh-106905).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_enabled:
            gc.enable()


@functools.cache
def module_tree(file: str | None) -> ast.Module | None:
    """The tree of a file as of its first use, until `forget_trees`."""
    try:
        return parse(Path(file or "").read_bytes())  # bytes, so that Python detects the encoding
    except (OSError, SyntaxError, ValueError):
        return None


def forget_trees() -> None:
    """Clear the cache, because a project is loaded again."""
    module_tree.cache_clear()


def function_node(code: CodeType) -> ast.AST | None:
    """The definition that a code object was compiled from; None if its file does not contain it."""
    tree = module_tree(code.co_filename)
    if tree is None:
        return None
    if code.co_name != "<lambda>":
        for node in ast.walk(tree):
            if isinstance(node, _Definition) and node.name == code.co_name:
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                if first == code.co_firstlineno:
                    return node
        return None
    starting = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
    ]
    around = [node for node in starting if _covers(node, code)]
    if around and any(None not in position for position in code.co_positions()):
        # Of nested lambdas, the innermost that contains all of the code.
        return min(around, key=_size)
    # Without positions (-X no_debug_ranges), all lambdas of the line count.
    return ast.Tuple(elts=list(starting)) if starting else None


def code_children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a tree that are executed, without annotations."""
    for name, value in ast.iter_fields(node):
        if name not in _IGNORED:
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, ast.AST):
                    yield one


def class_node(kind: type, file: str | None) -> ast.ClassDef | None:
    """The definition of a class; None if its file does not contain it."""
    tree = module_tree(file)
    if tree is None:
        return None
    wanted = kind.__qualname__.replace(".<locals>", "")
    return next((node for name, node in _classes(tree, "") if name == wanted), None)


def canonical(node: Any) -> Any:
    """A tree as lists: no positions, no docstrings, no annotations, no empty fields."""
    if isinstance(node, ast.AnnAssign):
        if node.value is None:
            return ["Pass"]
        return canonical(ast.Assign(targets=[node.target], value=node.value))
    if isinstance(node, ast.AST):
        fields = [
            [name, canonical(_without_docstring(node, name, value))]
            for name, value in ast.iter_fields(node)
            if name not in _IGNORED and value is not None and value != []
        ]
        return [type(node).__name__, *sorted(fields, key=lambda field: str(field[0]))]
    if isinstance(node, list):
        return [canonical(one) for one in node]
    return [type(node).__name__, repr(node)]


def _without_docstring(node: ast.AST, name: str, value: Any) -> Any:
    documented = isinstance(node, _Definition | ast.ClassDef | ast.Module) and name == "body"
    if not documented or not value or not isinstance(value[0], ast.Expr):
        return value
    first = value[0].value
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return value[1:]
    return value


def _classes(node: ast.AST, outer: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for child in ast.iter_child_nodes(node):
        name = outer
        if isinstance(child, _Definition | ast.ClassDef):
            name = f"{outer}.{child.name}".lstrip(".")
            if isinstance(child, ast.ClassDef):
                yield name, child
        yield from _classes(child, name)


def _covers(node: ast.Lambda, code: CodeType) -> bool:
    """Whether all instructions of a code object are within a lambda's body."""
    start, end = (node.body.lineno, node.body.col_offset), _end(node.body)
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None:
            continue
        if (line, column) == (end_line, end_column):  # the entry of a function has no source
            continue
        if not (start <= (line, column) and (end_line, end_column) <= end):
            return False
    return True


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or 0, node.end_col_offset or 0


def _size(node: ast.expr) -> tuple[int, int]:
    last, column = _end(node)
    return last - node.lineno, column - node.col_offset
