"""Everything of a project that a function executes or reads, as plain comparable values.

Code counts by its syntax tree, without comments, layout, docstrings and annotations, and never by its
bytecode: a newer Python compiles the same code differently. Values count by content. Installed code
(Python, its packages, strom) counts by name alone: an upgrade is not a change of a definition.
"""

import ast
import contextlib
import dataclasses
import enum
import functools
import sys
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from strom.model.errors import UserError
from strom.pipelines.project_code import is_library, stored_module
from strom.pipelines.views.syntax import (
    canonical,
    class_node,
    code_children,
    function_node,
    module_tree,
)
from strom.pipelines.views.values import plain_value

Plain = Any
"""The values of JSON."""


class CannotBeCompared(UserError):
    """A value or function whose changes cannot be detected."""


_as_loaded: "weakref.WeakKeyDictionary[Any, Plain]" = weakref.WeakKeyDictionary()


def remember(function: Any) -> None:
    """Compare a function from now on by what it reaches now, when its file has been loaded.

    Executing it may fill caches and import modules, which does not change the definition.
    """
    with contextlib.suppress(CannotBeCompared, TypeError):  # TypeError: no weak references
        _as_loaded[function] = _CodeWalk().value(function, "prepare")


def reached(function: Any) -> Plain:
    """A function and all that it reaches; CannotBeCompared names what cannot be compared."""
    with contextlib.suppress(KeyError, TypeError):
        return _as_loaded[function]
    return _CodeWalk().value(function, "prepare")


