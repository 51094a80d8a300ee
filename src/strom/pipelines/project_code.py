"""Loads the Python code of a project without Java, and pickles it for Spark's workers.

A worker has neither the project's folder nor its modules. So all modules that were loaded from the folder
are pickled by value.
"""

import contextlib
import io
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from strom.pipelines.definitions.place import own_code
from strom.pipelines.views.syntax import forget_trees, module_tree

MODULE_PREFIX = "strom_project_"
"""The prefix of the names of definition files as modules, to avoid conflicts with libraries."""
_INSTALLED = {"site-packages", "dist-packages"}

_NAMES_BEFORE = {"strom.pipelines.measures.custom": "strom.pipelines.measures.own"}
"""Renamed modules of strom and their names in 0.1.1, to which stored functions and fingerprints refer."""

_loaded_folders: set[Path] = set()
_imported: set[str] = set()
"""The modules that definition files have imported from their folders."""


@contextlib.contextmanager
def loading(folder: Path) -> Iterator[None]:
    """While a definition file runs, it can import files of its folder, and define UDFs without Spark."""
    _loaded_folders.add(folder)
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        with _udfs_without_session():
            yield
    finally:
        sys.path.remove(str(folder))
        own = _project_modules()
        _imported.update({module.__name__ for module in own} - before)
        _ship_by_value(own)
        for module in own:
            module_tree(module.__file__)  # parse now: the file may change before it is compared


def forget_imported() -> None:
    """Forget imported project modules, so that projects loaded later import the current files."""
    for name in _imported:
        sys.modules.pop(name, None)
    _imported.clear()
    forget_trees()


def _ship_by_value(modules: list[ModuleType]) -> None:
    """Register modules with cloudpickle, which Spark uses to send functions."""
    if modules:
        from pyspark import cloudpickle

        for module in modules:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def pickled(functions: Any) -> bytes:
    """Pickle functions with all project code that they use; UDFs without their Java object."""
    from pyspark import cloudpickle
    from pyspark.sql.udf import UserDefinedFunction

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, UserDefinedFunction):
                parts = (
                    value.func,
                    value._returnType,
                    value._name,
                    value.evalType,
                    value.deterministic,
                )
                return UserDefinedFunction, parts
            return super().reducer_override(value)  # type: ignore[no-untyped-call]

    file = io.BytesIO()
    Pickler(file).dump(functions)  # type: ignore[no-untyped-call]
    return file.getvalue()


def unpickled(data: bytes) -> Any:
    """What `pickled` has stored, in this version or an earlier one."""
    names = {before: now for now, before in _NAMES_BEFORE.items()}

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            return super().find_class(names.get(module, module), name)

    return Unpickler(io.BytesIO(data)).load()


def stored_module(name: str) -> str:
    """A module's name in fingerprints, which must not change with it."""
    return _NAMES_BEFORE.get(name, name)


def is_library(file: str) -> bool:
    """Whether a source file belongs to Python, an installed package or strom, not to the user."""
    if own_code(file) or file.startswith("<frozen"):
        return True
    path = Path(file)
    if _INSTALLED.intersection(path.parts):
        return True
    return any(path.is_relative_to(one) for one in _STANDARD_LIBRARY)


_STANDARD_LIBRARY = {
    Path(contextlib.__file__).parent,  # the path in code objects: Homebrew and uv use symlinks
    Path(contextlib.__file__).resolve().parent,
}


def _project_modules() -> list[ModuleType]:
    """The loaded modules of projects' folders."""
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None or name in {"__main__", "__mp_main__"} or module.__name__ != name:
            continue
        if not file.startswith(tuple(map(str, _loaded_folders))):  # cheap, and excludes most
            continue
        if any(_belongs(Path(file), folder) for folder in _loaded_folders) and not is_library(file):
            found.append(module)
    return found


def _belongs(file: Path, folder: Path) -> bool:
    """Whether a file is in the folder, but not in a virtual environment there."""
    if not file.is_relative_to(folder):
        return False
    inner = [one for one in file.parents if one != folder and one.is_relative_to(folder)]
    return not any((one / "pyvenv.cfg").exists() for one in inner)


def load_error(error: Exception) -> str:
    """Why a definition file failed; for a column at module level, also what to do instead."""
    if not _session_missing(error):
        return f"{type(error).__name__}: {error}"
    return (
        "A column (col, lit, expr, …) can be created only while Spark runs, not when the file is "
        "loaded. Create it inside `prepare`, or inside a function that `prepare` calls."
    )


def _session_missing(error: Exception) -> bool:
    if getattr(error, "getCondition", lambda: None)() == "SESSION_OR_CONTEXT_NOT_EXISTS":
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = trace.tb_frame.f_globals.get("__name__", "") if trace else ""
    return isinstance(error, AssertionError) and raised_in.startswith("pyspark.")


@contextlib.contextmanager
def _udfs_without_session() -> Iterator[None]:
    """Allow `@udf("int")` at module level: `strom plan` needs no Java.

    PySpark parses the type in Java as soon as a function is decorated, only to set an attribute. The type
    is parsed again when the function is used.
    """
    try:
        from pyspark import SparkContext
        from pyspark.sql.udf import UserDefinedFunction
    except ImportError:  # SQL views do not need pyspark to be listed
        yield
        return
    parsed: Any = UserDefinedFunction.returnType

    def lazily_parsed(function: Any) -> Any:
        if SparkContext._active_spark_context is None and isinstance(function._returnType, str):
            return function._returnType
        return parsed.fget(function)

    UserDefinedFunction.returnType = property(lazily_parsed)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        UserDefinedFunction.returnType = parsed  # type: ignore[method-assign]