class _CodeWalk:
    """Walks from value to value, each function and class once."""

    def __init__(self, within: Iterable[int] = ()) -> None:
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []  # keeps objects alive, so that no id is reused
        self._within = list(within)

    def value(self, value: Any, name: str) -> Plain:
        """Any value, found under a name."""
        if (plain := plain_value(value)) is not None:
            return plain
        if isinstance(value, ModuleType):
            return self._module(value)
        if isinstance(value, type | FunctionType):
            if id(value) in self._known:
                return ["again", self._known[id(value)]]
            self._known[id(value)] = len(self._known)
            self._kept.append(value)
            return (
                self._class(value, name) if isinstance(value, type) else self._function(value, name)
            )
        if id(value) in self._within:
            return ["circle", len(self._within) - self._within.index(id(value))]
        self._within.append(id(value))
        try:
            return self._compound(value, name)
        finally:
            self._within.pop()

    def _compound(self, value: Any, name: str) -> Plain:
        if isinstance(value, enum.Enum):
            return ["enum", self.value(type(value), name), value.name]
        if isinstance(value, list | tuple | set | frozenset | dict | types.MappingProxyType):
            return self._container(value, name)
        if isinstance(value, functools.partial):
            parts = (value.func, value.args, value.keywords)
            return ["partial", *(self.value(one, name) for one in parts)]
        if isinstance(value, types.MethodType):
            return ["method", value.__name__, self.value(value.__self__, name)]
        if isinstance(value, staticmethod | classmethod):
            return ["method", self.value(value.__func__, name)]
        if isinstance(value, property):
            return ["property", *(self.value(one, name) for one in (value.fget, value.fset))]
        if isinstance(value, _OF_PYTHON):
            bound = getattr(value, "__self__", None)  # such as the dict of a `RATES.get`
            return ["library", value.__qualname__, self.value(bound, name)]
        return self._instance(value, name)

    def _container(self, value: Any, name: str) -> Plain:
        parts: list[Plain] = []
        if isinstance(value, dict | types.MappingProxyType):
            parts = self._pairs(value.items(), name)
        else:
            if isinstance(value, set | frozenset):
                value_parts = sorted(value, key=lambda one: self._order(one, name))
            else:
                value_parts = list(value)
            parts = [self.value(one, f"{name}[…]") for one in value_parts]
        kind = type(value)
        if _of_library(kind):
            return [kind.__name__, *parts]
        if hasattr(value, "_fields"):  # created by namedtuple(): such a class has no source
            return [kind.__name__, list(value._fields), *parts]
        state = self._pairs(getattr(value, "__dict__", {}).items(), name)
        return [self.value(kind, name), parts, state]

    def _pairs(self, items: Iterable[tuple[Any, Any]], name: str) -> list[Plain]:
        """Sorted by keys: a dict may be built from a set, whose order differs between processes."""
        ordered = sorted(items, key=lambda pair: self._order(pair[0], name))
        return [
            [self.value(key, name), self.value(one, f"{name}[{key!r}]")] for key, one in ordered
        ]

    def _order(self, value: Any, name: str) -> str:
        """The sort key of a value, independent of the values before it."""
        plain = plain_value(value)
        return repr(_CodeWalk(self._within).value(value, name) if plain is None else plain)

    def _instance(self, value: Any, name: str) -> Plain:
        kind = type(value)
        if _is_udf(value):
            return self._udf(value, name)
        if wrapped := getattr(value, "__wrapped__", None):  # such as functools.cache
            return ["wrapped", kind.__qualname__, self.value(wrapped, name)]
        if _of_library(kind):
            return self._of_library(value, name)
        state = {**getattr(value, "__dict__", {})}
        for one in (slot for base in kind.__mro__ for slot in getattr(base, "__slots__", ())):
            if hasattr(value, one):
                state[one] = getattr(value, one)
        return ["object", self.value(kind, name), *self._pairs(state.items(), name)]

    def _of_library(self, value: Any, name: str) -> Plain:
        """A library's object, by what it would be rebuilt from."""
        kind = type(value)
        known = f"{stored_module(kind.__module__)}.{kind.__qualname__}"
        if kind.__module__.startswith(("pyspark.sql", "py4j", "threading", "_thread", "_io")):
            raise _cannot(name, value)
        if dataclasses.is_dataclass(value):
            fields = [one.name for one in dataclasses.fields(value) if one.compare]
            pairs = [(one, getattr(value, one)) for one in fields]
            return ["object", known, *self._pairs(pairs, name)]
        try:
            rebuilt = value.__reduce_ex__(2)
        except Exception:  # noqa: BLE001 - objects may raise anything here
            raise _cannot(name, value) from None
        if isinstance(rebuilt, str):
            return ["library", stored_module(kind.__module__), rebuilt]
        _, arguments, *state = rebuilt
        state = [list(one) if isinstance(one, Iterator) else one for one in state]
        return ["object", known, *(self.value(one, name) for one in (arguments, *state))]

    def _udf(self, value: Any, name: str) -> Plain:
        declared = getattr(value, "_unwrapped", value)._returnType
        kind = declared if isinstance(declared, str) else declared.simpleString()
        # By row, or by row in Arrow batches: which one depends on whether Spark is already running.
        by = "row" if value.evalType in _BY_ROW else value.evalType
        return ["udf", kind, by, value.deterministic, self.value(value.func, name)]

    def _function(self, function: FunctionType, name: str) -> Plain:
        code = function.__code__
        if _is_udf(function):
            return self._udf(function, name)
        wrapped = [self.value(one, name) for one in _wrapped(function)]
        captured = dict(zip(code.co_freevars, _contents(function), strict=False))
        if is_library(code.co_filename):
            # A library's decorator holds the functions that it was applied to.
            inner = [one for one in captured.values() if isinstance(one, FunctionType | type)]
            parts = [self.value(one, name) for one in inner]
            module = stored_module(function.__module__)
            return ["library", module, function.__qualname__, *wrapped, *parts]
        node = function_node(code)
        if node is None:
            raise _without_source(function.__qualname__, name)
        defaults = [function.__defaults__, function.__kwdefaults__]
        return [
            "function",
            canonical(node),
            *(self.value(one, name) for one in defaults),
            *self._pairs(captured.items(), name),
            *self._names(node, function.__globals__, code),
            *wrapped,
        ]

    def _class(self, kind: type, name: str) -> Plain:
        if _of_library(kind):
            return ["library", stored_module(kind.__module__), kind.__qualname__]
        module = sys.modules.get(kind.__module__)
        scope = vars(module) if module else _globals_of(kind)
        node = class_node(kind, scope.get("__file__"))
        if node is None:
            return self._class_made_by_call(kind, name)
        bases = [self.value(one, name) for one in kind.__bases__]
        attributes = sorted([one, plain_value(value)] for one, value in _plain_attributes(kind))
        return ["class", canonical(node), *bases, attributes, *self._names(node, scope, None)]

    def _class_made_by_call(self, kind: type, name: str) -> Plain:
        """A class of namedtuple(…) or Enum(…), which has no definition in the source."""
        if issubclass(kind, enum.Enum):
            members = {one: member.value for one, member in kind.__members__.items()}
            return ["enum class", kind.__qualname__, *self._pairs(members.items(), name)]
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            defaults = self._pairs(getattr(kind, "_field_defaults", {}).items(), name)
            return ["namedtuple", kind.__qualname__, list(kind._fields), *defaults]
        raise _without_source(f"class {kind.__qualname__}", name)

    def _names(
        self, node: ast.AST, scope: Mapping[str, Any], code: CodeType | None
    ) -> Iterator[Plain]:
        """What the names in a piece of code refer to, outside it."""
        local = {*code.co_varnames, *code.co_freevars, *code.co_cellvars} if code else set()
        for dotted in sorted(_dotted_names(node)):
            first, *rest = dotted
            if first in local or first not in scope:
                continue
            found, path = scope[first], first
            while isinstance(found, ModuleType) and not _is_library_module(found) and rest:
                path = f"{path}.{rest[0]}"
                found = getattr(found, rest.pop(0), None)
            yield [path, self.value(found, path)]
        for module, names in sorted(_local_imports(node)):
            yield from self._imported(module, names, scope)

    def _imported(
        self, module: str, names: tuple[str, ...], scope: Mapping[str, Any]
    ) -> Iterator[Plain]:
        """What a function imports itself."""
        found = sys.modules.get(module)
        if found is None:
            beside = Path(str(scope.get("__file__", ""))).with_name(
                f"{module.replace('.', '/')}.py"
            )
            if (tree := module_tree(str(beside))) is not None:
                yield [module, canonical(tree)]
        elif not _is_library_module(found):
            for name in names:
                yield [f"{module}.{name}", self.value(getattr(found, name, None), name)]
            if not names:
                yield [module, self._module(found)]

    def _module(self, module: ModuleType) -> Plain:
        """A module that is used as a whole: all its source."""
        if _is_library_module(module):
            return ["library", module.__name__]
        if (tree := module_tree(module.__file__)) is None:
            raise _without_source(f"module {module.__name__}", module.__name__)
        if id(module) in self._known:
            return ["again", self._known[id(module)]]
        self._known[id(module)] = len(self._known)
        return ["module", canonical(tree), *self._names(tree, vars(module), None)]


_BY_ROW = (100, 101)
"""PySpark's SQL_BATCHED_UDF and SQL_ARROW_BATCHED_UDF."""
_OF_PYTHON = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
)


def _cannot(name: str, value: Any) -> CannotBeCompared:
    return CannotBeCompared(
        f"`prepare` uses {name}, a {type(value).__qualname__}, whose changes cannot be detected. "
        "Use a plain value (numbers, strings, dates, lists, dicts, dataclasses), or create it inside the "
        "function."
    )


def _without_source(what: str, name: str) -> CannotBeCompared:
    return CannotBeCompared(
        f"The source of {what} ({name}) is not in a file, so its changes cannot be detected. "
        "Define it in views.py or in a module beside it."
    )


def _is_udf(value: Any) -> bool:
    """A UDF of PySpark, or the function that its decorator returns."""
    unwrapped = getattr(value, "_unwrapped", value)
    return type(unwrapped).__name__ == "UserDefinedFunction" and hasattr(unwrapped, "evalType")


def _wrapped(function: FunctionType) -> list[Any]:
    return [function.__wrapped__] if hasattr(function, "__wrapped__") else []


def _contents(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            yield None


def _of_library(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return module is not None and _is_library_module(module)


def _is_library_module(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is None or is_library(file)


def _plain_attributes(kind: type) -> Iterator[tuple[str, Any]]:
    """What a class body may have computed, such as a rate read from a file."""
    for name, value in vars(kind).items():
        of_python = name.startswith("_") and name.endswith("_")
        if not of_python and plain_value(value) is not None:
            yield name, value


def _globals_of(kind: type) -> Mapping[str, Any]:
    """The scope of a class whose module no longer exists, as after unpickling."""
    functions = [one for one in vars(kind).values() if isinstance(one, FunctionType)]
    return functions[0].__globals__ if functions else {}


def _dotted_names(node: ast.AST) -> set[tuple[str, ...]]:
    """The names that are read, each with the attributes that are accessed."""
    found: set[tuple[str, ...]] = set()

    def visit(one: ast.AST) -> None:
        path: list[str] = []
        inner: ast.AST = one
        while isinstance(inner, ast.Attribute):
            path.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            if isinstance(inner.ctx, ast.Load):
                found.add((inner.id, *reversed(path)))
        elif path:
            visit(inner)
        else:
            for child in code_children(one):
                visit(child)

    visit(node)
    return found


def _local_imports(node: ast.AST) -> set[tuple[str, tuple[str, ...]]]:
    found: set[tuple[str, tuple[str, ...]]] = set()
    if isinstance(node, ast.Module):  # a module's imports are among its names
        return found
    for one in ast.walk(node):
        if isinstance(one, ast.Import):
            found |= {(alias.name, ()) for alias in one.names}
        elif isinstance(one, ast.ImportFrom) and one.module:
            found.add((one.module, tuple(sorted(alias.name for alias in one.names))))
    return found
